//! What is measured: one file for each source. A collector reads and records; it never judges.
//!
//! To add one: write `name.rs` with a `pub static COLLECTOR: CollectorDef`, and add its line to [`ALL`]. A test fails when a file is not
//! registered, a series or metric id is used twice, or a metric cites an unknown series.
//!
//! The procfs crate parses where it reads line by line (`diskstats/row.rs`). Its parsers of whole files refuse a file in which one field is
//! missing, which a diagnosis must not, so those files have small parsers of their own.

mod block_devices;
mod blocked_tasks;
mod cgroup_count;
mod cgroup_cpu;
mod cgroup_freezer;
mod cgroup_io;
mod cgroup_memory;
mod cgroup_pids;
mod clocksource;
mod conntrack;
mod cpu_stat;
mod cpu_topology;
mod deleted_files;
mod disk_slots;
mod diskstats;
mod entropy;
mod file_handles;
mod filesystem_errors;
mod filesystems;
mod held_descriptors;
mod interfaces;
mod interrupts;
mod kernel_log;
mod kernel_tables;
mod listeners;
mod loadavg;
mod lock_waits;
mod md;
mod meminfo;
mod memory_maps;
mod neighbours;
mod nfs;
mod numa;
mod outgoing_tcp;
mod process_changes;
mod processes;
mod psi;
mod qdiscs;
mod schedstat;
mod scsi_errors;
mod sink;
mod socket_table;
mod sockets;
mod softnet;
mod stopped_tasks;
mod swaps;
mod task_limits;
mod task_states;
mod tcp_udp;
#[cfg(test)]
mod testing;
mod threads;
mod transmit_queues;
mod udp_sockets;
mod user_tasks;
mod vmstat;
mod waiting_tasks;
mod zoneinfo;
mod zram;

pub use process_changes::PROCESS_CHANGES;
pub use sink::{Shared, Sink, Size};

use rdiag_kernel::host::Host;
use rdiag_model::{Facts, MetricDef, Reason, SeriesDef, Unavailable};

/// The gap where files of some processes may be read by those only who may trace them. `what` is what was not read.
///
/// Being root is not enough: the kernel wants every capability that the process holds, which a container may withhold.
fn untraceable(facts: &Facts, what: &str) -> Unavailable {
    let (why, remedy) = match facts.uid {
        0 => (
            "may not be read by this root, who lacks a right that they have",
            "run rdiag with every capability, outside of the container",
        ),
        _ => ("may be read by their owners only", "run rdiag as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"),
    };
    Unavailable::new(Reason::Denied, format!("{what} {why}")).with_remedy(remedy)
}

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
    &cpu_topology::COLLECTOR,
    &deleted_files::COLLECTOR,
    &disk_slots::COLLECTOR,
    &diskstats::COLLECTOR,
    &entropy::COLLECTOR,
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
    &threads::COLLECTOR,
    &transmit_queues::COLLECTOR,
    &udp_sockets::COLLECTOR,
    &user_tasks::COLLECTOR,
    &vmstat::COLLECTOR,
    &waiting_tasks::COLLECTOR,
    &zoneinfo::COLLECTOR,
    &zram::COLLECTOR,
];

/// How often a collector is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cadence {
    /// Once per interval: counters.
    Interval,
    /// Four times per interval, at jittered times: levels that change quickly (queue lengths).
    Gauge,
    /// At the beginning and at the end of the window: capacities that change slowly, or are expensive to read.
    Ends,
}

/// A collector: what it reads, and what follows from it.
#[derive(Debug)]
pub struct CollectorDef {
    /// Name in playbooks.
    pub id: &'static str,
    /// What it reads, in one sentence.
    pub help: &'static str,
    /// How often.
    pub cadence: Cadence,
    /// The raw series that it records.
    pub series: &'static [SeriesDef],
    /// The metrics that are derived from them.
    pub metrics: &'static [MetricDef],
    /// Measured cost, and on what it depends.
    pub overhead: &'static str,
    /// Begins a window.
    pub start: fn(&Host) -> Box<dyn Collect>,
}

/// A collector at work in one window.
pub trait Collect: Send {
    /// Called once before the window begins, for what takes time to set up.
    fn prepare(&mut self, host: &Host, out: &Sink) {
        let _ = (host, out);
    }

    /// Reads its source once and puts what it sees into `out`.
    /// An error means that this source gives nothing at this time; it becomes the gap in the report.
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable>;

    /// Called once after the last sample: names, owners and the like, worth reading for few things only.
    fn finish(&mut self, host: &Host, out: &Sink) {
        let _ = (host, out);
    }
}

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
    use rdiag_model::{Per, Unit};

    #[test]
    fn every_file_in_the_folder_is_registered() {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
        let entries = std::fs::read_dir(here).unwrap();
        for entry in entries {
            let name = entry.unwrap().file_name().to_string_lossy().trim_end_matches(".rs").to_owned();
            let helpers = ["block_devices", "process_changes", "sink", "socket_table", "testing"];
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
                let divisor = match formula.per {
                    Per::Change(terms) | Per::Capacity(terms) | Per::LevelOf(terms) | Per::Waiting(terms) => terms,
                    _ => &[],
                };
                for term in formula.sum.iter().chain(divisor) {
                    let owner = ALL.iter().find(|def| def.series.iter().any(|series| series.name == term.series));
                    assert!(owner.is_some(), "{id} cites the unknown series {}", term.series);
                }
            }
            let _ = collector;
        }
    }
}
