//! /proc/swaps: each swap device or file, and how much of the swap space is compressed memory.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::Swap;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "swaps",
    help: "Swap devices and files with their sizes, from /proc/swaps.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "one short read at the beginning and at the end (about 15 µs)",
    start: |_| Box::new(Swaps),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("swaps.size", RawUnit::Kibibytes, "/proc/swaps, Size"),
    SeriesDef::gauge("swaps.used", RawUnit::Kibibytes, "/proc/swaps, Used"),
    SeriesDef::gauge("swaps.all_size", RawUnit::Kibibytes, "/proc/swaps, sum of Size"),
    SeriesDef::gauge("swaps.zram_size", RawUnit::Kibibytes, "/proc/swaps, sum of Size of zram devices"),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "memory.swap_device_used.ratio",
        unit: Unit::Ratio,
        dimension: Some("swap device"),
        help: "Share of one swap device or file in use.",
        sources: &[Formula::level_ratio(&[term("swaps.used")], &[term("swaps.size")])],
        caveat: "Devices of lower priority stay empty until those of higher priority are full.",
        manual: "swapon --show",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.swap_zram.ratio",
        unit: Unit::Ratio,
        help: "Share of the swap space that is compressed memory (zram) and no disk.",
        sources: &[Formula::level_ratio(&[term("swaps.zram_size")], &[term("swaps.all_size")])],
        caveat: "By size, whatever the priorities.",
        manual: "swapon --show",
        ..MetricDef::EMPTY
    },
];

struct Swaps;

fn is_zram(swap: &Swap) -> bool {
    swap.name.rsplit('/').next().is_some_and(|name| name.starts_with("zram"))
}

impl Collect for Swaps {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/swaps")?;
        if !text.starts_with("Filename") {
            return Err(Unavailable::new(Reason::Malformed, "/proc/swaps lacks its heading"));
        }
        let swaps: Vec<Swap> = rdiag_proc::swaps(&text).collect();
        if swaps.is_empty() {
            return Err(Unavailable::new(Reason::NotApplicable, "no swap space is configured"));
        }
        for swap in &swaps {
            out.level("swaps.size", &swap.name, swap.size as f64);
            out.level("swaps.used", &swap.name, swap.used as f64);
            out.label(&swap.name, "type", if is_zram(swap) { "zram" } else { &swap.kind });
            out.label(&swap.name, "priority", swap.priority.to_string());
        }
        let sum = |of: &dyn Fn(&&Swap) -> bool| swaps.iter().filter(of).map(|swap| swap.size as f64).sum();
        out.level("swaps.all_size", "", sum(&|_| true));
        out.level("swaps.zram_size", "", sum(&|swap| is_zram(swap)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_compressed_memory_is_known_by_its_name() {
        let swap = |name: &str| Swap { name: name.into(), kind: "partition".into(), size: 100, used: 7, priority: -2 };
        assert!(is_zram(&swap("/dev/zram0")) && !is_zram(&swap("/zram/file")));
    }
}
