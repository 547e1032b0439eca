//! Who ended the waits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::component::Component;

/// Waits of one component that were ended by one waker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakerEdge {
    /// What the waits were.
    pub component: Component,
    /// Who ended them.
    pub waker: Waker,
    /// Their sum.
    pub seconds: f64,
    /// How many.
    pub count: u64,
}

/// Waits of one thread in one component that were ended by one waker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The thread that waited; 0 for the row that stands for several.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name (not trustworthy).
    pub comm: String,
    /// What it waited for, and who ended it.
    #[serde(flatten)]
    pub edge: WakerEdge,
}

/// Who ended a wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Waker {
    /// A thread, or an interrupt in which no thread has a part.
    pub kind: WakerKind,
    /// Process of that thread; 0 for interrupts.
    pub pid: u32,
    /// That thread; 0 for interrupts, or where all threads of a process are taken together.
    pub tid: u32,
    /// Its name; for interrupts what is known of the source (`timer`, `vda`), or "".
    pub comm: String,
}

/// What kind of waker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WakerKind {
    /// A thread in its own right.
    #[default]
    Thread,
    /// An interrupt: a device, a timer, the network.
    Interrupt,
    /// The waker is not known.
    Unknown,
}
