/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Where a task keeps the open files that its descriptors stand for. Programs describe such a file each by what they read
 * of it, so the table has pointers to no type. */
#pragma once
#include "rdiag.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct fdtable {
	unsigned int max_fds;
	void **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct task_struct___files {
	struct files_struct *files;
};
#pragma clang attribute pop
