//! Block I/O by process and device: how much, and how long it took.

mod files;

use std::collections::BTreeMap;

use super::block::{self, Devices, Owner};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Object, include_bytes_aligned};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "biotop",
    question: "Which processes cause the block I/O, on which device and of which files, how much, and how long does it take?",
    attach: block::OWNER_ATTACH,
    output: "For each process and device the I/Os, bytes (and how many of them were written), the time in the device, its \
             mean, and the time queued in the kernel before; largest time first; and the file, if one had more than half of \
             the time. The same by process and file, where the file is known.",
    caveats: CAVEATS,
    overhead: "Three program runs per I/O, measured at 1.1 µs together on a busy machine.",
    params: &[block::DEVICE, ParamDef::top("how many rows to show")],
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
            deed: Some(Deed { verb: "had", of: "the time of requests in the device", is_by_file: true, ..Deed::USUAL }),
        },
        MetricDef {
            id: "biotop.io.bytes",
            unit: Unit::Bytes,
            dimension: Some("process"),
            help: "Bytes that a process's requests read from a device, wrote to it or discarded there.",
            sources: &[Formula::probe(Pick::Column("processes", "bytes"))],
            caveat: "Background writes count for the kernel thread that writes them back.",
            manual: "biotop 10 1",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

const CAVEATS: &str = "The task is the one that began the request: for background writes a kernel thread (kworker), for \
    merged requests that of the first. Where block_io_start is missing, it may be a kernel thread that only passed the \
    request on. A write of 0 bytes is a flush that the task waits for; the device's own flush is an I/O of the kernel. Devices \
    without requests of their own (device mapper, md, zram) do not appear; the disks below them do. A loop \
    device's I/O appears there and, as its worker's, on the disk that its file lies on. The file is known of what goes through \
    the page cache, background writes too, and of direct I/O where the kernel's iomap does it (ext4, XFS), but not through \
    device mapper or md; of a request for several files it is the first. Its name is without the folder, and the last one that was looked \
    up where it has several.";

/// Room for rows over all CPUs at most, in bytes.
const MOST_BYTES: usize = 32 << 20;
const WORDS: usize = 8;
/// `struct sums` of the program: I/Os, bytes, bytes written, I/Os of known latency, time, time queued, name.
type Sums = [u64; WORDS];
/// `struct file`: process and device, number and file system.
type File = [u64; 3];
const NAMED: usize = WORDS + 4;
/// `struct named_sums`: the same sums, and the name of the file.
type NamedSums = [u64; NAMED];
/// The file system of what belongs to no file, but to a device itself.
const ON_DEVICE: u64 = 1 << 32;

struct BioTop {
    object: Object,
    top: usize,
    /// Why the files are not known here.
    without_files: Option<String>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/biotop/biotop.bpf.o"));
    let cpus = context.host.facts().cpus.max(1) as usize;
    let rows = (MOST_BYTES / (NAMED * 8 * cpus)).clamp(512, 8192) as u32;
    let maps = [("processes", rows), ("files", rows)];
    let load = |files: u32| block::load_with_owners(context, bytes, Global::u32("with_files", files), &maps);
    let (object, without_files) = match load(1) {
        Ok(object) => (object, None),
        // What is known before anything is loaded has nothing to do with files.
        Err(gap) if context.kernel().is_err() => return Err(gap),
        Err(gap) => match load(0) {
            Ok(object) => (object, Some(format!("the files of the I/O are not known: {}", gap.why))),
            Err(_) => return Err(gap),
        },
    };
    Ok(Box::new(BioTop { object, top: context.params.count("top") as usize, without_files }))
}

impl Probe for BioTop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let devices = Devices::read(host);
        let entries = self.object.take_per_cpu_hash::<u64, Sums>("processes")?;
        let sums: Vec<(u64, Sums)> = entries.iter().map(|(key, copies)| (*key, sum(copies))).collect();
        let entries = self.object.take_per_cpu_hash::<File, NamedSums>("files")?;
        let of_files: Vec<(File, NamedSums)> = entries.iter().map(|(file, copies)| (*file, sum(copies))).collect();
        let lost = self.object.take_counts("lost")?;
        let notes = self.without_files.clone().or_else(|| known(&sums, &of_files)).into_iter().collect();
        let mostly = files::mostly(&sums, &of_files);
        let outputs = vec![
            Output::Table(table(sums, &mostly, self.top, &devices)),
            Output::Table(files::table(of_files, self.top, &devices)),
        ];
        Ok(Taken {
            outputs,
            lost: vec![("more processes, devices or files than the probe can note", lost.iter().sum())],
            notes,
        })
    }
}

