/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The callers of code without frame pointers: functions of the C library that wait are such nearly everywhere, and the kernel, which
 * follows frame pointers, leaves out who called them. By which step one gets from a place to its caller the unwind tables tell, which
 * user space reads (symbols/unwind). A place of which that is not known yet is sent there with the stack from its frame on. */
#pragma once
#include "python.h"
#include "v8.h"

/* Tables can be read, and the registers are those that the tables know. */
const volatile u32 with_steps = 1;

/* From a place to its caller, whose frame is where its stack pointer will be. Words that are 0 or all ones choose,
 * so that there is one way through. */
struct step {
	u64 of_sp; /* the frame is reckoned from the stack pointer */
	u64 of_pointer; /* or from the frame pointer */
	s64 frame;
	s64 loaded; /* LOADS: the word that is there, and so much more */
	s64 returns; /* from the caller's frame to the address to return to */
	s64 pointer; /* and to its frame pointer */
	u64 saved; /* which is there */
	u64 kept; /* or as it was */
	u32 flags;
	u32 interpreted; /* no table is about the code, which may be an interpreter's */
	u64 holds; /* from which byte of these 16 on, and for how many << 8 */
};
#define LOADS 1
#define IN_LINK 2 /* the address to return to is in a register, if no function was called since */
#define OUTERMOST 4
#define NO_WAY 8
#define NOT_KNOWN 16 /* no step's */

#define HELD 16ULL /* bytes of code that share a place */
#define CODE_PAGE 4096ULL /* or do if no table is about them */
#define OF_PAGE 2
struct step_key {
	u64 program;
	u64 place; /* the lowest bit: of those that calls return to, which are apart from those in execution; the next one: a page */
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* user space sets it */
	__type(key, struct step_key);
	__type(value, struct step);
} steps SEC(".maps");
/* What a process executes, by user space's number: none while that knows no step of it, and since when if it has become another program. */
#define NEW_CODE (1ULL << 63)
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} executed SEC(".maps");

/* A frame whose caller is not known. */
#define STACK_BYTES 8192
#define WALK_DEPTH 80
#define MOST_FUNCTIONS 64
#define MOST_TRIED 128
/* Functions of JavaScript, each with the frame pointer beside which it stands; 0: no more. */
struct functions {
	struct {
		u64 pointer;
		u64 function;
	} list[MOST_FUNCTIONS];
};
struct frame_asked {
	u64 ids; /* process << 32; 1: the place is executed, and not returned to; 2: the thread is on a CPU */
	u64 process_born;
	u64 program;
	u64 place; /* the address itself */
	u64 sp;
	u64 pointer;
	u64 link;
	u64 name; /* of the stack that user space completes; 0: it is none's */
	u64 so_far[WALK_DEPTH + 1]; /* which ends with that place */
	struct functions functions;
	u64 size; /* of the user stack, from the chunk on in which the frame begins */
	u8 stack[STACK_BYTES];
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} frames_asked SEC(".maps");
/* When a thread has asked for a frame last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct step_key);
	__type(value, u64);
} places_asked SEC(".maps");
#define ASKED_AGAIN 1000000000
/* How many names were given to stacks of which the rest is to come: of waits, and of those that run. Each takes room that others need. */
#define MOST_TO_COME 2048
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} names_to_come SEC(".maps");
#define CHUNK 1024 /* whole chunks lie in one page */
#define NO_WAKEUP 1 /* BPF_RB_NO_WAKEUP: user space looks several times a second */
#define FARTHEST (1ULL << 40)
#define ARM_ADDRESS ((1ULL << 48) - 1)
#define X86_USER64_CS 0x33
#define XEN_USER64_CS 0xe033
#define ARM_MODE 0x1f

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs___x86_frame {
	u64 bp;
	u64 ip;
	u64 cs;
	u64 sp;
};
struct pt_regs___arm64_frame {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
};
#pragma clang attribute pop

/* It has come to a place whose step is not known; that is executed, and not returned to. */
#define ASKS 1
#define ASKS_EXECUTED 2

