#!/usr/bin/env python3
"""What the programs of probes take for an event, beside bpftrace's answer to the same question.

    benches/probes.py [--rdiag target/release/rdiag] [--rounds 3] [--only tcptop]

Works like points.py: both tracers at the same time, each first in every other round, while a load of fixed work runs; the kernel's own
statistics tell the time in each one's programs, which is divided by the events of the load. All programs of a tracer count, those too
that run at what they do not ask about. What the kernel takes to call them is not in it, which favours kprobes over the BTF hooks
that rdiag takes where it can. What needs functions of the kernel is measured where it has kprobes, in a guest of the matrix if need be
(emulated CPUs: hold the ratios there). Needs root, tracefs, bpftrace and a C compiler, for swapin also zram. Prints Markdown.
"""
import argparse
import os
import re
import statistics
import subprocess
import tempfile

import points

SOURCE = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noinline)) void pgstat_report_activity(int state, const char *text)
{
	__asm__ volatile("" : "+r"(state), "+r"(text));
}

/* A socket that is connected to itself by way of loopback: [0] sends, [1] receives. */
static void connected(int *ends, int type)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, type, 0), now = 1;

	ends[0] = socket(AF_INET, type, 0);
	if (bind(listener, (void *)&at, size) || getsockname(listener, (void *)&at, &size))
		err(1, "bind");
	if (type == SOCK_STREAM && listen(listener, 1))
		err(1, "listen");
	if (connect(ends[0], (void *)&at, size))
		err(1, "connect");
	ends[1] = type == SOCK_STREAM ? accept(listener, NULL, NULL) : listener;
	setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
}

