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
