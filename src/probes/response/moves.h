/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Requests that move from one thread to another: each part of one that a thread has is a record of its own, which user space puts
 * together. A request goes by an id that is read at every mark, such as the address of the goroutine that serves it. */
#pragma once
#include "field.h"
#include "hash.h"
#include "membership.h"
#include "waits.h"

const volatile u32 with_ids = 0;
const volatile u32 across_processes = 0; /* an id is the same in all of them */
enum { ID_FROM, ID_TO, ID_ON, ID_OFF, ID_PARK, IDS };
const volatile struct field id_fields[IDS] = {};
const volatile u32 id_text_in[IDS] = {};
const volatile u32 id_text_at[IDS] = {};
const volatile struct field reason_field = {}; /* at ID_PARK: why no thread has it for now */
const volatile struct field caller_field = {}; /* where a function that is just entered will return to */

struct request_id {
	u64 id;
	u64 tgid;
};
struct request {
	u64 number; /* no other has the same */
	u64 tid; /* that has it; 0: none */
	u64 ready; /* since when a thread might take it up, as far as that is told; 0: not */
};
/* What is dropped from a queue leaves no trace: the one that was looked at longest ago makes room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct request_id);
	__type(value, struct request);
} requests SEC(".maps");

#define NO_ID (~0ULL)
#define ID_TEXT 64 /* a power of two */
struct id_text {
	u64 words[ID_TEXT / 8];
};

/* The id of a request at one of its marks: a number, or text by what it holds. */
static __always_inline u64 read_id(void *ctx, const u32 which)
{
	struct id_text text = {};
	u64 value = load(ctx, &id_fields[which]), id = NO_WORDS;

	if (id_text_in[which] == NO_TEXT)
		return value;
	if (read_text(ctx, value, id_text_in[which], id_text_at[which], (char *)&text, sizeof(text)) <= 0)
		return NO_ID;
#pragma unroll
	for (int i = 0; i < ID_TEXT / 8; i++)
		id = mix(id, text.words[i]);
	return id;
}

/* Each with a stack frame of its own, which is gone when what follows needs one. */
static __noinline u64 id_from(void *ctx) { return read_id(ctx, ID_FROM); }
static __noinline u64 id_to(void *ctx) { return read_id(ctx, ID_TO); }
static __noinline u64 id_on(void *ctx) { return read_id(ctx, ID_ON); }
static __noinline u64 id_off(void *ctx) { return read_id(ctx, ID_OFF); }

static __always_inline struct request_id request_id(u64 id)
{
	return (struct request_id){ .id = id, .tgid = across_processes ? 0 : bpf_get_current_pid_tgid() >> 32 };
}

/* Whether the process that runs is one whose marks count: see marks.h. */
static __always_inline bool marks_count(void);

/* Flags of a record, beside those of every thread's: it goes on from a part before it; a part after it may follow. */
#define GOES_ON 64
#define LAID_DOWN 128

/* The running thread's record ends here. */
static __always_inline void closes(struct thread *thread, u64 how)
{
	u64 task = bpf_get_current_task(), now = now_ns();
	u32 slot = slot_of(bpf_get_current_pid_tgid());

	had_cpu(thread, (void *)thread->rq, now, false);
	ran(thread, slot, task, now, thread->call != NONE);
	leave_call(thread, slot, task, 0, now);
	leaves_by(thread, slot, (void *)task, now, how, false);
}

/* The running thread begins a record, on its way in user mode or somewhere in the kernel. */
static __always_inline struct thread *opens(u64 in_user, u64 how)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 now = now_ns(), number = 0;
	u32 slot = take_in_by(task, now, 2 | how, false);
	struct thread *thread = bpf_map_lookup_elem(&threads, &slot);

	if (!thread)
		return NULL;
	latest_watch(&number);
	/* In user mode it is in no call; elsewhere the next event tells in which one. */
	thread->call = in_user ? NONE : UNSEEN;
	thread->watch = in_user ? number : 0;
	thread->mode = ON;
	has_cpu(thread, run_queue(task, false), false);
	publish((u32)bpf_get_current_pid_tgid(), slot);
	return thread;
}

/* How often a program has passed a mark, or a place where requests move. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} passes SEC(".maps");

static __always_inline void count_pass(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&passes, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline bool is_stopped(void)
{
	u32 zero = 0;
	u64 *stopped = bpf_map_lookup_elem(&control, &zero);

	return !stopped || *stopped;
}

/* What the running thread has is another request by now, or none: it left unseen, and where it is nobody knows. */
static __noinline int gives_up(struct thread *thread, u32 why)
{
	struct request_id at = request_id(thread->id);
	struct request *request = bpf_map_lookup_elem(&requests, &at);

	lose(why);
	if (request && request->number == thread->request)
		bpf_map_delete_elem(&requests, &at);
	closes(thread, 16);
	return 0;
}

/* So soon again the first mark is passed once only: a function of Go begins anew after its stack has grown. */
#define REENTERED_NS 100000

