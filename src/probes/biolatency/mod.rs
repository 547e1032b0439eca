//! Latency of block requests, by device; the same program gives its percentiles by operation (`biolatpcts`).

mod percentiles;

use std::collections::BTreeMap;

use super::block::{self, Devices};
use crate::def::{Context, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::hist::Hist;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object, hist, include_bytes_aligned};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, Output, ProbeTable};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) use percentiles::PROBE as BIOLATPCTS;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "biolatency",
    question: "How long do block devices take for a request, and how many requests and bytes do they serve?",
    attach: ATTACH,
    output: "For each device the distribution of the latencies, and for each device and operation the I/Os and bytes as \
             /proc/diskstats counts them; with `flags` also a distribution for each operation with its flags.",
    caveats: CAVEATS,
    overhead: "Two program runs per request, measured at 0.38 µs together; one with `queued`, at 0.10 µs.",
    params: &[
        block::DEVICE,
        QUEUED,
        ParamDef {
            name: "flags",
            kind: ParamKind::Flag,
            default: "false",
            help: "also a distribution for each operation with its flags (sync, meta, read-ahead, fua)",
        },
    ],
    filters: &[],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "biolatency.p99.seconds",
            unit: Unit::Seconds,
            dimension: Some("device"),
            help: "99th percentile of the time from a request's issue to the device's driver to its end.",
            sources: &[Formula::probe(Pick::Percentile("latency", 0.99))],
            caveat: "Reads and writes together; background writes may hide behind many fast reads, and the other way \
                     round.",
            manual: "biolatency -D 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "biolatency.mean.seconds",
            unit: Unit::Seconds,
            dimension: Some("device"),
            help: "Mean time from a request's issue to the device's driver to its end.",
            sources: &[Formula::probe(Pick::Mean("latency"))],
            caveat: "Without the time that requests wait before they are issued, which iostat's await includes.",
            manual: "biolatency -D 10 1",
            ..MetricDef::EMPTY
        },
    ],
    start: |context| Ok(Box::new(BioLatency(Latencies::start(context, context.params.flag("flags"))?))),
};

const ATTACH: &str = "block_rq_issue and block_rq_complete; with `queued` block_rq_complete alone.";
const CAVEATS: &str = "A request that was issued before the start has no latency. Devices without requests of their own \
    (device mapper, md, zram) do not appear; the disks below them do. A loop device's I/O appears there and on the disk that its file lies \
    on. A request that is issued again counts from its last \
    issue. With `queued`, a flush without data also appears as a write of 0 bytes, as in /proc/diskstats.";
const QUEUED: ParamDef = ParamDef {
    name: "queued",
    kind: ParamKind::Flag,
    default: "false",
    help: "latency from the start of the request in the kernel, with its wait in plug and scheduler, as iostat's await",
};

/// Bytes of distributions over all CPUs at most, whatever devices there are.
const MOST_BYTES: usize = 64 << 20;

/// The program at work, for both probes.
pub(super) struct Latencies {
    object: Object,
    /// The device whose I/Os are compared with the kernel's count, and that count at the last look.
    counted: Option<u32>,
    before: Devices,
}

/// `struct latency` of the program: I/Os, bytes, and the distribution.
const WORDS: usize = 2 + hist::WORDS;

/// What one kind of request on one device came to.
#[derive(Debug)]
pub(super) struct Latency {
    device: String,
    /// Operation and flags as block.h has them.
    kind: u32,
    ios: u64,
    bytes: u64,
    hist: Hist,
}

impl Latencies {
    pub(super) fn start(context: &Context<'_>, by_flags: bool) -> Result<Self, Unavailable> {
        let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/biolatency/biolatency.bpf.o"));
        let queued = context.params.flag("queued");
        let mut globals = block::globals(context)?;
        globals.extend([Global::u32("queued", queued.into()), Global::u32("by_flags", by_flags.into())]);
        let kinds = kinds(Devices::read(context.host).len(), by_flags, context.host.facts().cpus as usize);
        let mut object = context.kernel()?.load(bytes, globals, &[("latencies", kinds)])?;
        // Ends first: an issue whose end is not seen would stay in the map.
        object.attach(context.kernel()?, Hook::Tracepoint("block_rq_complete"))?;
        if !queued {
            block::attach_request(&mut object, context.kernel()?, "block_rq_issue")?;
        }
        let before = Devices::read(context.host);
        Ok(Self { object, counted: block::counted_device(context), before })
    }

    /// What there was since the last time, sorted by device and kind; and what was lost.
    fn take(&mut self, host: &Host) -> Result<(Vec<Latency>, Taken), Unavailable> {
        // Before the program's own counts: what ends in between must not look lost.
        let devices = Devices::read(host);
        let entries = self.object.take_per_cpu_hash::<u64, [u64; WORDS]>("latencies")?;
        let of_device = |device: u32, (key, copies): &(u64, Vec<[u64; WORDS]>)| -> u64 {
            if (key >> 32) as u32 == device { copies.iter().map(|[ios, ..]| ios).sum() } else { 0 }
        };
        let seen = |device: u32| entries.iter().map(|entry| of_device(device, entry)).sum();
        let unseen = self.counted.map_or(0, |counted| devices.unseen(host, &self.before, counted, seen));
        let mut all: Vec<Latency> = entries
            .iter()
            .map(|(key, copies)| latency(devices.name((key >> 32) as u32), *key as u32, copies))
            .collect();
        all.sort_by(|a, b| (&a.device, a.kind).cmp(&(&b.device, b.kind)));
        let counts = self.object.take_counts("lost")?;
        self.before = Devices::read(host);
        let reasons = [
            "more requests under way than the probe can note",
            "more devices and operations than the probe can note",
            "requests of devices that keep no start times (queue/iostats is 0)",
            "I/Os that /proc/diskstats counts and the kernel did not show to the program",
        ];
        let lost = reasons.into_iter().zip(counts.into_iter().chain([unseen])).collect();
        Ok((all, Taken { lost, ..Taken::default() }))
    }
}

