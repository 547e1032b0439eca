//! What is a sample of a profile, and whose: filters, events, CPUs that come back, interrupts while a CPU is idle.

use serde_json::Value;

use super::splitter::*;
use crate::support::{Load, Need, alone, has, path, rdiag, skip, wait_until};

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_filter_leaves_others_out_and_a_command_takes_what_it_starts_along() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let loads = Load::start(2, &text_of(&binary), &[]);
    let one = loads.pids()[0];
    let result = profile(&["--pid", &one.to_string(), "--duration", "1s"]);
    let pids: Vec<&Value> =
        rows(&result, "processes").iter().map(|row| cell(&result, "processes", row, "pid")).collect();
    assert_eq!(pids, [&Value::from(one.to_string())]);
    let both = profile(&["--comm", "splitter", "--duration", "1s"]);
    assert_eq!(rows(&both, "processes").len(), 2);
    let all = profile(&["--duration", "1s"]);
    assert!(rows(&all, "processes").len() >= 2 && !all["outputs"].to_string().contains("\"rdiag\""), "its own samples");
    drop(loads);
    let script = format!("timeout 1 {} & wait", text_of(&binary));
    let command = profile(&["--param", "hz=499", "--", "sh", "-c", &script]);
    assert!(share(&command, "part_seventy") > 0.4, "{:#?}", rows(&command, "functions"));
}

/// Touches 2000 pages for the first time, and lives long enough to be asked for names.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) void touches_pages(volatile char *pages) { for (int i = 0; i < 2000; i++) pages[i * 4096L] = 1; }
int main(void)
{
	char *pages = mmap(0, 2000 * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(pages, 2000 * 4096L, MADV_NOHUGEPAGE);
	touches_pages(pages);
	usleep(800000);
	return 0;
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn every_event_is_a_sample_where_the_period_is_one_and_its_number_is_right() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = compiled(FAULTS, "faults.c", &["cc", "-O1", "-g", "-fno-omit-frame-pointer"]);
    let result = profile(&["--param", "event=page-faults", "--param", "period=1", "--", &text_of(&binary)]);
    let first = &rows(&result, "functions")[0];
    assert_eq!(cell(&result, "functions", first, "name"), "touches_pages", "{:#?}", rows(&result, "functions"));
    assert_eq!(cell(&result, "functions", first, "value"), 2000.0, "{first}");
    assert_eq!(table(&result, "functions")["columns"][1]["unit"], "count");
}

#[test]
#[ignore = "needs: root, eBPF, a CPU that can go offline"]
fn vm_a_cpu_that_comes_back_is_sampled_again() {
    let _alone = alone();
    let switch = "/sys/devices/system/cpu/cpu1/online";
    if std::env::var_os("RDIAG_BINARY").is_none() {
        return skip("needs a guest whose CPUs are its own");
    }
    if !has(&[Need::Root, Need::Path("/sys/devices/system/cpu/cpu1/online"), Need::Tool("taskset"), Need::Tool("cc")]) {
        return;
    }
    let (_folder, binary) = c_program();
    std::fs::write(switch, "0").unwrap();
    // An emulated machine needs seconds to attach.
    let script = format!("sleep 6; echo 1 >{switch}; sleep 1; exec taskset -c 1 {}", text_of(&binary));
    let load = Load::start(1, "sh", &["-c", &script]);
    let result = profile(&["--duration", "14s"]);
    drop(load);
    std::fs::write(switch, "1").unwrap();
    assert!(notes(&result).contains("CPU 1 came online meanwhile"), "{}", notes(&result));
    assert!(share(&result, "part_seventy") > 0.05, "{:#?}", rows(&result, "functions"));
}

#[test]
#[ignore = "needs: root, eBPF"]
fn events_and_parameters_that_do_not_exist_are_told() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    for (param, says) in [
        ("event=cpu-clok", "cpu-clok"),
        ("stacks=all", "user, kernel, both"),
        ("hz=0", "between 1 and"),
        ("event=a:b", "a"),
    ] {
        let output = rdiag().args(["probe", "profile", "--duration", "100ms", "--param", param]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says), "{param}: {said}");
    }
    if path("/sys/bus/event_source/devices/cpu").exists() {
        return skip("in part: the refusal of cycles, as this machine counts them");
    }
    let output = rdiag().args(["probe", "profile", "--duration", "100ms", "--param", "event=cycles"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(3)
            && said.matches("cannot count cycles").count() == 1
            && said.contains("cpu-clock"),
        "{said}"
    );
}

/// Datagrams in a network of its own that the last CPU sends and the first takes in.
const STEERED: &str = "mount -t sysfs none /sys && ip link set lo up && echo 1 >/sys/class/net/lo/queues/rx-0/rps_cpus && \
     exec taskset -c 1 python3 -c \"$0\"";
const FLOOD: &str = "import socket, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.bind(('127.0.0.1', 0))
ends = time.time() + 60
while time.time() < ends: to.sendto(b'x' * 100, to.getsockname())";

#[test]
#[ignore = "needs: root, eBPF, two CPUs, ip, taskset, unshare, a quiet machine"]
fn what_interrupts_do_while_a_cpu_is_idle_is_work_and_no_idling() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("taskset"), Need::Path("/sys/devices/system/cpu/cpu1")]) {
        return;
    }
    let load = Load::start(1, "unshare", &["--net", "--mount", "sh", "-c", STEERED, FLOOD]);
    let comm = format!("/proc/{}/comm", load.pids()[0]);
    assert!(wait_until(10, || std::fs::read_to_string(&comm).is_ok_and(|name| name == "python3\n")));
    let result = profile(&["--param", "hz=497", "--param", "top=1000", "--duration", "4s"]);
    let swapper = rows(&result, "processes").iter().find(|row| cell(&result, "processes", row, "name") == "swapper");
    let share = swapper.map(|row| cell(&result, "processes", row, "share").as_f64().unwrap());
    assert!(share.is_some_and(|share| share > 0.05), "{:#?}", rows(&result, "processes"));
    let names: Vec<&str> =
        rows(&result, "functions").iter().filter_map(|row| cell(&result, "functions", row, "name").as_str()).collect();
    let idling = |name: &&&str| name.contains("safe_halt") || name.contains("idle_enter") || name.contains("mwait");
    assert_eq!(names.iter().find(idling), None, "{names:?}");
    assert!(names.iter().any(|name| name.contains("udp")), "{names:?}");
}
