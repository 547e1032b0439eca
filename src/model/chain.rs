//! Waker chains, as reports hold them: which task waited for which.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::component::Component;

/// Threads that wait for one another: each link's waker is the next one's waiter.
///
/// Nothing but sums is known: that two waited at the same time follows only where their waits do not fit into the window one
/// after the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chain {
    /// At most five; the first holds the wait that the chain is about.
    pub links: Vec<ChainLink>,
    /// What the last waker did itself, or why nothing is known of it; a sentence.
    pub end: String,
}

/// One step of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainLink {
    /// Who waited: a thread, or threads of one name. Not trusted.
    pub waiter: String,
    /// For what.
    pub component: Component,
    /// Who ended these waits.
    pub waker: String,
    /// Their sum.
    pub seconds: f64,
    /// Of the time for which the waiter was observed.
    pub share: f64,
    /// How many.
    pub count: u64,
    /// Of `seconds`: at the same time as all links before, as [at least, at most].
    pub together: [f64; 2],
}
