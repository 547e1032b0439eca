//! rdiag, as a library under a thin binary.
//!
//! ```text
//! playbook ─► plan ─► Recording ─► Metrics ─► Findings ─► Report ─► html | md | json | terminal
//!             (what)   (raw samples) (derived)  (judged)   (document)
//! ```
//!
//! Each arrow is a function and each word a type. Rules never see the machine; collectors never judge;
//! renderers never compute. `ARCHITECTURE.md` says who may import whom.

pub mod classify;
pub mod cli;
pub mod collectors;
pub mod host;
pub mod lab;
pub mod mechanism;
pub mod metrics;
pub mod model;
pub mod playbook;
pub mod probes;
pub mod profile;
pub mod report;
pub mod rules;
pub mod session;

#[cfg(test)]
#[path = "../tests/support/skip.rs"]
mod skip;