struct at {
	u64 program;
	u64 pc;
	u64 sp;
	u64 pointer;
	u64 link;
	u64 is_running;
	u64 is_to_come; /* what user space completes */
	u32 asks;
	u32 v8; /* the process, if it has functions of JavaScript; or 0 */
};

/* Where the program was when it entered the kernel; false for code of 32 bits. */
static __always_inline bool begin_walk(struct at *at, void *saved)
{
	if (IS_ARM64) {
		struct pt_regs___arm64_frame *arm = saved;
		at->pc = BPF_CORE_READ(arm, pc);
		at->sp = BPF_CORE_READ(arm, sp);
		at->pointer = BPF_CORE_READ(arm, regs[29]);
		at->link = BPF_CORE_READ(arm, regs[30]);
		return !(BPF_CORE_READ(arm, pstate) & ARM_MODE);
	}
	struct pt_regs___x86_frame *x86 = saved;
	u16 segment = BPF_CORE_READ(x86, cs);
	at->pc = BPF_CORE_READ(x86, ip);
	at->sp = BPF_CORE_READ(x86, sp);
	at->pointer = BPF_CORE_READ(x86, bp);
	return segment == X86_USER64_CS || segment == XEN_USER64_CS;
}

/* The name of a stack that user space completes; 0 if there are too many. */
static __always_inline u64 name_to_come(struct at *at, u64 now, u64 ids)
{
	u32 which = at->is_running;
	u64 *given = bpf_map_lookup_elem(&names_to_come, &which);

	if (!given || *given >= MOST_TO_COME)
		return 0;
	__sync_fetch_and_add(given, 1);
	/* No other thread is there at that instant. */
	return mix(now, ids) | 3;
}

/* The first frame pointer on some part of the stack that stands beside a function of JavaScript; if none does, how many might have. */
#define V8_PARTS 8
__noinline u64 v8_frame_among(u32 tgid, u64 from, u64 tried)
{
	for (int i = 0; i < STACK_BYTES / sizeof(u64) / V8_WORDS / V8_PARTS && tried < MOST_TRIED; i++) {
		u64 found = v8_frame_from(tgid, from + i * V8_WORDS * sizeof(u64));
		if (found > V8_WORDS)
			return found;
		tried += found;
	}
	return tried;
}

/* The first one, in the register or on the stack; 0: there is none. */
__noinline u64 first_v8_frame(u32 tgid, u64 pointer, u64 sp)
{
	u64 tried = 0;

	if (v8_function(tgid, pointer))
		return pointer;
	for (int i = 0; i < V8_PARTS && tried < MOST_TRIED; i++) {
		u64 found = v8_frame_among(tgid, sp + i * STACK_BYTES / V8_PARTS, tried);
		if (found >= MOST_TRIED + V8_WORDS)
			return found;
		tried = found;
	}
	return 0;
}

/* Those of the thread that goes to sleep, and of one that is sampled. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct functions);
} functions_at_hand SEC(".maps");

/* Looks up some functions of JavaScript, from the frame at a frame pointer on, and returns the next one's. */
#define LOOKED_UP_AT_ONCE 8
__noinline u64 look_up_some(u32 which, u32 from, u32 tgid, u64 pointer)
{
	struct functions *functions = bpf_map_lookup_elem(&functions_at_hand, &which);
	u64 at = from;

	asm volatile("" : "+r"(at));
	if (!functions || at > MOST_FUNCTIONS - LOOKED_UP_AT_ONCE)
		return 0;
	for (int i = 0; i < LOOKED_UP_AT_ONCE; i++) {
		functions->list[at + i].pointer = pointer;
		if (!pointer)
			break;
		functions->list[at + i].function = v8_function(tgid, pointer);
		u64 caller = word_at(pointer);
		pointer = caller > pointer ? caller : 0;
	}
	return pointer;
}

/* Looks up functions of JavaScript for frames that only user space will come to: from the first frame pointer on that stands beside one, in
 * the register or on the stack, along the pointers from there. What is none of a live frame user space does not come to. */
