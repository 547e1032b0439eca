/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Pages of files in memory: of which file each is, and where in it. */
#pragma once
#include "folio.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inode___cached {
	unsigned short i_mode;
};
struct address_space___cached {
	struct inode___cached *host;
};
struct folio___cached {
	struct address_space___cached *mapping;
	unsigned long index;
};
/* Before 5.16. */
struct page___cached {
	struct address_space___cached *mapping;
	unsigned long index;
};
#pragma clang attribute pop
