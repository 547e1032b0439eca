// SPDX-License-Identifier: MIT OR Apache-2.0
/* Requests that are handed to the kernel and waited for later, by io_uring and by AIO; each program keeps its own account.
 *
 *     ledgers_rings NAME SECONDS          its last line is TRUTH and an account, as of benches/ledgers.c */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "ledgers.h"

static double began, end_at, waited;

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}
static int over(void) { return now() >= end_at; }
#define WAITS(call) do { double from = now(); (void)!(call); waited += now() - from; } while (0)

/* A ring of one request at a time. */
static struct io_uring_params params;
static unsigned *submissions, *tail, *head, *completed;
static struct io_uring_sqe *requests;
static int ring;

static int opened(void)
{
	ring = syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0)
		return -1;
	size_t whole = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe) + (64 << 10);
	char *both = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	char *done = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	requests = mmap(NULL, sizeof(*requests), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	submissions = (void *)(both + params.sq_off.array);
	tail = (void *)(both + params.sq_off.tail);
	head = (void *)(done + params.cq_off.head);
	completed = (void *)(done + params.cq_off.tail);
	return 0;
}
/* Hands one request over and waits for its end. */
static void asks(int what, int fd, void *buffer, unsigned size, uint64_t at)
{
	*requests = (struct io_uring_sqe){ .opcode = what, .fd = fd, .addr = (uintptr_t)buffer, .len = size, .off = at };
	submissions[0] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	WAITS(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
	__atomic_store_n(head, __atomic_load_n(completed, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

/* A socket that gives a byte now and then. */
static int peer(unsigned every_us)
{
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (write(ends[1], "x", 1) == 1)
			usleep(every_us);
		_exit(0);
	}
	return ends[0];
}
static void receives(void)
{
	char byte;
	for (int from = peer(20000); !over();)
		asks(IORING_OP_RECV, from, &byte, 1, 0);
}

#define BLOCK (64 << 10)
#define BLOCKS 512
static char *block;
static int uncached(void)
{
	char path[] = "/var/tmp/ledgers.XXXXXX";
	int fd = mkstemp(path);
	block = aligned_alloc(4096, BLOCK);
	memset(block, 'x', BLOCK);
	for (int at = 0; at < BLOCKS; at++)
		(void)!write(fd, block, BLOCK);
	fsync(fd);
	int direct = open(path, O_RDONLY | O_DIRECT);
	unlink(path);
	close(fd);
	return direct;
}
static void ring_reads(void)
{
	for (int fd = uncached(), at = 0; !over(); at++)
		asks(IORING_OP_READ, fd, block, BLOCK, (uint64_t)(at % BLOCKS) * BLOCK);
}
/* What a server does that sends files: it waits for a socket, and then for a disk, by the same ring. */
static double received;
static void serves(void)
{
	char byte;
	for (int fd = uncached(), from = peer(2000), at = 0; !over(); at++) {
		asks(IORING_OP_RECV, from, &byte, 1, 0);
		received += waited;
		waited = 0;
		for (int more = 0; more < 8; more++)
			asks(IORING_OP_READ, fd, block, BLOCK, (uint64_t)((at * 8 + more) % BLOCKS) * BLOCK);
		waited = 0;
	}
}
static void aio_reads(void)
{
	aio_context_t context = 0;
	syscall(SYS_io_setup, 1, &context);
	for (int fd = uncached(), at = 0; !over(); at++) {
		struct iocb one = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = fd, .aio_buf = (uintptr_t)block, .aio_nbytes = BLOCK,
				    .aio_offset = (int64_t)(at % BLOCKS) * BLOCK }, *list[] = { &one };
		struct io_event done;
		syscall(SYS_io_submit, context, 1, list);
		WAITS(syscall(SYS_io_getevents, context, 1, 1, &done, NULL));
	}
}

int main(int count, char **words)
{
	if (count != 3 || opened())
		return 2;
	int receive = !strcmp(words[1], "uring-recv");
	unsigned long long ran = 0, delay = 0;
	struct rusage used;
	(void)on_a_cpu();
	began = now();
	end_at = began + atof(words[2]);
	if (receive)
		receives();
	else if (!strcmp(words[1], "uring-read"))
		ring_reads();
	else if (!strcmp(words[1], "uring-serve"))
		serves();
	else
		aio_reads();
	double life = now() - began;
	FILE *schedstat = fopen("/proc/self/schedstat", "r");
	if (!schedstat || fscanf(schedstat, "%llu %llu", &ran, &delay) != 2)
		return 3;
	getrusage(RUSAGE_SELF, &used);
	double user = used.ru_utime.tv_sec + used.ru_utime.tv_usec * 1e-6, sys = used.ru_stime.tv_sec + used.ru_stime.tv_usec * 1e-6;
	double waited_to_come_in = came_in(user + sys, on_a_cpu(), sys);
	double rest = life - user - sys - delay * 1e-9;
	if (received > 0) {
		printf("\nTRUTH {\"seconds\": %.6f, \"cpu.user\": %.6f, \"cpu.sys\": %.6f, \"runnable\": %.6f, \"wait.poll\": %.6f, "
		       "\"io.block.async\": %.6f, \"helpers\": 1}\n", life, user, sys - waited_to_come_in, delay * 1e-9 + waited_to_come_in,
		       received, rest - received);
		return 0;
	}
	/* What the clock around the calls has of CPU time and of waits for a CPU is the kernel's to say. */
	printf("\nTRUTH {\"seconds\": %.6f, \"cpu.user\": %.6f, \"cpu.sys\": %.6f, \"runnable\": %.6f, \"%s\": %.6f%s}\n", life, user,
	       sys - waited_to_come_in, delay * 1e-9 + waited_to_come_in, receive ? "wait.poll" : "io.block.async",
	       rest < waited ? rest : waited, receive ? ", \"helpers\": 1" : "");
	return 0;
}
