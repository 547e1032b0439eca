//! What the collector yields: the columns of the table of processes as metrics, and counts of processes.

use rdiag_model::metric::{Formula, MetricDef, ProcessField, SeriesDef, Source, term};
use rdiag_model::{Deed, RawUnit, Unit};

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
    MetricDef {
        id: "process.cpu.seconds",
        unit: Unit::Seconds,
        dimension: Some("process"),
        help: "CPU time of a process within the window, its ended threads included.",
        sources: &[Formula::process(ProcessField::Cpu)],
        caveat: "What no process can be charged with is a row of its own: short-lived ones, interrupts.",
        manual: "pidstat -u 1 10",
        deed: Some(Deed {
            verb: "used",
            of: "the busy CPU time",
            alone: Some(("used", "of CPU time")),
            unattributed: "interrupts, short-lived or hidden processes",
            unused: "Not used (idle, iowait, steal)",
            ..Deed::USUAL
        }),
    },
    MetricDef {
        id: "process.cpu.ratio",
        unit: Unit::Ratio,
        dimension: Some("process"),
        help: "CPU time of a process per second: 1 is one CPU, used all the time.",
        sources: &[Formula::process_rate(ProcessField::Cpu)],
        caveat: "Above 1 with several threads. Counted in ticks: 1 % of a CPU is the least that shows in a second.",
        manual: "pidstat -u 1 10",
        deed: Some(Deed { verb: "used", of: "the busy CPU time", alone: Some(("used", "of CPU time")), ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.unseen_cpu.ratio",
        unit: Unit::Ratio,
        help: "Share of the busy CPU time that belongs to no process in the table: mostly to short-lived ones.",
        sources: &[Formula::Taken(Source::UnseenCpu)],
        caveat: "What a process used after its last sample is in it, and the time of processes in other namespaces.",
        manual: "perf trace -s, or execsnoop (of bcc); compare mpstat with the sum of pidstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "process.run_delay.seconds",
        unit: Unit::Seconds,
        dimension: Some("process"),
        help: "Time in which threads of a process could run and waited for a CPU.",
        sources: &[Formula::process(ProcessField::RunDelay)],
        caveat: "Added when the thread gets a CPU: one that still waits shows nothing. Of at most 256 threads.",
        manual: "perf sched record sleep 10; perf sched timehist, or cat /proc/PID/task/*/schedstat twice",
        deed: Some(Deed {
            verb: "did",
            of: "the waiting for a CPU",
            alone: Some(("waited", "for a CPU")),
            ..Deed::USUAL
        }),
    },
    MetricDef {
        id: "process.read.bytes",
        unit: Unit::Bytes,
        dimension: Some("process"),
        help: "Bytes that a process caused to be read from storage.",
        sources: &[Formula::process(ProcessField::ReadBytes)],
        caveat: "Reads from the page cache do not count; network file systems may not count.",
        manual: "pidstat -d 1 10",
        deed: Some(Deed {
            verb: "did",
            of: "the reading from storage",
            alone: Some(("read", "from storage")),
            ..Deed::USUAL
        }),
    },
    MetricDef {
        id: "process.write.bytes",
        unit: Unit::Bytes,
        dimension: Some("process"),
        help: "Bytes that a process caused to be written towards storage.",
        sources: &[Formula::process(ProcessField::WriteBytes)],
        caveat: "Counted when a page is dirtied, not when it reaches the device; writes by kernel threads are theirs.",
        manual: "pidstat -d 1 10",
        deed: Some(Deed {
            verb: "did",
            of: "the writing to storage",
            alone: Some(("wrote", "to storage")),
            ..Deed::USUAL
        }),
    },
    MetricDef {
        id: "process.resident.bytes",
        unit: Unit::Bytes,
        dimension: Some("process"),
        help: "Memory of a process that is in RAM, shared pages included.",
        sources: &[Formula::process(ProcessField::Resident)],
        caveat: "Shared pages count in every process that has them, so the sum over processes is more than the memory \
                 used.",
        manual: "ps -eo pid,rss,comm --sort=-rss",
        deed: Some(Deed {
            verb: "held",
            of: "the resident memory",
            alone: Some(("held", "of memory")),
            is_shared: true,
            unattributed: "kernel, cache that cannot be freed",
            unused: "Available",
            ..Deed::USUAL
        }),
    },
    MetricDef {
        id: "process.resident_growth.bytes",
        unit: Unit::Bytes,
        dimension: Some("process"),
        help: "Growth of the resident memory within the window.",
        sources: &[Formula::process(ProcessField::ResidentGrowth)],
        caveat: "Pages that came back from swap count as growth.",
        manual: "pidstat -r 1 10",
        deed: Some(Deed { verb: "made", of: "the growth of resident memory", ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.swap.bytes",
        unit: Unit::Bytes,
        dimension: Some("process"),
        help: "Memory of a process that is swapped out.",
        sources: &[Formula::process(ProcessField::Swap)],
        caveat: "Shared memory is not in it.",
        manual: "grep VmSwap /proc/PID/status",
        deed: Some(Deed { verb: "had", of: "the swapped-out memory", ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.major_faults.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Page faults that had to wait for storage.",
        sources: &[Formula::process(ProcessField::MajorFaults)],
        caveat: "Mapped files being read for the first time count as well as swapped-out memory.",
        manual: "pidstat -r 1 10",
        deed: Some(Deed { verb: "took", of: "the major page faults", ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.minor_faults.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Page faults that needed no storage.",
        sources: &[Formula::process(ProcessField::MinorFaults)],
        caveat: "Normal for every process that allocates memory.",
        manual: "pidstat -r 1 10",
        deed: Some(Deed { verb: "took", of: "the minor page faults", ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.threads.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Threads of a process.",
        sources: &[Formula::process(ProcessField::Threads)],
        caveat: "The level at the end of the window.",
        manual: "ps -eo pid,nlwp,comm --sort=-nlwp",
        deed: Some(Deed { verb: "had", of: "the threads", ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.switches.voluntary.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "How often the main thread of a process gave up its CPU to wait for something.",
        sources: &[Formula::process(ProcessField::VoluntarySwitches)],
        caveat: "The main thread only.",
        manual: "pidstat -w 1 10",
        deed: Some(Deed { verb: "made", of: "the voluntary context switches", ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.switches.involuntary.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "How often the main thread of a process was taken off its CPU while it could run.",
        sources: &[Formula::process(ProcessField::InvoluntarySwitches)],
        caveat: "The main thread only.",
        manual: "pidstat -w 1 10",
        deed: Some(Deed { verb: "made", of: "the involuntary context switches", ..Deed::USUAL }),
    },
    MetricDef {
        id: "process.zombie_children.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Children of a process that have ended and that it has not collected.",
        sources: &[Formula::level(&[term("processes.zombie_children")])],
        caveat: "Only the ten parents with the most.",
        manual: "ps -eo ppid,stat | awk '$2 ~ /^Z/ {print $1}' | sort | uniq -c | sort -rn",
        deed: Some(Deed { verb: "had", of: "the zombies as children", ..Deed::USUAL }),
    },
    MetricDef {
        id: "tasks.processes.count",
        unit: Unit::Count,
        help: "Processes, kernel threads included.",
        sources: &[Formula::level(&[term("processes.total")])],
        caveat: "Only those that this user may see.",
        manual: "ls -d /proc/[0-9]* | wc -l",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.zombies.count",
        unit: Unit::Count,
        help: "Processes that have ended and wait for their parent to collect them.",
        sources: &[Formula::level(&[term("processes.zombies")])],
        caveat: "A zombie holds a process id and no memory; a few that come and go are normal.",
        manual: "ps -eo stat | grep -c '^Z'",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.uninterruptible.count",
        unit: Unit::Count,
        help: "Processes whose main thread waits without being interruptible (state D).",
        sources: &[Formula::level(&[term("processes.uninterruptible")])],
        caveat: "Point samples. Not always storage: a parent waiting in vfork is in this state too.",
        manual: "ps -eo stat,pid,wchan:30,comm | grep '^D'",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.user.ratio",
        unit: Unit::Ratio,
        dimension: Some("user"),
        help: "Threads of a user, as a share of the most that the user's processes may have (RLIMIT_NPROC).",
        sources: &[Formula::level_ratio(&[term("processes.of_user")], &[term("processes.user_limit")])],
        caveat: "The limit of the process with the most threads; others of the user may run under another. Not for \
                 root, nor for users with fewer than 64 threads.",
        manual: "ps -eLo ruid= | sort | uniq -c; grep processes /proc/PID/limits",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.user.count",
        unit: Unit::Count,
        dimension: Some("user"),
        help: "Threads of a user.",
        sources: &[Formula::level(&[term("processes.of_user")])],
        caveat: "Only the users with the most, and a limit.",
        manual: "ps -eLo ruid= | sort | uniq -c",
        ..MetricDef::EMPTY
    },
];
