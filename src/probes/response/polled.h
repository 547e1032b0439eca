/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The descriptors that a thread begins to wait for in poll or select.
 *
 * They stand in the program's own memory, which is read here, while the thread itself goes out, and by nobody later: a page that is
 * not there is left alone here, while who reads the memory of another process waits for that page, for as long as its owner (a file
 * system in user space, say) likes. */
#pragma once
#include "waits.h"

#define POLLED 128 /* bytes: sixteen of `struct pollfd`, or two sets of select */
#define POLLFD 8
#define SET (POLLED / 2)

struct polled {
	u64 since; /* the wait that the rest is about began then; 0: none */
	u64 count; /* of poll: entries of its list. Of select: its highest descriptor, plus one */
	u8 list[POLLED]; /* the list, or the set of those to read from and the one of those to write to */
};

/* One for each place of a thread. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct polled);
} polled SEC(".maps");

/* Into a place that has room for `most`. The verifier must see the bound where it is needed: it forgets that of a number which lay on
 * the stack meanwhile. */
static __always_inline bool read_list(u8 *into, u64 at, u64 bytes, const u64 most)
{
	asm volatile("" : "+r"(bytes));
	return bytes <= most && !bpf_probe_read_user(into, bytes, (void *)at);
}

static __always_inline bool read_sets(u8 *sets, void *saved, u64 bytes)
{
	u64 read = call_argument(saved, 1, false), write = call_argument(saved, 2, false);

	return (!read || read_list(sets, read, bytes, SET)) && (!write || read_list(sets + SET, write, bytes, SET));
}

static __noinline void note_polled(struct thread *thread, u64 slot, struct task_struct *prev)
{
	u8 has = traits(thread->call);
	u32 at = slot;

	if (!(has & (IS_POLL | IS_SELECT)))
		return;
	struct polled *own = bpf_map_lookup_elem(&polled, &at);
	if (!own)
		return;
	void *saved = registers(prev);
	u64 count = (u32)(has & IS_POLL ? call_argument(saved, 1, false) : thread->argument);
	own->since = 0;
	own->count = count;
	__builtin_memset(own->list, 0, POLLED);
	if (has & IS_POLL ? read_list(own->list, thread->argument, count * POLLFD, POLLED)
			  : read_sets(own->list, saved, (count + 63) / 64 * 8))
		own->since = thread->t;
}
