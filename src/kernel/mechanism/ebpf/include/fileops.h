/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Operations on files as their callers see them: reading, writing, opening, syncing; how long each took, and of which file it was.
 * The program that includes this defines done().
 *
 * Best seen at the functions of the kernel's common layer of all file systems (VFS), at entry and return; fsync at the functions of
 * its system calls, since compilers build a copy of vfs_fsync_range() into these. Where functions cannot be hooked, at the
 * events of all system calls, whose file is found from the descriptor. See file_ops.rs. */
#pragma once
#include "lost.h"
#include "vfs.h"

enum { OP_READ, OP_WRITE, OP_OPEN, OP_FSYNC, OPERATIONS };

/* Only file systems of the type of this name; none: all. */
const volatile u64 filter_type[2] = {};

/* Operations that took less are none of the program's business, ns: finding their file would cost more than all else. */
const volatile u64 threshold = 0;

/* Which operation a system call is, by its number: position + 1; 0 is none. */
const volatile u8 call_kinds[CALLS] = {};

struct operation {
	u32 kind;
	u64 at; /* its end */
	u64 took; /* ns */
	s64 result;
	struct path___op *path;
	struct inode___op *inode;
	void *offset_at; /* where the place in the file stands; NULL: the place does not matter, or is not known */
};

/* What the program makes of an operation that has ended. */
static __always_inline void done(const struct operation *op, const bool direct);

/* A file system that stands on another one calls itself again, so a thread alone does not tell operations apart. */
struct begun {
	u32 tid;
	u32 kind;
	u64 of;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct begun);
	__type(value, u64);
} begun SEC(".maps");

/* Pipes, sockets and devices have no file system that could be slow: whoever reads them waits for somebody else. */
static __always_inline bool inode_wanted(struct inode___op *inode, const bool direct)
{
	if (!inode)
		return false;
	u16 kind = READ(inode, i_mode) & TYPE_BITS;
	if (kind != REGULAR && kind != DIRECTORY)
		return false;
	if (!filter_type[0])
		return true;
	u64 type[2] = {};
	read_type(inode, type);
	return type[0] == filter_type[0] && type[1] == filter_type[1];
}

static __always_inline void begins(u32 kind, u64 of)
{
	struct begun key = { .tid = bpf_get_current_pid_tgid(), .kind = kind, .of = of };
	u64 now = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&begun, &key, &now, BPF_ANY))
		lose(0);
}

/* Whether its beginning was seen, long enough ago; then all but the file is filled in. */
static __always_inline bool ends(struct operation *op, u32 kind, u64 of, s64 result)
{
	struct begun key = { .tid = bpf_get_current_pid_tgid(), .kind = kind, .of = of };
	u64 *since = bpf_map_lookup_elem(&begun, &key);

	if (!since)
		return false;
	op->kind = kind;
	op->at = bpf_ktime_get_ns();
	op->took = op->at - *since;
	op->result = result;
	bpf_map_delete_elem(&begun, &key);
	return op->took >= threshold;
}

/* Which file it was of. */
static __always_inline void of_file(struct operation *op, struct file___op *file, const bool direct)
{
	op->path = &file->f_path;
	op->inode = READ(file, f_inode);
}

static __always_inline bool file_wanted(struct file___op *file, const bool direct)
{
	return inode_wanted(READ(file, f_inode), direct);
}

