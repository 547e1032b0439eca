//! rdiag, as a library under a thin binary.
//!
//! ```text
//! playbook ─► plan ─► Recording ─► Metrics ─► Findings ─► Report ─► html | md | json | terminal
//!             (what)   (raw samples) (derived)  (judged)   (document)
//! ```
//!
//! Each arrow is a function and each word a type. Rules never see the machine; collectors never judge;
//! renderers never compute. `ARCHITECTURE.md` says which module may import which.

pub mod cli;
pub mod history;
pub mod lab;
pub mod playbook;
pub mod report;
pub mod session;

#[cfg(test)]
#[path = "../tests/support/skip.rs"]
mod skip;

// The accounts of time that the tests of src/judge are about are those that reports are drawn of.
#[cfg(test)]
#[path = "judge/profile/testing.rs"]
mod accounts;
