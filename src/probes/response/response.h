/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What the programs of `response` keep: a record for each observed thread, and cells that sums are kept in. See kernel.rs,
 * and record.rs, which read the same words. */
#pragma once
#include "namedfile.h"
#include "syscall.h"

#define DEPTH 127
#define PLACES 65536 /* a power of two */
#define CACHED 32 /* cells that a thread finds without a hash; a power of two */
#define FILES 8 /* the same for open files */
#define KEY_WORDS 8 /* a power of two */
#define MISSING 1 /* in place of a stack's name: it could not be taken. 0 is: it was not asked for */

/* In place of a call's number. */
#define NONE NO_CALL /* runs in user mode, or in a fault or an interrupt that hit it there */
#define UNSEEN 512 /* it ran when the observation began, and nobody knows where */
#define BIRTH 513 /* returns from the fork that made it */

enum mode { ON = 1, PREEMPTED, WOKEN, THROTTLED, BLOCKED, ENDED };
enum type { RUNQ = 1, WAIT, CALL, WAKER, STACK, ERRNO, SEMAPHORE };
enum class {
	NO_FILE,
	REGULAR,
	DIRECTORY,
	BLOCK,
	PIPE,
	TTY,
	CHARACTER,
	FUSE,
	INET,
	UNIX,
	NETLINK,
	SOCKET,
	ANONYMOUS,
	NETWORK_FILE,
	KERNEL_FILE, /* of proc, sysfs, a control group and the like */
};
/* Flags of a wait. */
#define IO_WAIT 1
#define KERNEL_THREAD 2
#define SHORT 4 /* its stack was taken as a sample of those below the threshold */
#define IN_PARTS 16 /* of calls: they were watched in parts of the time only */
#define KERNEL_LOCK 32 /* the kernel said that it is for one of its locks */
#define RWLOCK 64 /* of futexes: the program's memory says that it is for a reader-writer lock that others have */
#define PARKED 128 /* of futexes: a machine of Java says what it parks the thread for */
#define LOCK_WORD 8 /* a plain wait in futex(2) for the word of a lock; its operation stands from bit 8 on */

/* What a cell is about. `kind`: type | call << 8 | class << 24 | state << 32 | flags << 48. A call from 0x800 on is one of a
 * 32-bit program. */
struct key {
	u64 kind;
	u64 stack;
	u64 object[3];
};

/* Eight buckets per power of two, from 256 ns to 275 s; each with its number and its sum. */
#define BUCKETS 241
struct bucket {
	u64 count;
	u64 sum;
};
struct spread {
	struct bucket buckets[BUCKETS];
};

struct cell {
	u64 slot;
	u64 tag;
	struct key key;
	u64 count; /* of those that began and ended while observed: so are the next */
	u64 sum;
	u64 min;
	u64 max;
	u64 max_at;
	u64 open; /* began before the observation, or did not end within it */
	u64 open_ns;
	u64 open_at; /* when the last of these began */
	u64 on; /* of calls: on a CPU, in the time in which they were watched */
	u64 within; /* all of it; of semaphores: thread->held */
	u64 bytes;
	u64 spread; /* 0: none */
	u64 next; /* of the same thread; 0: none */
	char name[32]; /* of the file */
};

struct cached {
	u64 tag;
	u64 cell;
};

struct opened {
	u64 tag; /* fd << 32 | generation of the process's descriptors; 0: none */
	u64 class;
	u64 file;
	u64 inode;
	u64 object[3];
};

/* For how long any thread of a process did something, in ns: the sum, and since when any does; 0: none. */
struct any {
	u64 sum;
	u64 since;
	u64 until; /* the sum is of what was before */
};

