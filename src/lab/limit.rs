//! A limit for a program of a load: a control group of its own, on either version of the interface.

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Version, keyed};
use rdiag_model::{Reason, Unavailable};

/// How the names of all groups of the lab begin; nothing else is ever removed.
const PREFIX: &str = "rdiag-lab-";
/// As many groups are asked what groups have.
const FEW: usize = 20;
/// The kernel's own default, in microseconds.
const CPU_PERIOD: u32 = 100_000;

/// What a program and all that it starts may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "most", rename_all = "snake_case")]
pub enum Limit {
    /// CPU time, in percent of one CPU, 5 to 100.
    CpuPercent(u32),
    /// Reads from the disk of the exercise per second, 20 to 10000.
    ReadsPerSecond(u32),
    /// Memory with the page cache of its files, in MiB, 16 to 1024.
    MemoryMib(u32),
    /// The same, and what exceeds that goes to swap space.
    MemoryBeforeSwapMib(u32),
    /// Processes and threads, 10 to 400.
    Tasks(u32),
}

impl Limit {
    /// What is not safe about it, or cannot work.
    #[must_use]
    pub fn wrong(self) -> Option<&'static str> {
        let (value, range, text) = match self {
            Self::CpuPercent(value) => (value, 5..=100, "a limit of CPU time is 5 to 100 percent"),
            Self::ReadsPerSecond(value) => (value, 20..=10_000, "a limit of reads is 20 to 10000 per second"),
            Self::MemoryMib(value) | Self::MemoryBeforeSwapMib(value) => {
                (value, 16..=1024, "a limit of memory is 16 to 1024 MiB")
            }
            Self::Tasks(value) => (value, 10..=400, "a limit of tasks is 10 to 400"),
        };
        (!range.contains(&value)).then_some(text)
    }

    /// For a list of changes.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::CpuPercent(value) => format!("{value} % of one CPU"),
            Self::ReadsPerSecond(value) => format!("{value} reads per second"),
            Self::MemoryMib(value) => format!("{value} MiB of memory"),
            Self::MemoryBeforeSwapMib(value) => format!("{value} MiB of memory, and the rest in swap space"),
            Self::Tasks(value) => format!("{value} processes and threads"),
        }
    }

    fn controllers(self) -> &'static [&'static str] {
        match self {
            Self::CpuPercent(_) => &["cpu"],
            Self::ReadsPerSecond(_) => &["blkio", "io"],
            Self::MemoryMib(_) | Self::MemoryBeforeSwapMib(_) => &["memory"],
            Self::Tasks(_) => &["pids"],
        }
    }

    /// The file to write to, and what. `disk` is a whole disk, as the kernel numbers it.
    fn order(self, version: Version, disk: &str) -> (&'static str, String) {
        let quota = |percent: u32| percent * (CPU_PERIOD / 100);
        match (self, version) {
            (Self::CpuPercent(percent), Version::V1) => ("cpu.cfs_quota_us", quota(percent).to_string()),
            (Self::CpuPercent(percent), Version::V2) => ("cpu.max", format!("{} {CPU_PERIOD}", quota(percent))),
            (Self::ReadsPerSecond(most), Version::V1) => ("blkio.throttle.read_iops_device", format!("{disk} {most}")),
            (Self::ReadsPerSecond(most), Version::V2) => ("io.max", format!("{disk} riops={most}")),
            (Self::MemoryMib(mib) | Self::MemoryBeforeSwapMib(mib), Version::V1) => {
                ("memory.limit_in_bytes", (u64::from(mib) << 20).to_string())
            }
            (Self::MemoryMib(mib) | Self::MemoryBeforeSwapMib(mib), Version::V2) => {
                ("memory.max", (u64::from(mib) << 20).to_string())
            }
            (Self::Tasks(count), _) => ("pids.max", count.to_string()),
        }
    }
}

/// A group that can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Relative to the host's root.
    directory: String,
    version: Version,
    limit: Limit,
}

impl Group {
    /// Where the group for a limit lies on this host; none where no hierarchy has the controller.
    pub fn new(host: &Host, limit: Limit, seed: u64, role: &str) -> Result<Self, Unavailable> {
        let found = limit.controllers().iter().map(|controller| Hierarchy::find(host, controller));
        let hierarchy = found.reduce(Result::or).unwrap_or_else(|| Err(absent()))?;
        let top = hierarchy.directory(hierarchy.first_group());
        Ok(Self { directory: format!("{top}/{PREFIX}{seed:016x}-{role}"), version: hierarchy.version, limit })
    }

    /// Where it is, for the journal.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Makes it and sets its limit. `disk` is the device that holds the files of the exercise.
    pub fn make(&self, host: &Host, disk: Option<(u32, u32)>) -> Result<(), Unavailable> {
        let control = host.control().ok_or_else(absent)?;
        let (file, text) = self.limit.order(self.version, &whole_disk(host, disk).unwrap_or_default());
        let made = control.make_directory(&self.directory);
        let set = made.and_then(|()| control.write(&format!("{}/{file}", self.directory), &text));
        if matches!((self.limit, self.version), (Limit::MemoryMib(_), Version::V2)) {
            // Otherwise the group would go on in swap space. Version 1 counts hits of the two limits together with swap apart from
            // those of memory, so there it is left as it is.
            let _ = control.write(&format!("{}/memory.swap.max", self.directory), "0");
        }
        set.map_err(|error| {
            let _ = remove(host, &self.directory);
            refused(&error, file)
        })
    }

