//! This program, started again and again with one command line, by a process that was made before rights were given up: what measures
//! for years keeps few of them, and can still have one measurement made that takes more.
//!
//! The helper ([`helper_main`]) waits for a message, starts what its own command line says, and nothing else, and sends back what that
//! printed. What is printed goes into memory: no thread waits for a disk. The helper ends when the other side is gone, and so does what it
//! has started.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};

use super::message::{receive, send};

/// The hidden first argument that makes this program the helper; what follows is the command line of what it starts.
pub const HELPER_ARGUMENT: &str = "again-helper";

/// Nothing that is started runs longer, in seconds.
const LONGEST: i64 = 180;
/// How often it is looked whether a run has ended.
const LOOKS_PER_SECOND: i64 = 5;
/// How often, and with what pauses, it is looked whether the helper has ended.
const LAST_LOOKS: usize = 20;
const LAST_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Bytes that are taken of what it prints, and of its errors.
const MAX_OUTPUT: u64 = 16 << 20;
const MAX_SAID: u64 = 4 << 10;
/// Memory of a kernel, to be found by in /proc/PID/fd.
const NAME: &str = "rdiag-again";

/// Asks for one run.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {}

/// How it ended: its code, or the signal, or why it could not be started; and the end of what it said.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    code: Option<i32>,
    signal: Option<i32>,
    failure: Option<String>,
    said: String,
}

/// The helper, seen by who asks it.
#[derive(Debug)]
pub struct Again {
    socket: Option<OwnedFd>,
    child: Child,
    runs: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub bytes: Vec<u8>,
    /// The last line that it wrote to stderr, or why there is none.
    pub said: String,
}

impl Again {
    /// Starts the helper, with the rights that this process has now; `words` is what follows the name of this program.
    ///
    /// # Errors
    /// When no process can be started.
    pub fn start(words: &[OsString]) -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "itself")]
        let mut command = Command::new("/proc/self/exe");
        command.arg(HELPER_ARGUMENT).args(words);
        Self::of(command)
    }

    fn of(mut command: Command) -> io::Result<Self> {
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // A group of its own: a Ctrl-C at the terminal is for who started it, whose end it notices.
        command.arg0("rdiag").current_dir("/").process_group(0);
        command.stdin(Stdio::from(other)).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { socket: Some(own), child: command.spawn()?, runs: false })
    }

    /// Whether a run has begun whose end was not told yet.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// Begins a run. Of two at a time the second is refused.
    ///
    /// # Errors
    /// Then, and when the helper is gone.
    pub fn begin(&mut self) -> io::Result<()> {
        match &self.socket {
            Some(_) if self.runs => Err(io::ErrorKind::ResourceBusy.into()),
            Some(socket) => send(socket, &Begin {}, None).map(|()| self.runs = true),
            None => Err(gone()),
        }
    }

    /// How the run ended; none as long as it has not. It never waits for it.
    pub fn ended(&mut self) -> Option<io::Result<Printed>> {
        let socket = self.socket.as_ref().filter(|_| self.runs)?;
        let told = match receive::<End>(socket, Some(Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                Err(gone())
            }
            told => told.and_then(|(end, file)| end.printed(file)),
        };
        self.runs = false;
        Some(told)
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        // It ends what it has started, and then itself: unless a sick disk holds either, which is no reason to wait.
        drop(self.socket.take());
        for _ in 0..LAST_LOOKS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            let _ = poll(&mut [], Some(&LAST_LOOK));
        }
        let _ = self.child.kill();
        let _ = self.child.try_wait();
    }
}

/// Becomes this program with another command line. Returns only if that fails.
#[must_use]
pub fn become_another(words: &[OsString]) -> io::Error {
    #[expect(clippy::disallowed_methods, reason = "itself")]
    let mut command = Command::new("/proc/self/exe");
    command.arg0("rdiag").args(words).exec()
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the process that starts it has ended")
}

impl End {
    fn printed(self, file: Option<OwnedFd>) -> io::Result<Printed> {
        if let Some(failure) = self.failure {
            return Err(io::Error::other(failure));
        }
        let bytes = file.map_or(Ok(Vec::new()), |file| read_back(&file.into(), MAX_OUTPUT))?;
        let said = match self.signal {
            Some(signal) => format!("ended by signal {signal}"),
            None => self.said,
        };
        Ok(Printed { code: self.code, bytes, said })
    }
}

