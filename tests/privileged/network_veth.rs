//! What a virtual interface cannot pass on, and packets whose header is no good: in a network namespace of its own, and the same without
//! the faults.

use std::process::Command;

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, rdiag, report_told, wait_until};

const NEEDS: &[Need] =
    &[Need::Root, Need::Tool("python3"), Need::Tool("ip"), Need::Tool("unshare"), Need::Tool("nsenter")];

/// Four times a second: 25 datagrams through a pair of interfaces whose ends disagree about the largest packet, and ten packets whose
/// header claims to be too short. With `orderly` the ends agree, and the headers are right.
const VETH_TRAFFIC: &str = "
import ctypes, socket, struct, subprocess, sys, time
orderly = sys.argv[1] == 'orderly'
def ip(*words): subprocess.run(['ip', *words], check=True)
ip('link', 'set', 'lo', 'up')
ip('link', 'add', 'outside', 'type', 'veth', 'peer', 'name', 'inside')
ip('link', 'set', 'inside', 'mtu', '1500' if orderly else '600', 'up')
ip('link', 'set', 'outside', 'up')
ip('addr', 'add', '10.9.0.1/24', 'dev', 'outside')
ip('neigh', 'add', '10.9.0.2', 'lladdr', '02:00:00:00:00:02', 'dev', 'outside')
home = socket.inet_aton('127.0.0.1')
def header(first):
    head = struct.pack('>BBHHHBBH4s4s', first, 0, 32, 1, 0, 64, socket.IPPROTO_UDP, 0, home, home)
    total = sum(struct.unpack('>10H', head))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return head[:10] + struct.pack('>H', ~total & 0xffff) + head[12:]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); wire.bind(('lo', 0x0800))
packet = bytes(12) + b'\\x08\\x00' + header(0x45 if orderly else 0x44) + struct.pack('>HHHH', 9, 5009, 12, 0) + b'data'
reader = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); reader.bind(('127.0.0.1', 5009)); reader.setblocking(False)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ctypes.CDLL(None).prctl(15, b'traffic')
while True:
    for _ in range(25): sender.sendto(bytes(1200), ('10.9.0.2', 7))
    for _ in range(10): wire.send(packet)
    try:
        while True: reader.recv(4096)
    except BlockingIOError: pass
    time.sleep(0.25)
";

/// What rdiag says within that namespace.
fn report_beside(kind: &str) -> Value {
    let load = Load::start(1, "unshare", &["--net", "python3", "-c", VETH_TRAFFIC, kind]);
    let pid = load.pids().into_iter().next().unwrap();
    let is_ready = || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "traffic\n");
    assert!(wait_until(20, is_ready), "the traffic has begun");
    let output = Command::new("nsenter")
        .args(["--net", "--target", &pid.to_string()])
        .arg(rdiag().get_program())
        .args(["run", "use-method", "--format", "json", "--out", "-", "--duration", "5s"])
        .output()
        .unwrap();
    report_told(&output)
}

#[test]
#[ignore = "needs: root, a quiet machine, python3, ip, unshare, nsenter"]
fn ends_that_disagree_about_the_largest_packet_and_broken_headers_are_counted() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let report = report_beside("faulty");
    let dropped = finding(&report, "network.saturation.virtual_drops", None);
    assert_eq!((&dropped["status"], &dropped["culprit"]["name"]), (&"info".into(), &"outside".into()), "{dropped:#}");
    // 100 each second, however late they are.
    assert!((50.0..=150.0).contains(&dropped["value"].as_f64().unwrap()), "{dropped:#}");
    let discarded = finding(&report, "network.errors.discards", None);
    assert_eq!(discarded["status"], "info", "{discarded:#}");
    // Ten headers four times a second. What the interface dropped IP may count as discarded, too: newer kernels do.
    let says = discarded["summary"].as_str().unwrap();
    let headers = says.split_once(" discarded packets and ").unwrap().1.split_once(" with a bad header").unwrap().0;
    assert!((100.0..=300.0).contains(&headers.parse::<f64>().unwrap()), "{discarded:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: root, a quiet machine, python3, ip, unshare, nsenter"]
fn ends_that_agree_and_right_headers_are_no_finding() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let report = report_beside("orderly");
    for rule in ["network.saturation.virtual_drops", "network.errors.discards"] {
        assert_eq!(finding(&report, rule, None)["status"], "ok", "{rule}");
    }
    assert_nothing_else_fired(&report, &["cpu."]);
}
