/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What a futex is part of, as far as the program's own memory proves it.
 *
 * The C library waits in one function for reader-writer locks, semaphores and condition variables, so neither the call nor the
 * instruction tells them apart. A reader-writer lock does by what it holds: three of its words are waited for, each with values of
 * its own, while the others say that somebody has the lock. That is the layout of glibc since 2.25, on both architectures alike. (Of a
 * semaphore memory alone does not tell, see semaphores.h.) */
#pragma once
#include "tasks.h"
#include "lockword.h"

#define FUTEX_OPERATION 15
#define FUTEX_WAIT 0
#define FUTEX_WAIT_BITSET 9
#define FUTEX_PRIVATE 128

struct rwlock {
	u32 readers; /* bits as below; the number of readers from bit 3 on */
	u32 writers;
	u32 phase;
	u32 writer;
	u32 unused[2];
	s32 owner;
	u32 shared;
	u64 zero[2];
	u32 prefers;
	u32 rest;
};
#define WRITE_PHASE 1
#define WRITE_LOCKED 2
#define READERS_WAIT 4
#define HANDED_OVER 0x80000000
/* Values that are waited for. */
#define IS_USED 2 /* the phase is that of readers: a writer waits until they are gone */
#define IS_TAKEN 3 /* it is that of a writer; or another writer has the lock */

/* The reader-writer lock that a futex of the task that runs now is part of, if others have it; else 0. */
static __noinline u64 rwlock_of(u64 at, u64 operation, u32 value)
{
	struct rwlock lock;
	bool taken = false;

	if ((operation & FUTEX_OPERATION) != FUTEX_WAIT_BITSET || at & 3)
		return 0;
	/* Which word of it this is: the lock itself lies at a multiple of eight. */
	u64 word = at & 4 ? __builtin_offsetof(struct rwlock, writer) : value <= IS_TAKEN ? __builtin_offsetof(struct rwlock, phase) : 0;
	if (bpf_probe_read_user(&lock, sizeof(lock), (void *)(at - word)))
		return 0;
	if (lock.unused[0] || lock.unused[1] || lock.zero[0] || lock.zero[1] || lock.owner < 0 || lock.prefers > 2)
		return 0;
	if (lock.shared != (operation & FUTEX_PRIVATE ? 0 : 1))
		return 0;
	bool writing = lock.readers & WRITE_PHASE, locked = lock.readers & WRITE_LOCKED, readers = lock.readers >> 3;
	if (word == __builtin_offsetof(struct rwlock, writer))
		/* Writers are counted where they have precedence. */
		taken = value == IS_TAKEN && lock.writer == value && locked && (writing || readers) &&
			(!lock.prefers || (lock.writers & ~HANDED_OVER));
	else if (word == __builtin_offsetof(struct rwlock, phase))
		taken = lock.phase == value && readers && (value == IS_TAKEN ? writing : value == IS_USED && locked && !writing);
	else
		taken = value == lock.readers && (value & READERS_WAIT) && locked && !writing && readers;
	return taken ? at - word : 0;
}
