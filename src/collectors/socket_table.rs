//! The kernel's tables of sockets (/proc/net/tcp, udp and their IPv6 siblings), and who owns a socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::sink::Sink;
use rdiag_kernel::host::{Host, SourceError, socket_owners};

/// State LISTEN, as the tables have it.
pub(super) const LISTEN: u8 = 0x0A;
/// No line is longer. The kernel fills a read until the next line does not fit, so one that leaves more room was the last: to ask once more
/// for nothing would have it search its whole table of connections a second time, which is most of what a look costs on a host with few.
const LONGEST_LINE: usize = 512;
/// More listeners than these are not looked at.
const MAX_LISTENERS: usize = 4096;

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// `127.0.0.1:8080` or `[::1]:8080`.
    pub(super) local: String,
    pub(super) state: u8,
    /// Bytes received and not read; of a listener, connections that wait to be accepted.
    pub(super) receive_queue: u64,
    /// Owner's user id.
    pub(super) uid: u32,
    /// By which the descriptors of processes name it.
    pub(super) inode: u64,
    /// Datagrams dropped at this socket; a field of something else in the tables of TCP.
    pub(super) drops: u64,
}

/// A line; none for the head line and for a line with a field missing or broken.
pub(super) fn row(line: &str, big_endian: bool) -> Option<Row> {
    let mut words = line.split_whitespace().skip(1);
    let local = address(words.next()?, big_endian)?;
    let state = u8::from_str_radix(words.nth(1)?, 16).ok()?;
    let receive_queue = u64::from_str_radix(words.next()?.split_once(':')?.1, 16).ok()?;
    let uid = words.nth(2)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    let drops = words.nth(2).and_then(|drops| drops.parse().ok()).unwrap_or(0);
    Some(Row { local, state, receive_queue, uid, inode, drops })
}

/// `0100007F:1F90` → `127.0.0.1:8080`.
fn address(hex: &str, big_endian: bool) -> Option<String> {
    endpoint(hex, big_endian).map(|endpoint| endpoint.to_string())
}

