use super::*;
use crate::testing::{Story, gap, instances, stats};

const TREE: &str = "sys/fs/cgroup";

fn v2_stat(used: u64, periods: u64, stopped: u64, time: u64) -> String {
    format!(
        "usage_usec {used}\nuser_usec 0\nsystem_usec 0\nnr_periods {periods}\nnr_throttled {stopped}\n\
         throttled_usec {time}\nnr_bursts 0\nburst_usec 0\n"
    )
}

/// A pure v2 host whose group /a may use half a CPU, over ten seconds.
fn v2() -> Story {
    let mut story = Story::of_seconds(11)
        .file(0, "proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
        .file(0, "proc/self/cgroup", "0::/a/b\n")
        .file(0, &format!("{TREE}/cgroup.controllers"), "cpu memory pids\n")
        .file(0, &format!("{TREE}/a/cpu.max"), "50000 100000\n")
        .file(0, &format!("{TREE}/a/b/cpu.max"), "max 100000\n")
        .file(0, &format!("{TREE}/a/b/cpu.stat"), v2_stat(7, 0, 0, 0))
        .file(0, &format!("{TREE}/free/cpu.max"), "max 100000\n");
    for second in 0..11 {
        let s = second as u64;
        let pressure =
            format!("some avg10=0 avg60=0 avg300=0 total=0\nfull avg10=0 avg60=0 avg300=0 total={}\n", s * 300_000);
        story = story
            .file(second, &format!("{TREE}/a/cpu.stat"), v2_stat(s * 450_000, s * 10, s * 9, s * 800_000))
            .file(second, &format!("{TREE}/a/cpu.pressure"), pressure);
    }
    story
}

#[test]
fn only_the_group_with_a_quota_is_recorded_and_its_figures_are_those_of_the_files() {
    let metrics = v2().metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "cgroup.cpu.quota.count"), ["/a"]);
    let mean = |id: &str| stats(&metrics, id, "/a").mean;
    assert!((mean("cgroup.cpu.used_of_quota.ratio") - 0.9).abs() < 1e-9);
    assert!((mean("cgroup.cpu.throttled_periods.ratio") - 0.9).abs() < 1e-9);
    assert!((mean("cgroup.cpu.throttled_time.ratio") - 0.8).abs() < 1e-9);
    assert!((mean("cgroup.cpu.pressure.full.ratio") - 0.3).abs() < 1e-9);
    assert_eq!(metrics.labels["cgroup"]["/a"]["own"], "yes");
    let above = gap(&metrics, "cgroup.cpu.held_from_above.ratio", "");
    assert_eq!(above.reason, Reason::NotApplicable);
}

