//! Who ended the waits.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::fill::seconds;
use super::kind::{Kind, Type};
use super::kinds::Kinds;
use super::record::{Cell, Record};
use super::stacks::StackNames;
use crate::offcputime::interrupted_at;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_model::Component;
use rdiag_model::ledger::{Link, MAX_LINKS, Waker, WakerEdge, WakerKind};

/// Rows of who ended waits, at most.
const MAX_WAKERS: usize = 200;

/// Nanoseconds and number of the waits in a component that a waker ended.
type WaitsByWaker = BTreeMap<(Component, Waker), (u64, u64)>;

/// Who ended the waits of which component, and of which thread; each the largest first.
pub(super) fn wakers(
    records: &[Record],
    kinds: &[Kinds],
    symbols: &Symbols,
    stacks: &StackNames,
) -> (Vec<WakerEdge>, Vec<Link>) {
    let (mut all, mut links) = (WaitsByWaker::new(), Vec::new());
    for (record, kinds) in records.iter().zip(kinds) {
        let mut own = WaitsByWaker::new();
        let interrupted = |cell: &Cell| is_interrupt(cell, symbols, stacks);
        let mostly = by_interrupts(record, interrupted);
        for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Waker) {
            let Some(split) = kinds.get(&cell.kind.wait()) else { continue };
            for (component, ns, count) in split.divide(cell.ns, cell.count) {
                let by_interrupt = interrupted(cell)
                    .unwrap_or_else(|| mostly.contains(&cell.kind.wait()) || by_nature(cell, component));
                let key = (component, waker(cell, by_interrupt, symbols, stacks));
                for edges in [&mut own, &mut all] {
                    let sum = edges.entry(key.clone()).or_default();
                    *sum = (sum.0.saturating_add(ns), sum.1.saturating_add(count));
                }
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

/// The longest ones. Half of the room is for those that threads ended, which chains go on with: where a thousand threads sleep, none
/// would be left of the one that waits for them.
fn largest_links(links: &mut Vec<Link>) {
    let longest_first = |a: &Link, b: &Link| b.edge.seconds.total_cmp(&a.edge.seconds);
    links.sort_by(longest_first);
    let by_a_thread = |link: &Link| link.edge.waker.kind == WakerKind::Thread;
    let (mut kept, mut others): (Vec<Link>, Vec<Link>) = std::mem::take(links).into_iter().partition(by_a_thread);
    kept.truncate(MAX_LINKS - others.len().min(MAX_LINKS / 2));
    others.truncate(MAX_LINKS - kept.len());
    kept.append(&mut others);
    kept.sort_by(longest_first);
    *links = kept;
}

/// Functions by which the source of an interrupt is known.
const SOURCES: &[(&str, &[&str])] = &[
    ("timer", &["hrtimer_interrupt", "hrtimer_wakeup", "run_timer_softirq", "timerfd_tmrproc", "process_timeout"]),
    ("disk", &["blk_mq_complete_request", "blk_done_softirq", "blk_complete_reqs", "bio_endio", "blk_mq_end_request"]),
    ("network", &["net_rx_action", "napi_complete_done", "tcp_v4_rcv", "tcp_v6_rcv"]),
];

/// Whether an interrupt ended these waits; none where only the task is known that ran when they ended.
fn is_interrupt(cell: &Cell, symbols: &Symbols, stacks: &StackNames) -> Option<bool> {
    let [ids, ..] = &cell.object;
    if *ids as u32 == 0 {
        return Some(true);
    }
    stacks.get(cell.stack).map(|stack| interrupted_at(symbols, stack).is_some())
}

/// Kinds of waits most of which interrupts are known to have ended: then they ended those of which it is not known, too.
fn by_interrupts(record: &Record, interrupted: impl Fn(&Cell) -> Option<bool>) -> HashSet<Kind> {
    let mut votes: HashMap<Kind, (u64, u64)> = HashMap::new();
    for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Waker) {
        let vote = votes.entry(cell.kind.wait()).or_default();
        let side = if interrupted(cell) == Some(true) { &mut vote.0 } else { &mut vote.1 };
        *side = side.saturating_add(cell.count);
    }
    votes.into_iter().filter(|(_, (for_it, against))| for_it > against).map(|(kind, _)| kind).collect()
}

/// Whether such waits are ended by interrupts: a timer, or a disk, whose completions a worker of the kernel may pass on.
fn by_nature(cell: &Cell, component: Component) -> bool {
    let [_, comm @ ..] = &cell.object;
    component == Component::WaitSleep || (cell.kind.io_wait() && !words::text_of_words(comm).starts_with("kworker/"))
}

fn waker(cell: &Cell, by_interrupt: bool, symbols: &Symbols, stacks: &StackNames) -> Waker {
    let [ids, comm @ ..] = &cell.object;
    if !by_interrupt {
        let comm = words::text_of_words(comm);
        return Waker { kind: WakerKind::Thread, pid: (ids >> 32) as u32, tid: *ids as u32, comm };
    }
    let stack = stacks.get(cell.stack).unwrap_or_default();
    let names = || stack.iter().filter_map(|at| symbols.name(None, *at));
    let source = SOURCES.iter().find(|(_, known)| names().any(|name| known.contains(&name)));
    Waker { kind: WakerKind::Interrupt, comm: source.map_or("", |(source, _)| *source).to_owned(), ..Waker::default() }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::Split;
    use super::*;

    const BY: u64 = 7 << 32 | 7;

    /// Waits in no call, with a waker whose stack has this name; `io` if the kernel counts them as waits for a disk.
    fn ended(stack: u64, by: u64, comm: &str, count: u64, io: bool) -> Cell {
        let mut name = [0_u8; 8];
        name[..comm.len()].copy_from_slice(comm.as_bytes());
        let object = [by, u64::from_ne_bytes(name), 0];
        Cell { kind: Kind(4 | u64::from(io) << 48), stack, object, count, ns: count * 1000, ..Cell::default() }
    }

    fn kinds(io: bool, parts: &[(Component, u64)]) -> Kinds {
        let mut split = Split::default();
        parts.iter().for_each(|(component, ns)| split.add(*component, *ns));
        [(Kind(2 | u64::from(io) << 48), split)].into()
    }

    fn edges(cells: Vec<Cell>, kinds: Kinds) -> Vec<WakerEdge> {
        let record = Record { cells, ..Record::default() };
        wakers(&[record], &[kinds], &Symbols::default(), &StackNames::default()).0
    }

    #[test]
    fn wakers_of_waits_of_two_components_end_no_more_of_either_than_there_is() {
        let of = kinds(false, &[(Component::IoBlockMeta, 9000), (Component::LockKernel, 1000)]);
        let edges = edges(vec![ended(0, BY, "find", 6, false), ended(0, BY + 1, "make", 4, false)], of);
        let sum =
            |component| edges.iter().filter(|edge| edge.component == component).map(|edge| edge.seconds).sum::<f64>();
        assert!(
            (sum(Component::IoBlockMeta) - 9e-6).abs() < 1e-12 && (sum(Component::LockKernel) - 1e-6).abs() < 1e-12
        );
    }

    #[test]
    fn of_many_waits_those_that_threads_ended_have_half_of_the_room() {
        let link = |kind, seconds| {
            let waker = Waker { kind, ..Waker::default() };
            let edge = WakerEdge { component: Component::WaitSleep, waker, seconds, count: 1 };
            Link { tid: 1, pid: 1, comm: String::new(), edge }
        };
        let by = |threads: usize, interrupts: usize| {
            let short = std::iter::repeat_n(link(WakerKind::Thread, 1.0), threads);
            let long = std::iter::repeat_n(link(WakerKind::Interrupt, 2.0), interrupts);
            let mut links: Vec<Link> = short.chain(long).collect();
            largest_links(&mut links);
            assert!(links.len() <= MAX_LINKS && links.is_sorted_by(|a, b| a.edge.seconds >= b.edge.seconds));
            links.iter().filter(|link| link.edge.waker.kind == WakerKind::Thread).count()
        };
        assert_eq!(by(1, 1000), 1);
        assert_eq!(by(1000, 1000), MAX_LINKS / 2);
        assert_eq!(by(1000, 10), MAX_LINKS - 10);
    }

    #[test]
    fn a_thread_that_runs_when_a_disk_or_a_timer_is_done_has_ended_no_wait() {
        let kind = |component, io| {
            let of = kinds(io, &[(component, 1000)]);
            edges(vec![ended(0, BY, "cc1", 1, io)], of)[0].waker.kind
        };
        assert_eq!(kind(Component::IoBlockRead, true), WakerKind::Interrupt);
        assert_eq!(kind(Component::WaitSleep, false), WakerKind::Interrupt);
        assert_eq!(kind(Component::IpcPipe, false), WakerKind::Thread);
        let worker = vec![ended(0, BY, "kworker/", 1, true)];
        assert_eq!(edges(worker, kinds(true, &[(Component::IoBlockRead, 1000)]))[0].waker.kind, WakerKind::Thread);
    }

    #[test]
    fn where_interrupts_are_known_to_end_such_waits_the_others_are_not_put_down_to_threads() {
        let of = || kinds(false, &[(Component::NetRecv, 1000)]);
        // No task ran on that CPU: an interrupt.
        let idle = ended(0, 0, "", 9, false);
        assert!(edges(vec![idle.clone(), ended(0, BY, "cc1", 3, false)], of()).iter().all(|edge| edge.waker.tid == 0));
        let others = edges(vec![idle, ended(0, BY, "server", 12, false)], of());
        assert_eq!(others.iter().map(|edge| edge.waker.tid).collect::<Vec<_>>(), [7, 0]);
    }
}
