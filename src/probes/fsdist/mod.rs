//! How long operations on files take, by type of file system.

use std::collections::BTreeMap;

use super::file_ops::{self, AT_CALLS, TYPE};
use crate::def::{Context, FilterKind, GivesStacks, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, hist, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, HistogramRow, Output};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "fsdist",
    question: "How long do reads, writes, opens and fsyncs of files take, in each type of file system?",
    attach: file_ops::ATTACH,
    output: "A distribution of the times for each type of file system and operation, largest sum first.",
    caveats: file_ops::CAVEATS,
    overhead: "Two program runs per operation, at system calls 0.45 µs together on a busy machine; there every call on the host \
               takes the kernel's slow path besides, whomever it is limited to.",
    params: &[TYPE, AT_CALLS],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "fsdist.p99.seconds",
            unit: Unit::Seconds,
            dimension: Some("operation"),
            help: "99th percentile of the time that an operation on a file takes, by type of file system.",
            sources: &[Formula::probe(Pick::Percentile("latency", 0.99))],
            caveat: "At most 12.5 % too high. Waiting for a CPU and for locks is in it, not only the disk.",
            manual: "ext4dist 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "fsdist.mean.seconds",
            unit: Unit::Seconds,
            dimension: Some("operation"),
            help: "Mean time that an operation on a file takes, by type of file system.",
            sources: &[Formula::probe(Pick::Mean("latency"))],
            caveat: "What the page cache answers pulls it down; the percentile shows those that were not.",
            manual: "ext4dist 10 1",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

/// Room for distributions over all CPUs at most, in bytes.
const MOST_BYTES: usize = 32 << 20;

struct FsDist {
    object: Object,
    note: Option<String>,
}

/// `struct place` of the program: type, operation.
type Place = [u64; 2];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/fsdist/fsdist.bpf.o"));
    let cpus = context.host.facts().cpus.max(1) as usize;
    let places = (MOST_BYTES / (hist::WORDS * 8 * cpus)).clamp(4 * file_ops::KINDS, 128) as u32;
    let (object, note) = file_ops::attach(context, bytes, file_ops::KINDS, &[], &[("latencies", places)])?;
    Ok(Box::new(FsDist { object, note }))
}

impl Probe for FsDist {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let latencies = self.object.take_per_cpu_hash::<Place, hist::Hist>("latencies")?;
        let names = self.object.hash::<u64, [u64; 2]>("names")?.into_iter().collect();
        let histogram = Histogram {
            id: "latency".into(),
            title: "Time that operations on files take".into(),
            unit: Unit::Seconds,
            dimension: Some("operation".into()),
            rows: rows(&latencies, &names),
        };
        let lost = self.object.take_counts("lost")?.iter().sum();
        Ok(Taken {
            outputs: vec![Output::Histogram(histogram)],
            lost: vec![("more types of file systems, or operations at once, than the probe can note", lost)],
            notes: self.note.iter().cloned().collect(),
        })
    }
}

/// A row for each type and operation, largest sum first. Two modules may call their types the same.
fn rows(latencies: &[(Place, Vec<hist::Hist>)], names: &BTreeMap<u64, [u64; 2]>) -> Vec<HistogramRow> {
    let mut by_name: BTreeMap<String, Vec<&hist::Hist>> = BTreeMap::new();
    for ([kind_of_system, kind], copies) in latencies {
        let name = names.get(kind_of_system).map_or_else(|| "(unknown)".to_owned(), |name| words::text_of_words(name));
        by_name.entry(format!("{name} {}", file_ops::operation(*kind))).or_default().extend(copies);
    }
    let row = |(name, copies): (String, Vec<&hist::Hist>)| hist::row(&name, &hist::sum(copies), 1e-9);
    let mut rows: Vec<HistogramRow> = by_name.into_iter().map(row).filter(|row| row.count > 0).collect();
    rows.sort_by(|a, b| b.sum.total_cmp(&a.sum));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hist(count: u64, sum: u64) -> hist::Hist {
        let mut hist = [0; hist::WORDS];
        hist[..4].copy_from_slice(&[count, sum, sum, count]);
        hist
    }

    #[test]
    fn operations_are_told_apart_by_type_and_the_largest_sum_comes_first() {
        let ext4 = u64::from_ne_bytes(*b"ext4\0\0\0\0");
        let latencies = [
            ([1, 0], vec![hist(2, 10), hist(1, 5)]),
            ([1, 3], vec![hist(1, 900), hist(0, 0)]),
            ([2, 0], vec![hist(0, 0)]),
            ([3, 1], vec![hist(4, 1)]),
        ];
        let rows = rows(&latencies, &[(1, [ext4, 0])].into());
        let told: Vec<_> = rows.iter().map(|row| (row.instance.as_str(), row.count)).collect();
        assert_eq!(told, [("ext4 fsync", 1), ("ext4 read", 3), ("(unknown) write", 4)]);
    }
}
