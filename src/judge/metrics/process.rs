//! Metrics from the table of processes.

mod changes;
mod run_delay;

use std::collections::BTreeMap;

use self::changes::parts;
pub(super) use self::run_delay::{RunDelay, run_delays, wait_of_tasks};
use super::formula::{Outcome, Quotient, describe, statistics};
use super::members::Members;
use super::table::{Table, intervals};
use rdiag_model::metric::ProcessField;
use rdiag_model::recording::{CollectorRecord, Process, ProcessPoint, Window};
use rdiag_model::{Facts, Metrics, Reason, Stats, Unavailable};

/// The collector whose record holds the table.
pub(super) const COLLECTOR: &str = "processes";
/// Of a field that many processes have, only this many of the largest are kept.
const MAX_INSTANCES: usize = 500;
/// The instance that sums up those not kept, or says why some could not be read.
const OTHERS: &str = "(others)";

/// A process's name among the instances: the pid alone is reused.
fn instance(process: &Process) -> String {
    format!("{}:{}", process.pid, process.start_ticks)
}

fn record<'w>(table: &Table<'w>) -> Result<&'w CollectorRecord, Unavailable> {
    let record = table.window.collectors.get(COLLECTOR);
    let record =
        record.ok_or_else(|| Unavailable::new(Reason::Absent, "processes were not collected in this window"))?;
    match (&record.unavailable, record.processes.is_empty()) {
        (Some(gap), true) => Err(gap.clone()),
        (None, true) => Err(Unavailable::new(Reason::NotVisible, "/proc shows no process")),
        _ => Ok(record),
    }
}

/// A counter or level of a point in base units; none where its file could not be read.
fn value(field: ProcessField, point: &ProcessPoint, facts: &Facts) -> Option<f64> {
    let tick = 1.0 / facts.ticks_per_second.max(1) as f64;
    let page = facts.page_size as f64;
    Some(match field {
        ProcessField::Cpu => point.utime.saturating_add(point.stime) as f64 * tick,
        ProcessField::RunDelay => point.wait_ns? as f64 * 1e-9,
        ProcessField::MajorFaults => point.major_faults as f64,
        ProcessField::MinorFaults => point.minor_faults as f64,
        ProcessField::Resident | ProcessField::ResidentGrowth => point.resident_pages as f64 * page,
        ProcessField::Swap => point.swap_kb? as f64 * 1024.0,
        ProcessField::ReadBytes => point.read_bytes? as f64,
        ProcessField::WriteBytes => point.write_bytes? as f64,
        ProcessField::VoluntarySwitches => point.voluntary_switches? as f64,
        ProcessField::InvoluntarySwitches => point.involuntary_switches? as f64,
        ProcessField::Threads => f64::from(point.threads),
    })
}

fn is_level(field: ProcessField) -> bool {
    matches!(field, ProcessField::Resident | ProcessField::Swap | ProcessField::Threads)
}

/// One field for every process that has any of it.
pub(super) fn field(table: &Table<'_>, field: ProcessField, per_second: bool) -> Outcome {
    let record = record(table)?;
    let (mut instances, readable) =
        if is_level(field) { levels(table, record, field) } else { totals(table, record, field, per_second) };
    if !readable {
        return Err(unreadable(record, field));
    }
    if field == ProcessField::Cpu && !per_second {
        super::uncharged::add(table, &mut instances);
    }
    if let Some(gap) = gap_of_file(record, field) {
        instances.insert(OTHERS.to_owned(), Err(gap));
    } else if instances.is_empty() {
        instances.insert(OTHERS.to_owned(), Ok(constant(0.0, table.window)));
    }
    Ok((instances, source(field).to_owned()))
}

