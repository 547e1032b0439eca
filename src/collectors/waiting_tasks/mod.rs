//! Tasks that wait for a CPU though the host has CPUs to spare: those that may run on some CPUs only, and those behind a real-time task.
//!
//! How long each task ran and waited is in its own schedstat, on kernels without /proc/schedstat too. Where tasks of one set of CPUs wait,
//! what counts is whether those CPUs were full (a quota that throttles tasks leaves them idle) and what the others did meanwhile: time
//! that is idle, or used by niced work, was available. Niced tasks are no victims, since they asked to be last.

mod look;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use self::look::{Cpus, Snapshot, Task, cpu_list};
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, SeriesKind, term};
use rdiag_model::{Number, RawUnit, Reason, Series, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "waiting_tasks",
    help: "Tasks that wait for the CPUs that they are pinned to, or behind real-time tasks, from /proc/PID/task/TID and /proc/stat.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "at both ends of a window: 4 µs per thread, at most 0.15 s; 20 µs for each thread that ran or waited for a twentieth of it",
    start: |_| Box::new(WaitingTasks::default()),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter(
        "waiting_tasks.wait",
        RawUnit::Nanoseconds,
        "/proc/PID/task/TID/schedstat, field 2, of tasks pinned to a set",
    ),
    SeriesDef::counter(
        "waiting_tasks.run",
        RawUnit::Nanoseconds,
        "/proc/PID/task/TID/schedstat, field 1, of tasks pinned to a set",
    ),
    SeriesDef::gauge("waiting_tasks.count", RawUnit::Count, "/proc/PID/task/TID/status, Cpus_allowed_list"),
    SeriesDef::counter(
        "waiting_tasks.set_busy",
        RawUnit::Ticks,
        "/proc/stat, all but idle and iowait, of the CPUs of a set",
    ),
    SeriesDef::counter("waiting_tasks.set_all", RawUnit::Ticks, "/proc/stat, of the CPUs of a set"),
    SeriesDef::counter(
        "waiting_tasks.other_free",
        RawUnit::Ticks,
        "/proc/stat, idle, iowait and nice, of the other CPUs",
    ),
    SeriesDef::counter("waiting_tasks.other_all", RawUnit::Ticks, "/proc/stat, of the other CPUs"),
    SeriesDef::counter(
        "waiting_tasks.real_time",
        RawUnit::Nanoseconds,
        "/proc/PID/task/TID/schedstat, field 1, of real-time tasks",
    ),
    SeriesDef::counter(
        "waiting_tasks.behind_wait",
        RawUnit::Nanoseconds,
        "/proc/PID/task/TID/schedstat, field 2, of tasks on the same CPU",
    ),
    SeriesDef::counter(
        "waiting_tasks.behind_run",
        RawUnit::Nanoseconds,
        "/proc/PID/task/TID/schedstat, field 1, of tasks on the same CPU",
    ),
];

const CAVEAT: &str = "Of threads that were there at both ends of the window, and not niced. A wait is added when the thread gets a CPU: \
    one that never \
                      got any shows nothing.";
const PINNED: &str = "taskset -pc PID; cat /proc/PID/task/*/schedstat, twice; mpstat -P ALL 1 10";
const REAL_TIME: &str =
    "ps -eLo class,rtprio,psr,pcpu,tid,comm | grep -E '^ *(FF|RR|DLN)'; cat /proc/PID/schedstat, twice";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cpu.pinned.wait.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu_set"),
        help: "Share of their runnable time that tasks pinned to a set of CPUs waited for one.",
        sources: &[Formula::ratio(
            &[term("waiting_tasks.wait")],
            &[term("waiting_tasks.wait"), term("waiting_tasks.run")],
        )],
        caveat: CAVEAT,
        manual: PINNED,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.pinned.tasks.count",
        unit: Unit::Count,
        dimension: Some("cpu_set"),
        help: "Tasks pinned to a set of CPUs that ran or waited for at least a twentieth of the window.",
        sources: &[Formula::level(&[term("waiting_tasks.count")])],
        caveat: CAVEAT,
        manual: PINNED,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.pinned.busy.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu_set"),
        help: "Share of time in which the CPUs of such a set were busy.",
        sources: &[Formula::ratio(&[term("waiting_tasks.set_busy")], &[term("waiting_tasks.set_all")])],
        caveat: "Time of all tasks, not of the waiting ones alone.",
        manual: "mpstat -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.pinned.elsewhere.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu_set"),
        help: "Share of time in which the CPUs outside of such a set were idle or ran niced work.",
        sources: &[Formula::ratio(&[term("waiting_tasks.other_free")], &[term("waiting_tasks.other_all")])],
        caveat: "CPUs that are isolated (isolcpus) do not count: they idle on purpose.",
        manual: "mpstat -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.real_time.ratio",
        unit: Unit::Ratio,
        dimension: Some("real_time_cpu"),
        help: "CPU time of real-time tasks on a CPU, per second.",
        sources: &[Formula::rate(&[term("waiting_tasks.real_time")])],
        caveat: "A task counts for the CPU that it was on last.",
        manual: REAL_TIME,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.real_time.wait.ratio",
        unit: Unit::Ratio,
        dimension: Some("real_time_cpu"),
        help: "Share of their runnable time that the other tasks of such a CPU waited for it.",
        sources: &[Formula::ratio(
            &[term("waiting_tasks.behind_wait")],
            &[term("waiting_tasks.behind_wait"), term("waiting_tasks.behind_run")],
        )],
        caveat: CAVEAT,
        manual: REAL_TIME,
        ..MetricDef::EMPTY
    },
];

