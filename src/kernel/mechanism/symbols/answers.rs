//! Questions to the thread that reads symbols, and what becomes of its answers.

use std::sync::Arc;

use super::maps::Maps;
use super::named::Named;
use super::worker::{self, Detail, Of, Worker};
use super::{Known, PATIENCE, Process, Symbols, kernel};
use crate::host::Host;
use rdiag_model::probe::Frame;

impl Symbols {
    /// Takes the names that have come meanwhile.
    pub fn catch_up(&mut self, host: &Host) {
        self.take_answers(host, 0.0);
    }

    /// Waits for the names that were asked for, but not for ever.
    pub fn settle(&mut self, host: &Host) {
        self.take_answers(host, PATIENCE);
    }

    pub(super) fn ask(
        &mut self,
        of: Of,
        process: Option<Process>,
        addresses: Vec<u64>,
        maps: Arc<Maps>,
        detail: Detail,
    ) {
        if self.worker.is_none() && !self.given_up {
            self.worker = Worker::start();
        }
        for address in &addresses {
            self.known.insert((process, *address), Known::Asked);
        }
        let asked = self.worker.as_mut().is_some_and(|worker| worker.ask(of, process, addresses, maps, detail));
        if !asked {
            self.give_up();
        }
    }

    pub(super) fn take_answers(&mut self, host: &Host, seconds: f64) {
        let Some(mut worker) = self.worker.take() else { return };
        let until = host.now() + seconds;
        let mut end = worker::End::Empty;
        while worker.outstanding > 0 {
            match worker.answer((until - host.now()).max(0.0)) {
                Ok(answer) => self.take(answer),
                Err(reason) => {
                    end = reason;
                    break;
                }
            }
        }
        if end == worker::End::Gone || (seconds > 0.0 && worker.outstanding > 0) {
            self.give_up();
        } else {
            self.worker = Some(worker);
        }
    }

    pub(super) fn take(&mut self, answer: worker::Symbolized) {
        self.notes.extend(answer.notes);
        // A process may have become another program.
        match answer.process.zip(answer.is_go) {
            Some((process, true)) => _ = self.of_go.insert(process),
            Some((process, false)) => _ = self.of_go.remove(&process),
            None => {}
        }
        let (walked, bytes) = answer.walked;
        self.dumped = self.dumped.saturating_sub(bytes);
        self.walked.extend(walked);
        for (address, names) in answer.addresses.into_iter().zip(answer.names) {
            let kernel = answer.process.is_none();
            let object = if kernel { Some(kernel::OBJECT) } else { answer.maps.object(address) };
            if names.is_empty() {
                // A second question, for lines, takes no name away.
                if matches!(self.known.get(&(answer.process, address)), Some(Known::Named(_))) {
                    continue;
                }
                self.unnamed(answer.process, address, Some(&answer.maps));
                continue;
            }
            let frame = |named: Named| Frame {
                name: named.name,
                object: named.module.or_else(|| object.map(str::to_owned)),
                line: named.line,
                kernel,
            };
            let frames = names.into_iter().map(|named| self.intern(frame(named))).collect();
            self.known.insert((answer.process, address), Known::Named(frames));
        }
    }

    /// The thread that looks names up hangs, or is gone: what it has not answered has no name.
    fn give_up(&mut self) {
        self.worker = None;
        self.given_up = true;
        self.notes.insert("looking up names took too long and was given up".into());
    }
}
