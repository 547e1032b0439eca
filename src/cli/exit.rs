//! Exit codes, and errors as people read them: what was attempted, on what, why it failed, what to do.

use std::io;
use std::process::ExitCode;

use thiserror::Error;

use rdiag_kernel::host::launch::{Ended, How, LaunchError};
use rdiag_kernel::mechanism::perf_data::PerfDataError;
use rdiag_lab::{LabError, Trouble};
use rdiag_model::Unavailable;
use rdiag_playbook::PlaybookError;
use rdiag_report::shown::{Shown, Terminal};
use rdiag_session::{ImportError, StoreError};

/// Shown under `--help`.
pub(super) const HELP: &str = "Exit codes: 0 done, whatever was found; 1 findings at or above --fail-on; 2 wrong usage, an invalid \
playbook, or a file that is not what the command reads; 3 nothing could be measured; 4 a failure while running; 5 the probe of `rdiag \
probe`, or the account of a task's time, was stopped by its budget; \
6 the condition of `wait` did not hold in time; 130 interrupted, after writing what there was. `run`, `record` and `probe` with a COMMAND \
that fails exit as it does: with its code, or with 128 + N \
if signal N ended it.";

/// Longest error that is shown, in characters: two paths and what is wrong with them.
const LONGEST: usize = 12_000;

/// How rdiag ended. Scripts rely on these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done, whatever was found.
    Done,
    /// 1: findings at or above `--fail-on`.
    Findings,
    /// 2: wrong usage, an invalid playbook, or a file that is not what the command reads.
    Usage,
    /// 3: nothing could be measured.
    Nothing,
    /// 4: a failure while running.
    Failed,
    /// 5: the probe of `rdiag probe`, or the account of a task's time, was stopped by its budget before its time was over.
    OverBudget,
    /// 6: the condition of `wait` did not hold within its `--timeout`.
    TimedOut,
    /// The code with which the measured command failed, or 128 + N if signal N ended it, as `time` and `perf stat` do.
    Command(u8),
    /// 130: interrupted, after writing what there was.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Exit {
    const ALL: [Self; 8] = [
        Self::Done,
        Self::Findings,
        Self::Usage,
        Self::Nothing,
        Self::Failed,
        Self::OverBudget,
        Self::TimedOut,
        Self::Interrupted,
    ];

    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::Nothing => 3,
            Self::Failed => 4,
            Self::OverBudget => 5,
            Self::TimedOut => 6,
            Self::Command(code) => code,
            Self::Interrupted => 130,
        }
    }

    /// How a command ended that was measured; none if it did not fail.
    pub(super) fn of_command(ended: &Ended) -> Option<Self> {
        let code = match ended.how {
            How::Exited(0) | How::NotStarted(_) => return None,
            How::Exited(code) => code,
            How::Killed(signal) => 128 + signal,
        };
        u8::try_from(code).ok().map(Self::Command)
    }

    /// How a process ended that is rdiag as well.
    pub(super) fn of_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code)
    }
}

