//! Where to look next, as far as that depends on more than the component (`book.rs`): on the peer of a wait, and on how busy the CPUs were.

use std::net::SocketAddr;

use rdiag_model::probe::{Stack, Stacks};
use rdiag_model::profile::{ComponentRow, Saving, Skew};
use rdiag_model::quantity::percent;
use rdiag_model::{Component, NextStep};

use super::AdviceBook;
use super::selection::Selection;

/// How the port of a name server stands behind its address.
const DNS: &str = " (DNS)";

/// From this share of a component's time on it is known in which functions it went, and who called them.
const MOST: f64 = 0.5;

/// The seconds of a component of which it is known who called the innermost function. Each stack begins with the name of its thread.
fn with_callers(stacks: &Stacks, component: Component) -> f64 {
    let in_kernel = |at: &&u32| stacks.frames.get(**at as usize).is_some_and(|frame| frame.kernel);
    let is_called = |stack: &&Stack| {
        let own = stack.frames.iter().filter(|at| component == Component::CpuSys || !in_kernel(at)).count();
        stack.owner == component.id() && own > 2
    };
    stacks.stacks.iter().filter(is_called).map(|stack| stack.value).sum()
}

/// What to look at next, of a component that is known in detail.
pub(super) fn next_of(
    book: &AdviceBook,
    component: Component,
    (row, stacks): (&ComponentRow, Option<&Stacks>),
    selection: &Selection,
) -> Vec<NextStep> {
    let known: f64 = row.code.iter().filter(|piece| !piece.name.is_empty()).map(|piece| piece.share).sum();
    let is_known = known >= MOST && stacks.map_or(0.0, |stacks| with_callers(stacks, row.id)) >= MOST * row.seconds;
    let texts = if is_known { book.next_with_code(component) } else { book.next(component) };
    texts.into_iter().map(|text| step(text, selection)).collect()
}

/// What to look at next.
pub(super) fn next(book: &AdviceBook, component: Component, selection: &Selection) -> Vec<NextStep> {
    book.next(component).into_iter().map(|text| step(text, selection)).collect()
}

fn step(text: &str, selection: &Selection) -> NextStep {
    NextStep { action: selection.named(text), changes_host: false }
}

/// Where to look for the peer that most of a wait was for, if it has an address.
pub(super) fn on_peer(row: &ComponentRow) -> Option<NextStep> {
    let waits = [Component::WaitPoll, Component::NetRecv].contains(&row.id);
    let key = row.keys.first().filter(|key| waits && key.share > 0.5)?;
    let (peer, is_dns) = match key.name.split_once(DNS) {
        Some((peer, _)) => (peer, true),
        None => (key.name.split(" or ").next()?, false),
    };
    let peer: SocketAddr = peer.parse().ok()?;
    let action = if is_dns {
        let server = peer.ip();
        format!("See whether the name server answers: dig @{server} NAME; /etc/resolv.conf lists those that are asked")
    } else if row.id == Component::WaitPoll {
        format!("See who answers there: ss -tunp dst {peer}; profile that process if it runs here")
    } else {
        return None;
    };
    Some(NextStep { action, changes_host: false })
}

/// How busy the CPUs were in the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpus {
    /// Mean share of time, 0–1, over all of them.
    pub busy: f64,
    /// That of the busiest.
    pub busiest: f64,
}

/// Below this share of time the CPUs are mostly idle, and none of them is full.
const IDLE: Cpus = Cpus { busy: 0.5, busiest: 0.8 };
/// No idle state and no hypervisor takes as long as this to wake up a CPU.
const LONGEST_WAKE_UP: f64 = 1e-3;

/// Whether these waits after wake-ups are those for an idle CPU to take up its work, and not for one that others use.
pub(super) fn is_slow_wake_up(row: &ComponentRow, pre_empted: f64, cpus: Cpus) -> bool {
    row.id == Component::RunqWakeup
        && cpus.busy < IDLE.busy
        && cpus.busiest < IDLE.busiest
        // A preempted task competes for its CPU, and a few long waits are no idle states.
        && pre_empted < 0.25 * row.seconds
        && row.skew != Skew::FewSlow
        && row.mean.is_some_and(|mean| mean < LONGEST_WAKE_UP)
}

/// What is to be said and done about slow wake-ups of idle CPUs.
pub(super) fn on_slow_wake_ups(book: &AdviceBook, cpus: Cpus, selection: &Selection) -> (String, Vec<NextStep>) {
    let words = format!(
        "The CPUs were only {} busy, so there was little competition: what takes long is to wake up an idle CPU, \
         which must leave its idle state, and in a virtual machine be reached through the hypervisor. Fewer wake-ups, or \
         tasks that wake each other on one CPU, shorten it.",
        percent(cpus.busy)
    );
    let change = |action: &str| NextStep { action: action.to_owned(), changes_host: true };
    let changes = [
        change("Try tasks that wake each other on one CPU: taskset -c 0 COMMAND, or taskset -acp 0 PID"),
        change(
            "Try it without deep idle states for as long as you measure: cpupower idle-set -D 10 (back: cpupower idle-set -E)",
        ),
    ];
    let looks = book.on_slow_wake_ups().into_iter().map(|text| step(text, selection));
    let next = looks.chain(changes).collect();
    (words, next)
}

/// What can be done about a component, in words for `rdiag explain`.
#[must_use]
pub fn advice(book: &AdviceBook, component: Component) -> (Saving, &str, Vec<NextStep>) {
    (book.saving(component), book.says(component), next(book, component, &Selection::default()))
}
