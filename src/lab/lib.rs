//! Exercises: a symptom on this very host, a student who measures, and answers that are checked against what is true at that moment.
//!
//! ```text
//! scenario (YAML) ─► plan ─► start ─► symptom is there ─► answers ─► check ─► solution ─► stop
//!                    (seed)  (journal)  (meter)                     (measured twice)      (journal backwards)
//! ```
//!
//! Nothing that an exercise does outlives it: the load is processes of rdiag's own that end in time, when their watcher ends, and by the
//! journal. Each change is noted there before it is made, a process by number, start time and boot, so that a later one with its number is
//! never touched; `stop` and the next `start` undo what it holds.

mod builtin;
mod census;
mod chance;
pub mod class;
pub mod clean;
mod curve;
pub mod dev_check;
mod diagnose;
pub mod disturbance;
mod error;
pub mod exam;
pub mod fixed;
pub mod judge;
pub mod keeper;
pub mod lesson;
pub mod library;
pub mod limit;
pub mod lint;
pub mod load;
mod measure;
mod module;
pub mod needs;
pub mod place;
pub mod plan;
mod reading;
pub mod recipe;
pub mod runner;
mod scenario;
pub mod text;
mod watch;

pub use builtin::SCENARIOS;
pub use error::{LabError, Trouble};
pub use reading::{LabMetric, Readings};
pub use scenario::{Answer, Question, Scenario, Variant};

#[cfg(test)]
#[path = "../../tests/support/skip.rs"]
mod skip;
