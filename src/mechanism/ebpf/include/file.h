/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Which file the data of a block request are of: for what goes through the page cache, whose pages know it. */
#pragma once
#include "block.h"

#define FILE_NAME 32
#define ON_DEVICE (1ULL << 32) /* not of a file: the file system's own data, or those of a program that reads the device */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct super_block___disk {
	void *s_bdev;
	u32 s_dev;
};
struct list_of_names {
	void *first;
};
struct in_list_of_names {
	void *next;
};
struct address_space___page {
	struct inode___page *host;
};
struct inode___page {
	unsigned short i_mode;
	struct super_block___disk *i_sb;
	struct address_space___page i_data;
	unsigned long i_ino;
	struct list_of_names i_dentry;
};
struct qstr___page {
	const unsigned char *name;
};
struct dentry___page {
	struct qstr___page d_name;
	union {
		struct in_list_of_names d_alias;
	} d_u;
};
struct page___file {
	struct address_space___page *mapping;
	unsigned long compound_head;
};
struct bvec_iter___file {
	unsigned int bi_idx;
};
struct bio___file {
	struct bvec_iter___file bi_iter;
	struct bio_vec___file *bi_io_vec;
};
struct request___bio {
	struct bio___file *bio;
};
#pragma clang attribute pop
struct bio_vec___file {
	struct page___file *bv_page;
	u32 length;
	u32 offset;
};

#define TYPE_BITS 0170000
#define BLOCK_DEVICE 0060000

/* The inode whose page the request's data begin in; none for data that are no file's: direct I/O comes from a program's
 * own memory. */
static __always_inline struct inode___page *inode_of(struct request *of)
{
	struct request___bio *rq = (void *)of;
	struct bio___file *bio = BPF_CORE_READ(rq, bio);
	struct bio_vec___file piece = {};

	if (!bio)
		return NULL;
	/* What was split off a larger one begins further behind. */
	struct bio_vec___file *pieces = BPF_CORE_READ(bio, bi_io_vec);
	bpf_probe_read_kernel(&piece, sizeof(piece), pieces + (BPF_CORE_READ(bio, bi_iter.bi_idx) & 0xffff));
	struct page___file *page = piece.bv_page;
	if (!page)
		return NULL;
	/* Of pages that belong together only the first knows the file. */
	if (bpf_core_field_exists(page->compound_head)) {
		u64 head = BPF_CORE_READ(page, compound_head);
		if (head & 1)
			page = (void *)(head - 1);
	}
	struct address_space___page *mapping = BPF_CORE_READ(page, mapping);
	if (!mapping || (u64)mapping & 3)
		return NULL;
	/* Other uses of a page have something else there, and that does not lead to an inode which leads back. */
	struct inode___page *inode = BPF_CORE_READ(mapping, host);
	return inode && (u64)inode + bpf_core_field_offset(inode->i_data) == (u64)mapping ? inode : NULL;
}

/* Number and file system of the file; 0 and ON_DEVICE for the device itself; 0 and 0 if it is not known. */
static __always_inline void identify(struct inode___page *inode, u64 *file)
{
	if ((BPF_CORE_READ(inode, i_mode) & TYPE_BITS) == BLOCK_DEVICE) {
		file[1] = ON_DEVICE;
		return;
	}
	struct super_block___disk *super = BPF_CORE_READ(inode, i_sb);
	/* Shared memory that somebody reads a disk into has no disk itself. */
	if (!super || !BPF_CORE_READ(super, s_bdev))
		return;
	file[0] = BPF_CORE_READ(inode, i_ino);
	file[1] = BPF_CORE_READ(super, s_dev);
}

/* Its last name that somebody looked up, without the folder. */
static __always_inline void read_name(struct inode___page *inode, char *name)
{
	void *alias = BPF_CORE_READ(inode, i_dentry.first);

	if (!alias)
		return;
	struct dentry___page *dentry = alias - bpf_core_field_offset(struct dentry___page, d_u.d_alias);
	bpf_probe_read_kernel_str(name, FILE_NAME, BPF_CORE_READ(dentry, d_name.name));
}
