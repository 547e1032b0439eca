//! /sys/devices/system/clocksource: which clock the kernel reads the time from, and whether that is a slow one.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "clocksource",
    help: "The clock in use and whether it is slow to read, from /sys/devices/system/clocksource.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "one short read at the beginning and at the end (about 10 µs)",
    start: |_| Box::new(Clocksource),
};

const SERIES: &[SeriesDef] = &[SeriesDef::gauge(
    "clocksource.slow",
    RawUnit::Count,
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
)];

const METRICS: &[MetricDef] = &[MetricDef {
    id: "kernel.slow_clock.count",
    unit: Unit::Count,
    dimension: Some("clock"),
    help: "1 if the clock in use is a device behind a slow bus, 0 if programs can read it without a system call.",
    sources: &[Formula::level(&[term("clocksource.slow")])],
    caveat: "Matters only for programs that ask for the time very often.",
    manual: "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
    ..MetricDef::EMPTY
}];

const PATH: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Clocks that are read over a bus or advance with the tick. All others (tsc, kvm-clock, arch_sys_counter …) are quick.
const SLOW: [&str; 5] = ["acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"];

struct Clocksource;

impl Collect for Clocksource {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let name = host.read_line(PATH)?;
        let plain = |c: char| c.is_ascii_graphic();
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(Unavailable::new(Reason::Malformed, format!("/{PATH} names no clock")));
        }
        out.level("clocksource.slow", &name, if SLOW.contains(&name.as_str()) { 1.0 } else { 0.0 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Story;

    #[test]
    fn slow_clocks_are_told_from_quick_ones_and_from_garbage() {
        for (text, name, slow) in [("tsc\n", "tsc", 0.0), ("hpet\n", "hpet", 1.0), ("kvm-clock\n", "kvm-clock", 0.0)] {
            let metrics = Story::of_seconds(2).file(0, PATH, text).metrics(&COLLECTOR);
            assert_eq!(metrics.stats("kernel.slow_clock.count", name).unwrap().last, slow);
        }
        for text in ["", "a b", "\u{1b}[2J"] {
            let record = Story::of_seconds(2).file(0, PATH, text).record(&COLLECTOR);
            assert_eq!(record.unavailable.unwrap().reason, Reason::Malformed);
        }
    }
}
