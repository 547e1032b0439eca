/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Functions that an interpreter works on: words on stacks that are no addresses of code, and their names. Everything here is the
 * program's own word: no read leaves its memory, and what it makes up is shown as names of its own. */
#pragma once
#include "sums.h"

/* In a stack: no address of code but such a function. Alone it is a frame of the interpreter's own; with the lowest bit alone, what could
 * not be read. */
#define INTERPRETED (1ULL << 63)
#define INTERPRETED_CUT (INTERPRETED | 1)

/* A function is what it lies at and its name together: where the one was given free, another one comes to lie. Both lie as far apart in
 * many functions, so that they must not be mixed with each other alone. */
static __always_inline u64 interpreted_word(u64 at, u64 name)
{
	return INTERPRETED | mix(mix(NO_WORDS, at), name) << 1 | 2;
}

/* Names by such a word: the ends of texts, which tell more than their beginnings. Empty: in letters that are not read. */
#define FUNCTION_TEXT 64
struct function_key {
	u64 tgid;
	u64 word;
};
struct function_name {
	char name[FUNCTION_TEXT];
	char file[FUNCTION_TEXT];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct function_key);
	__type(value, struct function_name);
} function_names SEC(".maps");
struct name_at_hand {
	struct function_name name;
	u64 given; /* names that were looked up in one walk */
	/* A text whose parts are followed. */
	u64 text;
	u64 from;
	u32 length;
	u32 is_part;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct name_at_hand);
} function_name_at_hand SEC(".maps");

static __always_inline u64 word_at(u64 address)
{
	u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

static __always_inline void keep_function_name(struct function_key *key, struct function_name *name)
{
	if (bpf_map_update_elem(&function_names, key, name, BPF_ANY))
		lose(NO_NAME);
}

/* The end of a text that lies there in so many bytes; whether it could be read. */
static __always_inline bool read_end_of_text(u64 at, u64 length, char *to)
{
	u64 skipped = 0;

	if (length > FUNCTION_TEXT - 1) {
		skipped = length - (FUNCTION_TEXT - 1);
		length = FUNCTION_TEXT - 1;
	}
	return !bpf_probe_read_user(to, length & (FUNCTION_TEXT - 1), (void *)(at + skipped));
}
