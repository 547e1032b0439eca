//! statvfs(2) through a process that can be thrown away: on a dead NFS server or a stuck FUSE daemon the call never
//! returns, and a thread inside it could not even be ended with the process.
//!
//! The helper is this program itself. It is given mount points on its standard input and prints one line for each as
//! it goes. When a line does not come in time, the helper is killed and left alone (nobody waits for it: it may sleep
//! where no signal reaches it), and another one is started for the rest.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::replay::StatvfsSpec;
use crate::model::Reason;

/// The hidden first argument that makes this program the helper.
pub const HELPER_ARGUMENT: &str = "statvfs-helper";
/// What the helper says first, so that nothing else that might answer is taken for it.
const GREETING: &str = "rdiag statvfs 1";
/// How long one mount may take; a healthy one takes microseconds, one behind a network some milliseconds.
const PATIENCE_SECONDS: f64 = 1.0;
/// How long the helper may take to start on a host that is short of everything.
const START_SECONDS: f64 = 3.0;
/// How long all of it may take: with many mounts of one dead server, the first few tell enough.
const BUDGET_SECONDS: f64 = 5.0;
/// Mount points are handed over in pieces that fit the smallest pipe there is, so that writing never blocks.
const BATCH_BYTES: usize = 4000;
/// Between two looks at something that happens elsewhere.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// No answer is longer.
const MAX_LINE_BYTES: usize = 1024;

/// The capacity of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes in all.
    pub total: u64,
    /// Free bytes, those reserved for the administrator included.
    pub free: u64,
    /// Free bytes for everybody.
    pub available: u64,
    /// Inodes in all; 0 where there is no fixed number.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
}

/// What became of the question about one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It answered.
    Capacity(Capacity),
    /// It did not answer within a second, twice.
    Hung,
    /// It answered with an error of the operating system, by number.
    Failed(i32),
    /// It was not asked, or not heard, and why.
    NotAsked(Reason, String),
}

impl Answer {
    /// The answer of a recorded tree.
    pub(super) fn recorded(spec: Option<&StatvfsSpec>) -> Self {
        match spec {
            None => Self::NotAsked(Reason::Absent, "the recorded tree does not hold its capacity".to_owned()),
            Some(spec) if spec.hung => Self::Hung,
            Some(spec) => Self::Capacity(Capacity {
                total: spec.blocks.saturating_mul(spec.frsize),
                free: spec.bfree.saturating_mul(spec.frsize),
                available: spec.bavail.saturating_mul(spec.frsize),
                inodes: spec.files,
                inodes_free: spec.ffree,
            }),
        }
    }

    /// An answer as the helper prints it.
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        if word == "error" {
            return Some(Self::Failed(rest.parse().ok()?));
        }
        let numbers: Vec<u64> = rest.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        match (word, numbers.as_slice()) {
            ("ok", &[total, free, available, inodes, inodes_free]) => {
                Some(Self::Capacity(Capacity { total, free, available, inodes, inodes_free }))
            }
            _ => None,
        }
    }
}

/// The helper: reads mount points separated by NUL, prints a line for each.
///
/// # Errors
/// When the input cannot be read, or nobody listens any more.
pub fn helper_main(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    // Should rdiag be killed, nobody would throw the helper away.
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

/// Questions on their way. The asking happens beside the measurement, so that nothing waits for a hung mount.
#[derive(Debug)]
pub struct Asking {
    answers: Arc<Mutex<Vec<Answer>>>,
    /// Gone when all is answered.
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    /// Asks this program's helper about mount points below `root`, in the given order.
    pub(super) fn live(root: &Path, mounts: &[&[u8]]) -> Self {
        let below = |mount: &&[u8]| root.join(OsStr::from_bytes(mount.strip_prefix(b"/").unwrap_or(mount)));
        let paths: Vec<PathBuf> = mounts.iter().map(below).collect();
        #[expect(clippy::disallowed_methods, reason = "the one process that rdiag starts: itself")]
        let helper = || {
            let mut command = Command::new("/proc/self/exe");
            command.arg(HELPER_ARGUMENT);
            command
        };
        Self::with_helper(helper, paths, PATIENCE_SECONDS)
    }

    /// The answers of a recorded tree.
    pub(super) fn recorded(answers: Vec<Answer>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers)), thread: None }
    }

    fn with_helper(helper: impl Fn() -> Command + Send + 'static, paths: Vec<PathBuf>, patience: f64) -> Self {
        let unasked = Answer::NotAsked(Reason::ShortWindow, "other file systems had used up the time".to_owned());
        let answers = Arc::new(Mutex::new(vec![unasked; paths.len()]));
        let shared = Arc::clone(&answers);
        let work = move || ask_all(&helper, &paths, patience, &shared);
        match std::thread::Builder::new().name("rdiag-statvfs".to_owned()).spawn(work) {
            Ok(thread) => Self { answers, thread: Some(thread) },
            Err(error) => {
                let problem = Answer::NotAsked(Reason::Absent, format!("no thread can be started: {error}"));
                lock(&answers).fill(problem);
                Self { answers, thread: None }
            }
        }
    }

    /// Whether every question has been answered or given up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What is known after waiting for at most so many seconds.
    #[must_use]
    pub fn answers(&self, seconds: f64) -> Vec<Answer> {
        let until = now() + seconds;
        while !self.is_done() && now() < until {
            let _ = rustix::thread::nanosleep(&PAUSE);
        }
        lock(&self.answers).clone()
    }
}

