//! What is constant for a run: the host's shape and what this user may do on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Things that do not change while rdiag runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Facts {
    /// /proc/sys/kernel/hostname.
    pub hostname: String,
    /// /proc/sys/kernel/osrelease.
    pub kernel: String,
    /// The distribution, from /etc/os-release.
    pub os: String,
    /// Machine architecture (`x86_64`, `aarch64`).
    pub arch: String,
    /// CPUs online, from /sys/devices/system/cpu/online.
    pub cpus: u32,
    /// CPUs present, from /sys/devices/system/cpu/present.
    pub cpus_present: u32,
    /// Bytes of a memory page.
    pub page_size: u64,
    /// USER_HZ: ticks per second in /proc/stat and /proc/PID/stat.
    pub ticks_per_second: u64,
    /// MemTotal in bytes.
    pub memory_bytes: u64,
    /// Seconds since boot when the run began.
    pub uptime_seconds: f64,
    /// Whether a hypervisor runs below (the `hypervisor` CPU flag, or DMI vendor names).
    pub virtual_machine: bool,
    /// Whether rdiag runs inside a container, and how that was seen.
    pub container: Option<String>,
    /// Which cgroup hierarchy is mounted: `v2`, `v1`, `hybrid` or `none`.
    pub cgroup: String,
    /// Effective user id of rdiag.
    pub uid: u32,
    /// Effective capabilities of rdiag as a bit mask (CapEff of /proc/self/status).
    pub capabilities: u64,
    /// rdiag's own process id in the namespace that /proc shows.
    pub pid: u32,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            hostname: "unknown".into(),
            kernel: "unknown".into(),
            os: "unknown".into(),
            arch: std::env::consts::ARCH.into(),
            cpus: 1,
            cpus_present: 1,
            page_size: 4096,
            ticks_per_second: 100,
            memory_bytes: 0,
            uptime_seconds: 0.0,
            virtual_machine: false,
            container: None,
            cgroup: "none".into(),
            uid: 0,
            capabilities: u64::MAX,
            pid: 0,
        }
    }
}

impl Facts {
    /// The first two numbers of the kernel's release: `5.10.0-46-amd64` is 5.10.
    #[must_use]
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        version(&self.kernel)
    }
}

/// The first two numbers of a release.
#[must_use]
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
