//! Instances on trees of ordinary files: what is written where, and what becomes of refusals.

use std::path::Path;

use super::instance::{Followed, Instance};
use super::{place, stale};
use crate::host::Host;
use rdiag_model::Reason;

const TRACING: &str = "sys/kernel/tracing";
const DIR: &str = "sys/kernel/tracing/instances/rdiag-1-2-0";

#[expect(clippy::disallowed_methods, reason = "the test's own tree")]
pub(super) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let host = Host::live(folder.path());
    (folder, host)
}

fn instance(host: &Host) -> Instance {
    Instance::at(host.control().unwrap(), DIR)
}

#[expect(clippy::disallowed_methods, reason = "the test's own tree")]
fn content(root: &Path, file: &str) -> String {
    std::fs::read_to_string(root.join(DIR).join(file)).unwrap()
}

#[test]
fn a_filter_that_the_kernel_did_not_take_over_is_an_error() {
    let filter = |event: &str| format!("{DIR}/events/sched/{event}/filter");
    let (_folder, host) = tree(&[(&filter("sched_switch"), ""), (&filter("sched_wakeup"), "")]);
    let instance = instance(&host);
    instance.set_filter(&host, "sched", "sched_switch", "prev_pid > 1").unwrap();
    let gap = instance.set_filter(&host, "sched", "sched_wakeup", "none\n").unwrap_err();
    assert!(gap.why.contains("was not taken over"), "{}", gap.why);
    let gap = instance.set_filter(&host, "sched", "no_such_event", "a == 1").unwrap_err();
    assert_eq!(gap.reason, Reason::Malformed);
    assert!(gap.why.contains("sched:no_such_event"), "{}", gap.why);
}

#[test]
fn a_clock_that_the_kernel_does_not_have_is_told_with_those_that_it_has() {
    let (folder, host) = tree(&[(&format!("{DIR}/trace_clock"), "[local] global mono")]);
    let instance = instance(&host);
    let gap = instance.set_clock(&host, "sundial").unwrap_err();
    assert!(gap.why.contains("it has local, global, mono"), "{}", gap.why);
    instance.set_clock(&host, "mono").unwrap();
    assert!(content(folder.path(), "trace_clock").starts_with("mono"));
}

#[test]
fn a_file_that_this_kernel_lacks_is_absent() {
    let (_folder, host) = tree(&[(&format!("{DIR}/tracing_on"), "1")]);
    assert_eq!(instance(&host).set("buffer_size_kb", "64").unwrap_err().reason, Reason::Absent);
}

#[test]
fn whoever_is_followed_is_followed_with_all_threads_and_children() {
    let files =
        [("set_event_pid", "none"), ("options/event-fork", "0")].map(|(name, text)| (format!("{DIR}/{name}"), text));
    let threads = ["proc/71/task/71/stat", "proc/71/task/72/stat"].map(|name| (name.to_owned(), ""));
    let files: Vec<_> = files.iter().chain(&threads).map(|(name, text)| (name.as_str(), *text)).collect();
    let (folder, host) = tree(&files);
    instance(&host).follow(&host, Followed::Events, &[71]).unwrap();
    assert_eq!(content(folder.path(), "options/event-fork"), "1");
    assert_eq!(content(folder.path(), "set_event_pid"), "71 72");
    let gap = instance(&host).follow(&host, Followed::Events, &[99]).unwrap_err();
    assert_eq!(gap.reason, Reason::Absent, "no task is followed, so nothing would limit what is seen: {}", gap.why);
}

#[test]
fn lost_events_of_all_cpus_are_added_up() {
    let stats = |cpu: u32| format!("{DIR}/per_cpu/cpu{cpu}/stats");
    let (_folder, host) = tree(&[(&stats(0), "overrun: 3\n"), (&stats(1), "dropped events: 4\nentries: 9\n")]);
    assert_eq!(instance(&host).tally(&host).lost, 7);
}

#[test]
fn instances_of_processes_that_are_gone_are_removed_and_no_others() {
    let stat = |state: char, started: u64| format!("7 (a) b) {state}{} {started} 0", " 0".repeat(18));
    let (folder, host) = tree(&[("proc/7/stat", &stat('S', 70)), ("proc/8/stat", &stat('Z', 80))]);
    let instances = format!("{TRACING}/instances");
    let names = ["rdiag-7-70-0", "rdiag-7-71-0", "rdiag-8-80-1", "rdiag-9-90-0", "rdiag-mine", "theirs"];
    for name in names {
        std::fs::create_dir_all(folder.path().join(&instances).join(name)).unwrap();
    }
    stale::sweep(&host, &host.control().unwrap(), &instances);
    assert_eq!(host.subdirectories(&instances).unwrap(), ["rdiag-7-70-0", "rdiag-mine", "theirs"]);
}

#[test]
fn a_tree_that_is_no_running_kernel_is_not_traced() {
    let (_folder, host) = tree(&[(&format!("{TRACING}/available_events"), "sched:sched_switch\n")]);
    assert_eq!(place::find(&host), Ok(TRACING));
    assert_eq!(Instance::create(&host).unwrap_err().reason, Reason::NotVisible);
    let (_empty, host) = tree(&[("proc/uptime", "1 1\n")]);
    assert_eq!(place::find(&host).unwrap_err().reason, Reason::Absent);
}
