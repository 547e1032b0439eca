//! Command lines and control groups, for the few processes that reports may identify by them.

use super::reader::Reader;
use super::table::Entry;
use crate::sink::Sink;
use rdiag_proc::process;

/// So many of the largest in each way of mattering.
const LARGEST: usize = 15;
/// Characters of a command line.
const COMMAND_LENGTH: usize = 200;

/// Indexes of the living processes that are among the largest in CPU, waiting, traffic, memory or faults.
pub(super) fn that_matter(entries: &[Entry], last: u16) -> Vec<usize> {
    let weights: Vec<(usize, [u64; 8])> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.process.last == last)
        .map(|(index, entry)| (index, entry.weights()))
        .collect();
    let mut wanted = Vec::new();
    for way in 0..8 {
        let of = |weights: &[u64; 8]| weights.get(way).copied().unwrap_or(0);
        let mut sizes: Vec<(u64, usize)> =
            weights.iter().map(|(index, weights)| (of(weights), *index)).filter(|(size, _)| *size > 0).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        wanted.extend(sizes.into_iter().take(LARGEST).map(|(_, index)| index));
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// Reads the names of the wanted processes (index and pid) into the published table. Control groups come first, for
/// all: reading them cannot hang.
pub(super) fn read(wanted: &[(usize, u32)], reader: &mut Reader, out: &Sink) {
    read_groups(wanted, reader, out);
    for (index, pid) in wanted.iter().copied() {
        let command = reader.file(pid, "cmdline").ok().and_then(|bytes| process::command(bytes, COMMAND_LENGTH));
        out.with_record(|record| {
            if let Some(process) = record.processes.get_mut(index) {
                process.command = command;
            }
        });
    }
}

/// The same of their control groups alone.
pub(super) fn read_groups(wanted: &[(usize, u32)], reader: &mut Reader, out: &Sink) {
    for (index, pid) in wanted.iter().copied() {
        let text = reader.file(pid, "cgroup").map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let (group, others) = process::cgroups(&text.unwrap_or_default());
        out.with_record(|record| {
            if let Some(process) = record.processes.get_mut(index) {
                process.cgroup = group;
                process.other_cgroups = others;
            }
        });
    }
}
