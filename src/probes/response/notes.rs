//! What a reader has to know of how a ledger was made.

use super::record::Record;
use super::watching::CallWatching;
use super::{Response, fill};
use rdiag_model::quantity;

impl Response {
    pub(super) fn notes(&self, records: &[Record], stop: u64) -> Vec<String> {
        let mut notes = Vec::new();
        if records.is_empty() {
            notes.push("no thread of those that were named was seen".to_owned());
        }
        notes.push(format!(
            "kernel stacks were taken of waits of at least {} and of one in 256 others",
            quantity::seconds(self.settings.threshold as f64 * 1e-9)
        ));
        let (first, last) = fill::lives(records, self.began, stop);
        if let Some(share) = self.calls.watched().share(first, last) {
            notes.push(format!(
                "system calls were watched in {} of the time, since that slows down everybody's: user and system time of \
                 threads that lived longer are divided as the kernel's ticks tell",
                quantity::percent(share)
            ));
        }
        if self.settings.calls == CallWatching::Never {
            notes.push(
                "system calls were not watched: user and system time are divided as the kernel's ticks tell".into(),
            );
        }
        if !self.settings.locks {
            notes.push(
                "no lock:contention_begin tracepoint (Linux 5.19 and later have it): waits for kernel locks are known by their stacks only"
                    .into(),
            );
        }
        if records.iter().any(|record| record.compat) {
            notes.push(
                "some calls were those of a 32-bit program, which are one row and whose files are not known".into(),
            );
        }
        notes
    }
}
