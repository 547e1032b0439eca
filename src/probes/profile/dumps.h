/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Registers and the top of the stack of what is sampled, from which user space finds the callers of code without frame pointers.
 * Part of `tables.bpf.c` alone. */
#pragma once
#include "syscall.h"

#define CHUNK 1024 /* whole chunks lie in one page */
#define CHUNKS 16
#define X86_WORDS 21 /* of struct pt_regs */
#define ARM_WORDS 34
#define NO_WAKEUP 1 /* BPF_RB_NO_WAKEUP: the reader looks several times a second */

/* Bytes of dumps that each CPU may send in a second. */
const volatile u64 dump_rate = 0;

struct dump {
	struct key key;
	u64 weight;
	u64 born;
	u64 base; /* where the stack's bytes begin */
	u64 registers[ARM_WORDS]; /* as the kernel saved them */
	u8 stack[CHUNKS * CHUNK];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* user space sets it */
} profile_dumps SEC(".maps");

/* The dump at hand. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dump);
} dump_scratch SEC(".maps");

struct allowance {
	u64 at; /* when it was counted last */
	u64 left; /* bytes, those of a second at most */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct allowance);
} dump_allowance SEC(".maps");

struct mm_struct___start {
	unsigned long start_stack;
} __attribute__((preserve_access_index));

/* The registers of the code of its own that a task runs, or came to the kernel from. Before 5.15 the latter cannot be asked. */
static __always_inline void *user_registers(void *ctx, bool in_kernel)
{
	void *registers = NULL;

	if (!in_kernel) /* The context begins with a pointer to those that were interrupted. */
		bpf_probe_read_kernel(&registers, sizeof(registers), ctx);
	else if (bpf_core_enum_value_exists(enum bpf_func_id___regs, BPF_FUNC_task_pt_regs))
		registers = (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
	return registers;
}

/* Sends a sample with what its user stack can be walked by. False if it was not sent, and is to be summed up here. */
static __always_inline bool dump(void *ctx, struct task_struct *task, struct key *key, u64 weight, u64 born)
{
	u64 now = bpf_ktime_get_ns(), sp, top, size = 0;
	u32 zero = 0;

	if (!dump_rate)
		return false;
	struct allowance *allowance = bpf_map_lookup_elem(&dump_allowance, &zero);
	struct dump *dump = bpf_map_lookup_elem(&dump_scratch, &zero);
	if (!allowance || !dump)
		return false;
	u64 passed = allowance->at ? now - allowance->at : 1000000000;
	if (passed > 1000000000)
		passed = 1000000000;
	allowance->at = now;
	allowance->left += passed / 1000 * dump_rate / 1000000;
	if (allowance->left > dump_rate)
		allowance->left = dump_rate;
	if (allowance->left < sizeof(dump->stack)) {
		count(UNDUMPED);
		return false;
	}
	void *registers = user_registers(ctx, key->in_kernel);
	if (!registers)
		return false;
	if (IS_ARM64) {
		if (bpf_probe_read_kernel(dump->registers, ARM_WORDS * 8, registers))
			return false;
		sp = dump->registers[31];
	} else {
		if (bpf_probe_read_kernel(dump->registers, X86_WORDS * 8, registers))
			return false;
		sp = dump->registers[19];
	}
	/* Some bytes below belong to a function that calls none. */
	dump->base = sp & ~(u64)(CHUNK - 1);
	/* Above the frames of a first thread are its arguments and environment. */
	struct mm_struct___start *mm = (void *)BPF_CORE_READ(task, mm);
	top = BPF_CORE_READ(mm, start_stack);
	if (top < sp)
		top = -1;
	for (int i = 0; i < CHUNKS; i++) {
		u64 from = dump->base + i * CHUNK;

		if (from >= top || bpf_probe_read_user(dump->stack + i * CHUNK, CHUNK, (void *)from))
			break;
		size += CHUNK;
	}
	if (!size)
		return false;
	dump->key = *key;
	dump->weight = weight;
	dump->born = born;
	if (bpf_ringbuf_output(&profile_dumps, dump, sizeof(*dump) - sizeof(dump->stack) + size, NO_WAKEUP)) {
		count(UNDUMPED);
		return false;
	}
	allowance->left -= size;
	return true;
}
