// SPDX-License-Identifier: MIT OR Apache-2.0
/* Programs that wait for one thing each and keep their own account of it; benches/ledgers.py holds rdiag's account against that.
 *
 *     ledgers NAME SECONDS          runs a program; its last line is TRUTH and an account
 *     ledgers exec COMMAND          runs a command and tells the CPU time that the kernel charged to it and its children, and how long it took
 *
 * Each thread takes the clock around its waits. At its end the kernel says how long it was on a CPU (getrusage) and waited for
 * one (schedstat); what remains of its life was waited, and is divided as the clock says. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "ledgers.h"

#define KINDS 48
static const char *kinds[KINDS];
static double sums[KINDS], user, sys, runnable, lives;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
static double length, end_at;
static int helpers; /* processes whose own time is in no account here */
static __thread double began, waited[KINDS], asked;

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}

static int over(void) { return now() >= end_at; }

static int kind(const char *name)
{
	static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
	int at = 0;
	pthread_mutex_lock(&naming);
	while (kinds[at] && strcmp(kinds[at], name))
		at++;
	kinds[at] = name;
	pthread_mutex_unlock(&naming);
	return at;
}

/* The clock around a wait; lock-free when the kind is known. */
static void begins(void) { asked = now(); }
static void ends(int of) { waited[of] += now() - asked; }
#define WAITS(of, call) do { begins(); (void)!(call); ends(of); } while (0)

/* What the kernel says of the thread so far: user and system time, and waits for a CPU. */
static void so_far(double of[3])
{
	struct rusage used;
	char path[64], text[128] = "";
	unsigned long long ran = 0, delay = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)syscall(SYS_gettid));
	int fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		sscanf(text, "%llu %llu", &ran, &delay);
	close(fd);
	getrusage(RUSAGE_THREAD, &used);
	of[0] = used.ru_utime.tv_sec + used.ru_utime.tv_usec * 1e-6;
	of[1] = used.ru_stime.tv_sec + used.ru_stime.tv_usec * 1e-6;
	of[2] = delay * 1e-9;
}

static __thread double before[3];

static void thread_begins(void)
{
	memset(waited, 0, sizeof(waited));
	so_far(before);
	began = now();
}

static void thread_ends(void)
{
	double after[3], whole = 0, life = now() - began, rest = life;

	so_far(after);
	for (int at = 0; at < 3; at++)
		rest -= after[at] - before[at];
	for (int at = 0; at < KINDS; at++)
		whole += waited[at];
	pthread_mutex_lock(&adding);
	lives += life;
	user += after[0] - before[0];
	sys += after[1] - before[1];
	runnable += after[2] - before[2];
	for (int at = 0; at < KINDS && whole > 0 && rest > 0; at++)
		sums[at] += waited[at] / whole * rest;
	pthread_mutex_unlock(&adding);
}

static void told(void)
{
	double waited_to_come_in = came_in(user + sys, on_a_cpu(), sys);

	sys -= waited_to_come_in;
	runnable += waited_to_come_in;
	printf("\nTRUTH {\"seconds\": %.6f, \"cpu.user\": %.6f, \"cpu.sys\": %.6f, \"runnable\": %.6f", lives, user, sys, runnable);
	for (int at = 0; at < KINDS && kinds[at]; at++)
		printf(", \"%s\": %.6f", kinds[at], sums[at]);
	printf("%s}\n", helpers ? ", \"helpers\": 1" : "");
	fflush(stdout);
}

