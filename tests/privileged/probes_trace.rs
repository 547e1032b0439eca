//! The kernel's own tracing, in a private instance: exact counts, filters, and nothing left behind.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::tracefs::{INSTANCES, can_trace, instance_of, instances, kill_with_its_helper};
use crate::support::{Load, alone, rdiag, wait_until};

/// All readings of a run that succeeded, and what was told. What counts is what is seen, not what that costs.
pub(super) fn probe(args: &[&str]) -> (Vec<Value>, String) {
    let fixed = ["probe", "events", "--format", "json"];
    let budget: &[&str] = if args.contains(&"--budget") { &[] } else { &["--budget", "100%"] };
    let output = rdiag().args(fixed).args(budget).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {told}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), told)
}

pub(super) fn rows<'r>(readings: &'r [Value], kind: &'r str) -> impl Iterator<Item = &'r Vec<Value>> {
    let outputs = readings.iter().flat_map(|reading| reading["outputs"].as_array().unwrap());
    let rows = outputs.filter_map(move |output| output.get(kind)).flat_map(|table| table["rows"].as_array().unwrap());
    rows.filter_map(|row| row["cells"].as_array())
}

pub(super) fn count(readings: &[Value], event: &str) -> f64 {
    let of_event = rows(readings, "table").filter(|cells| cells.first().is_some_and(|cell| cell == event));
    of_event.filter_map(|cells| cells.get(1)?.as_f64()).sum()
}

fn lost(readings: &[Value]) -> u64 {
    let lost = readings.iter().filter_map(|reading| reading.get("lost")?.as_object());
    lost.flat_map(|lost| lost.values().filter_map(Value::as_u64)).sum()
}

