//! inotify instances and masters of pseudo-terminals, as descriptors of processes.
//!
//! An instance that a process has from its parent counts once. It is charged to the effective user at the time when it was made, which
//! the kernel does not tell: the user of the process now stands for it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{BufRead as _, BufReader};

use crate::def::untraceable;
use rdiag_kernel::host::{Host, ProcessDir, SourceError, same_open_file};
use rdiag_model::{Reason, Unavailable};
use rdiag_proc::process;

/// Most processes have no other descriptors than these.
const STANDARD: u64 = 3;
/// Of one process not more descriptors are looked at, and of all not longer than this.
const MAX_OF_PROCESS: usize = 4096;
const BUDGET_SECONDS: f64 = 0.03;
/// The kernel writes a line for each watch, and holds the instance while it does.
const WATCHES_BUDGET_SECONDS: f64 = 0.25;
/// Kinds of processes that are named, those with the most instances first.
const MAX_KINDS: usize = 4;

/// A process with such descriptors.
#[derive(Debug, Default)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) start_ticks: u64,
    /// Pseudo-terminals that it is the master of.
    pub(super) masters: u64,
    uid: u32,
    parent: u32,
    instances: Vec<Instance>,
}

/// One inotify instance: the number of its descriptor, its watches, and a digest of what the kernel reports about them.
#[derive(Debug, Default)]
struct Instance {
    descriptor: u32,
    watches: u64,
    digest: u64,
    is_inherited: bool,
}

/// What a user has.
#[derive(Debug, Default)]
pub(super) struct User {
    pub(super) instances: f64,
    pub(super) watches: f64,
    /// The processes with the most instances and with the most watches: id, name, and how many.
    pub(super) most: (u32, String, u64),
    pub(super) most_watches: (u32, String, u64),
    by_name: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) holders: Vec<Holder>,
    processes: usize,
    denied: usize,
    /// Processes with more descriptors than were looked at.
    left_out: usize,
    /// Instances whose watches were not counted to the end.
    uncounted: usize,
}

pub(super) fn search(host: &Host, dir: &ProcessDir) -> Result<Found, SourceError> {
    let (mut left, counted) = match host.asked().open_files.latest(host.now()) {
        Some(all) => (all.iter().map(|one| (one.pid, one.count)).collect::<Vec<_>>(), true),
        None => ask(host, dir)?,
    };
    let mut found = Found { processes: left.len(), ..Found::default() };
    if counted {
        left.retain(|(_, count)| *count > STANDARD);
        left.sort_by_key(|(pid, count)| (std::cmp::Reverse(*count), *pid));
    }
    let until = host.thread_usage() + BUDGET_SECONDS;
    let (mut descriptors, mut target) = (Vec::new(), Vec::new());
    for (at, (pid, _)) in left.iter().enumerate() {
        if host.thread_usage() > until {
            found.left_out += left.len() - at;
            break;
        }
        if let Err(error) = dir.list(&format!("{pid}/fd"), &mut descriptors) {
            found.denied += usize::from(error.reason == Reason::Denied);
            continue;
        }
        found.left_out += usize::from(descriptors.len() > MAX_OF_PROCESS);
        let mut holder = Holder { pid: *pid, ..Holder::default() };
        for descriptor in descriptors.iter().copied().take(MAX_OF_PROCESS) {
            let Ok(name) = dir.link(&format!("{pid}/fd/{descriptor}"), target) else {
                target = Vec::new();
                continue;
            };
            match name.as_slice() {
                b"anon_inode:inotify" => holder.instances.push(Instance { descriptor, ..Instance::default() }),
                b"/dev/ptmx" | b"/dev/pts/ptmx" => holder.masters += 1,
                _ => {}
            }
            target = name;
        }
        if !holder.instances.is_empty() || holder.masters > 0 {
            found.holders.push(holder);
        }
    }
    let mut buffer = Vec::new();
    found.holders.retain_mut(|holder| identify(holder, dir, &mut buffer).is_some());
    let until = host.thread_usage() + WATCHES_BUDGET_SECONDS;
    for holder in &mut found.holders {
        for instance in &mut holder.instances {
            found.uncounted += usize::from(!count_watches(host, holder.pid, instance, until));
        }
    }
    mark_inherited(host, &mut found.holders);
    Ok(found)
}

