//! The process that reads symbols, from without: it is started when it is needed, and thrown away when it is of no use.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::message::{Question, Reply};
use crate::host::message::{now, receive, send};
use crate::mechanism::symbols::bounded::one_of_many;
use crate::mechanism::symbols::interpreted::{Described, Language};
use crate::mechanism::symbols::named::Named;
use crate::mechanism::symbols::open::Identity;
use crate::mechanism::symbols::unwind::Row;
use rdiag_model::probe::LESS_CONFINED;

/// After so many files the process is started anew: each keeps descriptors and memory.
const FILES: usize = 256;
/// Addresses of a question, so that no answer is long.
const ADDRESSES: usize = 1000;
/// How long the process may take to start on a host that is short of everything.
const STARTING: Duration = Duration::from_secs(5);
/// How long one question about one file may take: a large binary, or a slow machine.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same once a file of the same owner has taken too long, since others wait behind them.
const SHORT_PATIENCE: Duration = Duration::from_millis(500);
/// How long all questions about the unwind tables of one file may take together: one of an honest file takes some microseconds for each
/// row.
const ALL_ROWS: Duration = Duration::from_secs(1);
/// So many files of one owner that took too long or ended the process, and no other of theirs is read. What root owns is no user's choice.
const MANY: usize = 2;
/// It is not restarted after it has ended so often: there are more such files than there is time for.
const MAX_ENDS: usize = 32;

/// The kind of error of a question during which something else ended the process. No socket has it.
const KILLED: io::ErrorKind = io::ErrorKind::ConnectionAborted;
/// How long it may take until the end of a process is told, after its socket was closed.
const ENDING: Duration = Duration::from_millis(200);
/// Processes that were killed and have not ended yet: each is asked for again when another one starts, as it would stay a zombie.
static LEFT: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Why a file has no names.
pub(in super::super) type Why = String;

/// A file that addresses lie in.
pub(in super::super) struct Source<'f> {
    pub(in super::super) identity: Identity,
    /// Whose file it is.
    pub(in super::super) owner: u32,
    /// Opens it, if the process has not seen it yet.
    pub(in super::super) open: &'f dyn Fn() -> io::Result<OwnedFd>,
    /// The build id that it must have.
    pub(in super::super) build_id: Option<&'f [u8]>,
}

/// Asks the process.
#[derive(Debug, Default)]
pub(in super::super) struct Client {
    process: Option<Process>,
    /// Files that cannot be read, and why.
    refused: HashMap<Identity, Why>,
    /// Files whose debug information ended the process: the table of symbols may do.
    no_lines: HashSet<Identity>,
    /// Files with Go's table of functions.
    of_go: HashSet<Identity>,
    /// Files whose unwind tables ended the process: what else is in them may do.
    no_rows: HashSet<Identity>,
    /// How long the unwind tables of files have taken, all questions together.
    rows_took: HashMap<Identity, Duration>,
    /// Files that took too long or ended the process, by their owners.
    bad: HashMap<u32, HashSet<Identity>>,
    /// Owners one of whose files has taken too long.
    hasty: HashSet<u32>,
    /// Files during whose reading something else ended the process, which counts against no one the first time.
    killed: HashSet<Identity>,
    ends: usize,
    /// It cannot be started, or is not started any more.
    broken: Option<Why>,
    /// The layers of its confinement that could not be put on.
    missing: Vec<String>,
}

#[derive(Debug)]
struct Process {
    socket: OwnedFd,
    child: Option<Child>,
    files: HashMap<Identity, u32>,
}

impl Client {
    /// The functions at these offsets of a file, outermost first, or why there are none; with what was left out of it, if anything.
    pub(in super::super) fn names(
        &mut self,
        source: &Source<'_>,
        offsets: &[u64],
        lines: bool,
    ) -> Result<(Vec<Vec<Named>>, Option<Why>), Why> {
        let mut all = Vec::with_capacity(offsets.len());
        let mut left_out = None;
        for offsets in offsets.chunks(ADDRESSES) {
            let (names, why) = self.few(source, offsets, lines)?;
            all.extend(names);
            left_out = left_out.or(why);
        }
        Ok((all, left_out))
    }

