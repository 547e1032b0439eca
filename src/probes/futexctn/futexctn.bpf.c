// SPDX-License-Identifier: MIT OR Apache-2.0
/* Waits in futex(2): at which address, for how long, on which stack of the program, and who ended them.
 *
 * Only this call is hooked, in its own tracepoints. Whoever wakes an address is noted there under its process, and found by
 * the one that was woken: for a mutex that is who has let go of it. */
#include "named_stacks.h"
#include "lockword.h"

/* FUTEX_…, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME. */
#define WAIT 0
#define WAKE 1
#define REQUEUE 3
#define CMP_REQUEUE 4
#define WAKE_OP 5
#define LOCK_PI 6
#define UNLOCK_PI 7
#define WAIT_BITSET 9
#define WAKE_BITSET 10
#define WAIT_REQUEUE_PI 11
#define CMP_REQUEUE_PI 12
#define LOCK_PI2 13
#define COMMAND 0x7f
#define HOLDER OWNER /* FUTEX_TID_MASK */
/* WAIT_BITSET of a private futex, without the real-time clock that glibc asks for. */
#define RUST_WAITS (WAIT_BITSET | 128)
#define ALL_BITS 0xffffffff

#define EAGAIN 11
#define ETIMEDOUT 110

enum { WOKEN, TIMED_OUT, INTERRUPTED, ENDS };

struct call {
	u64 id; /* what every event has */
	u64 number;
	u64 arguments[6]; /* of the entry; of the exit, the first is the result */
};

struct wait {
	u64 address;
	u64 since; /* 0: none is under way */
	u64 holder; /* of a lock that tells: thread id */
	u64 lock; /* 1: known to be a wait for a lock */
	u64 maybe; /* the address that this thread last waited at as for a mutex of Rust */
};

struct place {
	u64 tgid;
	u64 address;
};

struct waker {
	u64 tid;
	char comm[16];
};

struct key {
	u64 tgid;
	u64 address;
	u64 stack;
	char comm[16];
};

struct sum {
	u64 count;
	u64 ns;
	u64 max; /* not exact where two threads come back at the same moment */
	u64 timed_out;
	u64 born;
	u64 lock_ns; /* of waits that are known to be for a lock */
};

struct by {
	u64 tgid;
	u64 address;
	u64 tid; /* who let go */
	char comm[16];
};

struct blamed {
	u64 count;
	u64 ns;
};

/* A thread that dies while it waits leaves its entry to whoever needs the room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct wait);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct place);
	__type(value, struct waker);
} last_wakers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sum);
} waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct by);
	__type(value, struct blamed);
} wakers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ENDS);
	__type(key, u32);
	__type(value, struct hist);
} lengths SEC(".maps");

/* Whether a wait is for a lock, as far as the call and the thread's last wait of its kind tell. A condition variable of Rust counts
 * its signals, so a thread waits there for 2 once, and for a mutex again and again. */
static __always_inline bool is_lock(u32 command, struct call *ctx, struct wait *wait)
{
	u32 word = ctx->arguments[2];

	if (command == WAIT)
		return is_word_of_lock((void *)bpf_get_current_task(), own_registers(), wait->address, word, true);
	if (command == LOCK_PI || command == LOCK_PI2)
		return true;
	if ((u32)ctx->arguments[1] != RUST_WAITS || word != CONTENDED || ctx->arguments[3] || (u32)ctx->arguments[5] != ALL_BITS)
		return false;
	bool again = wait->maybe == wait->address;
	wait->maybe = wait->address;
	return again;
}

