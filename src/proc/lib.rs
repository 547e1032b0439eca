//! What files of /proc say: text in, numbers with units out. Nothing here reads a file, and every parser is total: what it cannot
//! understand is none. One place for the files that several rooms read; a file that one collector reads is parsed by that collector.
//!
//! What is read of each thread and sample ([`TaskStat`], `process::schedstat`) is taken as bytes, allocates nothing and stops at the last
//! field that was asked for: a file that a sandbox cuts short still gives the fields before. The fuzz target `proc` reaches most of it
//! through the collectors; what it does not reach is tried with any text by a test of its own.
//!
//! Of the other files the crate procfs (0.18) parses what it parses line by line, without a panic, and without losing what is told here:
//!
//! | file | parsed by | because procfs |
//! |---|---|---|
//! | diskstats | procfs; a line that was cut gives device and counters by [`DiskLine`] | refuses such a line |
//! | PID/mountinfo | [`MountLine`] | takes UTF-8 only, leaves `\040` as it is, and has no line without options |
//! | swaps | [`swaps()`] | has no parser for it |
//! | meminfo | [`meminfo()`] | refuses the file where one line is missing, as with lxcfs |
//! | vmstat | [`counters`] | refuses the file for one broken line |
//! | pressure | [`Pressure`] | panics at a line `some`, rounds to 32 bits, and refuses a line where one figure is missing |
//! | cpuinfo | [`cpuinfo()`] | cuts a value at its second colon, and copies every field of every CPU |
//! | cgroups, PID/cgroup | [`controllers`], [`memberships`] | refuses the file for one broken line |
//! | PID/limits | [`process::soft_limit`] | subtracts from the number of words of a line, and refuses a file where one limit is missing |
//! | PID/maps, PID/smaps | [`Mapping`] | refuses the file for one broken line, and takes numbers of devices as signed |
//! | PID/status, PID/io, PID/fdinfo | [`process`], [`field`] | refuses a file where one line is missing, and has none of the last |
//! | net/snmp, net/netstat | [`protocols`] | names the columns it knows, and has no netstat |
//! | the rest | ours | is not for what runs for each process and sample |

mod cgroups;
mod cpu_times;
mod diskstats;
mod escapes;
mod figures;
mod loadavg;
mod maps;
mod mountinfo;
mod pressure;
pub mod process;
pub mod protocols;
mod swaps;
mod task_stat;

pub use cgroups::{Controller, Membership, controllers, memberships};
pub use cpu_times::{CpuTimes, cpu_line, host_cpu};
pub use diskstats::{DiskLine, DiskStat, disk_stat};
pub use escapes::{unescape_octal, unescaped};
pub use figures::{counters, cpuinfo, field, meminfo};
pub use loadavg::LoadAverage;
pub use maps::Mapping;
pub use mountinfo::MountLine;
pub use pressure::Pressure;
pub use swaps::{Swap, swaps};
pub use task_stat::{Field, Fields, TaskStat};

/// A decimal number and nothing else.
#[must_use]
pub fn number(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_suffix(b"\n").unwrap_or(digits);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        if !byte.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

/// The words of a line, by any white space.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
