//! Time in which no thread had a request → parts of its account.

use std::collections::BTreeMap;

use super::fill::seconds;
use super::moves::Moves;
use super::open::{Gap, Why};
use super::record::Record;
use super::stacks::StackNames;
use rdiag_kernel::mechanism::symbols::{Symbols, calls};
use rdiag_model::Component;
use rdiag_model::ledger::{Accuracy, Part, SlowCall};

/// The reason of Go before 1.20 for a mutex, and for a wait group, too.
const SEMAPHORE: &str = "semacquire";

/// What tells what a request was laid down for.
#[derive(Clone, Copy)]
pub(super) struct Reasons<'r> {
    pub(super) moves: &'r Moves,
    pub(super) symbols: &'r Symbols,
    pub(super) stacks: &'r StackNames,
}

impl Reasons<'_> {
    pub(super) fn component(&self, why: &Why) -> Component {
        match self.moves.reason(why.reason) {
            None => Component::WaitParked,
            Some(SEMAPHORE) => of_semaphore(self.functions(why)),
            Some(reason) => component(reason),
        }
    }

    fn functions(&self, why: &Why) -> impl Iterator<Item = &str> {
        let process = Some(why.process);
        let stack = self.stacks.get(why.stack).unwrap_or_default();
        calls(process, stack).filter_map(move |address| self.symbols.name(process, address))
    }

    /// A part for each reason, and the longest of its times.
    pub(super) fn parts(&self, record: &Record, window: u64) -> Vec<(Part, Option<SlowCall>)> {
        let mut by_reason: BTreeMap<(u64, Component), Gap> = BTreeMap::new();
        for (why, gap) in &record.gaps {
            by_reason.entry((why.reason, self.component(why))).or_default().add(gap);
        }
        let of = |((reason, component), gap): ((u64, Component), Gap)| {
            part(record, component, self.moves.reason(reason), gap, window)
        };
        by_reason.into_iter().map(of).collect()
    }
}

/// What a parked goroutine waits for.
fn component(reason: &str) -> Component {
    match reason {
        "sleep" => Component::WaitSleep,
        "IO wait" => Component::WaitPoll,
        _ if reason.starts_with("sync.Mutex") || reason.starts_with("sync.RWMutex") => Component::LockUser,
        _ => Component::WaitParked,
    }
}

/// The same of one that waits for a semaphore, of which only the stack tells what it is part of.
fn of_semaphore<'f>(mut functions: impl Iterator<Item = &'f str>) -> Component {
    let known = [
        ("sync.(*Mutex)", Component::LockUser),
        ("sync.(*RWMutex)", Component::LockUser),
        ("internal/poll.(*fdMutex)", Component::LockUser),
        ("sync.(*WaitGroup)", Component::WaitParked),
    ];
    let of = |name: &str| known.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, component)| *component);
    functions.find_map(of).unwrap_or(Component::WaitParked)
}

fn part(
    record: &Record,
    component: Component,
    reason: Option<&str>,
    gap: Gap,
    window: u64,
) -> (Part, Option<SlowCall>) {
    let call = match reason {
        None => "handed over".to_owned(),
        Some("") => "goroutine".to_owned(),
        Some(reason) => format!("goroutine: {reason}"),
    };
    let longest = SlowCall {
        component,
        key: String::new(),
        call: call.clone(),
        tid: record.tid,
        pid: record.pid,
        comm: record.comm.clone(),
        at: seconds(gap.max_at.saturating_sub(gap.max).saturating_sub(window)),
        seconds: seconds(gap.max),
        open: false,
        waker: None,
        stack: Vec::new(),
    };
    let part = Part {
        component,
        call,
        key: String::new(),
        seconds: gap.durations.seconds,
        // When what it waits for has come is not told of the network.
        accuracy: if component == Component::WaitPoll { Accuracy::Estimate(None) } else { Accuracy::Exact },
        edge_seconds: 0.0,
        open: 0,
        durations: Some(gap.durations),
    };
    (part, (gap.max > 0).then_some(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_go_are_what_a_request_waits_for() {
        for (reason, is) in [
            ("sleep", Component::WaitSleep),
            ("IO wait", Component::WaitPoll),
            ("sync.Mutex.Lock", Component::LockUser),
            ("sync.RWMutex.RLock", Component::LockUser),
            ("chan receive", Component::WaitParked),
            ("sync.WaitGroup.Wait", Component::WaitParked),
            ("runnable", Component::WaitParked),
            ("", Component::WaitParked),
        ] {
            assert_eq!(component(reason), is, "{reason}");
        }
    }

    #[test]
    fn a_semaphore_is_what_the_functions_on_the_stack_have_it_for() {
        for (functions, is) in [
            (&["runtime.semacquire1", "sync.(*Mutex).lockSlow", "main.f"][..], Component::LockUser),
            (&["sync.runtime_Semacquire", "sync.(*WaitGroup).Wait"], Component::WaitParked),
            (&["sync.(*RWMutex).RLock", "sync.(*WaitGroup).Wait"], Component::LockUser),
            (&["runtime.semacquire1", "internal/poll.(*fdMutex).rwlock"], Component::LockUser),
            (&["runtime.semacquire1", "main.own"], Component::WaitParked),
            (&[], Component::WaitParked),
        ] {
            assert_eq!(of_semaphore(functions.iter().copied()), is, "{functions:?}");
        }
    }
}
