//! Which processes stay in a block: those that did something, or hold much. Who only lived is a number; who did little has a point at the
//! beginning and one at the end, so that sums stay true.

use std::collections::BTreeSet;

use rdiag_history::Block;
use rdiag_model::recording::{Process, ProcessPoint};

/// Of one CPU, and of the memory.
const CPU_SHARE: f64 = 0.005;
const MEMORY_SHARE: f64 = 0.01;
/// The largest in memory, and in CPU time, stay in any case.
const TOP: usize = 20;

/// What matters of a process in a block.
struct Part {
    ticks: u64,
    resident: u64,
    has_stirred: bool,
    matters: bool,
}

fn ticks(point: &ProcessPoint) -> u64 {
    point.utime.saturating_add(point.stime)
}

/// Leaves out of a block what no report will ask for.
pub(super) fn thin(block: &mut Block) {
    let facts = &block.header.host;
    let least_ticks = CPU_SHARE * block.header.seconds * facts.ticks_per_second as f64;
    let least_pages = MEMORY_SHARE * facts.memory_bytes as f64 / facts.page_size.max(1) as f64;
    let Some(record) = block.collectors.get_mut(Block::PROCESSES) else { return };
    let last = u16::try_from(record.times.len().saturating_sub(1)).unwrap_or(u16::MAX);
    let part = |process: &Process| {
        let (first, newest) = (process.points.first(), process.points.last());
        let born = process.first > 0;
        let change = |field: fn(&ProcessPoint) -> u64| {
            newest.map_or(0, field).saturating_sub(if born { 0 } else { first.map_or(0, field) })
        };
        let ticks = change(ticks);
        let traffic = change(|point| point.read_bytes.unwrap_or(0).saturating_add(point.write_bytes.unwrap_or(0)));
        let resident = newest.map_or(0, |point| point.resident_pages);
        let is_stuck = process.points.iter().any(|point| matches!(point.state, 'D' | 'Z'));
        let matters = ticks as f64 >= least_ticks.max(1.0) || resident as f64 >= least_pages || traffic > 0 || is_stuck;
        Part { ticks, resident, has_stirred: born || process.last < last || process.points.len() > 1, matters }
    };
    let parts: Vec<Part> = record.processes.iter().map(part).collect();
    let mut top = BTreeSet::new();
    for size in [|part: &Part| part.ticks, |part: &Part| part.resident] {
        let mut sizes: Vec<(u64, usize)> = parts.iter().enumerate().map(|(at, part)| (size(part), at)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        top.extend(sizes.into_iter().take(TOP).filter(|(size, _)| *size > 0).map(|(_, at)| at));
    }
    let mut kept = Vec::new();
    for (at, (mut process, part)) in std::mem::take(&mut record.processes).into_iter().zip(parts).enumerate() {
        let stays = part.matters || top.contains(&at);
        if !stays && !part.has_stirred {
            block.idle.push((process.pid, process.start_ticks));
            continue;
        }
        if !stays && process.points.len() > 2 {
            let newest = process.points.pop();
            process.points.truncate(1);
            process.points.extend(newest);
        }
        kept.push(process);
    }
    record.processes = kept;
    block.idle.sort_unstable();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::header;
    use rdiag_history::Header;
    use rdiag_model::Facts;
    use rdiag_model::recording::CollectorRecord;

    fn process(pid: u32, points: &[(u16, char, u64, u64)]) -> Process {
        let point = |(at, state, utime, resident_pages): &(u16, char, u64, u64)| ProcessPoint {
            at: *at,
            state: *state,
            utime: *utime,
            resident_pages: *resident_pages,
            ..ProcessPoint::default()
        };
        Process { pid, last: 9, points: points.iter().map(point).collect(), ..Process::default() }
    }

    #[test]
    fn who_did_something_stays_who_did_little_in_two_points_and_who_did_nothing_as_a_number() {
        let filler = (100..140).map(|pid| process(pid, &[(0, 'S', 0, 50), (9, 'R', 40, 50)]));
        let mut processes = vec![
            process(1, &[(0, 'S', 100, 10)]),
            process(2, &[(0, 'S', 100, 10), (4, 'S', 101, 10), (9, 'S', 102, 10)]),
            process(3, &[(0, 'S', 0, 10), (4, 'R', 300, 10), (9, 'S', 600, 10)]),
            process(4, &[(0, 'D', 5, 10)]),
            process(5, &[(0, 'S', 5, 4000)]),
            Process { first: 3, ..process(6, &[(3, 'S', 1, 10)]) },
        ];
        processes.extend(filler);
        let record =
            CollectorRecord { times: (0..10).map(f64::from).collect(), processes, ..CollectorRecord::default() };
        let host = Facts { memory_bytes: 4096 * 100_000, ..Facts::default() };
        let header = Header { host, ..header() };
        let collectors = BTreeMap::from([("processes".to_owned(), record)]);
        let mut block = Block { header, collectors, idle: Vec::new() };
        thin(&mut block);
        assert_eq!(block.idle, [(1, 0)]);
        let kept: Vec<(u32, usize)> =
            block.collectors["processes"].processes.iter().map(|one| (one.pid, one.points.len())).collect();
        // The filler is below half a per cent of a CPU (300 ticks), and the half of it not among the largest.
        assert_eq!(kept[..5], [(2, 2), (3, 3), (4, 1), (5, 1), (6, 1)]);
        assert_eq!(kept.len(), 45);
    }
}
