use super::*;
use crate::testing::{Story, gap, instances, stats};

/// A thread of a process: how long it has run and waited, in ms.
struct Thread<'t> {
    pid: u32,
    name: &'t str,
    nice: i32,
    cpu: u32,
    policy: u32,
    allowed: &'t str,
}

const LOOP: Thread<'_> = Thread { pid: 10, name: "loop", nice: 0, cpu: 0, policy: 0, allowed: "0" };

fn put_thread(tree: &Story, thread: &Thread<'_>, ran: u64, waited: u64) {
    let Thread { pid, name, nice, cpu, policy, allowed } = thread;
    let place = format!("proc/{pid}/task/{pid}");
    let stat = format!(
        "{pid} ({name}) R 1 1 1 0 -1 4194304 7 0 0 0 1 0 0 0 20 {nice} 1 0 500 9 5 1 0 0 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0 {policy} 0\n"
    );
    tree.put(&format!("{place}/schedstat"), format!("{} {} 7\n", ran * 1_000_000, waited * 1_000_000));
    tree.put(&format!("{place}/stat"), &stat).put(&format!("proc/{pid}/stat"), &stat);
    tree.put(&format!("{place}/status"), format!("Name:\t{name}\nCpus_allowed_list:\t{allowed}\n"));
}

/// `user nice system idle` of each CPU, in ticks.
fn put_cpus(tree: &Story, cpus: &[[u64; 4]]) {
    let lines: String = cpus
        .iter()
        .enumerate()
        .map(|(cpu, [user, nice, system, idle])| format!("cpu{cpu} {user} {nice} {system} {idle} 0 0 0 0 0 0\n"))
        .collect();
    tree.put("proc/stat", format!("cpu 0 0 0 0 0 0 0 0\n{lines}"));
}

/// Two looks, ten seconds of them.
fn measured(threads: &[(Thread<'_>, u64, u64)], cpus: &[[u64; 4]]) -> rdiag_model::Metrics {
    measured_beside("", threads, cpus)
}

/// The same on a host that has isolated these CPUs.
fn measured_beside(isolated: &str, threads: &[(Thread<'_>, u64, u64)], cpus: &[[u64; 4]]) -> rdiag_model::Metrics {
    let mut tree = Story::of_seconds(1);
    tree.put("sys/devices/system/cpu/isolated", format!("{isolated}\n"));
    put_cpus(&tree, &vec![[0; 4]; cpus.len()]);
    for (thread, _, _) in threads {
        put_thread(&tree, thread, 1000, 1000);
    }
    tree.spec.times = vec![0.0];
    for _ in 0..10 {
        tree.next();
    }
    put_cpus(&tree, cpus);
    for (thread, ran, waited) in threads {
        put_thread(&tree, thread, 1000 + ran, 1000 + waited);
    }
    tree.metrics(&COLLECTOR)
}

#[test]
fn loops_that_share_one_cpu_wait_while_the_other_idles() {
    let four: Vec<_> = (10..14).map(|pid| (Thread { pid, ..LOOP }, 2500, 7500)).collect();
    let metrics = measured(&four, &[[1000, 0, 0, 0], [100, 400, 0, 500]]);
    assert_eq!(instances(&metrics, "cpu.pinned.wait.ratio"), ["0"]);
    let of = |metric: &str| (stats(&metrics, metric, "0").mean * 1e6).round() / 1e6;
    assert_eq!((of("cpu.pinned.wait.ratio"), of("cpu.pinned.tasks.count")), (0.75, 4.0));
    assert_eq!((of("cpu.pinned.busy.ratio"), of("cpu.pinned.elsewhere.ratio")), (1.0, 0.9));
    assert_eq!(metrics.labels["cpu_set"]["0"]["name"], "loop");
    assert_eq!(gap(&metrics, "cpu.real_time.ratio", "").reason, Reason::NotApplicable);
}

#[test]
fn who_may_run_everywhere_is_not_pinned_nor_are_niced_tasks_and_threads_of_the_kernel_victims() {
    let threads = [
        (Thread { allowed: "0-1", ..LOOP }, 2500, 7500),
        (Thread { pid: 11, nice: 5, ..LOOP }, 2500, 7500),
        (Thread { pid: 12, ..LOOP }, 100, 100),
    ];
    let metrics = measured(&threads, &[[1000, 0, 0, 0], [0, 0, 0, 1000]]);
    assert_eq!(gap(&metrics, "cpu.pinned.wait.ratio", "").reason, Reason::NotApplicable);
}

#[test]
fn cpus_that_are_isolated_are_no_room_for_others_and_who_may_run_on_all_the_rest_is_not_pinned() {
    let four = |allowed| (10..14).map(|pid| (Thread { pid, allowed, ..LOOP }, 2500, 7500)).collect::<Vec<_>>();
    let cpus = [[1000, 0, 0, 0], [900, 0, 0, 100], [0, 0, 0, 1000], [0, 0, 0, 1000]];
    let of = |isolated: &str, allowed: &'static str| {
        let metrics = measured_beside(isolated, &four(allowed), &cpus);
        let elsewhere = metrics.measured("cpu.pinned.elsewhere.ratio", allowed).map(|stats| stats.mean);
        elsewhere.map(|share| (share * 1e6).round() / 1e6)
    };
    assert_eq!(of("", "0-1"), Some(1.0));
    assert_eq!(of("2-3", "0-1"), None, "they may run wherever the scheduler puts tasks");
    assert_eq!(of("2-3", "0"), Some(0.1), "CPU 1 alone is another one");
    assert_eq!(of("2-3", "2"), Some(0.05), "a task on an isolated CPU might run on those that are not");
}

#[test]
fn a_real_time_loop_and_who_waits_behind_it_are_told_apart() {
    let threads = [
        (Thread { pid: 20, name: "audio", policy: 1, allowed: "0-1", ..LOOP }, 9500, 0),
        (Thread { pid: 21, name: "web", ..LOOP }, 500, 9500),
        (Thread { pid: 22, name: "elsewhere", cpu: 1, allowed: "0-1", ..LOOP }, 9500, 0),
    ];
    let metrics = measured(&threads, &[[1000, 0, 0, 0], [950, 0, 0, 50]]);
    assert_eq!(instances(&metrics, "cpu.real_time.ratio"), ["CPU 0"]);
    assert_eq!(stats(&metrics, "cpu.real_time.ratio", "CPU 0").mean, 0.95);
    assert_eq!(stats(&metrics, "cpu.real_time.wait.ratio", "CPU 0").mean, 0.95);
    let labels = &metrics.labels["real_time_cpu"]["CPU 0"];
    assert_eq!((labels["name"].as_str(), labels["victim"].as_str(), labels["pid"].as_str()), ("audio", "web", "20"));
}

#[test]
fn kernels_that_keep_no_such_figures_and_a_single_look_say_so() {
    let metrics = measured(&[], &[[1, 1, 1, 1]]);
    let found = gap(&metrics, "cpu.pinned.wait.ratio", "");
    assert_eq!(found.reason, Reason::Absent);
    let why = "/proc/PID/task/TID/schedstat is missing or 0 for every thread of this recorded tree";
    assert_eq!(found.why, why, "and not that of processes, from which other readings come");
    let tree = Story::of_seconds(1);
    put_cpus(&tree, &[[0; 4]]);
    put_thread(&tree, &LOOP, 1, 1);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "cpu.real_time.wait.ratio", "").reason, Reason::ShortWindow);
}
