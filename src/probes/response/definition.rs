//! What the probe is, for those who choose one.

use crate::def::{FilterKind, GivesStacks, ParamDef, ParamKind, ProbeDef};

pub(in super::super) static PROBE: ProbeDef = ProbeDef {
    id: "response",
    question: "Where does the time of these processes go?",
    attach: "sched_switch, sched_waking, sched_wakeup, sched_wakeup_new, sched_process_exec, sched_process_exit, block_bio_queue, \
             block_rq_complete and block_bio_complete; contention_begin and contention_end (Linux 5.19); with calls also \
             sys_enter and sys_exit; the list of tasks at both ends; a clock on each CPU; between marks, these, and of Go programs \
             their scheduler's execute, gopark, goschedImpl, goyield_m, preemptPark and exitsyscall0.",
    output: "The whole time of the observed threads, each second once: on a CPU, waiting for one, throttled, and each kind of \
             wait; what the waits were for, who ended them; system calls with their errors and their time on and off the CPU; the \
             functions in which threads ran and waited.",
    caveats: "Time in user mode holds page faults, and interrupts that hit it, and time in calls the interrupts, unless the kernel \
              accounts for them; what a hypervisor took is a line of its own where the kernel measures it, and each task's share of all \
              elsewhere. Where there were \
              many faults, the kernel's own account, which is sampled, divides the two. Waits that last through a window are in \
              it with their time, and not in count, mean and longest. The kernel stack is taken of waits above the threshold and \
              of one in 256 others; what is between goes by call and file. A user stack is taken of a thread's first waits, of one in \
              256, and where the last wait in the same call was long; that of a thread which sleeps from beginning to end is read from its \
              memory, of up to 512. It goes by unwind tables, up to 80 functions, and by frame pointers \
              where code has no table, and before the tables were read, within half a second: of these what lies behind a place that \
              the tables say has none is left out. Before Linux 5.19 a wait for a lock of the kernel is known by its stack, if at all. \
              A wait in io_uring_enter \
              or \
              io_getevents is one for a disk if the process sent a request to one within the second before, unless a look at the \
              ring finds that all its requests wait for sockets or pipes. Throttled time holds the wait for a CPU after the quota was \
              renewed. \
              Functions on a CPU are samples, 99 in each second, which divide the time that a process had in each mode; what is in the \
              kernel at a page fault or an interrupt counts as system time there, and what runs while interrupts are off as what follows. \
              Functions of \
              Python (CPython 3.8 to 3.14, with its lock) are known within a second of its first wait or sample, to a depth of 99, by the \
              ends of names and files of more than 63 characters; of the C code between them only the innermost place is. Those of \
              JavaScript (node 16 to 24 on x86-64) are mostly known within two seconds, among those of the C++ code around them; what V8 \
              has inlined counts as the function that it is in, and a sample in the first instructions of a function as its caller. \
              A wait on a futex is one for a lock where its value, the lock's memory (reader-writer locks of glibc), its variable \
              (CPython's interpreter \
              lock), what a machine of Java parks the thread for (locks of java.util.concurrent, from Java 17 on, within half a second) \
              or the stacks of those that wait for it (monitors of Java; locks of Rust's library, if the program has its \
              symbols) say so; semaphores of glibc (locks of Python before 3.14 are such) count as locks where three waits or more, and \
              most of the time, were ended by the thread that was let in last, the value was never seen above 1, and no function of \
              Python's library waits there for work. \
              What a poll, select or epoll waits for is read from /proc while it lasts, of waits of 20ms and more that a look finds (four \
              in an \
              interval); the thread's other waits in the same call have that name if all that were found do, and have none otherwise. \
              Where calls are watched in parts of the time, one that was under way when a part began counts with its time since the thread \
              last \
              went to sleep. Of a request in a Go program the time in which no thread has its goroutine goes by the reason for which the \
              goroutine parked, and from where it may go on by its turn, which is not told where it waited for the network; two goroutines \
              that serve one request are not followed. What requests are called by is not read where it lies in memory that the program \
              has not touched yet. Who ended a short wait is the task that ran there, even if an interrupt \
              did.",
    overhead: "Two processes that send each other a byte on one CPU, 250,000 times per second, take 1.4 times as long when they are \
               observed (perf sched record: 1.9 times, perf trace: 27 times), until the budget ends that; on two CPUs perf bench sched \
               pipe takes 0.8 times as long, since wake-ups keep the CPUs awake. Others' processes of that kind take 1.08 times as \
               long, which is what programs cost that return at once, and 1.2 times while calls are watched, by default a twentieth of \
               the time, since then every system call on the host takes the kernel's slow path. \
               A sample takes 0.5 to 1.5 µs, one of Python 1.7 µs; a wait whose stack is taken 3 µs, and 0.1 µs more for each function on \
               it; one in Python under 29 functions 5 µs more; one of node 3 µs, under 31 functions of JavaScript as under one. \
               A mark in a program costs it half a microsecond to ten, as tried at the start; of a Go program whose requests are followed \
               so does each time a goroutine parks, may go on, and goes on. That counts towards the budget.",
    params: &[
        ParamDef {
            name: "calls",
            kind: ParamKind::Flag,
            default: "true",
            help: "watch system calls; without, others are slowed down less, and user and system time are estimated",
        },
        ParamDef {
            name: "calls_for",
            kind: ParamKind::Duration,
            default: "50ms",
            help: "for how long in each second calls are watched, which slows down every call on the host: the profile of calls \
                   is scaled from that; a command that makes few, and repeated runs, are watched all the time",
        },
        ParamDef {
            name: "children",
            kind: ParamKind::Flag,
            default: "false",
            help: "observe processes that the observed ones start, too; always with a command",
        },
        ParamDef {
            name: "threshold",
            kind: ParamKind::Duration,
            default: "100us",
            help: "take the stacks of waits of at least this length, and of one in 256 others",
        },
        ParamDef::top("how many rows each table has"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: super::start::start,
};
