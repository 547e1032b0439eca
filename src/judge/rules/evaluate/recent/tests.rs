use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rules::{Judge, Rule, Scope};
use rdiag_model::{Confidence, Facts, Finding, LogLine, Metrics, Reading, Stats, Status, Unit};

const DISK: &str = "
id: disk.errors
title: Disk errors
value: kernel.log.disk.count.total
unit: count
info: kernel.log.disk.since_boot.count.last > 0
critical: value >= 2
says: '{{ value|number }} within the window.'
quiet: none
why: it must
culprit: log('disk')
log: disk
verify: look
next: []
tests: []
";

const OOM: &str = "
id: memory.errors.oom
title: OOM kills
value: memory.oom_kills.count.total
unit: count
info: memory.oom_kills_since_boot.count.last > 0
critical: value >= 1
unless:
  when: value >= 1 and kernel.log.oom.count.total <= kernel.log.cgroup_oom.count.total
  because: each was killed at the limit of a control group
says: '{{ value|number }} within the window.'
quiet: none
why: it must
log: oom
verify: look
next: []
tests: []
";

const IN_CGROUP: &str = "
id: cgroup.errors.oom
title: OOM kills in a cgroup
value: cgroup.memory.oom_kill.count.total
unit: count
info: cgroup.memory.oom_kill_so_far.count.last > 0
critical: value > 0 and cgroup.memory.limit_failures.count.total > 0
says: fired
quiet: none
why: it must
culprit: instance
log: oom
verify: look
next: []
tests: []
";

const UPTIME: f64 = 10_000.0;

fn line(class: &str, age: f64, text: &str) -> LogLine {
    LogLine {
        gone: false,
        class: class.to_owned(),
        seconds_since_boot: UPTIME - age,
        in_window: false,
        subject: Some("sda".to_owned()),
        text: text.to_owned(),
    }
}

fn judge(rule: &str, counts: &[(&str, &str, f64)], window: usize, log: &[LogLine]) -> Vec<Finding> {
    judge_at(UPTIME, rule, counts, window, log)
}

fn judge_at(
    uptime_seconds: f64,
    rule: &str,
    counts: &[(&str, &str, f64)],
    window: usize,
    log: &[LogLine],
) -> Vec<Finding> {
    judge_metrics(uptime_seconds, rule, metrics_of(counts, 0), window, log)
}

/// Readings of a window; that of limit failures is from its source of this rank.
fn metrics_of(counts: &[(&str, &str, f64)], rank: usize) -> Metrics {
    let mut readings: BTreeMap<String, Reading> = BTreeMap::new();
    for (id, instance, count) in counts {
        let reading = readings.entry((*id).to_owned()).or_insert_with(|| Reading::Measured {
            unit: Unit::Count,
            dimension: (!instance.is_empty()).then(|| "cgroup".to_owned()),
            source: "a test".into(),
            rank: if id.ends_with("limit_failures.count") { rank } else { 0 },
            instances: BTreeMap::new(),
        });
        if let Reading::Measured { instances, .. } = reading {
            instances.insert((*instance).to_owned(), Ok(Stats::constant(*count)));
        }
    }
    Metrics { readings, intervals: 5, seconds: 5.0, ..Metrics::default() }
}

fn judge_metrics(uptime_seconds: f64, rule: &str, metrics: Metrics, window: usize, log: &[LogLine]) -> Vec<Finding> {
    let facts = Facts { uptime_seconds, ..Facts::default() };
    let rule: Rule = serde_yaml::from_str(rule).unwrap();
    Judge::new(Scope { facts: &facts, metrics: Arc::new(metrics), window, log, recent: 600.0 }).judge(&rule, "test")
}

const OF_DISK: [(&str, &str, f64); 2] =
    [("kernel.log.disk.count", "", 0.0), ("kernel.log.disk.since_boot.count", "", 3.0)];

