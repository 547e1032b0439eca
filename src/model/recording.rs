//! The recording: everything one run saw, as raw as the kernel gave it, in one file that replays anywhere.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exercise::Exercise;
use crate::facts::Facts;
use crate::ledger::Ledger;
use crate::ledger::Target;
use crate::metric::SeriesKind;
use crate::probe::ProbeResult;
use crate::setup::Setup;
use crate::status::Unavailable;
use crate::unit::RawUnit;

/// Version of the recording format; raised when an old reader could misunderstand a new file.
pub const FORMAT_VERSION: u32 = 1;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Which program wrote it.
    pub tool: Tool,
    /// Name of the playbook that was run.
    pub playbook: String,
    /// The playbook's parameters as they were in force.
    pub params: BTreeMap<String, String>,
    /// Which tasks were observed, if not the whole host.
    #[serde(default, skip_serializing_if = "Target::is_default")]
    pub target: Target,
    /// The host it was made on.
    pub host: Facts,
    /// How that host is set up.
    #[serde(default, skip_serializing_if = "Setup::is_empty")]
    pub setup: Setup,
    /// Wall-clock start, RFC 3339, UTC.
    pub started: String,
    /// The exercise that ran meanwhile, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exercise: Option<Exercise>,
    /// The windows, in order: the first, then drill-downs.
    pub windows: Vec<Window>,
    /// Set when the run was ended early by a signal.
    pub interrupted: bool,
    /// What the measuring cost.
    pub overhead: Overhead,
}

impl Recording {
    /// Seconds in which something was measured: windows may overlap.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.apart().map(|window| window.seconds).sum::<f64>()
    }

    /// Seconds in which the machine was suspended or paused meanwhile.
    #[must_use]
    pub fn suspended_seconds(&self) -> f64 {
        self.apart().map(|window| window.suspended_seconds).sum()
    }

    /// The windows that do not lie within one before them.
    fn apart(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().enumerate().filter_map(|(at, window)| {
            let begins_within = |other: &Window| (other.begins..other.begins + other.seconds).contains(&window.begins);
            (!self.windows.iter().take(at).any(begins_within)).then_some(window)
        })
    }
}

/// Name and version of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `rdiag`.
    pub name: String,
    /// Package version.
    pub version: String,
}

/// What rdiag itself used while measuring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// CPU seconds of the rdiag process, user and system.
    pub cpu_seconds: f64,
    /// Share of one CPU over the run.
    pub cpu_ratio: f64,
    /// Largest resident memory in bytes.
    pub max_resident_bytes: u64,
    /// Wall-clock seconds spent inside each collector.
    pub collectors: BTreeMap<String, f64>,
}

/// One measurement window: all its collectors ran side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Ids of the steps that this window serves.
    pub steps: Vec<String>,
    /// Seconds from the start of the run.
    pub begins: f64,
    /// Real length in seconds (CLOCK_MONOTONIC).
    pub seconds: f64,
    /// Nominal distance of two samples in seconds.
    pub interval_seconds: f64,
    /// Seconds the machine was suspended or paused within the window (CLOCK_BOOTTIME less CLOCK_MONOTONIC).
    pub suspended_seconds: f64,
    /// By collector id.
    pub collectors: BTreeMap<String, CollectorRecord>,
    /// What probes inside the kernel gave, by probe id; or why there is nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub probes: BTreeMap<String, Result<ProbeResult, Unavailable>>,
    /// Accounts of the observed task's time, by the id of the probe or collector that made them; or why there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ledgers: BTreeMap<String, Result<Ledger, Unavailable>>,
}

/// What one collector saw in one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectorRecord {
    /// Seconds since the window's start, the middle of each reading.
    pub times: Vec<f64>,
    /// Readings that took more than 5 % of the interval: their time is uncertain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jittered: u32,
    /// Readings that did not happen because the host was too slow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u32,
    /// Why there is nothing, or no more, from this collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
    /// Why single series, or all series that begin with the key, are missing; `series|instance` narrows it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gaps: BTreeMap<String, Unavailable>,
    /// The series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Names for instances: instance → key → value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// Lines of text that are evidence in themselves (kernel log).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// The table of processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
}

/// A raw value: integers stay exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Number {
    /// Counters.
    Whole(u64),
    /// Gauges.
    Real(f64),
}

impl Number {
    /// The value as a float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(n) => n as f64,
            Self::Real(x) => x,
        }
    }
}

/// The values of one raw series at the collector's sample times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// `collector.field`.
    pub name: String,
    /// Device, interface, CPU …; none for the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// How it behaves.
    pub kind: SeriesKind,
    /// What it counts in.
    pub unit: RawUnit,
    /// One value per sample time; none where the thing was not there.
    pub values: Vec<Option<Number>>,
}

/// A line of the kernel log that a pattern recognised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Pattern class (`oom`, `disk`, `lockup` …).
    pub class: String,
    /// Seconds since boot.
    pub seconds_since_boot: f64,
    /// Whether it was written during the window.
    pub in_window: bool,
    /// The subject that it names (a process, a device), if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The line, bounded in length.
    pub text: String,
    /// The block device that it names was gone when the window ended, or had been set up anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl CollectorRecord {
    /// The label of a control group that says which processes were in it, and in the groups below, at the end of the window: a line
    /// `12 13 /a/b` for each of these groups.
    pub const MEMBERS: &str = "members";
}

/// A process, identified by pid and start time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Parent.
    pub ppid: u32,
    /// stat field 22: ticks from boot to start.
    pub start_ticks: u64,
    /// The name the process chose (not trustworthy).
    pub comm: String,
    /// Owner: the effective user id in status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Control group, for processes that mattered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Its control groups in other hierarchies, where their paths differ (v1 and hybrid hosts).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_cgroups: Vec<String>,
    /// Command line, for processes that mattered; bounded in length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Index of the first sample that saw it.
    pub first: u16,
    /// Index of the last sample that saw it.
    pub last: u16,
    /// Values at the samples in which something changed; between them nothing moved.
    pub points: Vec<ProcessPoint>,
}

/// A process's counters at one sample. Fields from files that could not be read are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessPoint {
    /// Index into the collector's `times`.
    pub at: u16,
    /// stat field 3.
    pub state: char,
    /// stat field 14, ticks.
    pub utime: u64,
    /// stat field 15, ticks.
    pub stime: u64,
    /// stat field 10.
    pub minor_faults: u64,
    /// stat field 12.
    pub major_faults: u64,
    /// stat field 20.
    pub threads: u32,
    /// stat field 24, pages.
    pub resident_pages: u64,
    /// schedstat field 1, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<u64>,
    /// schedstat field 2, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
    /// status `voluntary_ctxt_switches`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// status `nonvoluntary_ctxt_switches`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// status `VmSwap`, kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_kb: Option<u64>,
    /// io `read_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// io `write_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}
