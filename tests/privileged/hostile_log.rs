//! The kernel's log, in which programs write and which quotes what users choose: neither is a failure of the kernel.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Load, Need, alone, finding, has, live_report, skip};

/// Rules that count lines of the log within the window, and a line that each would count were it the kernel's.
const LINES: [(&str, &str); 8] = [
    ("kernel.errors.bug", "BUG: kernel NULL pointer dereference, address: 0000000000000008"),
    ("kernel.errors.crash", "rdiag-test[4242]: segfault at 0 ip 0 sp 0 error 4"),
    ("kernel.errors.hung_task", "INFO: task rdiag-test:812 blocked for more than 120 seconds."),
    ("disk.errors", "blk_update_request: I/O error, dev rdiagtest, sector 4711 op 0x0:(READ) flags 0x0"),
    ("filesystem.errors", "EXT4-fs error (device rdiagtest): ext4_lookup:1855: inode #2: comm ls: deleted inode"),
    ("hardware.errors.log", "mce: [Hardware Error]: event severity: fatal"),
    ("network.errors.device_log", "e1000e 0000:00:1f.6 rdiagtest: NIC Link is Down"),
    ("memory.errors.page_allocation", "rdiag-test: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL)"),
];

/// What the rules found, and by which lines.
fn found(report: &Value) -> Vec<(&'static str, Value, Value)> {
    let of = |(id, _): &(&'static str, &str)| {
        let found = finding(report, id, None);
        (*id, found["value"].clone(), found["evidence"].clone())
    };
    LINES.iter().map(of).collect()
}

#[test]
#[ignore = "needs: root"]
fn no_line_of_a_program_passes_for_one_of_the_kernel_whatever_it_says_of_itself() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/dev/kmsg")]) {
        return;
    }
    let before = found(&live_report(2));
    let writer = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(600));
        // The kernel takes ten in five seconds.
        for (number, (_, line)) in LINES.iter().enumerate() {
            // Facility 0 is the kernel's, also as the lowest bits of a larger number; and a record within a record.
            let forged = match number % 3 {
                0 => format!("<2>{line}\n"),
                1 => format!("<2050>{line}\n"),
                _ => format!("x\n2,1,1,-;{line}\n"),
            };
            let mut log = std::fs::OpenOptions::new().write(true).open("/dev/kmsg").unwrap();
            log.write_all(forged.as_bytes()).unwrap();
        }
    });
    let after = found(&live_report(2));
    writer.join().unwrap();
    let log = String::from_utf8_lossy(&Command::new("dmesg").output().unwrap().stdout).into_owned();
    let missing: Vec<_> = LINES.iter().filter(|(_, line)| !log.contains(line)).collect();
    assert!(missing.is_empty(), "the kernel did not take {missing:?}");
    assert_eq!(after, before);
}

#[test]
#[ignore = "needs: root, python3"]
fn a_task_that_is_called_like_a_line_of_the_log_crashes_under_its_name_and_is_no_other_failure() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/usr/bin/python3"), Need::Tool("setpriv")]) {
        return;
    }
    if std::fs::read_to_string("/proc/sys/debug/exception-trace").unwrap_or_default().trim() != "1" {
        return skip("debug.exception-trace is off: the kernel does not log crashes");
    }
    let before = found(&live_report(2));
    // No more than 15 characters: what is told of an interface, a CPU and a disk may be that short.
    let crash = "import ctypes, sys, time\ntime.sleep(1)\n\
                 ctypes.CDLL(None).prctl(15, sys.argv[1].encode())\nctypes.string_at(0)";
    let names = ["x: Link is Down", "BUG: x", "EDAC MC0: UE x"];
    let as_user = ["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", crash];
    let loads: Vec<Load> =
        names.iter().map(|name| Load::start(1, "setpriv", &[&as_user[..], &[*name]].concat())).collect();
    let report = live_report(4);
    drop(loads);
    let crashes = finding(&report, "kernel.errors.crash", None);
    assert_eq!(crashes["value"], 3.0, "{crashes:#}");
    let told = crashes.to_string();
    for name in names {
        assert!(told.contains(&format!("{name} (pid ")) || told.contains(&format!("{name}[")), "{name}: {crashes:#}");
    }
    let others = |found: Vec<(&'static str, Value, Value)>| {
        found.into_iter().filter(|(id, ..)| *id != "kernel.errors.crash").collect::<Vec<_>>()
    };
    assert_eq!(others(found(&report)), others(before));
}
