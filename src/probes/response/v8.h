/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The functions of a program in JavaScript that a thread is in. V8 keeps frame pointers, and beside each the function whose frame it is;
 * what code returns to is of no use, since all functions that are not compiled yet share it. What V8's objects look like user space tells
 * (symbols/interpreted). */
#pragma once
#include "interpreted.h"

/* Where V8 has what, in bytes from an object's beginning, and types of objects. */
struct v8 {
	u64 shared; /* of a function: what all of its closures share */
	u64 name; /* of that: a text, or the scope in which a text is */
	u64 script;
	u64 locals; /* of a scope: their number */
	u64 first_local;
	u64 first_other; /* the first type of what is no text */
	u64 type_of_shared;
	u64 type_of_scope;
	u64 type_of_script;
	u64 type_of_debug_info; /* stands in the place of a script where functions are debugged */
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct v8);
} v8s SEC(".maps");

/* The same in all versions; user space makes sure. Pointers to objects have a 1 in their lowest two bits. */
#define V8_TYPE 12
#define V8_SCRIPT_NAME 16
#define V8_LENGTH 12
#define V8_TEXT 16
#define V8_FIRST 16
#define V8_SECOND 24
#define V8_KINDS 7
#define V8_IN_ONE_PIECE 0
#define V8_OF_TWO 1
#define V8_PART 3
#define V8_ALIAS 5
#define V8_ONE_BYTE 8
/* Locals that a scope has in itself. */
#define V8_LOCALS 75
#define V8_NO_TYPE (1ULL << 32)
#define V8_NO_FILE "(no file name)"
/* Names that one walk looks up at most: others wait behind it. */
#define MOST_NAMES_IN_WALK 24

static __always_inline bool is_v8_object(u64 word)
{
	return (word & 3) == 1;
}

static __always_inline u64 v8_field(u64 object, u64 offset)
{
	return word_at(object - 1 + offset);
}

static __always_inline u64 v8_type(u64 object)
{
	u64 map = v8_field(object, 0);
	u16 type = 0;

	if (!is_v8_object(object) || !is_v8_object(map) || bpf_probe_read_user(&type, sizeof(type), (void *)(map - 1 + V8_TYPE)))
		return V8_NO_TYPE;
	return type;
}

static __always_inline u32 v8_length(u64 text)
{
	u32 length = 0;

	bpf_probe_read_user(&length, sizeof(length), (void *)(text - 1 + V8_LENGTH));
	return length;
}

/* What became of a text; the last one: it is of other ones. */
enum v8_text { V8_NO_TEXT, V8_HAS_TEXT, V8_NOT_READ, V8_GOES_ON };

/* Puts the end of the text at hand into the name at hand, if it is in one piece and its letters have one byte each, or goes on to one that
 * it is of. Not static, and so verified once, and not for each turn and each place that a text is looked for; such take numbers only on old
 * kernels. */
__noinline int read_v8_piece(u32 tgid, u32 is_file)
{
	struct v8 *v8 = bpf_map_lookup_elem(&v8s, &tgid);
	u32 zero = 0;
	struct name_at_hand *at_hand = bpf_map_lookup_elem(&function_name_at_hand, &zero);

	if (!v8 || !at_hand)
		return V8_NOT_READ;
	u64 text = at_hand->text, type = v8_type(text);
	if (type == V8_NO_TYPE)
		return is_v8_object(text) ? V8_NOT_READ : V8_NO_TEXT;
	if (type >= v8->first_other || !at_hand->length)
		return V8_NO_TEXT;
	u64 kind = type & V8_KINDS;
	if (kind == V8_IN_ONE_PIECE) {
		char *to = is_file ? at_hand->name.file : at_hand->name.name;
		if (!(type & V8_ONE_BYTE))
			return V8_HAS_TEXT;
		return read_end_of_text(text - 1 + V8_TEXT + at_hand->from, at_hand->length, to) ? V8_HAS_TEXT : V8_NOT_READ;
	}
	if (kind != V8_OF_TWO && kind != V8_PART && kind != V8_ALIAS)
		return V8_HAS_TEXT;
	at_hand->text = v8_field(text, V8_FIRST);
	u64 second = v8_field(text, V8_SECOND);
	if (kind == V8_PART) {
		at_hand->from += second >> 32;
		at_hand->is_part = true;
	}
	if (kind == V8_OF_TWO) {
		/* Of what was put together in one piece the second is empty. */
		if (v8_length(second))
			at_hand->text = second;
		if (!at_hand->is_part)
			at_hand->length = v8_length(at_hand->text);
	}
	return V8_GOES_ON;
}

/* The same of a text, in one piece or not. */
__noinline int read_v8_text(u32 tgid, u64 text, u32 is_file)
{
	u32 zero = 0;
	struct name_at_hand *at_hand = bpf_map_lookup_elem(&function_name_at_hand, &zero);

	if (!at_hand)
		return V8_NOT_READ;
	at_hand->text = text;
	at_hand->length = v8_length(text);
	at_hand->from = at_hand->is_part = 0;
	/* A name that V8 has made up (`module.exports.handle`) is of many texts, the last one in the first. */
	for (int i = 0; i < 8; i++) {
		int found = read_v8_piece(tgid, is_file);
		if (found != V8_GOES_ON)
			return found;
	}
	return V8_HAS_TEXT;
}