/// Opens a file with a mode that nobody else uses, so many times.
pub(super) fn opens(times: u32) -> String {
    format!("import os\nfor _ in range({times}): os.close(os.open('/dev/null', os.O_CREAT, 0o123))")
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_as_many_events_are_seen_as_a_filter_lets_through() {
    if !can_trace() {
        return;
    }
    let program = opens(700);
    let filter = format!("filter=mode == {}", 0o123);
    let args = ["--param", "event=syscalls:sys_enter_openat", "--param", &filter, "--", "python3", "-c", &program];
    let (readings, told) = probe(&args);
    assert_eq!(lost(&readings), 0, "{told}");
    assert_eq!(count(&readings, "syscalls:sys_enter_openat"), 700.0, "{told}");
    let shown: Vec<_> = rows(&readings, "events").collect();
    assert_eq!(shown.len(), 700);
    for cells in shown {
        // The kernel remembers the names of few tasks.
        assert!(cells[2] == "python3" || cells[2].is_null(), "{cells:?}");
        assert_eq!(cells[4], "syscalls:sys_enter_openat");
        assert!((0.0..120.0).contains(&cells[0].as_f64().unwrap()), "{cells:?}");
    }
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_only_the_command_and_what_it_starts_is_seen() {
    if !can_trace() {
        return;
    }
    let _other = Load::start(1, "sh", &["-c", "while :; do /bin/true; done"]);
    let (readings, told) = probe(&["--", "sh", "-c", "/bin/true; /bin/echo >/dev/null; (sleep 0); exit 0"]);
    let executed: Vec<&str> = rows(&readings, "events")
        .filter(|cells| cells[4] == "sched:sched_process_exec")
        .filter_map(|cells| cells[2].as_str())
        .collect();
    assert_eq!(executed, ["sh", "true", "echo", "sleep"], "{told}");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn lines_beyond_the_limit_are_counted_and_no_more_are_shown() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let program = opens(300);
    let filter = format!("filter=mode == {}", 0o123);
    let args = [
        "--param",
        "event=syscalls:sys_enter_openat",
        "--param",
        &filter,
        "--param",
        "lines=25",
        "--",
        "python3",
        "-c",
        &program,
    ];
    let (readings, _) = probe(&args);
    assert_eq!(rows(&readings, "events").count(), 25);
    assert_eq!((count(&readings, "syscalls:sys_enter_openat"), lost(&readings)), (300.0, 0));
    let others = readings.iter().filter_map(|reading| reading["outputs"][0]["events"]["others"].as_u64());
    assert_eq!(others.sum::<u64>(), 275);
    let output = rdiag().args(["probe", "events"]).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("275 more events are not shown").count(), 1, "{text}");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn events_that_a_small_buffer_cannot_keep_are_counted_as_lost() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let program = opens(20_000);
    let filter = format!("filter=mode == {}", 0o123);
    let args = [
        "--param",
        "event=syscalls:sys_enter_openat",
        "--param",
        &filter,
        "--param",
        "buffer_kb=4",
        "--param",
        "lines=0",
        "--",
        "python3",
        "-c",
        &program,
    ];
    let (readings, _) = probe(&args);
    let full: u64 = readings.iter().filter_map(|reading| reading["lost"]["the buffer was full"].as_u64()).sum();
    let seen = count(&readings, "syscalls:sys_enter_openat");
    assert!(full > 0, "{seen}");
    assert_eq!(seen + full as f64, 20_000.0);
}

#[test]
#[ignore = "needs: root, tracefs"]
fn a_flood_of_events_stops_the_log_at_its_budget_and_what_was_seen_is_kept() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let before = instances();
    let _flood = Load::start(1, "dd", &["if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
    let args = ["--param", "event=raw_syscalls:sys_enter", "--param", "lines=5", "--duration", "20s"];
    let fixed = ["probe", "events", "--format", "json", "--budget", "1%"];
    let output = rdiag().args(fixed).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{told}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let readings: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = readings.last().unwrap();
    let notes = last["notes"].to_string();
    assert!(notes.contains("stopped itself after ") && notes.contains("and the budget is 1.0%"), "{notes}");
    assert!(notes.contains("events per second at") && notes.contains("as tried at the start"), "{notes}");
    let seconds: f64 = readings.iter().map(|reading| reading["seconds"].as_f64().unwrap()).sum();
    assert!(seconds < 10.0, "{told}");
    // Whatever was paid for was seen or is said to be lost.
    let seen = count(&readings, "raw_syscalls:sys_enter") + lost(&readings) as f64;
    let cost = &last["cost"];
    assert_eq!(cost["of"], "events");
    assert!(cost["runs"].as_f64().unwrap() > 10_000.0 && cost["runs"].as_f64().unwrap() <= seen, "{cost}: {seen}");
    assert_eq!(rows(&readings, "events").count(), 5);
    assert_eq!(instances(), before, "nothing is left");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn what_is_killed_leaves_an_instance_that_the_next_start_removes_and_no_other() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    let start = || {
        let mut command = Command::new(binary);
        command
            .args(["probe", "events", "--param", "event=sched:sched_switch"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let (mut killed, mut living) = (start(), start());
    assert!(wait_until(20, || instance_of(killed.id()).is_some() && instance_of(living.id()).is_some()));
    kill_with_its_helper(&mut killed);
    assert!(instance_of(killed.id()).is_some(), "the kernel keeps what a killed process has made");
    let (_, _) = probe(&["--duration", "200ms"]);
    assert_eq!(instance_of(killed.id()), None);
    assert!(instance_of(living.id()).is_some(), "somebody else's measurement goes on");
    let enabled = format!("{INSTANCES}/{}/events/sched/sched_switch/enable", instance_of(living.id()).unwrap());
    assert_eq!(std::fs::read_to_string(enabled).unwrap().trim(), "1");
    assert!(Command::new("kill").args(["-INT", &living.id().to_string()]).status().unwrap().success());
    living.wait().unwrap();
    assert_eq!(instance_of(living.id()), None);
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_a_filter_that_the_kernel_rejects_is_told_in_its_own_words_and_nothing_is_traced() {
    if !can_trace() {
        return;
    }
    let before = instances();
    let args = ["probe", "events", "--param", "event=sched:sched_switch", "--param", "filter=prev_pid > 0 && bad == 1"];
    let output = rdiag().args(args).args(["--duration", "300ms"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(output.stdout.is_empty());
    assert!(told.contains("rejects the filter for sched:sched_switch: Field not found"), "{told}");
    // The caret of some kernels is at the field, of others behind it.
    let is_at = |place: &str| told.contains(&format!("Field not found, at {place:?} in \"prev_pid > 0 && bad == 1\""));
    assert!(is_at("bad == 1") || is_at("== 1"), "{told}");
    // One of them has the field and takes the filter, and is not switched on either.
    let args = [
        "probe",
        "events",
        "--param",
        "event=sched:sched_switch,sched:sched_wakeup",
        "--param",
        "filter=prev_pid >= 0",
    ];
    let output = rdiag().args(args).args(["--duration", "300ms"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && output.stdout.is_empty(), "{told}");
    assert!(told.contains("rejects the filter for sched:sched_wakeup: Field not found"), "{told}");
    assert_eq!(instances(), before, "nothing is left");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn an_event_that_does_not_exist_is_told_with_what_was_meant() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    for (event, says) in [
        ("sched:sched_swich", "did you mean `sched:sched_switch`"),
        ("sched_swich", "did you mean `sched_switch`"),
        ("no_such:*", "lists what there is"),
        ("*:*", "at most 1000"),
    ] {
        let output = rdiag().args(["probe", "events", "--param", &format!("event={event}")]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(says), "{event}: {told}");
    }
}

#[test]
#[ignore = "needs: root, tracefs"]
fn a_task_with_line_breaks_in_its_name_is_one_task() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    // The kernel remembers the name of a task when it leaves the CPU after an event.
    let named = "import ctypes, time\nctypes.CDLL(None).prctl(15, b'a\\nb-1 [0] x]')\n";
    let program = [named, &opens(1), "\ntime.sleep(0.1)\n", &opens(3)].concat();
    let filter = format!("filter=mode == {}", 0o123);
    let args = ["--param", "event=syscalls:sys_enter_openat", "--param", &filter, "--", "python3", "-c", &program];
    let (readings, _) = probe(&args);
    let names: Vec<&Value> = rows(&readings, "events").map(|cells| &cells[2]).skip(1).collect();
    assert_eq!(names, ["a\nb-1 [0] x]"; 3]);
    let output = rdiag().args(["probe", "events"]).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().filter(|line| line.contains("b-1 [0] x]")).count() >= 3, "{text}");
    assert!(text.contains("Number of events"), "{text}");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_marks_of_a_program_stand_around_its_critical_section() {
    if !can_trace() {
        return;
    }
    // rdiag is the parent of the command, and has its process id in the name of its instance.
    let program = "import glob, os
marker = open(glob.glob(f'/sys/kernel/tracing/instances/rdiag-{os.getppid()}-*/trace_marker')[0], 'w', buffering=1)
marker.write('begin\\n')
os.close(os.open('/dev/null', os.O_CREAT, 0o123))
marker.write('end\\n')";
    let filter = format!("filter=mode == {}", 0o123);
    let args = ["--param", "event=syscalls:sys_enter_openat", "--param", &filter, "--", "python3", "-c", program];
    let (readings, told) = probe(&args);
    let seen: Vec<(&str, &str)> = rows(&readings, "events")
        .map(|cells| (cells[4].as_str().unwrap(), cells[6].as_str().unwrap()))
        .map(|(event, fields)| (event, if event == "mark" { fields } else { "" }))
        .collect();
    assert_eq!(seen, [("mark", "begin"), ("syscalls:sys_enter_openat", ""), ("mark", "end")], "{told}");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn events_of_one_cpu_by_a_counting_clock() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let args =
        ["--param", "event=sched:sched_switch", "--param", "cpus=0", "--param", "clock=counter", "--duration", "500ms"];
    let (readings, told) = probe(&args);
    let all: Vec<_> = rows(&readings, "events").collect();
    assert!(!all.is_empty(), "{told}");
    assert!(all.iter().all(|cells| cells[1] == "0"), "{all:?}");
    let times: Vec<f64> = all.iter().filter_map(|cells| cells[0].as_f64()).collect();
    assert!(times.is_sorted() && times.iter().all(|time| time.fract() == 0.0), "{times:?}");
    let output = rdiag().args(["probe", "events", "--param", "cpus=9999"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs: root, tracefs"]
fn interrupts_softirqs_and_switches_are_logged_with_the_state_of_the_cpu_in_words() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let args = ["--param", "event=irq:softirq_entry,irq:irq_handler_entry,sched:*", "--duration", "1s"];
    let (readings, told) = probe(&args);
    let states = |event: &str| -> BTreeSet<&str> {
        rows(&readings, "events").filter(|cells| cells[4] == event).filter_map(|cells| cells[5].as_str()).collect()
    };
    for (event, word) in [
        ("irq:softirq_entry", "softirq"),
        ("irq:irq_handler_entry", "hard interrupt"),
        ("sched:sched_switch", "interrupts off"),
    ] {
        let states = states(event);
        assert!(states.iter().all(|state| state.contains(word)), "{event}: {states:?}");
        // Which devices interrupt within a second is up to them.
        assert!(event == "irq:irq_handler_entry" || !states.is_empty(), "{event}: {told}");
    }
}
