//! Why there is no such point.

use rdiag_model::{Reason, Unavailable};

/// Why there is no such point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointError {
    /// A sentence.
    pub message: String,
    /// What was written, and what could have been meant.
    pub near: Option<(String, Vec<String>)>,
    /// The kind of reason.
    pub reason: Reason,
}

impl PointError {
    pub(super) fn absent(message: String, written: &str, known: Vec<String>) -> Self {
        Self { message, near: Some((written.to_owned(), known)), reason: Reason::Absent }
    }

    pub(super) fn plain(reason: Reason, message: String) -> Self {
        Self { message, near: None, reason }
    }

    /// As the reason why nothing was measured.
    #[must_use]
    pub fn gap(self) -> Unavailable {
        let gap = Unavailable::new(self.reason, self.message);
        if self.reason == Reason::Denied { gap.with_remedy("run rdiag as root") } else { gap }
    }
}
