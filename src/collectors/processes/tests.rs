//! The collector on recorded trees.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::host::{Fault, HostSpec};
use crate::model::recording::CollectorRecord;
use crate::model::{Facts, Metrics, Window};

/// A tree that is written instant by instant.
struct Tree {
    dir: tempfile::TempDir,
    instants: usize,
    faults: Vec<Fault>,
}

/// One process at one instant.
#[derive(Clone)]
struct Shown<'a> {
    pid: u32,
    name: &'a str,
    state: char,
    ppid: u32,
    start: u64,
    ticks: u64,
    resident: u64,
    schedstat: &'a str,
    read_bytes: u64,
    threads: &'a [(u32, &'a str)],
}

const QUIET: Shown<'static> = Shown {
    pid: 10,
    name: "quiet",
    state: 'S',
    ppid: 1,
    start: 500,
    ticks: 100,
    resident: 1000,
    schedstat: "1000000000 5000000 10",
    read_bytes: 0,
    threads: &[],
};

#[expect(clippy::disallowed_methods, reason = "a tree made for the test")]
impl Tree {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), instants: 0, faults: Vec::new() }
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let place = self.dir.path().join(format!("t{}", self.instants.saturating_sub(1))).join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
    }

    fn instant(&mut self, shown: &[Shown<'_>]) -> &mut Self {
        self.instants += 1;
        self.file("proc/uptime", "1000.0 1.0\n");
        for p in shown {
            let threads = p.threads.len().max(1);
            let (pid, name, state, ppid, ticks) = (p.pid, p.name, p.state, p.ppid, p.ticks);
            let (start, resident) = (p.start, p.resident);
            self.file(
                &format!("proc/{pid}/stat"),
                format!("{pid} ({name}) {state} {ppid} 1 1 0 -1 0 7 0 0 0 {ticks} 0 0 0 20 0 {threads} 0 {start} 9 {resident} 1\n"),
            );
            self.file(&format!("proc/{pid}/schedstat"), p.schedstat);
            self.file(&format!("proc/{pid}/io"), format!("read_bytes: {}\nwrite_bytes: 0\n", p.read_bytes));
            self.file(&format!("proc/{pid}/status"), "Uid:\t5\t5\nVmSwap:\t 8 kB\nvoluntary_ctxt_switches:\t3\n");
            self.file(&format!("proc/{pid}/cmdline"), format!("/usr/bin/{name}\0--all\0"));
            self.file(&format!("proc/{pid}/cgroup"), "0::/some.slice\n");
            for (tid, schedstat) in p.threads {
                self.file(&format!("proc/{pid}/task/{tid}/schedstat"), schedstat);
            }
        }
        self
    }

    fn record(&self) -> CollectorRecord {
        record(self.dir.path(), self.instants, self.faults.clone())
    }
}

fn record(root: &Path, instants: usize, faults: Vec<Fault>) -> CollectorRecord {
    let times: Vec<f64> = (0..instants).map(|at| at as f64).collect();
    let host = Host::recorded(root, HostSpec { times: times.clone(), faults, ..HostSpec::default() });
    let out = Sink::new(COLLECTOR.series);
    let mut collector = (COLLECTOR.start)(&host);
    for (at, time) in times.into_iter().enumerate() {
        host.wait(time, at, &AtomicBool::new(false));
        collector.sample(&host, &out).unwrap();
        out.end_sample(time, false);
    }
    collector.finish(&host, &out);
    drop(collector);
    out.into_record()
}

fn evaluate(record: CollectorRecord) -> Metrics {
    let seconds = (record.times.len() - 1) as f64;
    let window = Window {
        steps: Vec::new(),
        begins: 0.0,
        seconds,
        interval_seconds: 1.0,
        suspended_seconds: 0.0,
        collectors: BTreeMap::from([("processes".to_owned(), record)]),
    };
    let catalogue: Vec<_> = COLLECTOR.metrics.iter().map(|metric| (COLLECTOR.id, metric)).collect();
    crate::metrics::evaluate(&window, &Facts::default(), &catalogue)
}