/// One end of a connection. The kernel prints addresses as 32-bit numbers in its own byte order.
pub(super) fn endpoint(hex: &str, big_endian: bool) -> Option<SocketAddr> {
    let (ip, port) = hex.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| -> Option<[u8; 4]> {
        let number = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        Some(if big_endian { number.to_be_bytes() } else { number.to_le_bytes() })
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (place, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                place.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Whether the recorded kernel's byte order is big-endian.
pub(super) fn big_endian(host: &Host) -> bool {
    ["s390x", "powerpc64", "ppc64", "ppc"].contains(&host.facts().arch.as_str())
}

/// The listening sockets of /proc/net/tcp or tcp6. The kernel lists them before all connections, so reading stops at
/// the first line that is none: with a hundred thousand connections that is the whole cost.
pub(super) fn listeners(host: &Host, path: &str) -> Result<Vec<Row>, SourceError> {
    let big_endian = big_endian(host);
    let mut rows = Vec::new();
    each_line(host, path, |line| match row(line, big_endian) {
        Some(row) if row.state == LISTEN && rows.len() < MAX_LISTENERS => {
            rows.push(row);
            true
        }
        _ => false,
    })?;
    Ok(rows)
}

/// Hands over the lines of a table below its head, part by part, for as long as `take` wants more.
pub(super) fn each_line(host: &Host, path: &str, mut take: impl FnMut(&str) -> bool) -> Result<(), SourceError> {
    let mut file = host.open(path)?;
    let mut text = Vec::new();
    let mut buffer = [0_u8; 4096];
    let mut head = true;
    loop {
        let read = file.read(&mut buffer).map_err(|error| SourceError::io(path, &error))?;
        text.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let is_last = read + LONGEST_LINE < buffer.len();
        let whole =
            if is_last { text.len() } else { text.iter().rposition(|byte| *byte == b'\n').map_or(0, |n| n + 1) };
        let lines: Vec<u8> = text.drain(..whole).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            if !std::mem::take(&mut head) && !take(line) {
                return Ok(());
            }
        }
        // A line that never ends is no table.
        if is_last || text.len() > 4 * buffer.len() {
            return Ok(());
        }
    }
}

/// Finds the owners of sockets (by instance, with their inodes) and labels the instances with them.
pub(super) fn label_owners(host: &Host, out: &Sink, sockets: &BTreeMap<String, BTreeSet<u64>>) {
    let wanted: BTreeSet<u64> = sockets.values().flatten().copied().filter(|inode| *inode != 0).collect();
    if wanted.is_empty() {
        return;
    }
    let (owners, all_seen) = socket_owners(host, &wanted);
    for (instance, inodes) in sockets {
        match inodes.iter().find_map(|inode| owners.get(inode)) {
            Some((pid, process)) => {
                out.label(instance, "name", format!("{process} {instance}"));
                out.label(instance, "process", process.as_str());
                out.label(instance, "pid", pid.to_string());
            }
            None if all_seen => {
                out.label(
                    instance,
                    "owner",
                    "no process that is visible here: perhaps the kernel or another container",
                );
            }
            None => out.label(instance, "owner", "not visible to this user; as root rdiag names the process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::Story;
    use rdiag_model::Reason;

    const TCP: &str = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        0 23836 4 00000000ce95ab1a \
        100 0 0 10 0";
    const UDP: &str = " 1234: 00000000:0035 00000000:0000 07 00000000:00000D40 00:00000000 00000000   101        0 17000 2 \
        0000000000000000 994";

    #[test]
    fn a_listener_and_a_udp_socket_are_read() {
        let expected = Row {
            local: "127.0.0.1:8080".into(),
            state: LISTEN,
            receive_queue: 3,
            uid: 1000,
            inode: 23_836,
            drops: 100,
        };
        assert_eq!(row(TCP, false), Some(expected));
        let udp = row(UDP, false).unwrap();
        assert_eq!((udp.local.as_str(), udp.receive_queue, udp.drops, udp.inode), ("0.0.0.0:53", 0xd40, 994, 17_000));
    }

    #[test]
    fn addresses_are_in_the_byte_order_of_the_kernel() {
        assert_eq!(address("0100007F:0016", false).as_deref(), Some("127.0.0.1:22"));
        assert_eq!(address("7F000001:0016", true).as_deref(), Some("127.0.0.1:22"));
        assert_eq!(address("00000000000000000000000001000000:0050", false).as_deref(), Some("[::1]:80"));
        assert_eq!(address("B80D0120000000000000000001000000:0050", false).as_deref(), Some("[2001:db8::1]:80"));
        for broken in ["", ":", "0100007F", "0100007:0016", "0100007G:0016", "0100007F:10016", "ää00007:0016"] {
            assert_eq!(address(broken, false), None, "{broken:?}");
        }
    }

    #[test]
    fn head_lines_short_lines_and_garbage_are_no_rows() {
        for line in [
            "",
            "  sl  local_address rem_address   st tx_queue rx_queue",
            "0: 0100007F:1F90 0 0A 0:3",
            "0: 1 2 3 4 5 6 7 8 9",
        ] {
            assert_eq!(row(line, false), None, "{line:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(line in "([0-9A-F:]{0,40}| |\\PC){0,30}") {
            let _ = row(&line, false);
        }
    }

    #[test]
    fn reading_stops_at_the_first_connection() {
        let tree = Story::of_seconds(1);
        let connection = TCP.replace(" 0A ", " 01 ");
        let many: String = (0..100).map(|_| format!("{TCP}\n")).collect();
        tree.put("proc/net/tcp", format!("  sl  local_address\n{many}{connection}\n{TCP}\n"));
        assert_eq!(listeners(&tree.host(), "proc/net/tcp").unwrap().len(), 100);
        tree.put("proc/net/tcp", format!("  sl\n{TCP}"));
        assert_eq!(listeners(&tree.host(), "proc/net/tcp").unwrap().len(), 1, "the last line need not end");
        tree.put("proc/net/tcp", vec![b'x'; 1 << 20]);
        assert!(listeners(&tree.host(), "proc/net/tcp").unwrap().is_empty());
    }

    #[test]
    fn the_owner_is_the_first_process_that_holds_the_socket() {
        let tree = Story::of_seconds(1);
        for pid in [200, 30] {
            tree.link(&format!("proc/{pid}/fd/3"), "socket:[77]").link(&format!("proc/{pid}/fd/0"), "/dev/null");
            tree.put(&format!("proc/{pid}/comm"), format!("web{pid}\n"));
        }
        let (found, all_seen) = socket_owners(&tree.host(), &BTreeSet::from([77, 78]));
        assert_eq!(found.get(&77), Some(&(30, "web30".to_owned())));
        assert_eq!((found.get(&78), all_seen), (None, true));
    }

    #[test]
    fn a_process_that_may_not_be_looked_at_is_not_taken_for_one_without_sockets() {
        let mut tree = Story::of_seconds(1);
        tree.link("proc/30/fd/3", "socket:[77]");
        tree.fault("proc/30/fd", Reason::Denied);
        assert_eq!(socket_owners(&tree.host(), &BTreeSet::from([77])), (HashMap::new(), false));
    }
}