fn lock(answers: &Mutex<Vec<Answer>>) -> MutexGuard<'_, Vec<Answer>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask_all(helper: &dyn Fn() -> Command, paths: &[PathBuf], patience: f64, answers: &Mutex<Vec<Answer>>) {
    let mut asker = Asker { helper, paths, patience, deadline: now() + BUDGET_SECONDS, answers, abandoned: Vec::new() };
    let all: Vec<usize> = (0..paths.len()).collect();
    asker.ask(&all);
    // A host that swaps can be slow for a second; only who is silent twice is hung.
    let silent: Vec<usize> = {
        let found = lock(answers);
        all.into_iter().filter(|at| found.get(*at) == Some(&Answer::Hung)).collect()
    };
    asker.ask(&silent);
    // The killed leave at once, unless they hang; those are left to whoever collects the children of the dead.
    for _ in 0..5 {
        asker.abandoned.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if asker.abandoned.is_empty() {
            break;
        }
        let _ = rustix::thread::nanosleep(&PAUSE);
    }
}

struct Asker<'a> {
    helper: &'a dyn Fn() -> Command,
    paths: &'a [PathBuf],
    patience: f64,
    deadline: f64,
    answers: &'a Mutex<Vec<Answer>>,
    /// Killed, and not yet gone.
    abandoned: Vec<Child>,
}

impl Asker<'_> {
    /// Asks about some of the mounts, by index; the answer of what is not reached in time stays as it was.
    fn ask(&mut self, which: &[usize]) {
        let mut left = which;
        while !left.is_empty() && now() < self.deadline {
            let asked = self.ask_batch(left);
            left = left.get(asked.max(1)..).unwrap_or_default();
        }
    }

    /// Asks one helper about as many as it takes; returns for how many there is an answer now.
    fn ask_batch(&mut self, left: &[usize]) -> usize {
        let (batch, input) = take_batch(self.paths, left);
        let mut helper = match Helper::start(self.helper, &input, &mut self.abandoned) {
            Ok(helper) => helper,
            Err(problem) => {
                left.iter().for_each(|at| self.put(*at, Answer::NotAsked(Reason::Absent, problem.clone())));
                return left.len();
            }
        };
        let mut asked = 0;
        for at in left.iter().take(batch) {
            let answer = match helper.line(self.patience) {
                Line::Text(text) => Answer::parse(&text).unwrap_or_else(|| {
                    Answer::NotAsked(Reason::Malformed, "the helper's answer makes no sense".to_owned())
                }),
                Line::Late => Answer::Hung,
                Line::End => Answer::NotAsked(Reason::Malformed, "the helper process ended early".to_owned()),
            };
            let goes_on = matches!(answer, Answer::Capacity(_) | Answer::Failed(_));
            self.put(*at, answer);
            asked += 1;
            if !goes_on || now() >= self.deadline {
                break;
            }
        }
        self.abandoned.extend(helper.leave());
        asked
    }

    fn put(&self, at: usize, answer: Answer) {
        if let Some(slot) = lock(self.answers).get_mut(at) {
            *slot = answer;
        }
    }
}

/// As many of the first paths as fit, and the text that hands them over.
fn take_batch(paths: &[PathBuf], which: &[usize]) -> (usize, Vec<u8>) {
    let mut input = Vec::new();
    let mut taken = 0;
    for path in which.iter().filter_map(|at| paths.get(*at)) {
        let bytes = path.as_os_str().as_bytes();
        if taken > 0 && input.len() + bytes.len() >= BATCH_BYTES {
            break;
        }
        input.extend_from_slice(bytes);
        input.push(0);
        taken += 1;
    }
    (taken, input)
}

/// A running helper.
struct Helper {
    child: Child,
    output: ChildStdout,
    buffer: Vec<u8>,
}

/// What came next from the helper.
enum Line {
    Text(String),
    Late,
    End,
}

