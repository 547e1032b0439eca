/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Who began a block request, and how it went: for programs that tell requests by task.
 *
 * A request is noted where the task that wants it still runs: at block_io_start (since 6.5), on older kernels when it is
 * inserted into a queue. One that was not seen there is noted when it is issued, by whoever does that. */
#pragma once
#include "block.h"

/* Whether a request that is first seen when it is issued was begun by the task that runs: true without a better hook. */
const volatile u32 issuer_is_owner = 1;

struct begun {
	u64 ids; /* process << 32 | thread; 0: not known */
	u64 skip; /* a filter says no */
	u64 issued;
	u64 written; /* end of the data's own request within a write that flushes */
	u64 bytes;
	u64 sector;
#ifdef NOTE_FILE
	u64 file[2]; /* whose data they are, for programs that want to know */
#endif
	char comm[16];
};

struct {
	/* Requests that are merged into others are never heard of again. */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, u64); /* address of the request */
	__type(value, struct begun);
} begun SEC(".maps");

#define UNKNOWN (~0ULL)
struct ended {
	u64 at;
	u64 ids;
	u64 latency; /* from the last issue; UNKNOWN if it was issued before the start, or never */
	u64 queued; /* before that; UNKNOWN if the device keeps no start times */
	u64 bytes;
	u64 sector;
#ifdef NOTE_FILE
	u64 file[2];
#endif
	u32 kind;
	u32 device;
	char comm[16];
};

/* The name of the task that runs, or of its process. */
static __always_inline void current_name(char *comm, const bool of_process)
{
	if (of_process)
		read_process_name(comm);
	else
		bpf_get_current_comm(comm, 16);
}

/* Out of line: it is the bulk, and called from many programs. */
static __noinline int note(u64 id, bool of_process)
{
	struct begun fresh = { .ids = bpf_get_current_pid_tgid(), .skip = !current_wanted() };

	if (!fresh.skip) {
		current_name(fresh.comm, of_process);
#ifdef NOTE_FILE
		NOTE_FILE((struct request *)id, fresh.ids, fresh.comm, fresh.file);
#endif
	}
	return bpf_map_update_elem(&begun, &id, &fresh, BPF_ANY);
}

static __always_inline int on_begin(struct request *rq, const bool direct, const bool of_process)
{
	if (!filter_device || request_wanted(rq, request_device(rq, direct), direct))
		note((u64)rq, of_process);
	return 0;
}

/* A request that is put back into a queue is known already. */
static __always_inline int on_insert(struct request *rq, const bool direct, const bool of_process)
{
	u64 id = (u64)rq;

	if (bpf_map_lookup_elem(&begun, &id))
		return 0;
	return on_begin(rq, direct, of_process);
}

static __always_inline int on_issue(struct request *rq, const bool direct, const bool of_process)
{
	u64 id = (u64)rq;
	struct begun *known = bpf_map_lookup_elem(&begun, &id);

	if (!known) {
		/* The cache's flush is nobody's but the kernel's; it has no block_io_start. */
		if (!issuer_is_owner && request_operation(READ(rq, cmd_flags)) != OP_FLUSH)
			return 0;
		on_begin(rq, direct, of_process);
		known = bpf_map_lookup_elem(&begun, &id);
	}
	if (known) {
		known->issued = bpf_ktime_get_ns();
		known->sector = READ(rq, __sector);
	}
	return 0;
}

/* Whether an I/O, as /proc/diskstats counts them, ended with this, and what it was. */
static __always_inline bool has_ended(struct request *rq, u32 bytes, struct ended *io, const bool direct)
{
	u64 id = (u64)rq;
	u32 device = request_device(rq, direct);

	if (!request_wanted(rq, device, direct))
		return false;
	struct begun *known = bpf_map_lookup_elem(&begun, &id);
	if (!known) {
		/* Begun before the start: nobody knows by whom, and no filter can let it pass. */
		struct begun fresh = { .skip = filter_tgids || filter_comm_on || filter_cgroup };
		fresh.sector = READ(rq, __sector);
		bpf_map_update_elem(&begun, &id, &fresh, BPF_ANY);
		known = bpf_map_lookup_elem(&begun, &id);
		if (!known)
			return false;
	}
	known->bytes += bytes;
	if (!request_is_done(rq, bytes, direct))
		return false;
	u64 now = bpf_ktime_get_ns();
	u32 cmd_flags = READ(rq, cmd_flags);
	if (!request_counts(rq, request_operation(cmd_flags), direct)) {
		known->written = now;
		return false;
	}
	u64 start = READ(rq, start_time_ns);
	u64 issued = known->issued;
	io->at = now;
	io->ids = known->ids;
	io->bytes = known->bytes;
	io->sector = known->sector;
	io->device = device;
	io->kind = request_kind(cmd_flags);
#ifdef NOTE_FILE
	__builtin_memcpy(io->file, known->file, sizeof(io->file));
#endif
	__builtin_memcpy(io->comm, known->comm, sizeof(io->comm));
	io->latency = UNKNOWN;
	io->queued = UNKNOWN;
	if (issued) {
		u64 end = known->written ? known->written : now;
		io->latency = end > issued ? end - issued : 0;
		if (start)
			io->queued = issued > start ? issued - start : 0;
	} else if (io->ids && !io->bytes && start) {
		/* A flush without data is never issued itself: it waits for the device's flush. */
		io->queued = now > start ? now - start : 0;
	}
	bool skip = known->skip;
	bpf_map_delete_elem(&begun, &id);
	return !skip;
}

/* All hooks that note requests; of_process: by the process's name instead of the thread's. */
#define NOTE_REQUESTS(of_process)                                                                                      \
	BOTH_TRACEPOINTS(block_io_start) { return on_begin((void *)ctx[0], direct, of_process); }                      \
	REQUEST_TRACEPOINT(block_rq_insert, on_insert, of_process)                                                     \
	REQUEST_TRACEPOINT(block_rq_issue, on_issue, of_process)

/* The queue came first once; see attach_request() in block.rs. */
#define REQUEST_TRACEPOINT(event, body, of_process)                                                                    \
	SEC("tp_btf/" #event) int event##_queue_btf(u64 *ctx) { return body((void *)ctx[1], true, of_process); }       \
	SEC("raw_tp/" #event) int event##_queue_raw(u64 *ctx) { return body((void *)ctx[1], false, of_process); }      \
	SEC("tp_btf/" #event) int event##_btf(u64 *ctx) { return body((void *)ctx[0], true, of_process); }             \
	SEC("raw_tp/" #event) int event##_raw(u64 *ctx) { return body((void *)ctx[0], false, of_process); }
