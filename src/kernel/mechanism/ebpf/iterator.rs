//! Programs that the kernel runs once for each of its tasks, or of its other objects, at each read.

use std::io::{self, Read as _};
use std::sync::Arc;

use aya::Btf;
use aya::programs::Program;

use super::{Kernel, Object, error};
use rdiag_model::{Reason, Unavailable};

/// The function that stands for the list of tasks.
const TASKS: &str = "bpf_iter_task";
/// What one reading may give at most: some 300 000 threads.
const MAX_BYTES: u64 = 64 << 20;

/// An object of which a task iterator is all (Linux 5.8).
#[derive(Debug)]
pub struct TaskIterator {
    object: Object,
    program: &'static str,
}

impl TaskIterator {
    /// Loads a program of the section `iter/task`.
    pub fn open(kernel: Arc<Kernel>, bytes: &[u8], program: &'static str) -> Result<Self, Unavailable> {
        let mut object = kernel.load(bytes, Vec::new(), &[])?;
        let tasks = kernel.function(TASKS);
        // What comes now takes as much memory as the kernel's types, which are freed here if they have no other user.
        drop(kernel);
        object.load_iterator_of(&tasks.types(), program, "task")?;
        Ok(Self { object, program })
    }

    /// Runs the program for every task, and puts all that it wrote into `out`.
    pub fn read(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.object.iterate(self.program, out)
    }
}

impl Object {
    /// Loads a program of the section `iter/KIND` (`task`, `bpf_map`), so that [`Self::iterate`] can run it.
    pub fn load_iterator(&mut self, kernel: &Kernel, program: &str, kind: &str) -> Result<(), Unavailable> {
        self.load_iterator_of(&kernel.points(), program, kind)
    }

    fn load_iterator_of(&mut self, types: &Btf, program: &str, kind: &str) -> Result<(), Unavailable> {
        let what = match kind {
            "task" => "the list of tasks",
            "bpf_map" => "the list of BPF maps",
            other => other,
        };
        match self.ebpf.program_mut(program) {
            Some(Program::Iter(iterator)) => iterator
                .load(kind, types)
                .map_err(|e| error::of_attempts(what, &[error::refusal(&e)], error::is_denied(&e))),
            _ => Err(Unavailable::new(Reason::Malformed, format!("the object has no iterator {program}"))),
        }
    }

    /// Runs an iterator for everything of its kind, and puts all that it wrote into `out`.
    pub fn iterate(&mut self, program: &str, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        let Some(Program::Iter(iterator)) = self.ebpf.program_mut(program) else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        // A link serves one reading: its descriptor becomes the file that is read.
        let link = iterator.attach().and_then(|id| iterator.take_link(id)).map_err(io::Error::other)?;
        let file = link.into_file().map_err(io::Error::other)?;
        file.take(MAX_BYTES).read_to_end(out)?;
        Ok(())
    }
}
