// SPDX-License-Identifier: MIT OR Apache-2.0
/* Memory of programs, or of the kernel, that was allocated and not freed, by the stack that allocated it.
 *
 * Stacks are taken when an allocation returns: at a function's entry, the frame of its caller is not complete. What is
 * outstanding is summed up here, by stack, so that what is read grows with the number of stacks and not of blocks. */
#include "named_stacks.h"
#include "registers.h"

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
	u64 tgid; /* 0: of the kernel */
	u64 address;
};

struct block {
	u64 size;
	u64 stack;
	u64 program;
	u64 tgid; /* of the kernel's blocks whoever asked for it */
};

struct key {
	u64 tgid;
	u64 stack;
	u64 program; /* grows with each exec, which takes all memory away; of the kernel's blocks where it was asked for */
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

static __always_inline int frees(u64 of, u64 address)
{
	struct place place = { .tgid = of, .address = address };
	struct block *known = bpf_map_lookup_elem(&blocks, &place);

	if (!known)
		return 0;
	struct key key = { .tgid = known->tgid, .stack = known->stack, .program = known->program };
	u64 size = known->size;
	bpf_map_delete_elem(&blocks, &place);
	struct sum *sum = bpf_map_lookup_elem(&sums, &key);
	if (sum) {
		__sync_fetch_and_add(&sum->bytes, -size);
		__sync_fetch_and_add(&sum->blocks, -1);
	}
	return 0;
}

/* Adds a block to what its stack has. */
static __always_inline void note(u64 of, u64 address, struct block *block)
{
	struct place place = { .tgid = of, .address = address };
	struct key key = { .tgid = block->tgid, .stack = block->stack, .program = block->program };
	struct sum *sum = bpf_map_lookup_elem(&sums, &key);

	if (!sum) {
		struct sum fresh = { .born = current_born() };
		bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
		bpf_map_update_elem(&sums, &key, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&sums, &key);
	}
	/* A block that is known and given again was freed in a way that is not seen. */
	frees(of, address);
	if (!sum || bpf_map_update_elem(&blocks, &place, block, BPF_ANY)) {
		lose(NO_SUM);
		return;
	}
	__sync_fetch_and_add(&sum->bytes, block->size);
	__sync_fetch_and_add(&sum->blocks, 1);
	__sync_fetch_and_add(&sum->allocated, block->size);
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
		frees(ids >> 32, asked.pointer);
	if (!address || (one_in > 1 && bpf_get_prandom_u32() % one_in))
		return 0;
	struct task_struct___program *task = (void *)bpf_get_current_task();
	struct block block = { .size = asked.size, .stack = take_stack(ctx, BPF_F_USER_STACK), .tgid = ids >> 32 };
	block.program = BPF_CORE_READ(task, self_exec_id);
	note(ids >> 32, address, &block);
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
	return frees(bpf_get_current_pid_tgid() >> 32, argument(ctx, 0));
}

/* The kernel's own. A request for nothing has an address that is none, 16. */
#define NOTHING 16

struct kmem_cache___size {
	unsigned int size;
} __attribute__((preserve_access_index));

static __always_inline int kernel_gets(void *ctx, u64 from, u64 address, u64 size)
{
	if (address <= NOTHING || !current_wanted() || (one_in > 1 && bpf_get_prandom_u32() % one_in))
		return 0;
	struct block block = { .size = size, .stack = take_stack(ctx, 0), .program = from };
	block.tgid = bpf_get_current_pid_tgid() >> 32;
	note(0, address, &block);
	return 0;
}

/* Addresses of the kernel are negative numbers. */
static __always_inline bool is_address(u64 value)
{
	return (s64)value < 0;
}

/* Bytes as they are taken stand fourth; from 5.18 to 6.0 the cache, which may be none, stands before them. */
static __always_inline u64 taken(u64 *ctx)
{
	u64 third = ctx[2], fourth = ctx[3], fifth = ctx[4];

	/* The context may be read at constant places only, so the choice is not to be made before it is read. */
	asm volatile("" : "+r"(fourth), "+r"(fifth));
	return !third || is_address(third) ? fifth : fourth;
}

BOTH_TRACEPOINTS(kmalloc)
{
	return kernel_gets(ctx, ctx[0], ctx[1], taken(ctx));
}

BOTH_TRACEPOINTS(kmalloc_node)
{
	return kernel_gets(ctx, ctx[0], ctx[1], taken(ctx));
}

/* Since 5.18 the cache stands in place of the sizes. */
static __always_inline u64 of_cache(u64 *ctx)
{
	struct kmem_cache___size *cache = (void *)ctx[2];

	return is_address(ctx[2]) ? BPF_CORE_READ(cache, size) : ctx[3];
}

BOTH_TRACEPOINTS(kmem_cache_alloc)
{
	return kernel_gets(ctx, ctx[0], ctx[1], of_cache(ctx));
}

BOTH_TRACEPOINTS(kmem_cache_alloc_node)
{
	return kernel_gets(ctx, ctx[0], ctx[1], of_cache(ctx));
}

BOTH_TRACEPOINTS(kfree)
{
	return frees(0, ctx[1]);
}

BOTH_TRACEPOINTS(kmem_cache_free)
{
	return frees(0, ctx[1]);
}
