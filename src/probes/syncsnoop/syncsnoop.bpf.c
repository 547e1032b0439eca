// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls that wait until data are on the disk: who made them, for which file, and how long they took. */
#include "namedfile.h"
#include "stream.h"
#include "syscall.h"

#define KINDS 6
#define WITH_FILE 4 /* the first ones have a file descriptor as their first argument */

const volatile u32 sync_calls[KINDS] = { NO_CALL, NO_CALL, NO_CALL, NO_CALL, NO_CALL, NO_CALL };
const volatile u64 threshold = 0; /* ns */

struct synced {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 kind;
	u64 took;
	u64 result;
	char comm[16];
	char name[64];
};

/* By thread; a thread that is killed in its call leaves its entry to whoever needs the room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, u64);
} begins SEC(".maps");

/* Position in sync_calls; KINDS for all other calls. */
static __always_inline u32 kind_of(u32 number)
{
	u32 kind = KINDS;

	if (number == NO_CALL)
		return KINDS;
#pragma unroll
	for (int i = 0; i < KINDS; i++) {
		if (number == sync_calls[i])
			kind = i;
	}
	return kind;
}

static __always_inline void put_name(char *name, u32 size, u32 fd)
{
	struct task_struct___files *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	void **files = BPF_CORE_READ(table, fd);
	struct file *file = NULL;
	const unsigned char *text;

	name[0] = 0;
	if (fd >= BPF_CORE_READ(table, max_fds))
		return;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	if (!file)
		return;
	text = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel_str(name, size, text);
}

BOTH_TRACEPOINTS(sys_enter)
{
	u32 tid = bpf_get_current_pid_tgid();

	if (kind_of(call_number((void *)ctx[0], direct)) == KINDS || !current_wanted())
		return 0;
	u64 now = bpf_ktime_get_ns();
	bpf_map_update_elem(&begins, &tid, &now, BPF_ANY);
	return 0;
}

BOTH_TRACEPOINTS(sys_exit)
{
	void *regs = (void *)ctx[0];
	u32 tid = bpf_get_current_pid_tgid();
	u32 kind = kind_of(call_number(regs, direct));

	if (kind == KINDS || !current_wanted())
		return 0;
	u64 now = bpf_ktime_get_ns(), took = 0;
	u64 *began = bpf_map_lookup_elem(&begins, &tid);
	if (began) {
		took = now - *began;
		bpf_map_delete_elem(&begins, &tid);
		if (took < threshold)
			return 0;
	}
	struct synced *synced = reserve_event(sizeof(*synced));
	if (!synced)
		return 0;
	synced->at = now;
	synced->ids = bpf_get_current_pid_tgid();
	synced->kind = kind;
	synced->took = began ? took : ~0ULL; /* it began before the probe */
	synced->result = ctx[1];
	bpf_get_current_comm(synced->comm, sizeof(synced->comm));
	synced->name[0] = 0;
	if (kind < WITH_FILE)
		put_name(synced->name, sizeof(synced->name), call_argument(regs, 0, direct));
	bpf_ringbuf_submit(synced, 0);
	return 0;
}
