/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Which file the data of a block request are of: for what goes through the page cache, whose pages know it, and for direct
 * I/O where the kernel's iomap does it (ext4, XFS and others), which notes the open file with the request. */
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
	struct in_list_of_names d_alias;
};
/* Up to 6.18 at least, when the union that it is in had a name. */
struct dentry___union {
	union {
		struct in_list_of_names d_alias;
	} d_u;
};
struct page___file {
	struct address_space___page *mapping;
	unsigned long compound_info;
};
/* Up to 6.18 at least. */
struct page___head {
	unsigned long compound_head;
};
struct file___direct {
	struct inode___page *f_inode;
	struct address_space___page *f_mapping;
};
struct kiocb___direct {
	struct file___direct *ki_filp;
};
struct iomap_dio___file {
	struct kiocb___direct *iocb;
};
struct bvec_iter___file {
	unsigned int bi_idx;
};
struct bio___file {
	struct bvec_iter___file bi_iter;
	struct bio_vec___file *bi_io_vec;
	void *bi_private;
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

/* 0 where the kernel's types are not these: without files the rest of a program can still be loaded. */
const volatile u32 with_files = 1;

#define TYPE_BITS 0170000
#define BLOCK_DEVICE 0060000

/* Masks have all bits set down to the size of what they select; no page's description lies so near to the top. */
#define LOWEST_MASK (-1UL << 32)

/* Of pages that belong together only the first knows the file. The others hold its address, or on newer kernels a mask that makes
 * theirs to its, where the size of such a description is a power of two; the lowest bit tells these from the first one. */
static __always_inline struct page___file *first_page(struct page___file *page)
{
	struct page___head *old = (void *)page;
	u64 info = 0;

	if (bpf_core_field_exists(page->compound_info))
		info = BPF_CORE_READ(page, compound_info);
	else if (bpf_core_field_exists(old->compound_head))
		info = BPF_CORE_READ(old, compound_head);
	if (!(info & 1))
		return page;
	return (void *)(info >= LOWEST_MASK ? (u64)page & info : info - 1);
}

/* Whether an address leads to the pages of an inode, which lead back to it. */
static __always_inline struct inode___page *owner_of_pages(struct address_space___page *mapping)
{
	if (!mapping || (u64)mapping & 3)
		return NULL;
	/* Other uses of a page have something else there, and that does not lead to an inode which leads back. */
	struct inode___page *inode = BPF_CORE_READ(mapping, host);
	return inode && (u64)inode + bpf_core_field_offset(inode->i_data) == (u64)mapping ? inode : NULL;
}

/* The inode whose page the request's data begin in. */
static __always_inline struct inode___page *inode_of_page(struct bio___file *bio)
{
	struct bio_vec___file piece = {};
	/* What was split off a larger one begins further behind. */
	struct bio_vec___file *pieces = BPF_CORE_READ(bio, bi_io_vec);

	bpf_probe_read_kernel(&piece, sizeof(piece), pieces + (BPF_CORE_READ(bio, bi_iter.bi_idx) & 0xffff));
	if (!piece.bv_page)
		return NULL;
	return owner_of_pages(BPF_CORE_READ(first_page(piece.bv_page), mapping));
}

/* The inode that direct I/O is of. Others keep something else at that place, from where no way leads to an open file whose
 * inode and pages lead to each other. */
static __always_inline struct inode___page *inode_of_direct(struct bio___file *bio)
{
	struct iomap_dio___file *io = BPF_CORE_READ(bio, bi_private);

	if (!io || !bpf_core_field_exists(io->iocb))
		return NULL;
	struct file___direct *file = BPF_CORE_READ(io, iocb, ki_filp);
	struct inode___page *inode = owner_of_pages(BPF_CORE_READ(file, f_mapping));
	return inode && BPF_CORE_READ(file, f_inode) == inode ? inode : NULL;
}

/* The inode of a request's data; none for data that are known to be no file's. */
static __always_inline struct inode___page *inode_of(struct request *of)
{
	struct request___bio *rq = (void *)of;
	struct bio___file *bio = BPF_CORE_READ(rq, bio);

	if (!bio)
		return NULL;
	struct inode___page *inode = inode_of_page(bio);
	if (!inode)
		inode = inode_of_direct(bio);
	/* What was split off leads to what is left. */
	if (!inode)
		inode = inode_of_direct(BPF_CORE_READ(bio, bi_private));
	return inode;
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
	struct dentry___page *dentry;
	if (bpf_core_field_exists(struct dentry___page, d_alias))
		dentry = alias - bpf_core_field_offset(struct dentry___page, d_alias);
	else
		dentry = alias - bpf_core_field_offset(struct dentry___union, d_u.d_alias);
	bpf_probe_read_kernel_str(name, FILE_NAME, BPF_CORE_READ(dentry, d_name.name));
}
