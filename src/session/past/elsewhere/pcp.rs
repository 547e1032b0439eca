//! What Performance Co-Pilot (PCP) recorded, as pcp2json prints its archives: of each record of the archive what was logged in it. Counters
//! are those of the kernel (`-r`): as rates, pcp2json loses those that were not logged in every record.

mod entries;
mod metrics;
mod rounds;
mod tasks;
#[cfg(test)]
mod tests;

use self::entries::{Document, Entries, HOST, Value};
use self::metrics::{Kind, METRICS};
use self::rounds::Rounds;
use self::tasks::Units;
use super::building::Building;
use super::intervals::{Source, Time, rounded, unknown_host};
use crate::past::time::{Past, interval};
use rdiag_model::{Facts, RawUnit};

const SOURCE: Source = Source {
    name: "PCP",
    lacks: "Of PCP, file systems, control groups and logs are not read: what rests on them is unknown",
    gap: "what pcp2json printed holds nothing of it that is read",
};

/// What prints what is read here. `-5` and `-I` leave out what the archive does not have.
pub(super) const PCP2JSON: &str = "`pcp2json -a ARCHIVE -Z UTC -f %s.%f -r -H -5 -I hinv.ncpu hinv.pagesize kernel.uname \
    kernel.all kernel.percpu.cpu mem.physmem mem.freemem mem.util mem.vmstat swap disk.dev network.interface network.tcp \
    proc.psinfo proc.schedstat proc.io`";

/// Characters of a name.
pub(super) const MAX_NAME: usize = 64;
/// Metrics that are named in a note.
const NAMED: usize = 4;
/// pcp2json has ticks as milliseconds, so they are these here: hundredths of a second.
pub(super) const HERTZ: u64 = 100;

/// The JSON of a file: without `-H`, lines that say what is written where stand before it.
pub(super) fn json(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes.trim_ascii_start();
    while [&b"{ \"//\":"[..], b"//"].iter().any(|begin| rest.starts_with(begin)) {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        rest = rest.get(end..).unwrap_or_default().trim_ascii_start();
    }
    rest
}

/// The recording of a time, from what pcp2json printed.
pub(super) fn past(bytes: &[u8], time: &Time<'_>) -> Result<Past, String> {
    let foreign = |error| format!("it is nothing that pcp2json prints of an archive: {error}");
    let document: Document = serde_json::from_slice(json(bytes)).map_err(foreign)?;
    let host = document.pcp.hosts.into_iter().next().ok_or("it names no host")?;
    let entries = host.entries;
    readable(&entries)?;
    let rounds = Rounds::new(&entries)?;
    let picked = time.pick(rounds.intervals(), &SOURCE)?;
    let rounds = rounds.filled(&entries, &picked);
    let name = host.name.chars().take(MAX_NAME).collect();
    let facts = Facts { hostname: name, ..facts(&entries, &rounds) };
    let boot = boot(&entries);
    let (mut told, mut has_tasks) = (vec![false; METRICS.len()], false);
    let mut past = time.past(&SOURCE, &picked, facts.clone(), |building, interval| {
        let Some((before, now)) = rounds.around(interval.sample) else { return };
        for (key, value) in &now.host {
            let told_so = tell(key, *value, before.host.get(key).copied(), &entries, building);
            if let Some(told) = told.get_mut(key.0).filter(|_| told_so) {
                *told = true;
            }
        }
        let memory = (facts.memory_bytes > 0).then_some(facts.memory_bytes as f64 / 1024.0);
        building.level("meminfo.total", "", RawUnit::Kibibytes, memory);
        let units = Units { page: facts.page_size, boot, begin: interval.begin() };
        has_tasks |= tasks::tell(&before.tasks, &now.tasks, &entries, &units, building);
    })?;
    let seen = |at: usize| rounds.all().any(|round| round.host.range((at, 0)..=(at, HOST)).next().is_some());
    let untold = METRICS.iter().zip(&told).enumerate().filter(|(at, (_, told))| !**told && seen(*at));
    let untold: Vec<&str> = untold.map(|(_, ((name, _), _))| *name).collect();
    let every = interval(rounded(rounds.seconds()));
    if !untold.is_empty() {
        let more = untold.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = untold.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        past.notes.push(format!("Not logged every {every}, and so left out: {named}{more}"));
    }
    if let Some((metric, unit)) = &entries.wrong_unit {
        past.notes.push(format!(
            "{metric} has a unit that is none of its own ({unit:?}), and is left out, and perhaps others"
        ));
    }
    if !has_tasks {
        past.notes.push(format!("It does not have proc.psinfo every {every}, so who is behind it is not known"));
    }
    Ok(past)
}

/// Whether all of it can be understood.
fn readable(entries: &Entries) -> Result<(), String> {
    if let Some(stamp) = &entries.wrong_time {
        return Err(format!(
            "its time {stamp:?} does not tell the time zone; as seconds since 1970 (-f %s.%f) it does: {PCP2JSON}"
        ));
    }
    if let Some(metric) = entries.rate {
        return Err(format!("{metric} is a rate in it; `-r` prints the counter, without loss: {PCP2JSON}"));
    }
    if entries.is_crowded() {
        let part = "-S '@2026-03-10 03:00' -T '@2026-03-10 04:00' -t 0.01";
        return Err(format!("it has more than 8 million values: print a part of that time ({part})"));
    }
    Ok(())
}

