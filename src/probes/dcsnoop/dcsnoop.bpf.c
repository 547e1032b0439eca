// SPDX-License-Identifier: MIT OR Apache-2.0
/* Lookups of names: what the cache of directory entries answers, what the file system is asked for, and what it answers.
 *
 * lookup_fast() asks the cache for a part of a path. Where nothing is there, an entry is made (d_alloc_parallel(), or within a function
 * that holds the directory), the file system is asked, and its answer is hung into the entry: that is the end of the wait.
 *
 * Arguments of some of these functions differ between kernels. A program that reads a result behind the last one is refused
 * by the kernel, so the longer list is tried first. */
#include "parts.h"
#include "stream.h"
#include "vfs.h"

/* Whether the cache's own answers, that there is no such file, are lines too. */
const volatile u32 with_known = 0;
/* Of entries that are being looked up. Once an enum; before, a macro that had this value. */
#define OLD_PAR_LOOKUP 0x10000000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct dentry___looked {
	unsigned int d_flags;
	struct dentry___looked *d_parent;
	struct qstr___op d_name;
	struct inode___op *d_inode;
	struct super_block___op *d_sb;
};
struct path___looked {
	struct dentry___looked *dentry;
};
struct nameidata___looked {
	struct path___looked path;
	struct qstr___op last;
};
enum dentry_flags { DCACHE_PAR_LOOKUP };
#pragma clang attribute pop

enum { KNOWN, ABSENT, FOUND }; /* known to be absent; the file system was asked */

struct lookup {
	u64 at;
	u64 ids; /* tgid << 32 | tid */
	u64 answer;
	u64 took; /* ns */
	char comm[16];
	u64 type[2];
	struct parts parts;
};

/* Who asks the file system about which entry. `of` is the entry, or its directory where the entry is made later. */
struct asked {
	u64 tid;
	u64 of;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct asked);
	__type(value, u64);
} asked SEC(".maps");

struct sums {
	u64 lookups;
	u64 known; /* to be absent */
	u64 found; /* by the file system */
	u64 absent; /* the file system has none either */
	u64 took; /* ns that the file system took */
	char comm[16];
};

#include "processes.h"

/* The directories above, up to the root of their file system: of a name that is looked up no mount is known. */
static __noinline int read_above(struct dentry___looked *dentry, struct parts *parts)
{
	u32 at;

	clear_parts(parts, 1);
#pragma unroll
	for (at = 1; at < PARTS; at++) {
		struct dentry___looked *parent = BPF_CORE_READ(dentry, d_parent);
		if (parent == dentry) {
			parts->is_whole = 1;
			return 0;
		}
		bpf_probe_read_kernel_str(parts->names[at], PART, BPF_CORE_READ(dentry, d_name.name));
		dentry = parent;
	}
	return 0;
}

static __always_inline void tell(u64 answer, u64 took, struct dentry___looked *above, const unsigned char *name)
{
	struct lookup *lookup = reserve_event(sizeof(*lookup));

	if (!lookup)
		return;
	lookup->at = bpf_ktime_get_ns();
	lookup->ids = bpf_get_current_pid_tgid();
	lookup->answer = answer;
	lookup->took = took;
	bpf_get_current_comm(lookup->comm, sizeof(lookup->comm));
	lookup->type[0] = lookup->type[1] = 0;
	bpf_probe_read_kernel_str(lookup->type, sizeof(lookup->type), BPF_CORE_READ(above, d_sb, s_type, name));
	lookup->parts.names[0][0] = 0;
	bpf_probe_read_kernel_str(lookup->parts.names[0], PART, name);
	read_above(above, &lookup->parts);
	bpf_ringbuf_submit(lookup, 0);
}

/* The cache was asked. An error is no answer: the kernel asks again in another way. */
static __always_inline int looked(struct nameidata___looked *walk, struct dentry___looked *entry)
{
	if (is_error((u64)entry) || !current_wanted())
		return 0;
	struct sums *sums = sums_of_current(1);
	if (sums)
		__sync_fetch_and_add(&sums->lookups, 1);
	if (!entry || BPF_CORE_READ(entry, d_inode))
		return 0;
	if (sums)
		__sync_fetch_and_add(&sums->known, 1);
	if (with_known)
		tell(KNOWN, 0, BPF_CORE_READ(walk, path.dentry), BPF_CORE_READ(walk, last.name));
	return 0;
}

