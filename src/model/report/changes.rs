//! What changed around a time that is over, as far as the recorder saw it: the first thing that is asked when a host was slow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What changed, and where it was looked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// The time that was searched, in the time zone of the caller; no longer than what was recorded.
    pub span: String,
    /// The changes, the largest first: the host, what came to stay or went for good, what only ran for a while.
    pub changes: Vec<Change>,
    /// Changes that are left out for their number, the smallest.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// When, RFC 3339, UTC.
    pub at: String,
    /// The time of day, in the time zone of the caller.
    pub shown: String,
    /// Seconds from the beginning of the window; negative before it.
    pub seconds: f64,
    /// What kind of thing changed.
    pub kind: ChangeKind,
    /// Which one: a process, a mount point, a setting; "" for the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// What happened, in words.
    pub text: String,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The host was booted.
    Reboot,
    /// Another kernel, distribution, number of CPUs or size of memory.
    Host,
    /// The wall clock was set.
    Clock,
    /// The host was suspended.
    Suspend,
    /// The kernel killed a process because memory ran out.
    OomKill,
    /// A process that uses much began or ended.
    Process,
    /// A file system or swap space came, went, or became read-only.
    Mount,
    /// A setting of the kernel or of a mount.
    Setting,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}
