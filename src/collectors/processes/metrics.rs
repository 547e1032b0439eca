//! What the collector yields: the columns of the table of processes as metrics, and counts of processes.

use rdiag_model::metric::{Formula, MetricDef, ProcessField, SeriesDef, Source, term};
use rdiag_model::{RawUnit, Unit};

pub(super) const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("processes.total", RawUnit::Count, "/proc, directories of processes"),
    SeriesDef::gauge("processes.zombies", RawUnit::Count, "/proc/PID/stat, field 3 is Z"),
    SeriesDef::gauge("processes.uninterruptible", RawUnit::Count, "/proc/PID/stat, field 3 is D"),
    SeriesDef::gauge("processes.zombie_children", RawUnit::Count, "/proc/PID/stat, field 4 of zombies"),
    SeriesDef::gauge(
        "processes.of_user",
        RawUnit::Count,
        "/proc/PID/stat, field 20, over the processes of a real user id",
    ),
    SeriesDef::gauge("processes.user_limit", RawUnit::Count, "/proc/PID/limits, Max processes, soft"),
];

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef::new(
        "process.cpu.seconds",
        Unit::Seconds,
        "CPU time of a process within the window, its ended threads included.",
        &[Formula::process(ProcessField::Cpu)],
    )
    .dimension("process")
    .caveat("What no process can be charged with is a row of its own: short-lived ones, interrupts.")
    .manual("pidstat -u 1 10"),
    MetricDef::new(
        "process.cpu.ratio",
        Unit::Ratio,
        "CPU time of a process per second: 1 is one CPU, used all the time.",
        &[Formula::process_rate(ProcessField::Cpu)],
    )
    .dimension("process")
    .caveat("Above 1 with several threads. Counted in ticks: 1 % of a CPU is the least that shows in a second.")
    .manual("pidstat -u 1 10"),
    MetricDef::new(
        "process.unseen_cpu.ratio",
        Unit::Ratio,
        "Share of the busy CPU time that belongs to no process in the table: mostly to short-lived ones.",
        &[Formula::Taken(Source::UnseenCpu)],
    )
    .caveat("What a process used after its last sample is in it, and the time of processes in other namespaces.")
    .manual("perf trace -s, or execsnoop (of bcc); compare mpstat with the sum of pidstat"),
    MetricDef::new(
        "process.run_delay.seconds",
        Unit::Seconds,
        "Time in which threads of a process could run and waited for a CPU.",
        &[Formula::process(ProcessField::RunDelay)],
    )
    .dimension("process")
    .caveat("Added when the thread gets a CPU: one that still waits shows nothing. Of at most 256 threads.")
    .manual("perf sched record sleep 10; perf sched timehist, or cat /proc/PID/task/*/schedstat twice"),
    MetricDef::new(
        "process.read.bytes",
        Unit::Bytes,
        "Bytes that a process caused to be read from storage.",
        &[Formula::process(ProcessField::ReadBytes)],
    )
    .dimension("process")
    .caveat("Reads from the page cache do not count; network file systems may not count.")
    .manual("pidstat -d 1 10"),
    MetricDef::new(
        "process.write.bytes",
        Unit::Bytes,
        "Bytes that a process caused to be written towards storage.",
        &[Formula::process(ProcessField::WriteBytes)],
    )
    .dimension("process")
    .caveat("Counted when a page is dirtied, not when it reaches the device; writes by kernel threads are theirs.")
    .manual("pidstat -d 1 10"),
    MetricDef::new(
        "process.resident.bytes",
        Unit::Bytes,
        "Memory of a process that is in RAM, shared pages included.",
        &[Formula::process(ProcessField::Resident)],
    )
    .dimension("process")
    .caveat(
        "Shared pages count in every process that has them, so the sum over processes is more than the memory used.",
    )
    .manual("ps -eo pid,rss,comm --sort=-rss"),
    MetricDef::new(
        "process.resident_growth.bytes",
        Unit::Bytes,
        "Growth of the resident memory within the window.",
        &[Formula::process(ProcessField::ResidentGrowth)],
    )
    .dimension("process")
    .caveat("Pages that came back from swap count as growth.")
    .manual("pidstat -r 1 10"),
    MetricDef::new(
        "process.swap.bytes",
        Unit::Bytes,
        "Memory of a process that is swapped out.",
        &[Formula::process(ProcessField::Swap)],
    )
    .dimension("process")
    .caveat("Shared memory is not in it.")
    .manual("grep VmSwap /proc/PID/status"),
    MetricDef::new(
        "process.major_faults.count",
        Unit::Count,
        "Page faults that had to wait for storage.",
        &[Formula::process(ProcessField::MajorFaults)],
    )
    .dimension("process")
    .caveat("Mapped files being read for the first time count as well as swapped-out memory.")
    .manual("pidstat -r 1 10"),
    MetricDef::new(
        "process.minor_faults.count",
        Unit::Count,
        "Page faults that needed no storage.",
        &[Formula::process(ProcessField::MinorFaults)],
    )
    .dimension("process")
    .caveat("Normal for every process that allocates memory.")
    .manual("pidstat -r 1 10"),
    MetricDef::new(
        "process.threads.count",
        Unit::Count,
        "Threads of a process.",
        &[Formula::process(ProcessField::Threads)],
    )
    .dimension("process")
    .caveat("The level at the end of the window.")
    .manual("ps -eo pid,nlwp,comm --sort=-nlwp"),
    MetricDef::new(
        "process.switches.voluntary.count",
        Unit::Count,
        "How often the main thread of a process gave up its CPU to wait for something.",
        &[Formula::process(ProcessField::VoluntarySwitches)],
    )
    .dimension("process")
    .caveat("The main thread only.")
    .manual("pidstat -w 1 10"),
    MetricDef::new(
        "process.switches.involuntary.count",
        Unit::Count,
        "How often the main thread of a process was taken off its CPU while it could run.",
        &[Formula::process(ProcessField::InvoluntarySwitches)],
    )
    .dimension("process")
    .caveat("The main thread only.")
    .manual("pidstat -w 1 10"),
    MetricDef::new(
        "process.zombie_children.count",
        Unit::Count,
        "Children of a process that have ended and that it has not collected.",
        &[Formula::level(&[term("processes.zombie_children")])],
    )
    .dimension("process")
    .caveat("Only the ten parents with the most.")
    .manual("ps -eo ppid,stat | awk '$2 ~ /^Z/ {print $1}' | sort | uniq -c | sort -rn"),
    MetricDef::new(
        "tasks.processes.count",
        Unit::Count,
        "Processes, kernel threads included.",
        &[Formula::level(&[term("processes.total")])],
    )
    .caveat("Only those that this user may see.")
    .manual("ls -d /proc/[0-9]* | wc -l"),
    MetricDef::new(
        "tasks.zombies.count",
        Unit::Count,
        "Processes that have ended and wait for their parent to collect them.",
        &[Formula::level(&[term("processes.zombies")])],
    )
    .caveat("A zombie holds a process id and no memory; a few that come and go are normal.")
    .manual("ps -eo stat | grep -c '^Z'"),
    MetricDef::new(
        "tasks.uninterruptible.count",
        Unit::Count,
        "Processes whose main thread waits without being interruptible (state D).",
        &[Formula::level(&[term("processes.uninterruptible")])],
    )
    .caveat("Point samples. Not always storage: a parent waiting in vfork is in this state too.")
    .manual("ps -eo stat,pid,wchan:30,comm | grep '^D'"),
    MetricDef::new(
        "tasks.user.ratio",
        Unit::Ratio,
        "Threads of a user, as a share of the most that the user's processes may have (RLIMIT_NPROC).",
        &[Formula::level_ratio(&[term("processes.of_user")], &[term("processes.user_limit")])],
    )
    .dimension("user")
    .caveat(
        "The limit of the process with the most threads; others of the user may run under another. Not for root, \
                 nor for users with fewer than 64 threads.",
    )
    .manual("ps -eLo ruid= | sort | uniq -c; grep processes /proc/PID/limits"),
    MetricDef::new(
        "tasks.user.count",
        Unit::Count,
        "Threads of a user.",
        &[Formula::level(&[term("processes.of_user")])],
    )
    .dimension("user")
    .caveat("Only the users with the most, and a limit.")
    .manual("ps -eLo ruid= | sort | uniq -c"),
];
