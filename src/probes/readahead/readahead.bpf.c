// SPDX-License-Identifier: MIT OR Apache-2.0
/* Pages that are read ahead: how many of them anybody used, how soon, and how many left the cache unused.
 *
 * Which pages a thread is about to read ahead is known when it begins; those of them that it then puts into the cache are read ahead.
 * They are remembered by 64 pages of their file, one bit each, until they are used or leave the cache. A bit is changed without
 * a lock: two threads that use the same 64 pages in the same instant may count a page twice. */
#include "pagecache.h"
#include "vfs.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct file_ra_state {
	unsigned int size;
};
struct readahead_control {
	struct address_space___cached *mapping;
	unsigned long _index;
};
#pragma clang attribute pop

/* What a thread is about to read ahead. */
struct stretch {
	u64 inode;
	u64 next; /* page */
	u64 end;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct stretch);
} stretches SEC(".maps");

struct block {
	u64 mapping;
	u64 at; /* in 64 pages */
};

struct ahead {
	u64 unused; /* a bit for each page */
	u64 since; /* when the last of them was read ahead */
	u64 tgid; /* for whom */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct block);
	__type(value, struct ahead);
} blocks SEC(".maps");

struct sums {
	u64 ahead; /* pages */
	u64 used;
	u64 dropped; /* from the cache, unused */
	char comm[16];
};

#include "processes.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} ages SEC(".maps");

static __always_inline u64 bits_in(u64 word)
{
	word -= (word >> 1) & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + ((word >> 2) & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (word * 0x0101010101010101ULL) >> 56;
}

/* The bits of a block that lie in a stretch of pages, whose last page counts. */
static __always_inline u64 bits_of(u64 block, u64 first, u64 last)
{
	u64 mask = ~0ULL;

	if (block == first >> 6)
		mask &= ~0ULL << (first & 63);
	if (block == last >> 6)
		mask &= ~0ULL >> (63 - (last & 63));
	return mask;
}

static __always_inline void begin(u64 inode, u64 from, u64 pages)
{
	u32 tid = bpf_get_current_pid_tgid();

	if (!pages || !current_wanted())
		return;
	struct stretch stretch = { .inode = inode, .next = from, .end = from + pages };
	bpf_map_update_elem(&stretches, &tid, &stretch, BPF_ANY);
}

static __always_inline int end(void)
{
	u32 tid = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&stretches, &tid);
	return 0;
}

/* Since 6.18. */
BOTH_TRACEPOINTS(page_cache_ra_unbounded)
{
	begin(ctx[0], ctx[1], ctx[2]);
	return 0;
}

BOTH_TRACEPOINTS(page_cache_ra_order)
{
	struct file_ra_state *ra = (void *)ctx[2];

	begin(ctx[0], ctx[1], BPF_CORE_READ(ra, size));
	return 0;
}

/* The functions, before. */
SEC("fentry/page_cache_ra_unbounded") int page_cache_ra_unbounded_fentry(u64 *ctx)
{
	struct readahead_control *of = (void *)ctx[0];

	begin((u64)BPF_CORE_READ(of, mapping, host), BPF_CORE_READ(of, _index), ctx[1]);
	return 0;
}

SEC("fexit/page_cache_ra_unbounded") int page_cache_ra_unbounded_fexit(u64 *ctx) { return end(); }

SEC("fentry/page_cache_ra_order") int page_cache_ra_order_fentry(u64 *ctx)
{
	struct readahead_control *of = (void *)ctx[0];
	struct file_ra_state *ra = (void *)ctx[1];

	begin((u64)BPF_CORE_READ(of, mapping, host), BPF_CORE_READ(of, _index), BPF_CORE_READ(ra, size));
	return 0;
}

SEC("fexit/page_cache_ra_order") int page_cache_ra_order_fexit(u64 *ctx) { return end(); }

static __always_inline struct address_space___cached *place_of(void *of, u64 *first)
{
	struct folio___cached *folio = of;
	struct page___cached *page = of;

	if (bpf_core_field_exists(folio->index)) {
		*first = BPF_CORE_READ(folio, index);
		return BPF_CORE_READ(folio, mapping);
	}
	*first = BPF_CORE_READ(page, index);
	return BPF_CORE_READ(page, mapping);
}

static __always_inline void remember(struct block *key, u64 bits)
{
	struct ahead *known = bpf_map_lookup_elem(&blocks, key);
	u64 now = bpf_ktime_get_ns(), tgid = bpf_get_current_pid_tgid() >> 32;

	if (known) {
		known->unused |= bits;
		known->since = now;
		known->tgid = tgid;
		return;
	}
	struct ahead fresh = { .unused = bits, .since = now, .tgid = tgid };
	if (bpf_map_update_elem(&blocks, key, &fresh, BPF_ANY))
		lose_many(0, bits_in(bits));
}

