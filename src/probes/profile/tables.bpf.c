// SPDX-License-Identifier: MIT OR Apache-2.0
/* The same samples with what user stacks can be walked by, for `unwind=tables`: a program of its own, so that others have nothing of it. */
#define TABLES
#include "profile.bpf.c"
