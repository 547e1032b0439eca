// SPDX-License-Identifier: MIT OR Apache-2.0
/* Single operations on files that took long, with the file's whole path. */
#include "filepath.h"
#include "stream.h"

struct slow {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 kind;
	u64 took; /* ns */
	s64 result;
	u64 offset; /* where it ended in the file; NOWHERE: not known */
	char comm[16];
	u64 type[2];
	struct parts parts;
};

#define NOWHERE (~0ULL)

static __always_inline void done(const struct operation *op, const bool direct)
{
	struct slow *slow = reserve_event(sizeof(*slow));
	if (!slow)
		return;
	slow->at = op->at;
	slow->ids = bpf_get_current_pid_tgid();
	slow->kind = op->kind;
	slow->took = op->took;
	slow->result = op->result;
	slow->offset = NOWHERE;
	s64 *place = NULL;
	if (op->offset_at)
		bpf_probe_read_kernel(&place, sizeof(place), op->offset_at);
	if (place)
		bpf_probe_read_kernel(&slow->offset, sizeof(slow->offset), place);
	bpf_get_current_comm(slow->comm, sizeof(slow->comm));
	slow->type[0] = slow->type[1] = 0;
	read_type(op->inode, slow->type);
	struct path___op *path = op->path;
	read_path(BPF_CORE_READ(path, dentry), BPF_CORE_READ(path, mnt), &slow->parts);
	bpf_ringbuf_submit(slow, 0);
}
