//! The processes that below saw. Of one that began since the sample before, below has no figures yet, and of one that ended, only where its
//! BPF program ran.

use std::collections::HashMap;

use super::super::building::Building;
use super::super::processes::Seen;
use super::columns::Table;
use super::tables::{Row, Tables};
use super::{HERTZ, Step};
use rdiag_model::RawUnit;
use rdiag_model::recording::{Process, ProcessPoint};

/// Characters of a name.
const MAX_NAME: usize = 64;
/// The process that each host has: where it is not listed, others may be missing as well.
const INIT: u32 = 1;
/// Times of a start that are no further apart are of one process: it follows from whole seconds.
const SAME: i64 = 2;
const STATES: [(&str, char); 9] = [
    ("RUNNING", 'R'),
    ("SLEEPING", 'S'),
    ("UNINTERRUPTIBLE_SLEEP", 'D'),
    ("STOPPED", 'T'),
    ("TRACING_STOPPED", 't'),
    ("ZOMBIE", 'Z'),
    ("DEAD", ENDED),
    ("IDLE", 'I'),
    ("PARKED", 'P'),
];
const ENDED: char = 'X';

/// What is known of processes beyond one interval.
pub(super) struct Tasks {
    /// When each was started, in seconds since 1970, as it was first seen.
    started: HashMap<u32, i64>,
    /// When the host was booted, and when the first interval begins.
    boot: i64,
    begin: i64,
    page: u64,
}

impl Tasks {
    pub(super) fn new(boot: i64, begin: i64, page: u64) -> Self {
        Self { started: HashMap::new(), boot, begin, page: page.max(1) }
    }

    /// Tells what they did in an interval; says whether it could.
    pub(super) fn tell(&mut self, tables: &Tables, step: &Step, building: &mut Building) -> bool {
        let pid = |row: &Row| row.whole("Pid").and_then(|pid| u32::try_from(pid).ok());
        let rows = tables.rows(Table::Process, step.to);
        let before: HashMap<u32, &Row> =
            tables.rows(Table::Process, step.from).iter().filter_map(|row| Some((pid(row)?, row))).collect();
        let (mut total, mut zombies, mut waiting, mut is_whole, mut has_figures) = (0.0, 0.0, 0.0, false, false);
        for row in rows {
            let Some(pid) = pid(row) else { continue };
            let state = row.text("State", &tables.texts).unwrap_or_default();
            let state = STATES.iter().find(|(name, _)| *name == state).map_or('?', |(_, state)| *state);
            is_whole |= pid == INIT;
            total += f64::from(u8::from(state != ENDED));
            zombies += f64::from(u8::from(state == 'Z'));
            waiting += f64::from(u8::from(state == 'D'));
            let started = self.started(pid, row, step);
            if let Some(percent) = row.number("User CPU").zip(row.number("Sys CPU")) {
                has_figures = true;
                let who = who(pid, row, tables, started.saturating_sub(self.boot));
                let rows = (row, before.get(&pid).copied());
                building.table.see(self.seen(who, state, percent, rows, started >= self.begin, step.seconds()));
            }
        }
        if is_whole {
            building.level("processes.total", "", RawUnit::Count, Some(total));
            building.level("processes.zombies", "", RawUnit::Count, Some(zombies));
            building.level("processes.uninterruptible", "", RawUnit::Count, Some(waiting));
        }
        has_figures
    }

    /// When it was started. A pid may have been given again.
    fn started(&mut self, pid: u32, row: &Row, step: &Step) -> i64 {
        let uptime = row.whole("Uptime(sec)").and_then(|uptime| i64::try_from(uptime).ok()).unwrap_or(0);
        let started = step.to.saturating_sub(uptime);
        let known = self.started.entry(pid).or_insert(started);
        if known.abs_diff(started) > SAME.unsigned_abs() && row.number("Uptime(sec)").is_some() {
            *known = started;
        }
        *known
    }

    /// What stands in its row, and in that of the sample before.
    fn seen(
        &self,
        who: Process,
        state: char,
        (user, system): (f64, f64),
        (row, before): (&Row, Option<&Row>),
        is_new: bool,
        seconds: f64,
    ) -> Seen {
        let is_there = state != ENDED;
        let ticks = |percent: f64| (percent / 100.0 * seconds * HERTZ as f64).round() as u64;
        let more = |title: &str| row.number(title).map(|rate| (rate * seconds).round() as u64);
        let pages = |row: &Row| row.number("RSS").map(|bytes| bytes / self.page as f64);
        let resident = pages(row).filter(|_| is_there).unwrap_or(0.0);
        let growth = before.and_then(pages).filter(|_| is_there).map_or(0.0, |then| resident - then);
        let threads = row.whole("Threads").and_then(|threads| u32::try_from(threads).ok());
        Seen {
            who,
            did: ProcessPoint {
                at: 0,
                state,
                utime: ticks(user),
                stime: ticks(system),
                minor_faults: more("Minflt").unwrap_or(0),
                major_faults: more("Majflt").unwrap_or(0),
                threads: threads.filter(|_| is_there).unwrap_or(0),
                resident_pages: resident as u64,
                run_ns: None,
                wait_ns: None,
                voluntary_switches: None,
                involuntary_switches: None,
                swap_kb: row.number("Swap").map(|bytes| if is_there { (bytes / 1024.0) as u64 } else { 0 }),
                read_bytes: more("Reads"),
                write_bytes: more("Writes"),
            },
            resident_growth: growth as i64,
            is_new,
        }
    }
}

fn who(pid: u32, row: &Row, tables: &Tables, since_boot: i64) -> Process {
    let line = |title: &str| {
        let text = row.text(title, &tables.texts)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    Process {
        pid,
        ppid: row.whole("Ppid").and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
        start_ticks: u64::try_from(since_boot).unwrap_or(0).saturating_mul(HERTZ),
        comm: row.text("Comm", &tables.texts).unwrap_or("?").chars().take(MAX_NAME).collect(),
        cgroup: line("Cgroup"),
        command: line("Cmdline"),
        ..Process::default()
    }
}
