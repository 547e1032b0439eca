//! Block I/O by process and device: how much, and how long it took.

use super::block::{self, Devices};
use super::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::host::Host;
use crate::mechanism::ebpf::{Global, Object, include_bytes_aligned};
use crate::model::metric::Pick;
use crate::model::probe::{Column, Output, ProbeTable, Row};
use crate::model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "biotop",
    question: "Which processes cause the block I/O, on which device, how much, and how long does it take?",
    attach: block::OWNER_ATTACH,
    output: "For each process and device the I/Os, bytes (and how many of them were written), the time in the device, its \
             mean, and the time queued in the kernel before; largest time first.",
    caveats: block::OWNER_CAVEATS,
    overhead: "Three program runs per I/O, measured at 0.55 µs together.",
    params: &[
        block::DEVICE,
        ParamDef {
            name: "top",
            kind: ParamKind::Count { min: 1, max: 1000 },
            default: "20",
            help: "how many rows to show",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "biotop.io_time.seconds",
            unit: Unit::Seconds,
            dimension: Some("process"),
            help: "Time that a process's requests spent in a device, summed up; several at once count several times.",
            sources: &[Formula::probe(Pick::Column("processes", "time"))],
            caveat: "Background writes count for the kernel thread that writes them back.",
            manual: "biotop 10 1",
        },
        MetricDef {
            id: "biotop.io.bytes",
            unit: Unit::Bytes,
            dimension: Some("process"),
            help: "Bytes that a process's requests read from a device, wrote to it or discarded there.",
            sources: &[Formula::probe(Pick::Column("processes", "bytes"))],
            caveat: "Background writes count for the kernel thread that writes them back.",
            manual: "biotop 10 1",
        },
    ],
    start,
};

/// Room for rows over all CPUs at most, in bytes.
const MOST_BYTES: usize = 32 << 20;
const WORDS: usize = 8;
/// `struct sums` of the program: I/Os, bytes, bytes written, I/Os of known latency, time, time queued, name.
type Sums = [u64; WORDS];

struct BioTop {
    object: Object,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/biotop/biotop.bpf.o"));
    let cpus = context.host.facts().cpus.max(1) as usize;
    let rows = (MOST_BYTES / (WORDS * 8 * cpus)).clamp(512, 8192) as u32;
    let object = block::load_with_owners(context, bytes, Global::u64("threshold", 0), &[("processes", rows)])?;
    Ok(Box::new(BioTop { object, top: context.params.count("top") as usize }))
}

impl Probe for BioTop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let devices = Devices::read(host);
        let entries = self.object.take_per_cpu_hash::<u64, Sums>("processes")?;
        let sums = entries.iter().map(|(key, copies)| (*key, sum(copies))).collect();
        let lost = self.object.take_counts("lost")?;
        Ok(Taken {
            outputs: vec![Output::Table(table(sums, self.top, &devices))],
            lost: vec![("more processes and devices than the probe can note", lost.iter().sum())],
            ..Taken::default()
        })
    }
}

/// All CPUs' copies; the name stands in that of the CPU that came first.
fn sum(copies: &[Sums]) -> Sums {
    let mut total = [0; WORDS];
    for copy in copies {
        for (at, (sum, value)) in total.iter_mut().zip(copy).enumerate() {
            *sum = if at < 6 { *sum + value } else { (*sum).max(*value) };
        }
    }
    total
}

fn table(mut sums: Vec<(u64, Sums)>, top: usize, devices: &Devices) -> ProbeTable {
    sums.sort_by_key(|(key, [_, bytes, _, _, time, ..])| (std::cmp::Reverse((*time, *bytes)), *key));
    let mut table = ProbeTable {
        id: "processes".into(),
        title: "Processes by the time their I/O spent in devices".into(),
        dimension: Some("process".into()),
        columns: vec![
            Column::text("name", "process"),
            Column::text("pid", "pid"),
            Column::text("device", "device"),
            Column::number("ios", "I/Os", Unit::Count),
            Column::number("bytes", "bytes", Unit::Bytes),
            Column::number("written", "of them written", Unit::Bytes),
            Column::number("time", "time", Unit::Seconds),
            Column::number("mean", "mean", Unit::Seconds),
            Column::number("queued", "queued", Unit::Seconds),
        ],
        ..ProbeTable::default()
    };
    for (at, (key, [ios, bytes, written, timed, time, queued, comm @ ..])) in sums.iter().enumerate() {
        let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
        if at >= top {
            table.others += 1;
            let values = [*ios as f64, *bytes as f64, *written as f64, seconds(*time), seconds(*queued)];
            for (column, value) in ["ios", "bytes", "written", "time", "queued"].into_iter().zip(values) {
                *table.others_sum.entry(column.into()).or_default() += value;
            }
            continue;
        }
        let device = devices.name(*key as u32);
        let [name, pid, _] = block::owner(key >> 32 << 32, comm);
        let mean = if *timed > 0 { *time / timed } else { block::UNKNOWN };
        table.rows.push(Row {
            instance: format!("{} {device}", key >> 32),
            cells: vec![
                name,
                pid,
                device.into(),
                (*ios as f64).into(),
                (*bytes as f64).into(),
                (*written as f64).into(),
                seconds(*time).into(),
                block::time(mean),
                seconds(*queued).into(),
            ],
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::probe::Cell;

    fn name(text: &[u8; 8]) -> u64 {
        u64::from_ne_bytes(*text)
    }

    #[test]
    fn the_copies_of_all_cpus_add_up_and_one_of_them_has_the_name() {
        let all = sum(&[[1, 2, 3, 4, 5, 6, 0, 0], [1, 2, 3, 4, 5, 6, name(b"fio\0\0\0\0\0"), 0]]);
        assert_eq!(all, [2, 4, 6, 8, 10, 12, name(b"fio\0\0\0\0\0"), 0]);
    }

    #[test]
    fn rows_are_sorted_by_time_and_what_does_not_fit_is_summed_up() {
        let row = |pid: u64, ios: u64, time: u64| {
            (pid << 32 | 254 << 20, [ios, ios * 512, 0, ios, time, 7, name(b"dd\0\0\0\0\0\0"), 0])
        };
        let all =
            vec![row(1, 4, 100), row(2, 2, 900), (3 << 32, [0; WORDS]), (254 << 20, [5, 512, 512, 0, 0, 0, 0, 0])];
        let table = table(all, 3, &Devices::default());
        let instances: Vec<_> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        assert_eq!(instances, ["2 254:0", "1 254:0", "0 254:0"]);
        let cells = &table.rows[0].cells;
        assert_eq!(
            (cells.len(), &cells[..2], &cells[7]),
            (9, &["dd".into(), "2".into()][..], &Cell::Number(450.0 * 1e-9))
        );
        let unknown = &table.rows[2].cells;
        assert_eq!((&unknown[0], &unknown[7]), (&"(begun earlier)".into(), &Cell::Unknown(())));
        assert_eq!((table.others, table.others_sum["ios"]), (1, 0.0));
    }
}