/// The levels of those that are there at the end, and whether the field could be read of any process at all.
fn levels(table: &Table<'_>, record: &CollectorRecord, field: ProcessField) -> (Instances, bool) {
    let (_, end) = span(record);
    let mut readable = false;
    let mut all: Vec<(f64, &Process)> = Vec::with_capacity(record.processes.len());
    for process in &record.processes {
        let last = process.points.iter().rev().find_map(|point| value(field, point, table.facts));
        readable |= last.is_some();
        // A process that is gone by now holds nothing.
        if let Some(level) = last.filter(|level| *level > 0.0 && process.last == end) {
            all.push((level, process));
        }
    }
    // There may be thousands: figures and a name are made for the largest alone.
    all.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| (x.pid, x.start_ticks).cmp(&(y.pid, y.start_ticks))));
    let rest = all.split_off(MAX_INSTANCES.min(all.len()));
    let level_of = |(level, process): (f64, &Process)| (instance(process), Ok(constant(level, table.window)));
    let mut instances: Instances = all.into_iter().map(level_of).collect();
    if !rest.is_empty() {
        let sum = rest.iter().map(|(level, _)| level).sum();
        instances.insert(OTHERS.to_owned(), Ok(constant(sum, table.window)));
    }
    (instances, readable)
}

/// What each process that did anything did, and whether the field could be read of any process at all.
fn totals(table: &Table<'_>, record: &CollectorRecord, field: ProcessField, per_second: bool) -> (Instances, bool) {
    let (begin, _) = span(record);
    let quotient = if per_second { Quotient::Rate } else { Quotient::Total };
    let mut readable = false;
    let mut instances = BTreeMap::new();
    for process in &record.processes {
        let born_within = process.first > begin;
        if !born_within && let Some(known_since) = idle(process, field, table.facts) {
            readable |= process.last > known_since;
            continue;
        }
        let parts = parts(record, process, field, table.facts, born_within);
        readable |= !parts.is_empty();
        if parts.iter().all(|part| part.over <= 0.0) {
            continue;
        }
        let stats = statistics(&parts, quotient, intervals(table.window), table.window.interval_seconds, 0.0);
        instances.insert(instance(process), stats);
    }
    keep_largest(&mut instances, intervals(table.window));
    (instances, readable)
}

/// The first sample at which a field is known, of a process whose field never changed: most of them, most of the time.
fn idle(process: &Process, field: ProcessField, facts: &Facts) -> Option<u16> {
    let mut known = process.points.iter().filter_map(|point| Some((point.at, value(field, point, facts)?)));
    let (since, first) = known.next()?;
    known.all(|(_, value)| value == first).then_some(since)
}

/// Figures of a level that does not change.
fn constant(level: f64, window: &Window) -> Stats {
    describe(level, level, &[level], vec![Some(level); intervals(window)])
}

type Instances = BTreeMap<String, Result<Stats, Unavailable>>;

fn keep_largest(instances: &mut Instances, intervals: usize) {
    if instances.len() <= MAX_INSTANCES {
        return;
    }
    let size = |stats: &Result<Stats, Unavailable>| stats.as_ref().map_or(0.0, |stats| stats.total);
    let mut sizes: Vec<(f64, String)> = instances.iter().map(|(name, stats)| (size(stats), name.clone())).collect();
    sizes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut mean, mut total, mut spread) = (0.0, 0.0, vec![0.0; intervals]);
    for (_, name) in sizes.into_iter().skip(MAX_INSTANCES) {
        let Some(Ok(stats)) = instances.remove(&name) else { continue };
        mean += stats.mean;
        total += stats.total;
        for (sum, value) in spread.iter_mut().zip(stats.intervals) {
            *sum += value.unwrap_or(0.0);
        }
    }
    let values = spread.clone();
    let others = describe(mean, total, &values, spread.into_iter().map(Some).collect());
    instances.insert(OTHERS.to_owned(), Ok(others));
}

/// Why a field is missing for some processes or all: what the collector said about its file.
fn gap_of_file(record: &CollectorRecord, field: ProcessField) -> Option<Unavailable> {
    let file = source(field).split(',').next()?.rsplit('/').next()?;
    // Whose stat is hidden is hidden altogether.
    record.gaps.get(file).or_else(|| record.gaps.get("stat")).cloned()
}

/// Why a field has no value for any process.
fn unreadable(record: &CollectorRecord, field: ProcessField) -> Unavailable {
    gap_of_file(record, field).unwrap_or_else(|| {
        let file = source(field).split(',').next().unwrap_or_default();
        Unavailable::new(Reason::Absent, format!("{file} gave nothing for any process"))
    })
}

