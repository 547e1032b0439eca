//! Faults of the network. All traffic stays on loopback or in network namespaces that the test makes and removes.

use std::process::Command;

use serde_json::Value;

use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, rdiag, report_told, wait_until,
};

/// A listener on a port of its own choice that accepts nothing; twelve clients come a second later and wait.
const NO_ACCEPT: &str = "
import socket, sys, time
s = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(int(sys.argv[2])); time.sleep(1)
clients = []
for i in range(12):
    c = socket.socket(); c.setblocking(False); clients.append(c)
    try: c.connect(s.getsockname())
    except BlockingIOError: pass
time.sleep(60)
";

/// 200 datagrams a second to a socket with the smallest buffer, which nobody reads.
const UNREAD: &str = "
import socket, time
r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); r.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
r.bind(('127.0.0.1', 0)); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(b'x' * 200, r.getsockname()); time.sleep(0.005)
";

/// A server on a port that reads all that it is sent, or nothing.
const SERVER: &str = "
import socket, sys, threading, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((sys.argv[1], 7000)); s.listen(64)
def read(c):
    while c.recv(1 << 20): pass
while True:
    c, _ = s.accept()
    if sys.argv[2] == 'reads': threading.Thread(target=read, args=(c,), daemon=True).start()
    else: time.sleep(60)
";

/// A client that sends to it without a pause, beginning after so many seconds.
const CLIENT: &str = "
import socket, sys, time
time.sleep(float(sys.argv[2])); s = socket.create_connection((sys.argv[1], 7000))
while True: s.sendall(b'x' * 65536)
";

fn python(script: &str, args: &[&str]) -> Load {
    Load::start(1, "python3", &[&["-c", script], args].concat())
}

fn status<'r>(report: &'r Value, id: &str) -> &'r str {
    finding(report, id, None)["status"].as_str().unwrap()
}

/// Whether a port of 127.0.0.1 is listened on.
fn listening(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
#[ignore = "needs: a quiet machine, python3"]
fn a_full_accept_queue_names_the_socket_and_its_process() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let load = python(NO_ACCEPT, &["18431", "2"]);
    let report = live_report(6);
    let overflow = finding(&report, "network.saturation.listen_overflow", None);
    assert!(["warning", "critical"].contains(&overflow["status"].as_str().unwrap()), "{overflow:#}");
    let name = overflow["culprit"]["name"].as_str().unwrap();
    assert!(name.starts_with("python") && name.ends_with(" 127.0.0.1:18431"), "{name}");
    assert_eq!(overflow["culprit"]["pids"][0], load.pids()[0]);
    assert_nothing_else_fired(&report, &["network.saturation.listen_overflow"]);
}

#[test]
#[ignore = "needs: a quiet machine, python3"]
fn a_queue_that_has_room_for_all_is_no_finding() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let _load = python(NO_ACCEPT, &["18432", "64"]);
    let report = live_report(4);
    assert_eq!(status(&report, "network.saturation.listen_overflow"), "ok");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: a quiet machine, python3"]
fn datagrams_that_nobody_reads_name_the_socket_and_its_process() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let load = python(UNREAD, &[]);
    let report = live_report(5);
    let lost = finding(&report, "network.saturation.udp_receive_buffer", None);
    assert_eq!(lost["status"], "critical", "{lost:#}");
    assert!(lost["culprit"]["name"].as_str().unwrap().contains(" 127.0.0.1:"), "{lost:#}");
    assert_eq!(lost["culprit"]["pids"][0], load.pids()[0]);
    assert_nothing_else_fired(&report, &["network.saturation.udp_receive_buffer"]);
}

#[test]
#[ignore = "needs: a quiet machine, python3"]
fn a_receiver_that_does_not_read_is_told_from_a_network_that_loses() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let _server = python(SERVER, &["127.0.0.1", "sleeps"]);
    let _client = python(CLIENT, &["127.0.0.1", "1.5"]);
    let report = live_report(5);
    assert_eq!(status(&report, "network.saturation.slow_reader"), "info");
    assert_eq!(status(&report, "network.saturation.slow_peer"), "info");
    assert_nothing_else_fired(&report, &[]);
}

