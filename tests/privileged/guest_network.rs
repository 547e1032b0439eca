//! Interfaces of a guest with a driver below them: packets that no protocol takes, and a link that goes down and up.

use super::guest_devices::{settle, unload};
use super::kernels::modprobe;
use super::network::{Pair, Wire};
use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, live_report_every, wait_until,
};

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

/// A network card at the end of a USB cable, of which both ends are in this guest.
struct Cable;

impl Cable {
    const CARRIER: &str = "/sys/class/net/usb0/carrier";

    fn new() -> Self {
        modprobe(&["dummy_hcd"]);
        let cable = Self;
        modprobe(&["g_ether"]);
        settle();
        assert!(std::process::Command::new("ip").args(["link", "set", "usb0", "up"]).status().unwrap().success());
        let is_up = || std::fs::read_to_string(Self::CARRIER).is_ok_and(|carrier| carrier.trim() == "1");
        assert!(wait_until(60, is_up), "the link is up");
        cable
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        unload("g_ether");
        unload("dummy_hcd");
    }
}

/// The other end is switched off and on, as often as it may be in a second or two; a virtual link goes down and up beside it.
const FLAPS: &str = "
end=$(dirname $(grep -l Gadget /sys/bus/usb/devices/*/product))/authorized
is() { for _ in 1 2 3 4 5 6 7 8 9 10; do [ $(cat /sys/class/net/usb0/carrier) = $1 ] && break; sleep 0.1; done; }
while :; do
    echo 0 >$end; is 0
    ip link set rdiag-flap1 down
    echo 1 >$end; is 1
    ip link set rdiag-flap1 up
done
";

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, ip"]
fn vm_a_link_that_goes_down_and_up_again_is_named_and_a_virtual_one_is_not() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let cable = Cable::new();
    let ip = |args: &str| std::process::Command::new("ip").args(args.split(' ')).status().unwrap().success();
    assert!(ip("link add rdiag-flap0 type veth peer name rdiag-flap1") && ip("link set rdiag-flap0 up"));
    let flaps = Load::start(1, "sh", &["-c", FLAPS]);
    let report = live_report_every("2s", 10);
    drop(flaps);
    let is_gone = ip("link delete rdiag-flap0");
    drop(cable);
    assert!(is_gone, "the virtual link goes");
    let link = finding(&report, "network.errors.carrier", Some("usb0"));
    assert!(["warning", "critical"].contains(&link["status"].as_str().unwrap()), "{link:#}");
    assert_eq!(link["culprit"]["name"], "usb0", "{link:#}");
    let virtual_links = findings(&report, "network.errors.carrier");
    assert!(virtual_links.iter().all(|found| !found["instance"].as_str().unwrap_or_default().contains("flap")));
    // What is sent while there is no link is dropped. Programs are read from the disk of the host.
    let others = ["network.saturation.transmit_queue_drops", "disk.saturation.pressure", "cpu."];
    assert_nothing_else_fired(&report, &[&["network.errors.carrier"], &others[..]].concat());
}
