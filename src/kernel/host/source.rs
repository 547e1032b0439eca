//! The reasons why a file could not be read: missing, denied, disabled, hung, malformed.

use std::io;

use thiserror::Error;

use rdiag_model::{Reason, Unavailable};

/// A source that gave nothing usable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("/{path}: {problem}")]
pub struct SourceError {
    /// The file, without its leading slash.
    pub path: String,
    /// Class.
    pub reason: Reason,
    /// What happened, in words that follow the path.
    pub problem: String,
}

impl SourceError {
    /// From an error of the operating system.
    pub fn io(path: &str, error: &io::Error) -> Self {
        use rustix::io::Errno;
        let (reason, problem) = match Errno::from_io_error(error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO | Errno::SRCH) => {
                (Reason::Absent, "does not exist".to_owned())
            }
            Some(Errno::ACCESS | Errno::PERM) => (Reason::Denied, "permission denied".to_owned()),
            Some(Errno::OPNOTSUPP) => (Reason::Disabled, "exists, but is switched off in this kernel".to_owned()),
            Some(Errno::TIMEDOUT) => (Reason::Hung, "did not answer in time".to_owned()),
            _ => (Reason::Malformed, format!("cannot be read: {error}")),
        };
        Self { path: path.to_owned(), reason, problem }
    }

    /// The content was not what this file holds.
    pub fn malformed(path: &str, problem: String) -> Self {
        Self { path: path.to_owned(), reason: Reason::Malformed, problem }
    }

    /// As a gap in a report. A denied file suggests root, since no smaller right opens files of other users;
    /// collectors that know a smaller one say so instead.
    pub fn gap(&self) -> Unavailable {
        let gap = Unavailable::new(self.reason, self.to_string());
        match self.reason {
            Reason::Denied => gap.with_remedy("run rdiag as root"),
            _ => gap,
        }
    }
}

impl From<SourceError> for Unavailable {
    fn from(error: SourceError) -> Self {
        error.gap()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::SourceError;
    use rdiag_model::Reason;

    #[test]
    fn what_the_kernel_answers_is_told_apart() {
        for (errno, reason) in [
            (Errno::NOENT, Reason::Absent),
            (Errno::SRCH, Reason::Absent),
            (Errno::ACCESS, Reason::Denied),
            (Errno::PERM, Reason::Denied),
            (Errno::OPNOTSUPP, Reason::Disabled),
            (Errno::TIMEDOUT, Reason::Hung),
            (Errno::INVAL, Reason::Malformed),
        ] {
            let error = SourceError::io("proc/stat", &io::Error::from_raw_os_error(errno.raw_os_error()));
            assert_eq!(error.reason, reason, "{errno}");
            let remedy = (reason == Reason::Denied).then(|| "run rdiag as root".to_owned());
            assert_eq!(error.gap().remedy, remedy, "{errno}");
        }
    }
}
