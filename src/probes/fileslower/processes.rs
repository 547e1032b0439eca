//! The same operations by process: how much time they took, and of which file most of it was.

use std::collections::BTreeMap;

use super::Slow;
use crate::table::TableSpec;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// Types of file systems whose files are no storage: who reads such a file waits for something to tell.
const NO_STORAGE: [&str; 12] = [
    "proc",
    "sysfs",
    "tracefs",
    "debugfs",
    "cgroup",
    "cgroup2",
    "securityfs",
    "configfs",
    "pstore",
    "bpf",
    "efivarfs",
    "devpts",
];

/// Distinct processes, and files of all of them; the rest is summed up.
const MOST_PROCESSES: usize = 1024;
const MOST_FILES: usize = 4096;

/// Slow operations since the last reading.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: BTreeMap<u64, Waited>,
    files: usize,
    others: f64,
}

#[derive(Debug, Default)]
struct Waited {
    name: String,
    time: f64,
    count: u64,
    longest: f64,
    files: BTreeMap<String, f64>,
}

impl Processes {
    pub(super) fn add(&mut self, slow: &Slow) {
        if NO_STORAGE.contains(&slow.file_system.as_str()) {
            return;
        }
        if !self.known.contains_key(&slow.pid) && self.known.len() >= MOST_PROCESSES {
            self.others += slow.took;
            return;
        }
        let waited = self.known.entry(slow.pid).or_default();
        waited.name.clone_from(&slow.name);
        waited.time += slow.took;
        waited.count += 1;
        waited.longest = waited.longest.max(slow.took);
        if let Some(time) = waited.files.get_mut(&slow.file) {
            *time += slow.took;
        } else if self.files < MOST_FILES {
            self.files += 1;
            waited.files.insert(slow.file.clone(), slow.took);
        }
    }

    /// A row for each process, most time first; the file is that of more than half of the time.
    pub(super) fn take(&mut self, seconds: f64, top: usize) -> ProbeTable {
        let Self { known, others, .. } = std::mem::take(self);
        let mut all: Vec<(u64, Waited)> = known.into_iter().collect();
        all.sort_by(|(_, a), (_, b)| b.time.total_cmp(&a.time));
        let left_out = all.split_off(top.min(all.len()));
        let title = "Processes by the time of slow operations on files of storage";
        let spec = TableSpec::<(u64, Waited)>::new("processes", title)
            .rows("process", |(pid, _)| pid.to_string())
            .text("name", "process", |(_, waited)| waited.name.clone())
            .text("pid", "pid", |(pid, _)| pid.to_string())
            .sum("time", "time", Unit::Seconds, |(_, waited)| waited.time)
            .sum("share", "share of the time", Unit::Ratio, |(_, waited)| waited.time / seconds)
            .number("count", "times", Unit::Count, |(_, waited)| waited.count as f64)
            .number("max", "longest", Unit::Seconds, |(_, waited)| waited.longest)
            .text("file", "mostly for", |(_, waited)| {
                let most = waited.files.iter().find(|(_, time)| **time * 2.0 > waited.time);
                most.map(|(name, _)| name.clone())
            });
        let mut table = spec.all(all);
        table.others = left_out.len() as u64;
        let time = left_out.iter().fold(others, |rest, (_, waited)| rest + waited.time);
        if time > 0.0 {
            spec.leave_out(&(0, Waited { time, ..Waited::default() }), &mut table);
            // At least one more where the table of processes was full.
            table.others = (left_out.len() as u64).max(1);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn slow(pid: u64, took: f64, file_system: &str, file: &str) -> Slow {
        Slow { pid, took, name: "db".into(), file_system: file_system.into(), file: file.into(), ..Slow::default() }
    }

    #[test]
    fn who_lost_most_comes_first_with_the_file_of_more_than_half_of_it() {
        let mut processes = Processes::default();
        for (pid, took, file) in [(7, 0.5, "/a"), (7, 0.25, "/b"), (8, 1.0, "/a"), (8, 1.0, "/b"), (9, 0.25, "/c")] {
            processes.add(&slow(pid, took, "ext4", file));
        }
        processes.add(&slow(7, 99.0, "proc", "/proc/kmsg"));
        let table = processes.take(2.0, 2);
        let told: Vec<_> = table.rows.iter().map(|row| (row.instance.as_str(), row.cells[2..].to_vec())).collect();
        assert_eq!(told[0], ("8", vec![2.0.into(), 1.0.into(), 2.0.into(), 1.0.into(), Cell::Unknown(())]));
        assert_eq!(told[1], ("7", vec![0.75.into(), 0.375.into(), 2.0.into(), 0.5.into(), "/a".into()]));
        assert_eq!((table.others, table.others_sum["time"], table.others_sum["share"]), (1, 0.25, 0.125));
        assert!(processes.take(2.0, 2).rows.is_empty());
    }

    #[test]
    fn more_processes_than_are_told_apart_are_summed_up() {
        let mut processes = Processes::default();
        for pid in 0..MOST_PROCESSES as u64 + 3 {
            processes.add(&slow(pid, 1.0, "xfs", "/x"));
        }
        let table = processes.take(1.0, MOST_PROCESSES);
        assert_eq!((table.rows.len(), table.others, table.others_sum["time"]), (MOST_PROCESSES, 1, 3.0));
    }
}
