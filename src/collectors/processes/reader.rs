//! Reading the files of one process. Nothing here allocates once the buffers have grown to their size.

use std::fmt::Write as _;

use super::table::{Entry, Thread};
use rdiag_kernel::host::{OpenFile, ProcessDir, SourceError};
use rdiag_model::{ProcessPoint, Reason};
use rdiag_proc::{LoadAverage, process};

/// Of a process with more threads than this, the others' waiting is not counted.
const MAX_THREADS_OF_PROCESS: usize = 256;

/// How many tasks there are, and the newest process id of this namespace, from /proc/loadavg.
///
/// Ids are given out in ascending order, so that a new process or thread, of this namespace or one below, moves the second
/// number. One that goes moves the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Generation {
    tasks: u32,
    newest: u64,
}

fn generation(bytes: &[u8]) -> Option<Generation> {
    let LoadAverage { tasks, newest, .. } = LoadAverage::parse(bytes)?;
    // Sandboxes that only imitate the file write zeros.
    Some(Generation { tasks, newest: newest? }).filter(|now| now.tasks > 0 && now.newest > 0)
}

/// /proc, with the buffers that all reads share.
pub(crate) struct Reader {
    dir: ProcessDir,
    /// What told the newest list of processes from an older one.
    listed: Option<Generation>,
    name: String,
    buffer: Vec<u8>,
    target: Vec<u8>,
    tids: Vec<u32>,
    threads: Vec<Thread>,
}

