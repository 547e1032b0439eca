//! Packets dropped by a queueing discipline, in a network namespace that the test creates and removes.

use std::process::Command;

use serde_json::Value;

use crate::support::{Load, Need, assert_nothing_else_fired, beside_others, findings, has, rdiag, report_told};

/// 2000 datagrams a second of 1000 bytes to 10.9.7.2, each port in turn.
const DATAGRAMS: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for i in range(20):
        for port in sys.argv[2:]:
            try: s.sendto(b'x' * 1000, (sys.argv[1], int(port)))
            except OSError: pass
    time.sleep(0.01)
";

/// A network namespace with a pair of interfaces, e0 and e1, whose other end takes packets and answers none.
struct Wired {
    name: String,
}

impl Wired {
    fn shaped(name: &str, shape: &[&str]) -> Self {
        let wired = Self { name: format!("rdiag-{name}-{}", std::process::id()) };
        let name = wired.name.clone();
        let neighbour =
            ["neighbour", "add", "10.9.7.2", "lladdr", "02:00:00:00:00:02", "dev", "e0", "nud", "permanent"];
        wired.ip(&["netns", "add", &name]);
        wired.ip(&["-n", &name, "link", "add", "e0", "type", "veth", "peer", "name", "e1"]);
        wired.ip(&["-n", &name, "address", "add", "10.9.7.1/24", "dev", "e0"]);
        wired.ip(&["-n", &name, "link", "set", "e0", "up"]);
        wired.ip(&["-n", &name, "link", "set", "e1", "up"]);
        wired.ip(&[&["-n", &name][..], &neighbour].concat());
        for command in shape {
            let words: Vec<&str> = command.split(' ').collect();
            wired.ip(&[&["netns", "exec", &name, "tc"][..], &words].concat());
        }
        wired
    }

    fn ip(&self, args: &[&str]) {
        let output = Command::new("ip").args(args).output().unwrap();
        assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn sender(&self, ports: &[&str]) -> Load {
        let sender = ["netns", "exec", &self.name, "python3", "-c", DATAGRAMS, "10.9.7.2"];
        Load::start(1, "ip", &[&sender[..], ports].concat())
    }

    fn report(&self, seconds: u32) -> Value {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(rdiag().get_program());
        command.args(["run", "use-method", "--format", "json", "--out", "-", "--duration", &format!("{seconds}s")]);
        let output = command.output().unwrap();
        report_told(&output)
    }
}

impl Drop for Wired {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
    }
}

const FOR_SHAPING: [Need; 4] = [Need::Root, Need::Tool("ip"), Need::Tool("tc"), Need::Tool("python3")];

/// The finding about what this device's queueing discipline dropped.
fn dropped<'r>(report: &'r Value, instance: &str) -> &'r Value {
    let all = findings(report, "network.saturation.qdisc");
    let found = all.iter().find(|finding| finding["instance"] == instance);
    found.unwrap_or_else(|| panic!("{instance} is not among {all:#?}"))
}

#[test]
#[ignore = "needs: root, ip, tc, python3"]
fn packets_that_a_token_bucket_drops_are_found_with_the_interface_and_the_kind() {
    let _beside = beside_others();
    if !has(&FOR_SHAPING) {
        return;
    }
    let wired = Wired::shaped("tbf", &["qdisc add dev e0 root tbf rate 1mbit burst 4kb limit 8kb"]);
    let _load = wired.sender(&["9"]);
    let report = wired.report(5);
    let found = dropped(&report, "e0 tbf");
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!(found["value"].as_f64().unwrap() > 0.5, "16 Mbit/s do not fit through 1: {found:#}");
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.starts_with("e0 qdisc tbf dropped ") && summary.contains("overlimits"), "{summary}");
    assert!(!summary.contains(" 0 overlimits"), "{summary}");
    assert_eq!(found["culprit"]["name"], "e0 tbf", "{found:#}");
}

/// What `tc -s` counts at the root of e0: packets sent, dropped and over the limit.
fn by_tc(wired: &Wired) -> [f64; 3] {
    let shown = ["netns", "exec", &wired.name, "tc", "-s", "-j", "qdisc", "show", "dev", "e0"];
    let output = Command::new("ip").args(shown).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let root = all.as_array().unwrap().iter().find(|one| one["root"] == true).expect("a root");
    ["packets", "drops", "overlimits"].map(|figure| root[figure].as_f64().unwrap())
}