fn disk(ages: &[f64]) -> Finding {
    let log: Vec<LogLine> = ages.iter().map(|age| line("disk", *age, "I/O error")).collect();
    judge(DISK, &OF_DISK, 0, &log).remove(0)
}

#[test]
fn errors_of_a_device_that_is_gone_do_not_count_as_current_and_the_sentence_says_so() {
    let counts = [("kernel.log.disk.count", "", 0.0), ("kernel.log.disk.since_boot.count", "", 2.0)];
    let line = |gone| LogLine { gone, ..line("disk", 100.0, "I/O error, dev sda") };
    let finding = |first, second| judge(DISK, &counts, 0, &[line(first), line(second)]).remove(0);
    assert_eq!(finding(false, false).status, Status::Critical);
    let gone = finding(true, true);
    assert_eq!((gone.status, gone.seconds_before), (Status::Info, None));
    assert_eq!(gone.summary, "0 within the window. sda was removed or set up anew since.");
}

#[test]
fn a_rule_of_several_classes_counts_the_recent_lines_of_each_and_shows_them() {
    let rule = DISK
        .replace(
            "value: kernel.log.disk.count.total",
            "value: kernel.log.disk.count.total + kernel.log.bug.count.total",
        )
        .replace("log: disk", "log: [bug, disk]");
    let counts = [&OF_DISK[..], &[("kernel.log.bug.count", "", 0.0)]].concat();
    let log = ["disk", "bug"].map(|class| line(class, 100.0, class));
    let both = judge(&rule, &counts, 0, &log).remove(0);
    assert_eq!(both.status, Status::Critical);
    assert_eq!(both.log, ["[9900.000] disk", "[9900.000] bug"]);
    let one = judge(DISK, &counts, 0, &log).remove(0);
    assert_eq!((one.status, one.log.len()), (Status::Info, 1));
}

#[test]
fn errors_of_the_last_minutes_are_judged_like_those_of_the_window_and_say_how_old_they_are() {
    let finding = disk(&[500.0, 240.0]);
    assert_eq!((finding.status, finding.seconds_before), (Status::Critical, Some(240.0)));
    let when = "0 within the window. The newest is from 4.0 min before the window; up to 10.0 min counts as current.";
    assert_eq!(finding.summary, when);
    assert_eq!(finding.culprit.as_ref().unwrap().name, "sda");
    assert!(finding.is_over() && !finding.is_past());
}

#[test]
fn older_ones_and_too_few_for_the_rule_stay_history() {
    // On both sides of the ten minutes, and of the two lines that the rule asks for.
    for (ages, recent) in [(&[600.0, 599.0][..], true), (&[601.0, 599.0], false), (&[601.0, 700.0], false)] {
        let finding = disk(ages);
        assert_eq!(finding.seconds_before.is_some(), recent, "{ages:?}");
        assert_eq!((finding.status == Status::Info, finding.is_past()), (!recent, !recent), "{ages:?}");
    }
    // Boot finds drives without a disk.
    let at_boot = |seconds: f64| {
        let mut log = [line("disk", 1.0, "I/O error"), line("disk", 1.0, "I/O error")];
        log.iter_mut().for_each(|line| line.seconds_since_boot = seconds);
        judge_at(seconds + 100.0, DISK, &OF_DISK, 0, &log)[0].seconds_before
    };
    assert_eq!((at_boot(59.0), at_boot(61.0)), (None, Some(100.0)));
    // The log's clock may be ahead, but not by hours.
    assert_eq!(disk(&[-2.0, 1.0]).seconds_before, Some(0.0));
    assert_eq!(disk(&[-4000.0, -4000.0]).seconds_before, None);
}

