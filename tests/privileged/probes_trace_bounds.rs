//! Where a log of the kernel's own tracing begins and ends: conditions, and the last events before one.

use serde_json::Value;

use super::probes_trace::{count, opens, probe, rows};
use super::tracefs::{can_trace, instances};
use crate::support::{alone, rdiag, skip};

#[test]
#[ignore = "needs: root, tracefs"]
fn the_last_events_before_a_condition_are_shown_if_asked_for() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let args = ["--param", "event=syscalls:sys_enter_openat", "--param", "lines=3", "--param", "last=true", "--param"];
    let stop = format!("stop_when=syscalls:sys_enter_openat if mode == {}", 0o124);
    let program =
        "import os\nfor mode in [*range(0o200, 0o300), 0o124, 0o301]: os.close(os.open('/dev/null', os.O_CREAT, mode))";
    let (readings, told) = probe(&[&args[..], &[&stop, "--", "python3", "-c", program]].concat());
    let shown: Vec<&str> = rows(&readings, "events").map(|cells| cells[6].as_str().unwrap()).collect();
    assert_eq!(shown.len(), 3, "{told}");
    // Whether the event that ends the log is part of it, is up to the kernel.
    assert!(
        shown[2].contains("mode: 124") || shown[2].contains("mode: 0x54") || shown[2].contains("0277"),
        "{shown:?}"
    );
}

/// Opens with the known mode before, between and after two calls that nobody else makes: of openat with another mode, and of mkdirat.
fn in_three_parts() -> String {
    let end = "\nroot = os.open('/', 0)\ntry: os.mkdir('nonexistent/x', 0o705, dir_fd=root)\nexcept OSError: pass\n";
    [&opens(10), "\nos.close(os.open('/dev/null', os.O_CREAT, 0o124))\n", &opens(20), end, &opens(30)].concat()
}

fn switched_on() -> String {
    std::fs::read_to_string("/sys/kernel/tracing/tracing_on").unwrap()
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_the_log_begins_and_ends_where_the_conditions_hold_and_other_tracing_goes_on() {
    if !can_trace() {
        return;
    }
    let before = switched_on();
    let program = in_three_parts();
    let filter = format!("filter=mode == {}", 0o123);
    let start = format!("start_when=syscalls:sys_enter_openat if mode == {}", 0o124);
    let stop = format!("stop_when=syscalls:sys_enter_mkdirat if mode == {}", 0o705);
    let tried = rdiag().args(["probe", "events", "--duration", "100ms", "--param", &start]).output().unwrap();
    if String::from_utf8_lossy(&tried.stderr).contains("does not compare the fields of system calls") {
        assert_eq!(tried.status.code(), Some(3));
        return skip("this kernel does not compare the fields of system calls while nothing is traced");
    }
    for (bounds, expected) in [
        (&[&start, &stop][..], 20.0),
        (&[&start], 50.0),
        (&[&stop], 30.0),
        (&[&"start_when=syscalls:sys_enter_mkdirat if mode == 1".to_owned()], 0.0),
    ] {
        let mut args = vec!["--param", "event=syscalls:sys_enter_openat", "--param", &filter];
        args.extend(bounds.iter().flat_map(|bound| ["--param", bound.as_str()]));
        let (readings, told) = probe(&[&args[..], &["--", "python3", "-c", &program]].concat());
        assert_eq!(count(&readings, "syscalls:sys_enter_openat"), expected, "{bounds:?}: {told}");
        let notes: Vec<&str> = readings
            .iter()
            .filter_map(|reading| reading["notes"].as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let says = |text: &str| notes.iter().filter(|note| note.starts_with(text)).count();
        let is_met = expected > 0.0;
        assert_eq!(
            says("the log begins with: syscalls:sys_enter_openat"),
            usize::from(is_met && bounds[0] == &start),
            "{notes:?}"
        );
        assert_eq!(
            says("the log ends with: syscalls:sys_enter_mkdirat"),
            usize::from(bounds.contains(&&stop)),
            "{notes:?}"
        );
        assert!(is_met || says("nothing is logged before: ") == 1, "{notes:?}");
    }
    assert_eq!(switched_on(), before, "the kernel's own tracing was left alone");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_the_log_begins_at_a_function_where_the_kernel_lets_one_choose_functions() {
    if !can_trace() {
        return;
    }
    let program = in_three_parts();
    let filter = format!("filter=mode == {}", 0o123);
    let args =
        ["--param", "event=syscalls:sys_enter_openat", "--param", &filter, "--param", "start_when=__x64_sys_mkdirat"];
    let args = [&args[..], &["--", "python3", "-c", &program]].concat();
    if std::fs::read_to_string("/sys/kernel/tracing/set_ftrace_filter").is_err() {
        let output = rdiag().args(["probe", "events"]).args(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{told}");
        assert!(told.contains("does not take __x64_sys_mkdirat as a condition"), "{told}");
        return skip("in part: this kernel lets nobody choose functions");
    }
    let (readings, told) = probe(&args);
    assert_eq!(count(&readings, "syscalls:sys_enter_openat"), 30.0, "{told}");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_a_condition_that_the_kernel_rejects_or_does_not_know_is_told_and_nothing_is_traced() {
    if !can_trace() {
        return;
    }
    let before = instances();
    for (condition, code, says) in [
        // Linux 6.1 does not say what is wrong with it.
        (
            "start_when=sched:sched_switch if bad == 1",
            3,
            "the kernel does not take sched:sched_switch if bad == 1 as a condition: ",
        ),
        ("stop_when=sched:sched_swich if prev_pid == 1", 2, "did you mean `sched:sched_switch`"),
        ("stop_when=sched:sched_switch:traceon", 2, "nothing to wait for"),
        ("stop_when=vfs_read if count == 1", 2, "cannot be compared"),
    ] {
        let args = ["probe", "events", "--duration", "300ms", "--param", condition];
        let output = rdiag().args(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(says), "{condition}: {told}");
    }
    assert_eq!(instances(), before, "nothing is left");
}