    fn few(
        &mut self,
        source: &Source<'_>,
        offsets: &[u64],
        lines: bool,
    ) -> Result<(Vec<Vec<Named>>, Option<Why>), Why> {
        if let Some(why) = self.refused.get(&source.identity).or(self.broken.as_ref()) {
            return Err(why.clone());
        }
        if let Some(why) = self.is_owner_refused(source) {
            return Err(self.refuse(source, why));
        }
        let lines = lines && !self.no_lines.contains(&source.identity);
        match self.put(source, |file| Question::Names { file, offsets: offsets.to_vec(), lines })? {
            Ok(Reply::Names { names, left_out }) if names.len() == offsets.len() => {
                let named = |(name, line)| Named { name, module: None, line };
                Ok((names.into_iter().map(|names| names.into_iter().map(named).collect()).collect(), left_out))
            }
            Ok(Reply::Refused(why)) => Err(self.refuse(source, why)),
            Ok(_) => Err(self.refuse(source, "the process that reads symbols answers nonsense".to_owned())),
            Err(_) if lines => {
                self.no_lines.insert(source.identity.clone());
                let (names, _) = self.few(source, offsets, false)?;
                Ok((names, Some("its debug information could not be read".to_owned())))
            }
            Err(error) => Err(self.refuse(source, ended(&error))),
        }
    }

    /// The rows of unwind tables for these offsets of a file, or why there are none.
    pub(in super::super) fn rows(&mut self, source: &Source<'_>, offsets: &[u64]) -> Result<Vec<Option<Row>>, Why> {
        let mut all = Vec::with_capacity(offsets.len());
        for offsets in offsets.chunks(ADDRESSES) {
            if let Some(why) = self.refused.get(&source.identity).or(self.broken.as_ref()) {
                return Err(why.clone());
            }
            if self.no_rows.contains(&source.identity) {
                return Err("its unwind tables could not be read".to_owned());
            }
            if let Some(why) = self.is_owner_refused(source) {
                return Err(why);
            }
            self.hand_over(source)?;
            let asked = now();
            let answer = self.put(source, |file| Question::Rows { file, offsets: offsets.to_vec() })?;
            let is_slow = self.rows_took(source, now() - asked);
            let is_sound = |rows: &[Option<Row>]| rows.iter().flatten().all(Row::is_sound);
            match answer {
                Ok(Reply::Rows(rows)) if !is_slow && rows.len() == offsets.len() && is_sound(&rows) => all.extend(rows),
                Ok(Reply::Rows(_)) if is_slow => {
                    self.no_rows.insert(source.identity.clone());
                    return Err("its unwind tables took too long".to_owned());
                }
                answer => {
                    self.no_rows.insert(source.identity.clone());
                    return Err(answer.map_or_else(|error| ended(&error), |_| "it has no unwind tables".to_owned()));
                }
            }
        }
        Ok(all)
    }

    /// What a file says of the interpreter in it; or why it does not.
    pub(in super::super) fn interpreter(
        &mut self,
        source: &Source<'_>,
        language: Language,
    ) -> Result<Option<Described>, Why> {
        if let Some(why) = self.refused.get(&source.identity).or(self.broken.as_ref()) {
            return Err(why.clone());
        }
        if let Some(why) = self.is_owner_refused(source) {
            return Err(self.refuse(source, why));
        }
        match self.put(source, |file| Question::Interpreter { file, language })? {
            Ok(Reply::Interpreter(found)) => Ok(found),
            Ok(Reply::Refused(why)) => Err(self.refuse(source, why)),
            Ok(_) => Err(self.refuse(source, "the process that reads symbols answers nonsense".to_owned())),
            Err(error) => Err(self.refuse(source, ended(&error))),
        }
    }

