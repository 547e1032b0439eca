/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What the programs on block requests share: the request's fields, its device, the filter by device or partition. */
#pragma once
#include "rdiag.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk {
	int major;
	int first_minor;
};
struct request_queue {
	struct gendisk *disk; /* since 5.15 */
};
struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int rq_flags;
	unsigned int __data_len;
	unsigned long long __sector;
	u64 start_time_ns;
};
/* Before 5.17. */
struct request___old {
	struct gendisk *rq_disk;
};
enum req_flag_bits {
	__REQ_SYNC,
	__REQ_META,
	__REQ_FUA,
	__REQ_RAHEAD,
};
enum rqf_flags {
	__RQF_FLUSH_SEQ,
};
#pragma clang attribute pop

#define OP_FLUSH 2
#define OP_DISCARD 3
#define DEVICE(major, minor) ((u32)(major) << 20 | (u32)(minor))

/* A whole device, or a stretch of it, which is what a partition is. */
const volatile u32 filter_device = 0;
const volatile u64 filter_sector_first = 0;
const volatile u64 filter_sector_end = 0;

/* Device number; 0 for commands to a controller that belong to no disk. */
static __always_inline u32 request_device(struct request *rq, const bool direct)
{
	struct request___old *old = (void *)rq;
	struct gendisk *disk;

	if (bpf_core_field_exists(old->rq_disk)) {
		disk = READ(old, rq_disk);
	} else {
		struct request_queue *queue = READ(rq, q);
		disk = READ(queue, disk);
	}
	if (!disk)
		return 0;
	return DEVICE(READ(disk, major), READ(disk, first_minor));
}

static __always_inline bool request_wanted(struct request *rq, u32 device, const bool direct)
{
	if (!filter_device)
		return true;
	if (device != filter_device)
		return false;
	if (!filter_sector_end)
		return true;
	u64 sector = READ(rq, __sector);
	return sector >= filter_sector_first && sector < filter_sector_end;
}

/* What is done (the kernel's REQ_OP_ number), and how, in bits of rdiag's own: their places differ between kernels. */
#define KIND_SYNC (1 << 8)
#define KIND_META (1 << 9)
#define KIND_AHEAD (1 << 10)
#define KIND_FUA (1 << 11)
static __always_inline u32 request_operation(u32 cmd_flags)
{
	return cmd_flags & 0xff;
}
static __always_inline bool request_writes(u32 kind)
{
	return (kind & 1) && request_operation(kind) != OP_DISCARD;
}
static __always_inline u32 request_kind(u32 cmd_flags)
{
	u32 kind = request_operation(cmd_flags);

	if (cmd_flags & (1U << bpf_core_enum_value(enum req_flag_bits, __REQ_SYNC)))
		kind |= KIND_SYNC;
	if (cmd_flags & (1U << bpf_core_enum_value(enum req_flag_bits, __REQ_META)))
		kind |= KIND_META;
	if (cmd_flags & (1U << bpf_core_enum_value(enum req_flag_bits, __REQ_RAHEAD)))
		kind |= KIND_AHEAD;
	if (cmd_flags & (1U << bpf_core_enum_value(enum req_flag_bits, __REQ_FUA)))
		kind |= KIND_FUA;
	return kind;
}

/* Whether the end of this request is an I/O in /proc/diskstats. A write that must flush the device's cache ends twice:
 * when its data are written, in the middle of the sequence, and at the sequence's end; only the latter counts. The flush
 * itself has a request of its own, which counts too. */
static __always_inline bool request_counts(struct request *rq, u32 operation, const bool direct)
{
	u32 bit = 4; /* before 6.12, when these flags were no enum */

	if (bpf_core_enum_value_exists(enum rqf_flags, __RQF_FLUSH_SEQ))
		bit = bpf_core_enum_value(enum rqf_flags, __RQF_FLUSH_SEQ);
	return operation == OP_FLUSH || !(READ(rq, rq_flags) & (1U << bit));
}

/* Ends of requests come with the bytes that are done; the rest of the request follows later, if there is a rest. */
static __always_inline bool request_is_done(struct request *rq, u32 bytes, const bool direct)
{
	return bytes >= READ(rq, __data_len);
}
