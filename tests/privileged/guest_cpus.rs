//! CPUs, clocks and the kernel log of a guest: a run queue that the kernel counts by CPU, a CPU that is off, a clock that is slow to
//! read, a log that is overwritten before it can be read.

use super::guest_log::{KernelLog, Setting};
use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, has, live_report, live_report_every, skip, wait_until,
};

const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const CPU: &str = "/sys/devices/system/cpu/cpu1/online";

fn ready() -> bool {
    has(&[Need::Root, Need::Path("/proc/schedstat"), Need::Path(CPU), Need::Path(CLOCK), Need::Tool("taskset")])
}

fn is_slow(clock: &str) -> bool {
    ["hpet", "acpi_pm"].contains(&clock.trim())
}

/// Writes more records every half second than the kernel keeps.
const FLOOD: &str = "
import os, time
log = os.open('/dev/kmsg', os.O_WRONLY)
while True:
    for _ in range(1500): os.write(log, b'<7>rdiag: one of very many lines ' + b'.' * 150)
    time.sleep(0.5)
";

#[test]
#[ignore = "needs: root, a guest, python3"]
fn vm_a_cpu_that_is_off_a_clock_that_is_slow_and_a_log_that_is_overwritten_are_worth_knowing() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let available = std::fs::read_to_string(format!("{CLOCKS}/available_clocksource")).unwrap();
    let slow = available.split_whitespace().find(|clock| is_slow(clock)).unwrap().to_owned();
    let log = KernelLog::new();
    let off = (Setting::to(CPU, "0"), Setting::to(CLOCK, &slow));
    let flood = Load::start(1, "python3", &["-c", FLOOD]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let report = live_report(5);
    drop((flood, off, log));
    assert!(wait_until(20, || std::fs::read_to_string(CPU).is_ok_and(|text| text.trim() == "1")), "the CPU is back");

    let cpus = finding(&report, "cpu.utilization.offline", None);
    assert_eq!(cpus["status"], "info", "{cpus:#}");
    assert!(cpus["summary"].as_str().unwrap().starts_with("CPUs online: 1 of 2"), "{cpus:#}");
    let clock = finding(&report, "kernel.utilization.clocksource", Some(&slow));
    assert_eq!((&clock["status"], &clock["culprit"]["name"]), (&"info".into(), &slow.as_str().into()), "{clock:#}");
    let missed = finding(&report, "kernel.saturation.log", None);
    assert_eq!(missed["status"], "warning", "{missed:#}");
    assert!(missed["value"].as_f64().is_some_and(|records| records >= 1000.0), "{missed:#}");
    // One CPU has to do it all.
    assert_nothing_else_fired(&report, &["kernel.saturation.log", "cpu."]);
}

const LOOP: &str = "ulimit -t 60; while :; do :; done";

#[test]
#[ignore = "needs: root, a guest, taskset"]
fn vm_loops_on_one_cpu_wait_in_its_run_queue_while_the_other_idles() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let clock = std::fs::read_to_string(CLOCK).unwrap();
    let load = Load::start(4, "taskset", &["-c", "0", "sh", "-c", LOOP]);
    // What rdiag does itself is much for an emulated CPU: with fewer samples the other one has time to idle.
    let report = live_report_every("3s", 18);
    drop(load);

    let queue = finding(&report, "cpu.saturation.core", Some("0"));
    assert_eq!((&queue["status"], &queue["culprit"]["name"]), (&"warning".into(), &"sh".into()), "{queue:#}");
    assert!(queue["value"].as_f64().is_some_and(|share| (0.6..0.9).contains(&share)), "{queue:#}");
    // All CPUs are on, the clock is what it is, and the log was read to its end.
    assert_eq!(finding(&report, "cpu.utilization.offline", None)["status"], "ok");
    let status = if is_slow(&clock) { "info" } else { "ok" };
    assert_eq!(finding(&report, "kernel.utilization.clocksource", Some(clock.trim()))["status"], status);
    assert_eq!(finding(&report, "kernel.saturation.log", None)["status"], "ok");
    assert_nothing_else_fired(&report, &["cpu."]);
}

/// Waits until rdiag reads the log of the kernel, and two seconds more; then it has CPU 1 for itself as a real-time task, longer than any may.
const HOG: &str = "
import os, time
os.sched_setaffinity(0, {1})
def is_read():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            files = [os.readlink(f'/proc/{pid}/fd/{number}') for number in os.listdir(f'/proc/{pid}/fd')]
            if '/dev/kmsg' in files and open(f'/proc/{pid}/comm').read().startswith('rdiag'): return True
        except OSError: pass
while not is_read(): time.sleep(0.5)
time.sleep(2)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
end = time.monotonic() + 3
while time.monotonic() < end: pass
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
time.sleep(600)
";

#[test]
#[ignore = "needs: root, a guest, python3"]
fn vm_a_real_time_task_that_the_kernel_throttles_is_told_by_its_log() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("python3")]) {
        return;
    }
    let log = KernelLog::new();
    let hog = Load::start(1, "python3", &["-c", HOG]);
    let report = live_report_every("2s", 14);
    let is_told = KernelLog::all_lines().contains("RT throttling activated");
    drop((hog, log));
    // Since Linux 6.12 other tasks have a server of their own, and it is real-time tasks of groups that are throttled.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release.split(['.', '-']).filter_map(|number| number.parse().ok()).take(2).collect();
    if !is_told && numbers.as_slice() >= &[6, 12][..] {
        return skip("this kernel throttles no real-time task");
    }
    let throttled = finding(&report, "cpu.errors.real_time", None);
    assert_eq!((&throttled["status"], &throttled["value"]), (&"warning".into(), &1.0.into()), "{throttled:#}");
    // An emulated CPU may take long for an interrupt.
    assert_nothing_else_fired(&report, &["cpu.", "tasks.", "interrupts.errors.log"]);
}
