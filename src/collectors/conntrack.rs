//! Connection tracking of the firewall: how full its table is, and what it had to drop.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "conntrack",
    help: "Entries of the connection tracking table against its size, and drops, from /proc/sys/net/netfilter and /proc/net/stat.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "three small reads per interval (about 20 µs); the table itself is not read",
    start: |_| Box::new(Conntrack),
};

const fn count(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("conntrack.entries", RawUnit::Count, "/proc/sys/net/netfilter/nf_conntrack_count"),
    SeriesDef::gauge("conntrack.limit", RawUnit::Count, "/proc/sys/net/netfilter/nf_conntrack_max"),
    count("conntrack.event_drop", "/proc/net/stat/nf_conntrack, drop, all CPUs"),
    count("conntrack.event_early_drop", "/proc/net/stat/nf_conntrack, early_drop, all CPUs"),
    count("conntrack.event_insert_failed", "/proc/net/stat/nf_conntrack, insert_failed, all CPUs"),
    count("conntrack.event_invalid", "/proc/net/stat/nf_conntrack, invalid, all CPUs"),
];

const EVENTS: [(&str, &str); 4] = [
    ("conntrack.event_drop", "drop"),
    ("conntrack.event_early_drop", "early_drop"),
    ("conntrack.event_insert_failed", "insert_failed"),
    ("conntrack.event_invalid", "invalid"),
];

const MANUAL: &str =
    "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max; cat /proc/net/stat/nf_conntrack";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.conntrack.count",
        unit: Unit::Count,
        help: "Connections that are tracked now.",
        sources: &[Formula::level(&[term("conntrack.entries")])],
        caveat: "Those of this network namespace.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.conntrack.ratio",
        unit: Unit::Ratio,
        help: "Tracked connections against the size of the table.",
        sources: &[Formula::level_ratio(&[term("conntrack.entries")], &[term("conntrack.limit")])],
        caveat: "The entries are those of this network namespace.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.conntrack.drops.count",
        unit: Unit::Count,
        help: "Packets dropped because no entry could be made for their connection.",
        sources: &[Formula::change(&[term("conntrack.event_drop")])],
        caveat: "Mostly a full table; want of memory counts too.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.conntrack.early_drops.count",
        unit: Unit::Count,
        help: "Entries thrown out before their time to make room in a full table.",
        sources: &[Formula::change(&[term("conntrack.event_early_drop")])],
        caveat: "The connection itself may have ended already.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.conntrack.insert_failures.count",
        unit: Unit::Count,
        help: "Entries that could not be inserted, mostly because two packets of one connection raced.",
        sources: &[Formula::change(&[term("conntrack.event_insert_failed")])],
        caveat: "Known from name lookups that send two requests from one port at once.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.conntrack.invalid.count",
        unit: Unit::Count,
        help: "Packets that belong to no connection the table knows.",
        sources: &[Formula::change(&[term("conntrack.event_invalid")])],
        caveat: "Late packets of closed connections count.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

struct Conntrack;

impl Collect for Conntrack {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let entries =
            host.read_u64("proc/sys/net/netfilter/nf_conntrack_count").map_err(|error| match error.reason {
                Reason::Absent => {
                    Unavailable::new(Reason::NotApplicable, "connections are not tracked: the module is not loaded")
                }
                _ => error.gap(),
            })?;
        let limit = host.read_u64("proc/sys/net/netfilter/nf_conntrack_max")?;
        out.level("conntrack.entries", "", entries as f64);
        out.level("conntrack.limit", "", limit as f64);
        match host.read("proc/net/stat/nf_conntrack") {
            Ok(text) => {
                for (series, column) in EVENTS {
                    sum(&text, column).into_iter().for_each(|value| out.count(series, "", value));
                }
            }
            Err(error) => {
                let gap = error.gap();
                let absent = gap.reason == Reason::Absent;
                let gap = if absent { gap.with_remedy("a kernel built with CONFIG_NF_CONNTRACK_PROCFS") } else { gap };
                out.gap("conntrack.event", "", gap);
            }
        }
        Ok(())
    }
}

/// The sum of a column over the lines of all CPUs; the head line names the columns, the numbers are hexadecimal.
pub(super) fn sum(text: &str, column: &str) -> Option<u64> {
    let mut lines = text.lines();
    let place = lines.next()?.split_whitespace().position(|name| name == column)?;
    let mut sum: Option<u64> = None;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let value = u64::from_str_radix(line.split_whitespace().nth(place)?, 16).ok()?;
        sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap};

    const STAT: &str = "entries  clashres found insert_failed drop early_drop\n\
                        00000003 00000000 00000000 00000001 0000000a 00000000\n\
                        00000003 00000000 00000000 00000002 00000010 00000000\n";

    #[test]
    fn a_column_is_found_by_name_and_summed_over_the_cpus() {
        assert_eq!(sum(STAT, "drop"), Some(26));
        assert_eq!(sum(STAT, "insert_failed"), Some(3));
        assert_eq!(sum(STAT, "chaintoolong"), None);
    }

    #[test]
    fn what_is_cut_or_broken_gives_nothing() {
        assert_eq!(sum("", "drop"), None);
        assert_eq!(sum("drop\n", "drop"), None);
        assert_eq!(sum("a drop\n1\n", "drop"), None);
        assert_eq!(sum("drop\nxyz\n", "drop"), None);
        assert_eq!(sum("drop\nffffffffffffffff\n1\n", "drop"), Some(u64::MAX));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([0-9a-f]{0,9}|drop|\\PC|\n| ){0,100}") {
            let _ = sum(&text, "drop");
        }
    }

    #[test]
    fn without_the_module_nothing_applies() {
        let tree = Story::of_seconds(1);
        let gap = gap(&tree.metrics(&COLLECTOR), "network.conntrack.ratio", "");
        assert_eq!(gap.reason, Reason::NotApplicable);
    }

    #[test]
    fn a_kernel_without_the_statistics_still_shows_the_table() {
        let mut tree = Story::of_seconds(1);
        tree.put("proc/sys/net/netfilter/nf_conntrack_count", "90\n");
        tree.put("proc/sys/net/netfilter/nf_conntrack_max", "100\n");
        tree.next();
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(metrics.stats("network.conntrack.ratio", "").unwrap().mean, 0.9);
        assert_eq!(gap(&metrics, "network.conntrack.drops.count", "").reason, Reason::Absent);
    }
}