static __noinline void look_up_functions(struct frame_asked *frame, struct at *at)
{
	u64 pointer = first_v8_frame(at->v8, at->pointer, at->sp);
	u32 which = at->is_running;

	for (int from = 0; from < MOST_FUNCTIONS; from += LOOKED_UP_AT_ONCE) {
		u64 next = look_up_some(which, from, at->v8, pointer);
		/* Without one the end was written. */
		if (!pointer)
			break;
		pointer = next;
	}
	struct functions *functions = bpf_map_lookup_elem(&functions_at_hand, &which);
	if (functions)
		bpf_probe_read_kernel(&frame->functions, sizeof(frame->functions), functions);
}

/* Sends the frame that the walk has come to, and returns the name of its stack, which user space completes; 0 if it has none. */
static __noinline u64 ask_step(struct stack *so_far, struct at *at, struct thread *thread, bool executed_there)
{
	u64 now = bpf_ktime_get_ns(), ids = thread->ids;
	struct step_key key = { .program = mix(ids, at->sp), .place = at->pc };
	u64 *asked = bpf_map_lookup_elem(&places_asked, &key);

	if (asked && now - *asked < ASKED_AGAIN)
		return 0;
	struct frame_asked *frame = bpf_ringbuf_reserve(&frames_asked, sizeof(*frame), 0);
	if (!frame)
		return 0;
	bpf_map_update_elem(&places_asked, &key, &now, BPF_ANY);
	frame->ids = ids >> 32 << 32 | at->is_running << 1 | executed_there;
	frame->process_born = thread->process_born;
	frame->program = at->program;
	frame->place = at->pc;
	frame->sp = at->sp;
	frame->pointer = at->pointer;
	frame->link = at->link;
	bpf_probe_read_kernel(frame->so_far, sizeof(frame->so_far), so_far->ips);
	frame->size = 0;
	for (int i = 0; i < STACK_BYTES / CHUNK; i++) {
		if (bpf_probe_read_user(frame->stack + i * CHUNK, CHUNK, (void *)((at->sp & ~(u64)(CHUNK - 1)) + i * CHUNK)))
			break;
		frame->size += CHUNK;
	}
	u64 name = frame->name = name_to_come(at, now, ids);
	frame->functions.list[0].pointer = 0;
	if (at->v8 && name)
		look_up_functions(frame, at);
	bpf_ringbuf_submit(frame, NO_WAKEUP);
	at->is_to_come = name != 0;
	return name;
}

/* Goes on to the caller; false if that cannot be. */
static __always_inline bool take_step(struct at *at, struct step *step, u64 is_called)
{
	u64 frame = (at->pointer & step->of_pointer) + (at->sp & step->of_sp) + step->frame, returns = 0;

	if (step->flags & LOADS)
		frame = word_at(frame) + step->loaded;
	if (IS_ARM64 && step->flags & IN_LINK) {
		if (is_called || frame - at->sp >= FARTHEST)
			return false;
		returns = at->link;
	} else {
		/* Frames follow each other outwards. */
		if (frame - at->sp - 1 >= FARTHEST)
			return false;
		bpf_probe_read_user(&returns, sizeof(returns), (void *)(frame + step->returns));
	}
	at->pointer = (at->pointer & step->kept) + (word_at(frame + step->pointer) & step->saved);
	at->pc = IS_ARM64 ? returns & ARM_ADDRESS : returns;
	at->sp = frame;
	return true;
}