/// How many combinations of device and kind there is room for.
fn kinds(devices: usize, by_flags: bool, cpus: usize) -> u32 {
    let wanted = 16 + devices * if by_flags { 16 } else { 4 };
    let room = MOST_BYTES / (WORDS * 8 * cpus.max(1));
    wanted.min(room.max(32)) as u32
}

fn latency(device: String, kind: u32, copies: &[[u64; WORDS]]) -> Latency {
    let mut sum = Latency { device, kind, ios: 0, bytes: 0, hist: [0; hist::WORDS] };
    for copy in copies {
        let [ios, bytes, hist @ ..] = copy;
        sum.ios += ios;
        sum.bytes += bytes;
        sum.hist = hist::sum([&sum.hist, hist]);
    }
    sum
}

struct BioLatency(Latencies);

impl Probe for BioLatency {
    fn object(&self) -> Option<&Object> {
        Some(&self.0.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let (all, mut taken) = self.0.take(host)?;
        taken.outputs.push(Output::Histogram(by_device(&all)));
        if all.iter().any(|latency| latency.kind >> 8 != 0) {
            taken.outputs.push(Output::Histogram(by_kind(&all)));
        }
        taken.outputs.push(Output::Table(totals(&all)));
        Ok(taken)
    }
}

fn by_device(all: &[Latency]) -> Histogram {
    let mut devices: BTreeMap<&str, Hist> = BTreeMap::new();
    for latency in all {
        let known = devices.entry(&latency.device).or_insert([0; hist::WORDS]);
        *known = hist::sum([&*known, &latency.hist]);
    }
    histogram("latency", "Latency of block requests", "device", devices.iter().map(|(name, hist)| (*name, hist)))
}

fn by_kind(all: &[Latency]) -> Histogram {
    let names: Vec<String> =
        all.iter().map(|latency| format!("{} {}", latency.device, block::operation(latency.kind))).collect();
    let rows = names.iter().zip(all).map(|(name, latency)| (name.as_str(), &latency.hist));
    histogram("kinds", "Latency of block requests by operation", "block operation", rows)
}

/// Largest count first; what has none is left out.
fn histogram<'r>(id: &str, title: &str, dimension: &str, rows: impl Iterator<Item = (&'r str, &'r Hist)>) -> Histogram {
    let mut rows: Vec<_> = rows.map(|(name, hist)| hist::row(name, hist, 1e-9)).filter(|row| row.count > 0).collect();
    rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.instance.cmp(&b.instance)));
    Histogram { id: id.into(), title: title.into(), unit: Unit::Seconds, dimension: Some(dimension.into()), rows }
}

/// I/Os and bytes by device and operation, whatever the flags.
fn totals(all: &[Latency]) -> ProbeTable {
    let mut sums: BTreeMap<(&str, u32), (u64, u64)> = BTreeMap::new();
    for latency in all {
        let sum = sums.entry((&latency.device, latency.kind & 0xff)).or_default();
        *sum = (sum.0 + latency.ios, sum.1 + latency.bytes);
    }
    TableSpec::<((&str, u32), (u64, u64))>::new("totals", "I/Os that ended")
        .rows("block operation", |((device, kind), _)| format!("{device} {}", block::operation(*kind)))
        .text("device", "device", |((device, _), _)| (*device).to_owned())
        .text("operation", "operation", |((_, kind), _)| block::operation(*kind))
        .number("ios", "I/Os", Unit::Count, |(_, (ios, _))| *ios as f64)
        .number("bytes", "bytes", Unit::Bytes, |(_, (_, bytes))| *bytes as f64)
        .all(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(device: &str, kind: u32, count: u64) -> Latency {
        let mut copy = [0; WORDS];
        // I/Os, bytes; count, sum, maximum, and all values in the slot of 8 to 9 ns.
        copy[..5].copy_from_slice(&[count, count * 4096, count, count * 8, 8]);
        copy[5 + 8] = count;
        latency(device.into(), kind, &[copy, copy])
    }

    #[test]
    fn the_copies_of_all_cpus_and_all_flags_add_up_to_a_row_for_each_device() {
        let all =
            [some("vda", 0, 1), some("vda", 1, 2), some("vda", 1 | 1 << 8, 3), some("vdb", 2, 9), some("vdc", 0, 0)];
        let devices = by_device(&all);
        let counts: Vec<_> = devices.rows.iter().map(|row| (row.instance.as_str(), row.count)).collect();
        assert_eq!(counts, [("vdb", 18), ("vda", 12)], "largest first, and none without a value");
        assert_eq!(devices.rows[0].buckets, [(9.0 * 1e-9, 18)]);
        let kinds = by_kind(&all);
        assert_eq!(kinds.rows[1].instance, "vda write sync");
        let totals = totals(&all);
        let writes = totals.rows.iter().find(|row| row.instance == "vda write").unwrap();
        assert_eq!(writes.cells[2..], [10.0.into(), 40960.0.into()]);
    }

    #[test]
    fn the_map_is_bounded_whatever_the_number_of_devices_and_cpus() {
        assert_eq!(kinds(2, false, 2), 24);
        for (devices, cpus) in [(10_000, 2), (10, 512), (100_000, 1), (0, 0)] {
            let bytes = kinds(devices, true, cpus) as usize * WORDS * 8 * cpus;
            assert!(bytes <= MOST_BYTES.max(32 * WORDS * 8 * cpus), "{devices} devices, {cpus} CPUs: {bytes}");
        }
    }
}
