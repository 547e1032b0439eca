//! /proc/PID: what every process used.
//!
//! A host has thousands of processes of which few do anything, so cost follows activity: `stat` is read for each process at each sample;
//! schedstat, status and io, which cost three times as much, only when `stat` shows that the process did something since, and once at the
//! end. The list of processes is read again only when /proc/loadavg shows that a task was created or ended (`reader.rs`). On hosts with
//! many processes the kernel gives the whole table, where it allows that (`kernel/`).

use rdiag_proc::process::{self, Stat};

mod kernel;
mod metrics;
mod names;
pub(crate) mod reader;
mod table;
#[cfg(test)]
mod tests;
mod users;

use std::collections::HashMap;

use self::reader::Reader;
use self::table::{Table, point, push};
use self::users::Users;
use crate::def::{Cadence, Collect, CollectorDef, Sink, untraceable};
use kernel::{Group, Tasks};
use rdiag_kernel::host::{Host, ProcessDir};
use rdiag_model::{Facts, Process, ProcessPoint, Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "processes",
    help: "CPU time, waiting, memory, faults and storage traffic of each process, from /proc/PID.",
    cadence: Cadence::Interval,
    series: metrics::SERIES,
    metrics: metrics::METRICS,
    overhead: "per process about 4 µs per interval, 15 µs where it was active, and 0.5 KiB of memory",
    start: |_| Box::new(Processes::default()),
};

/// Parents of zombies that are named, the one with the most first.
const MAX_ZOMBIE_PARENTS: usize = 10;

#[derive(Default)]
pub(crate) struct Processes {
    reader: Option<Reader>,
    pub(crate) table: Table,
    pids: Vec<u32>,
    zombies_of: HashMap<u32, u32>,
    zombies_seen: bool,
    users: Users,
    hidden: bool,
    denied: usize,
    /// The way past /proc, where there are many processes and the kernel allows it.
    kernel: Option<Tasks>,
}

