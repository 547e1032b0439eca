//! The one door to the machine. Everything that is read, timed or written goes through here, so that a recorded
//! tree (`--root DIR`) can stand in for the machine in the shipped binary.

pub mod again;
mod alarm;
mod asked;
mod begin;
mod boot;
pub mod cgroups;
mod clock;
pub mod confine;
mod control;
mod facts;
mod file_store;
pub mod files;
mod folder;
mod held;
pub mod launch;
mod lookup;
mod made;
pub mod message;
mod process_dir;
mod release;
mod replay;
pub mod rights;
mod runtimes;
mod same_file;
pub mod secrets;
pub mod setup;
mod socket_owners;
mod source;
pub mod statvfs;
mod stolen;
mod tree;
pub(crate) mod way;
mod within;
mod zone;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub use alarm::Alarm;
pub use asked::{Asked, OpenFiles, Present};
pub use begin::{BeginAt, NoInstant};
pub use boot::boot_id;
pub use clock::{Clock, own_usage, thread_usage};
pub use control::Control;
pub use file_store::StoredFile;
pub use process_dir::ProcessDir;
pub use release::release_memory;
pub use replay::{Fault, HostSpec, OpenFile};
pub use runtimes::{AskedRuntime, ask_for_maps};
pub use same_file::same_open_file;
pub use socket_owners::{SocketOwners, socket_owners, socket_owners_beside};
pub use source::SourceError;
pub use stolen::{CpuTicks, Stolen};
pub use way::may_be_asked;
pub use within::within;
pub use zone::Zone;

use rdiag_model::Facts;
use rustix::fs::OFlags;

/// The process namespace that the kernel begins with, as /proc/PID/ns/pid shows it: PROC_PID_INIT_INO of the kernel.
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// No file that rdiag reads is larger; what is larger is not what it claims to be.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The machine, or a recorded tree in its place.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    replay: Option<HostSpec>,
    held: Option<held::Held>,
    instant: AtomicUsize,
    clock: Clock,
    facts: Facts,
    asked: Asked,
}

impl Host {
    /// The machine rdiag runs on, seen through `root` (`/`, or where a container has the host's tree).
    pub fn live(root: &Path) -> Self {
        let mut host = Self::empty(root);
        host.facts = facts::gather(&host, None);
        host
    }

    /// A recorded tree: `t0`, `t1` … under `root` hold the files at each instant.
    pub fn recorded(root: &Path, spec: HostSpec) -> Self {
        let clock = Clock::replay(&spec);
        let mut host = Self { clock, ..Self::empty(root) };
        let given = spec.facts.clone();
        host.replay = Some(spec);
        host.facts = facts::gather(&host, given);
        host
    }

    /// A host of which only the text of some files is known (`dev/kmsg`), at each instant: no other file is there.
    pub fn of_texts(files: BTreeMap<String, Vec<Vec<u8>>>) -> Self {
        let held = held::Held::new(files);
        let times = (0..held.instants()).map(|at| at as f64).collect();
        let spec = HostSpec { times, ..HostSpec::default() };
        let clock = Clock::replay(&spec);
        // No path leads anywhere below what is no folder.
        Self { replay: Some(spec), held: Some(held), clock, ..Self::empty(Path::new("/dev/null")) }
    }

