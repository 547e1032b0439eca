//! Blocks in which something changed, and what is said of it.

use std::collections::BTreeMap;

use super::super::{HistoryFile, around};
use super::*;
use crate::testing::{WALL, header};
use crate::watch::TAIL;
use rdiag_history::{Header, write_block};
use rdiag_model::recording::{CollectorRecord, LogLine, Number, Process, ProcessPoint, Series};
use rdiag_model::{Facts, RawUnit, SeriesKind};

/// How long the host was up when the first block began.
const UP: f64 = 1_000_000.0;

/// A block of ten minutes, a sample every 5 s, that begins so many seconds after the first.
fn block(at: f64, change: impl FnOnce(&mut Block)) -> Block {
    let header = Header {
        host: Facts { kernel: "6.1.0".into(), memory_bytes: 4096 * 100_000, ..Facts::default() },
        wall_micros: WALL + (at * 1e6) as i64,
        monotonic: UP + at,
        boottime: UP + at,
        seconds: 595.0,
        ..header()
    };
    let times = (0..120).map(|at| f64::from(at) * 5.0).collect();
    let record = CollectorRecord { times, ..CollectorRecord::default() };
    let mut block = Block { header, collectors: BTreeMap::from([(Block::PROCESSES.into(), record)]), idle: Vec::new() };
    change(&mut block);
    block
}

fn files(blocks: &[Block]) -> Vec<HistoryFile> {
    let name = |at: usize| format!("{at:010}-{}.rdh", WALL / 1_000_000);
    blocks.iter().enumerate().map(|(at, block)| HistoryFile { name: name(at), bytes: write_block(block) }).collect()
}

/// What changed around the ten minutes from 09:03:20 to 09:13:20.
fn changes_of(files: &[HistoryFile]) -> Option<Changes> {
    let at = |seconds: i64| WALL + seconds * 1_000_000;
    let (span, window) = (Span { from: at(-1200), to: at(3000) }, Span { from: at(600), to: at(1200) });
    around(files.iter(), (span, window), &Zone::utc()).0
}

/// Each change as one line.
fn lines(blocks: &[Block]) -> Vec<String> {
    let mut changes = changes_of(&files(blocks)).expect("something was recorded");
    changes.changes.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    changes.changes.iter().map(|change| format!("{} {}", change.shown, change.text)).collect()
}

/// A process: its start in seconds since the first block began, the samples that saw it, and ticks and pages at some of them.
fn process(pid: u32, comm: &str, start: f64, (first, last): (u16, u16), points: &[(u16, u64, u64)]) -> Process {
    let point = |(at, utime, resident_pages): &(u16, u64, u64)| ProcessPoint {
        at: *at,
        state: 'S',
        utime: *utime,
        resident_pages: *resident_pages,
        ..ProcessPoint::default()
    };
    Process {
        pid,
        start_ticks: ((UP + start) * 100.0) as u64,
        comm: comm.into(),
        first,
        last,
        points: points.iter().map(point).collect(),
        ..Process::default()
    }
}

fn with(processes: Vec<Process>) -> impl FnOnce(&mut Block) {
    move |block| block.collectors.get_mut(Block::PROCESSES).unwrap().processes = processes
}

#[test]
fn a_reboot_and_a_new_kernel_are_told_once_with_when_the_host_was_seen_last() {
    let rebooted = block(700.0, |block| {
        (block.header.boot, block.header.boottime, block.header.monotonic) = ("b".into(), 40.0, 40.0);
        block.header.host.kernel = "6.1.9".into();
    });
    let later = block(1300.0, |block| {
        (block.header.boot, block.header.boottime, block.header.monotonic) = ("b".into(), 640.0, 640.0);
        block.header.host.kernel = "6.1.9".into();
    });
    let wanted = ["09:04:20 Reboot; the last sample before it is of 09:03:15", "09:05:00 Kernel 6.1.0 → 6.1.9"];
    assert_eq!(lines(&[block(0.0, |_| {}), rebooted.clone(), later.clone()]), wanted);
    // Nothing was recorded before it.
    assert_eq!(lines(&[rebooted, later]), ["09:04:20 Reboot"]);
}

#[test]
fn a_clock_that_was_set_and_a_suspended_host_are_told_apart_and_slewing_is_neither() {
    let next = |change: fn(&mut Header)| lines(&[block(0.0, |_| {}), block(600.0, |block| change(&mut block.header))]);
    assert_eq!(next(|header| header.wall_micros += 500_000), [""; 0]);
    assert_eq!(next(|header| header.wall_micros -= 300_000_000), ["08:58:20 Clock set back by 5.0 min"]);
    let slept = |header: &mut Header| {
        header.boottime += 900.0;
        header.wall_micros += 900_000_000;
    };
    assert_eq!(next(slept), ["09:18:20 Suspended for 15.0 min"]);
}

