//! What below (of Meta) recorded, as `below dump TABLE --everything --raw -O json` prints it: for each table a list, one behind the other.
//! A sample has rates since the one before, and its time in whole seconds: a rate is as exact as below has it, a sum is not.

mod columns;
mod host;
mod tables;
mod tasks;
#[cfg(test)]
mod tests;

use self::columns::Table;
use self::tables::Tables;
use self::tasks::Tasks;
use super::building::Building;
use super::intervals::{Interval, Source, Time, unknown_host};
use crate::past::time::Past;
use rdiag_model::Facts;

const SOURCE: Source = Source {
    name: "below",
    lacks: "below records no busy time and no queue of disks, no load averages and no kernel log, and of control groups and file systems \
            nothing is read: what rests on them is unknown",
    gap: "below does not record it, or it was not printed",
};

/// What prints what is read here.
const BELOW: &str = "`for table in system process cgroup disk iface transport; do below dump $table --everything --raw -O json \
    -b BEGIN -e END; done`";

/// What a dump has in each of its rows, and how far to look for it: behind the figures of a thousand CPUs.
const TIMES: [&[u8]; 2] = [b"\"Datetime\"", b"\"Timestamp\""];
const BEGIN: usize = 1 << 20;
/// Characters of a name.
const MAX_NAME: usize = 64;
/// below has time as percent, so ticks are these here: hundredths of a second.
const HERTZ: u64 = 100;

/// From one sample to the next, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: i64,
    to: i64,
}

impl Step {
    fn seconds(&self) -> f64 {
        self.to.saturating_sub(self.from) as f64
    }
}

/// Whether it begins like a dump of below.
pub(super) fn prints(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    let begin = bytes.get(..BEGIN).unwrap_or(bytes);
    begin.starts_with(b"[") && TIMES.iter().any(|key| begin.windows(key.len()).any(|part| part == *key))
}

/// The recording of a time, from what below printed.
pub(super) fn past(bytes: &[u8], time: &Time<'_>) -> Result<Past, String> {
    let tables = Tables::read(bytes)?;
    readable(&tables)?;
    let steps = steps(&tables);
    if steps.is_empty() {
        return Err(format!("its table of the host (`below dump system`) does not have two samples: {BELOW}"));
    }
    let picked = time.pick(steps.into_iter(), &SOURCE)?;
    let newest = picked.last().and_then(|interval| tables.rows(Table::System, interval.sample.to).first());
    let cpus = newest.map_or(0, tables::Row::cpus);
    if cpus == 0 {
        return Err(format!("its table of the host does not have each CPU; `--everything` prints them: {BELOW}"));
    }
    let facts = facts(&tables, newest, cpus);
    let boot = newest.and_then(|row| row.number("Boot Time Epoch")).unwrap_or(0.0) as i64;
    let begin = picked.first().map_or(0, |interval| interval.sample.from);
    let mut tasks = Tasks::new(boot, begin, facts.page_size);
    let mut has_tasks = false;
    let mut past = time.past(&SOURCE, &picked, facts, |building: &mut Building, interval| {
        host::tell(&tables, &interval.sample, cpus as f64, building);
        has_tasks |= tasks.tell(&tables, &interval.sample, building);
    })?;
    if !has_tasks {
        past.notes.push(
            "It does not have `below dump process --everything` of that time, so who is behind it is not known".into(),
        );
    }
    if tables.has_others {
        past.notes.push("It has tables that are not read, or that were printed without --everything".into());
    }
    Ok(past)
}

/// Whether all of it can be understood.
fn readable(tables: &Tables) -> Result<(), String> {
    if tables.is_crowded() {
        return Err(format!("it has more than 8 million values: print a part of that time (-b, -e): {BELOW}"));
    }
    if let Some((title, value)) = &tables.with_unit {
        return Err(format!(
            "its figures have units ({title}: {value:?}), rounded to them; `--raw` prints all digits: {BELOW}"
        ));
    }
    if tables.is_timeless {
        return Err(format!("rows of it have no Timestamp; `--everything` prints it: {BELOW}"));
    }
    Ok(())
}

/// From sample to sample, where none is missing and the host was not booted in between.
fn steps(tables: &Tables) -> Vec<Interval<Step>> {
    let times: Vec<i64> = tables.times(Table::System).collect();
    let all: Vec<Step> =
        times.iter().zip(times.iter().skip(1)).map(|(from, to)| Step { from: *from, to: *to }).collect();
    let mut lengths: Vec<f64> = all.iter().map(Step::seconds).collect();
    lengths.sort_by(f64::total_cmp);
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(0.0);
    // Of two times in whole seconds.
    let longest = middle * 1.5 + 1.0;
    let booted = |at: i64| tables.rows(Table::System, at).first().and_then(|row| row.number("Boot Time Epoch"));
    // The kernel works it out anew each time it is read: it may be a second off.
    let is_one = |step: &Step| booted(step.from).zip(booted(step.to)).is_none_or(|(from, to)| (from - to).abs() <= 2.0);
    let known = all.into_iter().filter(|step| step.seconds() <= longest && is_one(step));
    known.filter_map(|step| Interval::new(step.to.saturating_mul(1_000_000), step.seconds(), step)).collect()
}

/// The host, as the newest sample has it.
fn facts(tables: &Tables, newest: Option<&tables::Row>, cpus: usize) -> Facts {
    let unknown = unknown_host();
    let text =
        |title: &str| -> Option<String> { Some(newest?.text(title, &tables.texts)?.chars().take(MAX_NAME).collect()) };
    let cpus = u32::try_from(cpus).unwrap_or(1).clamp(1, 65_536);
    Facts {
        hostname: text("Hostname").unwrap_or_else(|| "unknown".into()),
        kernel: text("Kernel Version").unwrap_or_else(|| unknown.kernel.clone()),
        cpus,
        cpus_present: cpus,
        ticks_per_second: HERTZ,
        memory_bytes: newest.and_then(|row| row.whole("Total")).unwrap_or(0),
        ..unknown
    }
}
