/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The functions of a Python program that a thread is in. The stack of the processor has those of the interpreter alone; which functions it
 * works on is in its memory, whose layout user space tells (symbols/interpreted). */
#pragma once
#include "interpreted.h"
#include "lockword.h"

/* Where CPython has what, in bytes from the beginning of each structure. */
struct python {
	u64 first_interpreter; /* the address of the pointer to it */
	u64 next_interpreter;
	u64 first_thread;
	u64 next_thread;
	u64 thread_id; /* pthread_self() */
	u64 native_id; /* gettid(), + 1; 0: there is none */
	u64 frame;
	u64 frame_within; /* of what that points to, + 1; 0: it is the frame */
	u64 code;
	u64 previous;
	u64 owner; /* + 1; 0: there is none */
	u64 file;
	u64 name;
	u64 length;
	u64 state;
	u64 text;
};
/* One that is new takes the place of one that ended long ago. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct python);
} pythons SEC(".maps");

#define IS_ASCII 0x40 /* a bit of a text's state, in every version */
#define PYTHON_DEPTH 100
#define PYTHON_THREADS 128
/* Owners of frames that are no functions of the program: 3 in CPython 3.12 and 3.13, 3 and 4 in 3.14. */
#define FIRST_OF_INTERPRETER 3

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct upid {
	int nr;
	void *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[1];
};
struct task_struct___python {
	struct pid *thread_pid;
};
#pragma clang attribute pop

struct python_thread {
	u64 id; /* 0: not known */
	u64 native_id;
};

/* What the interpreter calls the task that runs now: by its TLS, which begins there in glibc and musl on x86-64, and by its number, which
 * the first thread of a forked process may have from its parent. */
static __always_inline struct python_thread called_by_python(struct task_struct *task)
{
	struct task_struct___x86 *x86 = (void *)task;
	struct task_struct___python *of = (void *)task;
	struct python_thread called = {};

	if (bpf_core_field_exists(x86->thread.fsbase))
		called.id = BPF_CORE_READ(x86, thread.fsbase);
	struct pid *pid = BPF_CORE_READ(of, thread_pid);
	u32 level = BPF_CORE_READ(pid, level), number = 0;
	bpf_probe_read_kernel(&number, sizeof(number), (void *)&pid->numbers[0].nr + level * sizeof(struct upid));
	called.native_id = number;
	return called;
}

__noinline int is_python_thread(u32 tgid, u64 at, u64 id, u64 native_id)
{
	struct python *python = bpf_map_lookup_elem(&pythons, &tgid);

	if (!python)
		return 0;
	if (id)
		return word_at(at + python->thread_id) == id;
	return python->native_id && word_at(at + python->native_id - 1) == native_id;
}

/* What the interpreter keeps of a task that it calls so; 0 if it knows none such. */
__noinline u64 python_thread_of(u32 tgid, u64 id, u64 native_id)
{
	struct python *python = bpf_map_lookup_elem(&pythons, &tgid);

	if (!python)
		return 0;
	u64 interpreter = word_at(python->first_interpreter), at = word_at(interpreter + python->first_thread);
	for (int i = 0; i < PYTHON_THREADS; i++) {
		if (!at) {
			interpreter = word_at(interpreter + python->next_interpreter);
			if (!interpreter)
				break;
			at = word_at(interpreter + python->first_thread);
		}
		if (is_python_thread(tgid, at, id, native_id))
			return at;
		at = word_at(at + python->next_thread);
	}
	return 0;
}

/* The same of the task that runs now. */
static __noinline u64 python_thread(struct thread *thread, struct task_struct *task, u32 tgid)
{
	struct python_thread called = called_by_python(task);
	u64 at = thread->interpreter;

	if (at && is_python_thread(tgid, at, called.id, called.native_id))
		return at;
	at = python_thread_of(tgid, called.id, called.native_id);
	if (at)
		thread->interpreter = at;
	return at;
}

/* The end of a text of the interpreter's, if it is ASCII; whether it could be read. */
static __always_inline bool read_python_text(struct python *python, u64 text, char *to)
{
	u64 length = 0;
	u32 state = 0;

	if (bpf_probe_read_user(&length, sizeof(length), (void *)(text + python->length)) ||
	    bpf_probe_read_user(&state, sizeof(state), (void *)(text + python->state)))
		return false;
	return !(state & IS_ASCII) || read_end_of_text(text + python->text, length, to);
}

static __always_inline u64 python_word(struct python *python, u64 code)
{
	return interpreted_word(code, word_at(code + python->name));
}

/* Keeps the name of a function. Not static, and so verified once, and not for each of a hundred frames; such take numbers only on old
 * kernels. */
__noinline int name_python_function(u32 tgid, u64 code)
{
	struct python *python = bpf_map_lookup_elem(&pythons, &tgid);
	u32 zero = 0;
	struct name_at_hand *at_hand = bpf_map_lookup_elem(&function_name_at_hand, &zero);

	if (!python || !at_hand)
		return 0;
	struct function_name *name = &at_hand->name;
	struct function_key key = { .tgid = tgid, .word = python_word(python, code) };
	if (bpf_map_lookup_elem(&function_names, &key))
		return 0;
	__builtin_memset(name, 0, sizeof(*name));
	/* What cannot be read now may be another time. */
	if (!read_python_text(python, word_at(code + python->name), name->name) ||
	    !read_python_text(python, word_at(code + python->file), name->file))
		return 0;
	keep_function_name(&key, name);
	return 0;
}

