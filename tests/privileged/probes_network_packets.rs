//! Probes of packets and bytes, in the same networks as those of connections: segments that are sent again, packets that are
//! thrown away, bytes by connection, packets by the queue of a device.

use super::probes_network::{number, script, text};
use super::probing::{assert_nothing_lost, probed, ready, rows};
use crate::support::{Need, alone, has};

/// A byte that is lost until a timer has expired, and a connection request whose answer is lost until both sides have repeated
/// themselves. The kernel counts each segment that it sends again in this namespace.
const RESENT: &str = "
def lose(what): run('nft -f -', 'table ip t { chain i { type filter hook input priority 0; ' + what + ' drop; }; }')
s = listener('127.0.0.1')
port = s.getsockname()[1]
c = socket.create_connection(s.getsockname()); d, _ = s.accept()
lose(f'tcp dport {port}'); c.sendall(b'x'); time.sleep(0.8); run('nft delete table ip t'); d.recv(1)
lose(f'tcp sport {port}')
e = socket.socket(); e.setblocking(False); e.connect_ex(s.getsockname())
time.sleep(1.5); run('nft delete table ip t')
e.setblocking(True); e.sendall(b'x'); s.accept()[0].recv(1)
lines = [line.split() for line in open('/proc/self/net/snmp') if line.startswith('Tcp:')]
says = dict(zip(*lines))['RetransSegs']
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip, nft"]
fn vm_as_many_segments_are_told_of_as_the_kernel_counted_with_their_state_and_process() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip"), Need::Tool("nft")]) {
        return;
    }
    let (mut script, mut says) = (script(RESENT), String::new());
    let pid = script.pid().to_string();
    let readings = probed(&["tcpretrans"], || says = script.work());
    assert_nothing_lost(&readings);
    let all = rows(&readings, "events", "retransmissions");
    let own: Vec<_> = all.iter().filter(|line| line["pid"] == pid.as_str()).collect();
    let truth: f64 = says.parse().unwrap();
    assert!(truth >= 3.0, "{truth}");
    assert_eq!(own.iter().map(|line| number(line, "segments")).sum::<f64>(), truth, "{all:#?}");
    for state in ["ESTABLISHED", "SYN_SENT", "SYN_RECV"] {
        assert!(own.iter().any(|line| text(line, "state") == state), "{state}: {own:#?}");
    }
    let after_timer = own.iter().filter(|line| text(line, "congestion") == "loss").count();
    assert!(after_timer >= 2, "{own:#?}");
    let peers = rows(&readings, "table", "peers");
    let sums = peers.iter().filter(|row| row["pid"] == pid.as_str());
    let sums: Vec<(&str, f64)> = sums.map(|row| (text(row, "name"), number(row, "segments"))).collect();
    assert!(sums.iter().all(|(name, _)| *name == "python3 to 127.0.0.1"), "{sums:?}");
    assert_eq!(sums.iter().map(|(_, segments)| segments).sum::<f64>(), truth);
}

/// 300 datagrams into a small buffer, 70 to a port that nobody has, and 500 that are read. The kernel counts in this namespace
/// what found no room.
const DATAGRAMS: &str = "
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); return s
small, reader, sender = udp(), udp(), udp()
small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
for n in range(300): sender.sendto(b'x' * 200, small.getsockname())
for n in range(70): sender.sendto(b'x', ('127.0.0.1', 9))
for n in range(500): sender.sendto(b'x', reader.getsockname()); reader.recv(1)
lines = [line.split() for line in open('/proc/self/net/snmp') if line.startswith('Udp:')]
says = dict(zip(*lines))['RcvbufErrors']
";

#[test]
#[ignore = "needs: root, eBPF, python3, ip"]
fn vm_packets_that_the_kernel_throws_away_are_counted_by_place_and_datagrams_by_socket() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("ip")]) {
        return;
    }
    let (mut script, mut says) = (script(DATAGRAMS), String::new());
    let pid = script.pid().to_string();
    let readings = probed(&["drops", "--top", "1000"], || says = script.work());
    assert_nothing_lost(&readings);
    let truth: f64 = says.parse().unwrap();
    assert!(truth > 200.0, "{truth}");
    let receivers = rows(&readings, "table", "receivers");
    let own = receivers.iter().filter(|row| row["pid"] == pid.as_str());
    assert_eq!(own.map(|row| number(row, "datagrams")).sum::<f64>(), truth, "{receivers:#?}");
    let drops = rows(&readings, "table", "drops");
    let udp: Vec<_> = drops.iter().filter(|row| text(row, "function").contains("udp")).collect();
    let packets: f64 = udp.iter().map(|row| number(row, "packets")).sum();
    // Others may lose a few meanwhile; what was read is not among them.
    assert!((truth + 70.0..truth + 170.0).contains(&packets), "{packets} and {truth} + 70: {drops:#?}");
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = b"SKB_DROP_REASON_NO_SOCKET";
    let has_reasons = types.windows(name.len()).any(|bytes| bytes == name);
    assert_eq!(udp.iter().all(|row| row["reason"].is_null()), !has_reasons, "{udp:#?}");
    for (reason, least) in [("NO_SOCKET", 70.0), ("SOCKET_RCVBUFF", truth)] {
        let of_reason = udp.iter().filter(|row| row["reason"] == reason);
        let packets: f64 = of_reason.map(|row| number(row, "packets")).sum();
        assert!(!has_reasons || (least..least + 50.0).contains(&packets), "{reason}: {drops:#?}");
    }
}