/* Behind the locals of a scope, of which each has a name and a word, come the function's name and that under which it is known. */
static __always_inline int read_name_in_scope(struct v8 *v8, u32 tgid, u64 scope)
{
	u64 locals = v8_field(scope, v8->locals) >> 32;
	bool has_names = locals < V8_LOCALS || v8_type(v8_field(scope, v8->first_local)) < v8->first_other;
	u64 at = v8->first_local + (has_names ? 2 * locals : locals + 1) * sizeof(u64);

	for (int i = 0; i < 5; i++) {
		int found = read_v8_text(tgid, v8_field(scope, at + i * sizeof(u64)), 0);
		if (found != V8_NO_TEXT)
			return found;
	}
	return V8_NO_TEXT;
}

/* The file of a function; whether all of it that is there could be read. */
static __always_inline bool read_v8_file(struct v8 *v8, u32 tgid, u64 script, struct function_name *name)
{
	u64 type = v8_type(script);

	/* What V8 has in itself has none. */
	if (type == V8_NO_TYPE || (type != v8->type_of_script && type != v8->type_of_debug_info))
		return type != V8_NO_TYPE;
	if (type == v8->type_of_script && read_v8_text(tgid, v8_field(script, V8_SCRIPT_NAME), 1) == V8_NOT_READ)
		return false;
	if (!name->file[0])
		__builtin_memcpy(name->file, V8_NO_FILE, sizeof(V8_NO_FILE));
	return true;
}

/* Keeps the name of a function. */
__noinline int name_v8_function(u32 tgid, u64 shared)
{
	struct v8 *v8 = bpf_map_lookup_elem(&v8s, &tgid);
	u32 zero = 0;
	struct name_at_hand *at_hand = bpf_map_lookup_elem(&function_name_at_hand, &zero);

	if (!v8 || !at_hand || at_hand->given >= MOST_NAMES_IN_WALK)
		return 0;
	at_hand->given++;
	struct function_name *name = &at_hand->name;
	u64 named = v8_field(shared, v8->name);
	struct function_key key = { .tgid = tgid, .word = interpreted_word(shared, named) };
	__builtin_memset(name, 0, sizeof(*name));
	int found = v8_type(named) == v8->type_of_scope ? read_name_in_scope(v8, tgid, named) : read_v8_text(tgid, named, 0);
	if (found == V8_NO_TEXT)
		__builtin_memcpy(name->name, "(anonymous)", sizeof("(anonymous)"));
	/* What cannot be read now may be another time. */
	if (found != V8_NOT_READ && read_v8_file(v8, tgid, v8_field(shared, v8->script), name))
		keep_function_name(&key, name);
	return 0;
}

/* What the closures of the function share whose frame is at a frame pointer; 0 if that is none of JavaScript. */
static __always_inline u64 v8_shared_at(struct v8 *v8, u64 pointer)
{
	u64 of[2] = {};

	/* Frames of another kind have a number in place of the second one. */
	if (bpf_probe_read_user(of, sizeof(of), (void *)(pointer - sizeof(of))) || !is_v8_object(of[0]) || !is_v8_object(of[1]))
		return 0;
	u64 shared = v8_field(of[0], v8->shared);
	return v8_type(shared) == v8->type_of_shared ? shared : 0;
}

/* The same of a process; not static, as above. */
__noinline u64 v8_shared_in(u32 tgid, u64 pointer)
{
	struct v8 *v8 = bpf_map_lookup_elem(&v8s, &tgid);

	return v8 ? v8_shared_at(v8, pointer) : 0;
}

/* The function of the frame at a frame pointer, as a word for a stack; 0 if it is none of JavaScript, or of no process. */
__noinline u64 v8_function(u32 tgid, u64 pointer)
{
	u64 named = 0;

	if (!tgid)
		return 0;
	struct v8 *v8 = bpf_map_lookup_elem(&v8s, &tgid);
	u64 shared = v8 ? v8_shared_at(v8, pointer) : 0;
	if (!shared || bpf_probe_read_user(&named, sizeof(named), (void *)(shared - 1 + v8->name)))
		return 0;
	struct function_key key = { .tgid = tgid, .word = interpreted_word(shared, named) };
	if (!bpf_map_lookup_elem(&function_names, &key))
		name_v8_function(tgid, shared);
	return key.word;
}

/* The first frame of JavaScript to which a word of the stack leads, of so many from an address on; if none does, how many might have. */
#define V8_WORDS 8
#define V8_FARTHEST 8192
__noinline u64 v8_frame_from(u32 tgid, u64 from)
{
	u64 words[V8_WORDS] = {}, tried = 0;

	if (bpf_probe_read_user(words, sizeof(words), (void *)from))
		return 0;
	for (int i = 0; i < V8_WORDS; i++) {
		/* Frames lie outwards of what leads to them, and not far. */
		u64 far = words[i] - (from + i * sizeof(u64));
		if (far >= V8_FARTHEST || words[i] & 7)
			continue;
		if (v8_shared_in(tgid, words[i]))
			return words[i];
		tried++;
	}
	return tried;
}
