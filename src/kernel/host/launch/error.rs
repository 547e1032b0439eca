//! Why a command could not be started.

use std::io;

use thiserror::Error;

/// Why a command could not be started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error("there is no program {0:?}")]
    NotFound(String),
    /// It is there, and cannot be executed.
    #[error("{0:?} cannot be executed: {1}")]
    NotExecutable(String, #[source] io::Error),
    /// No process could be started.
    #[error("a process cannot be started: {0}")]
    Start(#[source] io::Error),
}