#[test]
fn a_group_that_vanishes_ends_its_series_and_one_that_comes_is_found() {
    let mut story = v2().file(6, &format!("{TREE}/late/cpu.max"), "100000 100000\n").file(
        6,
        &format!("{TREE}/late/cpu.stat"),
        v2_stat(0, 0, 0, 0),
    );
    let gone = rdiag_kernel::host::Fault { path: format!("{TREE}/a"), fails: Reason::Absent, from: 4 };
    story.spec.faults.push(gone);
    let record = story.record(&COLLECTOR);
    let values = |instance: &str| {
        let of = |s: &&rdiag_model::Series| s.name == "cgroup_cpu.periods" && s.instance.as_deref() == Some(instance);
        record.series.iter().find(of).unwrap().values.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(values("/a").iter().filter(|seen| **seen).count(), 4);
    assert_eq!(values("/late"), [vec![false; 10], vec![true]].concat(), "it is found by the walk at the tenth second");
}

#[test]
fn a_new_group_of_the_same_name_is_a_reset_and_no_negative_rate() {
    let story = v2().file(5, &format!("{TREE}/a/cpu.stat"), v2_stat(10, 1, 1, 10));
    let stats = stats(&story.metrics(&COLLECTOR), "cgroup.cpu.throttled_time.ratio", "/a");
    assert!(stats.min >= 0.0);
    assert_eq!(stats.discarded, 1);
}

/// A v1 host with cpu and cpuacct at these mount points.
fn v1(mounts: &[(&str, &str)]) -> Story {
    let lines: String = mounts
        .iter()
        .map(|(name, options)| format!("1 2 0:3 / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{options}\n"))
        .collect();
    let mut story = Story::of_seconds(3).file(0, "proc/self/mountinfo", lines);
    for (name, _) in mounts {
        story = story.file(0, &format!("{TREE}/{name}/release_agent"), "");
    }
    story
}

fn v1_quota(mut story: Story, cpu: &str) -> Story {
    story = story
        .file(0, &format!("{TREE}/{cpu}/cpu.cfs_quota_us"), "-1\n")
        .file(0, &format!("{TREE}/{cpu}/g/cpu.cfs_quota_us"), "200000\n")
        .file(0, &format!("{TREE}/{cpu}/g/cpu.cfs_period_us"), "100000\n");
    for second in 0..3 {
        let s = second as u64;
        let stat = format!("nr_periods {}\nnr_throttled {}\nthrottled_time {}\n", s * 10, s, s * 50_000_000);
        story = story.file(second, &format!("{TREE}/{cpu}/g/cpu.stat"), stat);
    }
    story
}

#[test]
fn v1_with_cpu_and_cpuacct_together_gives_the_same_figures() {
    let mut story = v1_quota(v1(&[("cpu,cpuacct", "cpu,cpuacct")]), "cpu,cpuacct");
    for second in 0..3 {
        let used = format!("{}\n", second * 1_000_000_000_u64);
        story = story.file(second as usize, &format!("{TREE}/cpu,cpuacct/g/cpuacct.usage"), used);
    }
    let metrics = story.metrics(&COLLECTOR);
    assert!((stats(&metrics, "cgroup.cpu.used_of_quota.ratio", "/g").mean - 0.5).abs() < 1e-9);
    assert!((stats(&metrics, "cgroup.cpu.throttled_time.ratio", "/g").mean - 0.05).abs() < 1e-9);
    assert_eq!(gap(&metrics, "cgroup.cpu.pressure.full.ratio", "").reason, Reason::Absent);
}

#[test]
fn where_cpuacct_has_no_such_group_only_the_use_is_missing() {
    let story = v1_quota(v1(&[("cpu", "cpu"), ("cpuacct", "cpuacct")]), "cpu");
    let metrics = story.metrics(&COLLECTOR);
    assert!(gap(&metrics, "cgroup.cpu.used_of_quota.ratio", "/g").why.contains("mounted apart"));
    assert!((stats(&metrics, "cgroup.cpu.throttled_periods.ratio", "/g").mean - 0.1).abs() < 1e-9);
}

#[test]
fn a_host_without_quotas_and_one_without_groups_have_nothing_to_measure() {
    let story = v1(&[("cpu", "cpu")]).file(0, &format!("{TREE}/cpu/a/cpu.cfs_quota_us"), "-1\n");
    let none = gap(&story.metrics(&COLLECTOR), "cgroup.cpu.quota.count", "");
    assert_eq!((none.reason, none.why.contains("(2)")), (Reason::NotApplicable, true));
    let bare = gap(&Story::of_seconds(2).metrics(&COLLECTOR), "cgroup.cpu.quota.count", "");
    assert_eq!(bare.reason, Reason::NotApplicable);
}

#[test]
fn in_a_container_the_groups_above_are_a_gap_and_what_they_do_is_measured() {
    let mut story =
        v2().file(0, &format!("{TREE}/cgroup.type"), "domain\n").file(0, &format!("{TREE}/cpu.max"), "max 100000\n");
    for second in 0..11 {
        let held = format!("throttled_usec {}\n", second * 200_000);
        story = story.file(second, &format!("{TREE}/cpu.stat.local"), held);
    }
    let metrics = story.metrics(&COLLECTOR);
    let above = gap(&metrics, "cgroup.cpu.used_of_quota.ratio", "(groups above)");
    assert_eq!(above.reason, Reason::NotVisible);
    assert!((stats(&metrics, "cgroup.cpu.held_from_above.ratio", "/").mean - 0.2).abs() < 1e-9);
}

#[test]
fn broken_files_leave_the_group_out_and_nothing_panics() {
    for text in ["", "max", "1 0", "x y", "-1 100000", "18446744073709551616 1"] {
        let story = Story::of_seconds(2)
            .file(0, &format!("{TREE}/cgroup.controllers"), "cpu\n")
            .file(0, &format!("{TREE}/a/cpu.max"), text)
            .file(0, &format!("{TREE}/a/cpu.stat"), v2_stat(1, 1, 1, 1));
        assert_eq!(instances(&story.metrics(&COLLECTOR), "cgroup.cpu.quota.count"), [""; 0], "{text:?}");
    }
}
