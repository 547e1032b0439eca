// SPDX-License-Identifier: MIT OR Apache-2.0
/* Statements of databases that took long.
 *
 * A process of PostgreSQL reports what it is about to do, with the text of the statement, and with none when it has done it:
 * pgstat_report_activity(state, text), in both protocols. Its number of a state differs between versions. A statement of the extended
 * protocol is reported with each of its parts, under the same text: that is one statement.
 *
 * A thread of MariaDB calls one function for each command of a client: dispatch_command(command, thread, packet, length, ...). The text
 * of a statement that is prepared is passed once, to its method prepare(text, length); the command that executes it has its number. */
#include "registers.h"
#include "stream.h"

#define WORDS 32
#define TEXT (WORDS * 8)

/* Commands of MariaDB's protocol (enum_server_command) that run a statement: as text, one that is prepared, and that with many rows. */
#define QUERY 3
#define EXECUTE 23
#define EXECUTE_BULK 250

const volatile u64 threshold = 10000000; /* ns */

struct statement {
	u64 since; /* 0: none is running */
	u64 prepared; /* its number in MariaDB's connection; 0: it came as text */
	u64 text[WORDS];
};

struct slow {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 took; /* ns */
	u64 prepared;
	u64 text[WORDS];
};

/* What each thread is at, or was: its place is kept, since making one costs more than all else. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct statement);
} running SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct statement);
} scratch SEC(".maps");

/* The texts of MariaDB's prepared statements, by process and object. An object's address may be used again: by one that is prepared. */
struct object {
	u64 tgid;
	u64 address;
};

struct text {
	u64 words[WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* more where a server has such objects */
	__type(key, struct object);
	__type(value, struct text);
} texts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} all SEC(".maps");

static __always_inline void done(struct statement *statement, u64 now)
{
	u32 zero = 0;
	u64 took = now - statement->since;

	hist_add_at(&all, &zero, took);
	if (took < threshold)
		return;
	struct slow *slow = reserve_event(sizeof(*slow));
	if (!slow)
		return;
	slow->at = now;
	slow->ids = bpf_get_current_pid_tgid();
	slow->took = took;
	slow->prepared = statement->prepared;
	for (int i = 0; i < WORDS; i++)
		slow->text[i] = statement->text[i];
	bpf_ringbuf_submit(slow, 0);
}

/* Room for a thread's next statement: its own place where none is running there. */
static __always_inline struct statement *room(struct statement *known)
{
	u32 zero = 0;
	struct statement *next = known && !known->since ? known : bpf_map_lookup_elem(&scratch, &zero);

	if (!next)
		return NULL;
	next->prepared = 0;
	for (int i = 0; i < WORDS; i++)
		next->text[i] = 0;
	return next;
}

static __always_inline void begin(u32 tid, struct statement *next, struct statement *known, u64 now)
{
	next->since = now;
	if (next != known)
		bpf_map_update_elem(&running, &tid, next, BPF_ANY);
}

/* Text with a length instead of an end. The barrier keeps the compiler from dropping the mask, which the verifier wants. */
static __always_inline void read_text(u64 *text, u64 from, u32 length)
{
	u64 most = length < TEXT ? length : TEXT - 1;

	asm volatile("" : "+r"(most));
	bpf_probe_read_user(text, most & (TEXT - 1), (void *)from);
}

static __always_inline bool is_same(struct statement *a, struct statement *b)
{
	u64 differs = 0;

	for (int i = 0; i < WORDS; i++)
		differs |= a->text[i] ^ b->text[i];
	return !differs;
}

SEC("uprobe/activity") int activity_uprobe(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns(), text = argument(ctx, 1);

	if (!current_wanted())
		return 0;
	struct statement *known = bpf_map_lookup_elem(&running, &tid);
	if (!text) {
		if (known && known->since) {
			done(known, now);
			known->since = 0;
		}
		return 0;
	}
	struct statement *next = room(known);
	if (!next)
		return 0;
	bpf_probe_read_user_str(next->text, TEXT, (void *)text);
	if (known && known->since) {
		if (is_same(known, next))
			return 0;
		done(known, now);
	}
	begin(tid, next, known, now);
	return 0;
}

SEC("uprobe/command") int command_uprobe(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid(), command = argument(ctx, 0);
	u64 now = bpf_ktime_get_ns(), packet = argument(ctx, 2);

	if (!current_wanted())
		return 0;
	struct statement *known = bpf_map_lookup_elem(&running, &tid);
	/* One whose end was not seen. */
	if (known)
		known->since = 0;
	if (command != QUERY && command != EXECUTE && command != EXECUTE_BULK)
		return 0;
	struct statement *next = room(known);
	if (!next)
		return 0;
	if (command == QUERY)
		read_text(next->text, packet, argument(ctx, 3));
	else
		bpf_probe_read_user(&next->prepared, sizeof(u32), (void *)packet);
	begin(tid, next, known, now);
	return 0;
}

SEC("uretprobe/command") int command_uretprobe(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct statement *known = bpf_map_lookup_elem(&running, &tid);

	if (known && known->since) {
		done(known, bpf_ktime_get_ns());
		known->since = 0;
	}
	return 0;
}

SEC("uprobe/prepare") int prepare_uprobe(void *ctx)
{
	struct object object = { bpf_get_current_pid_tgid() >> 32, argument(ctx, 0) };
	u64 text = argument(ctx, 1);
	u32 length = argument(ctx, 2);

	if (!current_wanted())
		return 0;
	struct statement *next = room(NULL);
	if (!next)
		return 0;
	read_text(next->text, text, length);
	bpf_map_update_elem(&texts, &object, next->text, BPF_ANY);
	return 0;
}

/* Within the command that executes it. */
SEC("uprobe/execute") int execute_uprobe(void *ctx)
{
	u64 ids = bpf_get_current_pid_tgid();
	u32 tid = ids;
	struct object object = { ids >> 32, argument(ctx, 0) };
	struct statement *known = bpf_map_lookup_elem(&running, &tid);

	if (!known || !known->since || !known->prepared)
		return 0;
	struct text *text = bpf_map_lookup_elem(&texts, &object);
	if (!text)
		return 0;
	for (int i = 0; i < WORDS; i++)
		known->text[i] = text->words[i];
	return 0;
}