/// Tells a value of the host; says whether it could.
fn tell(key: &(usize, u32), value: f64, before: Option<f64>, entries: &Entries, building: &mut Building) -> bool {
    let Some((_, kind)) = METRICS.get(key.0) else { return false };
    let name = (key.1 != HOST).then(|| entries.texts.get(key.1));
    match *kind {
        Kind::Level(series, unit) => {
            let series = match (series, name) {
                ("loadavg.", Some("1 minute")) => "loadavg.one",
                ("loadavg.", Some("5 minute")) => "loadavg.five",
                ("loadavg.", Some("15 minute")) => "loadavg.fifteen",
                ("loadavg.", _) | (_, Some(_)) => return true,
                (series, None) => series,
            };
            // PCP runs while it reads.
            let level = if series == "loadavg.runnable" { (value - 1.0).max(0.0) } else { value };
            building.level(series, "", unit, Some(level));
            true
        }
        Kind::Counter(series, unit) => {
            // One that is smaller than before began anew.
            let more = before.map(|before| value - before).filter(|more| *more >= 0.0);
            let is_of_cpu = series.starts_with("cpu_stat.core_");
            let is_of_each = is_of_cpu || series.starts_with("diskstats.") || series.starts_with("interfaces.");
            let instance = match name {
                None if !is_of_each => Some(""),
                Some(name) if is_of_cpu => name.strip_prefix("cpu"),
                Some(name) if is_of_each => Some(name).filter(|name| *name != "lo"),
                _ => None,
            };
            let Some(instance) = instance else { return true };
            if let Some(first) = before.filter(|_| series == "vmstat.oom_kill") {
                building.begins_at(series, unit, first);
            }
            building.grow(series, instance, unit, more);
            before.is_some()
        }
        _ => true,
    }
}

/// The newest of what is logged once.
fn newest(entries: &Entries, wanted: &str) -> Option<(i64, Value)> {
    let is_it = |metric: usize| METRICS.get(metric).is_some_and(|(name, _)| *name == wanted);
    let found = |entry: &entries::Entry| {
        let reading = entry.readings.iter().find(|reading| is_it(reading.metric))?;
        Some((entry.at, reading.value))
    };
    entries.list.iter().rev().find_map(found)
}

fn number(entries: &Entries, wanted: &str) -> Option<f64> {
    match newest(entries, wanted)? {
        (_, Value::Number(number)) => Some(number),
        _ => None,
    }
}

/// The host, as far as it was printed.
fn facts(entries: &Entries, rounds: &Rounds) -> Facts {
    let text = |wanted: &str| -> Option<String> {
        match newest(entries, wanted) {
            Some((_, Value::Text(text))) => Some(entries.texts.get(text).chars().take(MAX_NAME).collect()),
            _ => None,
        }
    };
    let cpus = number(entries, "hinv.ncpu").unwrap_or_else(|| cpus_by_their_time(rounds));
    let cpus = (cpus.round() as u32).clamp(1, 65_536);
    let unknown = unknown_host();
    let page =
        number(entries, "hinv.pagesize").map(|bytes| bytes as u64).filter(|bytes| (1024..=1 << 20).contains(bytes));
    Facts {
        kernel: text("kernel.uname.release").unwrap_or(unknown.kernel.clone()),
        arch: text("kernel.uname.machine").unwrap_or(unknown.arch.clone()),
        cpus,
        cpus_present: cpus,
        page_size: page.unwrap_or(unknown.page_size),
        ticks_per_second: HERTZ,
        memory_bytes: memory(entries).map_or(0, |kibibytes| (kibibytes * 1024.0) as u64),
        ..unknown
    }
}

/// MemTotal in KiB; where it was logged before, what was used and what was free at one moment.
fn memory(entries: &Entries) -> Option<f64> {
    let both = |entry: &entries::Entry| {
        let of = |wanted: &str| {
            let is_it = |metric: usize| METRICS.get(metric).is_some_and(|(name, _)| *name == wanted);
            entry.readings.iter().find(|reading| is_it(reading.metric)).map(|reading| reading.value)
        };
        match (of("mem.util.used")?, of("mem.util.free").or_else(|| of("mem.freemem"))?) {
            (Value::Number(used), Value::Number(free)) => Some(used + free),
            _ => None,
        }
    };
    number(entries, "mem.physmem").or_else(|| entries.list.iter().rev().find_map(both))
}

/// How many CPUs there are, where nothing says it (hinv.ncpu is logged once): so many seconds pass on them in a second.
fn cpus_by_their_time(rounds: &Rounds) -> f64 {
    let is_of_all = |metric: usize| matches!(METRICS.get(metric), Some((name, Kind::Counter(..))) if name.starts_with("kernel.all.cpu."));
    let ticks = |round: &rounds::Round| -> f64 {
        round.host.iter().filter(|((metric, _), _)| is_of_all(*metric)).map(|(_, value)| value).sum()
    };
    let all: Vec<f64> = rounds.all().map(ticks).collect();
    let mut cpus: Vec<f64> = all.iter().zip(all.iter().skip(1)).map(|(from, to)| to - from).collect();
    cpus.sort_by(f64::total_cmp);
    let middle = cpus.get(cpus.len() / 2).copied().unwrap_or(0.0);
    middle / HERTZ as f64 / rounds.seconds().max(1e-3)
}

/// When it was booted, in seconds since 1970.
fn boot(entries: &Entries) -> Option<f64> {
    match newest(entries, "kernel.all.uptime")? {
        (at, Value::Number(uptime)) => Some(at as f64 * 1e-6 - uptime),
        _ => None,
    }
}
