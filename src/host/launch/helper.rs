//! The process that stops itself and becomes the command.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal};

/// Name of the process until it is the command: a process that still has it when it ends never was.
pub(super) const MARK: &std::ffi::CStr = c"rdiag:launch";

/// Stops itself and, once continued, becomes the command. `words` are rdiag's process id, the program and its arguments.
/// Returns only if that fails, with the number of the error.
#[must_use]
pub fn helper_main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let Some(program) = words.next() else { return ExitCode::from(22) };
    let _ = rustix::thread::set_name(MARK);
    // Should rdiag be killed, nobody would let it go. The request is made first, so that no moment is left out.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if rustix::process::getppid() != parent {
        return ExitCode::from(3);
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    let _ = rustix::process::set_parent_process_death_signal(None);
    #[expect(clippy::disallowed_methods, reason = "the command that the user gave")]
    let error = Command::new(program).args(words).exec();
    ExitCode::from(error.raw_os_error().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