    /// Puts a process into it; what that starts is in it too.
    pub fn enter(&self, host: &Host, pid: u32) -> io::Result<()> {
        let control = host.control().ok_or(io::ErrorKind::Unsupported)?;
        control.write(&format!("{}/cgroup.procs", self.directory), &pid.to_string())
    }

    /// Periods of CPU time that it had, and those in which it was stopped.
    #[must_use]
    pub fn periods(&self, host: &Host) -> Option<[u64; 2]> {
        let text = host.read(&format!("{}/cpu.stat", self.directory)).ok()?;
        Some([keyed(&text, "nr_periods")?, keyed(&text, "nr_throttled")?])
    }
}

/// Whether a program with such a limit can take no more than a quarter of a CPU.
pub(super) fn leaves_most_of_a_cpu(limit: Option<Limit>) -> bool {
    matches!(limit, Some(Limit::CpuPercent(percent)) if percent <= 25)
}

/// Removes a group of the lab, if it is one and there. No other group can have its name, and one that holds tasks stays.
pub fn remove(host: &Host, directory: &str) -> io::Result<bool> {
    let name = directory.rsplit('/').next().unwrap_or_default();
    if !name.starts_with(PREFIX) || directory.contains("..") || !host.exists(directory) {
        return Ok(false);
    }
    let control = host.control().ok_or(io::ErrorKind::Unsupported)?;
    match control.remove_directory(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// Whether such a group may be made here; none is.
pub fn may_be_set(host: &Host, limit: Limit) -> Result<(), Unavailable> {
    let group = Group::new(host, limit, 0, "asked")?;
    let control = host.control().ok_or_else(absent)?;
    let top = group.directory.rsplit_once('/').map_or("", |(top, _)| top);
    let (file, _) = limit.order(group.version, "");
    control.may_make_in(top).map_err(|error| refused(&error, file))?;
    let not_handed_on = || refused(&io::ErrorKind::NotFound.into(), file);
    if group.version == Version::V2 {
        let handed_on = host.read(&format!("{top}/cgroup.subtree_control")).unwrap_or_default();
        if !handed_on.split_whitespace().any(|name| limit.controllers().contains(&name)) {
            return Err(not_handed_on());
        }
    }
    // A kernel may lack a part of a controller. What the topmost group does not have, any other shows.
    let others = host.subdirectories(top).unwrap_or_default();
    let mut shown = others.iter().take(FEW).peekable();
    let is_there = |directory: &str| host.exists(&format!("{directory}/{file}"));
    if is_there(top) || shown.peek().is_none() || shown.any(|name| is_there(&format!("{top}/{name}"))) {
        return Ok(());
    }
    Err(not_handed_on())
}

/// A limit of I/O belongs to a disk and not to a partition.
fn whole_disk(host: &Host, disk: Option<(u32, u32)>) -> Option<String> {
    let (major, minor) = disk?;
    let place = format!("sys/dev/block/{major}:{minor}");
    if host.exists(&format!("{place}/partition")) {
        return host.read_line(&format!("{place}/../dev")).ok();
    }
    Some(format!("{major}:{minor}"))
}

fn absent() -> Unavailable {
    Unavailable::new(Reason::Absent, "it needs a control group, and this host has none of that kind")
}

fn refused(error: &io::Error, file: &str) -> Unavailable {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Unavailable::new(Reason::Denied, "it needs a control group of its own, which this user may not create")
                .with_remedy("start it as root")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            Unavailable::new(Reason::Denied, "it needs a control group of its own, and cgroupfs is read-only here")
                .with_remedy("start it outside of the container")
        }
        io::ErrorKind::NotFound => Unavailable::new(
            Reason::Disabled,
            format!("it needs a control group with {file}, and the parent group does not delegate it"),
        )
        .with_remedy("as root, write +NAME of the controller to cgroup.subtree_control of the root group"),
        _ => Unavailable::new(Reason::Absent, format!("it needs a control group of its own: {file}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_in_the_words_of_either_interface() {
        let both = |limit: Limit| [Version::V1, Version::V2].map(|version| limit.order(version, "254:0"));
        let told = |file, text: &str| (file, text.to_owned());
        let cpu = both(Limit::CpuPercent(20));
        assert_eq!(cpu, [told("cpu.cfs_quota_us", "20000"), told("cpu.max", "20000 100000")]);
        let reads = both(Limit::ReadsPerSecond(60));
        assert_eq!(reads, [told("blkio.throttle.read_iops_device", "254:0 60"), told("io.max", "254:0 riops=60")]);
        let memory = both(Limit::MemoryMib(64));
        assert_eq!(memory, [told("memory.limit_in_bytes", "67108864"), told("memory.max", "67108864")]);
        assert_eq!(both(Limit::Tasks(30)), [told("pids.max", "30"), told("pids.max", "30")]);
    }

    #[test]
    fn only_groups_of_the_lab_are_removed() {
        let host = Host::live(std::path::Path::new("/"));
        for directory in ["sys/fs/cgroup", "tmp", "sys/fs/cgroup/rdiag-lab-x/../..", "sys/fs/cgroup/rdiag-lab-nothing"]
        {
            assert!(!remove(&host, directory).unwrap(), "{directory}");
        }
    }

    #[test]
    fn a_limit_that_would_harm_or_do_nothing_is_refused() {
        assert_eq!(Limit::CpuPercent(20).wrong(), None);
        for limit in [Limit::CpuPercent(1), Limit::ReadsPerSecond(1), Limit::MemoryMib(1), Limit::Tasks(1)] {
            assert!(limit.wrong().is_some(), "{limit:?}");
        }
    }
}
