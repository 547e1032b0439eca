/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What the kernel's own account of a task counts as CPU time and was a wait for a CPU.
 *
 * Where a wake-up has another task give up its CPU, or an idle CPU take one up, the clock of the run queue stands still from the wake-up to
 * the switch (rq_clock_skip_update()): the way out of idleness is CPU time of the task that comes in, for getrusage() and schedstat. The
 * task clock of perf begins with the switch. It ends with it as well, and the run queue's clock before another task was looked for, so that
 * a microsecond of each wait is missing here. */
#pragma once
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long all threads of the program were on a CPU since it asked first, in seconds by perf's clock. */
static double on_a_cpu(void)
{
	static int event = -1;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_TASK_CLOCK, .inherit = 1
	};
	unsigned long long ns = 0;

	if (event < 0)
		event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (read(event, &ns, sizeof(ns)) != sizeof(ns)) {
		perror("the task clock of perf, without which waits for a CPU would be CPU time");
		_exit(3);
	}
	return ns * 1e-9;
}

/* Of CPU time by the run queue's clock, of which so much was system time, what was before the switch. */
static double came_in(double by_run_queue, double by_perf, double system)
{
	double before = by_run_queue - by_perf;

	return before < 0 ? 0 : before < system ? before : system;
}
