// SPDX-License-Identifier: MIT OR Apache-2.0
/* Why virtual CPUs leave their guests, and how long it takes until they are back. The reason stands in the record of the event
 * alone (newer kernels hand over the virtual CPU, which only their own module can ask), so the program reads that. */
#include "lost.h"

/* Where the record has them; told by the event's description. */
const volatile u32 reason_at = 8;
const volatile u32 isa_at = 24;

struct exit {
	u64 since;
	u64 isa;
	u64 reason;
};

struct key {
	u64 tgid;
	u64 isa;
	u64 reason;
};

struct sum {
	u64 count;
	u64 ns;
	u64 max; /* not exact where two CPUs end an exit of one kind at the same moment */
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct exit);
} outside SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct sum);
} exits SEC(".maps");

SEC("tracepoint/kvm_exit") int exit_tracepoint(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid(), reason = 0, isa = 0;

	if (!current_wanted())
		return 0;
	bpf_probe_read_kernel(&reason, sizeof(reason), ctx + reason_at);
	bpf_probe_read_kernel(&isa, sizeof(isa), ctx + isa_at);
	struct exit exit = { .since = bpf_ktime_get_ns(), .isa = isa, .reason = reason };
	bpf_map_update_elem(&outside, &tid, &exit, BPF_ANY);
	return 0;
}

SEC("tracepoint/kvm_entry") int entry_tracepoint(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct exit *exit = bpf_map_lookup_elem(&outside, &tid);

	if (!exit)
		return 0;
	u64 took = bpf_ktime_get_ns() - exit->since;
	struct key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .isa = exit->isa, .reason = exit->reason };
	bpf_map_delete_elem(&outside, &tid);
	struct sum *sum = bpf_map_lookup_elem(&exits, &key);
	if (!sum) {
		struct sum fresh = {};
		read_process_name(fresh.comm);
		bpf_map_update_elem(&exits, &key, &fresh, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&exits, &key);
	}
	if (!sum) {
		lose(0);
		return 0;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->ns, took);
	if (took > sum->max)
		sum->max = took;
	return 0;
}
