// SPDX-License-Identifier: MIT OR Apache-2.0
/* Programs of which one part can be made smaller; benches/forecasts.py holds what rdiag forecasts of that against what it brings.
 *
 *     forecasts NAME KEPT [PLACE]      KEPT: how much of the part is left, 1 to 0
 *
 * All work is so much CPU time, and no number of turns: how fast a CPU of a virtual machine is depends on what its neighbours do, and would
 * change what waits for what. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "forecasts.h"

static double kept = 1;
static const char *place = ".";

/* Whether this turn of a loop still has the part: every second one has where half of it is left. */
static int has_part(int turn) { return (long)((turn + 1) * kept) > (long)(turn * kept); }

static int must(int result)
{
	if (result < 0) {
		perror(place);
		exit(3);
	}
	return result;
}

/* A process beside this one, which ends with it. */
static int helper(void)
{
	int child = must(fork());
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child == 0;
}

/* Two ends of a TCP connection. */
static void connected(int ends[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int listener = must(socket(AF_INET, SOCK_STREAM, 0));
	must(bind(listener, (struct sockaddr *)&at, size));
	must(listen(listener, 1));
	must(getsockname(listener, (struct sockaddr *)&at, &size));
	ends[0] = must(socket(AF_INET, SOCK_STREAM, 0));
	must(connect(ends[0], (struct sockaddr *)&at, size));
	ends[1] = must(accept(listener, NULL, NULL));
	close(listener);
}

static void answers(int fd, double milliseconds)
{
	char byte;
	while (read(fd, &byte, 1) == 1) {
		nap(milliseconds);
		(void)!write(fd, &byte, 1);
	}
	_exit(0);
}

static void ask(int fd)
{
	char byte = 'x';
	(void)!write(fd, &byte, 1);
	(void)!read(fd, &byte, 1);
}

/* The disk. The file of 64 MiB is in the page cache: who reads past it waits for the disk. */
enum { BLOCK = 64 << 10, BLOCKS = 1024 };
static char *block;

static void read_block(int fd, int *turn)
{
	(void)!pread(fd, block, BLOCK, (off_t)(*turn * 397 % BLOCKS) * BLOCK);
	++*turn;
}

static int opened(int flags)
{
	if (posix_memalign((void **)&block, 4096, BLOCK))
		exit(3);
	memset(block, 'x', BLOCK);
	return must(open(place, flags, 0600));
}

static void computes_between_reads(void)
{
	int fd = opened(O_RDONLY | O_DIRECT), turn = 0;
	for (int at = 0; at < 100; at++) {
		work(5 * kept);
		for (int read = 0; read < 16; read++)
			read_block(fd, &turn);
	}
}

static void reads_past_the_cache(void)
{
	int past = opened(O_RDONLY | O_DIRECT), cached = opened(O_RDONLY), turn = 0;
	for (int at = 0; at < 200; at++) {
		work(1.5);
		int fd = has_part(at) ? past : cached;
		for (int read = 0; read < 16; read++)
			read_block(fd, &turn);
	}
}

static void syncs_each_record(void)
{
	int fd = opened(O_RDWR | O_CREAT | O_TRUNC);
	for (int at = 0; at < 150; at++) {
		work(2);
		(void)!pwrite(fd, block, BLOCK, (off_t)at * BLOCK);
		if (has_part(at))
			fdatasync(fd);
	}
}

static void writes_bytes(void)
{
	int fd = opened(O_RDWR | O_CREAT | O_TRUNC), turn = 0;
	for (int at = 0; at < 100; at++) {
		work(4);
		for (int byte = 0; byte < 4000; byte++)
			if (has_part(turn++))
				(void)!pwrite(fd, block, 1, byte);
	}
}

/* Threads. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int asked;

static void joined(int count, void *(*of)(void *))
{
	pthread_t ids[8];
	for (intptr_t at = 0; at < count; at++)
		must(-pthread_create(&ids[at], NULL, of, (void *)at));
	for (int at = 0; at < count; at++)
		pthread_join(ids[at], NULL);
}

static void *unequal(void *number)
{
	work((200 << (intptr_t)number) * kept);
	return NULL;
}
static void forks_and_joins(void) { joined(3, unequal); }

/* The first one is done before the other, which sleeps. */
static void *with_slack(void *number)
{
	if (number)
		nap(900);
	else
		work(500 * kept);
	return NULL;
}
static void joins_with_slack(void) { joined(2, with_slack); }

static void *in_convoy(void *)
{
	for (int at = 0; at < 50; at++) {
		if (kept > 0)
			pthread_mutex_lock(&mutex);
		nap(4);
		if (kept > 0)
			pthread_mutex_unlock(&mutex);
		work(0.5);
	}
	return NULL;
}
static void lock_convoy(void) { joined(4, in_convoy); }

/* It lets go of the lock for 2 ms, and the other comes back for it after 4 ms: that waits for as long as it is held beyond that. */
static void *holds(void *)
{
	while (kept > 0) {
		pthread_mutex_lock(&mutex);
		nap(2 + 4 * kept);
		pthread_mutex_unlock(&mutex);
		nap(2);
	}
	return NULL;
}
static void contended_mutex(void)
{
	pthread_t holder;
	pthread_create(&holder, NULL, holds, NULL);
	for (int at = 0; at < 80; at++) {
		work(4);
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
}

static void set_asked(int to)
{
	pthread_mutex_lock(&mutex);
	asked = to;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
}
static void wait_until_asked_is(int value)
{
	pthread_mutex_lock(&mutex);
	while (asked != value)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
}
static void *on_condition(void *)
{
	for (;;) {
		wait_until_asked_is(1);
		nap(12 * kept);
		set_asked(0);
	}
	return NULL;
}
static void condition_variable(void)
{
	pthread_t worker;
	pthread_create(&worker, NULL, on_condition, NULL);
	for (int at = 0; at < 40; at++) {
		work(8);
		set_asked(1);
		wait_until_asked_is(0);
	}
}

/* Other processes. */
static void consumer(double own, double producer)
{
	int ends[2];
	char record[64] = "";
	must(pipe(ends));
	if (helper()) {
		close(ends[0]);
		for (int at = 0; at < 100; at++) {
			nap(producer);
			(void)!write(ends[1], record, sizeof(record));
		}
		_exit(0);
	}
	close(ends[1]);
	while (read(ends[0], record, sizeof(record)) > 0)
		work(own);
}
/* A record takes as long as the slower of the two: 4 ms of work here, twice that there. */
static void waits_for_producer(void) { consumer(4, kept > 0 ? 4 + 4 * kept : 0); }
static void works_beside_producer(void) { consumer(4 * kept, 8); }

static void slow_peer(void)
{
	int ends[2];
	connected(ends);
	if (helper()) {
		close(ends[0]);
		answers(ends[1], 10 * kept);
	}
	close(ends[1]);
	for (int at = 0; at < 45; at++) {
		work(8);
		ask(ends[0]);
	}
}

static void slow_backend(void)
{
	int client[2], backend[2], done = 0;
	char byte;
	connected(client);
	connected(backend);
	if (helper()) {
		close(client[0]);
		for (;;)
			ask(client[1]);
	}
	if (helper()) {
		close(backend[0]);
		answers(backend[1], 12 * kept);
	}
	int poll = must(epoll_create1(0));
	struct epoll_event event = { .events = EPOLLIN, .data.fd = client[0] };
	epoll_ctl(poll, EPOLL_CTL_ADD, client[0], &event);
	event.data.fd = backend[0];
	epoll_ctl(poll, EPOLL_CTL_ADD, backend[0], &event);
	while (done < 40 && epoll_wait(poll, &event, 1, -1) == 1) {
		int is_answer = event.data.fd == backend[0];
		(void)!read(event.data.fd, &byte, 1);
		if (is_answer)
			work(8);
		(void)!write(is_answer ? client[0] : backend[0], &byte, 1);
		done += is_answer;
	}
}

/* Time and CPU. */
static void ticks(double own, double period)
{
	double next = now(CLOCK_MONOTONIC);
	for (int at = 0; at < 80; at++) {
		work(own);
		next += period / 1e3;
		struct timespec until = { .tv_sec = (long)next, .tv_nsec = (long)((next - (long)next) * 1e9) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
}
static void shorter_period(void) { ticks(4, kept > 0 ? 4 + 6 * kept : 0); }
static void less_work_in_a_period(void) { ticks(4 * kept, 10); }

static void on_first_cpu(void)
{
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	must(sched_setaffinity(0, sizeof(first), &first));
}
static void beside_hog(void)
{
	on_first_cpu();
	work(400 * kept);
	zeros(200);
}
static void hog(void)
{
	on_first_cpu();
	for (;;)
		work(100);
}
static void in_group(void)
{
	int fd = must(open(place, O_WRONLY));
	must((int)write(fd, "0", 1));
	close(fd);
	work(400 * kept);
	zeros(200);
}
/* So many milliseconds, for a shell and make. */
static void work_only(void) { work(kept * atof(place)); }

static const struct {
	const char *name;
	void (*of)(void);
} programs[] = {
	{ "compute-and-read", computes_between_reads }, { "uncached-reads", reads_past_the_cache }, { "fsync", syncs_each_record },
	{ "small-writes", writes_bytes }, { "fork-join", forks_and_joins }, { "slack", joins_with_slack }, { "convoy", lock_convoy },
	{ "mutex", contended_mutex }, { "condvar", condition_variable }, { "pipe", waits_for_producer },
	{ "pipe-consumer", works_beside_producer }, { "slow-peer", slow_peer }, { "epoll-backend", slow_backend },
	{ "timer", shorter_period }, { "timer-work", less_work_in_a_period }, { "run-queue", beside_hog }, { "hog", hog },
	{ "quota", in_group }, { "work", work_only },
};

int main(int count, char **words)
{
	signal(SIGPIPE, SIG_IGN);
	if (count < 3)
		return 2;
	kept = atof(words[2]);
	place = count > 3 ? words[3] : place;
	for (size_t at = 0; at < sizeof(programs) / sizeof(*programs); at++)
		if (!strcmp(programs[at].name, words[1])) {
			programs[at].of();
			return 0;
		}
	return 2;
}
