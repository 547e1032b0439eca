use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_judged, assert_nothing_else_fired, finding, has, live_report, skip};

fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// Nothing but time in user mode. The limit on CPU time ends it if the test cannot; `timeout` in its place would be
/// killed with the test and leave its child behind.
const LOOP: &str = "ulimit -t 20; while :; do :; done";

fn spin(count: usize, nice: &str) -> Load {
    Load::start(count, "nice", &["-n", nice, "sh", "-c", LOOP])
}

fn status<'r>(report: &'r Value, id: &str) -> &'r str {
    finding(report, id, None)["status"].as_str().unwrap()
}

/// How long the tasks of each name ran and waited for a CPU until now, in nanoseconds (/proc/PID/task/TID/schedstat, fields 1 and 2).
fn ran_and_waited_by_name() -> BTreeMap<String, [f64; 2]> {
    let entries = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let threads = entries("/proc").flat_map(|process| entries(&process.join("task").to_string_lossy()));
    let mut sums = BTreeMap::<_, [f64; 2]>::new();
    for thread in threads {
        let read = |file: &str| std::fs::read_to_string(thread.join(file));
        let (Ok(name), Ok(text)) = (read("comm"), read("schedstat")) else { continue };
        let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let sum = sums.entry(name.trim_end().to_owned()).or_default();
        *sum = [sum[0] + figures.first().unwrap_or(&0.0), sum[1] + figures.get(1).unwrap_or(&0.0)];
    }
    sums
}

/// The CPU time of niced tasks and of all tasks until now, in ticks (/proc/stat, the line `cpu`: its second field, and all but idle and iowait).
fn niced_and_all_ticks() -> [f64; 2] {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let mut fields = text.split_whitespace().skip(1).map(|word| word.parse::<f64>().unwrap());
    let mut next = || fields.next().unwrap();
    let (user, nice, system, _idle, _iowait) = (next(), next(), next(), next(), next());
    [nice, user + nice + system + next() + next() + next()]
}

fn all(by_name: &BTreeMap<String, [f64; 2]>) -> [f64; 2] {
    by_name.values().fold([0.0; 2], |sums, one| [sums[0] + one[0], sums[1] + one[1]])
}

#[test]
#[ignore = "needs: a quiet machine"]
fn four_loops_for_each_cpu_are_a_critical_saturation_and_the_loops_are_named() {
    let _alone = alone();
    let _load = spin(4 * cpus(), "0");
    let (before, from) = (ran_and_waited_by_name(), niced_and_all_ticks());
    let report = live_report(5);
    let (after, to) = (ran_and_waited_by_name(), niced_and_all_ticks());
    let niced = (to[0] - from[0]) / (to[1] - from[1]);
    let saturation = finding(&report, "cpu.saturation", None);
    // Work of low priority is no demand: where others' has a fifth of the CPUs, what is left is no critical demand.
    let is_either = (0.1..0.3).contains(&niced) && saturation["status"] == "warning";
    let expected = if is_either || niced >= 0.3 { "warning" } else { "critical" };
    assert_eq!(saturation["status"], expected, "niced work had {niced} of all CPU time: {saturation:#}");
    assert_eq!(saturation["culprit"]["name"], "sh");
    let share = saturation["value"].as_f64().unwrap();
    // Alone, four for each CPU wait three quarters of the time. What others start comes after these loops, so that it waits for nearly all
    // of its time, and is counted too.
    let [ran, waited] = [all(&after)[0] - all(&before)[0], all(&after)[1] - all(&before)[1]];
    let truth = waited / (ran + waited);
    assert!(
        truth > 0.6 && (share - truth).abs() < 0.1,
        "tasks waited {truth} of their time by their own accounts, not {share}"
    );
    assert_eq!(status(&report, "cpu.saturation.runnable"), "critical");
    assert_eq!(status(&report, "cpu.utilization"), "warning");
    assert_nothing_else_fired(&report, &["cpu."]);
    if has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        let waits = finding(&report, "cpu.saturation.run_queue_latency", None);
        assert!(waits["value"].as_f64().unwrap() > 0.002, "four take turns on each CPU: {waits:#}");
        assert_eq!(waits["culprit"], Value::Null, "whoever waits is no culprit: {waits:#}");
        // Where others wait as long as the loops by their own accounts, they may be the ones. Tasks that have ended are not in that account.
        let waited = |name: &str| {
            let at = |sums: &BTreeMap<String, [f64; 2]>| sums.get(name).map_or(0.0, |sum| sum[1]);
            at(&after) - at(&before)
        };
        let said = waits["summary"].as_str().unwrap();
        // Below 10 ms no wait is long, and nobody is named.
        if let Some((before, _)) = said.split_once(" waited the most") {
            let who = before.rsplit(". ").next().unwrap();
            assert!(who == "sh" || waited(who) > waited("sh") / 2.0, "{who} waited {} ns: {said}", waited(who));
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF, a quiet machine"]
fn programs_that_live_in_the_kernel_are_named_with_their_system_calls() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let _load = Load::start(cpus(), "dd", &["if=/dev/zero", "of=/dev/null", "bs=1"]);
    let report = live_report(5);
    assert_eq!(status(&report, "cpu.utilization.system"), "info");
    let calls = finding(&report, "cpu.utilization.system_calls", None);
    assert_eq!((&calls["status"], &calls["culprit"]["name"]), (&"info".into(), &"dd".into()), "{calls:#}");
}

#[test]
#[ignore = "needs: root, eBPF, a quiet machine"]
fn processes_that_live_for_milliseconds_are_counted_and_put_down_to_who_starts_them() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")]) {
        return;
    }
    let _loops = spin(2 * cpus(), "0");
    let _load = Load::start(2, "sh", &["-c", "ulimit -t 20; while :; do /bin/true; done"]);
    let report = live_report(5);
    let short = finding(&report, "cpu.utilization.short_lived", None);
    assert_eq!((&short["status"], &short["culprit"]["name"]), (&"info".into(), &"sh".into()), "{short:#}");
}

