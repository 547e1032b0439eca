// SPDX-License-Identifier: MIT OR Apache-2.0
/* How many of the pages that reads ask for are in the page cache already: each buffered read is a stretch of pages of its file, and
 * those of them that are put into the cache while it is under way, by its own thread, were missing. What is read ahead lies behind
 * that stretch, and is found by the reads that come after. */
#include "../../mechanism/ebpf/include/folio.h"
#include "../../mechanism/ebpf/include/vfs.h"

const volatile u32 page_shift = 12;
const volatile u32 direct_flag = 0; /* of open(): reads past the cache; its number differs by architecture */
/* Position in the list + 1: calls that read on at the file's place, and those that say where. */
enum { ON = 1, AT = 2 };
const volatile u8 call_kinds[CALLS] = {};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inode___cached {
	unsigned short i_mode;
};
struct address_space___cached {
	struct inode___cached *host;
};
struct folio___cached {
	struct address_space___cached *mapping;
	unsigned long index;
};
/* Before 5.16. */
struct page___cached {
	struct address_space___cached *mapping;
	unsigned long index;
};
#pragma clang attribute pop

struct reading {
	u64 inode; /* 0: none is under way */
	u64 from; /* the byte in the file */
	u64 first; /* page */
	u64 last;
	u64 missed; /* pages */
};

/* What each thread reads, or has read: its place is kept, since making and removing one costs more than all else. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct reading);
} readings SEC(".maps");

struct sums {
	u64 reads;
	u64 bytes;
	u64 asked; /* pages */
	u64 missed; /* pages */
	u64 added; /* pages, for whatever reason */
	u64 dirtied; /* pages */
	char comm[16];
};

#include "../../mechanism/ebpf/include/processes.h"

static __always_inline void read_begins(struct file___op *file, u64 from, u64 bytes, const bool direct)
{
	u32 tid = bpf_get_current_pid_tgid();

	if (!bytes || (READ(file, f_flags) & direct_flag))
		return;
	struct inode___op *inode = READ(file, f_inode);
	if (!inode || (READ(inode, i_mode) & TYPE_BITS) != REGULAR)
		return;
	struct reading *reading = bpf_map_lookup_elem(&readings, &tid);
	if (!reading) {
		struct reading none = {};
		bpf_map_update_elem(&readings, &tid, &none, BPF_NOEXIST);
		reading = bpf_map_lookup_elem(&readings, &tid);
		if (!reading)
			return;
	}
	reading->inode = (u64)inode;
	reading->from = from;
	reading->first = from >> page_shift;
	reading->last = (from + bytes - 1) >> page_shift;
	reading->missed = 0;
}

#define TMPFS 0x01021994
#define RAMFS 0x858458f6
#define OVERLAY 0x794c7630

/* Files of /proc and the like have no pages; those of tmpfs are nowhere else. What an overlay reads is in the cache of the file
 * below it. */
static __always_inline bool has_cache(struct inode___op *inode, const bool direct)
{
	struct super_block___op *super = READ(inode, i_sb);
	u64 magic = READ(super, s_magic);

	if (magic == TMPFS || magic == RAMFS)
		return false;
	struct address_space___op *mapping = READ(inode, i_mapping);
	return magic == OVERLAY || READ(mapping, nrpages);
}

/* The file, if it is known again; otherwise its inode is where it was. */
static __always_inline void read_ends(struct file___op *file, s64 result, const bool direct)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct reading *reading = bpf_map_lookup_elem(&readings, &tid);

	if (!reading || !reading->inode)
		return;
	struct inode___op *inode = direct ? file->f_inode : (void *)reading->inode;
	reading->inode = 0;
	if (result <= 0)
		return;
	if (!inode || !has_cache(inode, direct))
		return;
	u64 asked = ((reading->from + result - 1) >> page_shift) - reading->first + 1;
	struct sums *sums = sums_of_current(1);
	if (!sums)
		return;
	__sync_fetch_and_add(&sums->reads, 1);
	__sync_fetch_and_add(&sums->bytes, result);
	__sync_fetch_and_add(&sums->asked, asked);
	/* Less was read than was asked for: the file ended, or was cut meanwhile. */
	__sync_fetch_and_add(&sums->missed, reading->missed < asked ? reading->missed : asked);
}

