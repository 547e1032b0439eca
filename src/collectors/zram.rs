//! /sys/block/zramN: compressed memory that poses as a disk, mostly to swap to.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "zram",
    help: "Compressed memory devices: contents, memory they take, failures, from /sys/block/zramN.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "a directory listing, and two short reads per zram device, at the beginning and at the end (about 50 µs)",
    start: |_| Box::new(Zram),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("zram.original", RawUnit::Bytes, "/sys/block/zramN/mm_stat, field 1"),
    SeriesDef::gauge("zram.used", RawUnit::Bytes, "/sys/block/zramN/mm_stat, field 3"),
    SeriesDef::gauge("zram.limit", RawUnit::Bytes, "/sys/block/zramN/mm_stat, field 4"),
    SeriesDef::counter("zram.failed_reads", RawUnit::Count, "/sys/block/zramN/io_stat, field 1"),
    SeriesDef::counter("zram.failed_writes", RawUnit::Count, "/sys/block/zramN/io_stat, field 2"),
];

const MANUAL: &str = "zramctl";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "memory.zram_used.bytes",
        unit: Unit::Bytes,
        dimension: Some("zram device"),
        help: "Memory that a zram device takes for what it holds.",
        sources: &[Formula::level(&[term("zram.used")])],
        caveat: "Is part of what /proc/meminfo accounts for nowhere.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zram_compression.ratio",
        unit: Unit::Ratio,
        dimension: Some("zram device"),
        help: "Memory taken per memory held: below 1 compression pays.",
        sources: &[Formula::level_ratio(&[term("zram.used")], &[term("zram.original")])],
        caveat: "Says nothing while the device is almost empty.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zram_limit.ratio",
        unit: Unit::Ratio,
        dimension: Some("zram device"),
        help: "Memory taken per memory that the device may take.",
        sources: &[Formula::level_ratio(&[term("zram.used")], &[term("zram.limit")])],
        caveat: "Without a limit there is no such figure.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zram_failures.count",
        unit: Unit::Count,
        dimension: Some("zram device"),
        help: "Reads and writes of a zram device that failed.",
        sources: &[Formula::change(&[term("zram.failed_reads"), term("zram.failed_writes")])],
        caveat: "Failed writes mean that the limit was reached or that no memory was left.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

struct Zram;

impl Collect for Zram {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut any = false;
        let disks = host.list("sys/block")?;
        for name in disks.iter().filter(|name| name.starts_with("zram")) {
            // A device without a size is a name and nothing behind it.
            if host.read_u64(&format!("sys/block/{name}/disksize")).unwrap_or(0) == 0 {
                continue;
            }
            any = true;
            match host.read(&format!("sys/block/{name}/mm_stat")) {
                Ok(text) => record_memory(name, &text, out),
                Err(error) => out.gap("zram.", name, error.gap()),
            }
            match host.read(&format!("sys/block/{name}/io_stat")) {
                Ok(text) => record_failures(name, &text, out),
                Err(error) => out.gap("zram.failed", name, error.gap()),
            }
        }
        if any { Ok(()) } else { Err(Unavailable::new(Reason::NotApplicable, "no zram device is set up")) }
    }
}

fn record_memory(name: &str, text: &str, out: &Sink) {
    let [original, _, used, limit] = numbers(text);
    let limit = limit.filter(|bytes| *bytes > 0);
    for (series, value) in [("zram.original", original), ("zram.used", used), ("zram.limit", limit)] {
        if let Some(value) = value {
            out.level(series, name, value as f64);
        }
    }
    if used.is_some() && limit.is_none() {
        out.gap("zram.limit", "", Unavailable::new(Reason::NotApplicable, "no limit is set for its memory"));
    }
}

fn record_failures(name: &str, text: &str, out: &Sink) {
    let [reads, writes] = numbers(text);
    if let (Some(reads), Some(writes)) = (reads, writes) {
        out.count("zram.failed_reads", name, reads);
        out.count("zram.failed_writes", name, writes);
    }
}

/// The first numbers of a line; none from the first one on that is broken.
fn numbers<const N: usize>(text: &str) -> [Option<u64>; N] {
    let mut found = [None; N];
    for (slot, field) in found.iter_mut().zip(text.split_whitespace()) {
        let Ok(value) = field.parse() else { break };
        *slot = Some(value);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_newer_kernels_add_do_no_harm_and_missing_ones_are_missing() {
        assert_eq!(
            numbers::<4>("  4096  74  12288  0  12288  0  0  0  0\n"),
            [Some(4096), Some(74), Some(12288), Some(0)]
        );
        assert_eq!(numbers::<4>("1 2"), [Some(1), Some(2), None, None]);
        assert_eq!(numbers::<2>("1 x"), [Some(1), None]);
        assert_eq!(numbers::<2>(""), [None, None]);
    }
}
