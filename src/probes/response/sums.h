/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Finding the record of a thread, and adding to its sums. */
#pragma once
#include "hash.h"
#include "response.h"

const volatile u32 with_calls = 1;
const volatile u32 with_marks = 0;

/* That of its call in `long_calls`. */
static __always_inline u64 bit_of_call(struct thread *thread)
{
	return 1ULL << (thread->call & 63);
}

static __always_inline void lose(u32 which)
{
	count_in(&losses, &which, 1);
}

/* The latest time in which calls are or were watched, and its number. */
static __always_inline struct watch *latest_watch(u64 *number)
{
	u32 two = 2;
	u64 *latest = bpf_map_lookup_elem(&control, &two);

	if (!with_calls || !latest || !*latest)
		return NULL;
	*number = *latest;
	u32 which = *latest & 1;
	return bpf_map_lookup_elem(&watches, &which);
}

static __always_inline bool is_watched(struct watch *watch, u64 now)
{
	return watch && watch->from <= now && now < watch->until;
}

/* For how long calls have been watched until then. */
static __always_inline u64 watched_until(struct watch *watch, u64 now)
{
	if (!watch)
		return 0;
	if (now <= watch->from)
		return watch->before;
	return watch->before + (now < watch->until ? now : watch->until) - watch->from;
}

/* The record of a thread that is observed. */
static __always_inline struct thread *observed(u32 tid)
{
	u32 at = tid & (PLACES - 1), zero = 0;
	struct place *place = bpf_map_lookup_elem(&places, &at);

	if (!place || place->tid != tid || !tid)
		return NULL;
	u64 *stopped = bpf_map_lookup_elem(&control, &zero);
	if (!stopped || *stopped)
		return NULL;
	at = place->slot;
	return bpf_map_lookup_elem(&threads, &at);
}

static __always_inline u64 slot_of(u32 tid)
{
	u32 at = tid & (PLACES - 1);
	struct place *place = bpf_map_lookup_elem(&places, &at);

	return place ? place->slot : 0;
}

/* The name of a stack: a hash over all of its words. The lowest bit is that of stacks by tables. */
static __always_inline u64 name_of(struct stack *stack)
{
	u64 hash = NO_WORDS;

	for (int i = 0; i < DEPTH && stack->ips[i]; i++)
		hash = mix(hash, stack->ips[i]);
	return (hash & ~3ULL) | 2;
}

static __always_inline bool is_by_tables(u64 name)
{
	return (name & 3) == 3;
}

static __always_inline u64 keep_as(struct stack *stack, u64 name)
{
	if (!bpf_map_lookup_elem(&stacks, &name) && bpf_map_update_elem(&stacks, &name, stack, BPF_ANY)) {
		lose(NO_STACK);
		return MISSING;
	}
	return name;
}

/* Puts a stack into the table, unless it is there, and returns its name. */
static __noinline u64 keep(struct stack *stack)
{
	return keep_as(stack, name_of(stack));
}

/* Goes on with the name of a stack at hand; the lowest bit says that it did not come to the end. Not static: the kernel verifies such a function
 * once, and not at each place that it is called from. */
#define NAMED_AT_ONCE 16
__noinline u64 name_part(u32 which, u32 from, u64 hash)
{
	struct stack *stack = bpf_map_lookup_elem(&scratch, &which);
	u64 at = from;

	/* The verifier is to see the bound of what is reckoned with. */
	asm volatile("" : "+r"(at));
	if (!stack || at > DEPTH - NAMED_AT_ONCE)
		return hash & ~1ULL;
	for (int i = 0; i < NAMED_AT_ONCE; i++) {
		/* What comes behind it is of another stack. */
		if (!stack->ips[at + i])
			return hash & ~1ULL;
		hash = mix(hash, stack->ips[at + i]);
	}
	return hash | 1;
}

/* The name of a stack at hand. The last part begins within the one before, so that a word counts twice. */
__noinline u64 name_at_hand(u32 which)
{
	u64 hash = NO_WORDS;

	bool goes_on = true;

	for (int from = 0; from < DEPTH - NAMED_AT_ONCE && goes_on; from += NAMED_AT_ONCE) {
		hash = name_part(which, from, hash);
		goes_on = hash & 1;
	}
	if (goes_on)
		hash = name_part(which, DEPTH - NAMED_AT_ONCE, hash);
	return (hash & ~3ULL) | 2;
}

