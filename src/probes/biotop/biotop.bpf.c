// SPDX-License-Identifier: MIT OR Apache-2.0
/* Block I/Os by process and device, and by file: how many, how much, and how long they took. */
#include "file.h"
#include "lost.h"

struct sums {
	u64 ios;
	u64 bytes;
	u64 written;
	u64 timed; /* I/Os whose latency is known */
	u64 time;
	u64 queued;
	char comm[16];
};

struct file {
	u64 user; /* process, device */
	u64 number;
	u64 system;
};

struct named_sums {
	struct sums of;
	char name[FILE_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048); /* set before loading */
	__type(key, struct file);
	__type(value, struct named_sums);
} files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048); /* set before loading */
	__type(key, u64); /* process, device */
	__type(value, struct sums);
} processes SEC(".maps");

/* The name of a file is read when the request begins, while the file is surely there. */
static __noinline int note_file(struct request *rq, u64 ids, const char *comm, u64 *into)
{
	if (!with_files)
		return 0;
	struct inode___page *inode = inode_of(rq);
	if (!inode)
		return 0;
	identify(inode, into);
	struct file file = { .number = into[0], .system = into[1] };
	file.user = ids >> 32 << 32 | request_device(rq, false);
	if (!file.system || bpf_map_lookup_elem(&files, &file))
		return 0;
	struct named_sums fresh = {};
	__builtin_memcpy(fresh.of.comm, comm, sizeof(fresh.of.comm));
	if (file.system != ON_DEVICE)
		read_name(inode, fresh.name);
	return bpf_map_update_elem(&files, &file, &fresh, BPF_NOEXIST);
}
#define NOTE_FILE note_file
#include "owner.h"

static __always_inline void add(struct sums *sums, const struct ended *io)
{
	sums->ios++;
	sums->bytes += io->bytes;
	if (request_writes(io->kind))
		sums->written += io->bytes;
	if (io->latency != UNKNOWN) {
		sums->timed++;
		sums->time += io->latency;
	}
	if (io->queued != UNKNOWN)
		sums->queued += io->queued;
}

NOTE_REQUESTS(true)

BOTH_TRACEPOINTS(block_rq_complete)
{
	struct ended io = {};

	if (!has_ended((void *)ctx[0], ctx[2], &io, direct))
		return 0;
	u64 key = io.ids >> 32 << 32 | io.device;
	struct sums *sums = bpf_map_lookup_elem(&processes, &key);
	if (!sums) {
		struct sums fresh = {};
		__builtin_memcpy(fresh.comm, io.comm, sizeof(fresh.comm));
		bpf_map_update_elem(&processes, &key, &fresh, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&processes, &key);
	}
	if (sums)
		add(sums, &io);
	else
		lose(0);
	if (!io.file[1])
		return 0;
	struct file file = { key, io.file[0], io.file[1] };
	struct named_sums *named = bpf_map_lookup_elem(&files, &file);
	if (named)
		add(&named->of, &io);
	else
		lose(0);
	return 0;
}
