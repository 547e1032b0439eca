//! What a process of rdiag's own may use at most.

use std::io::Write as _;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Upper bounds that the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU seconds of this process.
    pub cpu_seconds: u64,
    /// Bytes of writable memory of its own, stacks included. (Address space would be no measure: each thread reserves some that it
    /// never uses.)
    pub memory_bytes: u64,
    /// Bytes of the largest file that it may write.
    pub file_bytes: u64,
}

/// Lets the calling process have so many open files at most.
pub fn limit_open_files(most: u64) -> std::io::Result<()> {
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Puts the calling process under these limits, without core dumps, and first in line if the host runs out of memory.
pub fn apply(limits: Limits) {
    let bounds = [
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Data, limits.memory_bytes),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Core, 0),
    ];
    for (resource, most) in bounds {
        // A hard limit that is lower already is as good.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    let adjust = std::fs::OpenOptions::new().write(true).open("/proc/self/oom_score_adj");
    let _ = adjust.and_then(|mut file| file.write_all(b"1000"));
}
