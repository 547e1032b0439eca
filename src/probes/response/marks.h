/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A thread is observed from one mark that it passes to another only: each such time has a record of its own. */
#pragma once
#include "moves.h"

const volatile u32 marks_nest = 0; /* entry and return of one function: calls within a call belong to it */

/* What the text begins with that is written to ftrace's marker, where that is a mark. */
#define MARK_TEXT 64
#define TRACEFS 0x74726163
const volatile char from_text[MARK_TEXT] = {};
const volatile char to_text[MARK_TEXT] = {};
const volatile u32 from_text_length = 0;
const volatile u32 to_text_length = 0;
const volatile char on_text[MARK_TEXT] = {};
const volatile char off_text[MARK_TEXT] = {};
const volatile u32 on_text_length = 0;
const volatile u32 off_text_length = 0;

/* What requests are called by: a field of the mark at which they begin or end, or what the text there goes on with. */
enum key_in { NO_KEY, FROM_FIELD, TO_FIELD, FROM_REST, TO_REST };
const volatile u32 key_in = NO_KEY;
const volatile struct field key_field = {};
const volatile u32 key_text_in = NO_TEXT;
const volatile u32 key_text_at = 0;

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
	struct thread *thread = observed(bpf_get_current_pid_tgid());

	if (is_stopped() || !marks_count())
		return 0;
	if (thread && marks_nest) {
		thread->depth++;
		return 0;
	}
	if (thread) {
		/* What it had begun never came to the other mark. */
		lose(NO_END);
		leaves_by(thread, slot_of(bpf_get_current_pid_tgid()), (void *)bpf_get_current_task(), now_ns(), 16, false);
	}
	opens(in_user, 0);
	return 0;
}

/* It passes the second one. */
static __noinline int passes_last(void)
{
	struct thread *thread = observed(bpf_get_current_pid_tgid());

	if (!thread)
		return 0;
	if (marks_nest && thread->depth) {
		thread->depth--;
		return 0;
	}
	closes(thread, 4 | 32);
	return 0;
}

/* Of calls within calls of the function that is marked only the outermost is a request. */
static __always_inline struct thread *of_request(void)
{
	struct thread *thread = observed(bpf_get_current_pid_tgid());

	return thread && !(marks_nest && thread->depth) ? thread : NULL;
}

static __noinline int note_field(void *ctx)
{
	struct thread *thread = of_request();

	if (!thread)
		return 0;
	u64 value = load(ctx, &key_field);
	if (key_text_in == NO_TEXT) {
		thread->key[0] = value;
		thread->has_key = 1;
	} else {
		thread->has_key = read_text(ctx, value, key_text_in, key_text_at, (char *)thread->key, sizeof(thread->key)) > 0;
	}
	return 0;
}

static __always_inline int begins_at(void *ctx, u64 in_user)
{
	bool is_new = true;

	if (with_ids)
		is_new = takes(id_from(ctx), 0, in_user);
	else
		passes_first(in_user);
	return key_in == FROM_FIELD && is_new ? note_field(ctx) : 0;
}

/* Whether what the running thread has is the request that comes to its end. */
static __always_inline bool is_its(u64 id)
{
	struct thread *thread = observed(bpf_get_current_pid_tgid());

	return thread && (!with_ids || thread->id == id);
}

