//! Who holds contexts of asynchronous I/O (io_setup): each has a ring in the memory of its process.
//!
//! A child has the mapping from its parent and not the context: a ring that several processes map belongs to the oldest of them.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};

use rdiag_kernel::host::{Host, SourceError};
use rdiag_proc::{Mapping, process};

/// The kernel writes a line for each mapping, and holds the process's map while it does.
const BUDGET_SECONDS: f64 = 0.25;
/// What the kernel calls such a mapping.
const RING: &[u8] = b"/[aio]";

/// A process and the size of its rings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// One ring: the number of its file, and its size.
type Ring = (u64, u64);

/// The processes with rings, the largest first, as far as the time allows.
pub(super) fn search(host: &Host) -> Result<Vec<Holder>, SourceError> {
    let (mut pids, mut buffer) = (Vec::new(), Vec::new());
    let dir = host.processes()?;
    dir.list("", &mut pids)?;
    let until = host.thread_usage() + BUDGET_SECONDS;
    let mut found = Vec::new();
    for pid in pids {
        let rings = of_process(host, pid, until);
        if !rings.is_empty()
            && let Some((name, stat)) = dir.read(&format!("{pid}/stat"), &mut buffer).ok().and_then(process::stat)
        {
            let name = String::from_utf8_lossy(name).into_owned();
            found.push((Holder { pid, start_ticks: stat.start_ticks, name, bytes: 0 }, rings));
        }
        if host.thread_usage() > until {
            break;
        }
    }
    found.sort_by_key(|(holder, _)| (holder.start_ticks, holder.pid));
    Ok(shared_out(found))
}

/// Gives each ring to the first that maps it.
fn shared_out(found: Vec<(Holder, Vec<Ring>)>) -> Vec<Holder> {
    let mut taken = BTreeSet::new();
    let mut holders = Vec::new();
    for (mut holder, rings) in found {
        for (inode, bytes) in rings {
            if taken.insert(inode) {
                holder.bytes = holder.bytes.saturating_add(bytes);
            }
        }
        holders.extend((holder.bytes > 0).then_some(holder));
    }
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders
}

fn of_process(host: &Host, pid: u32, until: f64) -> Vec<Ring> {
    let Ok(file) = host.open(&format!("proc/{pid}/maps")) else { return Vec::new() };
    let mut reader = BufReader::with_capacity(32 * 1024, file);
    let (mut line, mut rings, mut lines) = (Vec::new(), Vec::new(), 0_u64);
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        rings.extend(ring(&line));
        line.clear();
        lines += 1;
        if lines.is_multiple_of(1024) && host.thread_usage() > until {
            break;
        }
    }
    rings
}

/// `7f09c8a75000-7f09c8a76000 rw-s 00000000 00:0f 20482 /[aio] (deleted)`.
fn ring(line: &[u8]) -> Option<Ring> {
    let is_ring = line.windows(RING.len()).any(|window| window == RING);
    let text = is_ring.then(|| std::str::from_utf8(line).ok()).flatten()?;
    let mapping = Mapping::parse(text)?;
    let bytes = mapping.end.checked_sub(mapping.start)?;
    let name = mapping.path.split_whitespace().next()?;
    (name.as_bytes() == RING).then_some((mapping.inode?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rings_count_and_a_file_with_such_a_name_is_none() {
        let line = b"7f09c8a75000-7f09c8a78000 rw-s 00000000 00:0f 20482                      /[aio] (deleted)\n";
        assert_eq!(ring(line), Some((20_482, 0x3000)));
        assert_eq!(ring(b"7f09c8a75000-7f09c8a78000 rw-s 00000000 00:0f 20482 /home/[aio]\n"), None);
        assert_eq!(ring(b"7f09c8a75000-7f09c8a78000 rw-p 00000000 00:00 0 \n"), None);
        for cut in 0..line.len() - 30 {
            assert_eq!(ring(&line[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_ring_that_a_child_maps_too_is_its_parents() {
        let holder = |pid, start_ticks| Holder { pid, start_ticks, name: "db".into(), bytes: 0 };
        let found =
            vec![(holder(10, 5), vec![(7, 4096)]), (holder(9, 8), vec![(7, 4096)]), (holder(12, 9), vec![(8, 8192)])];
        let held: Vec<_> = shared_out(found).into_iter().map(|holder| (holder.pid, holder.bytes)).collect();
        assert_eq!(held, [(12, 8192), (10, 4096)]);
    }
}
