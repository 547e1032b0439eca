//! The neighbour tables (ARP, NDP): how full they are, and what they could not resolve.

use super::conntrack::sum;
use super::sockets::limit_gap;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, optional, term};
use rdiag_model::{RawUnit, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "neighbours",
    help: "Entries of the ARP and NDP tables against their limit, and overflows, from /proc/net/stat.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "four small reads at each end of the window (about 30 µs)",
    start: |_| Box::new(Neighbours),
};

const fn count(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("neighbours.entries", RawUnit::Count, "/proc/net/stat/arp_cache, ndisc_cache, entries"),
    SeriesDef::gauge("neighbours.limit", RawUnit::Count, "/proc/sys/net/ipv4, ipv6/neigh/default/gc_thresh3"),
    count("neighbours.arp_table_fulls", "/proc/net/stat/arp_cache, table_fulls, all CPUs"),
    count("neighbours.ndisc_table_fulls", "/proc/net/stat/ndisc_cache, table_fulls, all CPUs"),
    count("neighbours.arp_discards", "/proc/net/stat/arp_cache, unresolved_discards, all CPUs"),
    count("neighbours.ndisc_discards", "/proc/net/stat/ndisc_cache, unresolved_discards, all CPUs"),
    count("neighbours.arp_unanswered", "/proc/net/stat/arp_cache, res_failed, all CPUs"),
    count("neighbours.ndisc_unanswered", "/proc/net/stat/ndisc_cache, res_failed, all CPUs"),
];

/// Columns of the counters.
const COLUMNS: [&str; 3] = ["table_fulls", "unresolved_discards", "res_failed"];

/// File, table, limit's folder, and the series of each column.
const TABLES: [(&str, &str, &str, [&str; 3]); 2] = [
    (
        "arp_cache",
        "IPv4",
        "ipv4",
        ["neighbours.arp_table_fulls", "neighbours.arp_discards", "neighbours.arp_unanswered"],
    ),
    (
        "ndisc_cache",
        "IPv6",
        "ipv6",
        ["neighbours.ndisc_table_fulls", "neighbours.ndisc_discards", "neighbours.ndisc_unanswered"],
    ),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.neighbours.ratio",
        unit: Unit::Ratio,
        dimension: Some("neighbour_table"),
        help: "Known neighbours (ARP, NDP) against the most that the table may hold.",
        sources: &[Formula::level_ratio(&[term("neighbours.entries")], &[term("neighbours.limit")])],
        caveat: "Entries set by hand count, but do not fall under the limit.",
        manual: "ip neighbour | wc -l; sysctl net.ipv4.neigh.default.gc_thresh3",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.neighbours.overflows.count",
        unit: Unit::Count,
        help: "Neighbours that could not be added because the table was full.",
        sources: &[Formula::change(&[term("neighbours.arp_table_fulls"), optional("neighbours.ndisc_table_fulls")])],
        caveat: "For the whole host, all network namespaces together.",
        manual: "cat /proc/net/stat/arp_cache (table_fulls); lnstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.neighbours.unresolved_discards.count",
        unit: Unit::Count,
        help: "Packets dropped because too many waited for the address of a neighbour.",
        sources: &[Formula::change(&[term("neighbours.arp_discards"), optional("neighbours.ndisc_discards")])],
        caveat: "Attempts to reach unused addresses, such as a network scan, raise it.",
        manual: "cat /proc/net/stat/arp_cache (unresolved_discards); lnstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.neighbours.unanswered.count",
        unit: Unit::Count,
        help: "How often the kernel gave up asking for the address of a neighbour, or whether it is still there.",
        sources: &[Formula::change(&[term("neighbours.arp_unanswered"), optional("neighbours.ndisc_unanswered")])],
        caveat: "For the whole host, all network namespaces together. An address that is asked for all the time counts \
                 every three seconds.",
        manual: "cat /proc/net/stat/arp_cache (res_failed); lnstat",
        ..MetricDef::EMPTY
    },
];

struct Neighbours;

impl Collect for Neighbours {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut gap = None;
        let mut seen = false;
        for (file, table, folder, counters) in TABLES {
            let text = match host.read(&format!("proc/net/stat/{file}")) {
                Ok(text) => text,
                Err(error) => {
                    gap.get_or_insert(limit_gap(&error));
                    continue;
                }
            };
            seen = true;
            if let Some(entries) = entries(&text) {
                out.level("neighbours.entries", table, entries as f64);
            }
            match host.read_u64(&format!("proc/sys/net/{folder}/neigh/default/gc_thresh3")) {
                Ok(limit) => out.level("neighbours.limit", table, limit as f64),
                Err(error) => out.gap("neighbours.limit", table, limit_gap(&error)),
            }
            for (series, column) in counters.into_iter().zip(COLUMNS) {
                sum(&text, column).into_iter().for_each(|value| out.count(series, "", value));
            }
        }
        match gap {
            Some(gap) if !seen => Err(gap),
            _ => Ok(()),
        }
    }
}

/// Entries of the table: one number for all CPUs, repeated on the line of each.
fn entries(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let place = lines.next()?.split_whitespace().position(|name| name == "entries")?;
    u64::from_str_radix(lines.next()?.split_whitespace().nth(place)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap};
    use rdiag_model::Reason;

    fn stat(entries: u32, fulls: u32, discards: u32) -> String {
        let line = format!("{entries:08x} {:08x} {discards:08x} {fulls:08x}\n", discards + 4);
        format!("entries res_failed unresolved_discards table_fulls\n{line}{line}")
    }

    #[test]
    fn entries_are_repeated_for_each_cpu_and_not_summed() {
        let mut tree = Story::of_seconds(1);
        tree.put("proc/net/stat/arp_cache", stat(512, 0, 0));
        tree.put("proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n");
        tree.next();
        tree.put("proc/net/stat/arp_cache", stat(512, 3, 1));
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(metrics.stats("network.neighbours.ratio", "IPv4").unwrap().last, 0.5);
        assert_eq!(metrics.stats("network.neighbours.overflows.count", "").unwrap().total, 6.0);
        assert_eq!(metrics.stats("network.neighbours.unresolved_discards.count", "").unwrap().total, 2.0);
        assert_eq!(metrics.stats("network.neighbours.unanswered.count", "").unwrap().total, 2.0);
    }

    #[test]
    fn another_network_namespace_does_not_show_the_tables() {
        let tree = Story::of_seconds(1);
        let gap = gap(&tree.metrics(&COLLECTOR), "network.neighbours.overflows.count", "");
        assert_eq!(gap.reason, Reason::NotVisible);
    }

    #[test]
    fn garbage_gives_nothing() {
        assert_eq!(entries(""), None);
        assert_eq!(entries("entries\n"), None);
        assert_eq!(entries("entries\nzz\n"), None);
    }
}