static __always_inline int ends_at(void *ctx)
{
	u64 id = with_ids ? id_to(ctx) : 0;

	if (key_in == TO_FIELD && is_its(id))
		note_field(ctx);
	return with_ids ? lets_go(id, 4 | 32, 0, 0) : passes_last();
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
static __always_inline bool marks(struct write_call *ctx, const volatile char *text, u32 length)
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

/* What follows the first bytes of the text that is written, up to the room for it. */
static __noinline void note_rest(struct write_call *ctx, u32 length)
{
	struct thread *thread = of_request();
	u64 rest = ctx->length - length;

	if (!thread || ctx->length < length)
		return;
	if (rest > sizeof(thread->key) - 1)
		rest = sizeof(thread->key) - 1;
	if (rest && !bpf_probe_read_user(thread->key, rest & (sizeof(thread->key) - 1), (void *)(ctx->text + length)))
		thread->has_key = 1;
}

/* The id in such a text: the first word of what follows. */
static __noinline u64 id_in_text(struct write_call *ctx, u64 length)
{
	char rest[ID_TEXT] = {};
	u64 most = ctx->length - length, id = NO_WORDS;
	bool began = false;

	if (ctx->length < length)
		return NO_ID;
	if (most > sizeof(rest) - 1)
		most = sizeof(rest) - 1;
	if (!most || bpf_probe_read_user(rest, most & (sizeof(rest) - 1), (void *)(ctx->text + length)))
		return NO_ID;
	for (u32 i = 0; i < ID_TEXT; i++) {
		bool blank = rest[i] <= ' ' && rest[i] >= 0;
		if (blank && began)
			break;
		if (blank)
			continue;
		began = true;
		id = mix(id, rest[i]);
	}
	return began ? id : NO_ID;
}

/* Each with a stack frame of its own, which is gone when what follows needs one. */
static __noinline int marks_from(struct write_call *ctx) { return marks(ctx, from_text, from_text_length); }
static __noinline int marks_to(struct write_call *ctx) { return marks(ctx, to_text, to_text_length); }
static __noinline int marks_on(struct write_call *ctx) { return marks(ctx, on_text, on_text_length); }
static __noinline int marks_off(struct write_call *ctx) { return marks(ctx, off_text, off_text_length); }

SEC("tracepoint") int from_text_tracepoint(struct write_call *ctx)
{
	bool is_new = true;

	if (!marks_from(ctx))
		return 0;
	if (with_ids)
		is_new = takes(id_in_text(ctx, from_text_length), 0, 0);
	else
		passes_first(0);
	if (key_in == FROM_REST && is_new)
		note_rest(ctx, from_text_length);
	return 0;
}

SEC("tracepoint") int to_text_tracepoint(struct write_call *ctx)
{
	if (!marks_to(ctx))
		return 0;
	u64 id = with_ids ? id_in_text(ctx, to_text_length) : 0;
	if (key_in == TO_REST && is_its(id))
		note_rest(ctx, to_text_length);
	return with_ids ? lets_go(id, 4 | 32, 0, 0) : passes_last();
}

SEC("tracepoint") int on_text_tracepoint(struct write_call *ctx)
{
	return marks_on(ctx) ? takes(id_in_text(ctx, on_text_length), GOES_ON, 0) & 0 : 0;
}

SEC("tracepoint") int off_text_tracepoint(struct write_call *ctx)
{
	return marks_off(ctx) ? lets_go(id_in_text(ctx, off_text_length), LAID_DOWN, 0, 0) : 0;
}

SEC("uprobe") int from_point_uprobe(void *ctx)
{
	count_pass();
	return begins_at(ctx, 1);
}
SEC("uretprobe") int from_point_uretprobe(void *ctx)
{
	count_pass();
	return begins_at(ctx, 1);
}
SEC("kprobe") int from_point_kprobe(void *ctx) { return begins_at(ctx, 0); }
SEC("kretprobe") int from_point_kretprobe(void *ctx) { return begins_at(ctx, 0); }
SEC("tracepoint") int from_point_tracepoint(void *ctx) { return begins_at(ctx, 0); }
SEC("uprobe") int to_point_uprobe(void *ctx)
{
	count_pass();
	return ends_at(ctx);
}
SEC("uretprobe") int to_point_uretprobe(void *ctx)
{
	count_pass();
	return ends_at(ctx);
}
SEC("kprobe") int to_point_kprobe(void *ctx) { return ends_at(ctx); }
SEC("kretprobe") int to_point_kretprobe(void *ctx) { return ends_at(ctx); }
SEC("tracepoint") int to_point_tracepoint(void *ctx) { return ends_at(ctx); }