#[test]
fn what_began_and_ended_is_told_by_name_if_it_uses_much_and_lasts() {
    let first = with(vec![
        process(10, "api", -90_000.0, (0, 119), &[(0, 100, 5000), (119, 3100, 5000)]),
        process(30, "old", -90_000.0, (0, 59), &[(0, 100, 9000)]),
        process(40, "small", -90_000.0, (0, 59), &[(0, 100, 10), (59, 110, 10)]),
        process(50, "passing", 100.0, (21, 23), &[(21, 1, 9000), (23, 900, 9000)]),
    ]);
    let second = with(vec![
        process(10, "api", -90_000.0, (0, 39), &[(0, 3100, 5000), (39, 4100, 5000)]),
        process(11, "api", 802.0, (41, 119), &[(41, 100, 6000), (119, 4100, 6000)]),
        process(60, "backup", 630.0, (7, 47), &[(7, 50, 100), (47, 10_000, 100)]),
        process(70, "loader", 900.0, (61, 119), &[(61, 1, 2000), (119, 2, 50_000)]),
    ]);
    let third = with(vec![
        process(11, "api", 802.0, (0, 119), &[(0, 4100, 6000), (119, 8000, 6000)]),
        process(70, "loader", 900.0, (0, 119), &[(0, 2, 50_000)]),
    ]);
    let blocks = [block(0.0, first), block(600.0, second), block(1200.0, third)];
    let wanted = [
        "08:58:20 old ended after 25.1 h (pid 30: 35.2 MiB)",
        "09:03:50 backup ran until 09:07:20 (pid 60: 48.8% of a CPU)",
        "09:06:42 api restarted (2 processes: 6.7% of a CPU, 23.4 MiB)",
        "09:08:20 loader started (pid 70: 195.3 MiB)",
    ];
    assert_eq!(lines(&blocks), wanted);
    let changes = changes_of(&files(&blocks)).unwrap();
    assert_eq!(changes.span, "2025-10-09 08:53:20 UTC to 09:23:15");
    let seconds: Vec<f64> = changes.changes.iter().map(|change| change.seconds).collect();
    assert_eq!(seconds, [300.0, 202.0, -300.0, 30.0], "what came to stay before what only ran");
}

#[test]
fn what_was_deployed_and_restarted_soon_after_is_one_change() {
    let first = with(vec![process(20, "api", 0.0, (1, 119), &[(1, 1, 9000)])]);
    let second = with(vec![
        process(20, "api", 0.0, (0, 19), &[(0, 1, 9000)]),
        process(21, "api", 703.0, (21, 119), &[(21, 1, 9000)]),
    ]);
    let wanted = ["08:53:20 api started, restarted at 09:05:03 (2 processes: 35.2 MiB)"];
    assert_eq!(lines(&[block(0.0, first), block(600.0, second)]), wanted);
}

#[test]
fn who_is_in_no_later_block_has_ended_unless_that_one_is_damaged() {
    let first = block(0.0, with(vec![process(10, "api", -90_000.0, (0, 119), &[(0, 100, 5000)])]));
    let other = with(vec![process(20, "other", -90_000.0, (0, 119), &[(0, 100, 10)])]);
    let next = block(600.0, other);
    assert_eq!(lines(&[first.clone(), next.clone()]), ["09:03:20 api ended after 25.2 h (pid 10: 19.5 MiB)"]);
    // Nothing was recorded for ten minutes.
    let late = block(1200.0, |block| block.collectors.clone_from(&next.collectors));
    let wanted = ["09:13:20 api ended between 09:03:15 and 09:13:20, after 25.2 h (pid 10: 19.5 MiB)"];
    assert_eq!(lines(&[first.clone(), late]), wanted);
    // It lives, and does nothing.
    let idle = Block { idle: vec![(10, ((UP - 90_000.0) * 100.0) as u64)], ..next.clone() };
    assert_eq!(lines(&[first.clone(), idle]), [""; 0]);
    let mut damaged = files(&[first, next]);
    let middle = damaged[1].bytes.len() * 2 / 3;
    damaged[1].bytes[middle] ^= 0x10;
    assert_eq!(changes_of(&damaged).unwrap().changes, []);
}

