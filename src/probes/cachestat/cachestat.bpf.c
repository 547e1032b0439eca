// SPDX-License-Identifier: MIT OR Apache-2.0
/* How many of the pages that reads ask for are in the page cache already: each buffered read is a stretch of pages of its file, and
 * those of them that its own thread put into the cache meanwhile were missing. What is read ahead lies behind that stretch, and is
 * found by the reads that come after. Most reads find everything, so a read is looked at once, when it ends; what it asked for is
 * taken from the call's arguments when a page is put into the cache. */
#include "pagecache.h"
#include "vfs.h"

const volatile u32 page_shift = 12;
const volatile u32 direct_flag = 0; /* of open(): reads past the cache; its number differs by architecture */
const volatile u32 by_calls = 0; /* reads are seen at the end of system calls, not of vfs_read() */
/* Position in the list + 1: calls that read on at the file's place, and those that say where. */
enum { ON = 1, AT = 2 };
const volatile u8 call_kinds[CALLS] = {};

/* Pages that each thread has put into the cache since its last read ended, of those that its read asks for. A thread keeps its place:
 * making and removing one costs more than all else. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u64);
} missing SEC(".maps");

/* How many threads whose ids end alike have such pages: mostly none, and then nobody has to look for them. */
#define MARKS 16384
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MARKS);
	__type(key, u32);
	__type(value, u32);
} marks SEC(".maps");

struct sums {
	u64 reads;
	u64 bytes;
	u64 asked; /* pages */
	u64 missed; /* pages */
	u64 added; /* pages, for whatever reason */
	u64 dirtied; /* pages */
	char comm[16];
};

#include "processes.h"

static __always_inline u32 *mark_of(u32 tid)
{
	u32 at = tid & (MARKS - 1);

	return bpf_map_lookup_elem(&marks, &at);
}

static __always_inline void note_missing(u64 pages)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 none = 0, *missed = bpf_map_lookup_elem(&missing, &tid);
	u32 *mark = mark_of(tid);

	if (!missed) {
		bpf_map_update_elem(&missing, &tid, &none, BPF_NOEXIST);
		missed = bpf_map_lookup_elem(&missing, &tid);
	}
	if (!missed || !mark)
		return;
	if (!*missed)
		__sync_fetch_and_add(mark, 1);
	*missed += pages;
}

/* What was missing for the read that ends now. */
static __always_inline u64 take_missing(void)
{
	u32 tid = bpf_get_current_pid_tgid(), *mark = mark_of(tid);

	if (!mark || !*mark)
		return 0;
	u64 *missed = bpf_map_lookup_elem(&missing, &tid), pages;
	if (!missed || !*missed)
		return 0;
	pages = *missed;
	*missed = 0;
	__sync_fetch_and_add(mark, -1);
	return pages;
}

static __always_inline bool is_buffered(struct file___op *file, const bool direct)
{
	struct inode___op *inode = READ(file, f_inode);

	return inode && (READ(inode, i_mode) & TYPE_BITS) == REGULAR && !(READ(file, f_flags) & direct_flag);
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

static __always_inline void read_ends(struct file___op *file, u64 from, s64 result, const bool direct)
{
	u64 missed = take_missing();

	if (result <= 0 || !file || !is_buffered(file, direct) || !has_cache(READ(file, f_inode), direct))
		return;
	u64 asked = ((from + result - 1) >> page_shift) - (from >> page_shift) + 1;
	struct sums *sums = sums_of_current(1);
	if (!sums)
		return;
	__sync_fetch_and_add(&sums->reads, 1);
	__sync_fetch_and_add(&sums->bytes, result);
	__sync_fetch_and_add(&sums->asked, asked);
	/* Less was read than was asked for: the file ended, or was cut meanwhile. */
	if (missed)
		__sync_fetch_and_add(&sums->missed, missed < asked ? missed : asked);
}

SEC("fexit/vfs_read") int vfs_read_fexit(u64 *ctx)
{
	s64 *place = NULL, end = 0;

	if (!current_wanted())
		return 0;
	bpf_probe_read_kernel(&place, sizeof(place), ctx + 3);
	/* Without a place it is no file that has pages. */
	if (place && !bpf_probe_read_kernel(&end, sizeof(end), place))
		read_ends((void *)ctx[0], end - (s64)ctx[4], ctx[4], true);
	return 0;
}

static __always_inline u32 kind_of(u32 number)
{
	return number < CALLS ? call_kinds[number] : 0;
}

BOTH_TRACEPOINTS(sys_exit)
{
	void *regs = (void *)ctx[0];
	u32 kind = kind_of(call_number(regs, direct));
	s64 result = ctx[1];

	if (!kind || !current_wanted())
		return 0;
	struct file___op *file = file_of(call_argument(regs, 0, direct), direct);
	if (!file)
		return 0;
	u64 from = kind == AT ? call_argument(regs, 3, direct) : BPF_CORE_READ(file, f_pos) - result;
	read_ends(file, from, result, false);
	return 0;
}

static __always_inline bool is_of_file(struct address_space___cached *mapping)
{
	return (BPF_CORE_READ(mapping, host, i_mode) & TYPE_BITS) == REGULAR;
}

/* How many of these pages the running thread reads, as the arguments of its call say. */
static __always_inline u64 of_those_asked_for(struct address_space___cached *mapping, u64 first, u64 pages)
{
	void *regs = own_registers();
	u32 number = call_number(regs, false);

	/* What a 32-bit program asks for is not looked up: it may be told to have missed a page that it found beside others. */
	if (number == COMPAT && !by_calls)
		return pages;
	u32 kind = kind_of(number);
	struct file___op *file = kind ? file_of(call_argument(regs, 0, false), false) : NULL;
	if (!file || !is_buffered(file, false))
		return 0;
	struct inode___op *inode = BPF_CORE_READ(file, f_inode);
	if ((void *)inode != (void *)BPF_CORE_READ(mapping, host) && BPF_CORE_READ(inode, i_sb, s_magic) != OVERLAY)
		return 0;
	u64 bytes = call_argument(regs, 2, false);
	u64 from = kind == AT ? call_argument(regs, 3, false) : BPF_CORE_READ(file, f_pos);
	if (!bytes)
		return 0;
	u64 last = (from + bytes - 1) >> page_shift, end = first + pages;
	from >>= page_shift;
	if (from < first)
		from = first;
	if (end > last + 1)
		end = last + 1;
	return from < end ? end - from : 0;
}

BOTH_TRACEPOINTS(mm_filemap_add_to_page_cache)
{
	struct folio___cached *folio = (void *)ctx[0];
	struct page___cached *page = (void *)ctx[0];
	struct address_space___cached *mapping;
	u64 first, pages;

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
	u64 missed = of_those_asked_for(mapping, first, pages);
	if (missed)
		note_missing(missed);
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
