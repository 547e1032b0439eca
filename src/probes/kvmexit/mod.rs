//! Why virtual machines leave their CPUs, and how long it takes until they are back.

mod reasons;

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Moments, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::points::{self, Place, Point};
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Reason, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "kvmexit",
    question: "Why do virtual machines leave their CPUs, how often, and how long does it take until they are back?",
    attach: "kvm:kvm_exit and kvm:kvm_entry.",
    output: "For each process that runs a virtual machine and each reason: how many exits, how long they were served in all, the share of \
             the time, and the longest; most time first.",
    caveats: "Of the host that runs the machines, not from within one. The time is that from the exit to the next entry: the work of the \
        kernel and \
              of the program (qemu), and all waiting; of HLT it is the guest's idle time. An exit that has not ended is not in it. Reasons \
              have the kernel's names and differ between Intel (VMX) and AMD (SVM); other architectures do not tell them this way. Exits \
              that the CPU \
              handles without the kernel (posted interrupts) are none.",
    overhead: "Two program runs for each exit; a busy machine makes 10,000 to 100,000 a second on each CPU.",
    params: &[ParamDef {
        name: "top",
        kind: ParamKind::Count { min: 1, max: 5000 },
        default: "40",
        help: "how many reasons to show",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// `struct key` of the program: process, kind of virtualization, reason.
type Key = [u64; 3];
/// `struct sum`: count, nanoseconds, longest, name.
type Sum = [u64; 5];

struct KvmExit {
    object: Object,
    since: f64,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/kvmexit/kvmexit.bpf.o"));
    let host = context.host;
    let [exit, entry] = [point(host, "kvm:kvm_exit")?, point(host, "kvm:kvm_entry")?];
    let mut globals = context.filter.globals(host)?;
    globals.push(Global::u32("reason_at", place(&exit, "exit_reason")?));
    globals.push(Global::u32("isa_at", place(&exit, "isa")?));
    let mut object = context.kernel()?.load(bytes, globals, &[])?;
    object.attach_point_to(host, "entry", &entry, Moments::Entry, &[])?;
    object.attach_point_to(host, "exit", &exit, Moments::Entry, &[])?;
    Ok(Box::new(KvmExit { object, since: host.now(), top: context.params.count("top") as usize }))
}

fn point(host: &Host, name: &str) -> Result<Point, Unavailable> {
    let found = points::tracepoints(host, name).map_err(|error| {
        if error.reason == Reason::Absent {
            let why = format!(
                "the kernel has no event {name}: KVM is not in it or not loaded, so it runs no virtual machine"
            );
            return Unavailable::new(Reason::Absent, why)
                .with_remedy("look on the host of the virtual machines; there kvm_intel or kvm_amd is loaded");
        }
        error.gap()
    })?;
    found.into_iter().next().ok_or_else(|| Unavailable::new(Reason::Absent, format!("the kernel has no event {name}")))
}

/// Where a field stands in the record.
fn place(point: &Point, name: &str) -> Result<u32, Unavailable> {
    match point.fields.iter().find(|field| field.name == name).map(|field| field.place) {
        Some(Place::Context(offset)) => Ok(offset),
        _ => {
            let why = format!(
                "the event {} of this kernel has no {name}: only those of x86 tell the reason this way",
                point.name
            );
            Err(Unavailable::new(Reason::Absent, why)
                .with_remedy("rdiag probe count --param tracepoint=kvm:kvm_exit counts them by any field of the event"))
        }
    }
}

impl Probe for KvmExit {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let exits = self.object.take_hash::<Key, Sum>("exits")?;
        let lost = self.object.take_counts("lost")?.iter().sum();
        Ok(Taken {
            outputs: vec![Output::Table(table(exits, seconds, self.top))],
            lost: vec![("exits of more kinds than the probe can note", lost)],
            ..Taken::default()
        })
    }
}

/// Most time first, and the rest summed up.
fn table(mut exits: Vec<(Key, Sum)>, seconds: f64, top: usize) -> ProbeTable {
    exits.sort_by_key(|(key, [_, ns, ..])| (std::cmp::Reverse(*ns), *key));
    TableSpec::<Exits>::new("exits", "Exits of virtual machines by reason")
        .rows("process and reason", |exits| format!("{} {}", exits.tgid, exits.reason))
        .text("name", "process", |exits| exits.name.clone())
        .text("pid", "pid", |exits| exits.tgid.to_string())
        .text("reason", "reason", |exits| exits.reason.clone())
        .sum("count", "exits", Unit::Count, |exits| exits.count as f64)
        .sum("time", "time until entry", Unit::Seconds, |exits| exits.time)
        .sum("share", "share of the time", Unit::Ratio, |exits| exits.time / seconds)
        .number("max", "longest", Unit::Seconds, |exits| exits.max as f64 * 1e-9)
        .top(exits.into_iter().map(Exits::new), top)
}

/// Exits of one process for one reason.
struct Exits {
    tgid: u64,
    name: String,
    reason: String,
    count: u64,
    time: f64,
    max: u64,
}

impl Exits {
    fn new(([tgid, isa, reason], [count, ns, max, name @ ..]): (Key, Sum)) -> Self {
        let (name, reason) = (words::text_of_words(&name), reasons::name(isa, reason));
        Self { tgid, name, reason, count, time: ns as f64 * 1e-9, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_most_time_comes_first_with_its_reason_by_name() {
        let name = u64::from_ne_bytes(*b"qemu\0\0\0\0");
        let exits = vec![
            ([7, 1, 30], [100, 2_000_000_000, 50_000_000, name, 0]),
            ([7, 1, 12], [5, 3_000_000_000, 900_000_000, name, 0]),
            ([8, 2, 0x7b], [9, 1_000_000_000, 1000, name, 0]),
        ];
        let table = table(exits, 4.0, 2);
        let told: Vec<_> = table.rows.iter().map(|row| (row.instance.as_str(), &row.cells[3])).collect();
        assert_eq!(told, [("7 HLT", &5.0.into()), ("7 IO_INSTRUCTION", &100.0.into())]);
        assert_eq!(table.rows[0].cells[4..6], [3.0.into(), 0.75.into()]);
        assert_eq!((table.others, table.others_sum["count"], table.others_sum["share"]), (1, 9.0, 0.25));
        assert_eq!(table.rows[0].cells.len(), table.columns.len());
    }
}