/// What a file in memory holds; an error if that is more than may be.
fn read_back(file: &std::fs::File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it printed {length} bytes, of at most {most}"),
        ));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The helper: what its stdin asks for, until the other side closes it.
#[must_use]
pub fn helper_main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let stdin = io::stdin();
    let socket = stdin.as_fd();
    while receive::<Begin>(socket, None).is_ok() {
        let (end, file) = match run(&words, socket) {
            Ok(Some(ended)) => ended,
            // The other side is gone.
            Ok(None) => break,
            Err(error) => {
                let failure = Some(format!("rdiag cannot be started: {error}"));
                (End { code: None, signal: None, failure, said: String::new() }, None)
            }
        };
        if send(socket, &end, file.as_ref().map(|file| file.as_fd())).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn run(words: &[OsString], socket: BorrowedFd<'_>) -> io::Result<Option<(End, Option<OwnedFd>)>> {
    let output = memfd_create(NAME, MemfdFlags::CLOEXEC)?;
    let errors = memfd_create(NAME, MemfdFlags::CLOEXEC)?;
    #[expect(clippy::disallowed_methods, reason = "itself")]
    let mut command = Command::new("/proc/self/exe");
    command.arg0("rdiag").args(words).stdin(Stdio::null());
    let child = command.stdout(output.try_clone()?).stderr(errors.try_clone()?).spawn()?;
    let Some(status) = wait_for(child, socket)? else { return Ok(None) };
    let said = last_line(&errors.into());
    let end = End { code: status.code(), signal: status.signal(), failure: None, said };
    Ok(Some((end, Some(output))))
}

/// The last line that is not empty, of what was said last.
fn last_line(errors: &std::fs::File) -> String {
    let length = errors.metadata().map_or(0, |found| found.len());
    let from = length.saturating_sub(MAX_SAID);
    let mut bytes = vec![0; usize::try_from(length - from).unwrap_or(0)];
    let _ = errors.read_exact_at(&mut bytes, from);
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// Waits for the end of what was started; ends it if the caller is gone (none), or if it takes too long.
fn wait_for(mut child: Child, socket: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    for _ in 0..LONGEST * LOOKS_PER_SECOND {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: 1_000_000_000 / LOOKS_PER_SECOND };
        if poll(&mut asked, Some(&patience)).is_ok_and(|ready| ready > 0) {
            let _ = child.kill();
            let _ = child.try_wait();
            return Ok(None);
        }
    }
    child.kill()?;
    let _ = child.try_wait();
    Err(io::Error::other(format!("it took longer than {LONGEST} s and was ended")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_ends_is_told_and_nothing_waits_for_it() {
        #[expect(clippy::disallowed_methods, reason = "a process that is no helper")]
        let mut again = Again::of(Command::new("true")).unwrap();
        assert!(again.ended().is_none(), "nothing was asked for");
        let begun = again.begin();
        let told = loop {
            match (&begun, again.ended()) {
                (Err(_), _) => break None,
                (Ok(()), Some(told)) => break Some(told),
                (Ok(()), None) => std::thread::yield_now(),
            }
        };
        assert!(told.is_none_or(|told| told.unwrap_err().to_string().contains("has ended")) && !again.runs());
    }

    #[test]
    fn what_was_printed_is_bounded_and_of_errors_the_last_line_is_told() {
        let file = |text: &[u8]| {
            let file: std::fs::File = memfd_create(NAME, MemfdFlags::CLOEXEC).unwrap().into();
            file.write_all_at(text, 0).unwrap();
            file
        };
        assert_eq!(read_back(&file(b"12345"), 5).unwrap(), b"12345");
        assert!(read_back(&file(b"123456"), 5).unwrap_err().to_string().contains("6 bytes, of at most 5"));
        assert_eq!(last_line(&file(b"one\ntwo\n\n  \n")), "two");
        assert_eq!(last_line(&file(&[b'x'; 10_000])).len(), 4096);
        assert_eq!(last_line(&file(b"")), "");
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_ended() {
        let (own, other) = io::pipe().unwrap();
        #[expect(clippy::disallowed_methods, reason = "stands for a run")]
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        drop(other);
        assert_eq!(wait_for(child, own.as_fd()).unwrap(), None);
    }
}
