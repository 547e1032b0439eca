//! The exit code that follows from what was found.

use clap::ValueEnum;

use crate::cli::exit::Exit;
use rdiag_model::{Report, Status};
use rdiag_session::Analysis;

/// A threshold for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    /// Warnings and worse.
    Warning,
    /// Critical findings only.
    Critical,
}

impl FailOn {
    /// The least status that fails.
    pub(super) fn least(self) -> Status {
        match self {
            Self::Warning => Status::Warning,
            Self::Critical => Status::Critical,
        }
    }

    /// Whether a report is bad enough.
    pub(super) fn fails(self, report: &Report) -> bool {
        report.findings.iter().any(|finding| finding.status >= self.least())
    }
}

/// The exit code that follows from a report.
pub(super) fn exit(report: &Report, analysis: &Analysis, fail_on: Option<FailOn>, interrupted: bool) -> Exit {
    if interrupted {
        return Exit::Interrupted;
    }
    let nothing = match &analysis.profile {
        Some(profile) => profile.is_err(),
        None => report.coverage.measured.is_empty(),
    };
    if nothing {
        return Exit::Nothing;
    }
    match fail_on {
        Some(level) if level.fails(report) => Exit::Findings,
        _ => Exit::Done,
    }
}