    /// Whether a file that was asked about has Go's table of functions.
    pub(in super::super) fn has_go(&self, file: &Identity) -> bool {
        self.of_go.contains(file)
    }

    /// Adds to how long the unwind tables of a file have taken. Whether that is too long, which counts against its owner.
    fn rows_took(&mut self, source: &Source<'_>, time: Duration) -> bool {
        let took = self.rows_took.entry(source.identity.clone()).or_default();
        *took = took.saturating_add(time);
        let is_slow = *took > ALL_ROWS;
        if is_slow {
            self.bad.entry(one_of_many(source.owner)).or_default().insert(source.identity.clone());
        }
        is_slow
    }

    /// What a report says of the process if it was less confined than it can be.
    pub(in super::super) fn less_confined(&self) -> Option<String> {
        (!self.missing.is_empty()).then(|| format!("{LESS_CONFINED}{}", self.missing.join(", ")))
    }

    /// Asks about a file, once more if something else has ended the process meanwhile.
    fn put(&mut self, source: &Source<'_>, question: impl Fn(u32) -> Question) -> Result<io::Result<Reply>, Why> {
        loop {
            let file = self.hand_over(source)?;
            match self.ask(source, &question(file), None) {
                Err(error) if error.kind() == KILLED => {}
                answer => return Ok(answer),
            }
        }
    }

    /// The number that a file goes by, after it was handed over if need be.
    fn hand_over(&mut self, source: &Source<'_>) -> Result<u32, Why> {
        if self.process.as_ref().is_some_and(|process| process.files.len() >= FILES) {
            self.process = None;
        }
        if self.process.is_none() {
            let (process, missing) = Process::start().map_err(|error| {
                let why = format!("the process that reads symbols cannot be started: {error}");
                self.broken = Some(why.clone());
                why
            })?;
            (self.process, self.missing) = (Some(process), missing);
        }
        let Some(process) = &self.process else { return Err(String::new()) };
        if let Some(number) = process.files.get(&source.identity) {
            return Ok(*number);
        }
        let number = u32::try_from(process.files.len()).unwrap_or(u32::MAX);
        let file = (source.open)().map_err(|error| error.to_string())?;
        let build_id = match self.ask(source, &Question::Open { file: number }, Some(&file)) {
            Ok(Reply::Opened { build_id, has_go }) => {
                if has_go {
                    self.of_go.insert(source.identity.clone());
                }
                build_id
            }
            Ok(Reply::Refused(why)) => return Err(self.refuse(source, why)),
            Ok(_) => return Err(self.refuse(source, "the process that reads symbols answers nonsense".to_owned())),
            Err(error) if error.kind() == KILLED => return self.hand_over(source),
            Err(error) => return Err(self.refuse(source, ended(&error))),
        };
        if source.build_id.is_some_and(|wanted| build_id.as_deref() != Some(wanted)) {
            let which = if build_id.is_some() { "another build id" } else { "no build id" };
            return Err(self.refuse(source, format!("it has been replaced since ({which})")));
        }
        if let Some(process) = &mut self.process {
            process.files.insert(source.identity.clone(), number);
        }
        Ok(number)
    }

    fn refuse(&mut self, source: &Source<'_>, why: Why) -> Why {
        self.refused.insert(source.identity.clone(), why.clone());
        why
    }

    /// Why no file of its owner is read any more, unless it is a good one so far.
    fn is_owner_refused(&self, source: &Source<'_>) -> Option<Why> {
        let bad = self.bad.get(&one_of_many(source.owner)).filter(|bad| source.owner != 0 && bad.len() >= MANY)?;
        let is_read = self.process.as_ref().is_some_and(|process| process.files.contains_key(&source.identity));
        (!is_read || bad.contains(&source.identity)).then(|| {
            format!("{MANY} other files of its owner, user {}, took too long or ended their reader", source.owner)
        })
    }