#[test]
#[ignore = "needs: a quiet machine"]
fn one_loop_for_each_cpu_is_utilization_and_no_critical_saturation() {
    let _alone = alone();
    let _load = spin(cpus(), "0");
    let report = live_report(5);
    let busy = finding(&report, "cpu.utilization", None);
    assert_eq!(busy["status"], "warning", "{busy:#}");
    assert_eq!(busy["culprit"]["name"], "sh");
    assert_ne!(status(&report, "cpu.saturation"), "critical");
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: a quiet machine, stress-ng"]
fn a_third_of_the_cpus_in_use_is_quiet() {
    let _alone = alone();
    if !has(&[Need::Tool("stress-ng")]) {
        return;
    }
    let _load = Load::start(1, "stress-ng", &["--cpu", "0", "--cpu-load", "30", "--timeout", "20"]);
    let report = live_report(5);
    assert_eq!(status(&report, "cpu.utilization"), "ok");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn niced_loops_are_only_worth_knowing() {
    let _alone = alone();
    let _load = spin(cpus(), "19");
    let report = live_report(5);
    assert_eq!(status(&report, "cpu.utilization"), "info");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn a_queue_of_niced_loops_is_only_worth_knowing() {
    let _alone = alone();
    let _load = spin(4 * cpus(), "19");
    let report = live_report(5);
    assert_eq!(status(&report, "cpu.saturation"), "info");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: a quiet machine, two CPUs, taskset"]
fn loops_tied_to_one_cpu_are_no_lack_of_cpus() {
    let _alone = alone();
    if cpus() < 2 {
        return skip("a single CPU");
    }
    if !has(&[Need::Tool("taskset")]) {
        return;
    }
    let _load = Load::start(4, "taskset", &["-c", "0", "sh", "-c", LOOP]);
    let report = live_report(5);
    assert_eq!(finding(&report, "cpu.utilization.core", Some("0"))["status"], "warning");
    assert_nothing_else_fired(&report, &["cpu.utilization.core", "cpu.saturation.core", "cpu.saturation.pinned"]);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn an_idle_host_raises_nothing() {
    let _alone = alone();
    let report = live_report(5);
    assert_nothing_else_fired(&report, &[]);
    assert_judged(&report);
}
