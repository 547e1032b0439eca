//! Why a command of the lab could not be done, with what to do instead.

use std::io;

use thiserror::Error;

/// What kind of trouble it is; the exit code follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// What was asked for makes no sense now: unknown, out of range, twice.
    Usage,
    /// This host cannot express it, or what was measured allows no judgement.
    NotHere,
    /// Something failed on the way.
    Failed,
}

/// A command of the lab that could not be done.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct LabError {
    /// Its kind.
    pub trouble: Trouble,
    /// What happened, in a sentence.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl LabError {
    /// What was asked for makes no sense now.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { trouble: Trouble::Usage, message: message.into(), hint: Some(hint.into()) }
    }

    /// This host cannot express it.
    pub fn not_here(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { trouble: Trouble::NotHere, message: message.into(), hint: Some(hint.into()) }
    }

    /// Something failed, by what was attempted.
    pub fn failed(attempt: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let attempt = attempt.into();
        move |error| Self { trouble: Trouble::Failed, message: format!("{attempt}: {error}"), hint: None }
    }
}
