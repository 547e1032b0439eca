//! `biolatpcts`: percentiles of the latency of block requests, by device and operation.

use super::{ATTACH, CAVEATS, Latencies, Latency, QUEUED};
use crate::block;
use crate::def::{GivesStacks, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, hist};
use rdiag_model::probe::{HistogramRow, Output, ProbeTable};
use rdiag_model::{Unavailable, Unit};

pub(crate) static PROBE: ProbeDef = ProbeDef {
    id: "biolatpcts",
    question: "Below which latency do 1 %, half, 99 % or 99.9 % of a device's reads, writes, flushes and discards stay?",
    attach: ATTACH,
    output: "For each device and operation the number of requests, percentiles of their latency, and the longest.",
    caveats: CAVEATS,
    overhead: "As biolatency: two program runs per request, measured at 0.38 µs together; one with `queued`, at 0.10 µs.",
    params: &[block::DEVICE, QUEUED],
    filters: &[],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| Ok(Box::new(BioLatPcts(Latencies::start(context, false)?))),
};

const SHARES: [(&str, f64); 10] = [
    ("p1", 0.01),
    ("p5", 0.05),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

struct BioLatPcts(Latencies);

impl Probe for BioLatPcts {
    fn object(&self) -> Option<&Object> {
        Some(&self.0.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let (all, mut taken) = self.0.take(host)?;
        taken.outputs.push(Output::Table(table(&all)));
        Ok(taken)
    }
}

fn table(all: &[Latency]) -> ProbeTable {
    let title = "Percentiles of the latency of block requests (upper bounds, at most 12.5 % too high)";
    let mut spec = TableSpec::<(&Latency, HistogramRow)>::new("percentiles", title)
        .rows("block operation", |(_, values)| values.instance.clone())
        .text("device", "device", |(latency, _)| latency.device.clone())
        .text("operation", "operation", |(latency, _)| block::operation(latency.kind))
        .number("count", "requests", Unit::Count, |(_, values)| values.count as f64)
        .number("mean", "mean", Unit::Seconds, |(_, values)| values.mean());
    for (name, share) in SHARES {
        spec = spec.number(name, name, Unit::Seconds, move |(_, values)| values.percentile(share));
    }
    spec.number("max", "longest", Unit::Seconds, |(_, values)| values.max)
        .all(all.iter().map(values).filter(|(_, values)| values.count > 0))
}

fn values(latency: &Latency) -> (&Latency, HistogramRow) {
    let instance = format!("{} {}", latency.device, block::operation(latency.kind));
    (latency, hist::row(&instance, &latency.hist, 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn percentiles_rise_to_the_longest_and_an_operation_without_any_has_no_row() {
        let mut hist = [0; hist::WORDS];
        // 999 values of 1 ns and one of 7 ns.
        hist[..3].copy_from_slice(&[1000, 1006, 7]);
        (hist[4], hist[10]) = (999, 1);
        let read = Latency { device: "vda".into(), kind: 0, ios: 1000, bytes: 0, hist };
        let none = Latency { device: "vda".into(), kind: 1, ios: 0, bytes: 0, hist: [0; hist::WORDS] };
        let table = table(&[read, none]);
        assert_eq!(table.rows.len(), 1);
        let cells = &table.rows[0].cells;
        assert_eq!(cells.len(), table.columns.len());
        assert_eq!((&cells[3], &cells[8]), (&Cell::Number(1006.0 * 1e-9 / 1000.0), &Cell::Number(2.0 * 1e-9)));
        assert_eq!(cells[13..], [Cell::Number(2.0 * 1e-9), Cell::Number(7.0 * 1e-9)]);
    }
}
