//! The process that stops itself and becomes the command.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal};

use super::user::Identity;

/// Name of the process until it is the command: a process that still has it when it ends never was.
pub(super) const MARK: &std::ffi::CStr = c"rdiag:launch";

/// Name of the process while it starts the command again and again.
const REPEATS: &std::ffi::CStr = c"rdiag:each";

/// Stops itself and, once continued, becomes the command. `words` are rdiag's process id, how often the command is to
/// run, the user to run it as (empty: unchanged), the program and its arguments. Returns only if that fails, with the number of the
/// error, or after the last of several runs, which are children of it, one after the other.
#[must_use]
pub fn helper_main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let times = words.next().and_then(|word| word.to_str()?.parse::<u32>().ok());
    let user = words.next().unwrap_or_default();
    let Some(program) = words.next() else { return ExitCode::from(22) };
    let _ = rustix::thread::set_name(MARK);
    // Should rdiag be killed, nothing would continue it. The request is made first, so that no moment is left out.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if rustix::process::getppid() != parent {
        return ExitCode::from(3);
    }
    // As who it is now, nothing of the user's is run.
    if !user.is_empty() && user.to_str().and_then(Identity::parse).is_none_or(|user| user.adopt().is_err()) {
        return ExitCode::from(1);
    }
    // rdiag may have ended while the request did not count.
    if rustix::process::getppid() != parent {
        return ExitCode::from(3);
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    if let Some(times @ 2..) = times {
        // It still dies with rdiag: the runs to come would not be measured.
        return repeat(&program, &words.collect::<Vec<_>>(), times);
    }
    let _ = rustix::process::set_parent_process_death_signal(None);
    #[expect(clippy::disallowed_methods, reason = "the command that the user gave")]
    let error = Command::new(program).args(words).exec();
    failed(&error)
}

/// Runs the command so often. The code is 0, or that of the last run that failed; those of a shell for one that was
/// ended by a signal.
fn repeat(program: &OsStr, words: &[OsString], times: u32) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for _ in 0..times {
        #[expect(clippy::disallowed_methods, reason = "the command that the user gave")]
        let status = match Command::new(program).args(words).status() {
            Ok(status) => status,
            Err(error) => return failed(&error),
        };
        let _ = rustix::thread::set_name(REPEATS);
        if !status.success() {
            let of_signal = status.signal().map(|signal| 128_i32.saturating_add(signal));
            let told = status.code().or(of_signal).and_then(|code| u8::try_from(code).ok());
            code = ExitCode::from(told.unwrap_or(1));
        }
    }
    code
}

fn failed(error: &std::io::Error) -> ExitCode {
    ExitCode::from(error.raw_os_error().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
