// SPDX-License-Identifier: MIT OR Apache-2.0
/* Files that are opened, and those that could not be. One hook: when the call returns, its arguments are still there, the
 * result is known, and the name was just read by the kernel, so that it is in memory. */
#include "stream.h"
#include "syscall.h"

#define NAME 256
#define NAME_AT __builtin_offsetof(struct opened, name)

const volatile u32 open_calls[4] = { NO_CALL, NO_CALL, NO_CALL, NO_CALL }; /* openat, open, creat, openat2 */
const volatile u32 failed = 0;

struct opened {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 call; /* position in open_calls */
	u64 flags;
	u64 result;
	char comm[16];
	char name[NAME];
};

/* Room to put a record together in: most names are short, and the ring takes what there is. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct opened);
} scratch SEC(".maps");

BOTH_TRACEPOINTS(sys_exit)
{
	void *regs = (void *)ctx[0];
	s64 result = ctx[1];
	u32 zero = 0;

	if (failed && !is_error(result))
		return 0;
	u32 number = call_number(regs, direct);
	if (number != open_calls[0] && number != open_calls[1] && number != open_calls[2] && number != open_calls[3])
		return 0;
	if (number == NO_CALL || !current_wanted())
		return 0;
	struct opened *opened = bpf_map_lookup_elem(&scratch, &zero);
	if (!opened)
		return 0;
	u64 name, flags = 0;
	if (number == open_calls[0]) {
		opened->call = 0;
		name = call_argument(regs, 1, direct);
		flags = call_argument(regs, 2, direct);
	} else if (number == open_calls[1]) {
		opened->call = 1;
		name = call_argument(regs, 0, direct);
		flags = call_argument(regs, 1, direct);
	} else if (number == open_calls[2]) {
		opened->call = 2;
		name = call_argument(regs, 0, direct);
	} else {
		opened->call = 3;
		name = call_argument(regs, 1, direct);
		/* The first member of struct open_how. */
		bpf_probe_read_user(&flags, sizeof(flags), (void *)call_argument(regs, 2, direct));
	}
	opened->at = bpf_ktime_get_ns();
	opened->ids = bpf_get_current_pid_tgid();
	opened->flags = flags;
	opened->result = result;
	bpf_get_current_comm(opened->comm, sizeof(opened->comm));
	u64 length = length_up_to(bpf_probe_read_user_str(opened->name, NAME, (void *)name), NAME);
	send_event(opened, NAME_AT + length);
	return 0;
}