    /// How long a question about a file of this owner may take. What root owns is no user's choice.
    fn patience(&self, owner: u32) -> Duration {
        if owner != 0 && self.hasty.contains(&one_of_many(owner)) { SHORT_PATIENCE } else { PATIENCE }
    }

    /// Asks; a process that does not answer in time, or in words, is thrown away.
    fn ask(&mut self, source: &Source<'_>, question: &Question, file: Option<&OwnedFd>) -> io::Result<Reply> {
        let patience = self.patience(source.owner);
        let Some(process) = &self.process else { return Err(io::ErrorKind::NotConnected.into()) };
        let outcome = send(&process.socket, question, file.map(OwnedFd::as_fd))
            .and_then(|()| receive::<Reply>(&process.socket, Some(patience)));
        if let Err(error) = &outcome {
            let is_slow = error.kind() == io::ErrorKind::WouldBlock;
            let process = self.process.take();
            if !is_slow
                && process.is_some_and(|mut process| process.was_killed())
                && self.killed.insert(source.identity.clone())
            {
                return Err(KILLED.into());
            }
            if is_slow {
                self.hasty.insert(one_of_many(source.owner));
            }
            self.bad.entry(one_of_many(source.owner)).or_default().insert(source.identity.clone());
            self.ends += 1;
            if self.ends >= MAX_ENDS {
                self.broken = Some(format!("the process that reads symbols has ended {MAX_ENDS} times"));
            }
        }
        outcome.map(|(answer, _)| answer)
    }
}

/// The layers of confinement that cannot be put on here.
///
/// # Errors
/// When the process cannot be started.
pub fn missing_layers() -> io::Result<Vec<String>> {
    Process::start().map(|(_, missing)| missing)
}

fn ended(error: &io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::WouldBlock => "reading it took too long".to_owned(),
        _ => "reading it ended the process that reads symbols".to_owned(),
    }
}

/// Whether something else ended a process: it does not kill itself, and its limits end it by other signals (SIGXCPU, SIGABRT).
fn is_killed(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| [libc::SIGKILL, libc::SIGTERM].contains(&signal))
}

/// Asks for those that were left behind.
fn reap() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

impl Process {
    /// Whether something else has ended it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the reader's process is waited for, and a recorded host starts none"
    )]
    fn was_killed(&mut self) -> bool {
        let until = now() + ENDING;
        while let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(Some(status)) => return is_killed(status),
                Ok(None) if now() < until => std::thread::sleep(Duration::from_millis(1)),
                _ => break,
            }
        }
        false
    }

    /// With the layers of its confinement that could not be put on, which it says first.
    fn start() -> io::Result<(Self, Vec<String>)> {
        let (socket, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        reap();
        let child = run(other)?;
        let process = Self { socket, child, files: HashMap::new() };
        let (missing, _) = receive(&process.socket, Some(STARTING))?;
        Ok((process, missing))
    }
}

/// Starts the process with this socket.
#[cfg(not(test))]
#[expect(clippy::disallowed_methods, reason = "rdiag starts itself")]
fn run(socket: OwnedFd) -> io::Result<Option<Child>> {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    let mut command = Command::new("/proc/self/exe");
    // Its own group, so that a Ctrl-C at the terminal is rdiag's affair; no place that it could keep busy.
    command.arg(super::HELPER_ARGUMENT).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(Some)
}

/// In unit tests this program is the test, so a thread answers.
#[cfg(test)]
fn run(socket: OwnedFd) -> io::Result<Option<Child>> {
    std::thread::spawn(move || send(&socket, &Vec::<String>::new(), None).and_then(|()| super::child::serve(&socket)));
    Ok(None)
}

impl Drop for Process {
    /// It may sleep where no signal reaches it, so it is not waited for.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            if matches!(child.try_wait(), Ok(None)) {
                LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(child);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own program")]
mod tests;
