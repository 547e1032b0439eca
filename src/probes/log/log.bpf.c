// SPDX-License-Identifier: MIT OR Apache-2.0
/* Each event at one point, with values and text. */
#include "stream.h"
#include "../count/point.h"
#include "../count/whence.h"

#define VALUES FIRST_TEST /* where count has its value and its keys */
#define TEXTS 2
#define TEXT 256

const volatile u32 text_in[TEXTS] = {};
const volatile u32 text_value[TEXTS] = {}; /* which of the values */
const volatile u32 text_at[TEXTS] = {}; /* offset in the record, for INLINE */

struct line {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 cpu;
	u64 comm[2];
	u64 words[VALUES];
	struct whence whence;
	s64 lengths[TEXTS]; /* with the NUL; negative: could not be read */
	char texts[TEXTS][TEXT];
};

/* Room to put a line together in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct line);
} room SEC(".maps");

static __always_inline s64 text(void *ctx, u64 *words, char *to, const int at)
{
	u64 value = 0;

#pragma unroll
	for (int i = 0; i < VALUES; i++) {
		if (text_value[at] == i)
			value = words[i];
	}
	return read_text(ctx, value, text_in[at], text_at[at], to, TEXT);
}

static __noinline int settle(void *ctx, u64 *words)
{
	u32 zero = 0;
	struct line *line = bpf_map_lookup_elem(&room, &zero);

	if (!line || !holds(words))
		return 0;
	add(EVENTS, 1);
	line->at = bpf_ktime_get_ns();
	line->ids = bpf_get_current_pid_tgid();
	line->cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(line->comm, sizeof(line->comm));
	__builtin_memcpy(line->words, words, sizeof(line->words));
	__builtin_memset(&line->whence, 0, sizeof(line->whence));
	take_stacks(ctx, &line->whence);
	line->lengths[0] = text_in[0] ? text(ctx, words, line->texts[0], 0) : 0;
	line->lengths[1] = text_in[1] ? text(ctx, words, line->texts[1], 1) : 0;
	if (text_in[1])
		send_event(line, sizeof(*line));
	else if (text_in[0])
		send_event(line, sizeof(*line) - TEXT);
	else
		send_event(line, __builtin_offsetof(struct line, texts));
	return 0;
}
