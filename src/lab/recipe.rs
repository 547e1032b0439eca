//! What is needed to bring the same exercise about again, and on what host it was.

use serde::{Deserialize, Serialize};

use super::place::{Place, Run};
use super::{library, runner};
use crate::host::Host;
use crate::model::{Exercise, Facts};

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

/// The exercise of this user that runs on this host at this moment, as a report may tell of it.
#[must_use]
pub fn under_way(host: &Host) -> Option<Exercise> {
    let run = Place::if_there()?.run().ok()??;
    if !runner::is_running(host, &run) {
        return None;
    }
    let scenario = library::find(&run.scenario).ok()?;
    let variant = 1 + scenario.variants.iter().position(|variant| variant.name == run.variant)?;
    Some(Exercise {
        command: format!("rdiag lab start {} --variant {variant} --seed {}", scenario.id, run.seed),
        id: scenario.id,
        variant,
        seed: run.seed,
        whole: true,
    })
}
