//! Recorded host trees: what `host.yaml` beside `t0`, `t1` … says that files cannot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::source::SourceError;
use rdiag_model::{Facts, Reason};

/// The description of a recorded tree.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// What this tree shows.
    pub story: String,
    /// Monotonic seconds of the instants `t0`, `t1` …; one for each directory.
    pub times: Vec<f64>,
    /// Wall-clock time of `t0`, RFC 3339, UTC.
    pub started: String,
    /// Facts that the tree's files do not show (tick rate, page size, user); missing ones come from the files.
    pub facts: Option<Facts>,
    /// Files that fail in a way that a directory cannot show.
    pub faults: Vec<Fault>,
    /// Capacity of mounted file systems, by mount point: what statvfs(2) answered.
    pub statvfs: BTreeMap<String, StatvfsSpec>,
    /// The files behind links such as `proc/1234/fd/5`: what stat(2) answered.
    pub open_files: BTreeMap<String, OpenFile>,
}

/// A file that fails.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The file, or a directory with everything below it: `proc/pressure`.
    pub path: String,
    /// How it fails: `absent`, `denied`, `disabled`, `hung`, `malformed`.
    pub fails: Reason,
    /// From which instant on.
    #[serde(default)]
    pub from: usize,
}

/// The answer of stat(2) for an open file, in its own units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenFile {
    /// Whether it is a plain file: no directory, no device.
    pub regular: bool,
    /// Whether the last of its names is deleted.
    pub deleted: bool,
    /// Device number.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Space that it takes, in units of 512 bytes.
    pub blocks: u64,
}

/// The answer of statvfs(2), in its own units.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StatvfsSpec {
    /// Fragment size in bytes.
    pub frsize: u64,
    /// Blocks of `frsize`.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks for unprivileged users.
    pub bavail: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// The call never returned.
    pub hung: bool,
}

impl HostSpec {
    /// The fault that holds for a file at an instant, as an error.
    pub fn fault(&self, path: &str, instant: usize) -> Result<(), SourceError> {
        let path = path.trim_start_matches('/');
        let hit = self.faults.iter().find(|fault| {
            fault.from <= instant
                && path.strip_prefix(fault.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        match hit {
            None => Ok(()),
            Some(fault) => {
                let problem = match fault.fails {
                    Reason::Denied => "permission denied",
                    Reason::Disabled => "exists, but is switched off in this kernel",
                    Reason::Hung => "did not answer in time",
                    Reason::Malformed => "cannot be read",
                    _ => "does not exist",
                };
                Err(SourceError { path: path.to_owned(), reason: fault.fails, problem: problem.to_owned() })
            }
        }
    }
}
