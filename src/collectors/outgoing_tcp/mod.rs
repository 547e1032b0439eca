//! Connections that this host opens: the local ports that they hold, and those that get no answer.
//!
//! A connection needs a local port that no other connection to the same destination holds, so ports run out for each
//! destination by itself. connect(2) then fails at once, and no counter shows it. A request without an answer waits in
//! SYN-SENT; the counter of retransmitted requests knows neither which task waits nor for which peer.
//!
//! Both are in /proc/net/tcp, whose reading takes 1 µs and more for each socket. So it is read only where there can be
//! something to see: where there are half as many sockets as ports, or where a request was retransmitted within the window.

mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::table::{Ports, Reuse, SocketScan, Sockets, look};
use super::sockets::value;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, socket_owners};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::protocols::column;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "outgoing_tcp",
    help: "Local ports that connections hold towards each destination, and connection attempts without an answer, from /proc/net/tcp and \
        tcp6.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "three small reads per interval; the tables of sockets (1 to 2 µs for each socket, at most half a second, at most one \
               two-hundredth of the time) only where half of the local ports can be taken, or SYNs are retransmitted",
    start: |_| Box::new(OutgoingTcp::default()),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("outgoing_tcp.unanswered", RawUnit::Count, "/proc/net/tcp, tcp6, state 02, retrnsmt > 0"),
    SeriesDef::gauge(
        "outgoing_tcp.unanswered_here",
        RawUnit::Count,
        "/proc/net/tcp, tcp6, state 02 towards an address of state 0A",
    ),
    SeriesDef::gauge("outgoing_tcp.unanswered_by", RawUnit::Count, "/proc/net/tcp, tcp6, state 02, by remote address"),
    SeriesDef::gauge(
        "outgoing_tcp.ports_taken",
        RawUnit::Count,
        "/proc/net/tcp, tcp6, local ports of the fullest destination",
    ),
    SeriesDef::gauge(
        "outgoing_tcp.ports",
        RawUnit::Count,
        "/proc/sys/net/ipv4/ip_local_port_range, ip_local_reserved_ports",
    ),
    SeriesDef::gauge(
        "outgoing_tcp.ports_towards",
        RawUnit::Count,
        "/proc/net/tcp, tcp6, local ports by remote address",
    ),
];

const PORTS: &str = "ss -tan; sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports";
const SYN_SENT: &str = "ss -tanpo state syn-sent";
const AT_LEAST: &str = "Of this network namespace. Ports that programs bound without listening count for their own destination only: at \
    least \
                        so many are unavailable. TIME_WAIT does not count where net.ipv4.tcp_tw_reuse lets its port be reused.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.tcp.unanswered.count",
        unit: Unit::Count,
        help: "Connections in SYN-SENT whose SYN was retransmitted.",
        sources: &[Formula::level(&[term("outgoing_tcp.unanswered")])],
        caveat: "Of this network namespace. Looked for only from the first retransmitted SYN within the window.",
        manual: SYN_SENT,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.unanswered_here.count",
        unit: Unit::Count,
        help: "Those of them that go to a socket that listens in this network namespace.",
        sources: &[Formula::level(&[term("outgoing_tcp.unanswered_here")])],
        caveat: "A listener whose accept queue is full does not answer.",
        manual: SYN_SENT,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.unanswered_by.count",
        unit: Unit::Count,
        dimension: Some("destination"),
        help: "Connections in SYN-SENT to one destination whose SYN was retransmitted.",
        sources: &[Formula::level(&[term("outgoing_tcp.unanswered_by")])],
        caveat: "The 64 destinations with the most.",
        manual: SYN_SENT,
        deed: Some(Deed { verb: "made", of: "the unanswered connection attempts", ..Deed::USUAL }),
    },
    MetricDef {
        id: "network.ports.ratio",
        unit: Unit::Ratio,
        help: "Local ports taken towards the destination with the most, as a share of those that the kernel chooses \
               from.",
        sources: &[Formula::level_ratio(&[term("outgoing_tcp.ports_taken")], &[term("outgoing_tcp.ports")])],
        caveat: "While all TCP sockets together are fewer than half of the ports, it is their share: an upper bound.",
        manual: PORTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.ports.taken.count",
        unit: Unit::Count,
        help: "Local ports taken towards the destination with the most.",
        sources: &[Formula::level(&[term("outgoing_tcp.ports_taken")])],
        caveat: AT_LEAST,
        manual: PORTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.ports.all.count",
        unit: Unit::Count,
        help: "Local ports that the kernel chooses from for outgoing connections.",
        sources: &[Formula::level(&[term("outgoing_tcp.ports")])],
        caveat: "A program can narrow them for its sockets (IP_LOCAL_PORT_RANGE), or bind a port outside of them.",
        manual: PORTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.ports.towards.count",
        unit: Unit::Count,
        dimension: Some("destination"),
        help: "Local ports taken for connections from one local address to one destination.",
        sources: &[Formula::level(&[term("outgoing_tcp.ports_towards")])],
        caveat: AT_LEAST,
        manual: PORTS,
        deed: Some(Deed { verb: "had", of: "the outgoing connections", ..Deed::USUAL }),
    },
];

