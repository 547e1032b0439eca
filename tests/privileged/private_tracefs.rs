//! Tracing where tracefs is mounted nowhere, as in containers and small images.

use std::process::Command;

use crate::support::{Need, beside_others, has, rdiag};

/// Without tracefs, in a mount namespace of its own: how often it is mounted before, while a probe runs, and afterwards; and the probe's code.
const WITHOUT: &str = r#"
umount -R /sys/kernel/tracing /sys/kernel/debug 2>/dev/null
count() { grep -c ' - tracefs ' /proc/self/mountinfo; }
before=$(count)
"$0" "$@" >/dev/null &
sleep 2
during=$(count)
wait $!
echo "$? $before $during $(count)"
"#;

/// The exit code of rdiag, and the mounts of tracefs that others see before, while and after it runs.
fn without_tracefs(args: &[&str]) -> String {
    let program = rdiag().get_program().to_owned();
    let output =
        Command::new("unshare").args(["--mount", "sh", "-c", WITHOUT]).arg(program).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
#[ignore = "needs: root, tracefs, unshare"]
fn events_are_traced_where_tracefs_is_not_mounted_and_nobody_sees_a_mount() {
    let _beside = beside_others();
    if !has(&[Need::Root, Need::Path("/sys/kernel/tracing/instances"), Need::Tool("unshare")]) {
        return;
    }
    let told = without_tracefs(&["probe", "events", "--param", "event=sched:sched_process_exit", "--duration", "4s"]);
    assert!(told.starts_with("0 0 0 0"), "{told}");
}

#[test]
#[ignore = "needs: root, tracefs, unshare"]
fn doctor_says_that_tracefs_is_mounted_where_it_is_needed_and_counts_the_probes_that_use_it() {
    let _beside = beside_others();
    if !has(&[Need::Root, Need::Path("/sys/kernel/tracing/instances"), Need::Tool("unshare")]) {
        return;
    }
    let script = "umount -R /sys/kernel/tracing /sys/kernel/debug 2>/dev/null; exec \"$0\" doctor";
    let program = rdiag().get_program().to_owned();
    let output = Command::new("unshare").args(["--mount", "sh", "-c", script]).arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("tracefs: not mounted on this host; each run as root mounts it at /sys/kernel/tracing"),
        "{said}"
    );
    assert!(!said.contains("tracefs is not mounted"), "{said}");
}
