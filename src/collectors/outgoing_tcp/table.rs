//! What one look at the tables of TCP shows of the connections that this host opens.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use crate::socket_table::{LISTEN, each_line, endpoint};
use rdiag_kernel::host::{Host, SourceError};

const SYN_SENT: u8 = 0x02;
const TIME_WAIT: u8 = 0x06;
/// More sockets than these are not looked at, nor is a look longer than this.
const MAX_SOCKETS: usize = 500_000;
const MAX_LOOK_SECONDS: f64 = 0.5;
/// Sockets of one kind whose owners are looked for.
const MAX_INODES: usize = 1024;

/// The ports that the kernel chooses from when a program names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ports {
    first: u16,
    last: u16,
    reserved: BTreeSet<u16>,
}

impl Ports {
    /// From net.ipv4.ip_local_port_range and ip_local_reserved_ports (`8080,9148-9150`).
    pub(super) fn parse(range: &str, reserved: &str) -> Option<Self> {
        let mut words = range.split_whitespace();
        let (first, last) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let mut left_out = BTreeSet::new();
        for part in reserved.trim().split(',').filter(|part| !part.is_empty()) {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (u16, u16) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
            left_out.extend(from.max(first)..=to.min(last));
        }
        (first > 0 && first <= last).then_some(Self { first, last, reserved: left_out })
    }

    pub(super) fn count(&self) -> usize {
        (usize::from(self.last) - usize::from(self.first) + 1).saturating_sub(self.reserved.len())
    }

    fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port) && !self.reserved.contains(&port)
    }
}

/// Which closed connections the kernel gives up at once when their port is wanted again (net.ipv4.tcp_tw_reuse).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    Never,
    Always,
    Loopback,
}

impl Reuse {
    pub(super) fn parse(text: &str) -> Self {
        match text.trim() {
            "0" => Self::Never,
            "1" => Self::Always,
            _ => Self::Loopback,
        }
    }

    fn frees(self, local: IpAddr, remote: IpAddr) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Loopback => local.is_loopback() || remote.is_loopback(),
        }
    }
}

/// Sockets of one kind.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Sockets {
    pub(super) count: usize,
    /// By which the descriptors of processes name them; none for closed connections.
    pub(super) inodes: BTreeSet<u64>,
    pub(super) uid: u32,
}

impl Sockets {
    fn add(&mut self, line: &Line) {
        self.count += 1;
        self.uid = line.uid;
        if line.inode != 0 && self.inodes.len() < MAX_INODES {
            self.inodes.insert(line.inode);
        }
    }
}

/// What a look shows.
#[derive(Debug, Default)]
pub(super) struct SocketScan {
    /// Local ports in the kernel's range by local address and destination, with those that have a listener.
    pub(super) taken: BTreeMap<(IpAddr, SocketAddr), Sockets>,
    /// Connections whose SYN was retransmitted, by destination.
    pub(super) unanswered: BTreeMap<SocketAddr, Sockets>,
    /// How many of those go to a socket that listens here.
    pub(super) unanswered_here: usize,
    /// Not all sockets could be looked at.
    pub(super) cut: bool,
}

/// A line of /proc/net/tcp or tcp6.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    retransmits: u32,
    uid: u32,
    inode: u64,
}

fn line(text: &str, big_endian: bool) -> Option<Line> {
    let mut words = text.split_whitespace().skip(1);
    let mut end = || -> Option<SocketAddr> {
        let end = endpoint(words.next()?, big_endian)?;
        // IPv4 through a socket of IPv6 has the same ports as any other.
        Some(SocketAddr::new(end.ip().to_canonical(), end.port()))
    };
    let (local, remote) = (end()?, end()?);
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let retransmits = u32::from_str_radix(words.nth(2)?, 16).ok()?;
    let uid = words.next()?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some(Line { local, remote, state, retransmits, uid, inode })
}