impl Collect for Processes {
    fn prepare(&mut self, host: &Host, out: &Sink) {
        let many = |dir: ProcessDir| dir.list("", &mut self.pids).is_ok() && self.pids.len() >= kernel::worth_from();
        if !host.is_recorded() && !host.is_seen_from_outside() && host.processes().is_ok_and(many) {
            self.kernel = Tasks::open(host).ok();
        }
        if self.kernel.is_some() {
            out.label("", "back_end", "task iterator");
        }
    }

    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let too_long = |_| Unavailable::new(Reason::NotApplicable, "the window has more samples than can be numbered");
        let at = u16::try_from(out.current()).map_err(too_long)?;
        let mut reader = match self.reader.take() {
            None => Reader::new(host.processes()?),
            Some(mut reader) => {
                if reader.is_recorded() {
                    reader.turn_to(host.processes()?);
                }
                reader
            }
        };
        // Should the kernel refuse now what it allowed at first, /proc has it too.
        let groups = self.kernel.as_mut().and_then(|tasks| tasks.read().ok());
        let mut pids = std::mem::take(&mut self.pids);
        let listed = if groups.is_some() { Ok(()) } else { reader.pids(&mut pids) };
        self.hidden |= host.facts().uid != 0 && !pids.contains(&1);
        self.denied = 0;
        self.zombies_of.clear();
        self.table.rewind();
        let (mut total, mut uninterruptible) = (0_u32, 0_u32);
        let mut count = |state: char| {
            total += 1;
            uninterruptible += u32::from(state == 'D');
        };
        if let Some(groups) = groups {
            for group in groups {
                count(self.take(group, at, host.facts().page_size));
            }
        } else {
            self.kernel = None;
            for pid in pids.iter().copied() {
                if let Some(state) = self.see(pid, at, &mut reader) {
                    count(state);
                }
            }
        }
        self.pids = pids;
        if listed.is_ok() {
            self.users.record(&self.table.entries, at, &mut reader, out);
        }
        self.reader = Some(reader);
        listed?;
        if !host.is_recorded() && !self.table.full && self.denied == 0 {
            host.asked().present.keep(host.now(), self.table.present(at));
        }
        if at == 0 {
            out.tell_sizes(self.table.sizes(host.facts().page_size));
        }
        self.zombies_seen |= !self.zombies_of.is_empty();
        out.level("processes.total", "", f64::from(total));
        out.level("processes.uninterruptible", "", f64::from(uninterruptible));
        out.level("processes.zombies", "", f64::from(self.zombies_of.values().sum::<u32>()));
        self.name_parents_of_zombies(out);
        Ok(())
    }

    fn so_far(&mut self, _: &Host, out: &Sink) {
        let Some(at) = out.current().checked_sub(1).and_then(|at| u16::try_from(at).ok()) else { return };
        out.processes(self.table.entries.iter().map(|entry| entry.process.clone()).collect());
        let Some(reader) = &mut self.reader else { return };
        let pid = |index: usize| self.table.entries.get(index).map(|entry| (index, entry.process.pid));
        let wanted: Vec<_> = names::that_matter(&self.table.entries, at).into_iter().filter_map(pid).collect();
        // Whose group has used its quota does not wait for a CPU.
        names::read_groups(&wanted, reader, out);
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let Some(mut reader) = self.reader.take() else { return };
        let Some(at) = out.current().checked_sub(1).and_then(|at| u16::try_from(at).ok()) else { return };
        if self.kernel.is_none() {
            self.last_look(at, &mut reader);
        }
        self.explain_gaps(host.facts(), out);
        self.users.name(host, out);
        let wanted = names::that_matter(&self.table.entries, at);
        let processes: Vec<Process> =
            std::mem::take(&mut self.table.entries).into_iter().map(|entry| entry.process).collect();
        let wanted: Vec<(usize, u32)> =
            wanted.into_iter().filter_map(|index| Some((index, processes.get(index)?.pid))).collect();
        // Published before the names are read: reading a command line can hang on the process's memory map.
        out.processes(processes);
        names::read(&wanted, &mut reader, out);
    }
}

impl Processes {
    /// Looks at one process; its state, or none when it is gone or may not be seen.
    fn see(&mut self, pid: u32, at: u16, reader: &mut Reader) -> Option<char> {
        let bytes = match reader.file(pid, "stat") {
            Ok(bytes) => bytes,
            Err(error) => {
                self.denied += usize::from(error.reason == Reason::Denied);
                return None;
            }
        };
        let (name, stat) = process::stat(bytes)?;
        if stat.state == 'Z' {
            *self.zombies_of.entry(stat.ppid).or_default() += 1;
        }
        let room = self.table.has_room();
        let Some(entry) = self.table.entry(pid, name, &stat, at) else { return Some(stat.state) };
        entry.process.last = at;
        // Address space that is only reserved is nothing that a process did.
        let before = entry.shown.replace(stat).map(|before| Stat { virtual_bytes: stat.virtual_bytes, ..before });
        if before != Some(stat) {
            entry.process.ppid = stat.ppid;
            if entry.process.comm.as_bytes() != name {
                entry.process.comm = String::from_utf8_lossy(name).into_owned();
            }
            let mut now = point(&stat, at);
            reader.details(entry, &mut now);
            push(&mut entry.process.points, now, room);
            self.table.count_point();
        }
        Some(stat.state)
    }

    /// Takes over one process as the kernel gave it; its state.
    fn take(&mut self, group: Group, at: u16, page_size: u64) -> char {
        let stat = group.stat(page_size);
        if stat.state == 'Z' {
            *self.zombies_of.entry(stat.ppid).or_default() += 1;
        }
        let room = self.table.has_room();
        let Some(entry) = self.table.entry(group.pid, group.comm.as_bytes(), &stat, at) else { return stat.state };
        entry.process.last = at;
        entry.shown = Some(stat);
        entry.process.ppid = stat.ppid;
        if entry.process.comm != group.comm {
            entry.process.comm.clone_from(&group.comm);
        }
        let mut now = point(&stat, at);
        group.details(entry, &mut now, page_size);
        let moved = entry.process.points.last().is_none_or(|last| ProcessPoint { at, ..last.clone() } != now);
        if moved {
            push(&mut entry.process.points, now, room);
            self.table.count_point();
        }
        stat.state
    }