/* As much of a frame is looked at: what is said to lie beyond is 0. */
#define FRAME_BYTES 80
struct python_frame {
	u64 words[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct python_frame);
} python_frame_at_hand SEC(".maps");

static __always_inline u64 word_of(struct python_frame *frame, u64 offset)
{
	return frame->words[offset / sizeof(u64) & 15];
}

/* The code objects of the functions on the stack at hand. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack);
} python_code_at_hand SEC(".maps");

/* One function of the stack at hand, and the frame of its caller; 0: there is none. Verified once, as above. */
__noinline u64 python_frame_on(u32 tgid, u32 which, u32 i, u64 frame)
{
	u32 zero = 0;
	u64 turn = i;
	struct python *python = bpf_map_lookup_elem(&pythons, &tgid);
	struct stack *stack = bpf_map_lookup_elem(&scratch, &which);
	struct python_frame *read = bpf_map_lookup_elem(&python_frame_at_hand, &zero);
	struct stack *code_at = bpf_map_lookup_elem(&python_code_at_hand, &zero);

	asm volatile("" : "+r"(turn));
	if (!stack || turn >= PYTHON_DEPTH)
		return 0;
	stack->ips[turn] = 0;
	if (!python || !read || !code_at || !frame)
		return 0;
	if (bpf_probe_read_user(read, FRAME_BYTES, (void *)frame)) {
		stack->ips[turn] = INTERPRETED_CUT;
		return 0;
	}
	u64 owner_at = python->owner - 1;
	/* From 3.14 on the lowest bits are marks. */
	u64 code = word_of(read, python->code) & ~7ULL;
	if (!code)
		return 0;
	if (python->owner && (u8)(word_of(read, owner_at) >> 8 * (owner_at & 7)) >= FIRST_OF_INTERPRETER)
		code = 0;
	code_at->ips[turn] = code;
	stack->ips[turn] = code ? python_word(python, code) : INTERPRETED;
	return word_of(read, python->previous);
}

/* Puts the functions that a thread is in behind the innermost place on the stack at hand, and tells whether there are any. */
static __noinline bool python_frames(struct stack *stack, u32 which, struct python *python, u32 tgid, u64 at)
{
	u64 frame = word_at(at + python->frame);

	if (frame && python->frame_within)
		frame = word_at(frame + python->frame_within - 1);
	stack->ips[1] = stack->ips[PYTHON_DEPTH] = 0;
	for (int i = 1; i < PYTHON_DEPTH; i++) {
		frame = python_frame_on(tgid, which, i, frame);
		if (!frame) {
			stack->ips[i + 1] = 0;
			break;
		}
	}
	return stack->ips[1];
}

/* Asks for the name of one function of the stack at hand, if it is new; whether there may be more. */
__noinline int name_python_at(u32 tgid, u32 which, u32 i)
{
	u32 zero = 0;
	u64 turn = i;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &which);
	struct stack *code_at = bpf_map_lookup_elem(&python_code_at_hand, &zero);

	asm volatile("" : "+r"(turn));
	if (!stack || !code_at || turn >= PYTHON_DEPTH)
		return 0;
	struct function_key key = { .tgid = tgid, .word = stack->ips[turn] };
	if (key.word && key.word != INTERPRETED && key.word != INTERPRETED_CUT && !bpf_map_lookup_elem(&function_names, &key))
		name_python_function(tgid, code_at->ips[turn]);
	return key.word != 0;
}

/* Asks for the names of functions that are new on the stack at hand, which has just been put together. */
static __noinline void name_python(u32 which, u32 tgid)
{
	for (int i = 1; i < PYTHON_DEPTH; i++)
		if (!name_python_at(tgid, which, i))
			break;
}

/* Of forked processes the same stack has other functions, or the same ones under names that are asked for once more. */
static __always_inline u64 python_stack_name(u32 which, u32 tgid)
{
	return mix(name_at_hand(which), tgid) | 2;
}

/* Beside the program that sees all switches, and after it, where a program in Python was found: what goes out waits, and has a stack. */
static __always_inline void goes_out_of_python(u64 *ctx, struct thread *thread, struct task_struct *prev)
{
	u32 tgid = prev->tgid, zero = 0;
	struct python *python = bpf_map_lookup_elem(&pythons, &tgid);
	struct stack *at_hand = bpf_map_lookup_elem(&scratch, &zero);

	if (!python || !at_hand || thread->mode != BLOCKED || !thread->user_stack)
		return;
	u64 at = python_thread(thread, prev, tgid);
	if (!at || bpf_get_stack(ctx, at_hand, sizeof(u64), BPF_F_USER_STACK) <= 0)
		return;
	if (!python_frames(at_hand, zero, python, tgid, at)) {
		thread->interpreter = 0;
		return;
	}
	u64 name = python_stack_name(zero, tgid);
	if (!bpf_map_lookup_elem(&stacks, &name))
		name_python(zero, tgid);
	name = keep_as(at_hand, name);
	if (name != MISSING)
		thread->user_stack = name;
}