#[test]
#[ignore = "needs: root, ip, tc, python3"]
fn what_a_queueing_discipline_sent_and_dropped_is_what_tc_shows() {
    let _beside = beside_others();
    if !has(&FOR_SHAPING) {
        return;
    }
    let wired = Wired::shaped("agrees", &["qdisc add dev e0 root tbf rate 1mbit burst 4kb limit 8kb"]);
    let _load = wired.sender(&["9"]);
    let (before, began) = (by_tc(&wired), std::fs::read_to_string("/proc/uptime").unwrap());
    let report = wired.report(5);
    let (after, ended) = (by_tc(&wired), std::fs::read_to_string("/proc/uptime").unwrap());
    let uptime = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
    let seconds = uptime(&ended) - uptime(&began);
    let found = dropped(&report, "e0 tbf");
    let window = found["window_seconds"].as_f64().unwrap();
    println!("| figure | tc -s, per second | rdiag, per second |\n|---|---:|---:|");
    for (at, name) in ["packets", "drops", "overlimits"].iter().enumerate() {
        let metric = format!("network.qdisc.{name}.count");
        let evidence = found["evidence"].as_array().unwrap().iter().find(|one| one["metric"] == metric.as_str());
        let Some(ours) = evidence.and_then(|one| one["total"].as_f64()) else {
            assert_eq!(*name, "overlimits", "{metric} is evidence: {found:#}");
            continue;
        };
        let (ours, theirs) = (ours / window, (after[at] - before[at]) / seconds);
        println!("| {name} | {theirs:.1} | {ours:.1} |");
        // The sender is even; the windows are not the same.
        assert!((ours - theirs).abs() < 0.15 * theirs + 2.0, "{name}: {ours} here, {theirs} by tc");
        assert!(theirs > 1.0, "{name}: {theirs} by tc");
    }
}

#[test]
#[ignore = "needs: root, ip, tc, python3"]
fn of_two_classes_the_one_that_drops_is_named() {
    let _beside = beside_others();
    if !has(&FOR_SHAPING) {
        return;
    }
    let wired = Wired::shaped(
        "htb",
        &[
            "qdisc add dev e0 root handle 1: htb default 10",
            "class add dev e0 parent 1: classid 1:10 htb rate 1gbit",
            "class add dev e0 parent 1: classid 1:20 htb rate 500kbit",
            "qdisc add dev e0 parent 1:20 handle 20: pfifo limit 10",
            "filter add dev e0 parent 1: protocol ip u32 match ip dport 20 0xffff flowid 1:20",
        ],
    );
    let _load = wired.sender(&["10", "20"]);
    let report = wired.report(5);
    let found = dropped(&report, "e0 htb");
    assert_eq!(found["status"], "warning", "{found:#}");
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.contains("most in htb class 1:20") || summary.contains("most in pfifo 20:0"), "{summary}");
}

#[test]
#[ignore = "needs: root, ip, tc, python3"]
fn a_backlog_without_drops_and_an_idle_queue_are_no_finding() {
    let _beside = beside_others();
    if !has(&FOR_SHAPING) {
        return;
    }
    // More is sent than the class lets through; the sender's own buffer bounds what waits. Nothing is sent through e1.
    let wired = Wired::shaped(
        "held",
        &[
            "qdisc add dev e0 root handle 1: htb default 10",
            "class add dev e0 parent 1: classid 1:10 htb rate 4mbit",
            "qdisc add dev e0 parent 1:10 handle 10: pfifo limit 5000",
            "qdisc add dev e1 root pfifo_fast",
        ],
    );
    let _load = wired.sender(&["9"]);
    let report = wired.report(5);
    let held = dropped(&report, "e0 htb");
    assert_eq!(held["status"], "ok", "{held:#}");
    let backlog =
        held["evidence"].as_array().unwrap().iter().find(|one| one["metric"] == "network.qdisc.backlog.count");
    assert!(backlog.is_some_and(|backlog| backlog["mean"].as_f64().unwrap() > 20.0), "{held:#}");
    assert_eq!(dropped(&report, "e1 pfifo_fast")["status"], "ok");
    // Others may use the CPUs at the same time.
    assert_nothing_else_fired(
        &report,
        &["cpu.", "interrupts.", "disk.", "memory.", "tasks.", "cgroup.", "filesystem.", "kernel.", "hardware."],
    );
}
