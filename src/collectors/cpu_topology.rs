//! /sys/devices/system/cpu: which CPUs exist, are online, are set aside, and whether hyper-threading is on.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, minus, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cpu_topology",
    help: "Which CPUs are present, online and isolated, and whether SMT is active, from /sys/devices/system/cpu.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "five short reads at each end of the window (about 50 µs)",
    start: |_| Box::new(CpuTopology),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("cpu_topology.present", RawUnit::Count, "/sys/devices/system/cpu/present"),
    SeriesDef::gauge("cpu_topology.online", RawUnit::Count, "/sys/devices/system/cpu/online"),
    SeriesDef::gauge("cpu_topology.isolated", RawUnit::Count, "/sys/devices/system/cpu/isolated and nohz_full"),
    SeriesDef::gauge("cpu_topology.core_isolated", RawUnit::Count, "/sys/devices/system/cpu/isolated and nohz_full"),
    SeriesDef::gauge("cpu_topology.smt_active", RawUnit::Count, "/sys/devices/system/cpu/smt/active"),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cpu.present.count",
        unit: Unit::Count,
        help: "CPUs that the machine has.",
        sources: &[Formula::level(&[term("cpu_topology.present")])],
        caveat: "More may be possible: a virtual machine can be given CPUs while it runs.",
        manual: "cat /sys/devices/system/cpu/present",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.online.count",
        unit: Unit::Count,
        help: "CPUs that the kernel schedules on.",
        sources: &[Formula::level(&[term("cpu_topology.online")])],
        caveat: "Hyper-threads count as full CPUs; isolated ones count too.",
        manual: "cat /sys/devices/system/cpu/online",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.offline.count",
        unit: Unit::Count,
        help: "CPUs that are present and not online.",
        sources: &[Formula::level(&[term("cpu_topology.present"), minus("cpu_topology.online")])],
        caveat: "Sibling threads are offline where SMT is switched off.",
        manual: "lscpu --extended",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.isolated.count",
        unit: Unit::Count,
        help: "CPUs that are kept from the scheduler's balancing (isolcpus) or run without a tick (nohz_full).",
        sources: &[Formula::level(&[term("cpu_topology.isolated")])],
        caveat: "Partitions made with cpusets are counted only on kernels that list them as isolated.",
        manual: "cat /sys/devices/system/cpu/isolated /sys/devices/system/cpu/nohz_full",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.core.isolated.count",
        unit: Unit::Count,
        dimension: Some("cpu"),
        help: "1 for a CPU that is isolated or runs without a tick, otherwise 0.",
        sources: &[Formula::level(&[term("cpu_topology.core_isolated")])],
        caveat: "Such a CPU is idle, or busy, on purpose.",
        manual: "cat /sys/devices/system/cpu/isolated /sys/devices/system/cpu/nohz_full",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.smt_active.count",
        unit: Unit::Count,
        help: "1 if two or more hyper-threads share a core, otherwise 0.",
        sources: &[Formula::level(&[term("cpu_topology.smt_active")])],
        caveat: "A virtual machine sees what its hypervisor shows.",
        manual: "cat /sys/devices/system/cpu/smt/active",
        ..MetricDef::EMPTY
    },
];

const FOLDER: &str = "sys/devices/system/cpu";

struct CpuTopology;

impl Collect for CpuTopology {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let list = |file: &str| -> Result<Vec<u32>, Unavailable> {
            let text = host.read_line(&format!("{FOLDER}/{file}"))?;
            let malformed = || Unavailable::new(Reason::Malformed, format!("/{FOLDER}/{file} is no list of CPUs"));
            parse_list(&text).ok_or_else(malformed)
        };
        let online = list("online")?;
        out.level("cpu_topology.online", "", online.len() as f64);
        match list("present") {
            Ok(present) => out.level("cpu_topology.present", "", present.len() as f64),
            Err(gap) => out.gap("cpu_topology.present", "", gap),
        }
        // Kernels without one of these have no such CPUs.
        let mut isolated = list("isolated").unwrap_or_default();
        isolated.extend(list("nohz_full").unwrap_or_default());
        isolated.sort_unstable();
        isolated.dedup();
        out.level("cpu_topology.isolated", "", isolated.len() as f64);
        for cpu in &online {
            let set_aside = isolated.binary_search(cpu).is_ok();
            out.level("cpu_topology.core_isolated", &cpu.to_string(), f64::from(u8::from(set_aside)));
        }
        match host.read_u64(&format!("{FOLDER}/smt/active")) {
            Ok(active) => out.level("cpu_topology.smt_active", "", active as f64),
            Err(error) => out.gap("cpu_topology.smt_active", "", error.gap()),
        }
        Ok(())
    }
}

/// More CPUs than any kernel can be built for.
const MAX_CPUS: u32 = 16_384;

/// The members of a list such as `0-3,8`; an empty line, or `(null)` where nothing was configured, is an empty list.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    let text = text.trim();
    if text.is_empty() || text == "(null)" {
        return Some(cpus);
    }
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if low > high || high >= MAX_CPUS {
            return None;
        }
        cpus.extend(low..=high);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_nothing_is_an_empty_list() {
        assert_eq!(parse_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_list("5"), Some(vec![5]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("(null)"), Some(vec![]));
    }

    #[test]
    fn garbage_reversed_and_huge_ranges_are_refused() {
        for text in ["a", "3-1", "0-4294967295", "0,,1", "-1", "0-"] {
            assert_eq!(parse_list(text), None, "{text:?}");
        }
    }
}
