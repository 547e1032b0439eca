// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Kernel threads that wait, each for one thing after the other: for a block of a disk, which is only read, or for a lock that
 * one of them holds and sleeps with.
 *
 * They end by themselves: after `seconds` they fetch no more, whether the module is unloaded or not. `rounds` counts.
 * FETCH is the name of the function that they wait in; the module is named alike.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/version.h>

#define MOST_THREADS 64
/* What is read lies within the first GiB, a different block each time. */
#define BLOCKS (1UL << 18)

static unsigned long run;
module_param(run, ulong, 0444);
MODULE_PARM_DESC(run, "whose it is: the seed of the exercise");
static unsigned int threads = 8;
module_param(threads, uint, 0400);
static unsigned int hold_ms;
module_param(hold_ms, uint, 0400);
static char *disk;
module_param(disk, charp, 0400);
static unsigned int seconds = 60;
module_param(seconds, uint, 0400);

static atomic_t fetched = ATOMIC_INIT(0);
static int show_rounds(char *to, const struct kernel_param *param)
{
	return sprintf(to, "%d\n", atomic_read(&fetched));
}
static const struct kernel_param_ops rounds_ops = { .get = show_rounds };
module_param_cb(rounds, &rounds_ops, NULL, 0444);

static unsigned long ends;
static bool stopped;
static struct file *device;
static DEFINE_MUTEX(counter);
static struct task_struct *fetchers[MOST_THREADS];

static bool is_over(void)
{
	return READ_ONCE(stopped) || time_after(jiffies, ends);
}

static int read_block(struct page *page, unsigned long block)
{
	struct block_device *from = I_BDEV(device->f_mapping->host);
	struct bio *bio;
	int error;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)
	bio = bio_alloc(from, 1, REQ_OP_READ, GFP_KERNEL);
#else
	bio = bio_alloc(GFP_KERNEL, 1);
	bio_set_dev(bio, from);
	bio->bi_opf = REQ_OP_READ;
#endif
	bio->bi_iter.bi_sector = (sector_t)block * (PAGE_SIZE >> SECTOR_SHIFT);
	error = bio_add_page(bio, page, PAGE_SIZE, 0) == PAGE_SIZE ? submit_bio_wait(bio) : -EIO;
	bio_put(bio);
	return error;
}

/* The name that a stack shows. */
static noinline int FETCH(struct page *page, unsigned long block)
{
	int error = 0;

	if (device) {
		error = read_block(page, block);
	} else {
		mutex_lock(&counter);
		/* A thread that waited for the turns of others need not wait for its own when all is over. */
		if (!is_over())
			msleep(hold_ms);
		mutex_unlock(&counter);
	}
	if (!error)
		atomic_inc(&fetched);
	return error;
}

static int fetch_again_and_again(void *number)
{
	struct page *page = alloc_page(GFP_KERNEL);
	unsigned long block = (unsigned long)number * 4099;

	while (!kthread_should_stop()) {
		if (!page || is_over() || FETCH(page, block % BLOCKS))
			schedule_timeout_interruptible(HZ);
		block += 131;
	}
	if (page)
		__free_page(page);
	return 0;
}

static void stop_all(void)
{
	unsigned int at;

	WRITE_ONCE(stopped, true);
	for (at = 0; at < threads; at++)
		if (fetchers[at])
			kthread_stop(fetchers[at]);
	if (device)
		filp_close(device, NULL);
}

static int __init begin(void)
{
	unsigned int at;

	if (threads < 1 || threads > MOST_THREADS || hold_ms > 100 || !hold_ms == !disk)
		return -EINVAL;
	if (seconds < 1 || seconds > 3600)
		return -EINVAL;
	ends = jiffies + seconds * HZ;
	if (disk) {
		struct file *file = filp_open(disk, O_RDONLY | O_LARGEFILE, 0);

		if (IS_ERR(file))
			return PTR_ERR(file);
		if (!S_ISBLK(file_inode(file)->i_mode)) {
			filp_close(file, NULL);
			return -ENOTBLK;
		}
		device = file;
	}
	for (at = 0; at < threads; at++) {
		struct task_struct *thread;

		thread = kthread_run(fetch_again_and_again, (void *)(unsigned long)at, KBUILD_MODNAME "/%u", at);
		if (IS_ERR(thread)) {
			stop_all();
			return PTR_ERR(thread);
		}
		fetchers[at] = thread;
	}
	return 0;
}

static void __exit end(void)
{
	stop_all();
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("Waits for a disk or a lock, for an exercise of rdiag");
MODULE_LICENSE("Dual MIT/GPL");