/// 100 times 10000 bytes in one direction, 7 times 300 in the other, and 50000 by sendfile.
const BYTES: &str = "
s = listener('127.0.0.1')
a = socket.create_connection(s.getsockname()); b, _ = s.accept()
for n in range(100): a.sendall(b'x' * 10000); b.recv(10000, socket.MSG_WAITALL)
for n in range(7): b.sendall(b'y' * 300); a.recv(300, socket.MSG_PEEK); a.recv(300, socket.MSG_WAITALL)
f = os.memfd_create('rdiag'); os.write(f, bytes(50000))
os.sendfile(a.fileno(), f, 0, 50000); b.recv(50000, socket.MSG_WAITALL)
says = f'{a.getsockname()[1]} {b.getsockname()[1]}'
";

fn bytes_are_those_that_were_sent_and_received() {
    let (mut talks, mut other) = (script(BYTES), script(BYTES));
    let (pid, mut says) = (talks.pid().to_string(), String::new());
    let readings = probed(&["tcptop", "--pid", &pid], || {
        says = talks.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let (from, to) = says.split_once(' ').unwrap();
    let (from, to) = (format!("127.0.0.1:{from}"), format!("127.0.0.1:{to}"));
    let lines = rows(&readings, "table", "connections");
    let sum = |local: &str, column: &str| -> f64 {
        lines.iter().filter(|row| row["local"] == local).map(|row| number(row, column)).sum()
    };
    assert!(lines.iter().all(|row| row["pid"] == pid.as_str() && row["name"] == "python3"), "{lines:#?}");
    assert_eq!((sum(&from, "sent"), sum(&from, "received")), (1_050_000.0, 2100.0), "{lines:#?}");
    assert_eq!((sum(&to, "sent"), sum(&to, "received")), (2100.0, 1_050_000.0), "{lines:#?}");
    let tasks = rows(&readings, "table", "tasks");
    let whole: f64 = tasks.iter().map(|row| number(row, "sent")).sum();
    assert_eq!(whole, 1_052_100.0, "{tasks:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn bytes_of_a_connection_are_those_that_were_sent_and_received() {
    let _alone = alone();
    if ready() {
        bytes_are_those_that_were_sent_and_received();
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_bytes_of_a_connection_are_those_that_were_sent_and_received() {
    let _alone = alone();
    if ready() {
        bytes_are_those_that_were_sent_and_received();
    }
}

/// 100 datagrams of 1000 bytes and 3 of 10 over loopback, whose driver has one queue.
const OVER_LOOPBACK: &str = "
r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); r.bind(('127.0.0.1', 0))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(100): s.sendto(b'x' * 1000, r.getsockname())
for n in range(3): s.sendto(b'x' * 10, r.getsockname())
says = os.stat('/proc/self/ns/net').st_ino
";

fn packets_are_counted_by_device_and_queue() {
    let (mut talks, mut namespace) = (script(OVER_LOOPBACK), String::new());
    let readings = probed(&["netqtop", "--param", "top=4096"], || namespace = talks.work());
    assert_nothing_lost(&readings);
    let queues = rows(&readings, "table", "queues");
    let of = |direction: &str| {
        let mut found =
            queues.iter().filter(|row| row["namespace"] == namespace.as_str() && row["direction"] == direction);
        let row = found.next().unwrap_or_else(|| panic!("{direction} in {namespace}: {queues:#?}"));
        assert!(found.next().is_none() && row["device"] == "lo", "{queues:#?}");
        let figures =
            ["packets", "bytes", "share", "below_64", "below_512", "below_2k"].map(|column| number(row, column));
        (row["queue"].as_str().map(str::to_owned), figures)
    };
    // Ethernet, IP and UDP take 14, 20 and 8 bytes; the first is gone when a packet has arrived.
    let (queue, sent) = of("sent");
    assert_eq!(queue.as_deref(), Some("0"));
    assert_eq!(sent, [103.0, 100.0 * 1042.0 + 3.0 * 52.0, 1.0, 3.0, 0.0, 100.0]);
    let (_, received) = of("received");
    assert_eq!(received, [103.0, 100.0 * 1028.0 + 3.0 * 38.0, 1.0, 3.0, 0.0, 100.0]);
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn packets_are_counted_by_device_direction_and_queue_with_their_sizes() {
    let _alone = alone();
    if ready() {
        packets_are_counted_by_device_and_queue();
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_packets_are_counted_by_device_direction_and_queue_with_their_sizes() {
    let _alone = alone();
    if ready() {
        packets_are_counted_by_device_and_queue();
    }
}