    fn empty(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            replay: None,
            held: None,
            instant: AtomicUsize::new(0),
            clock: Clock::live(),
            facts: Facts::default(),
            asked: Asked::default(),
        }
    }

    /// Whether this is a recorded tree with its own instants.
    pub fn is_recorded(&self) -> bool {
        self.replay.is_some()
    }

    /// Whether this is a live host seen from another mount namespace, through a directory that holds its tree.
    pub fn is_seen_from_outside(&self) -> bool {
        self.replay.is_none() && self.root != Path::new("/")
    }

    /// How many instants a recorded tree has; none on a live host.
    pub fn recorded_instants(&self) -> Option<usize> {
        self.replay.as_ref().map(|spec| spec.times.len())
    }

    /// Facts that hold for the whole run.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What all processes were asked in this sample.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// CPU seconds that the asking thread has used: what a source costs. Reading a recorded tree costs nothing.
    pub fn thread_usage(&self) -> f64 {
        if self.is_recorded() { 0.0 } else { clock::thread_usage() }
    }

    /// Monotonic seconds; from the recorded times on a recorded tree.
    pub fn now(&self) -> f64 {
        self.clock.now(self.instant.load(Ordering::Relaxed))
    }

    /// Seconds the machine was suspended since boot, as far as the clocks tell (CLOCK_BOOTTIME − CLOCK_MONOTONIC).
    pub fn suspended(&self) -> f64 {
        self.clock.suspended()
    }

    /// Wall-clock time now, RFC 3339, UTC.
    pub fn wall_clock(&self) -> String {
        self.clock.wall()
    }

    /// Wall-clock time now, in microseconds since 1970.
    pub fn wall_micros(&self) -> i64 {
        self.clock.wall_micros()
    }

    /// Waits until the monotonic time `until`, or moves a recorded tree to `instant`.
    /// Returns early, with `false`, when `stop` is set.
    pub fn wait(&self, until: f64, instant: usize, stop: &AtomicBool) -> bool {
        if let Some(spec) = &self.replay {
            self.instant.store(instant.min(spec.times.len().saturating_sub(1)), Ordering::Relaxed);
            return !stop.load(Ordering::Relaxed);
        }
        self.clock.wait_until(until, stop)
    }

    /// Waits until the monotonic time `until` in one piece, for who waits all day: waking up twenty times a second costs more than a tenth
    /// of what the recorder takes. Returns early, with `false`, when a signal to this thread set `stop`; of another thread's, and of one
    /// just before it falls asleep, it learns at the end, so that must not be far.
    pub fn rest(&self, until: f64, stop: &AtomicBool) -> bool {
        if self.is_recorded() {
            return self.wait(until, 0, stop);
        }
        self.clock.sleep_until(until, f64::from(u32::MAX), stop) && !stop.load(Ordering::Relaxed)
    }

    /// Reads a whole file, given as `proc/stat` (no leading slash), as text. Bytes that are no UTF-8 are replaced.
    pub fn read(&self, path: &str) -> Result<String, SourceError> {
        let bytes = self.read_bytes(path)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Reads a file that holds one line, without the white space around it.
    pub fn read_line(&self, path: &str) -> Result<String, SourceError> {
        Ok(self.read(path)?.trim().to_owned())
    }

    /// Reads a file that holds one whole number; anything else in it is malformed.
    pub fn read_u64(&self, path: &str) -> Result<u64, SourceError> {
        let text = self.read_line(path)?;
        let start = || text.chars().take(40).collect::<String>();
        text.parse().map_err(|_| SourceError::malformed(path, format!("{:?} is not a whole number", start())))
    }

    /// Reads a whole file as bytes; at most 16 MiB. Command lines of processes come without the secrets in them.
    pub fn read_bytes(&self, path: &str) -> Result<Vec<u8>, SourceError> {
        use std::io::Read as _;
        let file = self.open(path)?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| SourceError::io(path, &e))?;
        if read as u64 > MAX_FILE_BYTES {
            return Err(SourceError::malformed(path, "it is larger than 16 MiB".into()));
        }
        // Of the kernel's own command line nothing is shown.
        let is_of_process = path.ends_with("/cmdline") && path != "proc/cmdline";
        Ok(if is_of_process { secrets::masked_bytes(&bytes).unwrap_or(bytes) } else { bytes })
    }

    /// The text of a file, to be read by a thread that may have to wait for it; at most 16 MiB.
    pub(crate) fn later(&self, path: &str) -> impl FnOnce() -> Option<String> + Send + 'static {
        let there = self.fault(path).is_ok() && self.held.is_none();
        let (folder, path) = (self.folder_of(path), path.trim_start_matches('/').to_owned());
        let is_tree = self.is_tree();
        move || {
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let file = match is_tree {
                true => tree::open(&folder, &path, flags).ok()?,
                false => rustix::fs::open(folder.join(path), flags, rustix::fs::Mode::empty()).ok()?,
            };
            let bytes = there.then(|| files::read_open(&file.into(), MAX_FILE_BYTES).ok()).flatten()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    }

    /// Opens a file for reading in pieces, without blocking on it.
    pub fn open(&self, path: &str) -> Result<std::fs::File, SourceError> {
        self.fault(path)?;
        if let Some(held) = &self.held {
            return held.open(path, self.instant.load(Ordering::Relaxed));
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        if self.is_tree() {
            return self.in_tree(path, flags).map(Into::into).map_err(|e| SourceError::io(path, &e));
        }
        let mut options = std::fs::OpenOptions::new();
        options.read(true);
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
        let full = self.locate(path);
        options.open(full).map_err(|e| SourceError::io(path, &e))
    }

    /// The directory of processes, for many quick reads.
    pub fn processes(&self) -> Result<ProcessDir, SourceError> {
        self.fault("proc")?;
        let recorded = self.replay.clone().map(|spec| (spec, self.instant.load(Ordering::Relaxed)));
        let path = self.locate("proc");
        let folder = self.is_tree().then(|| self.folder_of("proc"));
        ProcessDir::open(&path, folder.as_deref(), recorded)
    }

    /// Begins to ask for the capacity of mounted file systems, in the given order. It never blocks: a mount may hang.
    pub fn statvfs(&self, mounts: &[&[u8]]) -> statvfs::Asking {
        let Some(spec) = &self.replay else { return statvfs::Asking::live(&self.root, mounts) };
        let recorded = |mount: &&[u8]| statvfs::Outcome::recorded(spec.statvfs.get(&*String::from_utf8_lossy(mount)));
        statvfs::Asking::recorded(mounts.iter().map(recorded).collect())
    }

    /// What a recorded tree says instead of the machine, if this is one.
    pub fn spec(&self) -> Option<&HostSpec> {
        self.replay.as_ref()
    }

    fn fault(&self, path: &str) -> Result<(), SourceError> {
        match &self.replay {
            Some(spec) => spec.fault(path, self.instant.load(Ordering::Relaxed)),
            None => Ok(()),
        }
    }
}

/// A host that several threads look at.
pub type SharedHost = Arc<Host>;
