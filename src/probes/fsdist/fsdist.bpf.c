// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long operations on files take, by type of file system. */
#include "fileops.h"

struct place {
	u64 type; /* address of what describes the type */
	u64 kind;
};

/* One for each type and operation that happens; how many there may be is set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, struct place);
	__type(value, struct hist);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64[2]);
} names SEC(".maps");

/* What new distributions begin as; nobody writes here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} empty SEC(".maps");

/* Programs at functions may be interrupted by others of their kind on the same CPU. Of two largest values that meet so, the last
 * one stays. */
static __always_inline void hist_add_together(struct hist *hist, u64 value)
{
	u32 slot = hist_slot(value);

	__sync_fetch_and_add(&hist->count, 1);
	__sync_fetch_and_add(&hist->sum, value);
	if (value > hist->max)
		hist->max = value;
	if (slot < HIST_SLOTS)
		__sync_fetch_and_add(&hist->slots[slot], 1);
}

static __always_inline void done(const struct operation *op, const bool direct)
{
	struct inode___op *inode = op->inode;
	struct super_block___op *super = READ(inode, i_sb);
	struct place place = { .type = (u64)READ(super, s_type), .kind = op->kind };
	u32 zero = 0;

	struct hist *hist = bpf_map_lookup_elem(&latencies, &place);
	if (!hist) {
		u64 name[2] = {};
		struct hist *fresh = bpf_map_lookup_elem(&empty, &zero);
		if (!fresh)
			return;
		read_type(inode, name);
		bpf_map_update_elem(&names, &place.type, name, BPF_ANY);
		bpf_map_update_elem(&latencies, &place, fresh, BPF_NOEXIST);
		hist = bpf_map_lookup_elem(&latencies, &place);
	}
	if (hist)
		hist_add_together(hist, op->took);
	else
		lose(0);
}
