//! /sys/devices/system/cpu/cpuN/thermal_throttle: how often and for how long the hardware slowed down CPUs because of heat.
//!
//! Only CPUs of Intel have these counters. They grow when throttling begins (the count) and when it ends (the time), so a window in the
//! midst of it shows neither.

use std::collections::BTreeSet;

use crate::def::{Cadence, Collect, CollectorDef, Sink, unless_virtual};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cpu_throttling",
    help: "Thermal throttling of CPU packages, from /sys/devices/system/cpu/cpuN/thermal_throttle.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window one short file per core and two per package (about 10 µs each); three more per CPU at the beginning",
    start: |_| Box::new(CpuThrottling::default()),
};

const EVENTS: &str = "cpu_throttling.events";
const TIME: &str = "cpu_throttling.time";

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter(
        EVENTS,
        RawUnit::Count,
        "/sys/devices/system/cpu/cpuN/thermal_throttle: package_throttle_count, and core_throttle_count of each core",
    ),
    SeriesDef::counter(
        TIME,
        RawUnit::Milliseconds,
        "/sys/devices/system/cpu/cpuN/thermal_throttle/package_throttle_total_time_ms (from Linux 5.6 on)",
    ),
];

const MANUAL: &str = "grep . /sys/devices/system/cpu/cpu*/thermal_throttle/*, twice";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "power.throttle_events.count",
        unit: Unit::Count,
        dimension: Some("package"),
        help: "Times that a CPU package or one of its cores began to be throttled because of heat, within the window.",
        sources: &[Formula::change(&[term(EVENTS)])],
        caveat: "Throttling that began before the window is not in it. Only Intel's CPUs count it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "power.throttle_events_since_boot.count",
        unit: Unit::Count,
        dimension: Some("package"),
        help: "Times that a CPU package or one of its cores began to be throttled because of heat, since boot.",
        sources: &[Formula::level(&[term(EVENTS)])],
        caveat: "Only Intel's CPUs count it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "power.throttled.ratio",
        unit: Unit::Ratio,
        dimension: Some("package"),
        help: "Share of the window in which a CPU package was throttled because of heat.",
        sources: &[Formula::rate(&[term(TIME)])],
        caveat: "Counted when throttling ends, so it may be time before the window; single cores are not in it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

const CPUS: &str = "sys/devices/system/cpu";

#[derive(Default)]
struct CpuThrottling {
    packages: Option<Vec<Package>>,
}

/// A package, and the CPUs whose counters are its own: the first of each core.
struct Package {
    name: String,
    cores: Vec<String>,
}

impl Collect for CpuThrottling {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        if self.packages.is_none() {
            self.packages = Some(find(host)?);
        }
        for package in self.packages.iter().flatten() {
            match package.events(host) {
                Ok(events) => out.count(EVENTS, &package.name, events),
                Err(gap) => out.gap(EVENTS, &package.name, gap),
            }
            let time = package.cores.first().map(|cpu| host.read_u64(&file(cpu, "package_throttle_total_time_ms")));
            match time {
                Some(Ok(time)) => out.count(TIME, &package.name, time),
                Some(Err(error)) => out.gap(TIME, &package.name, error.gap()),
                None => {}
            }
        }
        Ok(())
    }
}

impl Package {
    fn events(&self, host: &Host) -> Result<u64, Unavailable> {
        let mut sum = 0_u64;
        let of_package = self.cores.iter().take(1).map(|cpu| (cpu, "package_throttle_count"));
        for (cpu, name) in of_package.chain(self.cores.iter().map(|cpu| (cpu, "core_throttle_count"))) {
            match host.read_u64(&file(cpu, name)) {
                Ok(count) => sum = sum.saturating_add(count),
                // Some have only one of the two.
                Err(error)
                    if error.reason == Reason::Absent && host.exists(&format!("{CPUS}/{cpu}/thermal_throttle")) => {}
                Err(error) if error.reason == Reason::Absent => {
                    return Err(Unavailable::new(Reason::Reset, format!("{cpu} went offline within the window")));
                }
                Err(error) => return Err(error.gap()),
            }
        }
        Ok(sum)
    }
}

fn file(cpu: &str, name: &str) -> String {
    format!("{CPUS}/{cpu}/thermal_throttle/{name}")
}