static void spin(double seconds)
{
	struct timespec at;
	double from, is;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	from = at.tv_sec + at.tv_nsec * 1e-9;
	do {
		for (volatile int i = 0; i < 10000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
		is = at.tv_sec + at.tv_nsec * 1e-9;
	} while (is - from < seconds);
}

static void nap(double seconds)
{
	struct timespec at = { .tv_sec = (long)seconds, .tv_nsec = (long)((seconds - (long)seconds) * 1e9) };
	int of = kind("wait.sleep");
	WAITS(of, nanosleep(&at, NULL));
}

typedef void *body(void *);
#define MOST 4096
static body *bodies[MOST];
static void *accounted(void *number)
{
	intptr_t at = (intptr_t)number;
	thread_begins();
	bodies[at]((void *)at);
	thread_ends();
	return NULL;
}

/* Runs so many threads side by side and joins them, which is a wait of the caller. */
static void threads(int count, body *of)
{
	static pthread_t ids[MOST];
	pthread_attr_t small;
	int join = kind("wait.futex");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (intptr_t at = 0; at < count; at++) {
		bodies[at] = of;
		if (pthread_create(&ids[at], &small, accounted, (void *)at))
			exit(3);
	}
	for (int at = 0; at < count; at++)
		WAITS(join, pthread_join(ids[at], NULL));
}

/* Locks: one holds it and sleeps, the others want it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int closed;

static void *with_mutex(void *)
{
	int of = kind("lock.user");
	while (!over()) {
		WAITS(of, pthread_mutex_lock(&mutex));
		nap(0.02);
		pthread_mutex_unlock(&mutex);
		spin(0.002);
	}
	return NULL;
}
static void *with_rwlock(void *number)
{
	int of = kind("lock.user");
	while (!over()) {
		if (number) {
			WAITS(of, pthread_rwlock_rdlock(&rwlock));
			spin(0.001);
		} else {
			WAITS(of, pthread_rwlock_wrlock(&rwlock));
			nap(0.05);
		}
		pthread_rwlock_unlock(&rwlock);
		spin(0.001);
	}
	return NULL;
}
static void *with_semaphore(void *)
{
	int of = kind("lock.user");
	while (!over()) {
		WAITS(of, sem_wait(&semaphore));
		nap(0.02);
		sem_post(&semaphore);
		spin(0.002);
	}
	return NULL;
}
/* Who lets it go mostly takes it again before the one that it has woken can. */
static void *with_semaphore_again(void *)
{
	int of = kind("lock.user");
	for (int times = 1; !over(); times++) {
		WAITS(of, sem_wait(&semaphore));
		nap(0.005);
		sem_post(&semaphore);
		if (times % 8 == 0)
			spin(0.001);
	}
	return NULL;
}
static void *with_cond(void *)
{
	int of = kind("wait.futex");
	pthread_mutex_lock(&mutex);
	begins();
	while (!closed)
		pthread_cond_wait(&cond, &mutex);
	ends(of);
	pthread_mutex_unlock(&mutex);
	return NULL;
}
static void condvar(void)
{
	pthread_t ids[8];
	for (intptr_t at = 0; at < 8; at++) {
		bodies[at] = with_cond;
		pthread_create(&ids[at], NULL, accounted, (void *)at);
	}
	nap(length);
	pthread_mutex_lock(&mutex);
	closed = 1;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	int join = kind("wait.futex");
	for (int at = 0; at < 8; at++)
		WAITS(join, pthread_join(ids[at], NULL));
}
static void *spins(void *number) { spin(length * ((intptr_t)number + 1) / 20); return NULL; }
static void *sleeps(void *) { nap(length); return NULL; }

/* Two ends. */
static pid_t helper(void)
{
	pid_t made = fork();
	helpers++;
	if (made == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return made;
}
static void far_end(void (*of)(int), int fd)
{
	if (helper() == 0) {
		of(fd);
		_exit(0);
	}
	close(fd);
}
static void reads_slowly(int fd)
{
	static char buffer[1 << 16];
	while (read(fd, buffer, sizeof(buffer)) > 0)
		usleep(20000);
}
static void writes_slowly(int fd)
{
	signal(SIGPIPE, SIG_IGN);
	while (write(fd, "x", 1) == 1)
		usleep(20000);
}
/* A TCP connection on loopback; buffers are small. */
static void connected(int ends[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), small = 16 << 10;
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	bind(listener, (void *)&at, size);
	listen(listener, 1);
	getsockname(listener, (void *)&at, &size);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	connect(ends[0], (void *)&at, size);
	ends[1] = accept(listener, NULL, NULL);
	close(listener);
}
static void reads_from(int fd, const char *name)
{
	char byte;
	int of = kind(name);
	while (!over())
		WAITS(of, read(fd, &byte, 1));
}
static void pipes(void) { int p[2]; (void)!pipe(p); far_end(writes_slowly, p[1]); reads_from(p[0], "ipc.pipe"); }
static void units(void) { int p[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, p); far_end(writes_slowly, p[1]); reads_from(p[0], "ipc.unix"); }
static void tcp_read(void) { int p[2]; connected(p); far_end(writes_slowly, p[1]); reads_from(p[0], "net.recv"); }
static void fifo(void)
{
	const char *path = "/tmp/ledgers.fifo";
	unlink(path);
	mkfifo(path, 0600);
	int other = open(path, O_RDWR);
	far_end(writes_slowly, other);
	int fd = open(path, O_RDONLY);
	reads_from(fd, "ipc.pipe");
	unlink(path);
}
static void polls(void)
{
	int p[2], of = kind("wait.poll");
	char byte;
	(void)!pipe(p);
	far_end(writes_slowly, p[1]);
	while (!over()) {
		struct pollfd one = { .fd = p[0], .events = POLLIN };
		WAITS(of, poll(&one, 1, -1));
		(void)!read(p[0], &byte, 1);
	}
}
static void tcp_write(void)
{
	int p[2], of = kind("net.send");
	static char buffer[1 << 16];
	connected(p);
	far_end(reads_slowly, p[1]);
	while (!over())
		WAITS(of, write(p[0], buffer, sizeof(buffer)));
}
static void linger(void)
{
	int of = kind("net.send");
	static char buffer[1 << 20];
	while (!over()) {
		int p[2], flags;
		struct linger for_two = { .l_onoff = 1, .l_linger = 2 };
		connected(p);
		setsockopt(p[0], SOL_SOCKET, SO_LINGER, &for_two, sizeof(for_two));
		flags = fcntl(p[0], F_GETFL);
		fcntl(p[0], F_SETFL, flags | O_NONBLOCK);
		while (write(p[0], buffer, sizeof(buffer)) > 0)
			;
		fcntl(p[0], F_SETFL, flags);
		/* Nobody reads at the other end: the close waits until its time is over. */
		WAITS(of, close(p[0]));
		close(p[1]);
	}
}
static int warm_file(size_t bytes)
{
	static char buffer[1 << 20];
	int fd = open("/var/tmp/ledgers.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
	unlink("/var/tmp/ledgers.data");
	for (size_t at = 0; at < bytes; at += sizeof(buffer))
		(void)!write(fd, buffer, sizeof(buffer));
	WAITS(kind("io.block.sync"), fsync(fd));
	return fd;
}
static void sends_file(void)
{
	int p[2], of = kind("net.send"), file = warm_file(64 << 20);
	connected(p);
	far_end(reads_slowly, p[1]);
	while (!over()) {
		off_t at = 0;
		WAITS(of, sendfile(p[0], file, &at, 1 << 17));
	}
}
static void splices(void)
{
	int p[2], q[2], of = kind("net.send");
	static char buffer[1 << 16];
	connected(p);
	(void)!pipe(q);
	far_end(reads_slowly, p[1]);
	while (!over()) {
		(void)!write(q[1], buffer, 1 << 15);
		WAITS(of, splice(q[0], NULL, p[0], NULL, 1 << 15, 0));
	}
}
static void cold_sendfile(void)
{
	int of = kind("io.block.read"), out = open("/dev/null", O_WRONLY), file = warm_file(64 << 20), p[2];
	(void)!pipe(p);
	(void)out;
	posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
	end_at = now() + length;
	while (!over()) {
		posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
		for (off_t at = 0; at < 64 << 20 && !over(); at += 1 << 20) {
			char byte[4096];
			off_t from = at;
			WAITS(of, sendfile(p[1], file, &from, 4096));
			(void)!read(p[0], byte, sizeof(byte));
		}
	}
}
static void cgroup_moves(void)
{
	const char *root = access("/sys/fs/cgroup/cgroup.procs", W_OK) ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup";
	char paths[2][128], mine[2][160], text[32];
	int of = kind("kernel.sync"), fds[2];
	for (int at = 0; at < 2; at++) {
		snprintf(paths[at], sizeof(paths[at]), "%s/ledgers-%d", root, at);
		mkdir(paths[at], 0700);
		snprintf(mine[at], sizeof(mine[at]), "%s/cgroup.procs", paths[at]);
		fds[at] = open(mine[at], O_WRONLY);
	}
	pid_t moved = helper();
	if (moved == 0) {
		pause();
		_exit(0);
	}
	int size = snprintf(text, sizeof(text), "%d", moved);
	for (int at = 0; !over(); at++) {
		WAITS(of, pwrite(fds[at & 1], text, size, 0));
		/* After a while without moves the kernel waits for all CPUs again. */
		nap(0.03);
	}
	kill(moved, SIGKILL);
	waitpid(moved, NULL, 0);
	rmdir(paths[0]);
	rmdir(paths[1]);
}
static void *maps(void *)
{
	int of = kind("lock.kernel");
	while (!over()) {
		begins();
		char *at = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		munmap(at, 32 << 20);
		ends(of);
	}
	return NULL;
}
static int shared_file;
static void *writes_same(void *)
{
	static char buffer[1 << 20];
	int of = kind("lock.kernel");
	while (!over())
		WAITS(of, pwrite(shared_file, buffer, sizeof(buffer), 0));
	return NULL;
}
static void inode_lock(void)
{
	shared_file = warm_file(1 << 20);
	threads(4, writes_same);
}
static void syncs(void)
{
	int of = kind("io.block.sync"), file = warm_file(1 << 20);
	while (!over()) {
		(void)!pwrite(file, "x", 1, 0);
		WAITS(of, fsync(file));
	}
}
static void direct(void)
{
	int of = kind("io.block.read"), plain = warm_file(64 << 20);
	char path[64];
	void *buffer = NULL;
	(void)!posix_memalign(&buffer, 4096, 4096);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", plain);
	int file = open(path, O_RDONLY | O_DIRECT);
	for (uint64_t at = 1; !over(); at = at * 6364136223846793005ULL + 1)
		WAITS(of, pread(file, buffer, 4096, at % (64 << 8) * 4096));
}
static void cold_mapping(void)
{
	int file = warm_file(64 << 20), of = kind("fault.file");
	volatile char *at = mmap(NULL, 64 << 20, PROT_READ, MAP_SHARED, file, 0);
	madvise((void *)at, 64 << 20, MADV_RANDOM);
	end_at = now() + length;
	while (!over()) {
		madvise((void *)at, 64 << 20, MADV_DONTNEED);
		posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
		begins();
		for (size_t page = 0; page < 64 << 20 && !over(); page += 4096)
			(void)at[page];
		ends(of);
	}
}
static void flocks(void)
{
	int of = kind("lock.file");
	int ours = open("/tmp/ledgers.lock", O_RDWR | O_CREAT, 0600);
	if (helper() == 0) {
		int theirs = open("/tmp/ledgers.lock", O_RDWR);
		while (!over()) {
			flock(theirs, LOCK_EX);
			usleep(30000);
			flock(theirs, LOCK_UN);
			usleep(1000);
		}
		_exit(0);
	}
	while (!over()) {
		WAITS(of, flock(ours, LOCK_EX));
		flock(ours, LOCK_UN);
		nap(0.001);
	}
}
static void sysv(void)
{
	int id = semget(IPC_PRIVATE, 1, 0600), of = kind("ipc.sysv");
	struct sembuf up = { 0, 1, 0 }, down = { 0, -1, 0 };
	if (helper() == 0) {
		while (!semop(id, &up, 1))
			usleep(20000);
		_exit(0);
	}
	while (!over())
		WAITS(of, semop(id, &down, 1));
	semctl(id, 0, IPC_RMID);
}
static void events(void)
{
	int fd = eventfd(0, 0), of = kind("ipc.event");
	uint64_t one = 1;
	pid_t child = helper();
	if (child == 0) {
		while (!over()) {
			(void)!write(fd, &one, 8);
			usleep(20000);
		}
		(void)!write(fd, &one, 8);
		_exit(0);
	}
	while (!over())
		WAITS(of, read(fd, &one, 8));
}
static void signals(void)
{
	sigset_t set;
	int of = kind("wait.signal"), taken;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pid_t parent = getpid();
	if (helper() == 0) {
		while (!over()) {
			kill(parent, SIGUSR1);
			usleep(20000);
		}
		kill(parent, SIGUSR1);
		_exit(0);
	}
	while (!over())
		WAITS(of, sigwait(&set, &taken));
}
static void children(void)
{
	int of = kind("wait.child");
	while (!over()) {
		pid_t child = helper();
		if (child == 0) {
			usleep(50000);
			_exit(0);
		}
		WAITS(of, waitpid(child, NULL, 0));
	}
}
static void asks(void)
{
	while (!over())
		for (int at = 0; at < 1000; at++)
			syscall(SYS_getppid);
}
static void real_time(void)
{
	struct sched_param first = { .sched_priority = 10 };
	sched_setscheduler(0, SCHED_FIFO, &first);
	while (!over()) {
		spin(0.01);
		nap(0.01);
	}
}

struct program {
	const char *name;
	void (*of)(void);
	body *threads;
	int count;
};
static void spinning(void)
{
	while (!over())
		spin(0.01);
}
static void sleeping(void) { nap(length); }
static void with_sem(void) { sem_init(&semaphore, 0, 1); threads(4, with_semaphore); }
static void with_sem_again(void) { sem_init(&semaphore, 0, 1); threads(4, with_semaphore_again); }
static const struct program programs[] = {
	{ "spin", spinning }, { "getppid", asks }, { "sleep", sleeping }, { "mutex", NULL, with_mutex, 4 },
	{ "rwlock", NULL, with_rwlock, 4 }, { "semaphore", with_sem }, { "semaphore-again", with_sem_again }, { "condvar-pool", condvar },
	{ "fork-join", NULL, spins, 4 }, { "1000-threads", NULL, sleeps, 1000 }, { "3000-threads", NULL, sleeps, 3000 }, { "pipe", pipes }, { "unix-socket", units },
	{ "tcp-read", tcp_read }, { "tcp-write", tcp_write }, { "fifo", fifo }, { "poll", polls }, { "close-linger", linger },
	{ "sendfile-socket", sends_file }, { "sendfile-cold", cold_sendfile }, { "splice-socket", splices },
	{ "cgroup-procs", cgroup_moves }, { "mmap-lock", NULL, maps, 4 }, { "inode-lock", inode_lock }, { "fsync", syncs },
	{ "direct-read", direct }, { "cold-mapping", cold_mapping }, { "flock", flocks }, { "sysv-semaphore", sysv },
	{ "eventfd", events }, { "sigwait", signals }, { "children", children }, { "real-time", real_time },
};

static int executed(char **command)
{
	struct rusage used;
	int status;
	double began = now();
	pid_t child = fork();
	if (child == 0) {
		execvp(command[0], command);
		_exit(127);
	}
	waitpid(child, &status, 0);
	getrusage(RUSAGE_CHILDREN, &used);
	printf("\nTRUTH {\"cpu.seconds\": %.6f, \"elapsed\": %.6f}\n",
	       used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6, now() - began);
	return WEXITSTATUS(status);
}

int main(int count, char **words)
{
	if (count > 2 && !strcmp(words[1], "exec"))
		return executed(words + 2);
	for (size_t at = 0; count == 3 && at < sizeof(programs) / sizeof(*programs); at++) {
		const struct program *one = &programs[at];
		if (strcmp(one->name, words[1]))
			continue;
		signal(SIGPIPE, SIG_IGN);
		signal(SIGCHLD, SIG_DFL);
		length = atof(words[2]);
		end_at = now() + length;
		(void)on_a_cpu();
		thread_begins();
		if (one->of)
			one->of();
		else
			threads(one->count, one->threads);
		thread_ends();
		told();
		return 0;
	}
	for (size_t at = 0; at < sizeof(programs) / sizeof(*programs); at++)
		printf("%s\n", programs[at].name);
	return count == 1 ? 0 : 2;
}
