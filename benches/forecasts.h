// SPDX-License-Identifier: MIT OR Apache-2.0
/* Time for benches/forecasts.c: of a CPU, in user mode and in the kernel, and of the clock on the wall. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
	struct timespec at;
	clock_gettime(clock, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}

/* A thread's own clock takes a system call, which would be another component than the work: it is read once the clock on the wall, which
 * takes none, says that the work may be done. */
static void work(double milliseconds)
{
	double until = now(CLOCK_THREAD_CPUTIME_ID) + milliseconds / 1e3, left;
	while (milliseconds > 0 && (left = until - now(CLOCK_THREAD_CPUTIME_ID)) > 0)
		for (double end = now(CLOCK_MONOTONIC) + left; now(CLOCK_MONOTONIC) < end;)
			for (volatile int at = 0; at < 1000; at++)
				;
}

static void nap(double milliseconds)
{
	struct timespec at = { .tv_sec = (long)(milliseconds / 1e3) };
	at.tv_nsec = (long)((milliseconds - at.tv_sec * 1e3) * 1e6);
	if (milliseconds > 0)
		nanosleep(&at, NULL);
}

/* CPU time that stays, in few and long calls: of a run of which next to nothing is left, all that there is to measure is its start. */
static void zeros(double milliseconds)
{
	static char much[1 << 20];
	double until = now(CLOCK_THREAD_CPUTIME_ID) + milliseconds / 1e3;
	int fd = open("/dev/zero", O_RDONLY);
	while (fd >= 0 && now(CLOCK_THREAD_CPUTIME_ID) < until)
		(void)!read(fd, much, sizeof(much));
	close(fd);
}
