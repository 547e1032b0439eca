//! /proc/swaps: each swap device or file, and how much of the swap space is compressed memory.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, unescape_octal};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

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

/// One line of the file.
#[derive(Debug, PartialEq, Eq)]
struct Swap {
    name: String,
    kind: String,
    size: u64,
    used: u64,
    priority: i64,
}

impl Swap {
    fn is_zram(&self) -> bool {
        self.name.rsplit('/').next().is_some_and(|name| name.starts_with("zram"))
    }
}

impl Collect for Swaps {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/swaps")?;
        if !text.starts_with("Filename") {
            return Err(Unavailable::new(Reason::Malformed, "/proc/swaps lacks its heading"));
        }
        let swaps: Vec<Swap> = text.lines().skip(1).filter_map(parse).collect();
        if swaps.is_empty() {
            return Err(Unavailable::new(Reason::NotApplicable, "no swap space is configured"));
        }
        for swap in &swaps {
            out.level("swaps.size", &swap.name, swap.size as f64);
            out.level("swaps.used", &swap.name, swap.used as f64);
            out.label(&swap.name, "type", if swap.is_zram() { "zram" } else { &swap.kind });
            out.label(&swap.name, "priority", swap.priority.to_string());
        }
        let sum = |of: &dyn Fn(&&Swap) -> bool| swaps.iter().filter(of).map(|swap| swap.size as f64).sum();
        out.level("swaps.all_size", "", sum(&|_| true));
        out.level("swaps.zram_size", "", sum(&|swap| swap.is_zram()));
        Ok(())
    }
}

/// `name type size used priority`, from the right: a removed file leaves a blank and a word behind its name.
fn parse(line: &str) -> Option<Swap> {
    let mut fields = line.split_whitespace().rev();
    let priority = fields.next()?.parse().ok()?;
    let used = fields.next()?.parse().ok()?;
    let size = fields.next()?.parse().ok()?;
    let kind = fields.next()?.to_owned();
    let mut name: Vec<&str> = fields.collect();
    name.reverse();
    let name = String::from_utf8_lossy(&unescape_octal(name.join(" ").as_bytes())).into_owned();
    (!name.is_empty()).then_some(Swap { name, kind, size, used, priority })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap(name: &str, kind: &str) -> Option<Swap> {
        Some(Swap { name: name.into(), kind: kind.into(), size: 100, used: 7, priority: -2 })
    }

    #[test]
    fn devices_files_and_removed_files_are_read() {
        assert_eq!(parse("/dev/zram0     partition\t100\t\t7\t\t-2"), swap("/dev/zram0", "partition"));
        assert_eq!(parse("/swap\\040file file 100 7 -2"), swap("/swap file", "file"));
        assert_eq!(parse("/swap\\040(deleted) file 100 7 -2"), swap("/swap (deleted)", "file"));
        assert!(swap("/dev/zram0", "partition").unwrap().is_zram() && !swap("/zram/file", "file").unwrap().is_zram());
    }

    #[test]
    fn what_is_no_swap_line_is_left_out() {
        for line in ["", "/dev/sda2 partition 100 7", "/dev/sda2 partition x 7 -2", "partition 100 7 -2"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_whatever_makes_it_panic(line in ".{0,200}") {
            let _ = parse(&line);
        }
    }
}
