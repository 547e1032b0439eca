//! Callers of code without frame pointers, by the tables that every program has for its exceptions (`.eh_frame`).
//!
//! What is walked is a copy of a thread's registers and of the top of its stack, taken while it ran (a [`Dump`]). A table's row says for a
//! range of code where the frame of its caller begins and which registers were saved where. A file is its owner's word, so the process
//! that reads symbols looks rows up (`reader/tables.rs`) and is told nothing but offsets; to follow a row is arithmetic on the copy
//! (`step.rs`), which cannot lead out of it. Rows are remembered (`rows.rs`): a busy program executes the same code again and again.
//!
//! Nothing is guessed. Where no table says how to go on the stack ends, and where frame pointers lead further, theirs is taken whole;
//! but for who wants them followed there ([`Dump::follows_pointers`]).

mod dump;
mod files;
mod registers;
mod row;
mod rows;
mod step;
mod way;

pub use dump::{ByTables, Dump, Step, Walked};
pub use registers::{COUNT, Registers, SUPPORTED, WORDS};
pub(super) use registers::{MACHINE, PC};
pub(super) use row::{Base, Row, Rule, Value};
pub(super) use rows::Rows;
pub use way::{FOLLOWS_POINTERS, Plain, Way};

use super::mapped::Mapped;
use super::maps::Maps;
use super::process::Process;
use super::worker::{Of, Worker};
use super::{Symbols, sees_map_files};
use crate::host::Host;

/// Bytes of dumps that may wait to be walked.
const MAX_WAITING: usize = 32 << 20;

impl Symbols {
    /// Has the stacks of a process walked, which must live. Answers come later, see [`Symbols::walked`].
    pub fn unwind(&mut self, host: &Host, process: Process, dumps: Vec<Dump>) {
        let waiting: usize = dumps.iter().map(|dump| dump.bytes.len()).sum();
        let places: Vec<u64> = dumps.iter().map(|dump| dump.registers.pc()).collect();
        let tickets: Vec<u64> = dumps.iter().map(|dump| dump.ticket).collect();
        if self.worker.is_none() && !self.given_up {
            self.worker = Worker::start();
        }
        let by_link = sees_map_files(host);
        let mapped =
            (self.dumped.saturating_add(waiting) <= MAX_WAITING).then(|| self.mapped_of(host, process, &places));
        let is_asked = match (mapped.flatten(), &mut self.worker) {
            (Some(Mapped { maps, same_mounts, .. }), Some(worker)) if by_link || same_mounts => {
                let of = Of::Process { pid: process.pid, by_link, by_path: same_mounts };
                worker.ask_stacks(of, process, dumps, maps)
            }
            _ => false,
        };
        if is_asked {
            self.dumped = self.dumped.saturating_add(waiting);
        } else {
            self.walked.extend(tickets.into_iter().map(|ticket| Walked {
                ticket,
                stack: None,
                steps: Vec::new(),
                is_guessed: false,
                unfinished: None,
            }));
        }
    }

    /// What was walked meanwhile.
    pub fn walked(&mut self, host: &Host) -> Vec<Walked> {
        self.catch_up(host);
        std::mem::take(&mut self.walked)
    }

    /// The same, and waits for so many seconds while some of it is to come.
    pub fn walked_within(&mut self, host: &Host, seconds: f64) -> Vec<Walked> {
        let until = host.now() + seconds;
        while self.dumped > 0 {
            let Some(Ok(answer)) = self.worker.as_mut().map(|worker| worker.answer(until - host.now())) else { break };
            self.take(answer);
        }
        self.walked(host)
    }
}

/// How many of the addresses that frame pointers lead to can be callers: where one is none of code, the rest is no stack.
fn believed(maps: &Maps, pointers: &[u64]) -> usize {
    let is_code = |(place, at): &(usize, &u64)| maps.kind(at.saturating_sub(u64::from(*place > 0))).is_some();
    pointers.iter().enumerate().take_while(is_code).count()
}
