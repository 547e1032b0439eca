//! Mounted file systems: space, inodes, and those that hang, fail, or went read-only by themselves.

mod catalogue;
pub(super) mod mountinfo;
#[cfg(test)]
mod tests;

use mountinfo::Mount;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::statvfs::{Asking, Capacity, Outcome};
use rdiag_model::{Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "filesystems",
    help: "Space and inodes of each mounted file system, from /proc/self/mountinfo and statvfs(2).",
    cadence: Cadence::Ends,
    series: catalogue::SERIES,
    metrics: catalogue::METRICS,
    overhead: "once per window: one short-lived process that asks each file system (about 5 ms of CPU); a file system \
               that hangs costs waiting beside the measurement, and is asked at most twice",
    start: |_| Box::new(Filesystems::default()),
};

/// At the end of a window that was shorter than the asking, this much more patience.
const LAST_WAIT_SECONDS: f64 = 2.0;

#[derive(Default)]
struct Filesystems {
    mounts: Vec<Mount>,
    asking: Option<Asking>,
}

impl Collect for Filesystems {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let begun = self.asking.is_some();
        // Flags may change within the window: an error can make a file system read-only.
        let found = mountinfo::select(&host.read_bytes(mountinfo_path(host))?);
        if !begun || host.is_recorded() {
            self.ask(host, out, found);
        } else {
            self.update(found.0);
        }
        let Some(asking) = &self.asking else { return Ok(()) };
        // The answers are collected by the sample at the window's end, so that asking delays no other reading.
        if begun || asking.is_done() {
            let answers = asking.answers(LAST_WAIT_SECONDS);
            for (mount, answer) in self.mounts.iter().zip(answers) {
                record(mount, &answer, out);
            }
        }
        Ok(())
    }
}

impl Filesystems {
    fn ask(&mut self, host: &Host, out: &Sink, (mounts, left_out): (Vec<Mount>, usize)) {
        if left_out > 0 {
            let why = format!("{left_out} more file systems are mounted than the {} asked", mountinfo::MAX_MOUNTS);
            out.gap("filesystems.", "(more)", Unavailable::new(Reason::ShortWindow, why));
        }
        for mount in &mounts {
            label(mount, out);
        }
        let points: Vec<&[u8]> = mounts.iter().map(|mount| mount.point.as_slice()).collect();
        self.asking = Some(host.statvfs(&points));
        self.mounts = mounts;
    }

    fn update(&mut self, found: Vec<Mount>) {
        for mount in &mut self.mounts {
            if let Some(now) = found.iter().find(|now| now.device == mount.device && now.point == mount.point) {
                mount.clone_from(now);
            }
        }
    }
}

/// rdiag's own mounts; those of the first process where the tree of a host is mounted somewhere below.
pub(super) fn mountinfo_path(host: &Host) -> &'static str {
    if host.is_seen_from_outside() { "proc/1/mountinfo" } else { "proc/self/mountinfo" }
}

fn label(mount: &Mount, out: &Sink) {
    let name = mount.name();
    out.label(&name, "type", mount.kind.as_str());
    out.label(&name, "device", mount.source.as_str());
    out.label(&name, "read_only", if mount.is_read_only() { "yes" } else { "no" });
}

fn record(mount: &Mount, answer: &Outcome, out: &Sink) {
    let name = mount.name();
    let flag = |series: &'static str, on: bool| out.level(series, &name, f64::from(u8::from(on)));
    let gap = |prefix: &str, reason: Reason, why: String| out.gap(prefix, &name, Unavailable::new(reason, why));
    match answer {
        Outcome::NotAsked(reason, why) => {
            gap("filesystems.", *reason, format!("{name} was not asked: {why}"));
            return;
        }
        Outcome::Hung => {
            for prefix in ["filesystems.space", "filesystems.inodes", "filesystems.broken"] {
                gap(prefix, Reason::Hung, format!("{name} did not answer within a second, twice"));
            }
        }
        Outcome::Failed(error) => failed(&name, *error, out),
        Outcome::Capacity(_) if mount.is_image() => {
            gap("filesystems.", Reason::NotApplicable, format!("{name} is a read-only image ({})", mount.kind));
            return;
        }
        Outcome::Capacity(_) if mount.is_read_only() => {
            for prefix in ["filesystems.space", "filesystems.inodes"] {
                gap(prefix, Reason::NotApplicable, format!("{name} is read-only: it cannot become fuller"));
            }
        }
        Outcome::Capacity(capacity) => record_capacity(&name, capacity, out),
    }
    let hung = *answer == Outcome::Hung;
    flag("filesystems.hung", hung);
    if !hung {
        flag("filesystems.broken", matches!(answer, Outcome::Failed(error) if !is_refusal(*error)));
    }
    flag("filesystems.forced_read_only", mount.was_forced_read_only());
}

fn record_capacity(name: &str, capacity: &Capacity, out: &Sink) {
    if capacity.total == 0 {
        let why = format!("{name} has no size of its own");
        out.gap("filesystems.space", name, Unavailable::new(Reason::NotApplicable, why));
    } else {
        out.level("filesystems.space_total", name, capacity.total as f64);
        out.level("filesystems.space_free", name, capacity.free as f64);
        out.level("filesystems.space_available", name, capacity.available as f64);
    }
    if capacity.inodes == 0 {
        let why = format!("{name} has no fixed number of inodes");
        out.gap("filesystems.inodes", name, Unavailable::new(Reason::NotApplicable, why));
    } else {
        out.level("filesystems.inodes_total", name, capacity.inodes as f64);
        out.level("filesystems.inodes_free", name, capacity.inodes_free as f64);
    }
}

/// An error that speaks of rights, of a key that rdiag lacks (Kerberos) or of a mount that is gone, not of a file system that fails.
fn is_refusal(error: i32) -> bool {
    use rustix::io::Errno;
    let rights = [Errno::ACCESS, Errno::PERM, Errno::NOKEY, Errno::KEYEXPIRED, Errno::KEYREVOKED, Errno::KEYREJECTED];
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::NOSYS, Errno::NAMETOOLONG, Errno::LOOP];
    rights.iter().chain(&gone).any(|known| known.raw_os_error() == error)
}

fn failed(name: &str, error: i32, out: &Sink) {
    let source = std::io::Error::from_raw_os_error(error);
    let gap = Unavailable::from(rdiag_kernel::host::SourceError::io(name.trim_start_matches('/'), &source));
    out.gap("filesystems.space", name, gap.clone());
    out.gap("filesystems.inodes", name, gap);
    out.label(name, "error", source.to_string());
}
