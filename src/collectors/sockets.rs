//! /proc/net/sockstat: sockets in use and their memory, against the kernel's limits.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, optional, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "sockets",
    help: "Sockets in use, orphaned and in TIME_WAIT, and the memory of TCP and UDP, against their limits.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "two small reads per interval, whatever the number of sockets (about 20 µs)",
    start: |_| Box::new(Sockets { limits: None }),
};

const fn count(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::gauge(name, RawUnit::Count, source)
}

const fn pages(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::gauge(name, RawUnit::Pages, source)
}

const SERIES: &[SeriesDef] = &[
    count("sockets.used", "/proc/net/sockstat, sockets used"),
    count("sockets.tcp", "/proc/net/sockstat, TCP inuse"),
    count("sockets.tcp6", "/proc/net/sockstat6, TCP6 inuse"),
    count("sockets.orphans", "/proc/net/sockstat, TCP orphan"),
    count("sockets.time_wait", "/proc/net/sockstat, TCP tw"),
    pages("sockets.tcp_memory", "/proc/net/sockstat, TCP mem"),
    count("sockets.udp", "/proc/net/sockstat, UDP inuse"),
    count("sockets.udp6", "/proc/net/sockstat6, UDP6 inuse"),
    pages("sockets.udp_memory", "/proc/net/sockstat, UDP mem"),
    pages("sockets.limit_tcp_pressure", "/proc/sys/net/ipv4/tcp_mem, field 2"),
    pages("sockets.limit_tcp_memory", "/proc/sys/net/ipv4/tcp_mem, field 3"),
    pages("sockets.limit_udp_memory", "/proc/sys/net/ipv4/udp_mem, field 3"),
    count("sockets.limit_orphans", "/proc/sys/net/ipv4/tcp_max_orphans"),
    count("sockets.limit_time_wait", "/proc/sys/net/ipv4/tcp_max_tw_buckets"),
];

/// Series, file below /proc/sys/net/ipv4, place in it.
const LIMITS: [(&str, &str, usize); 5] = [
    ("sockets.limit_tcp_pressure", "tcp_mem", 1),
    ("sockets.limit_tcp_memory", "tcp_mem", 2),
    ("sockets.limit_udp_memory", "udp_mem", 2),
    ("sockets.limit_orphans", "tcp_max_orphans", 0),
    ("sockets.limit_time_wait", "tcp_max_tw_buckets", 0),
];

const MANUAL: &str = "cat /proc/net/sockstat; ss -s";

const HOST_WIDE: &str = "Counted for the whole host, all network namespaces together.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.sockets.count",
        unit: Unit::Count,
        help: "Sockets in use, of all kinds.",
        sources: &[Formula::level(&[term("sockets.used")])],
        caveat: "Those of this network namespace.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.sockets.count",
        unit: Unit::Count,
        help: "TCP sockets in use, listening ones included.",
        sources: &[Formula::level(&[term("sockets.tcp"), optional("sockets.tcp6")])],
        caveat: "Those of this network namespace; TIME_WAIT is not in it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.sockets.count",
        unit: Unit::Count,
        help: "UDP sockets in use.",
        sources: &[Formula::level(&[term("sockets.udp"), optional("sockets.udp6")])],
        caveat: "Those of this network namespace.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.memory.bytes",
        unit: Unit::Bytes,
        help: "Memory that TCP has reserved for buffers.",
        sources: &[Formula::level(&[term("sockets.tcp_memory")])],
        caveat: HOST_WIDE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.memory.ratio",
        unit: Unit::Ratio,
        help: "TCP memory as a share of its limit (net.ipv4.tcp_mem, third value).",
        sources: &[Formula::level_ratio(&[term("sockets.tcp_memory")], &[term("sockets.limit_tcp_memory")])],
        caveat: HOST_WIDE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.memory_pressure.ratio",
        unit: Unit::Ratio,
        help: "Memory of TCP against the level at which it begins to save (net.ipv4.tcp_mem, second value).",
        sources: &[Formula::level_ratio(&[term("sockets.tcp_memory")], &[term("sockets.limit_tcp_pressure")])],
        caveat: HOST_WIDE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.udp.memory.ratio",
        unit: Unit::Ratio,
        help: "UDP memory as a share of its limit (net.ipv4.udp_mem, third value).",
        sources: &[Formula::level_ratio(&[term("sockets.udp_memory")], &[term("sockets.limit_udp_memory")])],
        caveat: HOST_WIDE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.orphans.ratio",
        unit: Unit::Ratio,
        help: "Connections that no process owns any more against the most that may be (net.ipv4.tcp_max_orphans).",
        sources: &[Formula::level_ratio(&[term("sockets.orphans")], &[term("sockets.limit_orphans")])],
        caveat: HOST_WIDE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.time_wait.count",
        unit: Unit::Count,
        help: "Closed connections that are remembered in TIME_WAIT.",
        sources: &[Formula::level(&[term("sockets.time_wait")])],
        caveat: "Each holds its pair of addresses and ports for 60 s.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.tcp.time_wait.ratio",
        unit: Unit::Ratio,
        help: "Connections in TIME_WAIT against the most that may be (net.ipv4.tcp_max_tw_buckets).",
        sources: &[Formula::level_ratio(&[term("sockets.time_wait")], &[term("sockets.limit_time_wait")])],
        caveat: "Reaching the limit only forgets closed connections early.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

