//! /sys/class/powercap/intel-rapl:N: power that CPU packages use, and the limit that they keep over some seconds (RAPL, of Intel and AMD).
//! The counter of energy wraps after minutes of full load, at a value that stands beside it.

use std::collections::BTreeMap;

use crate::def::{Cadence, Collect, CollectorDef, Sink, unless_virtual};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term, times};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "powercap",
    help: "Power that CPU packages use, and their limit, from /sys/class/powercap/intel-rapl:N.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "six short files per CPU package and interval (about 10 µs each)",
    start: |_| Box::new(Powercap::default()),
};

const ENERGY: &str = "powercap.energy";
/// The same, of packages that have a limit.
const LIMITED: &str = "powercap.limited";
const LIMIT: &str = "powercap.limit";

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter(
        ENERGY,
        RawUnit::Count,
        "/sys/class/powercap/intel-rapl:N/energy_uj, put together over its wraps",
    ),
    SeriesDef::counter(LIMITED, RawUnit::Count, "the same, of packages with a long-term limit"),
    SeriesDef::gauge(LIMIT, RawUnit::Count, "/sys/class/powercap/intel-rapl:N/constraint_0_power_limit_uw"),
];

const MANUAL: &str =
    "turbostat --interval 5 (PkgWatt); grep . /sys/class/powercap/intel-rapl:?/constraint_0_power_limit_uw (as root)";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "power.joules.per_second",
        unit: Unit::PerSecond,
        dimension: Some("power domain"),
        help: "Joules per second, which are watts, that a CPU package used.",
        sources: &[Formula::rate(&[times(1e-6, ENERGY)])],
        caveat: "The hardware measures or estimates it; memory and other devices are not in it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "power.limit.ratio",
        unit: Unit::Ratio,
        dimension: Some("power domain"),
        help: "Power that a CPU package used, as a share of its long-term limit.",
        sources: &[Formula::of_capacity(&[term(LIMITED)], &[term(LIMIT)])],
        caveat: "The package may use more than its long-term limit for some seconds.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

const ZONES: &str = "sys/class/powercap";
/// More packages than any machine has.
const MAX: usize = 64;

#[derive(Default)]
struct Powercap {
    /// By zone: the counter as last read, and the energy put together.
    known: BTreeMap<String, (u64, u64)>,
}

impl Collect for Powercap {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        // Those with one number are packages; below them are cores and memory.
        let is_package =
            |name: &String| name.strip_prefix("intel-rapl:").is_some_and(|rest| rest.parse::<u16>().is_ok());
        let zones: Vec<String> =
            host.list(ZONES).unwrap_or_default().into_iter().filter(is_package).take(MAX).collect();
        if zones.is_empty() {
            let gap = Unavailable::new(Reason::Absent, "no CPU package here tells the power that it uses (RAPL)")
                .with_remedy("load its driver (intel_rapl_msr), if these CPUs have it");
            return Err(unless_virtual(
                host.facts(),
                "the hypervisor, not its guest, sees the power that CPUs use",
                gap,
            ));
        }
        for zone in zones {
            let folder = format!("{ZONES}/{zone}");
            let kind = host.read_line(&format!("{folder}/name")).unwrap_or_default();
            let name = format!("{zone} {}", kind.chars().take(40).collect::<String>());
            let name = name.trim_end();
            let now = match host.read_u64(&format!("{folder}/energy_uj")) {
                Ok(now) => now,
                Err(error) => {
                    out.gap(ENERGY, name, error.gap());
                    out.gap(LIMITED, name, error.gap());
                    continue;
                }
            };
            let range = host.read_u64(&format!("{folder}/max_energy_range_uj")).unwrap_or(0);
            let (before, sum) = self.known.get(&zone).copied().unwrap_or((now, 0));
            let step = if now >= before { now - before } else { range.saturating_sub(before).saturating_add(now) };
            let sum = sum.saturating_add(step);
            self.known.insert(zone.clone(), (now, sum));
            out.count(ENERGY, name, sum);
            match limit(host, &folder) {
                Ok(limit) => {
                    out.count(LIMITED, name, sum);
                    out.level(LIMIT, name, limit as f64);
                }
                Err(gap) => out.gap(LIMITED, name, gap),
            }
        }
        Ok(())
    }
}

