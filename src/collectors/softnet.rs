//! /proc/net/softnet_stat: what each CPU did with received packets, and the backlog where they wait for it.

use std::collections::HashMap;

use super::sockets::limit_gap;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "softnet",
    help: "Packets that each CPU processed, dropped and left waiting, from /proc/net/softnet_stat.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "one read per interval; it grows with the CPUs (about 10 µs on 2)",
    start: |_| Box::new(Softnet::default()),
};

const fn core(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter32(name, RawUnit::Count, source)
}

const fn all(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

const SERIES: &[SeriesDef] = &[
    core("softnet.core_processed", "/proc/net/softnet_stat, column 1"),
    core("softnet.core_dropped", "/proc/net/softnet_stat, column 2"),
    core("softnet.core_squeezed", "/proc/net/softnet_stat, column 3"),
    SeriesDef::gauge("softnet.core_backlog", RawUnit::Count, "/proc/net/softnet_stat, column 12"),
    SeriesDef::gauge("softnet.core_backlog_limit", RawUnit::Count, "/proc/sys/net/core/netdev_max_backlog"),
    all("softnet.processed", "/proc/net/softnet_stat, column 1, all CPUs"),
    all("softnet.dropped", "/proc/net/softnet_stat, column 2, all CPUs"),
    all("softnet.squeezed", "/proc/net/softnet_stat, column 3, all CPUs"),
    all("softnet.flow_limited", "/proc/net/softnet_stat, column 11, all CPUs"),
];

const MANUAL: &str = "cat /proc/net/softnet_stat";

const SQUEEZED: &str = "More work was waiting, not lost; alone it says little, and busy loopback traffic causes it.";
const BACKLOG_ONLY: &str =
    "Only the CPU's backlog (loopback, veth, tunnels, RPS): frames lost in a device's ring are not in it.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.softnet.processed.per_second",
        unit: Unit::PerSecond,
        help: "Packets that the CPUs took in per second.",
        sources: &[Formula::rate(&[term("softnet.processed")])],
        caveat: "A packet that is steered to another CPU or passes a tunnel counts each time.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.softnet.drops.count",
        unit: Unit::Count,
        help: "Packets dropped because a CPU's backlog was full.",
        sources: &[Formula::change(&[term("softnet.dropped")])],
        caveat: BACKLOG_ONLY,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.softnet.squeezed.per_second",
        unit: Unit::PerSecond,
        help: "How often per second a CPU had to stop receiving with work left, because its share of time or packets \
               was used up.",
        sources: &[Formula::rate(&[term("softnet.squeezed")])],
        caveat: SQUEEZED,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.softnet.flow_limited.count",
        unit: Unit::Count,
        help: "Packets of a large flow dropped early to leave room for small ones.",
        sources: &[Formula::change(&[term("softnet.flow_limited")])],
        caveat: "Only where flow limits are switched on (net.core.flow_limit_cpu_bitmap).",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.softnet.core_processed.per_second",
        unit: Unit::PerSecond,
        dimension: Some("cpu"),
        help: "Packets that one CPU took in per second.",
        sources: &[Formula::rate(&[term("softnet.core_processed")])],
        caveat: "A packet that is steered to another CPU or passes a tunnel counts each time.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.softnet.core_drops.count",
        unit: Unit::Count,
        dimension: Some("cpu"),
        help: "Packets dropped because this CPU's backlog was full.",
        sources: &[Formula::change(&[term("softnet.core_dropped")])],
        caveat: BACKLOG_ONLY,
        manual: MANUAL,
        deed: Some(Deed { verb: "had", of: "the drops at full backlogs", ..Deed::USUAL }),
    },
    MetricDef {
        id: "network.softnet.core_squeezed.per_second",
        unit: Unit::PerSecond,
        dimension: Some("cpu"),
        help: "How often per second this CPU had to stop receiving with work left.",
        sources: &[Formula::rate(&[term("softnet.core_squeezed")])],
        caveat: SQUEEZED,
        manual: MANUAL,
        deed: Some(Deed { verb: "had", of: "the receive rounds that were cut off", ..Deed::USUAL }),
    },
    MetricDef {
        id: "network.softnet.backlog.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Packets in a CPU's backlog against the most that it may hold (net.core.netdev_max_backlog).",
        sources: &[Formula::level_ratio(&[term("softnet.core_backlog")], &[term("softnet.core_backlog_limit")])],
        caveat: "One look per interval: short bursts are mostly missed.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

/// Totals over all CPUs, as [`SERIES`] has them, and the columns (from 0) that they sum up.
const TOTALS: [(&str, usize); 4] =
    [("softnet.processed", 0), ("softnet.dropped", 1), ("softnet.squeezed", 2), ("softnet.flow_limited", 10)];
const BACKLOG: usize = 11;
const CPU_ID: usize = 12;

#[derive(Default)]
struct Softnet {
    /// The columns of each CPU at the sample before.
    before: HashMap<u32, Vec<u32>>,
    /// Growth over all CPUs. A sum of the columns would jump when a CPU comes or goes, or one column wraps.
    totals: [u64; TOTALS.len()],
    limit: Option<u64>,
}

impl Collect for Softnet {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/net/softnet_stat")?;
        let online = || host.read_line("sys/devices/system/cpu/online").unwrap_or_default();
        let rows = rows(&text, online);
        if rows.is_empty() {
            return Err(Unavailable::new(Reason::Malformed, "/proc/net/softnet_stat holds no line of a CPU"));
        }
        if self.limit.is_none() {
            match host.read_u64("proc/sys/net/core/netdev_max_backlog") {
                Ok(limit) => self.limit = Some(limit),
                Err(error) => out.gap("softnet.core_backlog_limit", "", limit_gap(&error)),
            }
        }
        for (cpu, columns) in &rows {
            let instance = cpu.to_string();
            let column = |at: usize| columns.get(at).copied();
            for (series, at) in
                [("softnet.core_processed", 0), ("softnet.core_dropped", 1), ("softnet.core_squeezed", 2)]
            {
                column(at).into_iter().for_each(|value| out.count(series, &instance, u64::from(value)));
            }
            if let Some(backlog) = column(BACKLOG) {
                out.level("softnet.core_backlog", &instance, f64::from(backlog));
                self.limit.into_iter().for_each(|n| out.level("softnet.core_backlog_limit", &instance, n as f64));
            }
            if let Some(before) = self.before.get(cpu) {
                for (total, (_, at)) in self.totals.iter_mut().zip(TOTALS) {
                    if let (Some(before), Some(now)) = (before.get(at), columns.get(at)) {
                        *total += u64::from(now.wrapping_sub(*before));
                    }
                }
            }
        }
        for (total, (series, at)) in self.totals.iter().zip(TOTALS) {
            if rows.iter().any(|(_, columns)| columns.len() > at) {
                out.count(series, "", *total);
            }
        }
        self.before = rows.into_iter().collect();
        Ok(())
    }
}

