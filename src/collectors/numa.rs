//! /sys/devices/system/node/nodeN/numastat: whether allocations got memory of the node they wanted.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "numa",
    help: "Placement of allocations on memory nodes, from /sys/devices/system/node/nodeN/numastat.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "one short read per memory node at the beginning and at the end; nothing on hosts with one node",
    start: |_| Box::new(Numa),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter("numa.hit", RawUnit::Count, "/sys/devices/system/node/nodeN/numastat, numa_hit"),
    SeriesDef::counter("numa.miss", RawUnit::Count, "/sys/devices/system/node/nodeN/numastat, numa_miss"),
    SeriesDef::counter("numa.foreign", RawUnit::Count, "/sys/devices/system/node/nodeN/numastat, numa_foreign"),
];

const METRICS: &[MetricDef] = &[MetricDef {
    id: "memory.numa_foreign.ratio",
    unit: Unit::Ratio,
    dimension: Some("memory node"),
    help: "Share of the allocations meant for a memory node that had to go to another one.",
    // What was meant for a node is what it served of that, and what others served in its stead.
    sources: &[Formula::ratio(&[term("numa.foreign")], &[term("numa.hit"), term("numa.foreign")]).floor(10_000.0)],
    caveat: "Counts allocations, not accesses: how often remote memory is used only hardware counters tell.",
    manual: "numastat",
    ..MetricDef::EMPTY
}];

struct Numa;

impl Collect for Numa {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let names = match host.list("sys/devices/system/node") {
            Ok(names) => names,
            Err(error) if error.reason == Reason::Absent => return Err(one_node()),
            Err(error) => return Err(error.gap()),
        };
        let nodes: Vec<&String> = names.iter().filter(|name| is_node(name)).collect();
        if nodes.len() < 2 {
            return Err(one_node());
        }
        for node in nodes {
            match host.read(&format!("sys/devices/system/node/{node}/numastat")) {
                Ok(text) => record(node, &text, out),
                Err(error) => out.gap("numa.", node, error.gap()),
            }
        }
        Ok(())
    }
}

fn one_node() -> Unavailable {
    Unavailable::new(Reason::NotApplicable, "the host has one memory node")
}

fn is_node(name: &str) -> bool {
    name.strip_prefix("node").is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
}

fn record(node: &str, text: &str, out: &Sink) {
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse() else { continue };
        match name {
            "numa_hit" => out.count("numa.hit", node, value),
            "numa_miss" => out.count("numa.miss", node, value),
            "numa_foreign" => out.count("numa.foreign", node, value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_from_the_other_files_beside_them() {
        let names = ["has_cpu", "node0", "node12", "node", "nodes", "online", "possible"];
        let nodes: Vec<_> = names.into_iter().filter(|name| is_node(name)).collect();
        assert_eq!(nodes, ["node0", "node12"]);
    }

    #[test]
    fn lines_are_read_whatever_their_order_and_broken_ones_left_out() {
        let out = Sink::new(SERIES);
        record("node1", "numa_foreign 3\nnew_thing 5\nnuma_hit 10\nnuma_miss\nnuma_miss x", &out);
        out.end_sample(0.0, false);
        let names: Vec<_> = out.into_record().series.into_iter().map(|series| series.name).collect();
        assert_eq!(names, ["numa.foreign", "numa.hit"]);
    }
}
