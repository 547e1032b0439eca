/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Open files, their inodes, directory entries, mounts and file systems. */
#pragma once
#include "descriptors.h"
#include "syscall.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct file_system_type___op {
	const char *name;
};
struct super_block___op {
	u32 s_dev;
	unsigned long s_magic;
	struct file_system_type___op *s_type;
};
struct address_space___op {
	unsigned long nrpages;
};
struct inode___op {
	unsigned short i_mode;
	struct address_space___op *i_mapping;
	unsigned long i_ino;
	struct super_block___op *i_sb;
};
struct qstr___op {
	const unsigned char *name;
};
struct dentry___op {
	struct dentry___op *d_parent;
	struct qstr___op d_name;
	struct inode___op *d_inode;
};
struct vfsmount___op {
	struct dentry___op *mnt_root;
};
struct mount___op {
	struct mount___op *mnt_parent;
	struct dentry___op *mnt_mountpoint;
	struct vfsmount___op mnt;
};
struct path___op {
	struct vfsmount___op *mnt;
	struct dentry___op *dentry;
};
struct file___op {
	struct path___op f_path;
	struct inode___op *f_inode;
	unsigned int f_flags;
	s64 f_pos;
};
#pragma clang attribute pop

#define TYPE_BITS 0170000
#define REGULAR 0100000
#define DIRECTORY 0040000

static __always_inline void read_type(struct inode___op *inode, u64 *type)
{
	bpf_probe_read_kernel_str(type, 16, BPF_CORE_READ(inode, i_sb, s_type, name));
}

/* Helpers that are there or not; the numbers are the kernel's own. */
enum bpf_func_id___op {
	BPF_FUNC_get_current_task_btf___op = 158,
};

/* The open file of a descriptor. What a program of a BTF tracepoint can walk itself, where the kernel lets it (5.11), costs a fraction of
 * having it read. */
static __always_inline struct file___op *file_of(u32 fd, const bool direct)
{
	struct file___op *file = NULL;
	void **files;
	u32 count;

	if (direct && bpf_core_enum_value_exists(enum bpf_func_id___op, BPF_FUNC_get_current_task_btf___op)) {
		struct task_struct___files *task = (void *)bpf_get_current_task_btf();
		struct fdtable *table = task->files->fdt;
		count = table->max_fds;
		files = table->fd;
	} else {
		struct task_struct___files *task = (void *)bpf_get_current_task();
		struct fdtable *table = BPF_CORE_READ(task, files, fdt);
		count = BPF_CORE_READ(table, max_fds);
		files = BPF_CORE_READ(table, fd);
	}
	if (fd < count)
		bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}
