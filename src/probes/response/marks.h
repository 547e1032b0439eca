/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A thread is observed from one mark that it passes to another only: each such time has a record of its own. */
#pragma once
#include "membership.h"
#include "waits.h"

const volatile u32 with_marks = 0;
const volatile u32 marks_nest = 0; /* entry and return of one function: calls within a call belong to it */

/* What the text begins with that is written to ftrace's marker, where that is a mark. */
#define MARK_TEXT 64
#define TRACEFS 0x74726163
const volatile char from_text[MARK_TEXT] = {};
const volatile char to_text[MARK_TEXT] = {};
const volatile u32 from_text_length = 0;
const volatile u32 to_text_length = 0;

/* Processes that a command started and those that these did, noted at their birth, by when that was: who outlives its parent is a child of another. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} of_command SEC(".maps");

static __always_inline bool is_of_command(struct task_struct *task, const bool direct)
{
	struct task_struct___more *leader = (void *)READ(task, group_leader);
	u32 tgid = READ(task, tgid);
	u64 *born = bpf_map_lookup_elem(&of_command, &tgid);

	/* The number may be another one's by now. */
	return born && *born == READ(leader, start_boottime);
}

/* A task is born, by the one that runs. */
static __always_inline void note_of_command(struct task_struct *task)
{
	u32 tgid = task->tgid, parent = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *current_task = (void *)bpf_get_current_task();
	u64 born = ((struct task_struct___more *)task)->start_boottime;

	if (!filter_children || task->pid != tgid)
		return;
	if (tgid_wanted(parent) || is_of_command(current_task, false))
		bpf_map_update_elem(&of_command, &tgid, &born, BPF_ANY);
}

/* Whether the process that runs is one whose marks count. */
static __always_inline bool marks_count(void)
{
	return current_wanted() || (filter_children && is_of_command((void *)bpf_get_current_task(), false));
}

/* The running thread passes the first mark, on its way in user mode or somewhere in the kernel. */
static __noinline int passes_first(u64 in_user)
{
	u32 tid = bpf_get_current_pid_tgid(), slot, zero = 0;
	struct thread *thread = observed(tid);
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 *stopped = bpf_map_lookup_elem(&control, &zero), now = now_ns(), number = 0;

	if (!stopped || *stopped || !marks_count())
		return 0;
	if (thread && marks_nest) {
		thread->depth++;
		return 0;
	}
	if (thread) {
		/* What it had begun never came to the other mark. */
		lose(NO_END);
		leaves_by(thread, slot_of(tid), task, now, 16, false);
	}
	slot = take_in_by(task, now, 2, false);
	thread = bpf_map_lookup_elem(&threads, &slot);
	if (!thread)
		return 0;
	latest_watch(&number);
	/* In user mode it is in no call; elsewhere the next event tells in which one. */
	thread->call = in_user ? NONE : UNSEEN;
	thread->watch = in_user ? number : 0;
	thread->mode = ON;
	has_cpu(thread, task, false);
	publish(tid, slot);
	return 0;
}

/* It passes the second one. */
static __noinline int passes_last(void)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = observed(tid);
	u64 task = bpf_get_current_task(), now = now_ns();

	if (!thread)
		return 0;
	if (marks_nest && thread->depth) {
		thread->depth--;
		return 0;
	}
	had_cpu(thread, (void *)task, now, false);
	ran(thread, slot_of(tid), task, now, thread->call != NONE);
	leave_call(thread, slot_of(tid), task, 0, now);
	leaves_by(thread, slot_of(tid), (void *)task, now, 4 | 32, false);
	return 0;
}

/* Arguments of the event syscalls:sys_enter_write. */
struct write_call {
	u64 common;
	u64 number;
	u64 fd;
	u64 text;
	u64 length;
};

static __always_inline bool is_marker(u64 fd)
{
	static const char name[] = "trace_marker";
	char found[sizeof(name)] = {};
	struct opened opened = {};

	open_file(bpf_get_current_task(), &opened, fd);
	struct file *file = (void *)opened.file;
	if (!file || BPF_CORE_READ(file, f_inode, i_sb, s_magic) != TRACEFS)
		return false;
	bpf_probe_read_kernel_str(found, sizeof(found), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	for (u32 i = 0; i < sizeof(name); i++)
		if (found[i] != name[i])
			return false;
	return true;
}

/* Whether an observed process writes such a text. */
static __always_inline bool marks_by(struct write_call *ctx, const volatile char *text, u32 length)
{
	char written[MARK_TEXT] = {};

	if (!marks_count() || ctx->length < length || !is_marker(ctx->fd))
		return false;
	if (bpf_probe_read_user(written, length & (MARK_TEXT - 1), (void *)ctx->text))
		return false;
	for (u32 i = 0; i < MARK_TEXT; i++)
		if (i < length && written[i] != text[i])
			return false;
	return true;
}

SEC("tracepoint") int from_text_tracepoint(struct write_call *ctx)
{
	return marks_by(ctx, from_text, from_text_length) ? passes_first(0) : 0;
}

SEC("tracepoint") int to_text_tracepoint(struct write_call *ctx)
{
	return marks_by(ctx, to_text, to_text_length) ? passes_last() : 0;
}

SEC("uprobe") int from_point_uprobe(void *ctx) { return passes_first(1); }
SEC("uretprobe") int from_point_uretprobe(void *ctx) { return passes_first(1); }
SEC("kprobe") int from_point_kprobe(void *ctx) { return passes_first(0); }
SEC("kretprobe") int from_point_kretprobe(void *ctx) { return passes_first(0); }
SEC("tracepoint") int from_point_tracepoint(void *ctx) { return passes_first(0); }
SEC("uprobe") int to_point_uprobe(void *ctx) { return passes_last(); }
SEC("uretprobe") int to_point_uretprobe(void *ctx) { return passes_last(); }
SEC("kprobe") int to_point_kprobe(void *ctx) { return passes_last(); }
SEC("kretprobe") int to_point_kretprobe(void *ctx) { return passes_last(); }
SEC("tracepoint") int to_point_tracepoint(void *ctx) { return passes_last(); }
