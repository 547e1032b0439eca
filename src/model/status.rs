//! Statuses, reasons and the two axes of the matrix: resource and kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a rule concluded. The order is the order of importance when several meet in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Does not apply here (no swap configured), or was turned off.
    Skipped,
    /// Measured, and below every threshold.
    Ok,
    /// Could not be measured; the reason is always given. Never to be read as "fine".
    Unknown,
    /// Measured and worth knowing, but no bottleneck by itself.
    Info,
    /// The rule fired.
    Warning,
    /// The rule fired, and work is failing or mostly waiting.
    Critical,
}

impl Status {
    /// The lower-case word used in YAML, JSON and on screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Whether a rule fired, as opposed to: quiet, not applicable, not measured.
    #[must_use]
    pub fn fired(self) -> bool {
        self >= Self::Info
    }
}

/// How far a finding can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Weak or disturbed data; the reasons are listed with the finding.
    Low,
    /// Usable, with a stated limit.
    Medium,
    /// Nothing known speaks against it.
    High,
}

/// The three questions of the USE method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// How busy, or how full.
    Utilization,
    /// How much work queues, waits or is refused.
    Saturation,
    /// What fails.
    Errors,
}

impl Kind {
    /// All kinds, in the order of the matrix's columns.
    pub const ALL: [Self; 3] = [Self::Utilization, Self::Saturation, Self::Errors];

    /// The lower-case word used in ids.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Utilization => "utilization",
            Self::Saturation => "saturation",
            Self::Errors => "errors",
        }
    }
}

/// The things that can be a bottleneck: the first part of every rule id, the rows of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum Resource {
    Cpu,
    Memory,
    Disk,
    Filesystem,
    Network,
    Cgroup,
    Fd,
    Tasks,
    Locks,
    Interrupts,
    Kernel,
    Hardware,
    Power,
}

impl Resource {
    /// All resources, in the order of the matrix's rows.
    pub const ALL: [Self; 13] = [
        Self::Cpu,
        Self::Memory,
        Self::Disk,
        Self::Filesystem,
        Self::Network,
        Self::Cgroup,
        Self::Fd,
        Self::Tasks,
        Self::Locks,
        Self::Interrupts,
        Self::Kernel,
        Self::Hardware,
        Self::Power,
    ];

    /// The lower-case word used in ids.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Filesystem => "filesystem",
            Self::Network => "network",
            Self::Cgroup => "cgroup",
            Self::Fd => "fd",
            Self::Tasks => "tasks",
            Self::Locks => "locks",
            Self::Interrupts => "interrupts",
            Self::Kernel => "kernel",
            Self::Hardware => "hardware",
            Self::Power => "power",
        }
    }
}

/// Splits a rule id (`cpu.saturation`, `network.errors.retransmits`) into its resource and kind.
#[must_use]
pub fn parse_rule_id(id: &str) -> Option<(Resource, Kind)> {
    let mut parts = id.split('.');
    let resource = parts.next()?;
    let kind = parts.next()?;
    let resource = Resource::ALL.into_iter().find(|r| r.word() == resource)?;
    let kind = Kind::ALL.into_iter().find(|k| k.word() == kind)?;
    Some((resource, kind))
}

/// Why something could not be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The file or feature does not exist on this kernel or machine.
    Absent,
    /// It exists, and this user may not read it.
    Denied,
    /// It exists and is switched off.
    Disabled,
    /// A namespace or container hides it.
    NotVisible,
    /// The counter went backwards, or the thing was replaced, within the window.
    Reset,
    /// Too little time, or too few events, to say.
    ShortWindow,
    /// Only kernel tracing can answer.
    TracingRequired,
    /// The source did not answer in time.
    Hung,
    /// The source answered with something that could not be understood.
    Malformed,
    /// There is nothing to measure (no swap, no such module): not a gap, and nothing to worry about.
    NotApplicable,
}

impl Reason {
    /// The word used in JSON and on screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Denied => "denied",
            Self::Disabled => "disabled",
            Self::NotVisible => "not_visible",
            Self::Reset => "reset",
            Self::ShortWindow => "short_window",
            Self::TracingRequired => "tracing_required",
            Self::Hung => "hung",
            Self::Malformed => "malformed",
            Self::NotApplicable => "not_applicable",
        }
    }
}

/// A gap in the measurement: what kind, why, and the least that would close it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// The class of the gap.
    pub reason: Reason,
    /// The gap in a sentence: which source, what happened.
    pub why: String,
    /// The least privilege or change that closes the gap; absent when nothing would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Unavailable {
    /// A gap without a remedy.
    pub fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self { reason, why: why.into(), remedy: None }
    }

    /// The same gap, with what would close it.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}