/// Below this share of the ports, all sockets together cannot have used them up.
const CROWDED: f64 = 0.5;
/// Destinations that are recorded: those with the most sockets.
const MAX_UNANSWERED: usize = 64;
const MAX_TOWARDS: usize = 10;
/// Owners are looked for where a destination has taken this share of the ports.
const SUSPICIOUS: f64 = 0.7;
/// Between two looks at the tables pass as many seconds as keep their cost below one in two hundred.
const PAUSE_SECONDS: (f64, f64) = (0.9, 60.0);
const PAUSE_PER_LOOK: f64 = 200.0;

#[derive(Default)]
struct OutgoingTcp {
    /// TCPSynRetrans at the beginning.
    repeated: Option<u64>,
    /// Time of the last look at the tables, and the CPU time that it took.
    looked: Option<(f64, f64)>,
    /// Instances whose owners are wanted, with what they connect to.
    wanted: BTreeMap<String, (String, Sockets)>,
    any_unanswered: bool,
    any_taken: bool,
    cut: bool,
}

impl Collect for OutgoingTcp {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let now = host.now();
        let repeated = self.repeats(host, out);
        let ports = self.ports(host, out);
        let sockets = sockets(host);
        let all = ports.as_ref().map_or(0, Ports::count) as f64;
        let crowded = ports.is_some() && sockets.is_none_or(|sockets| sockets >= CROWDED * all);
        if ports.is_some() {
            out.level("outgoing_tcp.ports", "", all);
        }
        if !crowded && let (Some(_), Some(sockets)) = (&ports, sockets) {
            out.level("outgoing_tcp.ports_taken", "", sockets);
        }
        if repeated == Some(false) {
            out.level("outgoing_tcp.unanswered", "", 0.0);
            out.level("outgoing_tcp.unanswered_here", "", 0.0);
        }
        let is_wanted = crowded || repeated == Some(true);
        let pause = |took: f64| (took * PAUSE_PER_LOOK).clamp(PAUSE_SECONDS.0, PAUSE_SECONDS.1);
        if !is_wanted || self.looked.is_some_and(|(looked, took)| now - looked < pause(took)) {
            return Ok(());
        }
        let began = host.thread_usage();
        let reuse = Reuse::parse(&host.read("proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default());
        // Where no socket of IPv6 exists, the kernel would search its whole table to say so.
        let v6 = host.read("proc/net/sockstat6").ok().and_then(|text| value(&text, "TCP6", "inuse"));
        let files: &[&str] = if v6 == Some(0.0) || !host.exists("proc/net/tcp6") {
            &["proc/net/tcp"]
        } else {
            &["proc/net/tcp", "proc/net/tcp6"]
        };
        let seen = look(host, files, ports.as_ref().filter(|_| crowded), reuse)?;
        self.looked = Some((now, host.thread_usage() - began));
        self.cut |= seen.cut;
        if repeated == Some(true) {
            self.unanswered(&seen, out);
        }
        if crowded {
            self.taken(seen, all, out);
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        if self.cut {
            let why = "there are so many TCP sockets that some were left out";
            out.gap("outgoing_tcp.", "(others)", Unavailable::new(Reason::ShortWindow, why));
        }
        for (series, seen, why) in [
            ("outgoing_tcp.unanswered_by", self.any_unanswered, "no retransmitted SYN was seen to wait for an answer"),
            (
                "outgoing_tcp.ports_towards",
                self.any_taken,
                "no connection holds one of the local ports, or they are too few to count",
            ),
        ] {
            if !seen {
                out.gap(series, "", Unavailable::new(Reason::NotApplicable, why));
            }
        }
        self.name_owners(host, out);
    }
}

impl OutgoingTcp {
    /// Whether a SYN was retransmitted since the window began; none where the kernel does not tell.
    fn repeats(&mut self, host: &Host, out: &Sink) -> Option<bool> {
        let now = match host.read("proc/net/netstat") {
            Ok(text) => column(&text, "TcpExt", "TCPSynRetrans").ok_or_else(|| {
                Unavailable::new(
                    Reason::Absent,
                    "/proc/net/netstat has no TCPSynRetrans: this kernel does not count it",
                )
            }),
            Err(error) => Err(error.into()),
        };
        match now {
            Ok(now) => Some(now > *self.repeated.get_or_insert(now)),
            Err(gap) => {
                out.gap("outgoing_tcp.unanswered", "", gap);
                None
            }
        }
    }

    fn ports(&mut self, host: &Host, out: &Sink) -> Option<Ports> {
        let path = "proc/sys/net/ipv4/ip_local_port_range";
        let reserved = host.read("proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
        let broken = || Unavailable::new(Reason::Malformed, format!("/{path} does not hold two ports"));
        match host
            .read(path)
            .map_err(Unavailable::from)
            .and_then(|text| Ports::parse(&text, &reserved).ok_or_else(broken))
        {
            Ok(ports) => Some(ports),
            Err(gap) => {
                out.gap("outgoing_tcp.ports", "", gap);
                None
            }
        }
    }

    fn unanswered(&mut self, seen: &SocketScan, out: &Sink) {
        let all: usize = seen.unanswered.values().map(|sockets| sockets.count).sum();
        out.level("outgoing_tcp.unanswered", "", all as f64);
        out.level("outgoing_tcp.unanswered_here", "", seen.unanswered_here as f64);
        let mut worst: Vec<_> = seen.unanswered.iter().collect();
        worst.sort_by_key(|(_, sockets)| std::cmp::Reverse(sockets.count));
        for (destination, sockets) in worst.into_iter().take(MAX_UNANSWERED) {
            let name = destination.to_string();
            self.any_unanswered = true;
            out.level("outgoing_tcp.unanswered_by", &name, sockets.count as f64);
            self.wanted.insert(name.clone(), (name, sockets.clone()));
        }
    }

    fn taken(&mut self, seen: SocketScan, all: f64, out: &Sink) {
        let most = seen.taken.values().map(|sockets| sockets.count).max().unwrap_or(0);
        out.level("outgoing_tcp.ports_taken", "", most as f64);
        let mut fullest: Vec<_> = seen.taken.into_iter().collect();
        fullest.sort_by_key(|(_, sockets)| std::cmp::Reverse(sockets.count));
        for ((local, remote), sockets) in fullest.into_iter().take(MAX_TOWARDS) {
            let name = format!("{local} to {remote}");
            self.any_taken = true;
            out.level("outgoing_tcp.ports_towards", &name, sockets.count as f64);
            if sockets.count as f64 > SUSPICIOUS * all {
                self.wanted.insert(name, (remote.to_string(), sockets));
            }
        }
    }

    /// Names the processes that hold the sockets, the one with the most first.
    fn name_owners(&self, host: &Host, out: &Sink) {
        let inodes: BTreeSet<u64> =
            self.wanted.values().flat_map(|(_, sockets)| sockets.inodes.iter().copied()).collect();
        if self.wanted.is_empty() {
            return;
        }
        let (owners, all_seen) = socket_owners(host, &inodes);
        for (instance, (destination, sockets)) in &self.wanted {
            let mut holders: HashMap<(u32, &str), usize> = HashMap::new();
            for (pid, process) in sockets.inodes.iter().filter_map(|inode| owners.get(inode)) {
                *holders.entry((*pid, process)).or_default() += 1;
            }
            out.label(instance, "uid", sockets.uid.to_string());
            if let Some(((pid, process), _)) =
                holders.into_iter().max_by_key(|((pid, _), count)| (*count, std::cmp::Reverse(*pid)))
            {
                out.label(instance, "name", format!("{process} to {destination}"));
                out.label(instance, "process", process);
                out.label(instance, "pid", pid.to_string());
            } else {
                out.label(instance, "owner", unknown_owner(sockets, all_seen));
            }
        }
    }
}

fn unknown_owner(sockets: &Sockets, all_seen: bool) -> &'static str {
    if sockets.inodes.is_empty() {
        "no process: the connections are closed (TIME_WAIT)"
    } else if all_seen {
        "no process that is visible here, or it has closed them since"
    } else {
        "not visible to this user; as root rdiag names the process"
    }
}

/// TCP sockets in use or in TIME_WAIT: each holds one local port at most.
fn sockets(host: &Host) -> Option<f64> {
    let text = host.read("proc/net/sockstat").ok()?;
    let v6 = host.read("proc/net/sockstat6").ok().and_then(|text| value(&text, "TCP6", "inuse"));
    Some(value(&text, "TCP", "inuse")? + value(&text, "TCP", "tw")? + v6.unwrap_or(0.0))
}
