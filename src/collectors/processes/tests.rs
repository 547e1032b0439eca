//! The collector on recorded trees.

use super::super::testing::{Story, gap};
use super::*;
use rdiag_kernel::host::Fault;
use rdiag_model::Metrics;

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

/// Adds an instant at which /proc shows these processes and no others.
fn show(story: Story, instant: usize, shown: &[Shown<'_>]) -> Story {
    let mut story = story.file(instant, "proc/uptime", "1000.0 1.0\n");
    for p in shown {
        let threads = p.threads.len().max(1);
        let (pid, name, state, ppid, ticks) = (p.pid, p.name, p.state, p.ppid, p.ticks);
        let (start, resident) = (p.start, p.resident);
        let rest = format!("0 0 20 0 {threads} 0 {start} 9 {resident} 1\n");
        let of = |file: &str| format!("proc/{pid}/{file}");
        story = story
            .file(instant, &of("stat"), format!("{pid} ({name}) {state} {ppid} 1 1 0 -1 0 7 0 0 0 {ticks} 0 {rest}"))
            .file(instant, &of("schedstat"), p.schedstat)
            .file(instant, &of("io"), format!("read_bytes: {}\nwrite_bytes: 0\n", p.read_bytes))
            .file(instant, &of("status"), "Uid:\t4\t5\nVmSwap:\t 8 kB\nvoluntary_ctxt_switches:\t3\n")
            .file(instant, &of("cmdline"), format!("/usr/bin/{name}\0--all\0"))
            .file(instant, &of("cgroup"), "0::/some.slice\n");
        for (tid, schedstat) in p.threads {
            story = story.file(instant, &of(&format!("task/{tid}/schedstat")), schedstat);
        }
    }
    story
}

/// A tree whose instants show these processes.
fn story(instants: &[&[Shown<'_>]]) -> Story {
    let empty = Story::of_seconds(instants.len());
    instants.iter().enumerate().fold(empty, |story, (instant, shown)| show(story, instant, shown))
}

fn total(metrics: &Metrics, id: &str, instance: &str) -> f64 {
    metrics.stats(id, instance).unwrap().total
}

#[test]
fn what_a_process_used_is_the_change_over_the_window() {
    let busy = Shown { ticks: 190, schedstat: "1900000000 105000000 20", read_bytes: 4096, state: 'R', ..QUIET };
    let busy = [busy];
    let story = story(&[&[QUIET], &[QUIET], &busy, &busy]);
    let record = story.record(&COLLECTOR);
    let process = &record.processes[0];
    assert_eq!(process.points.len(), 2, "points only where something changed");
    assert_eq!((process.first, process.last, process.uid), (0, 3, Some(5)));
    assert_eq!(process.command.as_deref(), Some("/usr/bin/quiet --all"));
    assert_eq!(process.cgroup.as_deref(), Some("/some.slice"));
    let metrics = story.metrics(&COLLECTOR);
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
    let end = Shown { schedstat: "1001000000 205000000 30", read_bytes: 8192, ..QUIET };
    let metrics = story(&[&[QUIET], &[QUIET], &[end]]).metrics(&COLLECTOR);
    let delay = metrics.stats("process.run_delay.seconds", "10:500").unwrap();
    assert!((delay.total - 0.2).abs() < 1e-9);
    assert!(delay.intervals.iter().all(|share| (share.unwrap() - 0.1).abs() < 1e-9), "{delay:?}");
    assert!((total(&metrics, "process.read.bytes", "10:500") - 8192.0).abs() < 1e-9);
}

#[test]
fn a_reused_id_is_another_process_and_what_it_did_since_its_birth_counts() {
    let story = story(&[&[QUIET], &[Shown { name: "young", start: 900, ticks: 20, ..QUIET }]]);
    assert_eq!(story.record(&COLLECTOR).processes.len(), 2);
    let metrics = story.metrics(&COLLECTOR);
    assert!((total(&metrics, "process.cpu.seconds", "10:900") - 0.2).abs() < 1e-9);
    assert!(metrics.stats("process.cpu.seconds", "10:500").is_err());
    assert!(metrics.stats("process.resident.bytes", "10:500").is_err(), "a process that is gone holds nothing");
}

#[test]
fn names_with_parentheses_garbage_and_processes_that_vanish_between_two_reads_do_no_harm() {
    // Process 15 is gone after its stat was read.
    let gone = "15 (gone) R 1 1 1 0 -1 0 7 0 0 0 1 0 0 0 20 0 1 0 500 9 5 1\n";
    let record = story(&[&[QUIET, Shown { pid: 11, name: "(a) b)", ..QUIET }], &[QUIET]])
        .file(0, "proc/12/stat", "12 (broken) S 1")
        .file(0, "proc/13/status", "Uid: 1\n")
        .file(0, "proc/14/stat", [0xff, 0, b'(', b')', b' '])
        .file(0, "proc/15/stat", gone)
        .record(&COLLECTOR);
    let names: Vec<&str> = record.processes.iter().map(|process| process.comm.as_str()).collect();
    assert_eq!(names.len(), 3);
    assert!(names.contains(&"(a) b)") && names.contains(&"gone"));
    let gone = record.processes.iter().find(|process| process.pid == 15).unwrap();
    assert_eq!((gone.points[0].wait_ns, gone.points[0].read_bytes, gone.last), (None, None, 0));
    assert!(!record.gaps.contains_key("stat") && !record.gaps.contains_key("io"), "{:?}", record.gaps);
}

#[test]
fn waiting_is_summed_over_threads_and_survives_the_end_of_one() {
    let before = Shown { threads: &[(10, "5 100 1"), (11, "5 200 1"), (12, "5 300 1")], ..QUIET };
    let after = Shown { ticks: 101, threads: &[(10, "5 150 1"), (12, "5 400 1"), (13, "5 7 1")], ..QUIET };
    let record = story(&[&[before], &[after]]).record(&COLLECTOR);
    let waits: Vec<_> = record.processes[0].points.iter().map(|point| point.wait_ns).collect();
    assert_eq!(waits, [Some(600), Some(600 + 50 + 100 + 7)]);
}

#[test]
fn files_of_other_users_leave_a_gap_with_its_remedy() {
    let both = [QUIET, Shown { pid: 11, ..QUIET }];
    let mut story = story(&[&both, &both]);
    story.spec.faults = vec![Fault { path: "proc/11/io".into(), fails: Reason::Denied, from: 0 }];
    let record = story.record(&COLLECTOR);
    assert_eq!(record.gaps["io"].reason, Reason::Denied);
    assert!(record.gaps["io"].why.contains("1 of 2"), "{}", record.gaps["io"].why);
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "process.read.bytes", "(others)").reason, Reason::Denied);
    assert!(
        metrics.notes["process.read.bytes"][0].why().contains("1 of 2"),
        "who may be missing lowers the confidence"
    );
    assert!(!metrics.notes.contains_key("process.cpu.seconds"));
    story.spec.faults.push(Fault { path: "proc/10/io".into(), fails: Reason::Denied, from: 0 });
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "process.read.bytes", "10:500").reason, Reason::Denied);
    assert!(metrics.stats("process.cpu.seconds", "(others)").is_ok(), "idle is not unknown");
}