impl Helper {
    fn start(helper: &dyn Fn() -> Command, input: &[u8], abandoned: &mut Vec<Child>) -> Result<Self, String> {
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
    fn line(&mut self, seconds: f64) -> Line {
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
    fn leave(mut self) -> Option<Child> {
        let _ = self.child.kill();
        match self.child.try_wait() {
            Ok(Some(_)) => None,
            _ => Some(self.child),
        }
    }
}

fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell script in the helper's place. `$paths` holds the mount points.
    fn script(text: &str) -> impl Fn() -> Command + use<> {
        let text = format!("paths=$(/usr/bin/tr '\\0' '\\n'); {text}");
        move || {
            #[expect(clippy::disallowed_methods, reason = "a fake helper")]
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(&text);
            command
        }
    }

    fn ask(helper: impl Fn() -> Command + Send + 'static, names: &[&str], patience: f64) -> Vec<Answer> {
        Asking::with_helper(helper, names.iter().map(PathBuf::from).collect(), patience).answers(20.0)
    }

    fn ok(total: u64) -> Answer {
        Answer::Capacity(Capacity { total, free: 1, available: 1, inodes: 1, inodes_free: 1 })
    }

    #[test]
    fn the_helper_answers_for_each_mount_in_order() {
        let mut output = Vec::new();
        helper_main(&b"/\0/does/not/exist\0/proc\0"[..], &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], GREETING);
        assert!(matches!(Answer::parse(lines[1]), Some(Answer::Capacity(found)) if found.total > found.free));
        assert_eq!(Answer::parse(lines[2]), Some(Answer::Failed(2)));
        assert!(matches!(Answer::parse(lines[3]), Some(Answer::Capacity(found)) if found.total == 0));
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn a_hung_mount_is_reported_and_the_others_still_answer() {
        let helper = script(
            "echo 'rdiag statvfs 1'; for p in $paths; do [ $p = /dead ] && exec /bin/sleep 20; echo ok ${#p} 1 1 1 1; done",
        );
        let begin = now();
        let answers = ask(helper, &["/", "/dead", "/home"], 0.3);
        assert_eq!(answers, [ok(1), Answer::Hung, ok(5)]);
        assert!(now() - begin < 10.0, "nobody waited for the sleeper");
    }

    #[test]
    fn a_mount_that_was_only_slow_once_is_not_hung() {
        let mark = tempfile::tempdir().unwrap();
        let mark = mark.path().join("asked");
        let place = mark.display().to_string();
        let helper = script(&format!(
            "echo 'rdiag statvfs 1'; if ! [ -e {place} ]; then : > {place}; exec /bin/sleep 20; fi; echo ok 7 1 1 1 1"
        ));
        assert_eq!(ask(helper, &["/slow"], 0.5), [ok(7)]);
    }

    #[test]
    fn a_helper_that_is_something_else_is_not_believed() {
        let answers = ask(script("echo running 0 tests; echo ok 1 1 1 1 1"), &["/", "/home"], 0.3);
        assert!(answers.iter().all(|answer| matches!(answer, Answer::NotAsked(..))), "{answers:?}");
        #[expect(clippy::disallowed_methods, reason = "a fake helper")]
        let missing = || Command::new("/does/not/exist");
        let answers = ask(missing, &["/"], 0.3);
        assert!(matches!(answers.as_slice(), [Answer::NotAsked(_, why)] if why.contains("cannot be started")));
    }

    #[test]
    fn a_helper_that_dies_or_talks_nonsense_costs_one_mount_only() {
        let helper = script(
            "echo 'rdiag statvfs 1'; for p in $paths; do case $p in /die) exit 1;; /odd) echo ok x;; *) echo error 13;; esac; done",
        );
        let answers = ask(helper, &["/die", "/odd", "/a"], 2.0);
        assert!(matches!(&answers[0], Answer::NotAsked(_, why) if why.contains("ended early")), "{answers:?}");
        assert!(matches!(&answers[1], Answer::NotAsked(_, why) if why.contains("no sense")), "{answers:?}");
        assert_eq!(answers[2], Answer::Failed(13));
    }

    #[test]
    fn more_mounts_than_a_pipe_holds_are_handed_over_in_pieces() {
        let long: Vec<PathBuf> = (0..100).map(|n| PathBuf::from(format!("/{n:0200}"))).collect();
        let helper = script("echo 'rdiag statvfs 1'; for p in $paths; do echo ok ${#p} 1 1 1 1; done");
        let answers = Asking::with_helper(helper, long, 3.0).answers(20.0);
        assert!(answers.iter().all(|answer| *answer == ok(201)), "{answers:?}");
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_survived(line in "\\PC*") {
            let _ = Answer::parse(&line);
        }
    }
}
