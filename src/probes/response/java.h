/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What a thread of a Java machine is parked for: each lock of java.util.concurrent, each condition and each pool parks threads on a futex
 * of the thread's own, and puts down in the thread's object what it is parked for. Everything here is the program's own word: no read
 * leaves its memory, and the class is shown as a name of its own. */
#pragma once
#include "interpreted.h"

/* Addresses of what says how far something lies from the beginning of its structure, and of variables (symbols/interpreted/hotspot.rs). */
struct java_places {
	u64 threads;
	u64 length;
	u64 array;
	u64 object;
	u64 blocker; /* 32 bits */
	u64 name;
	u64 name_length;
	u64 letters;
	/* Pointers to objects: where they count from, by how many bits they are shifted (32 bits), whether they have 32 bits (8 bits; if
	 * nothing says it they have). */
	u64 objects[3];
	u64 classes[3];
	u64 unlike[3]; /* 8 bits; 0: there is none */
	u64 size; /* of a thread, in bytes */
};
/* What stands there, which is known when the machine has begun. */
struct java {
	struct java_places at;
	u64 state;
	u64 length;
	u64 array;
	u64 object;
	u64 blocker;
	u64 name;
	u64 name_length;
	u64 letters;
	u64 objects[2]; /* where they count from, and by how many bits they are shifted; ALL_BITS: they are addresses */
	u64 classes[2];
	u64 known;
};
#define BEGUN 1
#define UNLIKE 2
#define ALL_BITS 64
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct java);
} javas SEC(".maps");

#define JAVA_THREADS 16 /* read at a time */
#define MOST_JAVA_THREADS 1024
#define OBJECT_CLASS 8 /* how far in an object the pointer to its class lies */
/* Threads that wait for what is in no thread of Java, as those of its compilers and collectors do, are looked for no more often. */
#define LOOKED_FOR_EVERY 2000000 /* ns */

static __always_inline bool read_u64(u64 *to, u64 from)
{
	return !bpf_probe_read_user(to, sizeof(*to), (void *)from);
}

/* Whether a variable of 8 bits is set; that could be read. */
static __always_inline bool read_flag(bool *to, u64 from)
{
	u8 byte = 0;

	if (from && bpf_probe_read_user(&byte, sizeof(byte), (void *)from))
		return false;
	*to = byte;
	return true;
}

static __always_inline bool java_pointers(u64 *to, u64 *at)
{
	u64 shift = 0;
	bool is_narrow = true;

	if (!read_u64(&to[0], at[0]) || !read_u64(&shift, at[1]) || (at[2] && !read_flag(&is_narrow, at[2])))
		return false;
	to[1] = is_narrow ? shift & (ALL_BITS - 1) : ALL_BITS;
	return true;
}

/* Whether it is known where this machine has what: what cannot be read now is read another time. */
static __always_inline bool java_has_begun(struct java *java)
{
	u64 blocker = 0;
	bool unlike[3] = {};

	if (java->state)
		return java->state == BEGUN;
	if (!read_u64(&blocker, java->at.blocker) || !(u32)blocker)
		return false;
	if (!read_u64(&java->length, java->at.length) || !read_u64(&java->array, java->at.array) ||
	    !read_u64(&java->object, java->at.object) || !read_u64(&java->name, java->at.name) ||
	    !read_u64(&java->name_length, java->at.name_length) || !read_u64(&java->letters, java->at.letters) ||
	    !java_pointers(java->objects, java->at.objects) || !java_pointers(java->classes, java->at.classes) ||
	    !read_flag(&unlike[0], java->at.unlike[0]) || !read_flag(&unlike[1], java->at.unlike[1]) ||
	    !read_flag(&unlike[2], java->at.unlike[2]))
		return false;
	java->blocker = (u32)blocker;
	__sync_fetch_and_add(&java->known, 1); /* another CPU sees the state last */
	java->state = unlike[0] || unlike[1] || unlike[2] ? UNLIKE : BEGUN;
	return java->state == BEGUN;
}

/* What a pointer at an address leads to; 0 if it leads nowhere. */
static __always_inline u64 java_pointer(u64 *pointers, u64 address)
{
	u64 word = word_at(address);

	if (pointers[1] >= ALL_BITS)
		return word;
	word &= 0xffffffff;
	return word ? pointers[0] + (word << (pointers[1] & (ALL_BITS - 1))) : 0;
}

/* The thread that a futex is part of, of so many in the list of a machine from a place in it on; 0 if there is none. Not static, and so
 * verified once, and not for each place. */
__noinline u64 java_thread_among(u64 from, u64 left, u64 size, u64 futex)
{
	u64 threads[JAVA_THREADS] = {};
	u32 bytes = left < JAVA_THREADS ? (left & (JAVA_THREADS - 1)) * sizeof(u64) : sizeof(threads);

	if (bpf_probe_read_user(threads, bytes, (void *)from))
		return 0;
	for (int i = 0; i < JAVA_THREADS; i++)
		if (futex - threads[i] < size)
			return threads[i];
	return 0;
}

/* The thread of a machine that a futex is part of; 0 if there is none. */
__noinline u64 java_thread_with(u32 tgid, u64 futex)
{
	struct java *java = bpf_map_lookup_elem(&javas, &tgid);

	if (!java || !java_has_begun(java))
		return 0;
	u64 list = word_at(java->at.threads), array = word_at(list + java->array), length = (u32)word_at(list + java->length);
	for (u64 i = 0; i < MOST_JAVA_THREADS && i < length; i += JAVA_THREADS) {
		u64 thread = java_thread_among(array + i * sizeof(u64), length - i, java->at.size, futex);
		if (thread)
			return thread;
	}
	return 0;
}

/* A word that stands for the class of what a thread is parked for, and has its name; 0 if it is parked for nothing. */
__noinline u64 java_parked_for(u32 tgid, u64 thread)
{
	struct java *java = bpf_map_lookup_elem(&javas, &tgid);
	u32 zero = 0;
	struct name_at_hand *at_hand = bpf_map_lookup_elem(&function_name_at_hand, &zero);

	if (!java || !at_hand)
		return 0;
	u64 object = word_at(word_at(thread + java->object)), length = 0;
	u64 blocker = object ? java_pointer(java->objects, object + java->blocker) : 0;
	u64 class = blocker ? java_pointer(java->classes, blocker + OBJECT_CLASS) : 0;
	u64 name = class ? word_at(class + java->name) : 0;
	if (!name)
		return 0;
	struct function_key key = { .tgid = tgid, .word = interpreted_word(class, name) };
	if (bpf_map_lookup_elem(&function_names, &key))
		return key.word;
	__builtin_memset(&at_hand->name, 0, sizeof(at_hand->name));
	/* What cannot be read now may be another time. */
	if (!read_u64(&length, name + java->name_length) || !(length & 0xffff))
		return key.word;
	if (read_end_of_text(name + java->letters, length & 0xffff, at_hand->name.name))
		keep_function_name(&key, &at_hand->name);
	return key.word;
}

/* The thread of a machine which parks the task that is about to wait for this futex, and was that thread before; 0 if it is none. */
__noinline u64 java_thread_parked_on(u32 tgid, u64 futex, u64 before, u32 may_look)
{
	struct java *java = bpf_map_lookup_elem(&javas, &tgid);

	if (!java)
		return 0;
	if (before && futex - before < java->at.size)
		return before;
	return may_look ? java_thread_with(tgid, futex) : 0;
}