SEC("fentry/vfs_read") int vfs_read_fentry(u64 *ctx)
{
	s64 *place = NULL, from = 0;

	if (!current_wanted())
		return 0;
	bpf_probe_read_kernel(&place, sizeof(place), ctx + 3);
	/* Without a place it is no file that has pages. */
	if (place && !bpf_probe_read_kernel(&from, sizeof(from), place))
		read_begins((void *)ctx[0], from, ctx[2], true);
	return 0;
}

SEC("fexit/vfs_read") int vfs_read_fexit(u64 *ctx)
{
	read_ends((void *)ctx[0], ctx[4], true);
	return 0;
}

BOTH_TRACEPOINTS(sys_enter)
{
	void *regs = (void *)ctx[0];
	u32 number = call_number(regs, direct);
	u32 kind = number < CALLS ? call_kinds[number] : 0;

	if (!kind || !current_wanted())
		return 0;
	struct file___op *file = file_of(call_argument(regs, 0, direct), direct);
	if (!file)
		return 0;
	u64 from = kind == AT ? call_argument(regs, 3, direct) : BPF_CORE_READ(file, f_pos);
	read_begins(file, from, call_argument(regs, 2, direct), false);
	return 0;
}

BOTH_TRACEPOINTS(sys_exit)
{
	void *regs = (void *)ctx[0];
	u32 number = call_number(regs, direct);

	if (number < CALLS && call_kinds[number])
		read_ends(NULL, ctx[1], false);
	return 0;
}

static __always_inline bool is_of_file(struct address_space___cached *mapping)
{
	return (BPF_CORE_READ(mapping, host, i_mode) & TYPE_BITS) == REGULAR;
}

BOTH_TRACEPOINTS(mm_filemap_add_to_page_cache)
{
	struct folio___cached *folio = (void *)ctx[0];
	struct page___cached *page = (void *)ctx[0];
	struct address_space___cached *mapping;
	u64 first, pages;
	u32 tid = bpf_get_current_pid_tgid();

	if (!current_wanted())
		return 0;
	if (bpf_core_field_exists(folio->index)) {
		mapping = BPF_CORE_READ(folio, mapping);
		first = BPF_CORE_READ(folio, index);
	} else {
		mapping = BPF_CORE_READ(page, mapping);
		first = BPF_CORE_READ(page, index);
	}
	if (!is_of_file(mapping))
		return 0;
	pages = pages_of(folio);
	struct sums *sums = sums_of_current(1);
	if (sums)
		__sync_fetch_and_add(&sums->added, pages);
	struct reading *reading = bpf_map_lookup_elem(&readings, &tid);
	if (!reading || !reading->inode)
		return 0;
	u64 from = first > reading->first ? first : reading->first;
	u64 end = first + pages <= reading->last ? first + pages : reading->last + 1;
	if (from < end)
		reading->missed += end - from;
	return 0;
}

static __always_inline int dirtied(void *folio, struct address_space___cached *mapping)
{
	if (!mapping || !current_wanted() || !is_of_file(mapping))
		return 0;
	struct sums *sums = sums_of_current(1);
	if (sums)
		__sync_fetch_and_add(&sums->dirtied, pages_of(folio));
	return 0;
}

BOTH_TRACEPOINTS(writeback_dirty_folio)
{
	return dirtied((void *)ctx[0], (void *)ctx[1]);
}

/* Its name before 5.18. */
BOTH_TRACEPOINTS(writeback_dirty_page)
{
	return dirtied((void *)ctx[0], (void *)ctx[1]);
}
