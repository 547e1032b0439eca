//! The exercise that ran on a host while it was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to reproduce the same on another host. The variant has a number here, since its name would reveal the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exercise {
    /// Id of the scenario.
    pub id: String,
    /// Number of the variant, from 1.
    pub variant: usize,
    /// What chose names and numbers.
    pub seed: u64,
    /// The command that starts the same again, with the version of rdiag that stands in `tool`.
    pub command: String,
    /// Whether it ran until the measuring was over; otherwise part of what was seen is the host without it.
    pub whole: bool,
}
