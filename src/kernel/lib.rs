//! How rdiag reaches the machine: the one door to its files and clocks, what the kernel can be asked beyond files, and what its answers
//! mean. Nothing here knows what is measured, or judges it.

pub mod classify;
pub mod host;
pub mod mechanism;

/// Asked before any path of another user is, by those above too that know no mechanism.
pub use mechanism::symbols::may_be_asked;

#[cfg(test)]
#[path = "../../tests/support/skip.rs"]
mod skip;
