//! How rdiag reaches the machine: the one door to its files and clocks, what the kernel can be asked beyond files, and what its answers
//! mean. Nothing here knows what is measured, or judges it.

pub mod classify;
pub mod host;
pub mod mechanism;

#[cfg(test)]
#[path = "../../tests/support/skip.rs"]
mod skip;
