//! Metrics → Findings: evaluates expressions over readings. No threshold lives here; they are data in `playbooks/rules/`.

mod aggregates;
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
mod paths;
pub mod references;
mod schema;
mod selftest;
#[cfg(test)]
mod tests;
mod tokens;
pub mod values;

pub use evaluate::{Judge, Scope};
pub use expression::Expressions;
pub use mutants::{Mutant, mutants};
pub use references::Reference;
pub use schema::{FalseIf, Given, GivenInstance, Next, Part, Rule, RuleTest};
pub use selftest::{Bench, Lookup, readings, run_tests};
pub use values::Values;