struct Sockets {
    /// Read once: they rarely change.
    limits: Option<Vec<(&'static str, f64)>>,
}

impl Collect for Sockets {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/net/sockstat")?;
        let read = |group, key| value(&text, group, key);
        let mut seen = false;
        for (series, found) in [
            ("sockets.used", read("sockets", "used")),
            ("sockets.tcp", read("TCP", "inuse")),
            ("sockets.orphans", read("TCP", "orphan")),
            ("sockets.time_wait", read("TCP", "tw")),
            ("sockets.tcp_memory", read("TCP", "mem")),
            ("sockets.udp", read("UDP", "inuse")),
            ("sockets.udp_memory", read("UDP", "mem")),
        ] {
            if let Some(found) = found {
                seen = true;
                out.level(series, "", found);
            }
        }
        let text6 = host.read("proc/net/sockstat6").unwrap_or_default();
        for (series, group) in [("sockets.tcp6", "TCP6"), ("sockets.udp6", "UDP6")] {
            value(&text6, group, "inuse").into_iter().for_each(|found| out.level(series, "", found));
        }
        for (series, limit) in self.limits.get_or_insert_with(|| limits(host, out)) {
            out.level(series, "", *limit);
        }
        if seen {
            Ok(())
        } else {
            Err(Unavailable::new(Reason::Malformed, "/proc/net/sockstat holds nothing that is known"))
        }
    }
}

fn limits(host: &Host, out: &Sink) -> Vec<(&'static str, f64)> {
    let mut found = Vec::with_capacity(LIMITS.len());
    for (series, file, place) in LIMITS {
        let path = format!("proc/sys/net/ipv4/{file}");
        let limit = host.read_line(&path).map_err(|error| limit_gap(&error)).and_then(|text| {
            let field = text.split_whitespace().nth(place).and_then(|field| field.parse().ok());
            field.ok_or_else(|| {
                Unavailable::new(Reason::Malformed, format!("/{path} holds no number at place {}", place + 1))
            })
        });
        match limit {
            Ok(limit) => found.push((series, limit)),
            Err(gap) => out.gap(series, "", gap),
        }
    }
    found
}

/// A limit of the whole host is shown in the host's own network namespace only.
pub(super) fn limit_gap(error: &rdiag_kernel::host::SourceError) -> Unavailable {
    match error.reason {
        Reason::Absent => Unavailable::new(
            Reason::NotVisible,
            format!("/{} does not exist: it is shown only in the host's own network namespace", error.path),
        )
        .with_remedy("run rdiag in the host's network namespace"),
        _ => error.gap(),
    }
}

/// `TCP: inuse 5 orphan 0`: the number after a key on the line of a group.
pub(super) fn value(text: &str, group: &str, key: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(group)?.strip_prefix(':'))?;
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        if word == key {
            return words.next()?.parse::<u64>().ok().map(|number| number as f64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap};

    const TEXT: &str =
        "sockets: used 16\nTCP: inuse 1 orphan 2 tw 3 alloc 4 mem 328\nUDP: inuse 5 mem 6\nFRAG: inuse 0 memory 0\n";

    #[test]
    fn numbers_are_found_by_group_and_key() {
        assert_eq!(value(TEXT, "TCP", "mem"), Some(328.0));
        assert_eq!(value(TEXT, "UDP", "inuse"), Some(5.0));
        assert_eq!(value(TEXT, "FRAG", "mem"), None, "memory is another key");
        assert_eq!(value("TCP: new 7 mem 3", "TCP", "mem"), Some(3.0));
        assert_eq!(value("TCP: inuse", "TCP", "inuse"), None);
        assert_eq!(value("TCP: inuse -1", "TCP", "inuse"), None);
        assert_eq!(value("TCP: inuse 99999999999999999999999", "TCP", "inuse"), None);
        assert_eq!(value("", "TCP", "inuse"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(\\PC|\n){0,200}") {
            let _ = value(&text, "TCP", "mem");
        }
    }

    #[test]
    fn memory_is_compared_with_its_limit_in_pages() {
        let tree = Story::of_seconds(1);
        tree.put("proc/net/sockstat", TEXT).put("proc/sys/net/ipv4/tcp_mem", "82\t164\t656\n");
        tree.put("proc/sys/net/ipv4/tcp_max_orphans", "0\n");
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(metrics.stats("network.tcp.memory.ratio", "").unwrap().mean, 0.5);
        assert_eq!(metrics.stats("network.tcp.memory_pressure.ratio", "").unwrap().mean, 2.0);
        assert_eq!(metrics.stats("network.tcp.memory.bytes", "").unwrap().mean, 328.0 * 4096.0);
        assert_eq!(
            gap(&metrics, "network.tcp.orphans.ratio", "").reason,
            Reason::NotApplicable,
            "no limit is no capacity"
        );
    }

    #[test]
    fn limits_of_the_host_are_not_visible_from_another_network_namespace() {
        let tree = Story::of_seconds(1);
        tree.put("proc/net/sockstat", TEXT);
        let metrics = tree.metrics(&COLLECTOR);
        let gap = gap(&metrics, "network.tcp.memory.ratio", "");
        assert_eq!(gap.reason, Reason::NotVisible);
        assert!(gap.remedy.is_some());
        assert!(metrics.stats("network.tcp.memory.bytes", "").is_ok());
    }
}
