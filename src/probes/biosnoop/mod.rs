//! Each block I/O: who wanted it, where and how much, how long it was queued and in the device.

use super::block::{self, Devices, Owner};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::{EventRows, TableSpec};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Object, include_bytes_aligned, words};
use rdiag_model::probe::Output;
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "biosnoop",
    question: "Which block I/Os are there: whose, on which device, where, how large, and how long did each take?",
    attach: block::OWNER_ATTACH,
    output: "A line for each I/O when it ends: seconds since the start, task, device, operation with its flags, first \
             sector (of 512 bytes), bytes, time queued in the kernel before its issue, and latency of the device.",
    caveats: block::OWNER_CAVEATS,
    overhead: "Three program runs per I/O, measured at 0.55 µs together, and a record of 80 bytes.",
    params: &[
        block::DEVICE,
        ParamDef {
            name: "threshold",
            kind: ParamKind::Duration,
            default: "0s",
            help: "only I/Os for which the device took at least so long",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// I/Os that are kept for a reading; later ones are counted and summed up.
const ROWS: usize = 10_000;
/// As many records are taken from the buffer at once, which holds some 26 000.
const MOST: usize = 100_000;

struct BioSnoop {
    object: Object,
    began: f64,
    devices: Devices,
    ios: EventRows,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/biosnoop/biosnoop.bpf.o"));
    let threshold = Global::u64("threshold", context.params.nanoseconds("threshold"));
    let object = block::load_with_owners(context, bytes, threshold, &[])?;
    let devices = Devices::read(context.host);
    Ok(Box::new(BioSnoop { object, began: context.host.now(), devices, ios: EventRows::default() }))
}

impl Probe for BioSnoop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let Self { object, began, devices, ios } = self;
        let spec = spec(*began, devices);
        object.drain("events", MOST, |record| ios.add(&Ended::read(record), &spec, ROWS)).map(drop)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let lost = self.object.take_counts("lost")?;
        // A device may have come meanwhile.
        self.devices = Devices::read(host);
        let table = self.ios.take(&spec(self.began, &self.devices));
        Ok(Taken {
            outputs: vec![Output::Events(table)],
            lost: vec![("the buffer was full", lost.iter().sum())],
            ..Taken::default()
        })
    }
}

/// `struct ended` of the program.
struct Ended {
    at: u64,
    owner: Owner,
    latency: u64,
    queued: u64,
    bytes: u64,
    sector: u64,
    kind: u32,
    device: u32,
}

impl Ended {
    fn read(record: &[u8]) -> Self {
        let words = std::array::from_fn(|at| words::word(record, at * 8));
        let [at, ids, latency, queued, bytes, sector, kind_and_device, name, more] = words;
        let owner = Owner { ids, comm: [name, more] };
        let (kind, device) = (kind_and_device as u32, (kind_and_device >> 32) as u32);
        Self { at, owner, latency, queued, bytes, sector, kind, device }
    }
}

fn spec(began: f64, devices: &Devices) -> TableSpec<'_, Ended> {
    TableSpec::<Ended>::new("ios", "Block I/Os")
        .number("time", "time", Unit::Seconds, move |io| (io.at as f64 * 1e-9 - began).max(0.0))
        .text("name", "task", |io| io.owner.name())
        .text("pid", "pid", |io| io.owner.pid())
        .text("tid", "tid", |io| io.owner.tid())
        .text("device", "device", |io| devices.name(io.device))
        .text("operation", "operation", |io| block::operation(io.kind))
        .text("sector", "sector", |io| io.sector.to_string())
        .sum("bytes", "bytes", Unit::Bytes, |io| io.bytes as f64)
        .number("queued", "queued", Unit::Seconds, |io| block::time(io.queued))
        .number("latency", "latency", Unit::Seconds, |io| block::time(io.latency))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn record(at: u64, ids: u64, latency: u64) -> Vec<u8> {
        let comm = u64::from_ne_bytes(*b"fio\0\0\0\0\0");
        // A synchronous write.
        let kind_and_device = 1 | 1 << 8 | 254 << 52;
        let words = [at, ids, latency, 1_000, 4096, 2048, kind_and_device, comm, 0];
        words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    #[test]
    fn ios_are_lines_in_order_of_time_and_what_is_not_known_is_not_zero() {
        let (devices, mut ios) = (Devices::default(), EventRows::default());
        let spec = spec(5.0, &devices);
        ios.add(&Ended::read(&record(7_000_000_000, 4711 << 32 | 4712, 2_000_000)), &spec, ROWS);
        ios.add(&Ended::read(&record(6_000_000_000, 0, u64::MAX)), &spec, ROWS);
        let table = ios.take(&spec);
        let [first, second] = &table.rows[..] else { panic!("two rows") };
        assert_eq!(first.cells.len(), table.columns.len());
        assert_eq!(first.cells[1..4], ["(beginning not seen)".into(), Cell::Unknown(()), Cell::Unknown(())]);
        assert_eq!(first.cells[9], Cell::Unknown(()));
        let text = ["fio", "4711", "4712", "254:0", "write sync", "2048"].map(Cell::from);
        assert_eq!((&second.cells[0], &second.cells[1..7]), (&Cell::Number(2.0), &text[..]));
        assert_eq!(second.cells[7..], [4096.0.into(), (1e3 * 1e-9).into(), (2e6 * 1e-9).into()]);
    }

    #[test]
    fn more_ios_than_a_reading_holds_are_counted_and_short_records_harm_nobody() {
        let (devices, mut ios) = (Devices::default(), EventRows::default());
        let spec = spec(0.0, &devices);
        for at in 0..ROWS as u64 + 3 {
            ios.add(&Ended::read(&record(at, 1 << 32, 1)), &spec, ROWS);
        }
        ios.add(&Ended::read(&[1, 2, 3]), &spec, ROWS);
        let table = ios.take(&spec);
        assert_eq!((table.rows.len(), table.others, table.others_sum["bytes"]), (ROWS, 4, 3.0 * 4096.0));
    }
}
