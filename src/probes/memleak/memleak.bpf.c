// SPDX-License-Identifier: MIT OR Apache-2.0
/* Memory of programs that was allocated and not freed, by the stack that allocated it.
 *
 * Stacks are taken when an allocation returns: at a function's entry, the frame of its caller is not complete. What is
 * outstanding is summed up here, by stack, so that what is read grows with the number of stacks and not of blocks. */
#include "../../mechanism/ebpf/include/kept.h"
#include "../../mechanism/ebpf/include/registers.h"

struct task_struct___program {
	u64 self_exec_id;
} __attribute__((preserve_access_index));

/* One of so many blocks is followed, drawn by chance. */
const volatile u32 one_in = 1;

enum { MALLOC, REALLOC, INTO };

struct asked {
	u64 how;
	u64 size;
	u64 pointer; /* REALLOC: the block that is given up; INTO: where the address is written to */
};

struct place {
	u64 tgid;
	u64 address;
};

struct block {
	u64 size;
	u64 stack;
	u64 program;
};

struct key {
	u64 tgid;
	u64 stack;
	u64 program; /* grows with each exec, which takes all memory away */
};

struct sum {
	s64 bytes; /* outstanding */
	s64 blocks;
	u64 allocated; /* bytes, since the start */
	u64 born;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct asked);
} asking SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, struct place);
	__type(value, struct block);
} blocks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, struct sum);
} sums SEC(".maps");

static __always_inline int asks(u64 how, u64 size, u64 pointer)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct asked asked = { .how = how, .size = size, .pointer = pointer };

	if (!current_wanted())
		return 0;
	/* realloc may call malloc: its own return knows both blocks. */
	struct asked *outer = how == MALLOC ? bpf_map_lookup_elem(&asking, &tid) : NULL;
	if (!outer || outer->how != REALLOC)
		bpf_map_update_elem(&asking, &tid, &asked, BPF_ANY);
	return 0;
}

static __always_inline int frees(u64 address)
{
	struct place place = { .tgid = bpf_get_current_pid_tgid() >> 32, .address = address };
	struct block *known = bpf_map_lookup_elem(&blocks, &place);

	if (!known)
		return 0;
	struct key key = { .tgid = place.tgid, .stack = known->stack, .program = known->program };
	u64 size = known->size;
	bpf_map_delete_elem(&blocks, &place);
	struct sum *sum = bpf_map_lookup_elem(&sums, &key);
	if (sum) {
		__sync_fetch_and_add(&sum->bytes, -size);
		__sync_fetch_and_add(&sum->blocks, -1);
	}
	return 0;
}

static __always_inline int gets(void *ctx, u64 how)
{
	u64 ids = bpf_get_current_pid_tgid(), address = returned(ctx);
	u32 tid = ids;
	struct asked *known = bpf_map_lookup_elem(&asking, &tid);

	if (!known || known->how != how)
		return 0;
	struct asked asked = *known;
	bpf_map_delete_elem(&asking, &tid);
	if (how == INTO) {
		/* 0 is success. */
		if (address || bpf_probe_read_user(&address, sizeof(address), (void *)asked.pointer))
			return 0;
	}
	/* A failed realloc leaves the old block as it was; one to a size of 0 frees it. */
	if (how == REALLOC && asked.pointer && (address || !asked.size))
		frees(asked.pointer);
	if (!address || (one_in > 1 && bpf_get_prandom_u32() % one_in))
		return 0;
	struct place place = { .tgid = ids >> 32, .address = address };
	struct block block = { .size = asked.size, .stack = take_stack(ctx, BPF_F_USER_STACK) };
	struct task_struct___program *task = (void *)bpf_get_current_task();
	block.program = BPF_CORE_READ(task, self_exec_id);
	struct key key = { .tgid = place.tgid, .stack = block.stack, .program = block.program };
	struct sum *sum = bpf_map_lookup_elem(&sums, &key);
	if (!sum) {
		struct sum fresh = { .born = current_born() };
		bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
		bpf_map_update_elem(&sums, &key, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&sums, &key);
	}
	/* A block that is known and given again was freed in a way that is not seen. */
	frees(address);
	if (!sum || bpf_map_update_elem(&blocks, &place, &block, BPF_ANY)) {
		lose(NO_SUM);
		return 0;
	}
	__sync_fetch_and_add(&sum->bytes, asked.size);
	__sync_fetch_and_add(&sum->blocks, 1);
	__sync_fetch_and_add(&sum->allocated, asked.size);
	return 0;
}

#define ALLOCATION(name, how, size, pointer)                                                                           \
	SEC("uprobe") int name##_uprobe(void *ctx) { return asks(how, size, pointer); }                                \
	SEC("uretprobe") int name##_uretprobe(void *ctx) { return gets(ctx, how); }

ALLOCATION(malloc, MALLOC, argument(ctx, 0), 0)
ALLOCATION(calloc, MALLOC, argument(ctx, 0) * argument(ctx, 1), 0)
ALLOCATION(memalign, MALLOC, argument(ctx, 1), 0)
ALLOCATION(aligned_alloc, MALLOC, argument(ctx, 1), 0)
ALLOCATION(realloc, REALLOC, argument(ctx, 1), argument(ctx, 0))
ALLOCATION(posix_memalign, INTO, argument(ctx, 2), argument(ctx, 0))

SEC("uprobe") int free_uprobe(void *ctx)
{
	return frees(argument(ctx, 0));
}
