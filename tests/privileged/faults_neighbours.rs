//! The tables of neighbours, which all network namespaces of a host share: filled and overflowed from within one, and seen from the host.

use super::induced::Space;
use crate::support::{Need, alone, assert_nothing_else_fired, finding, has, live_report_every, wait_until};

const NEEDS: &[Need] =
    &[Need::Root, Need::Tool("ip"), Need::Tool("python3"), Need::Path("/proc/sys/net/ipv6/neigh/default/gc_thresh3")];

/// Two thousand addresses a second of which none answers.
const SCAN: &str = "
import ctypes, socket, time
number = 0
for turn in range(1200):
    if turn == 20: ctypes.CDLL(None).prctl(15, b'begun')
    probe = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); probe.setblocking(False)
    for _ in range(100):
        number = number % 60000 + 1
        try: probe.sendto(b'x', (f'fd09::{number + 9:x}', 9))
        except OSError: pass
    probe.close(); time.sleep(0.05)
";

/// So many datagrams at a time to each of so many addresses that do not answer, twenty times a second.
const SILENT: &str = "
import ctypes, socket, sys, time
ctypes.CDLL(None).prctl(15, b'begun')
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sender.setblocking(False)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4000000)
while True:
    for address in range(int(sys.argv[2])):
        for _ in range(int(sys.argv[1])):
            try: sender.sendto(bytes(100), (f'10.9.8.{address + 100}', 9))
            except OSError: pass
    time.sleep(0.05)
";

/// Entries of the IPv6 table.
fn neighbours6() -> u64 {
    let text = std::fs::read_to_string("/proc/net/stat/ndisc_cache").unwrap();
    u64::from_str_radix(text.lines().nth(1).unwrap().split_whitespace().next().unwrap(), 16).unwrap()
}

/// Whether no neighbour was asked for without success for as long as the kernel asks.
fn no_question_ends() -> bool {
    let unanswered = || {
        let counts = ["arp_cache", "ndisc_cache"].map(|table| {
            let text = std::fs::read_to_string(format!("/proc/net/stat/{table}")).unwrap();
            let at = text.split_whitespace().position(|column| column == "res_failed").unwrap();
            let counts = text.lines().skip(1).map(|line| line.split_whitespace().nth(at).unwrap().to_owned());
            counts.collect::<Vec<_>>()
        });
        counts.concat()
    };
    let before = unanswered();
    std::thread::sleep(std::time::Duration::from_millis(3500));
    before == unanswered()
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3, IPv6"]
fn a_scan_of_a_network_overflows_the_table_of_neighbours() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let space = Space::wired("scan");
    space.ip("-6 address add fd09::1/64 dev v0 nodad");
    let load = space.load(SCAN, &[]);
    let report = live_report_every("400ms", 2);
    drop((load, space));
    assert!(wait_until(30, || neighbours6() < 512), "the table is as before");
    let overflow = finding(&report, "network.errors.neighbour", None);
    assert_eq!(overflow["status"], "critical", "{overflow:#}");
    assert!(overflow["value"].as_f64().unwrap() > 100.0, "{overflow:#}");
    let table = finding(&report, "network.utilization.neighbours", Some("IPv6"));
    assert_eq!(table["status"], "warning", "{table:#}");
    assert_eq!(table["culprit"]["name"], "IPv6", "{table:#}");
    assert_eq!(finding(&report, "network.utilization.neighbours", Some("IPv4"))["status"], "ok");
    assert_nothing_else_fired(&report, &["network.errors.neighbour", "network.utilization.neighbours", "cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, python3, IPv6"]
fn packets_for_a_neighbour_that_does_not_answer_are_only_worth_knowing() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    // Of namespaces that are gone the last questions end within three seconds, and count for the whole host.
    assert!(wait_until(60, no_question_ends), "the host itself asks for a neighbour that does not answer");
    let space = Space::wired("silent");
    for address in ["10.9.8.100", "10.9.8.101"] {
        space.ip(&format!("neighbour add {address} lladdr 02:00:00:00:00:03 dev v0 nud permanent"));
    }
    let known = space.load(SILENT, &["1", "2"]);
    let report = live_report_every("400ms", 5);
    drop(known);
    let quiet = finding(&report, "network.errors.neighbour", None);
    assert_eq!((quiet["status"].as_str(), quiet["value"].as_f64()), (Some("ok"), Some(0.0)), "{quiet:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
    for address in ["10.9.8.100", "10.9.8.101"] {
        space.ip(&format!("neighbour delete {address} dev v0"));
    }
    // Some hundred packets may wait for each neighbour: a few for each of two that are off are only lost when it was asked three times.
    let few = space.load(SILENT, &["1", "2"]);
    let report = live_report_every("400ms", 5);
    drop(few);
    let failed = finding(&report, "network.errors.neighbour", None);
    assert_eq!((failed["status"].as_str(), failed["value"].as_f64()), (Some("info"), Some(0.0)), "{failed:#}");
    let told = failed["summary"].as_str().unwrap();
    assert!(
        told.contains("without success for the address of a neighbour") && told.trim_end().ends_with(" times."),
        "{failed:#}"
    );
    assert_nothing_else_fired(&report, &["network.errors.neighbour", "cpu."]);
    let many = space.load(SILENT, &["100", "1"]);
    let report = live_report_every("400ms", 2);
    drop((many, space));
    let discarded = finding(&report, "network.errors.neighbour", None);
    assert_eq!((discarded["status"].as_str(), discarded["value"].as_f64()), (Some("info"), Some(0.0)), "{discarded:#}");
    assert!(
        discarded["summary"].as_str().unwrap().ends_with(" since too many waited for the address of a neighbour."),
        "{discarded:#}"
    );
    assert_nothing_else_fired(&report, &["cpu."]);
}