/// The long-term limit in microwatts, where the hardware keeps one.
fn limit(host: &Host, folder: &str) -> Result<u64, Unavailable> {
    let none = |why: &str| Unavailable::new(Reason::NotApplicable, format!("this CPU package {why}"));
    let kind = match host.read_line(&format!("{folder}/constraint_0_name")) {
        Ok(kind) => kind,
        Err(error) if error.reason == Reason::Absent => return Err(none("has no limit of its power that can be read")),
        Err(error) => return Err(error.gap()),
    };
    let is_off = host.read_line(&format!("{folder}/enabled")).is_ok_and(|enabled| enabled == "0");
    let limit = host.read_u64(&format!("{folder}/constraint_0_power_limit_uw")).map_err(|error| error.gap())?;
    match limit {
        _ if kind != "long_term" => Err(none("has no long-term limit of its power")),
        _ if is_off => Err(none("has its limit of power switched off")),
        0 => Err(none("has no limit of its power")),
        limit => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::COLLECTOR;
    use crate::testing::{Story, gap, instances, stats};
    use rdiag_model::Reason;

    const ZONE: &str = "sys/class/powercap/intel-rapl:0";
    const WATTS: &str = "power.joules.per_second";

    fn story() -> Story {
        Story::of_seconds(3)
            .file(0, &format!("{ZONE}/name"), "package-0\n")
            .file(0, &format!("{ZONE}/energy_uj"), "200000000\n")
            .file(0, &format!("{ZONE}/max_energy_range_uj"), "260000000\n")
            .file(0, &format!("{ZONE}/constraint_0_name"), "long_term\n")
            .file(0, &format!("{ZONE}/constraint_0_power_limit_uw"), "100000000\n")
            .file(0, &format!("{ZONE}/enabled"), "1\n")
            .file(0, "sys/class/powercap/intel-rapl:0:0/name", "core\n")
    }

    #[test]
    fn power_is_energy_per_second_over_a_wrap_too() {
        let story = story().file(1, &format!("{ZONE}/energy_uj"), "250000000\n");
        let metrics = story.file(2, &format!("{ZONE}/energy_uj"), "60000000\n").metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, WATTS), ["intel-rapl:0 package-0"]);
        // 50 J, and 10 J to the wrap and 60 J after it.
        assert_eq!(stats(&metrics, WATTS, "intel-rapl:0 package-0").mean.round(), 60.0);
        assert_eq!((stats(&metrics, "power.limit.ratio", "intel-rapl:0 package-0").mean * 100.0).round(), 60.0);
    }

    #[test]
    fn what_is_root_s_alone_says_so_and_a_limit_that_is_off_is_none() {
        let mut denied = story();
        let path = format!("{ZONE}/energy_uj");
        denied.spec.faults.push(rdiag_kernel::host::Fault { path, fails: Reason::Denied, from: 0 });
        let found = gap(&denied.metrics(&COLLECTOR), WATTS, "intel-rapl:0 package-0").clone();
        assert!(found.reason == Reason::Denied && found.remedy.is_some(), "{found:?}");
        for (file, text) in
            [("enabled", "0\n"), ("constraint_0_power_limit_uw", "0\n"), ("constraint_0_name", "peak_power\n")]
        {
            let metrics = story().file(0, &format!("{ZONE}/{file}"), text).metrics(&COLLECTOR);
            let found = gap(&metrics, "power.limit.ratio", "intel-rapl:0 package-0").reason;
            assert_eq!(found, Reason::NotApplicable, "{file}");
        }
        let bare = Story::of_seconds(2).file(0, "sys/class/powercap/intel-rapl/enabled", "1\n").record(&COLLECTOR);
        assert_eq!(bare.unavailable.unwrap().reason, Reason::Absent);
        let guest = Story::of_seconds(2).file(0, "proc/cpuinfo", "flags : hypervisor\n").record(&COLLECTOR);
        assert_eq!(guest.unavailable.unwrap().reason, Reason::NotApplicable);
    }
}
