//! How a host is set up: what explains that it behaves unlike another, and names by which parts of different hosts compare.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What does not change during a run and was read once, as far as an ordinary user may read it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Setup {
    /// By name: `sysctl vm.swappiness`, `governor`, `mount / options`. What could not be read is not there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// What a part is for, by dimension and instance: `device` → `vda` → `disk:root`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, BTreeMap<String, String>>,
    /// Containers of Kubernetes by their id, and pods as `podUID`, as control groups are called.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Container>,
    /// What the control group that was asked for is given and held to, by the name of the file that says it (`cpu.weight`, `memory.max`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub group: BTreeMap<String, String>,
    /// How far its clock can be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<WallClock>,
    /// Tells this machine from others: a hash of /etc/machine-id, which itself is to stay on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Tells this boot from others: a hash of the kernel's boot id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// When the first window was to begin and did, if an instant was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<Begin>,
}

/// What a control group is in Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Container {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container; "" for the pod as a whole.
    pub container: String,
}

/// The wall clock as the kernel judges it (adjtimex).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WallClock {
    /// Whether it is synchronized with other clocks.
    pub synchronized: bool,
    /// By how many seconds it may be wrong at most; means nothing where it is not synchronized.
    pub max_error_seconds: f64,
}

/// An instant that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Begin {
    /// RFC 3339, UTC.
    pub at: String,
    /// Seconds by which the window began later: what took so long was attaching probes, or the host.
    pub late_seconds: f64,
}

impl Setup {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What an instance is for, by a name that other hosts use as well.
    #[must_use]
    pub fn role(&self, dimension: &str, instance: &str) -> Option<&str> {
        self.roles.get(dimension)?.get(instance).map(String::as_str)
    }
}
