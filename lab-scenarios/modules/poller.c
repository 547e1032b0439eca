// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * A driver that polls its device on every CPU, again and again, and lets nothing ordinary run meanwhile: from a timer (soft interrupt),
 * or from a kernel thread that may not be interrupted by the scheduler. There is no device; it only looks at the clock.
 *
 * It ends by itself: after `seconds` it polls no more, whether it is unloaded or not. `rounds` counts.
 * POLL is the name of the function that takes the time; the module is named alike.
 */
#include <linux/cpu.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/version.h>

static unsigned long run;
module_param(run, ulong, 0444);
MODULE_PARM_DESC(run, "whose it is: the seed of the exercise");
static unsigned int busy_ms = 20;
module_param(busy_ms, uint, 0400);
static unsigned int every_ms = 200;
module_param(every_ms, uint, 0400);
static unsigned int seconds = 60;
module_param(seconds, uint, 0400);
static bool in_thread;
module_param(in_thread, bool, 0400);

static atomic_t polled = ATOMIC_INIT(0);
static int show_rounds(char *to, const struct kernel_param *param)
{
	return sprintf(to, "%d\n", atomic_read(&polled));
}
static const struct kernel_param_ops rounds_ops = { .get = show_rounds };
module_param_cb(rounds, &rounds_ops, NULL, 0444);

static unsigned long ends;
static bool stopped;

struct poller {
	struct timer_list timer;
	struct task_struct *thread;
};
static DEFINE_PER_CPU(struct poller, pollers);

/* The name that a profile shows. */
static noinline void POLL(void)
{
	ktime_t until = ktime_add_ms(ktime_get(), busy_ms);
	int looks;

	/* The time is this function's: the clock's own, which may be slow to read, is looked at now and then. */
	while (ktime_before(ktime_get(), until))
		for (looks = 0; looks < 200; looks++)
			cpu_relax();
	atomic_inc(&polled);
}

static bool is_over(void)
{
	return READ_ONCE(stopped) || time_after(jiffies, ends);
}

static void on_timer(struct timer_list *timer)
{
	if (is_over())
		return;
	POLL();
	mod_timer(timer, jiffies + msecs_to_jiffies(every_ms - busy_ms));
}

static int in_a_thread(void *unused)
{
	while (!kthread_should_stop()) {
		if (!is_over()) {
			preempt_disable();
			POLL();
			preempt_enable();
		}
		schedule_timeout_interruptible(msecs_to_jiffies(every_ms - busy_ms));
	}
	return 0;
}

static void stop_all(void)
{
	int cpu;

	WRITE_ONCE(stopped, true);
	for_each_possible_cpu(cpu) {
		struct poller *poller = per_cpu_ptr(&pollers, cpu);

		if (poller->thread)
			kthread_stop(poller->thread);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
		timer_shutdown_sync(&poller->timer);
#else
		del_timer_sync(&poller->timer);
#endif
	}
}

static int __init begin(void)
{
	int cpu;

	/* A CPU belongs to others for two thirds of the time, and no task waits for more than a tenth of a second. */
	if (busy_ms < 1 || busy_ms > 100 || every_ms > 10000 || every_ms < 100 || busy_ms * 100 > every_ms * 35)
		return -EINVAL;
	if (seconds < 1 || seconds > 3600)
		return -EINVAL;
	ends = jiffies + seconds * HZ;
	for_each_possible_cpu(cpu)
		timer_setup(&per_cpu_ptr(&pollers, cpu)->timer, on_timer, TIMER_PINNED);
	for_each_online_cpu(cpu) {
		struct poller *poller = per_cpu_ptr(&pollers, cpu);
		struct task_struct *thread;

		if (!in_thread) {
			poller->timer.expires = jiffies + 1;
			add_timer_on(&poller->timer, cpu);
			continue;
		}
		thread = kthread_create_on_node(in_a_thread, NULL, cpu_to_node(cpu), KBUILD_MODNAME "/%d", cpu);
		if (IS_ERR(thread)) {
			stop_all();
			return PTR_ERR(thread);
		}
		kthread_bind(thread, cpu);
		poller->thread = thread;
		wake_up_process(thread);
	}
	return 0;
}

static void __exit end(void)
{
	stop_all();
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("Polls a device that is not there, for an exercise of rdiag");
MODULE_LICENSE("Dual MIT/GPL");
