use super::*;
use crate::testing::{Story, gap, instances, stats};

/// A process of a user: its inotify instances from descriptor 3 on, each with so many watches, and masters of pseudo-terminals.
fn process(tree: &Story, pid: u32, parent: u32, uid: u32, name: &str, watches: &[u32], masters: u32) {
    let stat = format!("{pid} ({name}) S {parent} 1 1 0 -1 0 7 0 0 0 1 0 0 0 20 0 1 0 500 9 5 1\n");
    tree.put(&format!("proc/{pid}/stat"), stat);
    tree.put(&format!("proc/{pid}/status"), format!("Name:\t{name}\nUid:\t0\t{uid}\t0\t0\n"));
    // The directory has to be there for a link in it.
    tree.put(&format!("proc/{pid}/fd/.keep"), "");
    tree.link(&format!("proc/{pid}/fd/0"), "/dev/null");
    for (descriptor, count) in (3..).zip(watches) {
        tree.link(&format!("proc/{pid}/fd/{descriptor}"), "anon_inode:inotify");
        let lines: String =
            (0..*count).map(|wd| format!("inotify wd:{wd} ino:{pid} sdev:800013 mask:800afce\n")).collect();
        tree.put(
            &format!("proc/{pid}/fdinfo/{descriptor}"),
            format!("pos:\t0\nflags:\t00\nmnt_id:\t17\nino:\t1038\n{lines}"),
        );
    }
    for descriptor in 1000..1000 + masters {
        tree.link(&format!("proc/{pid}/fd/{descriptor}"), "/dev/pts/ptmx");
    }
}

fn host() -> Story {
    let tree = Story::of_seconds(1);
    tree.put("proc/sys/fs/inotify/max_user_instances", "16\n").put("proc/sys/fs/inotify/max_user_watches", "1000\n");
    tree.put("etc/passwd", "root:x:0:0:\napp:x:4245:4245:\n");
    tree
}

#[test]
fn instances_and_watches_of_a_user_are_added_up_and_the_process_with_the_most_is_named() {
    let tree = host();
    process(&tree, 10, 1, 4245, "node", &[1; 12], 0);
    process(&tree, 11, 1, 4245, "tail", &[3], 0);
    process(&tree, 12, 1, 0, "udevd", &[200], 0);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "fd.inotify.ratio"), ["0", "4245"]);
    assert_eq!(stats(&metrics, "fd.inotify.ratio", "4245").last, 13.0 / 16.0);
    assert_eq!(stats(&metrics, "fd.inotify_watches.count", "4245").last, 15.0);
    assert_eq!(stats(&metrics, "fd.inotify_watches.ratio", "0").last, 0.2);
    let labels = &metrics.labels["inotify_user"]["4245"];
    let label = |key: &str| labels[key].as_str();
    assert_eq!((label("user"), label("name"), label("pid")), ("app", "node", "10"));
    assert_eq!(label("processes"), "12 node, 1 tail");
    assert_eq!(gap(&metrics, "tasks.ptys_process.count", "").reason, Reason::NotApplicable);
}

#[test]
fn the_process_with_the_most_of_what_is_nearer_to_its_limit_is_named() {
    for (watches, name) in [(700, "node"), (900, "code")] {
        let tree = host();
        process(&tree, 10, 1, 4245, "node", &[0; 13], 0);
        process(&tree, 11, 1, 4245, "code", &[watches], 0);
        let metrics = tree.metrics(&COLLECTOR);
        let labels = &metrics.labels["inotify_user"]["4245"];
        assert_eq!(
            (labels["name"].as_str(), labels["watcher"].as_str()),
            (name, "code"),
            "14 of 16, {watches} of 1000"
        );
    }
}

#[test]
fn what_a_child_has_from_its_parent_counts_once() {
    let tree = host();
    process(&tree, 10, 1, 4245, "server", &[5], 0);
    process(&tree, 11, 10, 4245, "server", &[5], 0);
    // The child's watches are those of the parent; another process has as many of its own.
    let of_parent = std::iter::repeat_n("inotify wd:1 ino:7 sdev:1 mask:2\n", 5).collect::<String>();
    tree.put("proc/10/fdinfo/3", &of_parent).put("proc/11/fdinfo/3", &of_parent);
    process(&tree, 12, 1, 4245, "server", &[5], 0);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "fd.inotify.count", "4245").last, 2.0);
    assert_eq!(stats(&metrics, "fd.inotify_watches.count", "4245").last, 10.0);
}

#[test]
fn instances_without_watches_are_taken_for_several_where_the_kernel_does_not_tell() {
    let tree = host();
    process(&tree, 10, 1, 7, "a", &[0], 0);
    process(&tree, 11, 10, 7, "a", &[0], 0);
    assert_eq!(stats(&tree.metrics(&COLLECTOR), "fd.inotify.count", "7").last, 2.0);
}

#[test]
fn masters_of_terminals_are_named() {
    let tree = host();
    process(&tree, 10, 1, 0, "sshd", &[], 7);
    process(&tree, 11, 1, 0, "tmux", &[], 2);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "tasks.ptys_process.count"), ["10:500", "11:500"]);
    assert_eq!(stats(&metrics, "tasks.ptys_process.count", "10:500").last, 7.0);
    assert_eq!(gap(&metrics, "fd.inotify.ratio", "").reason, Reason::NotApplicable);
}

#[test]
fn what_may_not_be_read_is_a_gap_beside_what_was_seen() {
    let mut tree = host();
    process(&tree, 10, 1, 7, "a", &[1], 0);
    process(&tree, 11, 1, 8, "b", &[1], 0);
    tree.fault("proc/11/fd", Reason::Denied);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "fd.inotify.count", "7").last, 1.0);
    assert_eq!(gap(&metrics, "fd.inotify.count", "(others)").reason, Reason::Denied);
    tree.fault("proc/sys/fs/inotify/max_user_instances", Reason::Absent);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "fd.inotify.ratio", "").reason, Reason::Absent);
    assert_eq!(gap(&metrics, "fd.inotify_watches.ratio", "").reason, Reason::Absent);
}

#[test]
fn watches_that_could_not_be_read_are_a_gap() {
    let mut tree = host();
    process(&tree, 10, 1, 7, "a", &[1, 1], 0);
    tree.fault("proc/10/fdinfo/3", Reason::Denied);
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "fd.inotify.count", "7").last, 2.0);
    assert!(gap(&metrics, "fd.inotify_watches.count", "(others)").why.contains("1 inotify instances"));
}