#[test]
#[ignore = "needs: a quiet machine, python3"]
fn heavy_traffic_on_loopback_is_no_finding_of_the_network() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let _server = python(SERVER, &["127.0.0.1", "reads"]);
    assert!(wait_until(5, || listening(7000)));
    let _client = python(CLIENT, &["127.0.0.1", "0"]);
    let report = live_report(5);
    // Two busy processes may well saturate a small machine's CPUs; that is another matter.
    assert_nothing_else_fired(&report, &["cpu.", "interrupts."]);
}

/// Two network namespaces with a pair of interfaces between them: 10.9.8.1 in the first, 10.9.8.2 in the second.
pub(super) struct Pair {
    names: [String; 2],
}

impl Pair {
    fn new() -> Self {
        let name = |end: &str| format!("rdiag-test-{}-{end}", std::process::id());
        let pair = Self { names: [name("a"), name("b")] };
        for name in &pair.names {
            run("ip", &["netns", "add", name]);
        }
        let [a, b] = &pair.names;
        run("ip", &["link", "add", "v0", "netns", a, "type", "veth", "peer", "name", "v0", "netns", b]);
        for (name, address) in [(a, "10.9.8.1/24"), (b, "10.9.8.2/24")] {
            run("ip", &["-n", name, "address", "add", address, "dev", "v0"]);
            run("ip", &["-n", name, "link", "set", "lo", "up"]);
            run("ip", &["-n", name, "link", "set", "v0", "up"]);
        }
        pair
    }

    /// Lets the second one lose so many packets of a hundred on their way in.
    fn lose(&self, percent: u32) {
        let [_, name] = &self.names;
        let rules = format!(
            "table ip loss {{ chain in {{ type filter hook input priority 0; numgen random mod 100 < {percent} drop; }}; }}"
        );
        run("ip", &["netns", "exec", name, "nft", &rules]);
    }

    fn server(&self) -> Load {
        let [_, name] = &self.names;
        Self::python(name, SERVER, &["10.9.8.2", "reads"])
    }

    fn client(&self) -> Load {
        let [name, _] = &self.names;
        Self::python(name, CLIENT, &["10.9.8.2", "1"])
    }

    pub(super) fn python(name: &str, script: &str, args: &[&str]) -> Load {
        Load::start(1, "ip", &[&["netns", "exec", name, "python3", "-c", script], args].concat())
    }

    fn report(&self, seconds: u32) -> Value {
        let [name, _] = &self.names;
        let program = rdiag().get_program().to_owned();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name]).arg(program);
        command.args(["run", "use-method", "--format", "json", "--out", "-", "--duration", &format!("{seconds}s")]);
        let output = command.output().unwrap();
        report_told(&output)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

const FOR_LOSS: [Need; 5] =
    [Need::Root, Need::Tool("ip"), Need::Tool("nft"), Need::Tool("python3"), Need::Path("/proc/sys/net/netfilter")];

#[test]
#[ignore = "needs: root, a quiet machine, ip, nft, python3"]
fn a_path_that_loses_packets_shows_in_retransmissions_and_not_in_the_devices() {
    let _alone = alone();
    if !has(&FOR_LOSS) {
        return;
    }
    let pair = Pair::new();
    pair.lose(3);
    let _server = pair.server();
    let _client = pair.client();
    let report = pair.report(7);
    let retransmits = finding(&report, "network.errors.retransmits", None);
    assert_eq!(retransmits["status"], "warning", "{retransmits:#}");
    let share = retransmits["value"].as_f64().unwrap();
    assert!((0.02..0.05).contains(&share), "3 % were lost, and {share} sent again");
    let peers = finding(&report, "network.errors.retransmitting_peers", None);
    assert_eq!(peers["status"], "info", "{peers:#}");
    assert_eq!(peers["culprit"]["name"], "python3 to 10.9.8.2", "{peers:#}");
    assert_nothing_else_fired(
        &report,
        &["network.errors.retransmits", "network.errors.timeouts", "cpu.", "interrupts."],
    );
}

