// SPDX-License-Identifier: MIT OR Apache-2.0
/* Each event at one point, with values and text. */
#include "../../mechanism/ebpf/include/stream.h"
#include "../count/point.h"

#define VALUES FIRST_TEST /* where count has its value and its keys */
#define TEXTS 2
#define TEXT 256

/* What a value leads to: an address in the memory of the program or of the kernel; a place in the record that the value
 * tells; the value's own place in the record. */
enum text_in { NO_TEXT, OF_PROGRAM, OF_KERNEL, LOCATED, INLINE };
const volatile u32 text_in[TEXTS] = {};
const volatile u32 text_value[TEXTS] = {}; /* which of the values */
const volatile u32 text_at[TEXTS] = {}; /* offset in the record, for INLINE */

struct line {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 cpu;
	u64 comm[2];
	u64 words[VALUES];
	s64 lengths[TEXTS]; /* with the NUL; negative: could not be read */
	char texts[TEXTS][TEXT];
};

/* Room to put a line together in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct line);
} scratch SEC(".maps");

static __always_inline s64 read_text(void *ctx, u64 *words, char *to, const int at)
{
	u64 value = 0;

#pragma unroll
	for (int i = 0; i < VALUES; i++) {
		if (text_value[at] == i)
			value = words[i];
	}
	switch (text_in[at]) {
	case OF_PROGRAM: return bpf_probe_read_user_str(to, TEXT, (void *)value);
	case OF_KERNEL: return bpf_probe_read_kernel_str(to, TEXT, (void *)value);
	case LOCATED: return bpf_probe_read_kernel_str(to, TEXT, ctx + (value & 0xffff));
	case INLINE: return bpf_probe_read_kernel_str(to, TEXT, ctx + text_at[at]);
	default: return 0;
	}
}

static __noinline int settle(void *ctx, u64 *words)
{
	u32 zero = 0;
	struct line *line = bpf_map_lookup_elem(&scratch, &zero);

	if (!line || !holds(words))
		return 0;
	add(EVENTS, 1);
	line->at = bpf_ktime_get_ns();
	line->ids = bpf_get_current_pid_tgid();
	line->cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(line->comm, sizeof(line->comm));
	__builtin_memcpy(line->words, words, sizeof(line->words));
	line->lengths[0] = text_in[0] ? read_text(ctx, words, line->texts[0], 0) : 0;
	line->lengths[1] = text_in[1] ? read_text(ctx, words, line->texts[1], 1) : 0;
	if (text_in[1])
		send_event(line, sizeof(*line));
	else if (text_in[0])
		send_event(line, sizeof(*line) - TEXT);
	else
		send_event(line, __builtin_offsetof(struct line, texts));
	return 0;
}
