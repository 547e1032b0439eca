//! `biolatpcts`: percentiles of the latency of block requests, by device and operation.

use super::{ATTACH, CAVEATS, Latencies, Latency, QUEUED};
use crate::block;
use crate::def::{GivesStacks, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, hist};
use rdiag_model::probe::{Cell, Column, Output, ProbeTable, Row};
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
    let mut columns = vec![
        Column::text("device", "device"),
        Column::text("operation", "operation"),
        Column::number("count", "requests", Unit::Count),
        Column::number("mean", "mean", Unit::Seconds),
    ];
    columns.extend(SHARES.iter().map(|(name, _)| Column::number(name, name, Unit::Seconds)));
    columns.push(Column::number("max", "longest", Unit::Seconds));
    ProbeTable {
        id: "percentiles".into(),
        title: "Percentiles of the latency of block requests (upper bounds, at most 12.5 % too high)".into(),
        dimension: Some("block operation".into()),
        columns,
        rows: all.iter().filter_map(row).collect(),
        ..ProbeTable::default()
    }
}

fn row(latency: &Latency) -> Option<Row> {
    let operation = block::operation(latency.kind);
    let instance = format!("{} {operation}", latency.device);
    let values = hist::row(&instance, &latency.hist, 1e-9);
    let mean = values.mean()?;
    let mut cells: Vec<Cell> =
        vec![latency.device.as_str().into(), operation.into(), (values.count as f64).into(), mean.into()];
    cells.extend(SHARES.iter().map(|(_, share)| values.percentile(*share).map_or(Cell::Unknown(()), Cell::Number)));
    cells.push(values.max.into());
    Some(Row { instance, cells })
}

#[cfg(test)]
mod tests {
    use super::*;

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