fn total(metrics: &Metrics, id: &str, instance: &str) -> f64 {
    metrics.stats(id, instance).unwrap().total
}

#[test]
fn what_a_process_used_is_the_change_over_the_window() {
    let mut tree = Tree::new();
    tree.instant(&[QUIET]).instant(&[QUIET]);
    let busy = Shown { ticks: 190, schedstat: "1900000000 105000000 20", read_bytes: 4096, state: 'R', ..QUIET };
    tree.instant(std::slice::from_ref(&busy)).instant(&[busy]);
    let record = tree.record();
    let process = &record.processes[0];
    assert_eq!(process.points.len(), 2, "points only where something changed");
    assert_eq!((process.first, process.last, process.uid), (0, 3, Some(5)));
    assert_eq!(process.command.as_deref(), Some("/usr/bin/quiet --all"));
    assert_eq!(process.cgroup.as_deref(), Some("/some.slice"));
    let metrics = evaluate(record);
    assert!((total(&metrics, "process.cpu.seconds", "10:500") - 0.9).abs() < 1e-9);
    assert!((total(&metrics, "process.run_delay.seconds", "10:500") - 0.1).abs() < 1e-9);
    assert!((total(&metrics, "process.read.bytes", "10:500") - 4096.0).abs() < 1e-9);
    let ratio = metrics.stats("process.cpu.ratio", "10:500").unwrap();
    assert!((ratio.mean - 0.3).abs() < 1e-9 && (ratio.max - 0.9).abs() < 1e-9, "{ratio:?}");
    assert_eq!(metrics.labels["process"]["10:500"]["name"], "quiet");
    assert_eq!(metrics.labels["process"]["10:500"]["cgroup"], "/some.slice");
}

#[test]
fn a_process_that_waited_and_wrote_within_one_tick_is_read_at_the_end_and_spread_over_the_window() {
    let mut tree = Tree::new();
    tree.instant(&[QUIET]).instant(&[QUIET]);
    tree.instant(&[Shown { schedstat: "1001000000 205000000 30", read_bytes: 8192, ..QUIET }]);
    let metrics = evaluate(tree.record());
    let delay = metrics.stats("process.run_delay.seconds", "10:500").unwrap();
    assert!((delay.total - 0.2).abs() < 1e-9);
    assert!(delay.intervals.iter().all(|share| (share.unwrap() - 0.1).abs() < 1e-9), "{delay:?}");
    assert!((total(&metrics, "process.read.bytes", "10:500") - 8192.0).abs() < 1e-9);
}

#[test]
fn a_reused_id_is_another_process_and_what_it_did_since_its_birth_counts() {
    let mut tree = Tree::new();
    tree.instant(&[QUIET]);
    tree.instant(&[Shown { name: "young", start: 900, ticks: 20, ..QUIET }]);
    let record = tree.record();
    assert_eq!(record.processes.len(), 2);
    let metrics = evaluate(record);
    assert!((total(&metrics, "process.cpu.seconds", "10:900") - 0.2).abs() < 1e-9);
    assert!(metrics.stats("process.cpu.seconds", "10:500").is_err());
    assert!(metrics.stats("process.resident.bytes", "10:500").is_err(), "a process that is gone holds nothing");
}

