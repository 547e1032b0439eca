// SPDX-License-Identifier: MIT OR Apache-2.0
/* What is read and written, by process and file, or by directory. */
#include "filepath.h"

const volatile u32 by_directory = 0;

struct file {
	u64 tgid; /* 0 for directories: whoever used it */
	u64 number; /* of the inode */
	u64 device; /* of the file system */
};

struct use {
	u64 reads;
	u64 bytes_read;
	u64 writes;
	u64 bytes_written;
	u64 took; /* ns */
	char comm[16];
	u64 type[2];
	struct parts parts;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct file);
	__type(value, struct use);
} uses SEC(".maps");

/* What new entries begin as; nobody writes here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct use);
} unused SEC(".maps");

static __always_inline void name_use(struct use *use, struct dentry___op *dentry, struct path___op *path,
				     struct inode___op *inode)
{
	if (!by_directory)
		read_process_name(use->comm);
	read_type(inode, use->type);
	read_path(dentry, BPF_CORE_READ(path, mnt), &use->parts);
}

static __always_inline void done(const struct operation *op, const bool direct)
{
	struct path___op *path = op->path;
	struct dentry___op *dentry = READ(path, dentry);
	struct inode___op *inode = op->inode;
	struct file file = {};
	u32 zero = 0;

	/* Nothing else is attached; older kernels refuse what the compiler would make of it. */
	if (op->kind > OP_WRITE)
		return;
	if (by_directory) {
		dentry = READ(dentry, d_parent);
		inode = READ(dentry, d_inode);
	} else {
		file.tgid = bpf_get_current_pid_tgid() >> 32;
	}
	struct super_block___op *super = READ(inode, i_sb);
	file.number = READ(inode, i_ino);
	file.device = READ(super, s_dev);
	struct use *use = bpf_map_lookup_elem(&uses, &file);
	if (!use) {
		struct use *fresh = bpf_map_lookup_elem(&unused, &zero);
		if (!fresh)
			return;
		long is_known = bpf_map_update_elem(&uses, &file, fresh, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&uses, &file);
		if (!use) {
			lose(0);
			return;
		}
		if (!is_known)
			name_use(use, dentry, path, inode);
	}
	u64 bytes = op->result > 0 ? op->result : 0;
	if (op->kind == OP_READ) {
		__sync_fetch_and_add(&use->reads, 1);
		__sync_fetch_and_add(&use->bytes_read, bytes);
	} else {
		__sync_fetch_and_add(&use->writes, 1);
		__sync_fetch_and_add(&use->bytes_written, bytes);
	}
	__sync_fetch_and_add(&use->took, op->took);
}