/// Looks at these tables.
pub(super) fn look(
    host: &Host,
    files: &[&str],
    ports: Option<&Ports>,
    reuse: Reuse,
) -> Result<SocketScan, SourceError> {
    let big_endian = crate::socket_table::big_endian(host);
    let until = host.thread_usage() + MAX_LOOK_SECONDS;
    let mut look = SocketScan::default();
    let mut listening = BTreeSet::new();
    let mut taken: HashMap<(IpAddr, SocketAddr), Vec<Line>> = HashMap::new();
    let mut waiting = Vec::new();
    let mut seen = 0;
    for file in files {
        each_line(host, file, |text| {
            seen += 1;
            // Asking the time for each line would cost as much as reading it.
            look.cut |= seen > MAX_SOCKETS || (seen % 1024 == 0 && host.thread_usage() > until);
            let Some(found) = line(text, big_endian) else { return !look.cut };
            if found.state == LISTEN {
                listening.insert(found.local);
            } else if found.state == SYN_SENT && found.retransmits > 0 {
                waiting.push((found.local.ip(), found.remote));
                look.unanswered.entry(found.remote).or_default().add(&found);
            }
            let is_free = found.state == TIME_WAIT && reuse.frees(found.local.ip(), found.remote.ip());
            if found.state != LISTEN && !is_free && ports.is_some_and(|ports| ports.contains(found.local.port())) {
                taken.entry((found.local.ip(), found.remote)).or_default().push(found);
            }
            !look.cut
        })?;
    }
    let is_here = |(local, remote): &&(IpAddr, SocketAddr)| {
        let own = remote.ip() == *local || remote.ip().is_loopback();
        listening.iter().any(|at: &SocketAddr| {
            at.port() == remote.port() && (at.ip() == remote.ip() || (own && at.ip().is_unspecified()))
        })
    };
    look.unanswered_here = waiting.iter().filter(is_here).count();
    // A port with a listener, or bound, is given to no outgoing connection; connections on it are incoming.
    let bound: BTreeSet<u16> = listening.iter().map(SocketAddr::port).collect();
    let of_listeners = bound.iter().filter(|port| ports.is_some_and(|ports| ports.contains(**port))).count();
    for (ends, lines) in taken {
        let mut sockets = Sockets::default();
        lines.iter().filter(|line| !bound.contains(&line.local.port())).for_each(|line| sockets.add(line));
        if sockets.count > 0 {
            sockets.count += of_listeners;
            look.taken.insert(ends, sockets);
        }
    }
    Ok(look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Story;

    const LINE: &str = "  12: 0100007F:9C40 0200007F:1B58 02 00000001:00000000 01:00000128 00000003  1000        0 23836 2 \
        0000000000000000 800 0 0 1 7";
    const MAPPED: &str = "   0: 0000000000000000FFFF00000100007F:9C41 0000000000000000FFFF00000200007F:1B58 01 00000000:00000000 \
        00:00000000 00000000     0        0 7 1 0 20 4 30 10 -1";

    #[test]
    fn a_line_has_both_ends_and_how_often_the_request_was_sent_again() {
        let found = line(LINE, false).unwrap();
        assert_eq!(
            (found.local.to_string().as_str(), found.remote.to_string().as_str()),
            ("127.0.0.1:40000", "127.0.0.2:7000")
        );
        assert_eq!((found.state, found.retransmits, found.uid, found.inode), (SYN_SENT, 3, 1000, 23_836));
        assert_eq!(line(MAPPED, false).unwrap().remote, found.remote, "IPv4 through IPv6 is the same destination");
        for broken in ["", "  sl  local_address rem_address   st", "0: 0100007F:9C40 0200007F:1B58 02 1:0 1:1 x 0 0 7"]
        {
            assert_eq!(line(broken, false), None, "{broken:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(text in "([0-9A-F:]{0,40}| |\\PC){0,30}") {
            let _ = line(&text, false);
        }

        #[test]
        fn no_range_makes_the_parser_panic(range in "[0-9 \t-]{0,20}", reserved in "[0-9,-]{0,30}") {
            let ports = Ports::parse(&range, &reserved);
            proptest::prop_assert!(ports.is_none_or(|ports| ports.count() <= 65_535));
        }
    }

    #[test]
    fn reserved_ports_are_no_part_of_the_range() {
        let ports = Ports::parse("40000\t40010\n", "8080,40003,40009-40020\n").unwrap();
        assert_eq!(ports.count(), 8);
        assert!(ports.contains(40_000) && !ports.contains(40_003) && !ports.contains(40_010) && !ports.contains(8080));
        assert_eq!(Ports::parse("32768 60999", "\n").unwrap().count(), 28_232);
        assert_eq!(Ports::parse("60999 32768", ""), None);
        assert_eq!(Ports::parse("32768", ""), None);
        assert_eq!(Ports::parse("1 65535", "x"), None);
    }

    fn socket(local: u16, remote: (u8, u16), state: &str, retransmits: u32, inode: u32) -> String {
        let (host, port) = remote;
        format!(
            " 0: 0100000A:{local:04X} {host:02X}00000A:{port:04X} {state} 0:0 0:0 {retransmits:08X} 7 0 {inode} 1 0\n"
        )
    }

    fn seen(tables: &[String], reuse: Reuse) -> SocketScan {
        let tree = Story::of_seconds(1);
        tree.put("proc/net/tcp", format!("  sl  local_address\n{}", tables.concat()));
        let ports = Ports::parse("40000 40010", "").unwrap();
        look(&tree.host(), &["proc/net/tcp"], Some(&ports), reuse).unwrap()
    }

    #[test]
    fn ports_are_counted_for_each_destination_with_those_that_nobody_can_have() {
        let look = seen(
            &[
                socket(40_010, (0, 0), "0A", 0, 1),
                socket(80, (0, 0), "0A", 0, 2),
                socket(40_000, (2, 7000), "01", 0, 3),
                socket(40_001, (2, 7000), "01", 0, 4),
                socket(40_000, (3, 7000), "01", 0, 5),
                // A client of the listener, and one from a port of its own choice.
                socket(40_010, (2, 50_000), "01", 0, 6),
                socket(1024, (2, 7000), "01", 0, 7),
            ],
            Reuse::Never,
        );
        let counts: Vec<(String, usize)> = look.taken.iter().map(|((_, to), of)| (to.to_string(), of.count)).collect();
        assert_eq!(counts, [("10.0.0.2:7000".into(), 3), ("10.0.0.3:7000".into(), 2)]);
        assert_eq!(look.taken.values().next().unwrap().inodes, BTreeSet::from([3, 4]));
    }

    #[test]
    fn closed_connections_hold_a_port_unless_the_kernel_reuses_it() {
        let rows = [socket(40_000, (2, 7000), "06", 0, 0), socket(40_001, (2, 7000), "01", 0, 4)];
        let count = |reuse| seen(&rows, reuse).taken.values().next().unwrap().count;
        assert_eq!([Reuse::Never, Reuse::Loopback, Reuse::Always].map(count), [2, 2, 1]);
        assert_eq!(["0\n", "1\n", "2\n"].map(Reuse::parse), [Reuse::Never, Reuse::Always, Reuse::Loopback]);
    }

    #[test]
    fn a_request_is_unanswered_only_once_it_was_sent_again() {
        let rows = [
            socket(40_000, (2, 7000), "02", 0, 3),
            socket(40_001, (2, 7000), "02", 1, 4),
            socket(40_002, (1, 81), "02", 2, 5),
            socket(81, (0, 0), "0A", 0, 6),
        ];
        let look = seen(&rows, Reuse::Never);
        let counts: Vec<(String, usize)> = look.unanswered.iter().map(|(to, of)| (to.to_string(), of.count)).collect();
        assert_eq!(counts, [("10.0.0.1:81".into(), 1), ("10.0.0.2:7000".into(), 1)]);
        assert_eq!(look.unanswered_here, 1, "10.0.0.1:81 has a listener here");
    }
}
