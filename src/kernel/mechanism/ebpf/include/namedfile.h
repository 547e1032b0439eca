/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Open files, and what each is called in its folder. */
#pragma once
#include "descriptors.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct qstr {
	const unsigned char *name;
};
struct dentry {
	struct qstr d_name;
};
struct path {
	struct dentry *dentry;
};
struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};
#pragma clang attribute pop
