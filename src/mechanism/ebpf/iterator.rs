//! Programs that the kernel runs once for each of its tasks, whenever somebody reads.

use std::io::{self, Read as _};

use aya::programs::Program;

use super::{Kernel, Object, error};
use crate::model::{Reason, Unavailable};

/// What one reading may give at most: some 300 000 threads.
const MAX_BYTES: u64 = 64 << 20;

/// A task iterator (Linux 5.8).
#[derive(Debug)]
pub struct TaskIterator {
    object: Object,
    program: &'static str,
}

impl TaskIterator {
    /// Loads a program of the section `iter/task`.
    pub fn open(kernel: &Kernel, bytes: &[u8], program: &'static str) -> Result<Self, Unavailable> {
        let mut object = kernel.load(bytes, Vec::new(), &[])?;
        match object.ebpf.program_mut(program) {
            Some(Program::Iter(iterator)) => iterator
                .load("task", kernel.btf())
                .map_err(|e| error::of_attempts("the list of tasks", &[error::refusal(&e)], error::is_denied(&e)))?,
            _ => return Err(Unavailable::new(Reason::Malformed, format!("the object has no iterator {program}"))),
        }
        Ok(Self { object, program })
    }

    /// Runs the program for every task, and puts all that it wrote into `out`.
    pub fn read(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        let Some(Program::Iter(iterator)) = self.object.ebpf.program_mut(self.program) else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        // A link serves one reading: its descriptor becomes the file that is read.
        let link = iterator.attach().and_then(|id| iterator.take_link(id)).map_err(io::Error::other)?;
        let file = link.into_file().map_err(io::Error::other)?;
        file.take(MAX_BYTES).read_to_end(out)?;
        Ok(())
    }
}