/// CPU and columns of each line. Newer kernels name the CPU in column 13; before, the lines are the online CPUs in order.
fn rows(text: &str, online: impl Fn() -> String) -> Vec<(u32, Vec<u32>)> {
    let lines = text.lines().map(|line| {
        let columns: Option<Vec<u32>> =
            line.split_whitespace().map(|word| u32::from_str_radix(word, 16).ok()).take(32).collect();
        columns.filter(|columns| columns.len() >= 3)
    });
    let mut order: Option<Vec<u32>> = None;
    let mut rows = Vec::new();
    for (place, columns) in lines.enumerate() {
        let Some(columns) = columns else { continue };
        let cpu = match columns.get(CPU_ID) {
            Some(cpu) => Some(*cpu),
            None => order.get_or_insert_with(|| ids(&online())).get(place).copied(),
        };
        rows.push((cpu.unwrap_or(u32::try_from(place).unwrap_or(u32::MAX)), columns));
    }
    rows
}

/// The numbers of a list such as `0-3,8`; none of a list that is no list.
fn ids(list: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    for part in list.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (Ok(low), Ok(high)) = (low.parse::<u32>(), high.parse::<u32>()) else { return Vec::new() };
        if high > 65_535 {
            return Vec::new();
        }
        ids.extend(low..=high);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap};

    fn line(processed: u32, dropped: u32, squeezed: u32, backlog: u32, cpu: u32) -> String {
        format!(
            "{processed:08x} {dropped:08x} {squeezed:08x} {} {backlog:08x} {cpu:08x} 00000000 00000000\n",
            "00000000 ".repeat(8).trim()
        )
    }

    #[test]
    fn columns_are_hexadecimal_and_the_cpu_is_named_in_the_thirteenth() {
        let rows = rows(&line(0x2208, 1, 2, 7, 5), String::new);
        let (cpu, columns) = &rows[0];
        assert_eq!((*cpu, columns[0], columns[BACKLOG], columns.len()), (5, 0x2208, 7, 15));
    }

    #[test]
    fn without_the_column_the_lines_are_the_online_cpus_in_order() {
        let text = "00000001 00000000 00000000 0 0 0 0 0 0 0\n00000002 00000000 00000000 0 0 0 0 0 0 0\n";
        let found: Vec<u32> = rows(text, || "0,4-5".into()).into_iter().map(|(cpu, _)| cpu).collect();
        assert_eq!(found, [0, 4]);
        let guessed: Vec<u32> = rows(text, || "garbage".into()).into_iter().map(|(cpu, _)| cpu).collect();
        assert_eq!(guessed, [0, 1]);
    }

    #[test]
    fn short_lines_and_garbage_are_left_out() {
        assert!(rows("", String::new).is_empty());
        assert!(rows("1 2\nzz 1 2 3\n123456789 1 2\n", String::new).is_empty());
        assert!(ids("5-1").is_empty());
        assert!(ids("0-4294967295").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "([0-9a-f]{0,9}|\\PC|\n| ){0,200}") {
            let _ = rows(&text, || text.clone());
        }
    }

    #[test]
    fn counters_wrap_at_32_bits_and_the_total_does_not_notice() {
        let mut tree = Story::of_seconds(1);
        tree.put("proc/sys/net/core/netdev_max_backlog", "1000\n");
        tree.put("proc/net/softnet_stat", line(0xffff_fffe, 0, 0, 0, 0) + &line(100, 0, 0, 500, 1));
        tree.next();
        tree.put("proc/net/softnet_stat", line(3, 2, 0, 0, 0) + &line(110, 0, 4, 500, 1));
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(metrics.stats("network.softnet.processed.per_second", "").unwrap().mean, 15.0);
        assert_eq!(metrics.stats("network.softnet.core_processed.per_second", "0").unwrap().mean, 5.0);
        assert_eq!(metrics.stats("network.softnet.drops.count", "").unwrap().total, 2.0);
        assert_eq!(metrics.stats("network.softnet.core_squeezed.per_second", "1").unwrap().mean, 4.0);
        assert_eq!(metrics.stats("network.softnet.backlog.ratio", "1").unwrap().mean, 0.5);
    }

    #[test]
    fn a_cpu_that_comes_or_goes_makes_no_spike() {
        let mut tree = Story::of_seconds(1);
        tree.put("proc/net/softnet_stat", line(10, 0, 0, 0, 0) + &line(1_000_000, 9, 0, 0, 1));
        tree.next();
        tree.put("proc/net/softnet_stat", line(20, 0, 0, 0, 0));
        tree.next();
        tree.put("proc/net/softnet_stat", line(30, 0, 0, 0, 0) + &line(1_000_000, 9, 0, 0, 1));
        let metrics = tree.metrics(&COLLECTOR);
        let all = metrics.stats("network.softnet.processed.per_second", "").unwrap();
        assert_eq!((all.mean, all.max), (10.0, 10.0));
        assert_eq!(metrics.stats("network.softnet.drops.count", "").unwrap().total, 0.0);
    }

    #[test]
    fn the_limit_is_not_visible_from_another_network_namespace() {
        let tree = Story::of_seconds(1);
        tree.put("proc/net/softnet_stat", line(1, 0, 0, 0, 0));
        assert_eq!(gap(&tree.metrics(&COLLECTOR), "network.softnet.backlog.ratio", "").reason, Reason::NotVisible);
    }
}