int main(int argc, char **argv)
{
	const char *what = argv[1], *file = argv[3];
	long times = atol(argv[2]), sum = 0;
	int ends[2];
	char buffer[4096];
	struct stat found;

	if (!strcmp(what, "tcp") || !strcmp(what, "udp")) {
		connected(ends, *what == 't' ? SOCK_STREAM : SOCK_DGRAM);
		for (long n = 0; n < times; n++)
			if (write(ends[0], buffer, 100) != 100 || read(ends[1], buffer, 100) != 100)
				err(1, "100 bytes");
	} else if (!strcmp(what, "reads")) {
		int fd = open(file, O_RDONLY);
		for (long n = 0; n < times; n++)
			sum += pread(fd, buffer, sizeof(buffer), n % 16 * sizeof(buffer));
		if (sum != times * (long)sizeof(buffer))
			err(1, "reading %s", file);
	} else if (!strcmp(what, "ahead")) {
		int fd = open(file, O_RDONLY);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		for (long n = 0; n < times; n++)
			if (read(fd, buffer, sizeof(buffer)) != sizeof(buffer))
				err(1, "reading %s", file);
	} else if (!strcmp(what, "statements")) {
		for (long n = 0; n < times; n++) {
			pgstat_report_activity(2, "SELECT name, price FROM articles WHERE number = 4711 ORDER BY name");
			pgstat_report_activity(1, NULL);
		}
	} else if (!strcmp(what, "names")) {
		if (chdir("/tmp"))
			err(1, "/tmp");
		for (long n = 0; n < times; n++)
			sum += stat(file, &found);
	} else if (!strcmp(what, "swapped")) {
		char *region = mmap(NULL, times * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(region, times * 4096, MADV_NOHUGEPAGE);
		for (long n = 0; n < times; n++)
			*(long *)(region + n * 4096) = n + 1;
		for (int turn = 0; turn < 20; turn++) {
			madvise(region, times * 4096, MADV_PAGEOUT);
			usleep(20000);
		}
		for (long n = 0; n < times; n++)
			sum += *(volatile long *)(region + n * 4096);
	}
	return 0;
}
"""

# Name: arguments of the program, events, runs of programs at least, and what an event is.
LOADS = {
    "tcp": (["tcp", "100000"], 200_000, 200_000, "a call that sends or receives"),
    "udp": (["udp", "100000"], 200_000, 200_000, "a packet that is sent or received"),
    "reads": (["reads", "200000", "{file}"], 200_000, 200_000, "a read of a page that is in the cache"),
    "ahead": (["ahead", "16384", "{file}"], 16_384, 16_384, "a page that is read ahead, and then used"),
    "statements": (["statements", "100000"], 100_000, 200_000, "a statement"),
    "known": (["names", "100000", "../tmp"], 100_000, 100_000, "a name that the cache knows"),
    "absent": (["names", "20000", "rdiag-no-such-file"], 20_000, 20_000, "a name that the file system is asked for"),
    "swapped": (["swapped", "4000"], 4_000, 8_000, "a page that comes back"),
}
ENDS = "$s->__sk_common.skc_daddr, $s->__sk_common.skc_rcv_saddr, $s->__sk_common.skc_dport, $s->__sk_common.skc_num"
BYTES = ("tracepoint:sock:sock_{0}_length /args->protocol == 6 && args->ret > 0/ "
         "{{ $s = (struct sock *)args->sk; @{0}[pid, comm, " + ENDS + "] = sum(args->ret); }} ")
CALLS = ["read", "pread64", "readv", "preadv", "write", "pwrite64", "writev", "pwritev", "open", "openat", "fsync", "fdatasync"]


def calls(moment):
    return ", ".join(f"tracepoint:syscalls:sys_{moment}_{call}" for call in CALLS)


# Probe, load, what bpftrace does there, and what rdiag is told.
TWINS = [
    ("tcptop", "tcp", BYTES.format("send") + BYTES.format("recv"), ""),
    ("netqtop", "udp",
     "tracepoint:net:net_dev_start_xmit { @n[str(args->name), args->queue_mapping] = count();"
     " @b[str(args->name), args->queue_mapping] = sum(args->len); } "
     "tracepoint:net:netif_receive_skb { @rn[str(args->name)] = count(); @rb[str(args->name)] = sum(args->len); }", ""),
    ("fileslower", "reads",
     calls("enter") + " { @t[tid] = nsecs; } " + calls("exit") + " /@t[tid]/ { $t = nsecs - @t[tid]; delete(@t[tid]);"
     ' if ($t > 10000000) { printf("%s %d %d\\n", comm, pid, $t); } }', ""),
    ("cachestat", "reads",
     "tracepoint:filemap:mm_filemap_get_pages { @asked[pid, comm] = sum(args->last_index - args->index + 1); } "
     "tracepoint:filemap:mm_filemap_add_to_page_cache { @added[pid, comm] = count(); } "
     "tracepoint:writeback:writeback_dirty_folio { @dirtied[pid, comm] = count(); }", ""),
    ("readahead", "ahead",
     "tracepoint:filemap:mm_filemap_add_to_page_cache { @since[args->s_dev, args->i_ino, args->index] = nsecs; } "
     "tracepoint:filemap:mm_filemap_get_pages /@since[args->s_dev, args->i_ino, args->index]/ "
     "{ @used[pid, comm] = count(); @ages = hist(nsecs - @since[args->s_dev, args->i_ino, args->index]);"
     " delete(@since[args->s_dev, args->i_ino, args->index]); }", ""),
    ("dbslower", "statements",
     "uprobe:{program}:pgstat_report_activity {{ if (arg1) {{ @t[tid] = nsecs; @text[tid] = str(arg1); }} else if (@t[tid]) "
     "{{ $t = nsecs - @t[tid]; @all = hist($t); if ($t > 10000000) {{ printf(\"%s\\n\", @text[tid]); }} "
     "delete(@t[tid]); delete(@text[tid]); }} }}", "--param program={program}"),
    ("fileslower", "reads",
     "kprobe:vfs_read, kprobe:vfs_readv, kprobe:vfs_write, kprobe:vfs_writev { @t[tid] = nsecs; } "
     "kretprobe:vfs_read, kretprobe:vfs_readv, kretprobe:vfs_write, kretprobe:vfs_writev /@t[tid]/ { $t = nsecs - @t[tid];"
     ' delete(@t[tid]); if ($t > 10000000) { printf("%s %d %d\\n", comm, pid, $t); } }', ""),
    ("cachestat", "reads",
     "kprobe:folio_mark_accessed { @asked[pid, comm] = count(); } kprobe:filemap_add_folio { @added[pid, comm] = count(); } "
     "kprobe:folio_account_dirtied, kprobe:mark_buffer_dirty { @dirtied[pid, comm] = count(); }", ""),
    ("dcsnoop", "known", "kretprobe:lookup_fast { @lookups[pid, comm] = count(); }", ""),
    ("dcsnoop", "absent",
     "kretprobe:lookup_fast { @lookups[pid, comm] = count(); } kprobe:d_alloc_parallel { @t[tid] = nsecs; "
     "@name[tid] = ((struct qstr *)arg1)->name; } kprobe:__d_lookup_unhash_wake /@t[tid]/ "
     '{ printf("%d %s %s %d\\n", pid, comm, str(@name[tid]), nsecs - @t[tid]); delete(@t[tid]); delete(@name[tid]); }', ""),
    ("swapin", "swapped",
     "kprobe:swap_read_folio { @pages[pid, comm] = count(); } kprobe:do_swap_page { @t[tid] = nsecs; } "
     "kretprobe:do_swap_page /@t[tid]/ { @took[pid, comm] = sum(nsecs - @t[tid]); delete(@t[tid]); }", ""),
]
EVENTS = "/sys/kernel/tracing/events"
HAS_KPROBES = os.path.exists("/sys/bus/event_source/devices/kprobe/type")


def turn(commands, load, events, least):
    """ns of each one's programs for one event, in the order of the commands."""
    tracers = [points.attached(command) for command in commands]
    before = [points.programs(tracer.pid) for tracer in tracers]
    subprocess.run(load, check=True, stdout=subprocess.DEVNULL)
    taken = []
    for command, tracer, (time_before, runs_before) in zip(commands, tracers, before):
        time_after, runs_after = points.programs(tracer.pid)
        if runs_after - runs_before < least:
            raise SystemExit(f"{command} ran {runs_after - runs_before} times at {events} events")
        taken.append((time_after - time_before) / events)
    points.ended(tracers)
    return taken


def compare(rdiag, folder, twin, rounds):
    probe, load, script, more = twin
    words, events, least, event = LOADS[load]
    names = {"program": f"{folder}/load", "file": f"{folder}/file"}
    run = [names["program"], *(word.format(**names) for word in words)]
    points.attached.poke = [run[0], run[1], "32", *run[3:]]
    # Only scripts that name the program are written with doubled braces.
    script = script.format(**names) if "{program}" in script else script
    commands = [["bpftrace", "-e", script],
                [rdiag, "probe", probe, *more.format(**names).split(), "--budget", "100", "--duration", "600s"]]
    taken = []
    for at in range(rounds):
        step = -1 if at % 2 else 1
        taken.append(turn(commands[::step], ["taskset", "-c", str(os.cpu_count() - 1), *run], events, least)[::step])
    theirs, ours = (statistics.median(column) for column in zip(*taken))
    ratios = [mine / other for other, mine in taken]
    print(f"| `{probe}` | {event} | {theirs:.0f} | {ours:.0f} | {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |",
          flush=True)


class Swap:
    """Swap space in compressed memory, without reading ahead, while swapin is measured."""

    def __enter__(self):
        subprocess.run(["modprobe", "zram", "num_devices=1"], check=True)
        with open("/proc/sys/vm/page-cluster", encoding="utf-8") as file:
            self.cluster = file.read()
        for place, value in {"/sys/block/zram0/disksize": "64M", "/proc/sys/vm/page-cluster": "0"}.items():
            with open(place, "w", encoding="utf-8") as file:
                file.write(value)
        subprocess.run(["mkswap", "/dev/zram0"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["swapon", "/dev/zram0"], check=True)

    def __exit__(self, *_):
        subprocess.run(["swapoff", "/dev/zram0"], check=False)
        subprocess.run(["modprobe", "--remove", "zram"], check=False)
        with open("/proc/sys/vm/page-cluster", "w", encoding="utf-8") as file:
            file.write(self.cluster)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rdiag", default="target/release/rdiag")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=sorted({twin[0] for twin in TWINS}))
    args = parser.parse_args()
    rdiag = os.path.abspath(args.rdiag)
    os.environ["BPFTRACE_MAP_KEYS_MAX"] = "65536"
    with points.run_statistics(), tempfile.TemporaryDirectory(dir="." if os.access(".", os.W_OK) else None) as folder:
        folder = os.path.abspath(folder)
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", f"{folder}/load"], input=SOURCE, text=True, check=True)
        subprocess.run(["dd", "if=/dev/urandom", f"of={folder}/file", "bs=1M", "count=64", "conv=fsync", "status=none"], check=True)
        print("| probe | an event | bpftrace, ns | rdiag, ns | ratio |\n|---|---|---|---|---|")
        for twin in TWINS:
            events = re.findall(r"tracepoint:(\w+):(\w+)", twin[2])
            if (args.only and twin[0] not in args.only or re.search(r"\bk(ret)?probe:", twin[2]) and not HAS_KPROBES
                    or not all(os.path.exists(f"{EVENTS}/{group}/{event}") for group, event in events)):
                continue
            if twin[0] == "swapin":
                with Swap():
                    compare(rdiag, folder, twin, args.rounds)
            else:
                compare(rdiag, folder, twin, args.rounds)


if __name__ == "__main__":
    main()
