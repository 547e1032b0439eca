//! Open files: of the whole host against file-max, and of each process against its own limit. Running into either is
//! counted nowhere; only tracing system calls shows EMFILE and ENFILE.

use super::processes::reader::Reader;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, OpenFiles};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::process;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "file_handles",
    help: "Open files of the host and of processes against their limits, from /proc/sys/fs and /proc/PID.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "once in a window: 2 µs per process, and 8 µs for each with 32 open files or more; \
               before Linux 6.2 also the length of every list of open files",
    start: |_| Box::new(FileHandles::default()),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("file_handles.allocated", RawUnit::Count, "/proc/sys/fs/file-nr, field 1"),
    SeriesDef::gauge("file_handles.file_max", RawUnit::Count, "/proc/sys/fs/file-nr, field 3"),
    SeriesDef::gauge("file_handles.aio", RawUnit::Count, "/proc/sys/fs/aio-nr"),
    SeriesDef::gauge("file_handles.aio_max", RawUnit::Count, "/proc/sys/fs/aio-max-nr"),
    SeriesDef::gauge("file_handles.open", RawUnit::Count, "/proc/PID/fd"),
    SeriesDef::gauge("file_handles.limit", RawUnit::Count, "/proc/PID/limits, Max open files, soft"),
];

const CAVEAT_OF_PROCESS: &str =
    "Only the processes with the most files and those nearest to their limit; none with fewer than 32 files.";
const CAVEAT_OF_HOST: &str = "The limit of the host is seldom what binds: that of the process comes first.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "fd.system.ratio",
        unit: Unit::Ratio,
        help: "Open files of the whole host, as a share of file-max.",
        sources: &[Formula::level_ratio(&[term("file_handles.allocated")], &[term("file_handles.file_max")])],
        caveat: CAVEAT_OF_HOST,
        manual: "cat /proc/sys/fs/file-nr",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.system.count",
        unit: Unit::Count,
        help: "Open files of the whole host.",
        sources: &[Formula::level(&[term("file_handles.allocated")])],
        caveat: CAVEAT_OF_HOST,
        manual: "cat /proc/sys/fs/file-nr",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.aio.ratio",
        unit: Unit::Ratio,
        help: "Slots for asynchronous I/O that are reserved, as a share of aio-max-nr.",
        sources: &[Formula::level_ratio(&[term("file_handles.aio")], &[term("file_handles.aio_max")])],
        caveat: CAVEAT_OF_HOST,
        manual: "cat /proc/sys/fs/aio-nr /proc/sys/fs/aio-max-nr",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.process.ratio",
        unit: Unit::Ratio,
        dimension: Some("process"),
        help: "Open files of a process, as a share of its own limit.",
        sources: &[Formula::level_ratio(&[term("file_handles.open")], &[term("file_handles.limit")])],
        caveat: CAVEAT_OF_PROCESS,
        manual: "ls /proc/PID/fd | wc -l; grep 'open files' /proc/PID/limits",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.process.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Open files of a process.",
        sources: &[Formula::level(&[term("file_handles.open")])],
        caveat: CAVEAT_OF_PROCESS,
        manual: "ls /proc/PID/fd | wc -l",
        deed: Some(Deed { verb: "held", of: "the open files", ..Deed::USUAL }),
    },
    MetricDef {
        id: "fd.process_limit.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "How many files a process may have open (the soft limit).",
        sources: &[Formula::level(&[term("file_handles.limit")])],
        caveat: CAVEAT_OF_PROCESS,
        manual: "grep 'open files' /proc/PID/limits",
        ..MetricDef::EMPTY
    },
];

/// Processes with fewer open files are not compared with their limit: programs that lock themselves in on purpose set
/// it that low, and reading the limits of all processes would cost more than it tells.
const SUSPICIOUS: u64 = 32;
/// Processes that are recorded: those nearest to their limit.
const NEAREST: usize = 10;

/// Processes that are recorded because they have the most files open.
const LARGEST: usize = 5;

/// A process near its limit.
struct Near {
    pid: u32,
    open: u64,
    limit: u64,
}

#[derive(Default)]
struct FileHandles {
    pids: Vec<u32>,
}

impl Collect for FileHandles {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        for (value, limit, counter, files) in [
            ("file_handles.allocated", "file_handles.file_max", (0, 2), ["proc/sys/fs/file-nr"; 2]),
            ("file_handles.aio", "file_handles.aio_max", (0, 0), ["proc/sys/fs/aio-nr", "proc/sys/fs/aio-max-nr"]),
        ] {
            let [of_value, of_limit] = files;
            let read = field(host, of_value, counter.0).and_then(|v| Ok((v, field(host, of_limit, counter.1)?)));
            match read {
                Ok((now, most)) => {
                    out.level(value, "", now);
                    out.level(limit, "", most);
                }
                Err(gap) => out.gap(value, "", gap),
            }
        }
        // Of processes once is enough: a limit that is near at the end of a window was not far at its beginning.
        if out.current() > 0 {
            return Ok(());
        }
        let mut reader = Reader::new(host.processes()?);
        reader.pids(&mut self.pids)?;
        for near in self.nearest(host, &mut reader, out) {
            record(&near, &mut reader, out);
        }
        Ok(())
    }
}

/// One field of a file of numbers.
fn field(host: &Host, path: &str, index: usize) -> Result<f64, Unavailable> {
    let text = host.read(path)?;
    let value = text.split_whitespace().nth(index).and_then(|word| word.parse::<u64>().ok());
    let malformed = || Unavailable::new(Reason::Malformed, format!("/{path} has no number in field {}", index + 1));
    value.map(|value| value as f64).ok_or_else(malformed)
}

