use super::*;
use crate::testing::{Story, gap, instances, stats};

const RATIO: &str = "tasks.limited_user.ratio";

/// Processes of one user: so many from this id on, under this limit.
fn processes(tree: &Story, from: u32, count: u32, uid: u32, limit: &str, capabilities: &str) {
    for pid in from..from + count {
        let name = if pid == from { "sh" } else { "sleep" };
        let status = format!("Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nThreads:\t1\nCapEff:\t{capabilities}\n");
        tree.put(&format!("proc/{pid}/status"), status);
        tree.put(
            &format!("proc/{pid}/limits"),
            format!("Limit  Soft  Hard  Units\nMax processes   {limit}   {limit}   processes\n"),
        );
    }
}

#[test]
fn sixty_of_sixty_are_found_with_the_process_whose_limit_it_is() {
    let tree = Story::of_seconds(1);
    processes(&tree, 100, 60, 4242, "60", "0");
    processes(&tree, 300, 90, 0, "40", "0");
    tree.put("etc/passwd", "root:x:0:0:\napp:x:4242:4242:\n");
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, RATIO), ["4242"], "root is bound by no limit");
    assert_eq!(stats(&metrics, RATIO, "4242").last, 1.0);
    let labels = &metrics.labels["user"]["4242"];
    assert_eq!((labels["name"].as_str(), labels["process"].as_str(), labels["pid"].as_str()), ("app", "sh", "100"));
    assert_eq!(labels["processes"], "59 sleep, 1 sh");
}

#[test]
fn the_lowest_limit_counts_and_no_capable_process_is_bound() {
    let tree = Story::of_seconds(1);
    processes(&tree, 100, 12, 7, "unlimited", "0");
    processes(&tree, 120, 2, 7, "15", "0");
    processes(&tree, 130, 1, 7, "9", "200000");
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!((stats(&metrics, "tasks.limited_user.count", "7").last, stats(&metrics, RATIO, "7").last), (15.0, 1.0));
    assert_eq!(metrics.labels["user"]["7"]["pid"], "120");
}

#[test]
fn programs_that_lock_themselves_in_and_users_without_a_limit_are_not_judged() {
    let tree = Story::of_seconds(1);
    processes(&tree, 100, 4, 7, "1", "0");
    processes(&tree, 110, 40, 8, "unlimited", "0");
    assert_eq!(gap(&tree.metrics(&COLLECTOR), RATIO, "").reason, Reason::NotApplicable);
}

#[test]
fn a_user_far_from_its_limit_costs_a_few_reads() {
    let tree = Story::of_seconds(1);
    processes(&tree, 1000, 200, 7, "10000", "0");
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, RATIO, "7").last, 0.02);
    assert!(!metrics.labels["user"]["7"].contains_key("processes"), "no process is looked at closely");
    let many: Vec<(u32, u64)> = (0..20_000).map(|pid| (pid, u64::from(pid == 77))).collect();
    let some = sample(&many);
    assert!(some.len() <= SAMPLE + 1 && [0, 77, 19_999].iter().all(|pid| some.contains(pid)), "{some:?}");
    assert_eq!((sample(&[]), sample(&[(5, 1)])), (vec![], vec![5]));
}

#[test]
fn limits_that_may_not_be_read_are_unknown() {
    let mut tree = Story::of_seconds(1);
    processes(&tree, 100, 1, 7, "60", "0");
    tree.fault("proc/100/limits", Reason::Denied);
    assert_eq!(gap(&tree.metrics(&COLLECTOR), RATIO, "").reason, Reason::Denied);
}
