//! /sys/devices/system/edac/mc: memory errors as the driver of the memory controller counts them. Without such a driver there is no folder,
//! which proves nothing: memory with ECC corrects errors all the same, and without ECC it does not notice them.

use crate::def::{Cadence, Collect, CollectorDef, Sink, unless_virtual};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "edac",
    help: "Corrected and uncorrected memory errors of each memory controller, from /sys/devices/system/edac/mc.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window: one directory, and three short files for each memory controller",
    start: |_| Box::new(Edac),
};

const CORRECTED: &str = "edac.corrected";
const UNCORRECTED: &str = "edac.uncorrected";

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter32(CORRECTED, RawUnit::Count, "/sys/devices/system/edac/mc/mcN/ce_count"),
    SeriesDef::counter32(UNCORRECTED, RawUnit::Count, "/sys/devices/system/edac/mc/mcN/ue_count"),
];

const MANUAL: &str = "grep . /sys/devices/system/edac/mc/mc*/{ce,ue}_count";
const CAVEAT: &str = "Needs memory with ECC and its EDAC driver. Where the firmware handles memory errors first, it may report only some.";
const SINCE: &str = "Writing to reset_counters, or loading the driver anew, sets the counters to 0.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "hardware.memory_corrected.count",
        unit: Unit::Count,
        dimension: Some("memory controller"),
        help: "Memory errors that ECC corrected within the window.",
        sources: &[Formula::change(&[term(CORRECTED)])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.memory_uncorrected.count",
        unit: Unit::Count,
        dimension: Some("memory controller"),
        help: "Memory errors that ECC detected and could not correct within the window.",
        sources: &[Formula::change(&[term(UNCORRECTED)])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.memory_corrected_before.count",
        unit: Unit::Count,
        dimension: Some("memory controller"),
        help: "Memory errors that ECC corrected since the EDAC driver counts them.",
        sources: &[Formula::level(&[term(CORRECTED)])],
        caveat: SINCE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "hardware.memory_uncorrected_before.count",
        unit: Unit::Count,
        dimension: Some("memory controller"),
        help: "Memory errors that ECC could not correct since the EDAC driver counts them.",
        sources: &[Formula::level(&[term(UNCORRECTED)])],
        caveat: SINCE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

const FOLDER: &str = "sys/devices/system/edac/mc";
/// More memory controllers than any machine has.
const MAX: usize = 256;

struct Edac;

impl Collect for Edac {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let names = match host.subdirectories(FOLDER) {
            Ok(names) => names,
            Err(error) if error.reason == Reason::Absent => Vec::new(),
            Err(error) => return Err(error.gap()),
        };
        let number = |name: &str| name.strip_prefix("mc").is_some_and(|rest| rest.parse::<u16>().is_ok());
        let controllers: Vec<String> = names.into_iter().filter(|name| number(name)).take(MAX).collect();
        if controllers.is_empty() {
            let why = "no EDAC driver has a memory controller: none is loaded, or the memory has no ECC";
            let gap = Unavailable::new(Reason::Absent, why)
                .with_remedy("load the EDAC driver of the memory controller (skx_edac, amd64_edac, ie31200_edac …)");
            return Err(unless_virtual(host.facts(), "the hypervisor, not its guest, sees memory errors", gap));
        }
        for name in controllers {
            for (series, file) in [(CORRECTED, "ce_count"), (UNCORRECTED, "ue_count")] {
                match host.read_u64(&format!("{FOLDER}/{name}/{file}")) {
                    Ok(count) => out.count(series, &name, count),
                    Err(error) => out.gap(series, &name, error.gap()),
                }
            }
            if let Ok(driver) = host.read_line(&format!("{FOLDER}/{name}/mc_name")) {
                out.label(&name, "driver", driver.chars().take(60).collect::<String>());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::COLLECTOR;
    use crate::testing::{Story, gap, instances, stats};
    use rdiag_model::Reason;

    #[test]
    fn errors_of_the_window_are_told_from_those_before() {
        let story = Story::of_seconds(3)
            .file(0, "sys/devices/system/edac/mc/mc0/ce_count", "7\n")
            .file(0, "sys/devices/system/edac/mc/mc0/ue_count", "1\n")
            .file(0, "sys/devices/system/edac/mc/mc0/mc_name", "Skylake Socket#0 IMC#0\n")
            .file(0, "sys/devices/system/edac/mc/mc1/ce_count", "0\n")
            .file(0, "sys/devices/system/edac/mc/mc1/ue_count", "0\n")
            .file(0, "sys/devices/system/edac/mc/power/control", "auto\n")
            .file(2, "sys/devices/system/edac/mc/mc0/ce_count", "10\n")
            .file(2, "sys/devices/system/edac/mc/mc1/ue_count", "2\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "hardware.memory_corrected.count"), ["mc0", "mc1"]);
        assert_eq!(stats(&metrics, "hardware.memory_corrected.count", "mc0").total, 3.0);
        assert_eq!(stats(&metrics, "hardware.memory_uncorrected.count", "mc0").total, 0.0);
        assert_eq!(stats(&metrics, "hardware.memory_uncorrected.count", "mc1").total, 2.0);
        assert_eq!(stats(&metrics, "hardware.memory_corrected_before.count", "mc0").last, 10.0);
        assert_eq!(stats(&metrics, "hardware.memory_uncorrected_before.count", "mc0").last, 1.0);
        assert_eq!(metrics.labels["memory controller"]["mc0"]["driver"], "Skylake Socket#0 IMC#0");
    }

    #[test]
    fn without_a_driver_nothing_is_known_and_of_a_guest_nothing_is_asked() {
        let bare = Story::of_seconds(2).file(0, "sys/devices/system/edac/mc/uevent", "").record(&COLLECTOR);
        let gap = bare.unavailable.unwrap();
        assert_eq!(gap.reason, Reason::Absent);
        assert!(gap.why.contains("no EDAC driver") && gap.remedy.is_some(), "{gap:?}");
        let guest = Story::of_seconds(2).file(0, "proc/cpuinfo", "flags\t\t: fpu hypervisor lm\n").record(&COLLECTOR);
        assert_eq!(guest.unavailable.unwrap().reason, Reason::NotApplicable);
    }

    #[test]
    fn a_broken_counter_is_no_zero() {
        let story = Story::of_seconds(2).file(0, "sys/devices/system/edac/mc/mc0/ce_count", "-1\n").file(
            0,
            "sys/devices/system/edac/mc/mc0/ue_count",
            "0\n",
        );
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "hardware.memory_corrected.count", "mc0").reason, Reason::Malformed);
        assert_eq!(stats(&metrics, "hardware.memory_uncorrected.count", "mc0").total, 0.0);
    }
}
