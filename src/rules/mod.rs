//! Metrics → Findings: evaluates expressions over readings. No threshold lives here; they are data in `playbooks/rules/`.

mod confidence;
mod culprit;
mod evaluate;
pub mod expression;
mod filters;
mod schema;
mod selftest;
#[cfg(test)]
mod tests;

pub use evaluate::{Judge, Scope};
pub use expression::{Expressions, Reference};
pub use schema::{Next, Rule, RuleTest};
pub use selftest::{Lookup, run_tests};
