//! How the host is set up, read once for each block. On a thread of its own, since a file of a sick device may hang, and samples must not
//! wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use rdiag_kernel::host::{SharedHost, setup};

/// Bytes of names and values: a header stays short, so that many can be listed.
const MOST: usize = 32 << 10;

/// What was read last, and what is being read.
#[derive(Debug, Default)]
pub(super) struct Settings {
    known: BTreeMap<String, String>,
    reading: Option<Receiver<BTreeMap<String, String>>>,
}

impl Settings {
    /// Begins to read, unless that still goes on: a file that hangs takes one thread, not one for each block.
    pub(super) fn read(&mut self, host: &SharedHost) {
        self.take();
        if self.reading.is_some() {
            return;
        }
        let (sender, receiver) = channel();
        let host = Arc::clone(host);
        let reading = std::thread::Builder::new().name("settings".into()).spawn(move || {
            // The receiver is gone when the recorder has ended.
            let _ = sender.send(bounded(setup::read_all(&host).facts));
        });
        self.reading = reading.is_ok().then_some(receiver);
    }

    /// What is known by now.
    pub(super) fn known(&mut self) -> BTreeMap<String, String> {
        self.take();
        self.known.clone()
    }

    fn take(&mut self) {
        match self.reading.as_ref().map(Receiver::try_recv) {
            Some(Ok(read)) => (self.known, self.reading) = (read, None),
            Some(Err(TryRecvError::Disconnected)) => self.reading = None,
            Some(Err(TryRecvError::Empty)) | None => {}
        }
    }
}

fn bounded(facts: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut room = MOST;
    let fits = |(name, value): &(String, String)| {
        let left = room.checked_sub(name.len() + value.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    facts.into_iter().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_bounded() {
        let facts = |count: usize| (0..count).map(|at| (format!("{at:06}"), "x".repeat(94))).collect();
        assert_eq!(bounded(facts(300)).len(), 300);
        assert_eq!(bounded(facts(5000)).len(), MOST / 100);
    }
}
