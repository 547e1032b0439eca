//! A look at one thread: what it does, and the counters of the kernel at that moment.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::estimate::WaitDetail;
use super::parse::{self, Syscall};
use rdiag_kernel::classify::{self, Abi, Call, Class, FileClass, NO_RULE, Wait, Within, calls, files, futex};
use rdiag_kernel::host::{ProcessDir, SourceError};
use rdiag_model::{Component, Reason};
use rdiag_proc::process::{self, Schedstat};

/// What is known of a process beside its threads.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) abi: Abi,
    /// Its `syscall` may not be read: asking again would only cost.
    pub(super) syscall_denied: bool,
    /// Its stacks may not be read.
    pub(super) stack_denied: bool,
    /// utime and stime of the whole process, threads that have ended included, in ticks: first and last seen.
    pub(super) ticks: Option<(u64, u64)>,
    /// Its group in the hierarchy of the cpu controller.
    pub(super) group: Option<String>,
}

/// What one look has found.
#[derive(Debug)]
pub(super) enum Found {
    /// There is no such thread any more.
    Gone,
    /// It has ended, and its parent has not taken note.
    Ended(Counters),
    /// It has not run since the last look, at which it slept: it still does.
    Unmoved,
    /// It is there.
    There(Box<There>),
}

/// A thread that was looked at in full.
#[derive(Debug)]
pub(super) struct There {
    pub(super) comm: String,
    pub(super) kernel: bool,
    pub(super) start: u64,
    pub(super) counters: Counters,
    pub(super) doing: Doing,
}

/// The kernel's counters of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// None where the kernel keeps none.
    pub(super) sched: Option<Schedstat>,
    /// Ticks.
    pub(super) user: u64,
    /// Ticks.
    pub(super) system: u64,
}

/// What it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doing {
    /// It runs, or could.
    Runnable,
    /// It sleeps, ran while it was looked at, and what it waited for is not known.
    Torn,
    /// It waits for this.
    Waits(Class, WaitDetail),
}

/// Reads the files of threads. Nothing here is kept but buffers, and what is open within one sweep.
pub(super) struct ThreadReader {
    buffer: Vec<u8>,
    name: String,
    /// What files are, by process and number; for one sweep, since numbers are given out anew.
    open: HashMap<(u32, u32), (FileClass, String)>,
    /// Nothing can be swapped in on this host.
    pub(super) without_swap: bool,
    /// The kernel keeps scheduler figures.
    pub(super) schedstat: bool,
    /// Samples of sleeping threads of which nothing may be seen.
    pub(super) blind: u64,
    /// Samples that changed while they were taken.
    pub(super) torn: u64,
    /// Stacks that no rule knows, innermost function first, by how often.
    pub(super) unknown: BTreeMap<Vec<String>, u64>,
}

/// Distinct stacks that no rule knows at most.
const MAX_UNKNOWN: usize = 200;

impl ThreadReader {
    pub(super) fn new(without_swap: bool, schedstat: bool) -> Self {
        Self {
            buffer: Vec::new(),
            name: String::new(),
            open: HashMap::new(),
            without_swap,
            schedstat,
            blind: 0,
            torn: 0,
            unknown: BTreeMap::new(),
        }
    }

    /// A new sweep begins.
    pub(super) fn begin(&mut self) {
        self.open.clear();
    }

    /// Looks at a thread. `asleep` are its scheduler figures at the last look, if it slept then and a short look will do.
    ///
    /// The scheduler's figures are read first and last: if they differ, the thread ran in between, and what was read of its
    /// wait does not belong together.
    pub(super) fn look(
        &mut self,
        dir: &ProcessDir,
        process: &mut Process,
        (pid, tid): (u32, u32),
        asleep: Option<Schedstat>,
    ) -> Found {
        let before = match self.schedstat(dir, pid, tid) {
            Ok(before) => before,
            Err(error) if error.reason == Reason::Absent => return Found::Gone,
            Err(_) => None,
        };
        if asleep.is_some() && before == asleep {
            return Found::Unmoved;
        }
        let call = self.call(dir, process, pid, tid);
        let wchan = self.file(dir, pid, tid, "wchan").ok().and_then(parse::wchan).map(str::to_owned);
        let Some(stat) = self.file(dir, pid, tid, "stat").ok().and_then(parse::stat) else { return Found::Gone };
        let (state, kernel, start) = (stat.state, stat.kernel, stat.start);
        let comm = String::from_utf8_lossy(stat.comm).into_owned();
        let mut counters = Counters { sched: before, user: stat.user, system: stat.system };
        if matches!(state, 'Z' | 'X' | 'x') {
            return Found::Ended(counters);
        }
        let mut doing = match state {
            'R' => Doing::Runnable,
            _ => self.waits(dir, process, (pid, tid), (state, kernel), call, wchan.as_deref()),
        };
        let after = self.schedstat(dir, pid, tid).ok().flatten();
        if after != before {
            counters.sched = after.or(before);
            if doing != Doing::Runnable && state != 'T' && state != 't' {
                doing = self.torn(dir, process, (pid, tid), (state, kernel), call, wchan.as_deref());
            }
        }
        Found::There(Box::new(There { comm, kernel, start, counters, doing }))
    }

