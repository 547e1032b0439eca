//! All processes from one pass over the kernel's tasks: the same figures as /proc/PID gives, thread groups summed.

mod record;

use crate::host::Host;
use crate::mechanism::ebpf::{Kernel, TaskIterator, include_bytes_aligned};
use crate::model::Unavailable;

pub(super) use record::Group;

/// Below this many processes, reading /proc is cheaper than loading the kernel's types: some 40 ms and 40 MB.
pub(super) const WORTH_FROM: usize = 1000;

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
        let kernel = Kernel::open(host)?;
        let object =
            include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/collectors/processes/kernel/tasks.bpf.o"));
        let iterator = TaskIterator::open(&kernel, object, "tasks")?;
        Ok(Self { iterator, bytes: Vec::new(), ticks_per_second: host.facts().ticks_per_second.max(1) })
    }

    /// Every process at this moment, in ascending order of pid.
    pub(super) fn read(&mut self) -> std::io::Result<Vec<Group>> {
        self.iterator.read(&mut self.bytes)?;
        Ok(record::groups(&self.bytes, self.ticks_per_second))
    }
}
