//! /proc/zoneinfo: how much is free in each zone of memory, against the marks at which reclaim begins.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "zoneinfo",
    help: "Free pages and watermarks of each zone of memory, from /proc/zoneinfo.",
    // The kernel holds each zone's lock, interrupts off, while it prints a line per CPU: not to be asked for often.
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "one read at the beginning and at the end; grows with zones times CPUs (about 60 µs on 2 CPUs)",
    start: |_| Box::new(Zoneinfo),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("zoneinfo.free", RawUnit::Pages, "/proc/zoneinfo, pages free"),
    SeriesDef::gauge("zoneinfo.min", RawUnit::Pages, "/proc/zoneinfo, min"),
    SeriesDef::gauge("zoneinfo.low", RawUnit::Pages, "/proc/zoneinfo, low"),
    SeriesDef::gauge("zoneinfo.high", RawUnit::Pages, "/proc/zoneinfo, high"),
];

const MANUAL: &str = "grep -E 'zone|free|min|low|high' /proc/zoneinfo";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "memory.zone_free_to_low.ratio",
        unit: Unit::Ratio,
        dimension: Some("zone"),
        help: "Free memory of a zone per its low mark, below which the reclaim threads run.",
        sources: &[Formula::level_ratio(&[term("zoneinfo.free")], &[term("zoneinfo.low")])],
        caveat: "A host that caches files sits near 1 by design.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zone_free_to_min.ratio",
        unit: Unit::Ratio,
        dimension: Some("zone"),
        help: "Free memory of a zone per its min mark, below which programs have to free memory themselves.",
        sources: &[Formula::level_ratio(&[term("zoneinfo.free")], &[term("zoneinfo.min")])],
        caveat: "Another zone may still serve the same allocation.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

/// A zone of a node.
#[derive(Debug, Default, PartialEq)]
struct Zone {
    name: String,
    free: Option<u64>,
    min: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
    managed: u64,
}

struct Zoneinfo;

impl Collect for Zoneinfo {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/zoneinfo")?;
        let mut seen = false;
        for zone in parse(&text) {
            let (Some(free), Some(min), Some(low)) = (zone.free, zone.min, zone.low) else { continue };
            // Empty zones, and the sliver of a zone whose mark is but a few pages, cannot be short of anything.
            if zone.managed == 0 || min == 0 {
                continue;
            }
            seen = true;
            out.level("zoneinfo.free", &zone.name, free as f64);
            out.level("zoneinfo.min", &zone.name, min as f64);
            out.level("zoneinfo.low", &zone.name, low as f64);
            if let Some(high) = zone.high {
                out.level("zoneinfo.high", &zone.name, high as f64);
            }
        }
        if seen {
            Ok(())
        } else {
            Err(Unavailable::new(Reason::Malformed, "/proc/zoneinfo holds no zone with watermarks"))
        }
    }
}

/// The zones in the order of the file. Only the first of each name counts: `high` occurs again for every CPU.
fn parse(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if let Some(name) = zone_name(line) {
            zones.push(Zone { name, ..Zone::default() });
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("pages"), Some("free"), Some(value)) => zone.free = value.parse().ok(),
            (Some("min"), Some(value), None) => zone.min = zone.min.or(value.parse().ok()),
            (Some("low"), Some(value), None) => zone.low = zone.low.or(value.parse().ok()),
            (Some("high"), Some(value), None) => zone.high = zone.high.or(value.parse().ok()),
            (Some("managed"), Some(value), None) => zone.managed = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    zones
}

/// `Node 0, zone   Normal` → `Normal of node 0`.
fn zone_name(line: &str) -> Option<String> {
    let (node, zone) = line.strip_prefix("Node ")?.split_once(", zone")?;
    let node: u32 = node.trim().parse().ok()?;
    let zone = zone.trim();
    (!zone.is_empty()).then(|| format!("{zone} of node {node}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Node 0, zone   Normal\n  per-node stats\n      nr_inactive_anon 5\n  pages free     77\n        \
                        boost    0\n        min      5\n        low      6\n        high     7\n        promo    8\n        \
                        spanned  9\n        present  9\n        managed  9\n        cma      0\n  pagesets\n    cpu: 0\n  \
                            count: 3\n              high:  99\n              high_min: 4\n              batch: 63\n";

    #[test]
    fn a_zone_is_read_past_the_lines_of_its_node_and_of_its_cpus() {
        let expected = Zone {
            name: "Normal of node 0".into(),
            free: Some(77),
            min: Some(5),
            low: Some(6),
            high: Some(7),
            managed: 9,
        };
        assert_eq!(parse(TEXT), [expected]);
    }

    #[test]
    fn a_cut_file_gives_what_it_has() {
        let zones = parse(TEXT.split_once("low").unwrap().0);
        assert_eq!((zones[0].min, zones[0].low, zones[0].managed), (Some(5), None, 0));
        assert!(parse("Node x, zone Normal\nmin 5").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_whatever_makes_it_panic(text in "(?s)(Node [0-9]{1,12}, zone .{0,9}\n)?.{0,300}") {
            let _ = parse(&text);
        }
    }
}