/// Tasks that ran and waited for less than this share of the window are left out.
const LEAST: f64 = 0.05;
/// Sets of CPUs that are recorded: those whose tasks waited the most.
const MAX_SETS: usize = 16;

#[derive(Default)]
struct WaitingTasks {
    first: Option<Snapshot>,
    last: Option<Snapshot>,
}

impl Collect for WaitingTasks {
    fn sample(&mut self, host: &Host, _out: &Sink) -> Result<(), Unavailable> {
        let look = Snapshot::take(host)?;
        match self.first {
            None => self.first = Some(look),
            Some(_) => self.last = Some(look),
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let (Some(first), Some(last)) = (&self.first, &self.last) else {
            let why = "the window has no second look at the tasks";
            return out.gap("waiting_tasks.", "", Unavailable::new(Reason::ShortWindow, why));
        };
        if !last.any_ran {
            return out.gap("waiting_tasks.", "", unread(host));
        }
        let tasks = last.since(first, LEAST, host);
        let cpus = last.cpus.since(&first.cpus);
        let sets = pinned(&tasks, &cpus, &isolated(host), out);
        let real_time = behind_real_time(&tasks, out);
        let cut = (first.left_out || last.left_out)
            .then(|| Unavailable::new(Reason::ShortWindow, "there are so many threads that some were not looked at"));
        for (count, series, why) in [
            (
                sets,
                ["wait", "count", "set_", "other_"].as_slice(),
                "no task that is pinned to some of the CPUs ran or waited for long",
            ),
            (real_time, ["real_time", "behind_"].as_slice(), "no real-time task ran for long"),
        ] {
            let instance = if count == 0 { "" } else { "(others)" };
            let none = || (count == 0).then(|| Unavailable::new(Reason::NotApplicable, why));
            let Some(gap) = cut.clone().or_else(none) else { continue };
            series.iter().for_each(|of| out.gap(&format!("waiting_tasks.{of}"), instance, gap.clone()));
        }
    }
}

/// Why no thread shows what it ran. A tree may hold the figures of processes, and not those of their threads.
fn unread(host: &Host) -> Unavailable {
    let what = "/proc/PID/task/TID/schedstat is missing or 0 for every thread";
    if host.is_recorded() {
        return Unavailable::new(Reason::Absent, format!("{what} of this recorded tree"));
    }
    let gap = Unavailable::new(Reason::Absent, format!("{what}: this kernel does not keep it"));
    gap.with_remedy("a kernel with CONFIG_SCHED_INFO; before 5.14, boot with delayacct")
}

/// A counter that began with the window.
fn put(out: &Sink, name: &'static str, instance: &str, unit: RawUnit, change: u64) {
    let kind = SeriesKind::Counter;
    let values = vec![Some(Number::Whole(0)), Some(Number::Whole(change))];
    let series = Series { name: name.to_owned(), instance: Some(instance.to_owned()), kind, unit, values };
    out.with_record(|record| record.series.push(series));
}

/// The CPUs that the kernel keeps from balancing (isolcpus). Ordinary tasks may not run there from boot on, and are not pinned for that.
fn isolated(host: &Host) -> BTreeSet<u32> {
    let text = host.read_line("sys/devices/system/cpu/isolated").unwrap_or_default();
    cpu_list(text.trim()).unwrap_or_default()
}

/// Records the sets of CPUs that tasks are pinned to; how many there are.
fn pinned(tasks: &[Task], cpus: &Cpus, isolated: &BTreeSet<u32>, out: &Sink) -> usize {
    let mut sets: BTreeMap<&str, Vec<&Task>> = BTreeMap::new();
    let is_pinned = |task: &Task| cpus.any(|cpu| !task.allowed.contains(&cpu) && !isolated.contains(&cpu));
    for task in tasks.iter().filter(|task| task.is_ordinary() && is_pinned(task)) {
        sets.entry(task.allowed_list.as_str()).or_default().push(task);
    }
    let waited = |members: &[&Task]| members.iter().map(|task| task.waited).sum::<u64>();
    let mut sets: Vec<(&str, Vec<&Task>)> = sets.into_iter().collect();
    sets.sort_by_key(|(_, members)| std::cmp::Reverse(waited(members)));
    sets.truncate(MAX_SETS);
    for (name, members) in &sets {
        let Some(of_all) = members.first().map(|task| &task.allowed) else { continue };
        put(out, "waiting_tasks.wait", name, RawUnit::Nanoseconds, waited(members));
        put(out, "waiting_tasks.run", name, RawUnit::Nanoseconds, members.iter().map(|task| task.ran).sum());
        let own = cpus.sum(|cpu| of_all.contains(&cpu));
        let others = cpus.sum(|cpu| !of_all.contains(&cpu) && !isolated.contains(&cpu));
        put(out, "waiting_tasks.set_busy", name, RawUnit::Ticks, own.all - own.idle);
        put(out, "waiting_tasks.set_all", name, RawUnit::Ticks, own.all);
        put(out, "waiting_tasks.other_free", name, RawUnit::Ticks, others.idle + others.nice);
        put(out, "waiting_tasks.other_all", name, RawUnit::Ticks, others.all);
        let count = vec![None, Some(Number::Real(members.len() as f64))];
        let series = Series {
            name: "waiting_tasks.count".to_owned(),
            instance: Some((*name).to_owned()),
            kind: SeriesKind::Gauge,
            unit: RawUnit::Count,
            values: count,
        };
        out.with_record(|record| record.series.push(series));
        name_largest(members, name, out);
    }
    sets.len()
}

/// Names the process whose threads wanted the most CPU time.
fn name_largest(members: &[&Task], instance: &str, out: &Sink) {
    let mut wanted: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    for task in members {
        *wanted.entry((task.pid, &task.process)).or_default() += task.ran + task.waited;
    }
    if let Some(((pid, process), _)) = wanted.into_iter().max_by_key(|(_, wanted)| *wanted) {
        out.label(instance, "name", process);
        out.label(instance, "pid", pid.to_string());
    }
}

/// Records the CPUs on which real-time tasks ran, with what the others there waited; how many there are.
fn behind_real_time(tasks: &[Task], out: &Sink) -> usize {
    let mut on_cpu: BTreeMap<u32, (Vec<&Task>, Vec<&Task>)> = BTreeMap::new();
    for task in tasks.iter().filter(|task| !task.is_kernel) {
        let (real_time, others) = on_cpu.entry(task.cpu).or_default();
        if task.is_real_time {
            real_time.push(task);
        } else if task.is_ordinary() {
            others.push(task);
        }
    }
    on_cpu.retain(|_, (real_time, others)| !real_time.is_empty() && !others.is_empty());
    for (cpu, (real_time, others)) in &on_cpu {
        let instance = format!("CPU {cpu}");
        let sum = |tasks: &[&Task], of: fn(&Task) -> u64| tasks.iter().map(|task| of(task)).sum::<u64>();
        put(out, "waiting_tasks.real_time", &instance, RawUnit::Nanoseconds, sum(real_time, |task| task.ran));
        put(out, "waiting_tasks.behind_wait", &instance, RawUnit::Nanoseconds, sum(others, |task| task.waited));
        put(out, "waiting_tasks.behind_run", &instance, RawUnit::Nanoseconds, sum(others, |task| task.ran));
        name_largest(real_time, &instance, out);
        if let Some(victim) = others.iter().max_by_key(|task| task.waited) {
            out.label(&instance, "victim", victim.process.as_str());
        }
    }
    on_cpu.len()
}
