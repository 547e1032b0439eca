//! The list of all collectors. Whatever a collector needs stands in `def.rs`, so that none depends on the others through this list.

use rdiag_model::MetricDef;

use crate::def::CollectorDef;
use crate::{
    blocked_tasks, cgroup_count, cgroup_cpu, cgroup_freezer, cgroup_io, cgroup_memory, cgroup_pids, clocksource,
    conntrack, cpu_stat, cpu_throttling, cpu_topology, deleted_files, disk_slots, diskstats, driver_counters, edac,
    entropy, fabric_ports, file_handles, filesystem_errors, filesystems, held_descriptors, interfaces, interrupts,
    kernel_log, kernel_tables, listeners, loadavg, lock_waits, md, meminfo, memory_maps, neighbours, nfs, numa,
    outgoing_tcp, pcie_errors, pcie_links, powercap, processes, psi, qdiscs, schedstat, scsi_errors, sockets, softnet,
    stopped_tasks, swaps, task_limits, task_states, tcp_udp, temperatures, threads, transmit_queues, udp_sockets,
    user_tasks, vmstat, waiting_tasks, zoneinfo, zram,
};

/// All collectors, sorted by id.
pub static ALL: &[&CollectorDef] = &[
    &blocked_tasks::COLLECTOR,
    &cgroup_count::COLLECTOR,
    &cgroup_cpu::COLLECTOR,
    &cgroup_freezer::COLLECTOR,
    &cgroup_io::COLLECTOR,
    &cgroup_memory::COLLECTOR,
    &cgroup_pids::COLLECTOR,
    &clocksource::COLLECTOR,
    &conntrack::COLLECTOR,
    &cpu_stat::COLLECTOR,
    &cpu_throttling::COLLECTOR,
    &cpu_topology::COLLECTOR,
    &deleted_files::COLLECTOR,
    &disk_slots::COLLECTOR,
    &diskstats::COLLECTOR,
    &driver_counters::COLLECTOR,
    &edac::COLLECTOR,
    &entropy::COLLECTOR,
    &fabric_ports::COLLECTOR,
    &file_handles::COLLECTOR,
    &filesystem_errors::COLLECTOR,
    &filesystems::COLLECTOR,
    &held_descriptors::COLLECTOR,
    &interfaces::COLLECTOR,
    &interrupts::COLLECTOR,
    &kernel_log::COLLECTOR,
    &kernel_tables::COLLECTOR,
    &listeners::COLLECTOR,
    &loadavg::COLLECTOR,
    &lock_waits::COLLECTOR,
    &md::COLLECTOR,
    &meminfo::COLLECTOR,
    &memory_maps::COLLECTOR,
    &neighbours::COLLECTOR,
    &nfs::COLLECTOR,
    &numa::COLLECTOR,
    &outgoing_tcp::COLLECTOR,
    &pcie_errors::COLLECTOR,
    &pcie_links::COLLECTOR,
    &powercap::COLLECTOR,
    &processes::COLLECTOR,
    &psi::COLLECTOR,
    &qdiscs::COLLECTOR,
    &schedstat::COLLECTOR,
    &scsi_errors::COLLECTOR,
    &sockets::COLLECTOR,
    &softnet::COLLECTOR,
    &stopped_tasks::COLLECTOR,
    &swaps::COLLECTOR,
    &task_limits::COLLECTOR,
    &task_states::COLLECTOR,
    &tcp_udp::COLLECTOR,
    &temperatures::COLLECTOR,
    &threads::COLLECTOR,
    &transmit_queues::COLLECTOR,
    &udp_sockets::COLLECTOR,
    &user_tasks::COLLECTOR,
    &vmstat::COLLECTOR,
    &waiting_tasks::COLLECTOR,
    &zoneinfo::COLLECTOR,
    &zram::COLLECTOR,
];

/// The collector with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static CollectorDef> {
    ALL.iter().copied().find(|def| def.id == id)
}

/// All metrics with the collectors that yield them.
pub fn metrics() -> impl Iterator<Item = (&'static CollectorDef, &'static MetricDef)> {
    ALL.iter().copied().flat_map(|def| def.metrics.iter().map(move |metric| (def, metric)))
}

/// The metric with this id, and its collector.
#[must_use]
pub fn find_metric(id: &str) -> Option<(&'static CollectorDef, &'static MetricDef)> {
    metrics().find(|(_, metric)| metric.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use rdiag_model::Unit;

    #[test]
    fn every_file_in_the_folder_is_registered() {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
        let entries = std::fs::read_dir(here).unwrap();
        for entry in entries {
            let name = entry.unwrap().file_name().to_string_lossy().trim_end_matches(".rs").to_owned();
            let helpers = ["block_devices", "def", "process_changes", "registry", "sink", "socket_table", "testing"];
            if ["Cargo.toml", "lib"].contains(&name.as_str()) || helpers.contains(&name.as_str()) {
                continue;
            }
            assert!(find(&name).is_some(), "collectors/{name}.rs is not in ALL, or its id differs from its file name");
        }
    }

    #[test]
    fn ids_are_unique_and_sorted() {
        assert!(ALL.is_sorted_by_key(|def| def.id), "keep ALL sorted by id");
        let mut seen = BTreeSet::new();
        for (_, metric) in metrics() {
            assert!(seen.insert(metric.id), "metric {} is defined twice", metric.id);
        }
        for id in &seen {
            let prefix = format!("{id}.");
            assert!(!seen.iter().any(|other| other.starts_with(&prefix)), "metric {id} is a prefix of another");
        }
        let mut series = BTreeSet::new();
        for def in ALL.iter().flat_map(|def| def.series) {
            assert!(series.insert(def.name), "series {} is defined twice", def.name);
        }
    }

    #[test]
    fn every_metric_is_documented_and_derives_from_series_of_its_own_collector() {
        for (collector, metric) in metrics() {
            let id = metric.id;
            assert!(metric.help.ends_with('.') && !metric.manual.is_empty(), "{id} lacks help or manual");
            assert!(!metric.caveat.is_empty(), "{id} lacks a caveat");
            let suffix = id.rsplit('.').next().unwrap();
            let expected = match metric.unit {
                Unit::Ratio => "ratio",
                Unit::Seconds => "seconds",
                Unit::Bytes => "bytes",
                Unit::Count => "count",
                Unit::PerSecond => "per_second",
                Unit::BytesPerSecond => "bytes_per_second",
            };
            assert_eq!(suffix, expected, "{id}: the id ends with its unit");
            assert!(!metric.sources.is_empty(), "{id} has no source");
            for formula in metric.sources {
                let (sum, divisor) = formula.terms();
                for term in sum.iter().chain(divisor) {
                    let owner = ALL.iter().find(|def| def.series.iter().any(|series| series.name == term.series));
                    assert!(owner.is_some(), "{id} cites the unknown series {}", term.series);
                }
            }
            let _ = collector;
        }
    }
}
