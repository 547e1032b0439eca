//! The rdiag command.

fn main() {}