#[test]
#[ignore = "needs: root, a quiet machine, ip, nft, python3"]
fn heavy_traffic_through_a_veth_pair_is_no_finding_of_the_network() {
    let _alone = alone();
    if !has(&FOR_LOSS) {
        return;
    }
    let pair = Pair::new();
    let _server = pair.server();
    let _client = pair.client();
    let report = pair.report(6);
    assert_nothing_else_fired(&report, &["cpu.", "interrupts."]);
    let load = findings(&report, "network.utilization");
    assert_eq!(load.len(), 1);
    assert_ne!(load[0]["status"], "ok", "the load of a device that is not there is not known to be low");
}

/// Sends 3 MB a second, or as much of it as an emulated CPU can.
const PACED: &str = "
import socket, sys, time
s, due = socket.create_connection((sys.argv[1], 7000)), time.monotonic()
while True:
    s.sendall(b'x' * 300000)
    due += 0.1
    time.sleep(max(0, due - time.monotonic()))
";

/// The two devices of 10 Mbit/s that a wire of the matrix joins: one stays, with 10.9.8.1, the other one is 10.9.8.2 of a namespace.
pub(super) struct Wire {
    pub(super) device: String,
    pub(super) peer: String,
    /// The device of that namespace.
    pub(super) other: String,
}

impl Wire {
    pub(super) fn new() -> Self {
        run("modprobe", &["virtio_net"]);
        assert!(wait_until(20, || Self::ends().len() == 2), "the guest has two devices: {:?}", Self::ends());
        // Names change while udev is at it.
        run("udevadm", &["settle"]);
        let [device, other] = &Self::ends()[..] else { panic!("{:?}", Self::ends()) };
        let peer = format!("rdiag-test-{}", std::process::id());
        let wire = Self { device: device.clone(), peer, other: other.clone() };
        run("ip", &["netns", "add", &wire.peer]);
        run("ip", &["link", "set", other, "netns", &wire.peer]);
        run("ip", &["-n", &wire.peer, "address", "add", "10.9.8.2/24", "dev", other]);
        run("ip", &["-n", &wire.peer, "link", "set", other, "up"]);
        run("ip", &["address", "add", "10.9.8.1/24", "dev", device]);
        run("ip", &["link", "set", device, "up"]);
        wire
    }

    fn ends() -> Vec<String> {
        let all = std::fs::read_dir("/sys/class/net").unwrap().flatten();
        let is_end = |path: &std::path::Path| {
            let driver = std::fs::read_link(path.join("device/driver"));
            driver.is_ok_and(|driver| driver.ends_with("virtio_net"))
        };
        let ends = all.filter(|entry| is_end(&entry.path()));
        ends.map(|entry| entry.file_name().to_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The other device comes back by itself.
        let _ = Command::new("ip").args(["netns", "delete", &self.peer]).output();
        let _ = Command::new("ip").args(["address", "flush", "dev", &self.device]).output();
        let _ = Command::new("ip").args(["link", "set", &self.device, "down"]).output();
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its network devices, ip, python3"]
fn vm_who_fills_a_link_is_named() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("ip"), Need::Tool("python3"), Need::Tool("modprobe"), Need::Tool("udevadm")]) {
        return;
    }
    let wire = Wire::new();
    let server = Pair::python(&wire.peer, SERVER, &["10.9.8.2", "reads"]);
    assert!(wait_until(20, || std::net::TcpStream::connect("10.9.8.2:7000").is_ok()), "the server listens");
    let client = python(PACED, &["10.9.8.2"]);
    let sent = format!("/sys/class/net/{}/statistics/tx_bytes", wire.device);
    let sent = || std::fs::read_to_string(&sent).is_ok_and(|text| text.trim().parse::<u64>().unwrap() > 500_000);
    assert!(wait_until(30, sent), "the client sends");
    let report = live_report(5);
    let link = finding(&report, "network.utilization", Some(&wire.device));
    assert_eq!(link["status"], "warning", "{link:#}");
    let traffic = finding(&report, "network.utilization.traffic", None);
    assert_eq!(traffic["status"], "info", "{traffic:#}");
    let culprit = &traffic["culprit"];
    let ends = [client.pids()[0], server.pids()[0]].map(Value::from);
    assert!(culprit["name"] == "python3" && ends.contains(&culprit["pids"][0]), "{traffic:#}");
    drop((client, server, wire));
}
