//! An instance of the kernel's tracing: made for one measurement, and removed with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error_log::latest_error;
use super::global::{self, Taken};
use super::tally::{Tally, stamp};
use super::undo::{self, Debt, Owed};
use super::{names, place, stale};
use crate::host::{Control, Host};
use rdiag_model::{Reason, Unavailable};

/// As many ids are handed to the kernel at once.
const IDS: usize = 500;

/// Longest file that comes in one piece, in bytes.
const AT_ONCE: usize = 16 << 10;

/// A private instance, or the global tracing while it is otherwise unused. Settings made in it affect no other user, and it is removed, or
/// given back, with this value.
#[derive(Debug)]
pub struct Instance {
    control: Control,
    dir: String,
    /// What is to be given back.
    taken: Option<Taken>,
    /// Who undoes it if rdiag is killed.
    debt: Option<Debt>,
}

/// Numbers the instances of this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Instance {
    /// Makes one whose buffers do not run yet, after removing what killed processes of rdiag have left behind.
    pub fn create(host: &Host) -> Result<Self, Unavailable> {
        Self::named(host, stale::PREFIX)
    }

    /// Makes one beside another, which is not reported.
    pub(super) fn beside(host: &Host) -> Result<Self, Unavailable> {
        Self::named(host, stale::BESIDE)
    }

    fn named(host: &Host, prefix: &str) -> Result<Self, Unavailable> {
        let (control, instances) = Self::swept(host)?;
        let dir = format!("{instances}/{}", stale::name(host, prefix, NUMBER.fetch_add(1, Ordering::Relaxed)));
        let debt = undo::owe(Owed::Instance { directory: dir.clone() });
        if let Err(error) = control.make_directory(&dir) {
            debt.settle();
            return Err(refused(&format!("making /{dir}"), &error));
        }
        let instance = Self { control, dir, taken: None, debt: Some(debt) };
        instance.set("tracing_on", "0")?;
        Ok(instance)
    }

    /// Takes the kernel's global tracing, if it is unused: some tracers do not run in an instance.
    pub fn global(host: &Host) -> Result<Self, Unavailable> {
        let (control, instances) = Self::swept(host)?;
        let _alone = control.lock(&instances).map_err(|error| refused(&format!("locking /{instances}"), &error))?;
        let name = stale::name(host, stale::PREFIX, NUMBER.fetch_add(1, Ordering::Relaxed));
        let dir = place::find(host)?.to_owned();
        let record = format!("{instances}/{name}{}", global::SUFFIX);
        let debt = undo::owe(Owed::Global { place: dir.clone(), record: record.clone() });
        let taken = Taken::new(&control, &dir, &record).inspect_err(|_| debt.settle())?;
        let instance = Self { control, dir, taken: Some(taken), debt: Some(debt) };
        instance.set("tracing_on", "0")?;
        Ok(instance)
    }

    /// Whether it is the global tracing.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.taken.is_some()
    }

    /// Where instances are, after removing what killed processes of rdiag have left behind.
    fn swept(host: &Host) -> Result<(Control, String), Unavailable> {
        place::obstacle(host)?;
        let instances = format!("{}/instances", place::find(host)?);
        let nobody = || Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to trace");
        let control = host.control().ok_or_else(nobody)?;
        stale::sweep(host, &control, &instances);
        Ok((control, instances))
    }

    /// One that is there already, as a tree of ordinary files.
    #[cfg(test)]
    pub(super) fn at(control: Control, dir: &str) -> Self {
        Self { control, dir: dir.to_owned(), taken: None, debt: None }
    }

    /// Its directory, without a leading slash.
    #[must_use]
    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// Writes to one of its files. The kernel's answer comes as it is, for those who know what it means there.
    pub fn try_set(&self, file: &str, value: &str) -> io::Result<()> {
        self.control.write(&format!("{}/{file}", self.dir), value)
    }

    /// Writes to one of its files; an error says what was attempted.
    pub fn set(&self, file: &str, value: &str) -> Result<(), Unavailable> {
        self.try_set(file, value)
            .map_err(|error| refused(&format!("writing {value:?} to /{}/{file}", self.dir), &error))
    }

    /// What one of its files holds.
    pub fn get(&self, host: &Host, file: &str) -> Result<String, Unavailable> {
        Ok(host.read(&format!("{}/{file}", self.dir))?)
    }

    /// What one of those of its files holds that the kernel hands out in one piece: a second or short read gets a part.
    pub fn get_at_once(&self, host: &Host, file: &str) -> Result<String, Unavailable> {
        let path = format!("{}/{file}", self.dir);
        let mut buffer = vec![0; AT_ONCE];
        let read = host.open(&path)?.read(&mut buffer).map_err(|error| refused(&format!("reading /{path}"), &error))?;
        Ok(String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()).into_owned())
    }

    /// Sets the clock that stamps events: one of those in `trace_clock`.
    pub fn set_clock(&self, host: &Host, clock: &str) -> Result<(), Unavailable> {
        let known = self.get(host, "trace_clock")?;
        let known: Vec<&str> = known.split_whitespace().map(|name| name.trim_matches(['[', ']'])).collect();
        if !known.contains(&clock) {
            let why = format!("the kernel has no clock {clock:?} for events; it has {}", known.join(", "));
            return Err(Unavailable::new(Reason::Malformed, why));
        }
        self.set("trace_clock", clock)
    }

    /// Limits events to some CPUs.
    pub fn set_cpus(&self, cpus: &[u32]) -> Result<(), Unavailable> {
        self.set("tracing_cpumask", &mask(cpus))
    }

    /// Limits what is seen to processes, with all their threads and whatever they start from now on.
    pub fn follow(&self, host: &Host, what: Followed, pids: &[u32]) -> Result<(), Unavailable> {
        let (file, fork) = what.files();
        self.set(fork, "1")?;
        let mut known = Vec::new();
        // Threads that were started while the first list was read are in the second one, or they were started by one of it.
        for _ in 0..2 {
            let mut threads: Vec<u32> = pids.iter().flat_map(|pid| threads(host, *pid)).collect();
            threads.retain(|thread| !known.contains(thread));
            self.add_ids(file, &threads)?;
            known.extend(threads);
        }
        // An empty list would limit nothing.
        if known.is_empty() {
            return Err(Unavailable::new(Reason::Absent, "the process has ended"));
        }
        Ok(())
    }

    /// Leaves out what this process does. Kernels before 5.8 cannot, and show it.
    pub fn leave_out_own(&self, host: &Host, what: Followed) -> Result<(), Unavailable> {
        match self.add_ids(what.left_out(), &threads(host, host.facts().pid)) {
            Err(gap) if gap.reason == Reason::Absent => Ok(()),
            done => done,
        }
    }

    fn add_ids(&self, file: &str, ids: &[u32]) -> Result<(), Unavailable> {
        for some in ids.chunks(IDS) {
            let some: Vec<String> = some.iter().map(u32::to_string).collect();
            self.set(file, &some.join(" "))?;
        }
        Ok(())
    }

    /// Puts a filter on an event. If the kernel rejects it, no event may be switched on: what was there before is gone.
    pub fn set_filter(&self, host: &Host, group: &str, name: &str, filter: &str) -> Result<(), Unavailable> {
        let file = format!("events/{group}/{name}/filter");
        let wrong = |said: String| {
            Unavailable::new(Reason::Malformed, format!("the kernel rejects the filter for {group}:{name}: {said}"))
        };
        if let Err(error) = self.try_set(&file, filter) {
            let log = self.get(host, "error_log").unwrap_or_default();
            return Err(wrong(latest_error(&log).unwrap_or_else(|| error.to_string())));
        }
        // A filter that was swallowed would let everything through.
        match self.get(host, &file)?.trim() {
            "none" | "" => Err(wrong(format!("it was not taken over: {filter:?}"))),
            _ => Ok(()),
        }
    }

    /// Opens the stream of each CPU's events as pages of records. Close them before the instance is dropped.
    pub fn raw_pipes(&self, host: &Host) -> Result<Vec<(u32, Pipe)>, Unavailable> {
        let names = host.subdirectories(&format!("{}/per_cpu", self.dir))?;
        let cpus = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        cpus.map(|cpu| Ok((cpu, Pipe(host.open(&format!("{}/per_cpu/cpu{cpu}/trace_pipe_raw", self.dir))?)))).collect()
    }

    /// The tracers that the kernel has for its global buffer, with blanks between them.
    pub fn global_tracers(host: &Host) -> Result<String, Unavailable> {
        Ok(host.read(&format!("{}/available_tracers", place::find(host)?))?)
    }

    /// Names of tasks by their ids, as far as the tracing remembers them; none where they cannot be read.
    #[must_use]
    pub fn task_names(host: &Host) -> BTreeMap<u32, String> {
        let text = place::find(host).ok().and_then(|place| host.read(&format!("{place}/saved_cmdlines")).ok());
        names::saved(host, &text.unwrap_or_default())
    }

    /// What the clock says by which its events are stamped, no later than now; none where it is not told.
    #[must_use]
    pub fn now(&self, host: &Host) -> Option<u64> {
        let cpu = host.subdirectories(&format!("{}/per_cpu", self.dir)).ok()?.into_iter().next()?;
        stamp(&self.get(host, &format!("per_cpu/{cpu}/stats")).ok()?)
    }

    /// Forgets what its buffers hold, and that it was there.
    pub fn forget(&self) -> Result<(), Unavailable> {
        let file = format!("{}/trace", self.dir);
        self.control.clear(&file).map_err(|error| refused(&format!("cutting off /{file}"), &error))
    }

    /// What became of its events since it was made, or since it forgot them.
    #[must_use]
    pub fn tally(&self, host: &Host) -> Tally {
        let cpus = host.subdirectories(&format!("{}/per_cpu", self.dir)).unwrap_or_default();
        let of = |cpu: String| Tally::parse(&self.get(host, &format!("per_cpu/{cpu}/stats")).unwrap_or_default());
        cpus.into_iter().map(of).fold(Tally::default(), Tally::plus)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let is_undone = if let Some(taken) = &self.taken {
            taken.give_back(&self.control);
            true
        } else {
            let _ = self.try_set("tracing_on", "0");
            // Switches its events off too. If another process reads it just now it stays until rdiag ends, or the next one starts.
            self.control.remove_directory(&self.dir).is_ok()
        };
        self.debt.iter().filter(|_| is_undone).for_each(Debt::settle);
    }
}

