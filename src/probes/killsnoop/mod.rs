//! Signals: who sent which one to whom, and what became of it.

use super::stream::Events;
use super::{Context, FilterKind, ParamDef, ParamKind, Probe, ProbeDef, Taken, calls};
use crate::host::Host;
use crate::mechanism::ebpf::{Global, Hook, Object, include_bytes_aligned, words};
use crate::model::Unavailable;
use crate::model::probe::{Cell, Column};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "killsnoop",
    question: "Who sends which signals to whom, and what becomes of them?",
    attach: "signal_generate.",
    output: "A line for each signal: seconds since the start, who sent it, to whom, which one, whether to the process or to one \
             thread, and whether it was delivered, ignored, or merged with one that was pending.",
    caveats: "A process is limited to as sender or as receiver. A signal that the kernel sends for its own reasons (a fault, a \
              timer, the OOM killer) has no sender; of SIGCHLD it is the child. Delivered means queued, not yet handled.",
    overhead: "One program run for each signal, none otherwise.",
    params: &[ParamDef {
        name: "signal",
        kind: ParamKind::Count { min: 0, max: 64 },
        default: "0",
        help: "only the signal of this number; 0 stands for all",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    metrics: &[],
    start,
};

const SIGCHLD: u64 = 17;

struct KillSnoop {
    object: Object,
    events: Events,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/killsnoop/killsnoop.bpf.o"));
    let mut globals = context.filter.globals(context.host)?;
    globals.push(Global::u32("only_signal", u32::try_from(context.params.count("signal")).unwrap_or(0)));
    let mut object = context.kernel.load(bytes, globals, &[])?;
    object.attach(context.kernel, Hook::Tracepoint("signal_generate"))?;
    Ok(Box::new(KillSnoop { object, events: Events::new(context.host.now()) }))
}

impl Probe for KillSnoop {
    fn object(&self) -> &Object {
        &self.object
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        self.events.drain(&mut self.object, |record| Some(line(record)))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.events.taken(&mut self.object, "signals", "Signals sent", &columns())
    }
}

fn columns() -> [Column; 7] {
    [
        Column::text("name", "sender"),
        Column::text("pid", "pid"),
        Column::text("signal", "signal"),
        Column::text("target", "to"),
        Column::text("target_pid", "to pid"),
        Column::text("scope", "scope"),
        Column::text("result", "result"),
    ]
}

fn line(record: &[u8]) -> Vec<Cell> {
    let word = |at: usize| words::word(record, at * 8);
    let text = |at: usize| words::text_of_words(&[word(at), word(at + 1)]);
    let [from, to, signal, code, group, result] = [1, 2, 3, 4, 5, 6].map(word);
    // What runs on the CPU when a timer fires or memory is short has nothing to do with it.
    let by_kernel = code.cast_signed() > 0 && signal != SIGCHLD;
    let (name, pid) = if by_kernel {
        ("(kernel)".into(), Cell::Unknown(()))
    } else {
        (text(7).into(), (from >> 32).to_string().into())
    };
    let (scope, target) = if group == 0 { ("thread", to & 0xffff_ffff) } else { ("process", to >> 32) };
    let result = match result {
        0 => "delivered".to_owned(),
        1 => "ignored".to_owned(),
        2 => "already pending".to_owned(),
        3 => "lost: too many are queued".to_owned(),
        4 => "delivered without its details: too many are queued".to_owned(),
        other => format!("result {other}"),
    };
    vec![
        name,
        pid,
        calls::signal(signal).into(),
        text(9).into(),
        target.to_string().into(),
        scope.into(),
        result.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(signal: u64, code: i64, group: u64, result: u64) -> Vec<u8> {
        let comm = |text: [u8; 8]| u64::from_ne_bytes(text);
        let (from, to) = (comm(*b"bash\0\0\0\0"), comm(*b"sleep\0\0\0"));
        let words = [9, 7 << 32 | 7, 11 << 32 | 12, signal, code.cast_unsigned(), group, result, from, 0, to, 0];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_signal_is_shown_with_sender_target_and_what_became_of_it() {
        let cells = line(&record(15, 0, 1, 0));
        assert_eq!(cells, ["bash", "7", "SIGTERM", "sleep", "11", "process", "delivered"].map(Cell::from));
        assert_eq!(cells.len(), columns().len());
        let cells = line(&record(10, -6, 0, 2));
        assert_eq!(cells[3..], ["sleep", "12", "thread", "already pending"].map(Cell::from));
    }

    #[test]
    fn the_kernel_is_no_process_but_a_child_that_ended_is_the_sender_of_its_sigchld() {
        assert_eq!(line(&record(11, 1, 0, 0))[..2], ["(kernel)".into(), Cell::Unknown(())]);
        assert_eq!(line(&record(17, 1, 1, 1))[..2], ["bash".into(), "7".into()]);
        assert_eq!(line(&[]).len(), columns().len());
    }
}
