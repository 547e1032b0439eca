//! Interfaces of a guest with a driver below them: packets that no protocol takes.

use super::network::{Pair, Wire};
use crate::support::{Need, alone, assert_nothing_else_fired, finding, has, live_report, wait_until};

fn ready() -> bool {
    has(&[Need::Root, Need::Tool("ip"), Need::Tool("python3"), Need::Tool("modprobe"), Need::Tool("udevadm")])
}

/// Sends so many packets a second of a protocol that no kernel knows.
const UNKNOWN: &str = "
import socket, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); wire.bind((sys.argv[1], 0))
packet, due = b'\\xff' * 6 + bytes(6) + b'\\x88\\xb5' + bytes(60), time.monotonic()
while True:
    wire.send(packet)
    due += 1 / int(sys.argv[2])
    time.sleep(max(0, due - time.monotonic()))
";

#[test]
#[ignore = "needs: root, a kernel of the matrix with its network devices, ip, python3"]
fn vm_packets_of_a_protocol_that_nothing_handles_are_worth_knowing_and_a_few_are_usual() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let wire = Wire::new();
    for (rate, status) in [("100", "info"), ("10", "ok")] {
        let sender = Pair::python(&wire.peer, UNKNOWN, &[&wire.other, rate]);
        let dropped = format!("/sys/class/net/{}/statistics/rx_dropped", wire.device);
        let dropped = || std::fs::read_to_string(&dropped).unwrap().trim().parse::<u64>().unwrap();
        let before = dropped();
        assert!(wait_until(30, || dropped() > before), "a packet is dropped");
        let report = live_report(5);
        drop(sender);
        let drops = finding(&report, "network.errors.receive_drops", Some(&wire.device));
        assert_eq!(drops["status"], status, "{drops:#}");
        assert!(drops["value"].as_f64().is_some_and(|packets| packets > 0.0), "{drops:#}");
        if status == "info" {
            assert_eq!(drops["culprit"]["name"], wire.device.as_str(), "{drops:#}");
        }
        // rdiag and the load are much for an emulated CPU.
        assert_nothing_else_fired(&report, &["cpu."]);
    }
}