SEC("tracepoint") int enter_tracepoint(struct call *ctx)
{
	u64 ids = bpf_get_current_pid_tgid();
	u32 command = ctx->arguments[1] & COMMAND, tid = ids, word = 0;

	switch (command) {
	case WAKE:
	case REQUEUE:
	case CMP_REQUEUE:
	case WAKE_OP:
	case UNLOCK_PI:
	case WAKE_BITSET:
	case CMP_REQUEUE_PI: {
		/* Not limited to the name that is wanted: another thread of the process may have another. */
		struct place place = { .tgid = ids >> 32, .address = ctx->arguments[0] };
		struct waker waker = { .tid = tid };
		if (place.tgid == own_tgid || !current_process_wanted(place.tgid))
			return 0;
		/* Mostly the entries are there, and to change one costs less than to replace it. */
		struct waker *last = bpf_map_lookup_elem(&last_wakers, &place);
		if (last && last->tid == tid)
			return 0;
		bpf_get_current_comm(waker.comm, sizeof(waker.comm));
		if (last)
			*last = waker;
		else
			bpf_map_update_elem(&last_wakers, &place, &waker, BPF_ANY);
		return 0;
	}
	case WAIT:
	case WAIT_BITSET:
	case WAIT_REQUEUE_PI:
	case LOCK_PI:
	case LOCK_PI2:
		break;
	default:
		return 0;
	}
	if (!current_wanted())
		return 0;
	struct wait wait = { .address = ctx->arguments[0] };
	if (command == LOCK_PI || command == LOCK_PI2) {
		bpf_probe_read_user(&word, sizeof(word), (void *)wait.address);
		wait.holder = word & HOLDER;
	}
	struct wait *known = bpf_map_lookup_elem(&begun, &tid);
	wait.maybe = known ? known->maybe : 0;
	wait.lock = is_lock(command, ctx, &wait);
	wait.since = bpf_ktime_get_ns();
	if (known)
		*known = wait;
	else
		bpf_map_update_elem(&begun, &tid, &wait, BPF_ANY);
	return 0;
}

static __always_inline void blame(struct wait *wait, u64 tgid, u64 took)
{
	struct by by = { .tgid = tgid, .address = wait->address, .tid = wait->holder };
	struct place place = { .tgid = tgid, .address = wait->address };
	struct blamed fresh = { .count = 1, .ns = took };

	if (!by.tid) {
		struct waker *waker = bpf_map_lookup_elem(&last_wakers, &place);
		if (!waker)
			return;
		by.tid = waker->tid;
		__builtin_memcpy(by.comm, waker->comm, sizeof(by.comm));
	}
	struct blamed *blamed = bpf_map_lookup_elem(&wakers, &by);
	if (!blamed) {
		if (!bpf_map_update_elem(&wakers, &by, &fresh, BPF_NOEXIST))
			return;
		blamed = bpf_map_lookup_elem(&wakers, &by);
	}
	if (blamed) {
		__sync_fetch_and_add(&blamed->count, 1);
		__sync_fetch_and_add(&blamed->ns, took);
	}
}

SEC("tracepoint") int exit_tracepoint(struct call *ctx)
{
	u64 ids = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	s64 result = ctx->arguments[0];
	u32 tid = ids, end = INTERRUPTED;
	struct wait *known = bpf_map_lookup_elem(&begun, &tid);

	if (!known || !known->since)
		return 0;
	struct wait wait = *known;
	known->since = 0;
	/* The word had changed already: there was nothing to wait for. */
	if (result == -EAGAIN)
		return 0;
	if (result >= 0)
		end = WOKEN;
	else if (result == -ETIMEDOUT)
		end = TIMED_OUT;
	/* Who waits again after an interruption was not woken, so that tells nothing. */
	if (end != WOKEN && known->maybe == wait.address)
		known->maybe = 0;
	u64 took = now - wait.since;
	hist_add_at(&lengths, &end, took);
	struct key key = { .tgid = ids >> 32, .address = wait.address, .stack = take_stack(ctx, BPF_F_USER_STACK) };
	bpf_get_current_comm(key.comm, sizeof(key.comm));
	if (end == WOKEN)
		blame(&wait, key.tgid, took);
	u64 timed_out = end == TIMED_OUT, lock_ns = wait.lock ? took : 0;
	struct sum *sum = bpf_map_lookup_elem(&waits, &key);
	if (!sum) {
		struct sum fresh = { .count = 1, .ns = took, .max = took, .timed_out = timed_out, .born = current_born(),
				     .lock_ns = lock_ns };
		if (!bpf_map_update_elem(&waits, &key, &fresh, BPF_NOEXIST))
			return 0;
		/* Another thread may have been first. */
		sum = bpf_map_lookup_elem(&waits, &key);
	}
	if (!sum) {
		lose(NO_SUM);
		return 0;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->ns, took);
	__sync_fetch_and_add(&sum->timed_out, timed_out);
	__sync_fetch_and_add(&sum->lock_ns, lock_ns);
	if (took > sum->max)
		sum->max = took;
	return 0;
}
