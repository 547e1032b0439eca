use super::*;
use crate::testing::{Story, gap, instances, stats};

const TREE: &str = "sys/fs/cgroup";

fn stat(anon: u64, refaults: u64) -> String {
    format!(
        "anon {anon}\nfile 900000000\nshmem 1000\nkernel_stack 100\npagetables 200\npercpu 300\nsock 400\nvmalloc 500\n\
         slab_unreclaimable 600\nslab_reclaimable 700\nworkingset_refault_anon 1\nworkingset_refault_file {refaults}\n\
         pgmajfault 5\n"
    )
}

fn events(max: u64, oom: u64, kills: u64) -> String {
    format!("low 0\nhigh 0\nmax {max}\noom {oom}\noom_kill {kills}\noom_group_kill 0\n")
}

/// A pure v2 host with the limited groups /a and /a/b over ten seconds; a process is killed in /a/b at the limit of /a.
fn v2() -> Story {
    let mut story = Story::of_seconds(11)
        .file(0, "proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .file(0, "proc/meminfo", "MemTotal: 8000000 kB\n")
        .file(0, &format!("{TREE}/cgroup.controllers"), "cpu memory pids\n")
        .file(0, &format!("{TREE}/free/memory.max"), "max\n")
        .file(0, &format!("{TREE}/free/memory.high"), "max\n");
    for (group, max, high) in [("a", "1000000000", "max"), ("a/b", "2000000000", "900000000")] {
        story = story
            .file(0, &format!("{TREE}/{group}/memory.max"), max)
            .file(0, &format!("{TREE}/{group}/memory.high"), high)
            .file(0, &format!("{TREE}/{group}/memory.current"), "990000000\n")
            .file(0, &format!("{TREE}/{group}/memory.stat"), stat(499_996_900, 0))
            .file(0, &format!("{TREE}/{group}/memory.events"), events(10, 0, 0))
            .file(0, &format!("{TREE}/{group}/memory.events.local"), events(10, 0, 0));
    }
    story
        .file(4, &format!("{TREE}/a/memory.events"), events(30, 1, 1))
        .file(4, &format!("{TREE}/a/memory.events.local"), events(30, 1, 0))
        .file(4, &format!("{TREE}/a/b/memory.events"), events(10, 0, 1))
        .file(4, &format!("{TREE}/a/b/memory.events.local"), events(10, 0, 1))
}

#[test]
fn page_cache_is_not_used_memory_and_the_lower_of_two_limits_counts() {
    let metrics = v2().metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "cgroup.memory.limit.bytes"), ["/a", "/a/b"]);
    let last = |id: &str, group: &str| stats(&metrics, id, group).last;
    assert!((last("cgroup.memory.used_of_limit.ratio", "/a") - 0.5).abs() < 1e-9);
    assert_eq!(last("cgroup.memory.limit.bytes", "/a/b"), 900_000_000.0);
    assert!((last("cgroup.memory.charged_of_limit.ratio", "/a") - 0.99).abs() < 1e-9);
}

#[test]
fn a_kill_is_a_failure_of_the_limit_that_was_hit_and_not_of_the_victims_own() {
    let metrics = v2().metrics(&COLLECTOR);
    let total = |id: &str, group: &str| stats(&metrics, id, group).total;
    for (group, failures, hits) in [("/a", 1.0, 20.0), ("/a/b", 0.0, 0.0)] {
        assert_eq!(total("cgroup.memory.oom_kill.count", group), 1.0, "{group}");
        assert_eq!(total("cgroup.memory.limit_failures.count", group), failures, "{group}");
        assert_eq!(total("cgroup.memory.limit_hits.count", group), hits, "{group}");
        assert_eq!(total("cgroup.memory.oom_kill_so_far.count", group), 1.0, "{group}");
    }
}