impl Reader {
    pub(crate) fn new(dir: ProcessDir) -> Self {
        Self {
            dir,
            listed: None,
            name: String::new(),
            buffer: Vec::new(),
            target: Vec::new(),
            tids: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// Looks at another instant of a recorded tree.
    pub(crate) fn turn_to(&mut self, dir: ProcessDir) {
        self.dir = dir;
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.dir.is_recorded()
    }

    /// The ids of all processes. `pids` holds those of the call before: they stay if no process came or went since.
    pub(crate) fn pids(&mut self, pids: &mut Vec<u32>) -> Result<(), SourceError> {
        let now = self.generation();
        if now.is_some() && now == self.listed && !pids.is_empty() {
            return Ok(());
        }
        self.listed = None;
        self.dir.list("", pids)?;
        self.listed = now;
        Ok(())
    }

    /// What changes when a process comes or goes; none where that is not known. Asking costs as much as five entries of
    /// the list.
    fn generation(&mut self) -> Option<Generation> {
        if !self.dir.loadavg_is_its_own() {
            return None;
        }
        generation(self.dir.read("loadavg", &mut self.buffer).ok()?)
    }

    /// The ids of a process's threads.
    pub(crate) fn tids(&mut self, pid: u32, tids: &mut Vec<u32>) -> Result<(), SourceError> {
        self.name.clear();
        let _ = write!(self.name, "{pid}/task");
        self.dir.list(&self.name, tids)
    }

    /// How many files a process has open: the size of its directory where the kernel counts there, else its length.
    pub(crate) fn open_files(&mut self, pid: u32, counted: bool) -> Result<u64, SourceError> {
        self.name.clear();
        let _ = write!(self.name, "{pid}/fd");
        if counted {
            return self.dir.size(&self.name);
        }
        let mut numbers = std::mem::take(&mut self.tids);
        let listed = self.dir.list(&self.name, &mut numbers);
        let count = numbers.len() as u64;
        self.tids = numbers;
        listed.map(|()| count)
    }

    /// The numbers of a process's open files.
    pub(crate) fn descriptors(&mut self, pid: u32, found: &mut Vec<u32>) -> Result<(), SourceError> {
        self.name.clear();
        let _ = write!(self.name, "{pid}/fd");
        self.dir.list(&self.name, found)
    }

    /// What one of a process's open files is called: a path, or the kernel's name for something that has none.
    pub(crate) fn open_name(&mut self, pid: u32, descriptor: u32) -> Result<&[u8], SourceError> {
        self.name.clear();
        let _ = write!(self.name, "{pid}/fd/{descriptor}");
        self.target = self.dir.link(&self.name, std::mem::take(&mut self.target))?;
        Ok(&self.target)
    }

    /// The stat(2) result of one of a process's open files. It waits for the file system.
    pub(crate) fn open_file(&mut self, pid: u32, descriptor: u32) -> Result<OpenFile, SourceError> {
        self.name.clear();
        let _ = write!(self.name, "{pid}/fd/{descriptor}");
        self.dir.behind(&self.name)
    }

    /// A file of a process.
    pub(crate) fn file(&mut self, pid: u32, file: &str) -> Result<&[u8], SourceError> {
        self.name.clear();
        push(&mut self.name, pid);
        self.name.push('/');
        self.name.push_str(file);
        self.dir.read(&self.name, &mut self.buffer)
    }

    /// A file of a thread.
    pub(crate) fn thread_file(&mut self, pid: u32, tid: u32, file: &str) -> Result<&[u8], SourceError> {
        self.name.clear();
        push(&mut self.name, pid);
        self.name.push_str("/task/");
        push(&mut self.name, tid);
        self.name.push('/');
        self.name.push_str(file);
        self.dir.read(&self.name, &mut self.buffer)
    }

    /// Fills in what schedstat, status and io tell.
    pub(super) fn details(&mut self, entry: &mut Entry, point: &mut ProcessPoint) {
        self.scheduling(entry, point);
        self.status_and_io(entry, point);
    }

    /// Time on a CPU and waiting for one, over the threads; returns whether any of it moved since the last reading.
    pub(super) fn scheduling(&mut self, entry: &mut Entry, point: &mut ProcessPoint) -> bool {
        let moved = if point.threads <= 1 || entry.leader_only { self.leader(entry) } else { self.all_threads(entry) };
        if moved.is_some() {
            point.run_ns = Some(entry.run_ns);
            point.wait_ns = Some(entry.wait_ns);
        }
        moved.unwrap_or(false)
    }

    fn leader(&mut self, entry: &mut Entry) -> Option<bool> {
        let pid = entry.process.pid;
        let times = process::schedstat(self.file(pid, "schedstat").ok()?)?;
        let now = Thread { tid: pid, run: times.run, wait: times.wait, slices: times.turns };
        let moved = now != entry.leader || !entry.others.is_empty();
        entry.add(entry.leader, now);
        entry.leader = now;
        entry.others.clear();
        Some(moved)
    }

    fn all_threads(&mut self, entry: &mut Entry) -> Option<bool> {
        let pid = entry.process.pid;
        let mut tids = std::mem::take(&mut self.tids);
        let listed = self.tids(pid, &mut tids);
        let complete = tids.len() <= MAX_THREADS_OF_PROCESS;
        tids.truncate(MAX_THREADS_OF_PROCESS);
        let first = entry.leader.tid == 0;
        let mut moved = false;
        self.threads.clear();
        for tid in tids.iter().copied() {
            let Ok(bytes) = self.thread_file(pid, tid, "schedstat") else { continue };
            let Some(times) = process::schedstat(bytes) else { continue };
            let now = Thread { tid, run: times.run, wait: times.wait, slices: times.turns };
            let known = if tid == pid { (!first).then_some(entry.leader) } else { entry.other(tid) };
            // A thread that was not there before was born since, unless it only moved up into the part that is read.
            let before = match known {
                Some(thread) => thread,
                None if first || complete => Thread { tid, ..Thread::default() },
                None => now,
            };
            moved |= before != now;
            entry.add(before, now);
            if tid == pid {
                entry.leader = now;
            } else {
                self.threads.push(now);
            }
        }
        self.tids = tids;
        listed.ok()?;
        self.threads.sort_unstable_by_key(|thread| thread.tid);
        moved |= self.threads.len() != entry.others.len();
        entry.others.clear();
        entry.others.reserve_exact(self.threads.len());
        entry.others.extend_from_slice(&self.threads);
        Some(moved)
    }

    /// Switches, swap and storage traffic.
    pub(super) fn status_and_io(&mut self, entry: &mut Entry, point: &mut ProcessPoint) {
        let pid = entry.process.pid;
        if let Ok(bytes) = self.file(pid, "status") {
            let status = process::status(bytes);
            entry.real_uid = status.real_uid.or(entry.real_uid);
            entry.process.uid = status.uid.or(entry.process.uid);
            point.swap_kb = status.swap_kb;
            point.voluntary_switches = status.voluntary;
            point.involuntary_switches = status.involuntary;
        }
        // A read that is denied once is denied again: retrying every second would only cost.
        if entry.io_denied {
            return;
        }
        match self.file(pid, "io") {
            Ok(bytes) => (point.read_bytes, point.write_bytes) = process::io(bytes),
            Err(error) => entry.io_denied = error.reason == Reason::Denied,
        }
    }
}

/// Writes a number: that happens for each file, and formatting with all its options would cost a third of parsing it.
fn push(name: &mut String, mut number: u32) {
    let mut digits = [0_u8; 10];
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    let written = digits.get(digits.len() - length..).unwrap_or_default();
    name.push_str(std::str::from_utf8(written).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::{generation, push};

    #[test]
    fn numbers_are_written_as_anybody_would() {
        for number in [0, 7, 10, 4_194_304, u32::MAX] {
            let mut name = String::from("x");
            push(&mut name, number);
            assert_eq!(name, format!("x{number}"));
        }
    }

    #[test]
    fn a_task_that_comes_or_goes_makes_another_generation() {
        let now = generation(b"0.10 0.20 0.30 2/345 6789\n").unwrap();
        assert_eq!(generation(b"9.99 0.20 0.30 7/345 6789\n"), Some(now), "load and runnable tasks say nothing of it");
        assert_ne!(generation(b"0.10 0.20 0.30 2/344 6789\n"), Some(now));
        assert_ne!(generation(b"0.10 0.20 0.30 2/345 6790\n"), Some(now));
        assert_eq!(generation(b"0.00 0.00 0.00 0/0 0\n"), None);
        assert_eq!(generation(b"0.10 0.20 0.30 2/345\n"), None);
        assert_eq!(generation(b""), None);
    }
}
