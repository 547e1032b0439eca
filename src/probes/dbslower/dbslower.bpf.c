// SPDX-License-Identifier: MIT OR Apache-2.0
/* Statements of PostgreSQL that took long. A server process reports what it is about to do, with the text of the statement, and with
 * none when it has done it: pgstat_report_activity(state, text), in both protocols. Its number of a state differs between versions.
 * A statement of the extended protocol is reported with each of its parts, under the same text: that is one statement. */
#include "../../mechanism/ebpf/include/registers.h"
#include "../../mechanism/ebpf/include/stream.h"

#define WORDS 32
#define TEXT (WORDS * 8)

const volatile u64 threshold = 10000000; /* ns */

struct statement {
	u64 since; /* 0: none is running */
	u64 text[WORDS];
};

struct slow {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 took; /* ns */
	u64 text[WORDS];
};

/* What each process is at, or was: its place is kept, since making one costs more than all else. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct statement);
} running SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct statement);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} all SEC(".maps");

static __always_inline void done(struct statement *statement, u64 now)
{
	u32 zero = 0;
	u64 took = now - statement->since;
	struct hist *hist = bpf_map_lookup_elem(&all, &zero);

	if (hist)
		hist_add(hist, took);
	if (took < threshold)
		return;
	struct slow *slow = reserve_event(sizeof(*slow));
	if (!slow)
		return;
	slow->at = now;
	slow->ids = bpf_get_current_pid_tgid();
	slow->took = took;
	for (int i = 0; i < WORDS; i++)
		slow->text[i] = statement->text[i];
	bpf_ringbuf_submit(slow, 0);
}

static __always_inline bool is_same(struct statement *a, struct statement *b)
{
	u64 differs = 0;

	for (int i = 0; i < WORDS; i++)
		differs |= a->text[i] ^ b->text[i];
	return !differs;
}

SEC("uprobe/activity") int activity_uprobe(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid(), zero = 0;
	u64 now = bpf_ktime_get_ns(), text = argument(ctx, 1);

	if (!current_wanted())
		return 0;
	struct statement *known = bpf_map_lookup_elem(&running, &tid);
	if (!text) {
		if (known && known->since) {
			done(known, now);
			known->since = 0;
		}
		return 0;
	}
	/* A process that has none running has room of its own for the next. */
	struct statement *next = known && !known->since ? known : bpf_map_lookup_elem(&scratch, &zero);
	if (!next)
		return 0;
	for (int i = 0; i < WORDS; i++)
		next->text[i] = 0;
	bpf_probe_read_user_str(next->text, TEXT, (void *)text);
	if (known && known->since) {
		if (is_same(known, next))
			return 0;
		done(known, now);
	}
	next->since = now;
	if (next != known)
		bpf_map_update_elem(&running, &tid, next, BPF_ANY);
	return 0;
}
