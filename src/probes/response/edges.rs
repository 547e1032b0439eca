//! Who ended the waits, and the stacks behind them.

use std::collections::{BTreeMap, HashMap};

use super::fill::seconds;
use super::kernel::{Cell, Record};
use super::kind::{Kind, Type};
use super::stacks::{DEPTH, MISSING, StackNames};
use crate::offcputime::interrupted_at;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_kernel::mechanism::symbols::{Part as StackPart, Piece, Sample, Summary, Symbols, summarize};
use rdiag_model::ledger::{ComponentStacks, Link, MAX_LINKS, Waker, WakerEdge, WakerKind};
use rdiag_model::{Component, Unit};

/// Stacks of one component at most.
const TOP_STACKS: usize = 200;
/// Edges to wakers at most.
const MAX_WAKERS: usize = 200;

/// The component of each kind of wait of a thread, and the time behind it.
pub(super) type Kinds = HashMap<Kind, (Component, u64)>;

/// Nanoseconds and number of the waits in a component that a waker ended.
type Edges = BTreeMap<(Component, Waker), (u64, u64)>;

/// Who ended the waits of which component, and of which thread; each the largest first.
pub(super) fn wakers(
    records: &[Record],
    kinds: &[Kinds],
    symbols: &Symbols,
    stacks: &StackNames,
) -> (Vec<WakerEdge>, Vec<Link>) {
    let (mut all, mut links) = (Edges::new(), Vec::new());
    for (record, kinds) in records.iter().zip(kinds) {
        let mut own = Edges::new();
        for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Waker) {
            let Some((component, _)) = kinds.get(&cell.kind.wait()) else { continue };
            let key = (*component, waker(cell, symbols, stacks));
            for edges in [&mut own, &mut all] {
                let sum = edges.entry(key.clone()).or_default();
                *sum = (sum.0.saturating_add(cell.ns), sum.1.saturating_add(cell.count));
            }
        }
        let link = |edge| Link { tid: record.tid, pid: record.pid, comm: record.comm.clone(), edge };
        links.extend(own.into_iter().map(edge).map(link));
        // Thousands of threads must not add up to as many lists.
        if links.len() > 16 * MAX_LINKS {
            largest_links(&mut links);
        }
    }
    largest_links(&mut links);
    let mut edges: Vec<WakerEdge> = all.into_iter().map(edge).collect();
    edges.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    edges.truncate(MAX_WAKERS);
    (edges, links)
}

fn edge(((component, waker), (ns, count)): ((Component, Waker), (u64, u64))) -> WakerEdge {
    WakerEdge { component, waker, seconds: seconds(ns), count }
}

fn largest_links(links: &mut Vec<Link>) {
    links.sort_by(|a, b| b.edge.seconds.total_cmp(&a.edge.seconds));
    links.truncate(MAX_LINKS);
}

/// Functions by which the source of an interrupt is known.
const SOURCES: &[(&str, &[&str])] = &[
    ("timer", &["hrtimer_interrupt", "hrtimer_wakeup", "run_timer_softirq", "timerfd_tmrproc", "process_timeout"]),
    ("disk", &["blk_mq_complete_request", "blk_done_softirq", "blk_complete_reqs", "bio_endio", "blk_mq_end_request"]),
    ("network", &["net_rx_action", "napi_complete_done", "tcp_v4_rcv", "tcp_v6_rcv"]),
];

fn waker(cell: &Cell, symbols: &Symbols, stacks: &StackNames) -> Waker {
    let [ids, comm @ ..] = &cell.object;
    let stack = stacks.get(cell.stack).unwrap_or_default();
    let interrupt = *ids as u32 == 0 || interrupted_at(symbols, stack).is_some();
    if !interrupt {
        let comm = words::text_of_words(comm);
        return Waker { kind: WakerKind::Thread, pid: (ids >> 32) as u32, tid: *ids as u32, comm };
    }
    let names = || stack.iter().filter_map(|at| symbols.name(None, *at));
    let source = SOURCES.iter().find(|(_, known)| names().any(|name| known.contains(&name)));
    Waker { kind: WakerKind::Interrupt, comm: source.map_or("", |(source, _)| *source).to_owned(), ..Waker::default() }
}

/// The stacks at which threads waited, by component. Samples of short waits stand for all of their kind.
pub(super) fn stacks_by_component(
    host: &Host,
    records: &[Record],
    kinds: &[Kinds],
    symbols: &mut Symbols,
    stacks: &StackNames,
) -> Vec<ComponentStacks> {
    let mut samples: BTreeMap<Component, Vec<Sample<'_>>> = BTreeMap::new();
    let stack_part = |name: u64| match (name, stacks.get(name)) {
        (0, _) => StackPart::None,
        (MISSING, _) | (_, None) => StackPart::Missing,
        (_, Some(stack)) => StackPart::Taken(stack),
    };
    for (record, kinds) in records.iter().zip(kinds) {
        let short = |kind: Kind, of: Type| {
            let like = |cell: &&Cell| cell.kind.of() == of && cell.kind.wait() == kind;
            let cells = record.cells.iter().filter(like);
            let short = cells.filter(|cell| if of == Type::Wait { cell.stack == 0 } else { cell.kind.short() });
            short.fold(0_u64, |sum, cell| sum.saturating_add(cell.ns))
        };
        for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Stack) {
            let Some((component, _)) = kinds.get(&cell.kind.wait()) else { continue };
            let scale = if cell.kind.short() {
                let sampled = short(cell.kind.wait(), Type::Stack).max(1);
                short(cell.kind.wait(), Type::Wait) as f64 / sampled as f64
            } else {
                1.0
            };
            let [user, ..] = cell.object;
            let process = record.process();
            samples.entry(*component).or_default().push(Sample {
                owner: record.comm.clone(),
                pid: Some(record.pid),
                pieces: vec![
                    Piece::Frames { process: Some(process), part: stack_part(user), reversed: false },
                    Piece::Frames { process: None, part: stack_part(cell.stack), reversed: false },
                ],
                value: seconds(cell.ns) * scale,
                count: cell.count,
            });
        }
    }
    let named = |(component, samples): (Component, Vec<Sample<'_>>)| {
        let of = Summary {
            id: component.id(),
            title: component.def().title,
            unit: Unit::Seconds,
            top: TOP_STACKS,
            depth: DEPTH,
        };
        ComponentStacks { component, stacks: summarize(host, symbols, &samples, of) }
    };
    samples.into_iter().map(named).collect()
}
