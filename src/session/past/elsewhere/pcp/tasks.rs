//! The processes that PCP saw (proc.*): counters since each began, of which an interval has what came on top.

use std::collections::BTreeMap;

use super::super::building::Building;
use super::super::processes::Seen;
use super::entries::{Entries, Value};
use super::metrics::METRICS;
use super::{HERTZ, MAX_NAME};
use rdiag_model::RawUnit;
use rdiag_model::recording::{Process, ProcessPoint};

const NANOSECONDS_PER_TICK: u64 = 1_000_000_000 / HERTZ;

/// Processes of a round.
type Tasks = BTreeMap<u32, BTreeMap<usize, Value>>;

/// What turns the units of PCP into those of the kernel, and when the interval began (microseconds since 1970).
pub(super) struct Units {
    pub(super) page: u64,
    /// In seconds since 1970, where it is known.
    pub(super) boot: Option<f64>,
    pub(super) begin: i64,
}

/// A process of a round.
struct Row<'r> {
    values: &'r BTreeMap<usize, Value>,
    entries: &'r Entries,
}

impl<'r> Row<'r> {
    fn value(&self, name: &str) -> Option<Value> {
        let metric = METRICS.iter().rposition(|(metric, _)| metric.strip_prefix("proc.") == Some(name))?;
        self.values.get(&metric).copied()
    }

    /// Whether what makes a process one in the table was logged of it.
    fn is_listed(&self) -> bool {
        self.value("psinfo.utime").is_some()
    }

    fn whole(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Number(number) => Some(number.round() as u64),
            Value::Text(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<&'r str> {
        match self.value(name)? {
            Value::Text(text) => Some(self.entries.texts.get(text)),
            Value::Number(_) => None,
        }
    }

    /// Whether this is still the same process: a pid is given again.
    fn follows(&self, before: &Self) -> bool {
        let since = |row: &Self| row.whole("psinfo.start_time");
        let same = since(self).zip(since(before)).is_none_or(|(now, then)| now == then);
        let grew = |name: &str| self.whole(name).zip(before.whole(name)).is_none_or(|(now, then)| now >= then);
        same && grew("psinfo.utime") && grew("psinfo.stime")
    }
}

/// The table of processes, and how many there are; says whether both rounds have them. Some figures of processes are logged by default,
/// their CPU time is not.
pub(super) fn tell(before: &Tasks, now: &Tasks, entries: &Entries, units: &Units, building: &mut Building) -> bool {
    let is_listed = |tasks: &Tasks| tasks.values().any(|values| Row { values, entries }.is_listed());
    if !is_listed(before) || !is_listed(now) {
        return false;
    }
    let (mut total, mut zombies, mut waiting) = (0.0, 0.0, 0.0);
    for (pid, values) in now {
        let row = Row { values, entries };
        if !row.is_listed() {
            continue;
        }
        total += 1.0;
        let last = before.get(pid).map(|values| Row { values, entries }).filter(|last| row.follows(last));
        let state = row.text("psinfo.sname").and_then(|state| state.chars().next()).unwrap_or('?');
        zombies += f64::from(u8::from(state == 'Z'));
        waiting += f64::from(u8::from(state == 'D'));
        let started = row.whole("psinfo.start_time");
        let since = started.zip(units.boot).map(|(ticks, boot)| boot + ticks as f64 / HERTZ as f64);
        // Start and boot are whole seconds.
        let is_new = last.is_none() && since.is_none_or(|since| since >= units.begin as f64 * 1e-6 - 2.0);
        // One that was there and not listed did nothing that is known of.
        let more = |name: &str| {
            let value = row.whole(name)?;
            let from = last.as_ref().map_or(if is_new { Some(0) } else { Some(value) }, |last| last.whole(name));
            Some(value.saturating_sub(from?))
        };
        let pages =
            |row: &Row<'_>| row.whole("psinfo.rss").map(|kibibytes| kibibytes.saturating_mul(1024) / units.page.max(1));
        let resident = pages(&row).unwrap_or(0);
        let ticks = |name: &str| more(name).unwrap_or(0);
        let (utime, stime) = (ticks("psinfo.utime"), ticks("psinfo.stime"));
        let growth = last.as_ref().and_then(pages).map_or(0, |then| signed(resident).saturating_sub(signed(then)));
        building.table.see(Seen {
            who: Process {
                pid: *pid,
                ppid: row.whole("psinfo.ppid").and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
                start_ticks: started.unwrap_or(0),
                comm: comm(&row),
                uid: row.whole("id.euid").and_then(|uid| u32::try_from(uid).ok()),
                command: row.text("psinfo.psargs").map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned),
                ..Process::default()
            },
            did: ProcessPoint {
                at: 0,
                state,
                utime,
                stime,
                minor_faults: ticks("psinfo.minflt"),
                major_faults: ticks("psinfo.maj_flt"),
                threads: row.whole("psinfo.threads").and_then(|threads| u32::try_from(threads).ok()).unwrap_or(1),
                resident_pages: resident,
                run_ns: more("schedstat.cpu_time")
                    .or(Some(utime.saturating_add(stime).saturating_mul(NANOSECONDS_PER_TICK))),
                wait_ns: more("schedstat.run_delay"),
                voluntary_switches: more("psinfo.vctxsw"),
                involuntary_switches: more("psinfo.nvctxsw"),
                swap_kb: row.whole("memory.vmswap"),
                read_bytes: more("io.read_bytes"),
                write_bytes: more("io.write_bytes"),
            },
            resident_growth: growth,
            is_new,
        });
    }
    let states = now.values().any(|values| Row { values, entries }.text("psinfo.sname").is_some());
    building.level("processes.total", "", RawUnit::Count, Some(total));
    building.level("processes.zombies", "", RawUnit::Count, states.then_some(zombies));
    building.level("processes.uninterruptible", "", RawUnit::Count, states.then_some(waiting));
    true
}

fn signed(pages: u64) -> i64 {
    i64::try_from(pages).unwrap_or(i64::MAX)
}

/// The name of a process; without one, that of its program.
fn comm(row: &Row<'_>) -> String {
    let program = || {
        let program = row.text("psinfo.psargs")?.split_whitespace().next()?;
        program.rsplit('/').next()
    };
    row.text("psinfo.cmd").or_else(program).unwrap_or("?").chars().take(MAX_NAME).collect()
}