impl FileHandles {
    /// The processes that are nearest to their limit.
    fn nearest(&self, host: &Host, reader: &mut Reader, out: &Sink) -> Vec<Near> {
        // rdiag itself has files open: a directory of size 0 means that this kernel does not count there.
        let counted = !host.is_recorded() && reader.open_files(host.facts().pid, true).is_ok_and(|count| count > 0);
        let mut denied = 0;
        let mut found = Vec::new();
        let mut counts = Vec::new();
        for pid in self.pids.iter().copied() {
            let open = match reader.open_files(pid, counted) {
                Ok(open) => open,
                Err(error) => {
                    denied += usize::from(error.reason == Reason::Denied);
                    continue;
                }
            };
            if counted {
                counts.push(OpenFiles { pid, count: open });
            }
            if open < SUSPICIOUS {
                continue;
            }
            let Ok(bytes) = reader.file(pid, "limits") else { continue };
            let Some(limit) = process::soft_limit(bytes, "Max open files") else { continue };
            if limit >= SUSPICIOUS {
                found.push(Near { pid, open, limit });
            }
        }
        if counted && denied == 0 {
            host.asked().open_files.keep(host.now(), counts);
        }
        let count = self.pids.len();
        if denied > 0 {
            let why = format!("the open files of {denied} of {count} processes may be seen by their owners only");
            let remedy = "run rdiag as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; from Linux 6.2 on neither";
            let instance = if found.is_empty() { "" } else { "(others)" };
            unseen(instance, &Unavailable::new(Reason::Denied, why).with_remedy(remedy), out);
        } else if found.is_empty() {
            let why = format!("no process has as many as {SUSPICIOUS} open files");
            unseen("", &Unavailable::new(Reason::NotApplicable, why), out);
        }
        // Those with the most files are of interest too: the limit of the host is on their sum.
        found.sort_by_key(|near| std::cmp::Reverse(near.open));
        let mut rest = found.split_off(LARGEST.min(found.len()));
        let share = |near: &Near| near.open as f64 / near.limit as f64;
        rest.sort_by(|a, b| share(b).total_cmp(&share(a)));
        found.extend(rest.into_iter().take(NEAREST));
        found
    }
}

/// Says why there are no figures of processes, or not of all (`(others)`).
fn unseen(instance: &str, gap: &Unavailable, out: &Sink) {
    out.gap("file_handles.open", instance, gap.clone());
    if instance.is_empty() {
        out.gap("file_handles.limit", "", gap.clone());
    }
}

fn record(near: &Near, reader: &mut Reader, out: &Sink) {
    let Ok(bytes) = reader.file(near.pid, "stat") else { return };
    let Some((name, stat)) = process::stat(bytes) else { return };
    let instance = format!("{}:{}", near.pid, stat.start_ticks);
    out.level("file_handles.open", &instance, near.open as f64);
    out.level("file_handles.limit", &instance, near.limit as f64);
    out.label(&instance, "name", String::from_utf8_lossy(name));
    out.label(&instance, "pid", near.pid.to_string());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, gap, instances, stats};
    use super::*;
    use rdiag_kernel::host::Fault;

    fn process(story: Story, pid: u32, open: usize, limit: &str) -> Story {
        let line = format!("{pid} (p{pid}) S 1 1 1 0 -1 0 7 0 0 0 1 0 0 0 20 0 1 0 500 9 5 1\n");
        let limits = format!("Limit  Soft Limit  Hard Limit  Units\nMax open files   {limit}   4096   files\n");
        let story = story.file(0, &format!("proc/{pid}/stat"), line).file(0, &format!("proc/{pid}/limits"), limits);
        (0..open).fold(story, |story, number| story.file(0, &format!("proc/{pid}/fd/{number}"), ""))
    }

    fn host() -> Story {
        Story::of_seconds(2)
            .file(0, "proc/sys/fs/file-nr", "722\t0\t2466177\n")
            .file(0, "proc/sys/fs/aio-nr", "0\n")
            .file(0, "proc/sys/fs/aio-max-nr", "65536\n")
    }

    #[test]
    fn a_process_near_its_own_limit_is_named() {
        let story = process(process(process(host(), 10, 60, "64"), 11, 40, "1024"), 12, 5, "64");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "fd.process.ratio"), ["10:500", "11:500"]);
        assert!((stats(&metrics, "fd.process.ratio", "10:500").last - 60.0 / 64.0).abs() < 1e-9);
        assert_eq!(metrics.labels["process"]["10:500"]["name"], "p10");
        assert!((stats(&metrics, "fd.system.count", "").last - 722.0).abs() < 1e-9);
        assert!(stats(&metrics, "fd.aio.ratio", "").last.abs() < 1e-9);
    }

    #[test]
    fn programs_that_lock_themselves_in_and_small_ones_are_no_suspects() {
        let metrics = process(process(host(), 10, 40, "1"), 11, 31, "32").metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "fd.process.ratio", "").reason, Reason::NotApplicable);
    }

    #[test]
    fn what_other_users_hide_is_a_gap_and_not_an_absence_of_trouble() {
        let mut story = process(host(), 10, 60, "64");
        story.spec.faults = vec![Fault { path: "proc/10/fd".into(), fails: Reason::Denied, from: 0 }];
        assert_eq!(gap(&story.metrics(&COLLECTOR), "fd.process.ratio", "").reason, Reason::Denied);
    }

    #[test]
    fn a_file_that_holds_garbage_is_malformed() {
        let metrics = host().file(0, "proc/sys/fs/file-nr", "722\n").metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "fd.system.ratio", "").reason, Reason::Malformed);
    }
}