/* The walks at hand: of a thread that goes to sleep, and of one that is sampled, which may interrupt the other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct at);
} walks SEC(".maps");

#define SCRATCH_OF(is_running) ((is_running) ? 2 : 0)

/* One place of a walk, and on to the next one: 0, or why not. Verified once, and not anew in each of eighty turns. */
__noinline int walk_on(u32 is_running, u32 i)
{
	u32 which = SCRATCH_OF(is_running);
	struct stack *stack = bpf_map_lookup_elem(&scratch, &which);
	struct at *at = bpf_map_lookup_elem(&walks, &is_running);

	u64 turn = i, is_called = i > 0;

	/* The verifier is to see the bound of what is reckoned with. */
	asm volatile("" : "+r"(turn));
	if (!stack || !at || turn >= WALK_DEPTH)
		return NO_WAY;
	/* A call stands right before the address that it returns to. */
	u64 place = at->pc - is_called;
	struct step_key key = { .program = at->program, .place = (place & ~(HELD - 1)) | is_called };

	stack->ips[turn] = at->pc;
	stack->ips[turn + 1] = 0;
	struct step *step = bpf_map_lookup_elem(&steps, &key);
	if (!step) {
		key.place = (place & ~(CODE_PAGE - 1)) | OF_PAGE;
		step = bpf_map_lookup_elem(&steps, &key);
	}
	if (!step || (place & (HELD - 1)) - (step->holds & 0xff) >= step->holds >> 8)
		return at->pc ? NOT_KNOWN : OUTERMOST;
	u64 function = v8_function(at->v8 & step->interpreted, at->pointer);
	if (function)
		stack->ips[turn] = function;
	u32 flags = step->flags & (OUTERMOST | NO_WAY);
	if (flags)
		return flags;
	return take_step(at, step, is_called) ? 0 : NO_WAY;
}

/* Some places of a walk: the number of the one at which it ends, with why above that, or of the next one. */
#define WALKED_AT_ONCE 10
#define WHY_AT 8
__noinline int walk_some(u32 is_running, u32 from)
{
	for (u32 i = 0; i < WALKED_AT_ONCE; i++) {
		u32 flags = walk_on(is_running, from + i);
		if (flags)
			return flags << WHY_AT | (from + i);
	}
	return from + WALKED_AT_ONCE;
}

/* The stack of the program by its tables, as far as these lead and there is room, and its name; 0 if it cannot be walked. */
static __noinline u64 walk(struct stack *stack, struct at *at)
{
	u32 flags = 0, is_running = at->is_running, turn = 0;

	for (int i = 0; i < WALK_DEPTH && !flags; i += WALKED_AT_ONCE) {
		turn = walk_some(is_running, i);
		flags = turn >> WHY_AT;
	}
	bool is_called = turn & ((1 << WHY_AT) - 1);
	if (flags & NOT_KNOWN) {
		at->asks = is_called ? ASKS : ASKS | ASKS_EXECUTED;
		return 0;
	}
	/* Where no way leads on, the innermost part is what tables say all the same; but who called the innermost function could not be read. */
	if ((flags & NO_WAY && !is_called) || (!at->pc && !stack->ips[1]))
		return 0;
	/* Other processes have other functions under the same words. */
	u64 name = name_at_hand(SCRATCH_OF(is_running));
	return at->v8 ? mix(name, at->v8) | 3 : name | 1;
}

/* The same of a task that entered the kernel with these registers; and whether the stack is to be kept under that name, since user space
 * has it not. */
static __always_inline u64 walked_stack(struct stack *stack, struct thread *thread, void *saved, const bool is_running, bool *to_keep)
{
	u32 tgid = thread->ids >> 32, zero = 0, which = is_running;
	struct at *at = bpf_map_lookup_elem(&walks, &which);

	/* Of a thread of Python the functions are known otherwise. */
	if (!with_steps || !at || (thread->interpreter && bpf_map_lookup_elem(&pythons, &tgid)) || !begin_walk(at, saved))
		return 0;
	at->is_running = is_running;
	at->is_to_come = at->asks = at->v8 = 0;
	u64 *program = bpf_map_lookup_elem(&executed, &tgid);
	at->program = program ? *program : 0;
	struct name_at_hand *at_hand = bpf_map_lookup_elem(&function_name_at_hand, &zero);
	if (at_hand && bpf_map_lookup_elem(&v8s, &tgid)) {
		at_hand->given = 0;
		at->v8 = tgid;
	}
	u64 name = walk(stack, at);
	/* Not from within: all that is called has 512 bytes of stack together. */
	if (at->asks)
		name = ask_step(stack, at, thread, at->asks & ASKS_EXECUTED);
	*to_keep = !at->is_to_come;
	return name;
}