fn find(host: &Host) -> Result<Vec<Package>, Unavailable> {
    let is_cpu = |name: &str| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let entries = host.list(CPUS)?;
    let cpus = entries.iter().filter(|name| is_cpu(name));
    let (mut packages, mut seen) = (Vec::<Package>::new(), BTreeSet::new());
    for cpu in cpus.filter(|cpu| host.exists(&format!("{CPUS}/{cpu}/thermal_throttle"))) {
        let topology = |file: &str| host.read_u64(&format!("{CPUS}/{cpu}/topology/{file}")).unwrap_or_default();
        let package = format!("package {}", topology("physical_package_id"));
        // Threads of a core count what happens to it, each of them.
        let siblings = host.read_line(&format!("{CPUS}/{cpu}/topology/thread_siblings_list"));
        if !seen.insert(siblings.unwrap_or_else(|_| cpu.clone())) {
            continue;
        }
        match packages.iter_mut().find(|known| known.name == package) {
            Some(known) => known.cores.push(cpu.clone()),
            None => packages.push(Package { name: package, cores: vec![cpu.clone()] }),
        }
    }
    if packages.is_empty() {
        let gap = Unavailable::new(
            Reason::Absent,
            "these CPUs, or this kernel, have no counters of thermal throttling (Intel's have)",
        )
        .with_remedy("compare the clock of busy CPUs with the nominal one: turbostat --interval 5");
        return Err(unless_virtual(host.facts(), "the hypervisor, not its guest, sees CPUs throttled", gap));
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::{COLLECTOR, file};
    use crate::testing::{Story, gap, instances, stats};
    use rdiag_model::Reason;

    const EVENTS: &str = "power.throttle_events.count";

    /// Two packages: one of two cores with two threads each, one of one CPU.
    fn story() -> Story {
        let mut story = Story::of_seconds(3);
        for (cpu, package, siblings) in [(0, 0, "0,2"), (1, 0, "1,3"), (2, 0, "0,2"), (3, 0, "1,3"), (4, 1, "4")] {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            story = story.file(0, &format!("{topology}/physical_package_id"), format!("{package}\n")).file(
                0,
                &format!("{topology}/thread_siblings_list"),
                format!("{siblings}\n"),
            );
            for (name, count) in [("core_throttle_count", 3), ("package_throttle_count", 5)] {
                story = story.file(0, &file(&format!("cpu{cpu}"), name), format!("{count}\n"));
            }
        }
        story.file(0, "sys/devices/system/cpu/cpufreq/boost", "1\n")
    }

    #[test]
    fn each_core_counts_once_and_each_package_once() {
        let story = story()
            .file(0, &file("cpu0", "package_throttle_total_time_ms"), "1000\n")
            .file(2, &file("cpu0", "package_throttle_total_time_ms"), "1500\n")
            .file(2, &file("cpu0", "core_throttle_count"), "5\n")
            .file(2, &file("cpu2", "core_throttle_count"), "5\n")
            .file(2, &file("cpu1", "core_throttle_count"), "4\n")
            .file(2, &file("cpu0", "package_throttle_count"), "6\n")
            .file(2, &file("cpu3", "package_throttle_count"), "6\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, EVENTS), ["package 0", "package 1"]);
        assert_eq!(stats(&metrics, EVENTS, "package 0").total, 4.0, "two and one of cores, one of the package");
        assert_eq!(stats(&metrics, EVENTS, "package 1").total, 0.0);
        assert_eq!(stats(&metrics, "power.throttle_events_since_boot.count", "package 1").last, 8.0);
        assert_eq!(stats(&metrics, "power.throttled.ratio", "package 0").mean, 0.25);
        assert_eq!(gap(&metrics, "power.throttled.ratio", "package 1").reason, Reason::Absent);
    }

    #[test]
    fn a_broken_counter_and_a_cpu_that_goes_are_gaps_and_not_zero() {
        let broken = story().file(0, &file("cpu4", "core_throttle_count"), "none\n");
        assert_eq!(gap(&broken.metrics(&COLLECTOR), EVENTS, "package 1").reason, Reason::Malformed);
        let mut gone = story();
        for path in ["", "/core_throttle_count", "/package_throttle_count"] {
            let path = format!("sys/devices/system/cpu/cpu4/thermal_throttle{path}");
            gone.spec.faults.push(rdiag_kernel::host::Fault { path, fails: Reason::Absent, from: 2 });
        }
        assert_eq!(gap(&gone.metrics(&COLLECTOR), EVENTS, "package 1").reason, Reason::Reset);
    }

    #[test]
    fn cpus_without_counters_are_unknown_and_those_of_a_guest_are_not_asked() {
        let other = || Story::of_seconds(2).file(0, "sys/devices/system/cpu/cpu0/topology/core_id", "0\n");
        let gap = other().record(&COLLECTOR).unavailable.unwrap();
        assert!(gap.reason == Reason::Absent && gap.remedy.is_some(), "{gap:?}");
        let guest = other().file(0, "proc/cpuinfo", "flags : fpu hypervisor\n").record(&COLLECTOR);
        assert_eq!(guest.unavailable.unwrap().reason, Reason::NotApplicable);
    }
}