#[test]
fn a_service_that_keeps_dying_is_one_change_and_jobs_that_come_and_go_are_none() {
    let short = |pid: u32, comm: &str, at: u16| {
        let start = f64::from(at) * 5.0;
        process(pid, comm, start, (at, at + 7), &[(at, 10, 9000), (at + 7, 400, 9000)])
    };
    let mut processes = vec![process(1, "crasher", -90_000.0, (0, 19), &[(0, 100, 9000)])];
    processes.extend((0..10).map(|at| short(100 + u32::from(at), "crasher", 20 + at * 8)));
    processes.push(process(300, "crasher", 500.0, (100, 119), &[(100, 10, 9000), (119, 400, 9000)]));
    // Two at a time, as `make -j2` has it, before and after.
    processes.push(process(2, "rustc", -30.0, (0, 9), &[(0, 100, 9000), (9, 5000, 9000)]));
    processes.extend((0..14).map(|at| short(200 + u32::from(at), "rustc", at * 8)));
    processes.push(process(400, "rustc", 560.0, (112, 119), &[(112, 10, 9000), (119, 400, 9000)]));
    let blocks = [block(0.0, with(processes))];
    assert_eq!(
        lines(&blocks),
        ["08:55:00 crasher restarted 11 times until 09:01:40 (12 processes: 7.4% of a CPU, 35.2 MiB)"]
    );
}

#[test]
fn the_share_of_a_cpu_is_that_of_the_time_in_which_it_was_counted() {
    // The first block begins ten minutes before the time that is looked at, and the job ends just within it.
    let busy = with(vec![process(80, "batch", -90_000.0, (0, 119), &[(0, 100, 100), (119, 59_600, 100)])]);
    let wanted = ["08:33:30 batch ended after 24.7 h (pid 80: 100% of a CPU)"];
    assert_eq!(lines(&[block(-1790.0, busy), block(-1190.0, |_| {})]), wanted);
}

#[test]
fn a_program_of_another_unit_is_no_restart() {
    let java = |pid, start, seen, unit: &str| Process {
        cgroup: Some(format!("/system.slice/{unit}")),
        ..process(pid, "java", start, seen, &[(seen.0, 100, 9000), (seen.1, 4000, 9000)])
    };
    let first = |unit: &str| with(vec![java(90, -90_000.0, (0, 99), unit)]);
    let second = || with(vec![java(91, 505.0, (0, 119), "b.service")]);
    let other = lines(&[block(0.0, first("a.service")), block(600.0, second())]);
    assert_eq!(other.len(), 2, "one ended, one began: {other:?}");
    assert!(other.iter().all(|line| !line.contains("restarted")), "{other:?}");
    let same = lines(&[block(0.0, first("b.service")), block(600.0, second())]);
    assert!(same.len() == 1 && same[0].contains("java restarted"), "{same:?}");
}

#[test]
fn a_container_is_named_by_its_short_id_whichever_way_its_group_is_named() {
    let id = "0123456789abcdef".repeat(4);
    for group in
        ["/docker/ID", "/system.slice/docker-ID.scope", "/kubepods.slice/kubepods-pod1.slice/cri-containerd-ID.scope"]
    {
        let cgroup = Some(group.replace("ID", &id));
        let first = with(vec![Process {
            cgroup,
            ..process(90, "java", 100.0, (20, 119), &[(20, 1, 9000), (119, 4000, 9000)])
        }]);
        let wanted = ["08:55:00 java started (pid 90 of container 0123456789ab: 8.1% of a CPU, 35.2 MiB)"];
        assert_eq!(lines(&[block(0.0, first)]), wanted, "{group}");
    }
}

#[test]
fn an_oom_kill_is_told_once_by_the_log_and_without_a_log_by_the_counter() {
    let line = |seconds: f64, subject: &str, text: &str| LogLine {
        gone: false,
        class: "oom".into(),
        seconds_since_boot: UP + seconds,
        in_window: true,
        subject: Some(subject.into()),
        text: text.into(),
    };
    let log = vec![
        line(30.0, "java", "Out of memory: Killed process 812 (java) total-vm:1kB [the whole host was out of memory]"),
        line(-4000.0, "early", "Out of memory: Killed process 1 (early) total-vm:1kB"),
        line(90.0, "worker", "Memory cgroup out of memory: Killed process 9 (worker) total-vm:1kB"),
    ];
    let values = |kills: &[(usize, u64)]| {
        let of = |at: usize| kills.iter().filter(|(since, _)| *since <= at).map(|(_, count)| count).sum::<u64>();
        (0..120).map(|at| Some(Number::Whole(7 + of(at)))).collect()
    };
    let with = |log: Vec<LogLine>, kills: &[(usize, u64)]| {
        let (name, values) = ("vmstat.oom_kill".to_owned(), values(kills));
        move |block: &mut Block| {
            let times = block.collectors[Block::PROCESSES].times.clone();
            let (kind, unit) = (SeriesKind::Counter, RawUnit::Count);
            let series = vec![Series { name, instance: None, kind, unit, values }];
            let counters = CollectorRecord { times: times.clone(), series, ..CollectorRecord::default() };
            let log = CollectorRecord { times, log, ..CollectorRecord::default() };
            block.collectors.extend([("vmstat".to_owned(), counters), ("kernel_log".to_owned(), log)]);
        }
    };
    let blocks = [block(0.0, with(log.clone(), &[(7, 1), (19, 1)])), block(600.0, with(log, &[(100, 3)]))];
    let wanted = [
        "08:53:50 OOM kill of java: the host ran out of memory",
        "08:54:50 OOM kill of worker: a cgroup reached its memory limit",
        "09:11:40 3 OOM kills",
    ];
    assert_eq!(lines(&blocks), wanted);
}

