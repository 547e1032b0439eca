//! The processes that atop saw: a row in each of four labels, of which PRG says who it is and the others what it used.

use super::super::building::Building;
use super::super::figures::{figure, signed};
use super::super::processes::Seen;
use super::{MAX_NAME, Row, rows, text, whole};
use rdiag_model::RawUnit;
use rdiag_model::recording::{Process, ProcessPoint};

/// Characters of a command line or a path of a control group.
const MAX_LINE: usize = 1024;
/// A sector, and a kibibyte.
const SECTOR: u64 = 512;
const KIBI: u64 = 1024;

/// What turns atop's units into those of the kernel.
pub(super) struct Tasks {
    pub(super) hertz: u64,
    pub(super) page: u64,
    /// In seconds since 1970.
    pub(super) boot: u64,
}

/// The table of processes, and how many there are.
pub(super) fn tasks(sample: &Row, units: &Tasks, building: &mut Building) {
    // Rows of all four labels are in one order.
    let (mut cpu, mut memory, mut storage) = (rows(sample, "PRC"), rows(sample, "PRM"), rows(sample, "PRD"));
    let (mut total, mut zombies, mut waiting, mut runnable, mut threads) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for row in rows(sample, "PRG") {
        let pid = whole(row, "pid");
        let same = |other: Option<&Row>| other.filter(|other| whole(other, "pid") == pid).cloned().unwrap_or_default();
        let (cpu, memory, storage) = (same(cpu.next()), same(memory.next()), same(storage.next()));
        if whole(row, "isproc") != Some(1) {
            continue;
        }
        let state = text(row, "state").and_then(|state| state.chars().next()).unwrap_or('?');
        let is_there = state != 'E';
        if is_there {
            total += 1.0;
            zombies += f64::from(u8::from(state == 'Z'));
            waiting += f64::from(u8::from(state == 'D'));
            threads += figure(row, "nthr").unwrap_or(0.0);
            // atop runs while it reads.
            runnable += figure(row, "nthrrun").filter(|_| name(row) != "atop").unwrap_or(0.0);
        }
        let Some(pid) = pid.and_then(|pid| u32::try_from(pid).ok()) else { continue };
        if !sample.contains_key("PRC") {
            continue;
        }
        let (utime, stime) = (whole(&cpu, "utime").unwrap_or(0), whole(&cpu, "stime").unwrap_or(0));
        let ticks = utime.saturating_add(stime);
        let pages = |kibibytes: u64| kibibytes.saturating_mul(KIBI) / units.page.max(1);
        let now = |level: Option<u64>| level.filter(|_| is_there);
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR);
        let growth =
            signed(&memory, "rgrow").filter(|_| is_there).unwrap_or(0.0) * KIBI as f64 / units.page.max(1) as f64;
        let since_boot = whole(row, "btime").unwrap_or(0).saturating_sub(units.boot);
        building.table.see(Seen {
            who: Process {
                pid,
                ppid: whole(row, "ppid").and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
                start_ticks: since_boot.saturating_mul(units.hertz),
                comm: name(row).chars().take(MAX_NAME).collect(),
                uid: whole(row, "euid").and_then(|uid| u32::try_from(uid).ok()),
                cgroup: line(row, "cgroup"),
                command: line(row, "cmdline"),
                ..Process::default()
            },
            did: ProcessPoint {
                at: 0,
                state: if is_there { state } else { 'X' },
                utime,
                stime,
                minor_faults: whole(&memory, "minflt").unwrap_or(0),
                major_faults: whole(&memory, "majflt").unwrap_or(0),
                threads: now(whole(row, "nthr")).and_then(|threads| u32::try_from(threads).ok()).unwrap_or(0),
                resident_pages: now(whole(&memory, "rmem")).map_or(0, pages),
                // What the scheduler counts is this time, in nanoseconds. atop has the wait in milliseconds.
                run_ns: Some(ticks.saturating_mul(1_000_000_000 / units.hertz.max(1))),
                wait_ns: whole(&cpu, "rundelay").map(|wait| wait.saturating_mul(1_000_000)),
                voluntary_switches: whole(&cpu, "nvcsw"),
                involuntary_switches: whole(&cpu, "nivcsw"),
                swap_kb: whole(&memory, "vswap").map(|swap| if is_there { swap } else { 0 }),
                read_bytes: whole(&storage, "rsz").map(bytes),
                write_bytes: whole(&storage, "wsz").map(bytes),
            },
            resident_growth: growth as i64,
            is_new: text(row, "st").is_some_and(|st| st.starts_with('N')),
        });
    }
    if sample.contains_key("PRG") {
        for (name, level) in [
            ("processes.total", total),
            ("processes.zombies", zombies),
            ("processes.uninterruptible", waiting),
            ("loadavg.runnable", runnable),
            ("loadavg.entities", threads),
        ] {
            building.level(name, "", RawUnit::Count, Some(level));
        }
    }
}

/// The name of a process: in parentheses up to atop 2.8, as it is in later versions, which call the key `cmd`.
fn name(row: &Row) -> &str {
    text(row, "cmd").or_else(|| text(row, "name").map(bare)).unwrap_or("?")
}

fn bare(text: &str) -> &str {
    text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text)
}

/// A command line or a path; `-` and an empty one stand for none.
fn line(row: &Row, key: &str) -> Option<String> {
    let text = bare(text(row, key)?).trim();
    (!["", "-"].contains(&text)).then(|| text.chars().take(MAX_LINE).collect())
}