/* The running thread has the request from now on: it begins, or goes on. Whether it has a record of its own. */
static __noinline int takes(u64 id, u64 how, u64 in_user)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct request_id at = request_id(id);
	struct request now_on = { .number = now_ns() << 10 | (bpf_get_smp_processor_id() & 1023), .tid = tid };
	struct request *request = bpf_map_lookup_elem(&requests, &at);
	struct thread *thread = observed(tid);
	u64 ready = 0;

	if (id == NO_ID || is_stopped())
		return 0;
	if (thread && thread->id == id && request && request->number == thread->request && request->tid == tid) {
		/* It has it already. */
		if (how == GOES_ON || now_ns() - thread->began < REENTERED_NS)
			return 0;
	}
	if (thread)
		gives_up(thread, thread->id == id && how != GOES_ON ? NO_END : LOST_REQUEST);
	request = bpf_map_lookup_elem(&requests, &at);
	if (how == GOES_ON) {
		if (!request)
			return 0;
		if (request->tid) {
			/* The other thread's record is closed when that has another one. */
			lose(LOST_REQUEST);
			bpf_map_delete_elem(&requests, &at);
			return 0;
		}
		now_on.number = request->number;
		ready = request->ready;
	} else if (!marks_count()) {
		return 0;
	} else if (request) {
		lose(NO_END);
	}
	thread = opens(in_user, how);
	if (!thread) {
		bpf_map_delete_elem(&requests, &at);
		return 0;
	}
	thread->id = id;
	thread->request = now_on.number;
	thread->ready = ready;
	if (bpf_map_update_elem(&requests, &at, &now_on, BPF_ANY)) {
		gives_up(thread, LOST_REQUEST);
		return 0;
	}
	return 1;
}

/* The running thread has it no more: it has ended, or waits for a thread to take it up; where in the program, by the stack's name. */
static __noinline int lets_go(u64 id, u64 how, u64 reason, u64 stack)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct request_id at = request_id(id);
	struct request *request = bpf_map_lookup_elem(&requests, &at);
	struct thread *thread = observed(tid);

	if (id == NO_ID)
		return 0;
	/* A mark may be passed for another one than that which the thread has. */
	if (thread && thread->id == id) {
		if (!request || request->tid != tid || request->number != thread->request)
			return gives_up(thread, LOST_REQUEST);
		thread->reason = reason;
		thread->parked = stack;
		closes(thread, how);
		if (how != LAID_DOWN)
			bpf_map_delete_elem(&requests, &at);
		else
			request->tid = request->ready = 0;
		return 0;
	}
	if (request && !(how == LAID_DOWN && !request->tid)) {
		lose(LOST_REQUEST);
		bpf_map_delete_elem(&requests, &at);
	}
	return 0;
}

/* A thread might take it up from now on. */
static __always_inline int becomes_ready(u64 id)
{
	struct request_id at = request_id(id);
	struct request *request = bpf_map_lookup_elem(&requests, &at);

	if (request && !request->tid && !request->ready)
		request->ready = now_ns();
	return 0;
}

/* A stack that is being taken where others may come in between. */
struct parking {
	u64 owner;
	struct stack stack;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct parking);
} parking SEC(".maps");

/* Where in the program the running thread is that has just entered a function, which has no frame yet: from its caller on. */
static __noinline u64 callers(void *ctx)
{
	u32 zero = 0;
	u64 own = bpf_get_current_pid_tgid();
	struct parking *at_hand = bpf_map_lookup_elem(&parking, &zero);

	if (!at_hand)
		return MISSING;
	at_hand->owner = own;
	barrier();
	/* The address of the call, and not of what follows it. */
	at_hand->stack.ips[0] = load(ctx, &caller_field) - 1;
	if (bpf_get_stack(ctx, &at_hand->stack.ips[1], sizeof(at_hand->stack) - sizeof(u64), BPF_F_USER_STACK | 1) <= 0)
		return MISSING;
	u64 name = keep(&at_hand->stack);
	barrier();
	return at_hand->owner == own ? name : MISSING;
}

/* The reason 0 is: for none that is told. */
static __always_inline int parks(void *ctx)
{
	struct thread *thread = observed((u32)bpf_get_current_pid_tgid());
	u64 id;

	if (!thread)
		return 0;
	id = read_id(ctx, ID_PARK);
	if (thread->id != id)
		return gives_up(thread, LOST_REQUEST);
	return lets_go(id, LAID_DOWN, load(ctx, &reason_field) + 1, want_user ? callers(ctx) : 0);
}

SEC("uprobe") int on_point_uprobe(void *ctx)
{
	count_pass();
	return takes(id_on(ctx), GOES_ON, 1) & 0;
}
SEC("kprobe") int on_point_kprobe(void *ctx) { return takes(id_on(ctx), GOES_ON, 0) & 0; }
SEC("tracepoint") int on_point_tracepoint(void *ctx) { return takes(id_on(ctx), GOES_ON, 0) & 0; }
SEC("uprobe") int off_point_uprobe(void *ctx)
{
	count_pass();
	return lets_go(id_off(ctx), LAID_DOWN, 0, 0);
}
SEC("kprobe") int off_point_kprobe(void *ctx) { return lets_go(id_off(ctx), LAID_DOWN, 0, 0); }
SEC("tracepoint") int off_point_tracepoint(void *ctx) { return lets_go(id_off(ctx), LAID_DOWN, 0, 0); }
SEC("uprobe") int park_point_uprobe(void *ctx)
{
	count_pass();
	return parks(ctx);
}
/* It never comes to its end. */
SEC("uprobe") int gone_point_uprobe(void *ctx)
{
	count_pass();
	return lets_go(id_off(ctx), 16, 0, 0);
}
SEC("uprobe") int ready_point_uprobe(void *ctx)
{
	count_pass();
	return becomes_ready(id_off(ctx));
}
