//! The rdiag command: parse, dispatch, print the error, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    rdiag::cli::main()
}