/* Puts it into the table, unless it is there, and returns its name. */
__noinline u64 keep_at_hand(u32 which)
{
	struct stack *stack = bpf_map_lookup_elem(&scratch, &which);

	return stack ? keep_as(stack, name_at_hand(which)) : MISSING;
}

/* Where the highest bit is, of what is less than 2^63; without branches, of each of which the verifier goes both ways. */
static __always_inline u64 highest_bit(u64 of)
{
	u64 at = 0;

#pragma unroll
	for (int bits = 5; bits > 0; bits--) {
		/* All ones where it is more than its lower half can hold. */
		u64 more = (((1ULL << (1 << bits)) - 1 - of) >> 63) << bits;
		at |= more;
		of >>= more;
	}
	return at | of >> 1;
}

__noinline int spread_add(u32 at, u64 ns)
{
	struct spread *known = bpf_map_lookup_elem(&spreads, &at);

	if (!known)
		return 0;
	/* As by hist_slot(): eight for each power of two, the first one for all that is less than 256. */
	u64 bucket = 0, top = highest_bit(ns);
	if (ns >= 256)
		bucket = ((top - 8) << 3) + ((ns >> (top - 3)) & 7) + 1;
	if (bucket >= BUCKETS)
		bucket = BUCKETS - 1;
	known->buckets[bucket].count++;
	known->buckets[bucket].sum += ns;
	return 0;
}

static __always_inline void cell_add(struct cell *cell, u64 ns, u64 now)
{
	if (!cell->count || ns < cell->min)
		cell->min = ns;
	if (ns >= cell->max) {
		cell->max = ns;
		cell->max_at = now;
	}
	cell->count++;
	cell->sum += ns;
	if (cell->spread)
		spread_add(cell->spread, ns);
}

/* One that began before the observation, or has not ended in it. */
static __always_inline void cell_add_open(struct cell *cell, u64 ns, u64 now)
{
	cell->open++;
	cell->open_ns += ns;
	cell->open_at = now - ns;
}

/* Makes a cell, without its key. Out of line: it runs once for each kind of thing that a thread does. */
__noinline u32 make_cell(u32 slot, u64 tag, u32 type, u64 file)
{
	struct name name = { .slot = slot, .tag = tag };
	u32 *known = bpf_map_lookup_elem(&names, &name), at = 0, spread = 0;
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);

	if (!thread)
		return 0;
	if (known)
		return *known;
	if (bpf_map_pop_elem(&free_cells, &at) || !at) {
		lose(NO_CELL);
		return 0;
	}
	struct cell *cell = bpf_map_lookup_elem(&cells, &at);
	if (!cell)
		return 0;
	if (type <= CALL) {
		if (bpf_map_pop_elem(&free_spreads, &spread))
			lose(NO_SPREAD);
		else
			cell->spread = spread;
	}
	cell->slot = slot;
	cell->tag = tag;
	if (file) {
		struct file *opened = (void *)file;
		const unsigned char *text = BPF_CORE_READ(opened, f_path.dentry, d_name.name);
		bpf_probe_read_kernel_str(cell->name, sizeof(cell->name), text);
	}
	cell->next = thread->first;
	thread->first = at;
	bpf_map_update_elem(&names, &name, &at, BPF_ANY);
	return at;
}

/* Where a thread's sums of this kind are kept. */
static __always_inline struct cell *cell_of(struct thread *thread, u64 slot, struct key *key, u64 file)
{
	/* Products that do not wait for each other; words that are known to be 0 cost nothing. */
	u64 tag = mix(0, key->kind * 0x9e3779b97f4a7c15ULL + key->stack * 0xc2b2ae3d27d4eb4fULL +
				 key->object[0] * 0xd6e8feb86659fd93ULL + key->object[1] * 0xa0761d6478bd642fULL +
				 key->object[2] * 0xe7037ed1a0b428dbULL);

	struct cached *cached = &thread->cache[tag & (CACHED - 1)];
	if (cached->tag != tag || !cached->cell) {
		u32 made = make_cell(slot, tag, key->kind & 0xff, file);
		struct cell *cell = bpf_map_lookup_elem(&cells, &made);
		if (!made || !cell)
			return NULL;
		/* From the caller's own memory: another event of the thread may have come in between. */
		cell->key = *key;
		cached->tag = tag;
		cached->cell = made;
		return cell;
	}
	u32 at = cached->cell;
	return bpf_map_lookup_elem(&cells, &at);
}