/* Blocks that a folio may lie in: 2 MiB are 8. */
#define FOLIO_BLOCKS 9
/* And what one call asks for; of more the kernel tells again, as it goes on. */
#define CALL_BLOCKS 32

BOTH_TRACEPOINTS(mm_filemap_add_to_page_cache)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct stretch *stretch = bpf_map_lookup_elem(&stretches, &tid);
	u64 first = 0, last;

	if (!stretch)
		return 0;
	struct address_space___cached *mapping = place_of((void *)ctx[0], &first);
	if ((u64)BPF_CORE_READ(mapping, host) != stretch->inode || first < stretch->next || first >= stretch->end)
		return 0;
	u64 pages = pages_of((void *)ctx[0]);
	last = first + pages - 1;
	/* They come in order; with the last one it is over. */
	stretch->next = last + 1;
	if (stretch->next >= stretch->end)
		bpf_map_delete_elem(&stretches, &tid);
	struct sums *sums = sums_of_current(pages);
	if (!sums)
		return 0;
	__sync_fetch_and_add(&sums->ahead, pages);
	for (u32 i = 0; i < FOLIO_BLOCKS; i++) {
		struct block key = { .mapping = (u64)mapping, .at = (first >> 6) + i };
		if (key.at > last >> 6)
			break;
		remember(&key, bits_of(key.at, first, last));
	}
	return 0;
}

static __always_inline void leaves(u64 mapping, u64 first, u64 last, const u32 most, const bool used)
{
	u32 zero = 0;

	for (u32 i = 0; i < most; i++) {
		struct block key = { .mapping = mapping, .at = (first >> 6) + i };
		if (key.at > last >> 6)
			break;
		struct ahead *known = bpf_map_lookup_elem(&blocks, &key);
		if (!known)
			continue;
		u64 bits = known->unused & bits_of(key.at, first, last);
		if (!bits)
			continue;
		u64 pages = bits_in(bits), age = bpf_ktime_get_ns() - known->since;
		/* Its sums may have been read out meanwhile: then it has no name any more, but what was counted stays counted. */
		struct sums *sums = sums_of(known->tgid, false, pages);
		known->unused &= ~bits;
		if (!known->unused)
			bpf_map_delete_elem(&blocks, &key);
		if (sums)
			__sync_fetch_and_add(used ? &sums->used : &sums->dropped, pages);
		if (!used)
			continue;
		struct hist *hist = bpf_map_lookup_elem(&ages, &zero);
		u64 slot = hist_slot(age);
		/* Older verifiers lose the bound of a copy. */
		asm volatile("" : "+r"(slot));
		if (!hist || slot >= HIST_SLOTS)
			continue;
		hist->count += pages;
		hist->sum += pages * age;
		if (age > hist->max)
			hist->max = age;
		hist->slots[slot] += pages;
	}
}

BOTH_TRACEPOINTS(mm_filemap_delete_from_page_cache)
{
	u64 first = 0;
	struct address_space___cached *mapping = place_of((void *)ctx[0], &first);

	leaves((u64)mapping, first, first + pages_of((void *)ctx[0]) - 1, FOLIO_BLOCKS, false);
	return 0;
}

/* Who uses pages, page by page. */
BOTH_TRACEPOINTS(mm_filemap_get_pages)
{
	leaves(ctx[0], ctx[1], ctx[2], CALL_BLOCKS, true);
	return 0;
}

BOTH_TRACEPOINTS(mm_filemap_map_pages)
{
	leaves(ctx[0], ctx[1], ctx[2], CALL_BLOCKS, true);
	return 0;
}

BOTH_TRACEPOINTS(mm_filemap_fault)
{
	leaves(ctx[0], ctx[1], ctx[1], 1, true);
	return 0;
}

/* Before 6.12: the functions that note that a page is in use. */
static __always_inline int accessed(void *of)
{
	u64 first = 0;
	struct address_space___cached *mapping = place_of(of, &first);

	/* Memory of programs has something else there, which no block has the name of. */
	leaves((u64)mapping, first, first + pages_of(of) - 1, FOLIO_BLOCKS, true);
	return 0;
}

SEC("fentry/folio_mark_accessed") int folio_mark_accessed_fentry(u64 *ctx) { return accessed((void *)ctx[0]); }
SEC("fentry/mark_page_accessed") int mark_page_accessed_fentry(u64 *ctx) { return accessed((void *)ctx[0]); }
