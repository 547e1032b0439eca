//! What files of /proc say: text in, numbers with units out. Nothing here reads a file, and every parser is total: what it cannot
//! understand is none. One place for each file that several rooms read; a file that one collector reads is parsed by that collector, by the
//! crate procfs where it parses line by line.
//!
//! These run for each process and sample, so they take bytes, allocate nothing and stop at the last field that was asked for: a file
//! that a sandbox cuts short still gives the fields before. The fuzz target `proc` reaches them through the collectors.

mod cpu_times;
mod loadavg;
mod pressure;
pub mod process;
mod task_stat;

pub use cpu_times::{CpuTimes, cpu_line, host_cpu};
pub use loadavg::LoadAverage;
pub use pressure::Pressure;
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
