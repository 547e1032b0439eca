//! What is needed to bring the same exercise about again, and on what host it was.

use serde::{Deserialize, Serialize};

use super::place::Run;
use crate::model::Facts;

/// How anybody has the same again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the variant.
    pub variant: String,
    /// What chose names and numbers.
    pub seed: u64,
    /// The command.
    pub command: String,
    /// The version of rdiag, which the choices depend on.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's architecture.
    pub architecture: String,
    /// CPUs that are online.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Recipe {
    /// Of an exercise on a host.
    #[must_use]
    pub fn of(run: &Run, facts: &Facts) -> Self {
        Self {
            scenario: run.scenario.clone(),
            variant: run.variant.clone(),
            seed: run.seed,
            command: format!("rdiag lab start {} --variant {} --seed {}", run.scenario, run.variant, run.seed),
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: facts.kernel.clone(),
            architecture: facts.arch.clone(),
            cpus: facts.cpus,
            memory_bytes: facts.memory_bytes,
        }
    }
}