/// The processes with the number of their descriptors, and whether the kernel tells that: since Linux 6.2 it is the size of the directory,
/// and rdiag itself has some.
fn ask(host: &Host, dir: &ProcessDir) -> Result<(Vec<(u32, u64)>, bool), SourceError> {
    let mut pids = Vec::new();
    dir.list("", &mut pids)?;
    let size = |pid: u32| dir.size(&format!("{pid}/fd"));
    let counted = !host.is_recorded() && size(host.facts().pid).is_ok_and(|size| size > 0);
    let count = |pid: u32| if counted { size(pid).unwrap_or(0) } else { STANDARD + 1 };
    Ok((pids.into_iter().map(|pid| (pid, count(pid))).collect(), counted))
}

/// Reads the name of a process, its parent and its effective user.
fn identify(holder: &mut Holder, dir: &ProcessDir, buffer: &mut Vec<u8>) -> Option<()> {
    let (name, stat) = process::stat(dir.read(&format!("{}/stat", holder.pid), buffer).ok()?)?;
    holder.name = String::from_utf8_lossy(name).into_owned();
    (holder.parent, holder.start_ticks) = (stat.ppid, stat.start_ticks);
    holder.uid = process::status(dir.read(&format!("{}/status", holder.pid), buffer).ok()?).uid?;
    Some(())
}

/// Counts the watches of an instance; false if it could not be done to the end.
fn count_watches(host: &Host, pid: u32, instance: &mut Instance, until: f64) -> bool {
    let Ok(file) = host.open(&format!("proc/{pid}/fdinfo/{}", instance.descriptor)) else { return false };
    let mut reader = BufReader::with_capacity(32 * 1024, file);
    let (mut line, mut digest) = (Vec::new(), DefaultHasher::new());
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return false,
        }
        if line.starts_with(b"inotify wd:") {
            digest.write(&line);
            instance.watches += 1;
            if instance.watches.is_multiple_of(1024) && host.thread_usage() > until {
                return false;
            }
        }
    }
    instance.digest = digest.finish();
    host.thread_usage() <= until
}

/// Marks the instances that a process has from its parent under the same number.
fn mark_inherited(host: &Host, holders: &mut [Holder]) {
    let of_all: HashMap<(u32, u32), (u64, u64)> = holders
        .iter()
        .flat_map(|holder| holder.instances.iter().map(|own| ((holder.pid, own.descriptor), (own.watches, own.digest))))
        .collect();
    for holder in holders {
        for own in &mut holder.instances {
            let Some((watches, digest)) = of_all.get(&(holder.parent, own.descriptor)).copied() else { continue };
            let told = same_open_file(host, (holder.pid, own.descriptor), (holder.parent, own.descriptor));
            // Two instances that watch the same are hardly two.
            own.is_inherited = told.unwrap_or(watches > 0 && (watches, digest) == (own.watches, own.digest));
        }
    }
}

impl Found {
    /// Users by the instances of their processes.
    pub(super) fn users(&self) -> BTreeMap<u32, User> {
        let mut users: BTreeMap<u32, User> = BTreeMap::new();
        for holder in &self.holders {
            let own = holder.instances.iter().filter(|instance| !instance.is_inherited);
            let (instances, watches) = own.fold((0, 0), |(count, watches), own| (count + 1, watches + own.watches));
            if instances == 0 {
                continue;
            }
            let user = users.entry(holder.uid).or_default();
            user.instances += instances as f64;
            user.watches += watches as f64;
            *user.by_name.entry(holder.name.clone()).or_default() += instances;
            for (most, own) in [(&mut user.most, instances), (&mut user.most_watches, watches)] {
                if own > most.2 {
                    *most = (holder.pid, holder.name.clone(), own);
                }
            }
        }
        users
    }

    /// What was not seen, and why.
    pub(super) fn gap(&self, host: &Host) -> Option<Unavailable> {
        if self.denied > 0 {
            let what = format!("the open files of {} of {} processes", self.denied, self.processes);
            return Some(untraceable(host.facts(), &what));
        }
        let short = |why: String| Some(Unavailable::new(Reason::ShortWindow, why));
        match (self.left_out, self.uncounted) {
            (0, 0) => None,
            (0, count) => short(format!("the watches of {count} inotify instances were not counted to the end")),
            (count, _) => short(format!("there are so many open files that those of {count} processes were left out")),
        }
    }
}

impl User {
    /// `120 node, 8 systemd`: instances by the name of their process.
    pub(super) fn kinds(&self) -> String {
        let mut kinds: Vec<_> = self.by_name.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let kinds: Vec<String> = kinds.iter().take(MAX_KINDS).map(|(name, count)| format!("{count} {name}")).collect();
        kinds.join(", ")
    }
}
