// SPDX-License-Identifier: MIT OR Apache-2.0
/* Counts, sums and distributions of what happens at one point. */
#include "point.h"
#include "whence.h"

const volatile u32 want_hist = 0; /* distributions in place of sums */
const volatile u32 has_key = 0;
const volatile u32 want_comm = 0;

/* Keys that are text. */
#define TEXT 128
const volatile u32 text_in[KEYS] = {};
const volatile u32 text_at[KEYS] = {}; /* offset in the record, for INLINE */

struct key {
	u64 words[KEYS]; /* of text, its name */
	u64 comm[2];
	struct whence whence;
};
struct sum {
	u64 count;
	u64 sum;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct sum);
} point_sums SEC(".maps");

/* The same without stacks: hashing the whole key for every event would cost more than the rest. */
struct short_key {
	u64 words[KEYS];
	u64 comm[2];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct short_key); /* what a struct key begins with */
	__type(value, struct sum);
} point_short_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct hist);
} point_hists SEC(".maps");

/* Without a key. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} point_hist SEC(".maps");

struct text {
	u64 words[TEXT / 8];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct text);
} point_texts SEC(".maps");

/* What a new distribution begins as; nobody writes here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} no_values SEC(".maps");

/* The name of the text that a part of the key leads to, by what it holds; 0 if it cannot be read, MISSING if there is no room
 * for it. */
static __noinline u64 text_name(void *ctx, u64 value, u32 which)
{
	struct text text = {};
	u64 hash = NO_WORDS;
	s64 length = 0;

#pragma unroll
	for (int i = 0; i < KEYS; i++) {
		if (which == i)
			length = read_text(ctx, value, text_in[i], text_at[i], (char *)&text, sizeof(text));
	}
	if (length <= 0)
		return 0;
#pragma unroll
	for (int i = 0; i < TEXT / 8; i++)
		hash = mix(hash, text.words[i]);
	hash |= 2;
	if (!bpf_map_lookup_elem(&point_texts, &hash) && bpf_map_update_elem(&point_texts, &hash, &text, BPF_ANY))
		return MISSING;
	return hash;
}

static __always_inline void add_value(struct key *key, u64 value)
{
	u32 zero = 0;
	struct hist *hist;

	if (!has_key) {
		hist = bpf_map_lookup_elem(&point_hist, &zero);
	} else {
		hist = bpf_map_lookup_elem(&point_hists, key);
		if (!hist) {
			struct hist *empty = bpf_map_lookup_elem(&no_values, &zero);
			if (empty)
				bpf_map_update_elem(&point_hists, key, empty, BPF_NOEXIST);
			hist = bpf_map_lookup_elem(&point_hists, key);
		}
	}
	if (!hist) {
		add(NO_ROOM, 1);
		return;
	}
	u32 slot = hist_slot(value);
	plus(&hist->count, 1);
	plus(&hist->sum, value);
	if (value > hist->max)
		hist->max = value;
	if (slot < HIST_SLOTS)
		plus(&hist->slots[slot], 1);
}

static __always_inline void add_sum(void *sums, struct key *key, u64 value)
{
	struct sum *sum = bpf_map_lookup_elem(sums, key);

	if (!sum) {
		struct sum fresh = {};
		bpf_map_update_elem(sums, key, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, key);
	}
	if (sum) {
		plus(&sum->count, 1);
		if (point_fields[0].source != NOTHING)
			plus(&sum->sum, value);
	} else {
		add(NO_ROOM, 1);
	}
}

/* Everything is known: compares, and sums up. */
static __noinline int settle(void *ctx, u64 *words)
{
	if (!holds(words))
		return 0;
	u64 value = words[0];
	if (want_hist && point_fields[0].is_signed && (s64)value < 0) {
		add(NEGATIVE, 1);
		return 0;
	}
	/* Distributions and sums by key tell it themselves, unless some of them get lost on the way. */
	if ((!has_key && !want_hist) || want_kernel || want_user)
		add(EVENTS, 1);
	struct key key = {};
	if (has_key) {
		__builtin_memcpy(key.words, &words[FIRST_KEY], sizeof(key.words));
#pragma unroll
		for (int i = 0; i < KEYS; i++) {
			if (text_in[i])
				key.words[i] = text_name(ctx, key.words[i], i);
		}
		if (want_comm)
			bpf_get_current_comm(key.comm, sizeof(key.comm));
		take_stacks(ctx, &key.whence);
	}
	if (want_hist) {
		add_value(&key, value);
		return 0;
	}
	if (point_fields[0].source != NOTHING && (!has_key || want_kernel || want_user))
		add(SUM, value);
	if (want_kernel || want_user)
		add_sum(&point_sums, &key, value);
	else if (has_key)
		add_sum(&point_short_sums, &key, value);
	return 0;
}

