//! What follows from a recording: metrics, accounts of the time of a task, and the findings of rules. Pure: nothing here sees the machine.

pub mod metrics;
pub mod profile;
pub mod rules;
