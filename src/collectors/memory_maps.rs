//! Memory mappings of processes against vm.max_map_count. A process that runs into it gets "cannot allocate memory" on a
//! host with plenty of it, and no counter tells.

use std::io::Read as _;

use super::processes::reader::Reader;
use crate::def::{Cadence, Collect, CollectorDef, untraceable};
use crate::sink::{Sink, Size};
use rdiag_kernel::host::{Host, SourceError};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::process;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "memory_maps",
    help: "Memory mappings of the largest processes against vm.max_map_count, from /proc/PID/maps.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: OVERHEAD,
    start: |_| Box::new(MemoryMaps::default()),
};

const OVERHEAD: &str = "once, at the end of a window: 0.2 µs for each mapping of at most 20 large processes, and 6 µs per \
    process where the table of processes is not collected; ends after a quarter of a second";

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("memory_maps.count", RawUnit::Count, "/proc/PID/maps, lines"),
    SeriesDef::gauge("memory_maps.limit", RawUnit::Count, "/proc/sys/vm/max_map_count"),
];

const CAVEAT: &str = "Only of the ten processes with the most virtual and the ten with the most resident memory; none whose \
    virtual memory is too small to hold half as many mappings.";
const MANUAL: &str = "wc -l /proc/PID/maps; cat /proc/sys/vm/max_map_count";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "memory.maps.ratio",
        unit: Unit::Ratio,
        dimension: Some("process"),
        help: "Memory mappings of a process, as a share of what vm.max_map_count allows.",
        sources: &[Formula::level_ratio(&[term("memory_maps.count")], &[term("memory_maps.limit")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.maps.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Memory mappings of a process: files, libraries, stacks, and pieces of its heap.",
        sources: &[Formula::level(&[term("memory_maps.count")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.maps_limit.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "How many memory mappings a process may have: the same for all.",
        sources: &[Formula::level(&[term("memory_maps.limit")])],
        caveat: "A limit of the host, that containers share.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

/// So many with the most virtual memory, and so many with the most resident memory.
const LARGEST: usize = 10;
/// The kernel writes every line anew for each reader, and holds the process's map while it does.
const BUDGET_SECONDS: f64 = 0.25;

/// Why a process was not counted.
enum Uncounted {
    /// The budget was used up.
    Late,
    Failed(SourceError),
}

#[derive(Default)]
struct MemoryMaps {
    done: bool,
}

impl Collect for MemoryMaps {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        // Once is enough: the number of mappings of a large program changes over hours. That is at the end, when the table
        // of processes has told their sizes; a recorded tree may have no other instant than this.
        let limit = host.read_u64("proc/sys/vm/max_map_count")?;
        let is_time = out.current() > 0 || host.is_recorded();
        if !is_time || std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        let mut reader = Reader::new(host.processes()?);
        let sizes = out.take_sizes().map_or_else(|| sizes(&mut reader), Ok)?;
        let chosen = largest(sizes, limit);
        if chosen.is_empty() {
            let why = "no process has enough virtual memory for half as many mappings as vm.max_map_count allows";
            return Err(Unavailable::new(Reason::NotApplicable, why));
        }
        let until = host.now() + BUDGET_SECONDS;
        let (mut counted, mut denied, mut late) = (0, 0, 0);
        for pid in chosen {
            match count(host, pid, until) {
                Ok(maps) => {
                    counted += 1;
                    record(pid, maps, limit, &mut reader, out);
                }
                Err(Uncounted::Late) => late += 1,
                Err(Uncounted::Failed(error)) => denied += usize::from(error.reason == Reason::Denied),
            }
        }
        let instance = if counted > 0 { "(others)" } else { "" };
        if denied > 0 {
            let what = format!("the mappings of {denied} large processes");
            out.gap("memory_maps.", instance, untraceable(host.facts(), &what));
        } else if late > 0 {
            let why = format!("counting took long and was ended before {late} large processes were done");
            out.gap("memory_maps.", instance, Unavailable::new(Reason::ShortWindow, why));
        }
        Ok(())
    }
}

/// The sizes of all processes. Kernel threads have none.
fn sizes(reader: &mut Reader) -> Result<Vec<Size>, SourceError> {
    let mut pids = Vec::new();
    reader.pids(&mut pids)?;
    let of = |reader: &mut Reader, pid: u32| {
        let mut fields = reader.file(pid, "statm").ok()?.split(u8::is_ascii_whitespace).map(rdiag_proc::number);
        Some(Size { pid, all: fields.next()??, resident: fields.next()?? })
    };
    Ok(pids.into_iter().filter_map(|pid| of(reader, pid)).collect())
}

/// The processes that may be near the limit: a mapping takes a page at least.
fn largest(mut sizes: Vec<Size>, limit: u64) -> Vec<u32> {
    sizes.retain(|size| size.all >= limit / 2);
    sizes.sort_unstable_by_key(|size| std::cmp::Reverse((size.all, size.pid)));
    let mut rest = sizes.split_off(LARGEST.min(sizes.len()));
    rest.sort_unstable_by_key(|size| std::cmp::Reverse((size.resident, size.pid)));
    sizes.extend(rest.into_iter().take(LARGEST));
    sizes.into_iter().map(|size| size.pid).collect()
}

/// The lines of a process's maps. Names in them hold no line ends: the kernel writes `\012`.
fn count(host: &Host, pid: u32, until: f64) -> Result<u64, Uncounted> {
    let path = format!("proc/{pid}/maps");
    let mut file = host.open(&path).map_err(Uncounted::Failed)?;
    let mut buffer = [0_u8; 32 * 1024];
    let mut lines = 0_u64;
    loop {
        let read = file.read(&mut buffer).map_err(|error| Uncounted::Failed(SourceError::io(&path, &error)))?;
        if read == 0 {
            return Ok(lines);
        }
        let seen = buffer.get(..read).unwrap_or_default();
        lines += seen.iter().filter(|byte| **byte == b'\n').count() as u64;
        if host.now() > until {
            return Err(Uncounted::Late);
        }
    }
}

fn record(pid: u32, maps: u64, limit: u64, reader: &mut Reader, out: &Sink) {
    let Some((name, stat)) = reader.file(pid, "stat").ok().and_then(process::stat) else { return };
    let instance = format!("{pid}:{}", stat.start_ticks);
    out.level("memory_maps.count", &instance, maps as f64);
    out.level("memory_maps.limit", &instance, limit as f64);
    out.label(&instance, "name", String::from_utf8_lossy(name));
    out.label(&instance, "pid", pid.to_string());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, gap, instances, stats};
    use super::*;
    use rdiag_kernel::host::Fault;

    fn process(story: Story, pid: u32, pages: u64, maps: usize) -> Story {
        let line = format!("{pid} (p{pid}) S 1 1 1 0 -1 0 7 0 0 0 1 0 0 0 20 0 1 0 500 9 5 1\n");
        story
            .file(0, &format!("proc/{pid}/stat"), line)
            .file(0, &format!("proc/{pid}/statm"), format!("{pages} 50 9 1 0 30 0\n"))
            .file(0, &format!("proc/{pid}/maps"), "7f00-7f01 rw-p 00000000 00:00 0\n".repeat(maps))
    }

    fn host() -> Story {
        Story::of_seconds(2).file(0, "proc/sys/vm/max_map_count", "1000\n")
    }

    #[test]
    fn the_mappings_of_large_processes_are_counted_and_small_ones_are_left_alone() {
        let metrics = process(process(host(), 10, 5000, 900), 11, 499, 20).metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "memory.maps.ratio"), ["10:500"]);
        assert!((stats(&metrics, "memory.maps.ratio", "10:500").last - 0.9).abs() < 1e-9);
        assert_eq!(metrics.labels["process"]["10:500"]["name"], "p10");
    }

    #[test]
    fn the_largest_in_either_way_are_chosen_and_no_more() {
        let size = |pid: u32, all: u64, resident: u64| Size { pid, all, resident };
        let mut sizes: Vec<Size> = (1..=40).map(|pid| size(pid, 1000 + u64::from(pid), 10)).collect();
        sizes.push(size(99, 600, 500));
        let chosen = largest(sizes, 1000);
        assert_eq!(chosen.len(), 2 * LARGEST);
        assert!(chosen.contains(&40) && chosen.contains(&99) && !chosen.contains(&1), "{chosen:?}");
        assert_eq!(largest(vec![size(1, 400, 400)], 1000), Vec::<u32>::new());
    }

    #[test]
    fn a_host_of_small_processes_has_nothing_to_judge() {
        let metrics = process(host(), 10, 100, 20).metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "memory.maps.ratio", "").reason, Reason::NotApplicable);
    }

    #[test]
    fn what_other_users_hide_is_a_gap_and_not_an_absence_of_trouble() {
        let mut story = process(process(host(), 10, 5000, 900), 11, 5000, 900);
        story.spec.faults = vec![Fault { path: "proc/10/maps".into(), fails: Reason::Denied, from: 0 }];
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "memory.maps.ratio", "(others)").reason, Reason::Denied);
        assert!(metrics.stats("memory.maps.ratio", "11:500").is_ok());
        story.spec.faults.push(Fault { path: "proc/11/maps".into(), fails: Reason::Denied, from: 0 });
        assert_eq!(gap(&story.metrics(&COLLECTOR), "memory.maps.ratio", "").reason, Reason::Denied);
    }

    #[test]
    fn garbage_and_processes_that_are_gone_are_passed_over() {
        let story = process(process(host(), 10, 5000, 900), 11, 5000, 900).file(0, "proc/12/statm", "x y\n");
        let story = story.file(0, "proc/11/stat", "11 (p").file(0, "proc/13/statm", "5000 5000 0\n");
        assert_eq!(instances(&story.metrics(&COLLECTOR), "memory.maps.ratio"), ["10:500"]);
    }

    #[test]
    fn counting_ends_when_its_time_is_up() {
        let story = process(host(), 10, 5000, 900);
        let host = story.host();
        assert!(matches!(count(&host, 10, -1.0), Err(Uncounted::Late)));
        assert!(matches!(count(&host, 10, 1.0), Ok(900)));
    }
}