    fn schedstat(&mut self, dir: &ProcessDir, pid: u32, tid: u32) -> Result<Option<Schedstat>, SourceError> {
        let kept = self.schedstat;
        let read = self.file(dir, pid, tid, if kept { "schedstat" } else { "comm" })?;
        Ok(if kept { process::schedstat(read) } else { None })
    }

    /// Where it is; none if that may not be seen.
    fn call(&mut self, dir: &ProcessDir, process: &mut Process, pid: u32, tid: u32) -> Option<Syscall> {
        if process.syscall_denied {
            return None;
        }
        match self.file(dir, pid, tid, "syscall") {
            Ok(bytes) => parse::syscall(bytes),
            Err(error) => {
                process.syscall_denied = error.reason == Reason::Denied;
                None
            }
        }
    }

    fn waits(
        &mut self,
        dir: &ProcessDir,
        process: &mut Process,
        (pid, tid): (u32, u32),
        (state, kernel): (char, bool),
        call: Option<Syscall>,
        wchan: Option<&str>,
    ) -> Doing {
        let (mut file, mut key, mut name) = (FileClass::Unknown, String::new(), "");
        let within = match call {
            None => Within::Unknown,
            // Asleep now, and running a moment ago: the function alone may tell.
            Some(Syscall::Running) => Within::Unknown,
            Some(Syscall::User) => Within::User,
            Some(Syscall::Call(parse::Call { number, arguments: [first, second, third, ..], stack_pointer })) => {
                name = calls::name(process.abi, number).filter(|_| !kernel).unwrap_or_default();
                if on_a_file(name) {
                    (file, key) = self.opened(dir, pid, first as u32);
                } else if calls::kind(name) == Some(calls::Kind::Futex) {
                    key = format!("{first:#x}");
                }
                let in_own_stack = futex::in_own_stack(first, stack_pointer);
                Within::Call(Call { name, arguments: Some([first, second, third]), in_own_stack })
            }
        };
        let frames: Vec<&str> = wchan.into_iter().collect();
        let wait =
            Wait { state, kernel, within, file, frames: &frames, without_swap: self.without_swap, ..Wait::default() };
        let Some(mut class) = classify::classify(&wait) else { return Doing::Torn };
        // The one function that wchan names leaves out where locks are waited for, and what a fault is about.
        let mut stack = Vec::new();
        if (state == 'D' || class.evidence == NO_RULE) && !process.stack_denied {
            match self.file(dir, pid, tid, "stack") {
                Ok(bytes) => stack = owned(&parse::stack(&String::from_utf8_lossy(bytes))),
                Err(error) => process.stack_denied = error.reason == Reason::Denied,
            }
            let frames: Vec<&str> = stack.iter().map(String::as_str).collect();
            if !frames.is_empty() {
                class = classify::classify(&Wait { frames: &frames, ..wait }).unwrap_or(class);
            }
        }
        // Where it was is not known: a wait for a disk may have been anything, a page fault too.
        let vague = class.evidence == NO_RULE || class.component == Component::IoBlock;
        if vague && call == Some(Syscall::Running) {
            return Doing::Torn;
        }
        if class.evidence == NO_RULE {
            self.note_unknown(stack, wchan, within);
        }
        if !names_its_file(class.component) && !matches!(class.component, Component::LockUser | Component::WaitFutex) {
            key.clear();
        }
        let in_a_fault = matches!(class.component, Component::Fault | Component::FaultFile | Component::FaultSwap);
        Doing::Waits(class, WaitDetail { call: if in_a_fault { "page fault" } else { name }, key })
    }

    /// The thread ran while it was looked at: function, state and call do not belong together. The call by itself is
    /// sound, since the kernel makes sure of it, and so is the function where there is no call; without them, waits that are
    /// short would not be seen at all.
    fn torn(
        &mut self,
        dir: &ProcessDir,
        process: &mut Process,
        ids: (u32, u32),
        (state, kernel): (char, bool),
        call: Option<Syscall>,
        wchan: Option<&str>,
    ) -> Doing {
        self.torn += 1;
        let alone = matches!(call, Some(Syscall::Call(..) | Syscall::User));
        let denied = std::mem::replace(&mut process.stack_denied, true);
        let doing = self.waits(dir, process, ids, (state, kernel), call, wchan.filter(|_| !alone));
        process.stack_denied = denied;
        match doing {
            Doing::Waits(class, _) if class.evidence == NO_RULE => Doing::Torn,
            doing => doing,
        }
    }

