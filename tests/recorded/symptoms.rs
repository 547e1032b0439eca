//! Playbooks that start from a symptom, on recorded hosts and on what was recorded while a fault was induced: which cause they end in, and
//! which one only looks like it.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{path, rdiag};

fn report(args: &[&str]) -> Value {
    let output = rdiag().args(args).args(["--format", "json", "--out", "-"]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The answer to a symptom on a recorded tree.
fn on_tree(playbook: &str, story: &str) -> Value {
    let root = path("tests/fixtures/hosts").join(story);
    report(&["run", playbook, "--root", root.to_str().unwrap()])
}

/// The answer to a symptom from a recording of use-method.
fn on_capture(playbook: &str, name: &str) -> Value {
    let file = path("tests/captures").join(format!("{name}.json.gz"));
    report(&["analyze", "--playbook", playbook, file.to_str().unwrap()])
}

/// The id of the cause in which a report ends; `none` or `unknown` where there is none.
fn cause(report: &Value) -> &str {
    let causes = report["answer"]["causes"].as_array().unwrap();
    let has = |outcome: &str| causes.iter().find(|cause| cause["outcome"] == outcome);
    match has("found") {
        Some(found) => found["id"].as_str().unwrap(),
        None if has("unknown").is_some() => "unknown",
        None => "none",
    }
}

/// Playbook, recorded host, the cause in which it ends, and words of the verdict.
const TREES: &[(&str, &str, &str, &str)] = &[
    (
        "high-load",
        "whole-host-short-of-cpu",
        "runnable",
        "Load average 3.5 on 2 CPUs — Run queue 6.5 on 2 CPUs, 99.3% busy; stress-ng-cpu",
    ),
    ("high-load", "whole-host-quiet", "past", "Load average 2.5 on 2 CPUs — It falls: run queue 0 now"),
    // The symptom itself is measured, too.
    ("io-stall", "whole-host-quiet", "none", "of the window, tasks in D state: 0; no cause found"),
    ("slow-system", "whole-host-short-of-cpu", "cpu", "CPUs 99.3% busy, 22.9 GiB of memory available"),
    ("slow-system", "whole-host-quiet", "none", "no cause found; ruled out: OOM kills, a lack of memory"),
    ("slow-system", "memory-thrashing-5.4", "memory", "the working set does not fit into memory; postgres (pid 812)"),
    ("slow-system", "interrupt-storm", "interrupts", "ksoftirqd of CPU 0"),
    ("slow-system", "cpu-stolen", "steal", "CPU steal was 38.5%"),
    (
        "high-latency",
        "whole-host-short-of-cpu",
        "run-queue",
        "CPU 98.1% of it, memory 0% of it, I/O 0.02% of it — Runnable tasks",
    ),
    ("high-latency", "network-losses", "network", "TCP had to retransmit 7.0%"),
    ("high-latency", "disk-overloaded-4.15", "disk", "Requests queue at sda: aqu-sz 14.4"),
    ("high-latency", "cpu-one-core", "pinned", "Tasks on the run queue of CPU 0"),
    ("high-latency", "filesystem-nfs-slow", "file-server", "NFS read round trip 55.0 ms on /home"),
    ("io-stall", "disk-stuck", "stuck", "sda completed no request in 8.00 s"),
    ("io-stall", "disk-overloaded-4.15", "overloaded", "backup (pid 901)"),
    ("io-stall", "disk-writers-paced", "writeback", "Dirty pages are 109%"),
    ("io-stall", "memory-thrashing-5.4", "memory", "13.0 k refaults/s"),
    ("io-stall", "filesystem-nfs-slow", "nfs", "NFS read round trip"),
    // Busy is not stalled.
    (
        "io-stall",
        "disk-busy-nvme",
        "unknown",
        "no cause found; not clear: a full disk queue; not measured: a slow file server",
    ),
    ("io-stall", "disk-background-writes", "unknown", "no cause found; not measured: a slow file server"),
    ("memory-pressure", "memory-thrashing-5.4", "thrashing", "293.0 MiB of memory available — 13.0 k refaults/s"),
    ("memory-pressure", "memory-oom-killed", "oom", "me (a) b (pid 2001)"),
    ("memory-pressure", "memory-full-of-cache", "unknown", "13.0 GiB of memory available"),
    ("memory-pressure", "memory-swap-parked", "unknown", "12.0 GiB of memory available"),
    ("network-loss", "network-ports-out", "ports", "12 of 12 ephemeral ports"),
    ("network-loss", "network-link-full", "link", "eth0 received at 96.8% of link speed"),
    ("network-loss", "network-listen-overflow", "listen", "150 listen-queue overflows"),
    (
        "network-loss",
        "network-busy-and-well",
        "unknown",
        "no cause found; not measured: exhausted local ports; ruled out: a link that flaps",
    ),
    ("network-loss", "network-beyond-allowance", "allowance", "dropped 12 packets of eth0"),
    ("network-loss", "network-card-failing", "carrier", "The link of eth0 went up or down 2 times"),
    ("network-loss", "network-sockets-short", "sockets", "A full receive buffer or backlog dropped 600 TCP segments"),
    ("network-loss", "network-sockets-near-limits", "unknown", "no cause found"),
    ("memory-pressure", "memory-numa-fragmented", "reclaim", "30 allocation stalls/s"),
    ("memory-pressure", "memory-held-by-kernel", "kernel", "Unreclaimable slab is 27.0% of memory"),
    ("memory-pressure", "memory-held-below", "unknown", "no cause found"),
    ("io-stall", "filesystem-server-silent", "file-server", "filer2 is named 2 times by the kernel log"),
    ("slow-system", "kernel-lockup", "lockup", "kworker/2:1 (pid 345)"),
    ("slow-system", "cpu-short-lived-processes", "short-lived", "Fork rate 400/s"),
    ("slow-container", "container-killed-above", "oom", "at the limit of a cgroup that rdiag did not see"),
    ("slow-container", "cgroup-v2-throttled", "throttled", "CPUs of the host 15.0% busy"),
    ("slow-container", "cgroup-hybrid", "oom", "cgroup /system.slice/search.service hit memory.max"),
    ("slow-container", "container-cgroup-namespace", "throttled", "a parent that its namespace hides"),
    ("slow-container", "whole-host-quiet", "none", "no cause found; ruled out: OOM kills at a memory limit"),
    ("sixty-seconds", "whole-host-short-of-cpu", "cpu", "Load average 3.5 on 2 CPUs, 99.3% busy"),
    ("sixty-seconds", "filesystem-troubles", "hung", "/mnt/old server"),
    ("cannot-fork", "cgroup-v1-joined", "cgroup", "refused 1 fork at pids.max (40 tasks)"),
    (
        "cannot-fork",
        "whole-host-quiet",
        "none",
        "no cause found; ruled out: pids.max of a control group, the process limit",
    ),
    ("disk-full", "filesystem-troubles", "inodes", "/var/mail (ext4) used 100% of its inodes"),
    (
        "disk-full",
        "whole-host-quiet",
        "none",
        "Fullest file system 36.2% of its space, 9.4% of its inodes used; no cause found",
    ),
];

/// The same for recordings that were made while a fault was induced on Linux 6.18.
const CAPTURES: &[(&str, &str, &str, &str)] = &[
    (
        "high-latency",
        "cpu.loops_tied_to_one_cpu_are_no_lack_of_cpus.1",
        "full-cpu",
        "CPU 0 was 100% busy while all CPUs together were 54.3% busy",
    ),
    (
        "high-load",
        "cpu.loops_tied_to_one_cpu_are_no_lack_of_cpus.1",
        "full-cpu",
        "CPU 0 was 100% busy while all CPUs together were 54.3% busy",
    ),
    (
        "slow-system",
        "cpu.loops_tied_to_one_cpu_are_no_lack_of_cpus.1",
        "full-cpu",
        "CPU 0 was 100% busy while all CPUs together were 54.3% busy",
    ),
    (
        "sixty-seconds",
        "cpu.loops_tied_to_one_cpu_are_no_lack_of_cpus.1",
        "full-cpu",
        "CPU 0 was 100% busy while all CPUs together were 54.3% busy",
    ),
    (
        "slow-container",
        "cgroup.a_loop_in_a_group_with_a_small_quota_is_throttled_and_the_host_is_not_short_of_cpus.1",
        "throttled",
        "/rdiag-test-quota",
    ),
    ("slow-container", "cgroup.a_group_that_stays_below_its_quota_raises_nothing.1", "none", "no cause found"),
    (
        "high-latency",
        "cgroup.a_loop_in_a_group_with_a_small_quota_is_throttled_and_the_host_is_not_short_of_cpus.1",
        "throttled",
        "/rdiag-test-quota",
    ),
    (
        "io-stall",
        "cgroup.a_reader_at_a_groups_io_limit_is_told_from_a_slow_disk.1",
        "io-max",
        "/rdiag-test-io used 100% of its io.max",
    ),
    ("io-stall", "filesystem.a_mount_that_hangs_is_critical_and_hangs_nobody.1", "file-server", "is hung"),
    (
        "io-stall",
        "filesystem.writers_of_a_frozen_file_system_are_blocked_tasks_named_with_their_place_in_the_kernel.1",
        "blocked",
        "Writers wait for a frozen file system to be thawed",
    ),
    (
        "io-stall",
        "disk.a_program_that_waits_for_one_read_after_the_other_is_named_and_the_disk_is_not_blamed.1",
        "serial",
        "fio",
    ),
    (
        "high-load",
        "filesystem.writers_of_a_frozen_file_system_are_blocked_tasks_named_with_their_place_in_the_kernel.1",
        "blocked",
        "touch waited the most, in percpu_rwsem_wait",
    ),
    ("high-load", "cpu.a_queue_of_niced_loops_is_only_worth_knowing.1", "niced", "100% busy, 95.6% with niced work"),
    (
        "disk-full",
        "filesystem.deleted_files_that_fill_a_file_system_name_the_process_that_holds_them.1",
        "deleted",
        "sleep (pid 12523)",
    ),
    (
        "disk-full",
        "filesystem.deleted_files_that_fill_a_file_system_name_the_process_that_holds_them.2",
        "space",
        "3.4 MiB of 53.4 MiB left",
    ),
    (
        "disk-full",
        "filesystem.a_file_system_without_inodes_is_critical_although_it_has_space.1",
        "inodes",
        "used 100% of its inodes",
    ),
    (
        "disk-full",
        "filesystem.an_image_that_is_full_by_nature_stays_quiet.1",
        "none",
        "also: a file system that has errors or turned read-only 14.8 s before the window; ruled out: inodes",
    ),
    (
        "disk-full",
        "filesystem.a_file_system_that_finds_an_error_is_critical_and_seen_to_be_read_only.1",
        "read-only",
        "but the file system is read-only",
    ),
    (
        "memory-pressure",
        "memory.a_kill_at_the_limit_of_a_cgroup_is_critical_and_no_shortage_of_the_host.1",
        "cgroup",
        "/rdiag-test-oom hit memory.max",
    ),
    ("memory-pressure", "memory.filling_the_page_cache_raises_nothing.1", "none", "no cause found"),
    (
        "memory-pressure",
        "memory.a_process_that_used_up_its_memory_mappings_is_named_although_memory_is_free.2",
        "maps",
        "python3 has 63.7 k memory mappings",
    ),
    (
        "network-loss",
        "network.datagrams_that_nobody_reads_name_the_socket_and_its_process.1",
        "sockets",
        "966 UDP datagrams",
    ),
    ("network-loss", "network.heavy_traffic_on_loopback_is_no_finding_of_the_network.1", "unknown", "no cause found"),
    (
        "cannot-fork",
        "cgroup.a_refused_fork_names_the_group_and_no_limit_of_the_host.1",
        "cgroup",
        "refused 3 forks at pids.max (20 tasks)",
    ),
    ("sixty-seconds", "filesystem.a_full_file_system_is_critical_and_no_other_is_blamed.1", "full", "is 100% full"),
];

#[track_caller]
fn check(report: &Value, what: &str, expected: &str, says: &str) {
    let verdict = &report["verdict"]["headline"];
    assert_eq!(cause(report), expected, "{what}: {verdict} {:#}", report["answer"]);
    let headline = verdict.as_str().unwrap();
    assert!(headline.starts_with(report["answer"]["symptom"].as_str().unwrap()), "{what}: {headline}");
    assert!(headline.contains(says), "{what}: {headline}");
}

#[test]
fn each_symptom_on_recorded_hosts_ends_in_its_cause() {
    for (playbook, story, expected, says) in TREES {
        check(&on_tree(playbook, story), &format!("{playbook} on {story}"), expected, says);
    }
}

#[test]
fn a_recording_of_use_method_answers_each_symptom() {
    for (playbook, name, expected, says) in CAPTURES {
        check(&on_capture(playbook, &format!("host/{name}")), &format!("{playbook} on {name}"), expected, says);
    }
}

#[test]
fn on_an_idle_host_no_symptom_has_a_cause_that_is_there_now() {
    let playbooks: BTreeSet<&str> = TREES.iter().map(|(playbook, ..)| *playbook).collect();
    assert_eq!(playbooks.len(), 10);
    for playbook in playbooks {
        let report = on_tree(playbook, "whole-host-quiet");
        assert!(["none", "unknown", "past"].contains(&cause(&report)), "{playbook}: {:#}", report["answer"]);
        assert_ne!(report["verdict"]["status"], "warning", "{playbook}");
        assert_ne!(report["verdict"]["status"], "critical", "{playbook}");
    }
}

#[test]
fn a_name_is_not_needed_to_find_the_playbook() {
    let listed = rdiag().arg("run").output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout);
    assert_eq!(listed.status.code(), Some(2));
    for (name, symptom) in [
        ("high-load", "load average is high"),
        ("cannot-fork", "cannot fork: Resource temporarily unavailable"),
        ("disk-full", "no space left on device"),
    ] {
        assert!(text.contains(&format!("rdiag run {name}")) && text.contains(symptom), "{text}");
    }
    let typed = rdiag().args(["run", "cp: cannot create x: No space left on device"]).output().unwrap();
    let told = String::from_utf8_lossy(&typed.stderr);
    assert_eq!(typed.status.code(), Some(2));
    assert!(told.contains("`rdiag run disk-full` looks for the cause"), "{told}");
}