/* Functions that get the open file first. */
#define AT_FUNCTION(function, kind, result)                                                                            \
	SEC("fentry/" #function) int function##_fentry(u64 *ctx)                                                       \
	{                                                                                                              \
		if (current_wanted() && file_wanted((void *)ctx[0], true))                                             \
			begins(kind, ctx[0]);                                                                          \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("fexit/" #function) int function##_fexit(u64 *ctx)                                                         \
	{                                                                                                              \
		struct operation op = {};                                                                              \
                                                                                                                       \
		if (!ends(&op, kind, ctx[0], ctx[result]))                                                             \
			return 0;                                                                                      \
		of_file(&op, (void *)ctx[0], true);                                                                    \
		op.offset_at = ctx + 3;                                                                                \
		if (op.inode)                                                                                          \
			done(&op, true);                                                                               \
		return 0;                                                                                              \
	}

AT_FUNCTION(vfs_read, OP_READ, 4)
AT_FUNCTION(vfs_readv, OP_READ, 5)
AT_FUNCTION(vfs_write, OP_WRITE, 4)
AT_FUNCTION(vfs_writev, OP_WRITE, 5)

/* Opening begins with a name, and what is opened is known at the end. */
static __always_inline int opened(u64 *ctx)
{
	struct operation op = {};

	if (!ends(&op, OP_OPEN, ctx[1], 0) || is_error(ctx[3]))
		return 0;
	of_file(&op, (void *)ctx[3], true);
	if (inode_wanted(op.inode, true))
		done(&op, true);
	return 0;
}

#define AT_OPENING(function)                                                                                           \
	SEC("fentry/" #function) int function##_fentry(u64 *ctx)                                                       \
	{                                                                                                              \
		if (current_wanted())                                                                                  \
			begins(OP_OPEN, ctx[1]);                                                                       \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("fexit/" #function) int function##_fexit(u64 *ctx) { return opened(ctx); }

AT_OPENING(do_filp_open)
AT_OPENING(do_file_open) /* its name on newer kernels */

/* A call whose file is that of a descriptor. */
static __always_inline void call_begins(u32 kind, u32 fd, const bool direct)
{
	struct file___op *file = file_of(fd, direct);

	if (file && file_wanted(file, false))
		begins(kind, 0);
}

static __always_inline void call_ends(u32 kind, u32 fd, s64 result, const bool direct)
{
	struct operation op = {};

	if (!ends(&op, kind, 0, result))
		return;
	struct file___op *file = file_of(fd, direct);
	if (!file)
		return;
	of_file(&op, file, false);
	if (inode_wanted(op.inode, false))
		done(&op, false);
}

#define AT_SYNC(function)                                                                                              \
	SEC("fentry/" #function) int function##_fentry(u64 *ctx)                                                       \
	{                                                                                                              \
		if (current_wanted())                                                                                  \
			call_begins(OP_FSYNC, call_argument((void *)ctx[0], 0, false), true);                          \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("fexit/" #function) int function##_fexit(u64 *ctx)                                                         \
	{                                                                                                              \
		call_ends(OP_FSYNC, call_argument((void *)ctx[0], 0, false), ctx[1], true);                            \
		return 0;                                                                                              \
	}

AT_SYNC(__x64_sys_fsync)
AT_SYNC(__x64_sys_fdatasync)
AT_SYNC(__arm64_sys_fsync)
AT_SYNC(__arm64_sys_fdatasync)

/* Which operation a call is; OPERATIONS: none of them. */
static __always_inline u32 kind_of(u32 number)
{
	u32 kind = number < CALLS ? call_kinds[number] : 0;

	return kind && kind <= OPERATIONS ? kind - 1 : OPERATIONS;
}

BOTH_TRACEPOINTS(sys_enter)
{
	void *regs = (void *)ctx[0];
	u32 kind = kind_of(call_number(regs, direct));

	if (kind == OPERATIONS || !current_wanted())
		return 0;
	if (kind == OP_OPEN)
		begins(kind, 0);
	else
		call_begins(kind, call_argument(regs, 0, direct), direct);
	return 0;
}

BOTH_TRACEPOINTS(sys_exit)
{
	void *regs = (void *)ctx[0];
	s64 result = ctx[1];
	u32 kind = kind_of(call_number(regs, direct));

	/* What was opened is what the result names. */
	if (kind == OP_OPEN)
		call_ends(kind, is_error(result) ? ~0U : (u32)result, 0, direct);
	else if (kind != OPERATIONS)
		call_ends(kind, call_argument(regs, 0, direct), result, direct);
	return 0;
}