#[test]
fn stall_times_are_a_gap_where_the_kernel_keeps_none() {
    let found = gap(&v2().metrics(&COLLECTOR), "cgroup.memory.pressure.some.ratio", "");
    assert_eq!((found.reason, found.remedy.as_deref()), (Reason::Absent, Some("boot with psi=1")));
}

/// A hybrid host whose memory controller is v1; a group of the same path is in the unified tree.
fn hybrid() -> Story {
    let mounts = "1 2 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  1 2 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let group = format!("{TREE}/memory/g");
    let v1_stat = "cache 5\nrss 1\nshmem 1\ntotal_cache 900\ntotal_rss 400\ntotal_shmem 100\ntotal_pgmajfault 1\n";
    Story::of_seconds(6)
        .file(0, "proc/self/mountinfo", mounts)
        .file(0, &format!("{TREE}/unified/cgroup.controllers"), "hugetlb\n")
        .file(0, &format!("{TREE}/memory/release_agent"), "")
        .file(0, &format!("{TREE}/memory/memory.limit_in_bytes"), "9223372036854771712\n")
        .file(0, &format!("{group}/memory.limit_in_bytes"), "1000\n")
        .file(0, &format!("{group}/memory.usage_in_bytes"), "1000\n")
        .file(0, &format!("{group}/memory.stat"), v1_stat)
        .file(0, &format!("{group}/memory.failcnt"), "7\n")
        .file(0, &format!("{group}/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
        .file(0, &format!("{group}/child/memory.limit_in_bytes"), "9223372036854771712\n")
        .file(0, &format!("{group}/child/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
        .file(3, &format!("{group}/child/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
        .file(3, &format!("{group}/memory.failcnt"), "9\n")
        .file(0, &format!("{TREE}/unified/g/memory.pressure"), "some avg10=0 total=0\nfull avg10=0 total=0\n")
        .file(
            5,
            &format!("{TREE}/unified/g/memory.pressure"),
            "some avg10=0 total=1000000\nfull avg10=0 total=500000\n",
        )
}

#[test]
fn kills_in_groups_below_count_for_the_limit_above_them_on_v1_too() {
    let metrics = hybrid().metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "cgroup.memory.limit.bytes"), ["/g"]);
    assert_eq!(stats(&metrics, "cgroup.memory.oom_kill.count", "/g").total, 2.0);
    assert_eq!(stats(&metrics, "cgroup.memory.oom_kill_so_far.count", "/g").last, 5.0);
    assert_eq!(stats(&metrics, "cgroup.memory.limit_failures.count", "/g").total, 2.0);
    assert_eq!(stats(&metrics, "cgroup.memory.used_of_limit.ratio", "/g").last, 0.5);
}

#[test]
fn a_hybrid_host_has_stall_times_in_the_unified_tree() {
    let metrics = hybrid().metrics(&COLLECTOR);
    assert!((stats(&metrics, "cgroup.memory.pressure.some.ratio", "/g").mean - 0.2).abs() < 1e-9);
    assert!((stats(&metrics, "cgroup.memory.pressure.full.ratio", "/g").mean - 0.1).abs() < 1e-9);
}

#[test]
fn a_limit_above_the_machines_memory_is_none() {
    let story = v2().file(0, "proc/meminfo", "MemTotal: 900000 kB\n");
    assert_eq!(instances(&story.metrics(&COLLECTOR), "cgroup.memory.limit.bytes"), ["/a/b"]);
}

#[test]
fn broken_files_leave_figures_out_and_nothing_panics() {
    for text in ["", "x", "anon", "anon x\n", "anon 18446744073709551615\nshmem 18446744073709551615\n", "\0\n\n"] {
        let story = v2()
            .file(0, &format!("{TREE}/a/memory.stat"), text)
            .file(0, &format!("{TREE}/a/memory.events"), text)
            .file(0, &format!("{TREE}/a/memory.events.local"), text);
        let _ = story.metrics(&COLLECTOR);
    }
}