/// Why a command failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// The user asked for something that makes no sense.
    #[error("{message}")]
    Usage {
        /// What.
        message: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// A measurement is impossible here.
    #[error("{what} cannot be measured: {gap}")]
    Unavailable {
        /// What was asked for.
        what: String,
        /// Why, and the least that would help.
        gap: Unavailable,
    },
    /// A playbook or rule is wrong.
    #[error(transparent)]
    Playbook(#[from] PlaybookError),
    /// A recording or report cannot be used.
    #[error("reading {path}: {source}")]
    Recording {
        /// The file.
        path: String,
        /// Why.
        source: StoreError,
    },
    /// A profile of another program cannot be used.
    #[error("reading {path}: {source}")]
    Import {
        /// The file.
        path: String,
        /// Why.
        source: ImportError,
    },
    /// A file that was named is not there.
    #[error("reading {path}: there is no such file")]
    Missing {
        /// The file.
        path: String,
    },
    /// A report cannot be rendered.
    #[error("rendering the report: {0}")]
    Report(#[from] rdiag_report::ReportError),
    /// A command could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// An exercise could not be started, checked or ended.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The person at the terminal quit before there was anything to write.
    #[error("quit; nothing was measured")]
    Quit,
    /// The process that read what was sent has ended before it was done.
    #[error("{message}")]
    Ended {
        /// How.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// Output or input failed.
    #[error("{attempt}: {source}")]
    Io {
        /// What was attempted, on what.
        attempt: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Failure {
    /// Wrong usage, with what to do instead.
    pub(super) fn usage(message: String, hint: Option<&str>) -> Self {
        Self::Usage { message, hint: hint.map(str::to_owned) }
    }

    /// Wraps an I/O error with what was attempted.
    pub fn io(attempt: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let attempt = attempt.into();
        move |source| Self::Io { attempt, source }
    }

    /// As people read it: one line, but for what is wrong with a playbook, which names a line of it each.
    #[must_use]
    pub fn shown(&self) -> Shown<Terminal> {
        match self {
            Self::Playbook(error @ (PlaybookError::Invalid(_) | PlaybookError::NotFound { .. })) => {
                Shown::lines(error.to_string())
            }
            _ => Shown::seen_within(self.to_string(), LONGEST),
        }
    }

    /// What went wrong when a named file was read: one that is not there was mistyped.
    pub(super) fn reading(path: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path: path.to_owned() },
            // A folder, a device, a FIFO; or larger than anything that the command reads.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                Self::usage(format!("reading {path}: {source}"), None)
            }
            _ => Self::Io { attempt: format!("reading {path}"), source },
        }
    }

    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } | Self::Missing { .. } | Self::Playbook(_) => Exit::Usage,
            Self::Recording { source: StoreError::Io(_), .. } | Self::Import { source: ImportError::Io(_), .. } => {
                Exit::Failed
            }
            Self::Import { source: ImportError::Perf(PerfDataError::Io(_)), .. } => Exit::Failed,
            Self::Recording { .. } | Self::Import { .. } => Exit::Usage,
            Self::Launch(LaunchError::NotFound(_) | LaunchError::NotExecutable(..)) => Exit::Usage,
            Self::Unavailable { .. } => Exit::Nothing,
            Self::Quit => Exit::Interrupted,
            Self::Lab(error) => match error.trouble {
                Trouble::Usage => Exit::Usage,
                Trouble::NotHere => Exit::Nothing,
                Trouble::Failed => Exit::Failed,
            },
            _ => Exit::Failed,
        }
    }

    /// The reader of the output has closed it.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        let within = || source.get_ref()?.downcast_ref::<Self>();
        source.kind() == io::ErrorKind::BrokenPipe || within().is_some_and(Self::is_closed_pipe)
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } | Self::Ended { hint, .. } => hint.clone(),
            Self::Lab(error) => error.hint.clone(),
            Self::Unavailable { gap, .. } => gap.remedy.clone(),
            Self::Missing { .. } => Some("check the path; --help of the command says which files it reads".into()),
            Self::Launch(LaunchError::NotFound(_)) => Some(
                "write the program and its arguments as words of their own after --; `sh -c '…'` runs a line".into(),
            ),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => Some("free some space, or choose another place with --out".into()),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Some("choose a place that you may write to, with --out".into())
                }
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_passes_its_code_on_and_a_signal_counts_from_128() {
        let ended = |how| Exit::of_command(&Ended { how, elapsed: 1.0, user: 0.0, system: 0.0 });
        assert_eq!(ended(How::Exited(0)), None);
        assert_eq!(ended(How::Exited(7)), Some(Exit::Command(7)));
        assert_eq!(ended(How::Killed(15)).map(Exit::code), Some(143));
        assert_eq!(ended(How::NotStarted(2)), None, "that is an error of its own");
        assert_eq!(Exit::of_code(7), None, "a command is no process that is rdiag as well");
    }
}