#[test]
fn scheduler_figures_that_are_zero_for_everybody_are_absent() {
    let begin = Shown { schedstat: "0 0 0\n", ..QUIET };
    let story = story(&[std::slice::from_ref(&begin), &[Shown { read_bytes: 1, ..begin.clone() }]]);
    let record = story.record(&COLLECTOR);
    assert_eq!(record.processes[0].points[1].read_bytes, Some(1), "without them the other files are read anyway");
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "process.run_delay.seconds", "10:500").reason, Reason::Absent);
}

#[test]
fn zombies_are_counted_with_their_parents() {
    let zombie = |pid| Shown { pid, state: 'Z', ppid: 10, ..QUIET };
    let begin = [QUIET, zombie(20), zombie(21), Shown { pid: 22, state: 'D', ..QUIET }];
    let metrics = story(&[&begin, &[QUIET, zombie(20), zombie(21)]]).metrics(&COLLECTOR);
    assert!((metrics.stats("tasks.zombies.count", "").unwrap().mean - 2.0).abs() < 1e-9);
    assert!((metrics.stats("process.zombie_children.count", "10:500").unwrap().mean - 2.0).abs() < 1e-9);
    assert!((metrics.stats("tasks.uninterruptible.count", "").unwrap().mean - 0.5).abs() < 1e-9);
    assert!((metrics.stats("tasks.processes.count", "").unwrap().last - 3.0).abs() < 1e-9);
}