    /// Keeps the stack of a wait that no rule knows; where there is none, at least that nothing may be seen.
    fn note_unknown(&mut self, stack: Vec<String>, wchan: Option<&str>, within: Within<'_>) {
        let mut stack = if stack.is_empty() { owned(wchan.as_slice()) } else { stack };
        if stack.is_empty() && within == Within::Unknown {
            self.blind += 1;
            return;
        }
        if let Within::Call(call) = within {
            stack.push(format!("{}()", if call.name.is_empty() { "unknown call" } else { call.name }));
        }
        if self.unknown.len() < MAX_UNKNOWN || self.unknown.contains_key(&stack) {
            *self.unknown.entry(stack).or_default() += 1;
        }
    }

    /// What a file descriptor is open on, and its path if it has one.
    fn opened(&mut self, dir: &ProcessDir, pid: u32, descriptor: u32) -> (FileClass, String) {
        if let Some(known) = self.open.get(&(pid, descriptor)) {
            return known.clone();
        }
        self.name.clear();
        let _ = write!(self.name, "{pid}/fd/{descriptor}");
        let target = dir.link(&self.name, Vec::new()).unwrap_or_default();
        let target = String::from_utf8_lossy(&target);
        let mut class = FileClass::of_link(&target);
        if class == FileClass::Socket {
            class = dir.socket_protocol(&self.name).map_or(class, |name| files::of_protocol(&name));
        }
        let path =
            if matches!(class, FileClass::File | FileClass::Device) { target.into_owned() } else { String::new() };
        self.open.insert((pid, descriptor), (class, path.clone()));
        (class, path)
    }

    /// What changes only when a process becomes another program, and its CPU time so far.
    pub(super) fn process(&mut self, dir: &ProcessDir, pid: u32, process: &mut Process) {
        self.name.clear();
        let _ = write!(self.name, "{pid}/auxv");
        process.abi = dir.read(&self.name, &mut self.buffer).map(parse::abi).unwrap_or_default();
        self.name.clear();
        let _ = write!(self.name, "{pid}/cgroup");
        let text = dir.read(&self.name, &mut self.buffer).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        if let Some(group) = text.ok().as_deref().and_then(|text| rdiag_kernel::host::cgroups::group_of(text, "cpu")) {
            process.group = Some(group.to_owned());
        }
        self.process_ticks(dir, pid, process);
    }

    /// The CPU time of a whole process.
    pub(super) fn process_ticks(&mut self, dir: &ProcessDir, pid: u32, process: &mut Process) {
        self.name.clear();
        let _ = write!(self.name, "{pid}/stat");
        let stat = dir.read(&self.name, &mut self.buffer).ok().and_then(parse::stat);
        if let Some(now) = stat.map(|stat| stat.user.saturating_add(stat.system)) {
            process.ticks = Some((process.ticks.map_or(now, |(first, _)| first), now));
        }
    }

    fn file(&mut self, dir: &ProcessDir, pid: u32, tid: u32, file: &str) -> Result<&[u8], SourceError> {
        self.name.clear();
        let _ = write!(self.name, "{pid}/task/{tid}/{file}");
        dir.read(&self.name, &mut self.buffer)
    }
}

fn owned(frames: &[&str]) -> Vec<String> {
    frames.iter().map(|frame| classify::frames::bare(frame).to_owned()).collect()
}

/// Whether the first argument of a call is a file descriptor that says what it waits for.
fn on_a_file(name: &str) -> bool {
    use calls::Kind;
    let kinds =
        [Kind::Read, Kind::Write, Kind::Move, Kind::Receive, Kind::Send, Kind::Connect, Kind::Accept, Kind::Ioctl];
    calls::kind(name).is_some_and(|kind| kinds.contains(&kind)) || ["fsync", "fdatasync", "flock"].contains(&name)
}

/// Whether the path of the file belongs to the wait.
fn names_its_file(component: Component) -> bool {
    use Component as C;
    matches!(
        component,
        C::IoBlockRead
            | C::IoBlockWrite
            | C::IoBlockSync
            | C::IoPace
            | C::IoNetfs
            | C::IoFuse
            | C::LockFile
            | C::WaitDevice
            | C::WaitTty
    )
}