#[test]
fn names_with_parentheses_garbage_and_processes_that_vanish_between_two_reads_do_no_harm() {
    let mut tree = Tree::new();
    tree.instant(&[QUIET, Shown { pid: 11, name: "(a) b)", ..QUIET }]);
    tree.file("proc/12/stat", "12 (broken) S 1");
    tree.file("proc/13/status", "Uid: 1\n");
    tree.file("proc/14/stat", [0xff, 0, b'(', b')', b' ']);
    // Gone after stat was read.
    let gone = "15 (gone) R 1 1 1 0 -1 0 7 0 0 0 1 0 0 0 20 0 1 0 500 9 5 1\n";
    tree.file("proc/15/stat", gone);
    tree.instant(&[QUIET]);
    let record = tree.record();
    let names: Vec<&str> = record.processes.iter().map(|process| process.comm.as_str()).collect();
    assert_eq!(names.len(), 3);
    assert!(names.contains(&"(a) b)") && names.contains(&"gone"));
    let gone = record.processes.iter().find(|process| process.pid == 15).unwrap();
    assert_eq!((gone.points[0].wait_ns, gone.points[0].read_bytes, gone.last), (None, None, 0));
    assert!(!record.gaps.contains_key("stat") && !record.gaps.contains_key("io"), "{:?}", record.gaps);
}

#[test]
fn waiting_is_summed_over_threads_and_survives_the_end_of_one() {
    let mut tree = Tree::new();
    let before = Shown { threads: &[(10, "5 100 1"), (11, "5 200 1"), (12, "5 300 1")], ..QUIET };
    let after = Shown { ticks: 101, threads: &[(10, "5 150 1"), (12, "5 400 1"), (13, "5 7 1")], ..QUIET };
    tree.instant(&[before]).instant(&[after]);
    let waits: Vec<_> = tree.record().processes[0].points.iter().map(|point| point.wait_ns).collect();
    assert_eq!(waits, [Some(600), Some(600 + 50 + 100 + 7)]);
}

#[test]
fn files_of_other_users_leave_a_gap_with_its_remedy() {
    let mut tree = Tree::new();
    tree.instant(&[QUIET, Shown { pid: 11, ..QUIET }]).instant(&[QUIET, Shown { pid: 11, ..QUIET }]);
    tree.faults = vec![Fault { path: "proc/11/io".into(), fails: Reason::Denied, from: 0 }];
    let record = tree.record();
    assert_eq!(record.gaps["io"].reason, Reason::Denied);
    assert!(record.gaps["io"].why.contains("1 of 2"), "{}", record.gaps["io"].why);
    tree.faults.push(Fault { path: "proc/10/io".into(), fails: Reason::Denied, from: 0 });
    let metrics = evaluate(tree.record());
    assert_eq!(metrics.stats("process.read.bytes", "10:500").unwrap_err().reason, Reason::Denied);
    assert!(metrics.stats("process.cpu.seconds", "(others)").is_ok(), "idle is not unknown");
}

#[test]
fn scheduler_figures_that_are_zero_for_everybody_are_absent() {
    let mut tree = Tree::new();
    tree.instant(&[Shown { schedstat: "0 0 0\n", ..QUIET }]);
    tree.instant(&[Shown { schedstat: "0 0 0\n", read_bytes: 1, ..QUIET }]);
    let record = tree.record();
    assert_eq!(record.processes[0].points[1].read_bytes, Some(1), "without them the other files are read anyway");
    let metrics = evaluate(record);
    assert_eq!(metrics.stats("process.run_delay.seconds", "10:500").unwrap_err().reason, Reason::Absent);
}

#[test]
fn zombies_are_counted_with_their_parents() {
    let zombie = |pid| Shown { pid, state: 'Z', ppid: 10, ..QUIET };
    let mut tree = Tree::new();
    tree.instant(&[QUIET, zombie(20), zombie(21), Shown { pid: 22, state: 'D', ..QUIET }]);
    tree.instant(&[QUIET, zombie(20), zombie(21)]);
    let metrics = evaluate(tree.record());
    assert!((metrics.stats("tasks.zombies.count", "").unwrap().mean - 2.0).abs() < 1e-9);
    assert!((metrics.stats("process.zombie_children.count", "10:500").unwrap().mean - 2.0).abs() < 1e-9);
    assert!((metrics.stats("tasks.uninterruptible.count", "").unwrap().mean - 0.5).abs() < 1e-9);
    assert!((metrics.stats("tasks.processes.count", "").unwrap().last - 3.0).abs() < 1e-9);
}