SEC("fexit/lookup_fast") int lookup_fast_three_fexit(u64 *ctx) { return looked((void *)ctx[0], (void *)ctx[3]); }
SEC("fexit/lookup_fast") int lookup_fast_one_fexit(u64 *ctx) { return looked((void *)ctx[0], (void *)ctx[1]); }

static __always_inline void ask(u64 of)
{
	struct asked key = { .tid = (u32)bpf_get_current_pid_tgid(), .of = of };
	u64 now = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&asked, &key, &now, BPF_ANY))
		lose(0);
}

static __always_inline u32 being_looked_up(void)
{
	if (bpf_core_enum_value_exists(enum dentry_flags, DCACHE_PAR_LOOKUP))
		return bpf_core_enum_value(enum dentry_flags, DCACHE_PAR_LOOKUP);
	return OLD_PAR_LOOKUP;
}

/* Of all that want the same name at once one gets the entry that it has to have filled. */
static __always_inline int allocated(struct dentry___looked *entry)
{
	if (is_error((u64)entry) || !entry || !current_wanted())
		return 0;
	if (BPF_CORE_READ(entry, d_flags) & being_looked_up())
		ask((u64)entry);
	return 0;
}

SEC("fexit/d_alloc_parallel") int d_alloc_parallel_three_fexit(u64 *ctx) { return allocated((void *)ctx[3]); }
SEC("fexit/d_alloc_parallel") int d_alloc_parallel_two_fexit(u64 *ctx) { return allocated((void *)ctx[2]); }

/* What makes, removes and renames looks the name up while it holds the directory, and asks the file system itself. */
static __always_inline int holds(u64 directory)
{
	if (current_wanted())
		ask(directory);
	return 0;
}

static __always_inline int let_go(u64 directory)
{
	struct asked key = { .tid = (u32)bpf_get_current_pid_tgid(), .of = directory };

	bpf_map_delete_elem(&asked, &key);
	return 0;
}

#define HOLDING(function)                                                                                              \
	SEC("fentry/" #function) int function##_fentry(u64 *ctx) { return holds(ctx[1]); }                             \
	SEC("fexit/" #function) int function##_fexit(u64 *ctx) { return let_go(ctx[1]); }

HOLDING(lookup_one_qstr_excl)
HOLDING(__lookup_hash)

/* The file system has answered. */
static __always_inline int answered(struct dentry___looked *entry, u64 inode)
{
	struct asked key = { .tid = (u32)bpf_get_current_pid_tgid(), .of = (u64)entry };
	u64 *since = bpf_map_lookup_elem(&asked, &key);

	if (!since) {
		key.of = (u64)BPF_CORE_READ(entry, d_parent);
		since = bpf_map_lookup_elem(&asked, &key);
	}
	if (!since)
		return 0;
	u64 took = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&asked, &key);
	bool found = inode && !is_error(inode);
	struct sums *sums = sums_of_current(1);
	if (sums) {
		__sync_fetch_and_add(found ? &sums->found : &sums->absent, 1);
		__sync_fetch_and_add(&sums->took, took);
	}
	tell(found ? FOUND : ABSENT, took, BPF_CORE_READ(entry, d_parent), BPF_CORE_READ(entry, d_name.name));
	return 0;
}

SEC("fentry/d_splice_alias") int d_splice_alias_fentry(u64 *ctx) { return answered((void *)ctx[1], ctx[0]); }
SEC("fentry/d_splice_alias_ops") int d_splice_alias_ops_fentry(u64 *ctx) { return answered((void *)ctx[1], ctx[0]); }
SEC("fentry/d_add") int d_add_fentry(u64 *ctx) { return answered((void *)ctx[0], ctx[1]); }

/* It is no longer being looked up, whatever came of it: some file systems have no entry made of what they do not have. */
static __always_inline int ended(struct dentry___looked *entry)
{
	return answered(entry, (u64)BPF_CORE_READ(entry, d_inode));
}

SEC("fentry/__d_lookup_unhash_wake") int __d_lookup_unhash_wake_fentry(u64 *ctx) { return ended((void *)ctx[0]); }
SEC("fentry/__d_lookup_done") int __d_lookup_done_fentry(u64 *ctx) { return ended((void *)ctx[0]); }