/// What of a process is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// The events that happen in it.
    Events,
    /// The functions that it calls.
    Functions,
}

impl Followed {
    /// The file that holds the ids, and the option by which the kernel adds those of children.
    fn files(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("set_event_pid", "options/event-fork"),
            Self::Functions => ("set_ftrace_pid", "options/function-fork"),
        }
    }

    /// The file that holds the ids of those who are not seen.
    fn left_out(self) -> &'static str {
        match self {
            Self::Events => "set_event_notrace_pid",
            Self::Functions => "set_ftrace_notrace_pid",
        }
    }
}

/// Ids of a process's threads; none if it has ended.
fn threads(host: &Host, pid: u32) -> Vec<u32> {
    let names = host.subdirectories(&format!("proc/{pid}/task")).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// The open stream of an instance's events.
#[derive(Debug)]
pub struct Pipe(File);

impl Pipe {
    /// Reads what is there, without waiting; 0 if nothing is.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Unavailable> {
        loop {
            match self.0.read(buffer) {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(refused("reading the buffer of a CPU", &error)),
            }
        }
    }
}

/// A refusal of the kernel, with what was attempted.
fn refused(attempt: &str, error: &io::Error) -> Unavailable {
    use rustix::io::Errno;
    let why = format!("{attempt} was refused: {error}");
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            Unavailable::new(Reason::Denied, why).with_remedy("run rdiag as root, where tracefs may be written to")
        }
        Some(Errno::NOENT | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NODEV) => Unavailable::new(Reason::Absent, why),
        _ => Unavailable::new(Reason::Malformed, why),
    }
}

/// CPUs as the kernel reads a mask: words of 32 bits in hexadecimal, the highest first.
fn mask(cpus: &[u32]) -> String {
    let mut words = vec![0_u32; cpus.iter().max().map_or(1, |last| *last as usize / 32 + 1)];
    for cpu in cpus {
        if let Some(word) = words.get_mut(*cpu as usize / 32) {
            *word |= 1 << (cpu % 32);
        }
    }
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_highest_cpus_first() {
        assert_eq!(mask(&[0, 1, 3]), "0000000b");
        assert_eq!(mask(&[33, 0]), "00000002,00000001");
    }
}
