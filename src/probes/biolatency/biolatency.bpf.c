// SPDX-License-Identifier: MIT OR Apache-2.0
/* How long devices take for block requests, and how many requests and bytes there were.
 *
 * Counts and bytes follow the rules of /proc/diskstats. Latency is from the request's last issue to the driver to its end,
 * or, with `queued`, from the kernel's own start of the request, as /proc/diskstats has it; then one hook is enough. */
#include "block.h"

const volatile u32 queued = 0;
const volatile u32 by_flags = 0;

struct latency {
	u64 ios;
	u64 bytes;
	struct hist hist;
};
static struct latency zero; /* never written */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64); /* address of the request */
	__type(value, u64); /* when it was issued */
} issued SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64); /* set before loading */
	__type(key, u64); /* device, kind */
	__type(value, struct latency);
} latencies SEC(".maps");

enum { LOST_ISSUED, LOST_KIND, LOST_START };
#define LOSSES 3
#include "lost.h"

static __always_inline int on_issue(struct request *rq, const bool direct)
{
	u64 id = (u64)rq, now = bpf_ktime_get_ns();

	if (filter_device && !request_wanted(rq, request_device(rq, direct), direct))
		return 0;
	if (bpf_map_update_elem(&issued, &id, &now, BPF_ANY))
		lose(LOST_ISSUED);
	return 0;
}

/* The queue came first once; see attach_request() in block.rs. */
SEC("tp_btf/block_rq_issue") int block_rq_issue_queue_btf(u64 *ctx) { return on_issue((void *)ctx[1], true); }
SEC("raw_tp/block_rq_issue") int block_rq_issue_queue_raw(u64 *ctx) { return on_issue((void *)ctx[1], false); }
SEC("tp_btf/block_rq_issue") int block_rq_issue_btf(u64 *ctx) { return on_issue((void *)ctx[0], true); }
SEC("raw_tp/block_rq_issue") int block_rq_issue_raw(u64 *ctx) { return on_issue((void *)ctx[0], false); }

BOTH_TRACEPOINTS(block_rq_complete)
{
	struct request *rq = (void *)ctx[0];
	u32 bytes = ctx[2];
	u32 device = request_device(rq, direct);

	if (!request_wanted(rq, device, direct))
		return 0;
	u32 cmd_flags = READ(rq, cmd_flags);
	u32 operation = request_operation(cmd_flags);
	u64 key = (u64)device << 32 | (by_flags ? request_kind(cmd_flags) : operation);
	struct latency *latency = bpf_map_lookup_elem(&latencies, &key);
	if (!latency) {
		bpf_map_update_elem(&latencies, &key, &zero, BPF_NOEXIST);
		latency = bpf_map_lookup_elem(&latencies, &key);
	}
	if (!latency) {
		lose(LOST_KIND);
		return 0;
	}
	latency->bytes += bytes;
	if (!request_is_done(rq, bytes, direct))
		return 0;
	bool counts = request_counts(rq, operation, direct);
	latency->ios += counts;
	u64 start = 0;
	if (queued) {
		start = READ(rq, start_time_ns);
		if (!counts)
			return 0;
		if (!start)
			lose(LOST_START);
	} else {
		u64 id = (u64)rq;
		u64 *at = bpf_map_lookup_elem(&issued, &id);
		if (at) {
			start = *at;
			bpf_map_delete_elem(&issued, &id);
		}
	}
	if (start) {
		u64 now = bpf_ktime_get_ns();
		hist_add(&latency->hist, now > start ? now - start : 0);
	}
	return 0;
}