fn source(field: ProcessField) -> &'static str {
    match field {
        ProcessField::Cpu => "/proc/PID/stat, fields 14 and 15",
        ProcessField::RunDelay => "/proc/PID/schedstat, field 2",
        ProcessField::MajorFaults => "/proc/PID/stat, field 12",
        ProcessField::MinorFaults => "/proc/PID/stat, field 10",
        ProcessField::Resident | ProcessField::ResidentGrowth => "/proc/PID/stat, field 24",
        ProcessField::Swap => "/proc/PID/status, VmSwap",
        ProcessField::ReadBytes => "/proc/PID/io, read_bytes",
        ProcessField::WriteBytes => "/proc/PID/io, write_bytes",
        ProcessField::VoluntarySwitches => "/proc/PID/status, voluntary_ctxt_switches",
        ProcessField::InvoluntarySwitches => "/proc/PID/status, nonvoluntary_ctxt_switches",
        ProcessField::Threads => "/proc/PID/stat, field 20",
    }
}

/// First and last sample that saw any process.
fn span(record: &CollectorRecord) -> (u16, u16) {
    let begin = record.processes.iter().map(|process| process.first).min().unwrap_or(0);
    let end = record.processes.iter().map(|process| process.last).max().unwrap_or(0);
    (begin, end)
}

/// The kernel's process from which it starts all its threads; no user's process has this parent.
const KTHREADD: u32 = 2;

/// A field per second for each kernel thread with this prefix, idle ones included.
pub(super) fn kernel_threads(table: &Table<'_>, prefix: &str, field: ProcessField) -> Outcome {
    let record = record(table)?;
    let mut instances = BTreeMap::new();
    for process in record.processes.iter().filter(|process| process.ppid == KTHREADD) {
        let Some(rest) = process.comm.strip_prefix(prefix) else { continue };
        let parts = parts(record, process, field, table.facts, false);
        let stats = statistics(&parts, Quotient::Rate, intervals(table.window), table.window.interval_seconds, 0.0);
        instances.insert(rest.to_owned(), stats);
    }
    if instances.is_empty() {
        let why = format!("no kernel thread named {prefix}… is visible: a PID namespace hides them");
        return Err(Unavailable::new(Reason::NotVisible, why).with_remedy("run rdiag in the host's PID namespace"));
    }
    Ok((instances, format!("{}, of the kernel threads {prefix}…", source(field))))
}

/// Names for the processes that appear in some reading.
pub(super) fn add_labels(window: &Window, metrics: &mut Metrics) {
    let Some(record) = window.collectors.get(COLLECTOR) else { return };
    let mut wanted = std::collections::BTreeSet::new();
    for reading in metrics.readings.iter().filter(|(id, _)| id.starts_with("process.")).map(|(_, reading)| reading) {
        if let rdiag_model::Reading::Measured { instances, .. } = reading {
            wanted.extend(instances.keys().cloned());
        }
    }
    let names = metrics.labels.entry("process".to_owned()).or_default();
    let (members, (_, end)) = (Members::of(window), span(record));
    for process in &record.processes {
        let key = instance(process);
        if !wanted.contains(&key) {
            continue;
        }
        let labels = names.entry(key).or_default();
        labels.insert("name".into(), process.comm.clone());
        labels.insert("pid".into(), process.pid.to_string());
        let more = [("command", &process.command), ("cgroup", &process.cgroup)];
        for (name, text) in more {
            if let Some(text) = text {
                labels.insert(name.into(), text.clone());
            }
        }
        if !process.other_cgroups.is_empty() {
            labels.insert("other_cgroups".into(), process.other_cgroups.join("\n"));
        }
        // What is gone by the end is in no list: one of its number is another.
        if process.cgroup.is_none() && process.last == end {
            members.add_labels(process.pid, labels);
        }
        if let Some(uid) = process.uid {
            labels.insert("uid".into(), uid.to_string());
        }
    }
}