#[test]
fn mounts_swap_and_settings_are_compared_block_by_block() {
    let host = |mounts: &[(&str, &str, &str)], swap: &[&str], swappiness: &str, pid_max: f64| {
        let label = |(point, kind, read_only): &(&str, &str, &str)| {
            let labels = [("type", *kind), ("device", "/dev/vdb1"), ("read_only", *read_only)];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            ((*point).to_owned(), BTreeMap::from(labels))
        };
        let labels: BTreeMap<_, _> = mounts.iter().map(label).collect();
        let series = |name: &str, instance: Option<&str>, value: f64| Series {
            name: name.into(),
            instance: instance.map(str::to_owned),
            kind: SeriesKind::Gauge,
            unit: RawUnit::Count,
            values: vec![Some(Number::Real(value))],
        };
        let swaps: Vec<Series> = swap.iter().map(|name| series("swaps.size", Some(name), 1.0)).collect();
        let pids = vec![series("task_limits.pid_max", None, pid_max)];
        let settings = BTreeMap::from([("sysctl vm.swappiness".to_owned(), swappiness.to_owned())]);
        move |block: &mut Block| {
            let record = |series| CollectorRecord { times: vec![0.0], series, ..CollectorRecord::default() };
            let filesystems = CollectorRecord { labels, ..record(Vec::new()) };
            let all = [("filesystems", filesystems), ("swaps", record(swaps)), ("task_limits", record(pids))];
            block.collectors.extend(all.map(|(id, record)| (id.to_owned(), record)));
            block.header.settings = settings;
        }
    };
    let before = host(&[("/", "ext4", "no"), ("/old", "xfs", "no")], &["/dev/vdc"], "60", 4_194_304.0);
    let after = host(&[("/", "ext4", "yes"), ("/data", "ext4", "no")], &[], "10", 32_768.0);
    let since = "between 08:53:20 and 09:03:20";
    let wanted: Vec<String> = [
        "/data mounted (ext4 on /dev/vdb1)",
        "/old unmounted (xfs on /dev/vdb1)",
        "/ became read-only",
        "swap on /dev/vdc disabled",
        "vm.swappiness 60 → 10",
        "kernel.pid_max 4194304 → 32768",
    ]
    .map(|text| format!("09:03:20 {text}, {since}"))
    .to_vec();
    assert_eq!(lines(&[block(0.0, before), block(600.0, after)]), wanted);
    // A block that has no list of mounts says nothing about them.
    let silent = host(&[("/", "ext4", "no")], &["/dev/vdc"], "60", 4_194_304.0);
    assert_eq!(lines(&[block(0.0, silent), block(600.0, |_| {})]), [""; 0]);
}

#[test]
fn nothing_recorded_is_none_and_nothing_changed_is_an_empty_list() {
    assert_eq!(changes_of(&[]), None);
    assert_eq!(changes_of(&files(&[block(90_000.0, |_| {})])), None, "a day later");
    let changes = changes_of(&files(&[block(0.0, |_| {}), block(600.0, |_| {})])).unwrap();
    assert_eq!((changes.changes, changes.left_out), (Vec::new(), 0));
}

#[test]
fn files_of_strangers_are_bounded_in_number_and_length() {
    let name = |pid: u32| format!("{pid}{}", "x".repeat(500));
    let processes = (3..3000).map(|pid| process(pid, &name(pid), 10.0, (2, 60), &[(2, 1, 9000), (60, 900, 9000)]));
    let mut files = files(&[block(0.0, with(processes.collect())), block(600.0, |_| {})]);
    files.push(HistoryFile { name: "0000000009-1.rdh".into(), bytes: b"no block".to_vec() });
    let cut = files[0].bytes.len() / 2;
    files.push(HistoryFile { name: TAIL.into(), bytes: files[0].bytes[..cut].to_vec() });
    let changes = changes_of(&files).unwrap();
    assert_eq!((changes.changes.len(), changes.left_out), (MOST, 2997 - MOST));
    assert!(changes.changes.iter().all(|change| change.text.chars().count() < 200 && change.subject.len() < 100));
}