/// Of which share of the I/Os the file is known, in a sentence.
fn known(sums: &[(u64, Sums)], of_files: &[(File, NamedSums)]) -> Option<String> {
    let all: u64 = sums.iter().map(|(_, [ios, ..])| ios).sum();
    let known: u64 = of_files.iter().map(|(_, [ios, ..])| ios).sum();
    (all > 0).then(|| {
        format!("of {all} I/Os on all devices, {known} are known to be of a file or of the file system itself")
    })
}

/// All CPUs' copies; names stand in that of the CPU that came first.
fn sum<const N: usize>(copies: &[[u64; N]]) -> [u64; N] {
    let mut total = [0; N];
    for copy in copies {
        for (at, (sum, value)) in total.iter_mut().zip(copy).enumerate() {
            *sum = if at < 6 { *sum + value } else { (*sum).max(*value) };
        }
    }
    total
}

fn table(mut sums: Vec<(u64, Sums)>, mostly: &BTreeMap<u64, String>, top: usize, devices: &Devices) -> ProbeTable {
    sums.sort_by_key(|(key, [_, bytes, _, _, time, ..])| (std::cmp::Reverse((*time, *bytes)), *key));
    let io = |(user, sums): &(u64, Sums)| Io { file: mostly.get(user).cloned(), ..Io::new(*user, sums, devices) };
    let spec = TableSpec::<Io>::new("processes", "Processes by the time their I/O spent in devices")
        .rows("process", |io| io.instance.clone());
    columns(spec)
        .number("mean", "mean", Unit::Seconds, |io| io.time.checked_div(io.timed).and_then(block::time))
        .sum("queued", "queued", Unit::Seconds, |io| io.queued as f64 * 1e-9)
        .text("file", "mostly for", |io| io.file.clone())
        .top(sums.iter().map(io), top)
}

/// The columns that both tables have.
fn columns(spec: TableSpec<'_, Io>) -> TableSpec<'_, Io> {
    spec.text("name", "process", |io| io.owner.name())
        .text("pid", "pid", |io| io.owner.pid())
        .text("device", "device", |io| io.device.clone())
        .sum("ios", "I/Os", Unit::Count, |io| io.ios as f64)
        .sum("bytes", "bytes", Unit::Bytes, |io| io.bytes as f64)
        .sum("written", "of them written", Unit::Bytes, |io| io.written as f64)
        .sum("time", "time", Unit::Seconds, |io| io.time as f64 * 1e-9)
}

/// What a process did on a device, or with a file there.
struct Io {
    instance: String,
    owner: Owner,
    device: String,
    ios: u64,
    bytes: u64,
    written: u64,
    timed: u64,
    time: u64,
    queued: u64,
    file: Option<String>,
}

impl Io {
    fn new(user: u64, [ios, bytes, written, timed, time, queued, comm @ ..]: &Sums, devices: &Devices) -> Self {
        let device = devices.name(user as u32);
        Self {
            instance: format!("{} {device}", user >> 32),
            owner: Owner { ids: user >> 32 << 32, comm: *comm },
            device,
            ios: *ios,
            bytes: *bytes,
            written: *written,
            timed: *timed,
            time: *time,
            queued: *queued,
            file: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

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
        let mostly = [(2 << 32 | 254 << 20, "orders".to_owned())].into();
        let table = table(all, &mostly, 3, &Devices::default());
        let instances: Vec<_> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        assert_eq!(instances, ["2 254:0", "1 254:0", "0 254:0"]);
        let cells = &table.rows[0].cells;
        assert_eq!(
            (cells.len(), &cells[..2], &cells[7], &cells[9]),
            (10, &["dd".into(), "2".into()][..], &Cell::Number(450.0 * 1e-9), &"orders".into())
        );
        let unknown = &table.rows[2].cells;
        assert_eq!(
            (&unknown[0], &unknown[7], &unknown[9]),
            (&"(beginning not seen)".into(), &Cell::Unknown(()), &Cell::Unknown(()))
        );
        assert_eq!((table.others, table.others_sum["ios"]), (1, 0.0));
    }
}