    fn name_parents_of_zombies(&self, out: &Sink) {
        let mut parents: Vec<(u32, u32)> = self.zombies_of.iter().map(|(parent, count)| (*count, *parent)).collect();
        parents.sort_unstable_by(|a, b| b.cmp(a));
        for (count, parent) in parents.into_iter().take(MAX_ZOMBIE_PARENTS) {
            if let Some(entry) = self.table.of(parent) {
                let instance = format!("{parent}:{}", entry.process.start_ticks);
                out.level("processes.zombie_children", &instance, f64::from(count));
            }
        }
    }

    /// A process that used less than a tick shows nothing in stat, and may still have waited, switched and written.
    /// Its scheduler figures tell whether it ran at all; only if it did, the other files are worth reading.
    fn last_look(&mut self, at: u16, reader: &mut Reader) {
        for index in 0..self.table.entries.len() {
            let room = self.table.has_room();
            let Some(entry) = self.table.entries.get_mut(index) else { break };
            let Some(before) = entry.process.points.last().filter(|last| last.at < at && entry.process.last == at)
            else {
                continue;
            };
            let before = before.clone();
            let mut now = ProcessPoint { at, ..before.clone() };
            let ran = reader.scheduling(entry, &mut now);
            // Without scheduler figures, or with those of one thread of many, there is no telling.
            let unsure = entry.run_ns == 0 || (entry.leader_only && now.threads > 1);
            if ran || unsure {
                reader.status_and_io(entry, &mut now);
            }
            if before != (ProcessPoint { at: before.at, ..now.clone() }) {
                push(&mut entry.process.points, now, room);
                self.table.count_point();
            }
        }
    }

    fn explain_gaps(&mut self, facts: &Facts, out: &Sink) {
        let entries = &mut self.table.entries;
        let count = entries.len();
        let denied = entries.iter().filter(|entry| entry.io_denied).count();
        if denied > 0 {
            let what = format!("/proc/PID/io of {denied} of {count} processes");
            out.gap("io", "", untraceable(facts, &what));
        }
        if self.hidden || self.denied > 0 {
            let why = "/proc is mounted with hidepid: processes of other users are hidden";
            let gap = Unavailable::new(Reason::NotVisible, why);
            out.gap("stat", "", gap.with_remedy("run rdiag as root, or with CAP_SYS_PTRACE"));
        }
        if !self.zombies_seen {
            let gap = Unavailable::new(Reason::NotApplicable, "there were no zombies");
            out.gap("processes.zombie_children", "", gap);
        }
        if self.users.is_empty() {
            let why = "no user but root has many threads and a limit on them";
            out.gap("processes.of_user", "", Unavailable::new(Reason::NotApplicable, why));
        }
        if self.table.full {
            let why = "more processes came and went than are kept: small ones are missing, and times are coarse";
            out.gap("processes.table", "", Unavailable::new(Reason::ShortWindow, why));
        }
        // rdiag itself ran, so a kernel that keeps the figures shows more than 0 for some process.
        if count > 0 && entries.iter().all(|entry| entry.run_ns == 0) {
            for point in entries.iter_mut().flat_map(|entry| &mut entry.process.points) {
                (point.run_ns, point.wait_ns) = (None, None);
            }
            let why = "/proc/PID/schedstat is missing or 0 for every process: this kernel does not keep it";
            let gap = Unavailable::new(Reason::Absent, why);
            out.gap(
                "schedstat",
                "",
                gap.with_remedy("a kernel with CONFIG_SCHED_INFO; before 5.14, boot with delayacct"),
            );
        }
    }
}
