//! The helper process, seen from within and from outside.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::now;

/// What the helper says first, so that nothing else that might answer is taken for it.
pub(super) const GREETING: &str = "rdiag statvfs 1";
/// How long the helper may take to start on a host that is short of everything.
const START_SECONDS: f64 = 3.0;
/// No answer is longer.
const MAX_LINE_BYTES: usize = 1024;

/// The helper: reads mount points separated by NUL, prints a line for each.
///
/// # Errors
/// When the input cannot be read, or the reader is gone.
pub fn helper_main(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    // Should rdiag be killed, nothing else would end the helper.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    writeln!(output, "{GREETING}")?;
    output.flush()?;
    for path in bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        match rustix::fs::statvfs(OsStr::from_bytes(path)) {
            Ok(found) => {
                let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
                let (total, free, available) = (bytes(found.f_blocks), bytes(found.f_bfree), bytes(found.f_bavail));
                writeln!(output, "ok {total} {free} {available} {} {}", found.f_files, found.f_ffree)?;
            }
            Err(error) => writeln!(output, "error {}", error.raw_os_error())?,
        }
        output.flush()?;
    }
    Ok(())
}

/// A running helper.
pub(super) struct Helper {
    child: Child,
    output: ChildStdout,
    buffer: Vec<u8>,
}

/// What came next from the helper.
pub(super) enum Line {
    Text(String),
    Late,
    End,
}

impl Helper {
    pub(super) fn start(
        helper: &dyn Fn() -> Command,
        input: &[u8],
        abandoned: &mut Vec<Child>,
    ) -> Result<Self, String> {
        let mut command = helper();
        // Its own group, so that a Ctrl-C at the terminal is rdiag's affair; no place that it could keep busy.
        command.env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("the helper process cannot be started: {error}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let (Some(mut stdin), Some(output)) = (stdin, stdout) else {
            return Err("the helper process has no pipes".to_owned());
        };
        let written = stdin.write_all(input);
        drop(stdin);
        let mut helper = Self { child, output, buffer: Vec::new() };
        match (written, helper.line(START_SECONDS)) {
            (Ok(()), Line::Text(text)) if text == GREETING => Ok(helper),
            _ => {
                abandoned.extend(helper.leave());
                Err("the helper process did not start in time, or it is not what it should be".to_owned())
            }
        }
    }

    /// The next line, waiting so long for it.
    pub(super) fn line(&mut self, seconds: f64) -> Line {
        let until = now() + seconds;
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Line::Text(String::from_utf8_lossy(&line).into_owned());
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Line::End;
            }
            let left = until - now();
            if left <= 0.0 {
                return Line::Late;
            }
            let timeout = Timespec { tv_sec: left as i64, tv_nsec: (left.fract() * 1e9) as i64 };
            let mut fds = [PollFd::from_borrowed_fd(self.output.as_fd(), PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Line::Late,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return Line::End,
            }
            let mut piece = [0_u8; 512];
            match self.output.read(&mut piece) {
                Ok(0) | Err(_) => return Line::End,
                Ok(read) => self.buffer.extend_from_slice(piece.get(..read).unwrap_or_default()),
            }
        }
    }

    /// Ends it without ever waiting: what cannot be collected now is given back.
    pub(super) fn leave(mut self) -> Option<Child> {
        let _ = self.child.kill();
        match self.child.try_wait() {
            Ok(Some(_)) => None,
            _ => Some(self.child),
        }
    }
}