struct thread {
	u64 mode;
	u64 t; /* since when */
	u64 began;
	u64 ended; /* 0: has not */
	u64 edge; /* in intervals that began before the observation, or lasted beyond it */
	u64 unknown; /* events that contradict each other */
	u64 unkept; /* of intervals that found no cell */
	u64 user; /* on a CPU */
	u64 kernel;
	u64 off; /* off CPU, for whatever reason */
	u64 runq; /* of that: waited for a CPU, throttled time with it */
	u64 switches;
	/* Its kernel's account, at the beginning and the end: user, system, run time, run delay, minor and major faults. */
	u64 before[6];
	u64 after[6];
	u64 ids; /* process << 32 | thread */
	u64 process_born; /* ns since boot */
	u64 parent;
	u64 flags; /* 1: thread of the kernel, 2: born within, 4: ended within, 8: has run 32-bit calls, 16: given up
		    * between two marks, 32: passed the second one, 64: a part that goes on from another, 128: that
		    * may be followed by one */
	char comm[16];
	u64 first; /* cell */
	u64 stolen; /* of the time on a CPU: the hypervisor had taken it away, or it served interrupts, where the kernel counts so */
	u64 interrupted;
	/* From here on nobody reads but the programs. */
	u64 fresh; /* nothing has happened since it was taken in */
	u64 call;
	u64 call_at; /* when the call began, or was met; 0: in none */
	u64 call_off;
	u64 call_open; /* met while it was under way: 1 when the observation began, 2 between two watches */
	u64 argument;
	u64 early; /* a wake-up that came before the sleep was seen */
	u64 woken;
	u64 waker;
	u64 waker_stack;
	u64 waker_comm[2];
	u64 wait; /* kind */
	u64 object[3];
	u64 file;
	u64 user_stack;
	u64 waits;
	u64 long_calls; /* those whose last wait was long: a bit for each, which some share */
	u64 on_since;
	u64 rq; /* run queue of the CPU that it is on; 0: it was not seen to come in */
	u64 stolen_before;
	u64 interrupted_before;
	u64 bio_at;
	u64 bio_device;
	u64 cfs_rq;
	u64 throttled_before;
	u64 ran_before; /* the kernel's account of its run time and its waits for a CPU, when it last came in or went out */
	u64 waited_before;
	struct cached cache[CACHED];
	struct opened files[FILES];
	u64 ring; /* that it waits for */
	u64 ring_ended; /* requests of that to disks that had ended when it went to sleep */
	u64 watch; /* number of the watch in which its last event was; 0: that was in none */
	u64 in_parts; /* of that watch */
	u64 call_from; /* what was watched before the call was met */
	u64 call_most; /* what will have been watched when nothing tells any more that it is under way */
	u64 off_watched; /* off CPU while calls were watched */
	u64 out_watched; /* what was watched before it went out last */
	u64 depth; /* of a call within calls of the function that is marked */
	u64 lock; /* of the kernel, that it has begun to wait for; 0: none */
	u64 id; /* of a request that may move to another thread */
	u64 interpreter; /* what an interpreter of Python, or a machine of Java, keeps of it */
	u64 task; /* of the event under way: functions that are verified once take numbers alone */
	u64 looked_for; /* when a machine of Java was asked last which thread of its own it is */
	u64 semaphore; /* that it waits for, if its futex may be one, and flags; else 0 */
	u64 ended_by; /* who ended the wait for it */
	u64 held; /* for how long of the wait that thread has had it, times those who waited */
	/* Of the first thread of a process with several: how many of them run, and how many run or could; and of each as which it is
	 * counted. */
	u64 shared;
	u64 running;
	u64 able;
	u64 counted;
	/* User space reads these, too. For how long any thread of the process ran, and ran or could have. */
	struct any any_ran;
	struct any any_able;
	/* Where its program is, of one that was asleep when it was taken in: place, stack pointer, frame
	 * pointer, address to return to. */
	u64 asleep[4];
	/* Which request; why no thread has it after this part, + 1, and the user stack there. */
	u64 request;
	u64 reason;
	u64 parked;
	u64 ready; /* since when it waited for this thread to take it up; 0: not known */
	/* Of a request, what it is called by: whether that was read, and a number in the first word or text. */
	u64 has_key;
	u64 key[KEY_WORDS];
};

/* A time in which calls are watched: from the first instant on to before the last. */
struct watch {
	u64 from;
	u64 until;
	u64 before; /* what was watched before, in ns */
	u64 in_parts; /* one of several short times */
	u64 whole; /* what was watched before these, all the time */
};

struct place {
	u32 tid;
	u32 slot;
};

struct stack {
	u64 ips[DEPTH];
};

/* Where a thread's record is. Two threads whose ids differ by a multiple of its size cannot both be observed. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, u32);
	__type(value, struct place);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cell);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spread);
} spreads SEC(".maps");

/* What is free of the three, and what user space is to take. */
#define FREE_LIST(name)                                                                                                \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_QUEUE);                                                                      \
		__uint(max_entries, 1);                                                                                \
		__type(value, u32);                                                                                    \
	} name SEC(".maps")
FREE_LIST(free_threads);
FREE_LIST(free_cells);
FREE_LIST(free_spreads);
FREE_LIST(ended_threads);

struct name {
	u64 slot;
	u64 tag;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct name);
	__type(value, u32);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct stack);
} stacks SEC(".maps");

/* The stack at hand: 0 for events, 1 for the iterators, which events may interrupt, 2 for samples, which may interrupt both. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, struct stack);
} scratch SEC(".maps");

/* 0: when the observation stopped, 0 while it goes on; 1: generation of file descriptors; 2: number of the latest watch, 0
 * before the first; 3: whether any thread has found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} control SEC(".maps");

/* Two that take turns, so that the one in force is not written to. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct watch);
} watches SEC(".maps");

enum { NO_PLACE, NO_THREAD, NO_CELL, NO_SPREAD, NO_STACK, LOST_WAKE, LOST_SWITCH, NO_END, LOST_REQUEST, NO_NAME, NO_SAMPLE, LOSSES };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSSES);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps");

/* Threads that found no room, and since when they would have been observed. Of those that have ended: how many, and their time. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, u64);
} passed_by SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} passed_by_ended SEC(".maps");

/* Calls that ended while they were watched. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} calls_made SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};
struct rw_semaphore {
	u64 count;
};
struct inode {
	unsigned short i_mode;
	struct rw_semaphore i_rwsem;
	u32 i_rdev;
	struct super_block *i_sb;
	unsigned long i_ino;
};
struct in6_addr {
	u8 bytes[16];
};
struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
};
struct sock {
	struct sock_common __sk_common;
};
struct socket {
	struct sock *sk;
};
struct mm_struct___lock {
	struct rw_semaphore mmap_lock;
};
struct task_struct___more {
	int on_cpu;
	unsigned int in_iowait : 1;
	u64 utime;
	u64 stime;
	unsigned long min_flt;
	unsigned long maj_flt;
	u64 start_boottime;
	bool throttled;
	struct files_struct *files;
};
/* Up to the last setting of a run queue's clock: what its CPU served interrupts, and what a hypervisor took of it. */
struct rq___taken {
	u64 prev_irq_time;
	u64 prev_steal_time_rq;
};
struct cfs_rq___bandwidth {
	int throttle_count;
	u64 throttled_clock_task_time;
	u64 throttled_clock_pelt_time;
};
#pragma clang attribute pop
