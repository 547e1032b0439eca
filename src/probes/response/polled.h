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

static __always_inline bool read_set(u8 *set, u64 at, u32 bytes)
{
	if (!at)
		return true;
	return bytes <= SET && !bpf_probe_read_user(set, bytes, (void *)at);
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
	own->since = 0;
	__builtin_memset(own->list, 0, POLLED);
	if (has & IS_POLL) {
		u32 count = call_argument(saved, 1, false);
		if (count > POLLED / POLLFD || bpf_probe_read_user(own->list, count * POLLFD, (void *)thread->argument))
			return;
		own->count = count;
	} else {
		u32 highest = thread->argument, bytes = (highest + 63) / 64 * 8;
		if (highest > SET * 8 || !read_set(own->list, call_argument(saved, 1, false), bytes) ||
		    !read_set(own->list + SET, call_argument(saved, 2, false), bytes))
			return;
		own->count = highest;
	}
	own->since = thread->t;
}