#[test]
fn lines_that_report_a_state_stay_history() {
    let rule = DISK.replace("kernel.log.disk", "kernel.log.clocksource").replace("log: disk", "log: clocksource");
    let log = [line("clocksource", 30.0, "unstable"), line("clocksource", 30.0, "unstable")];
    let counts = [("kernel.log.clocksource.count", "", 0.0), ("kernel.log.clocksource.since_boot.count", "", 2.0)];
    assert!(judge(&rule, &counts, 0, &log)[0].is_past());
}

#[test]
fn what_an_earlier_window_of_the_run_saw_is_no_news_for_a_later_one() {
    let log = [line("disk", 10.0, "I/O error"), line("disk", 10.0, "I/O error")];
    assert!(judge(DISK, &OF_DISK, 0, &log)[0].seconds_before.is_some());
    assert!(judge(DISK, &OF_DISK, 1, &log)[0].seconds_before.is_none());
}

#[test]
fn errors_of_the_window_are_those_of_the_window() {
    let mut log = [line("disk", 10.0, "I/O error"), line("disk", -1.0, "I/O error")];
    log[1].in_window = true;
    let counts = [("kernel.log.disk.count", "", 2.0), ("kernel.log.disk.since_boot.count", "", 3.0)];
    let finding = judge(DISK, &counts, 0, &log).remove(0);
    assert_eq!((finding.status, finding.seconds_before), (Status::Critical, None));
    assert_eq!(finding.summary, "2 within the window.");
}

#[test]
fn a_kill_at_the_limit_of_a_group_shortly_before_is_no_shortage_of_the_host_and_is_its_groups() {
    let host = [
        ("memory.oom_kills.count", "", 0.0),
        ("memory.oom_kills_since_boot.count", "", 1.0),
        ("kernel.log.oom.count", "", 0.0),
        ("kernel.log.cgroup_oom.count", "", 0.0),
    ];
    let of_host = [line("oom", 60.0, "Out of memory: Killed process 7 (x) [the whole host was out of memory]")];
    assert_eq!(judge(OOM, &host, 0, &of_host)[0].status, Status::Critical);
    let at_limit = "Memory cgroup out of memory: Killed process 7 (x) [limit of the memory cgroup /box; the victim was in /box/in]";
    let of_group = [line("oom", 60.0, at_limit)];
    assert_eq!(judge(OOM, &host, 0, &of_group)[0].status, Status::Info);

    let mut counts = Vec::new();
    for group in ["/box", "/box/in", "/other"] {
        counts.push(("cgroup.memory.oom_kill.count", group, 0.0));
        counts.push(("cgroup.memory.oom_kill_so_far.count", group, 1.0));
        counts.push(("cgroup.memory.limit_failures.count", group, 0.0));
    }
    let found = judge(IN_CGROUP, &counts, 0, &of_group);
    let critical = found.iter().filter(|finding| finding.status == Status::Critical);
    let named: Vec<&str> = critical.filter_map(|finding| finding.instance.as_deref()).collect();
    assert_eq!(named, ["/box"]);
}

#[test]
fn a_limit_that_the_log_of_the_window_names_needs_no_better_count_of_failures() {
    let counts = [
        ("cgroup.memory.oom_kill.count", "/box", 1.0),
        ("cgroup.memory.oom_kill_so_far.count", "/box", 1.0),
        ("cgroup.memory.limit_failures.count", "/box", 9.0),
    ];
    // Version 1 counts hits of the limit only: a second-best source.
    let confidence = |group: &str, in_window: bool| {
        let text = format!("Memory cgroup out of memory: Killed process 7 (x) [limit of the memory cgroup {group}]");
        let logged = LogLine { in_window, ..line("oom", -1.0, &text) };
        let metrics = metrics_of(&counts, 1);
        judge_metrics(UPTIME, IN_CGROUP, metrics, 0, &[logged])[0].confidence
    };
    assert_eq!(confidence("/box", true), Confidence::High);
    assert_eq!(confidence("/other", true), Confidence::Medium);
    assert_eq!(confidence("/box", false), Confidence::Medium);
}