#[test]
fn threads_of_a_user_are_compared_with_the_limit_of_the_largest_process() {
    let threads: Vec<(u32, &str)> = (10..90).map(|tid| (tid, "1 1 1")).collect();
    let large = [Shown { threads: &threads, ..QUIET }, Shown { pid: 200, ..QUIET }];
    let story = story(&[&large, &large]).file(0, "proc/10/limits", "Max processes   100   200   processes\n").file(
        1,
        "etc/passwd",
        "root:x:0:0::/:/bin/sh\nbroken\napp:x:4:4::/:/bin/sh\n",
    );
    let metrics = story.metrics(&COLLECTOR);
    assert!((metrics.stats("tasks.user.ratio", "4").unwrap().last - 0.81).abs() < 1e-9);
    assert_eq!(metrics.labels["user"]["4"]["name"], "app");
}

#[test]
fn users_with_few_threads_or_no_limit_are_not_judged() {
    let metrics = story(&[&[QUIET], &[QUIET]]).metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "tasks.user.ratio", "").reason, Reason::NotApplicable);
}

#[test]
fn of_very_many_processes_the_largest_are_kept_and_the_others_are_summed_up() {
    let all: Vec<Shown<'_>> = (10..610).map(|pid| Shown { pid, resident: u64::from(pid), ..QUIET }).collect();
    let metrics = story(&[&all, &all]).metrics(&COLLECTOR);
    let page = 4096.0;
    let sum: u32 = (10..110).sum();
    assert!((total(&metrics, "process.resident.bytes", "(others)") - f64::from(sum) * page).abs() < 1.0);
    assert!((total(&metrics, "process.resident.bytes", "609:500") - 609.0 * page).abs() < 1.0);
    assert!(metrics.stats("process.resident.bytes", "109:500").is_err());
    assert!((total(&metrics, "process.threads.count", "(others)") - 100.0).abs() < 1e-9, "equal ones are no exception");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

    /// A byte of a file is replaced, the file is cut, or a number in it becomes huge: no collector of processes panics,
    /// and neither does what follows from its record.
    #[test]
    fn no_content_of_any_file_disturbs_more_than_its_own_reading(
        file in 0_usize..9,
        at in 0_usize..160,
        damage in 0_u8..4,
        byte in proptest::prelude::any::<u8>(),
    ) {
        let line = |id: u32, ticks: u64| format!("{id} (a b) R 1 1 1 0 -1 0 7 0 3 0 {ticks} 2 0 0 20 0 2 0 50 9 5 1\n");
        let files = [
            ("proc/10/stat", line(10, 900)),
            ("proc/10/schedstat", "500 600 7\n".to_owned()),
            ("proc/10/status", "Uid:\t7\t7\nVmSwap:\t 5 kB\nvoluntary_ctxt_switches:\t3\n".to_owned()),
            ("proc/10/io", "read_bytes: 5\nwrite_bytes: 6\n".to_owned()),
            ("proc/10/limits", "Max processes 500 500 p\nMax open files  64  64  files\n".to_owned()),
            ("proc/10/cgroup", "0::/a\n".to_owned()),
            ("proc/10/task/10/stat", line(10, 900)),
            ("proc/10/task/11/schedstat", "1 2 3\n".to_owned()),
            ("proc/loadavg", "0 0 0 1/100 9\n".to_owned()),
        ];
        let mut story = Story::of_seconds(3);
        for instant in 0..3 {
            story = story.file(instant, "proc/10/task/11/stat", line(11, 1)).file(instant, "proc/10/stat", line(10, 1));
            for (index, (path, text)) in files.iter().enumerate() {
                let mut bytes = text.clone().into_bytes();
                if index == file && instant > 0 {
                    let place = at % bytes.len();
                    match damage {
                        0 => bytes[place] = byte,
                        1 => bytes.truncate(place),
                        2 => bytes.splice(place..place, *b" 18446744073709551615 ").for_each(drop),
                        _ => bytes.splice(place..place, [b'9'; 40]).for_each(drop),
                    }
                }
                story = story.file(instant, path, bytes);
            }
        }
        for id in ["processes", "threads", "file_handles", "task_limits"] {
            let _ = story.metrics(super::super::find(id).unwrap());
        }
    }
}
