//! Metrics → Findings: evaluates expressions over readings. No threshold lives here; they are data in `playbooks/rules/`.

mod bounds;
mod confidence;
mod culprit;
mod evaluate;
pub mod expression;
mod filters;
mod levels;
mod membership;
mod mutants;
mod numbers;
mod schema;
mod selftest;
#[cfg(test)]
mod tests;
mod tokens;

pub use evaluate::{Judge, Scope};
pub use expression::{Expressions, Reference};
pub use mutants::{Mutant, mutants};
pub use schema::{Given, GivenInstance, Next, Rule, RuleTest};
pub use selftest::{Bench, Lookup, readings, run_tests};
