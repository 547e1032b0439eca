//! All processes from one pass over the kernel's tasks (a BPF task iterator) in place of /proc: the same figures as /proc/PID gives, thread
//! groups summed, without the text. With 3000 processes a whole run takes 0.21 s of CPU time this way, and 0.34 s with /proc
//! (`benches/README.md`).

mod record;

pub(super) use record::Group;

use super::table::{Entry, Thread};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Kernel, TaskIterator, include_bytes_aligned};
use rdiag_model::{ProcessPoint, Unavailable};
use rdiag_proc::process::Stat;

/// Below this many processes, /proc is the better way: it needs nothing of the kernel, and loading the program takes some 10 ms
/// of CPU time, which a window of 10 s gains back twice at this number.
const WORTH_FROM: usize = 500;

/// From how many processes on this way is taken. Tests cannot start that many, so the environment can say less.
pub(super) fn worth_from() -> usize {
    let told = std::env::var("RDIAG_ITERATE_TASKS_FROM").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(WORTH_FROM)
}

/// The kernel's tasks, ready to be read.
#[derive(Debug)]
pub(super) struct Tasks {
    iterator: TaskIterator,
    bytes: Vec<u8>,
    ticks_per_second: u64,
}

impl Tasks {
    /// Loads the program. The error says why /proc has to do.
    pub(super) fn open(host: &Host) -> Result<Self, Unavailable> {
        let kernel = Kernel::shared(host)?;
        let object = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/processes/kernel/tasks.bpf.o"));
        let iterator = TaskIterator::open(kernel, object, "tasks")?;
        Ok(Self { iterator, bytes: Vec::new(), ticks_per_second: host.facts().ticks_per_second.max(1) })
    }

    /// Every process at this moment, in ascending order of pid.
    pub(super) fn read(&mut self) -> std::io::Result<Vec<Group>> {
        self.iterator.read(&mut self.bytes)?;
        Ok(record::groups(&self.bytes, self.ticks_per_second))
    }
}

impl Group {
    /// What /proc/PID/stat would show.
    pub(super) fn stat(&self, page_size: u64) -> Stat {
        Stat {
            state: self.state,
            ppid: self.ppid,
            minor_faults: self.minor_faults,
            major_faults: self.major_faults,
            utime: self.utime,
            stime: self.stime,
            nice: self.nice,
            threads: self.threads,
            start_ticks: self.start_ticks,
            virtual_bytes: self.virtual_pages.saturating_mul(page_size),
            resident_pages: self.resident_pages.unwrap_or(0),
        }
    }

    /// Adds what schedstat, status and io would tell, and follows the threads.
    pub(super) fn details(self, entry: &mut Entry, point: &mut ProcessPoint, page_size: u64) {
        for now in std::iter::once(&self.leader).chain(&self.others) {
            let known = if now.tid == self.pid { Some(entry.leader) } else { entry.other(now.tid) };
            entry.add(known.unwrap_or(Thread { tid: now.tid, ..Thread::default() }), *now);
        }
        entry.leader = self.leader;
        entry.others = self.others;
        entry.process.uid = Some(self.euid);
        entry.real_uid = Some(self.uid);
        point.run_ns = Some(entry.run_ns);
        point.wait_ns = Some(entry.wait_ns);
        point.voluntary_switches = Some(self.voluntary);
        point.involuntary_switches = Some(self.involuntary);
        point.swap_kb = self.swap_pages.map(|pages| pages.saturating_mul(page_size) / 1024);
        point.read_bytes = Some(self.read_bytes);
        point.write_bytes = Some(self.write_bytes);
    }
}
