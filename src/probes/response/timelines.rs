//! Looks at threads → their timelines.

use std::collections::BTreeMap;

use super::edges::Kinds;
use super::fill::seconds;
use super::kernel::Record;
use super::looks::{Doing, Grown, Looks};
use crate::model::Component;
use crate::model::ledger::{Accuracy, Slice, Thread, Timeline};

/// Timelines that are kept: as many as a page has room for.
const MAX_KEPT: usize = 24;

/// Timelines of the threads that did most; records, kinds and threads are in the same order. `window` is its beginning in ns
/// of CLOCK_MONOTONIC.
pub(super) fn timelines(
    records: &[Record],
    kinds: &[Kinds],
    threads: &[Thread],
    looks: &Looks,
    window: u64,
) -> Vec<Timeline> {
    let mut all: Vec<_> = records.iter().zip(kinds).zip(threads).filter(|((record, _), _)| record.tid != 0).collect();
    all.sort_by(|(_, a), (_, b)| busy(b).total_cmp(&busy(a)));
    all.truncate(MAX_KEPT);
    let timeline = |((record, kinds), thread): ((&Record, &Kinds), &Thread)| {
        let share = system_share(thread);
        let slices = looks.of(record).into_iter().map(|grown| slice(&grown, kinds, share, window));
        Timeline { tid: record.tid, slices: slices.filter(|slice| !slice.parts.is_empty()).collect() }
    };
    all.into_iter().map(timeline).collect()
}

/// Seconds that a thread was not waiting for work.
fn busy(thread: &Thread) -> f64 {
    thread.parts.iter().filter(|part| !part.component.def().idle).map(|part| part.seconds).sum()
}

/// The share of its CPU time that a thread spent in the kernel, where that is known of the whole only.
fn system_share(thread: &Thread) -> Option<f64> {
    let parts = || thread.parts.iter().filter(|part| part.component.on_cpu());
    if parts().all(|part| part.accuracy == Accuracy::Exact) {
        return None;
    }
    let whole: f64 = parts().map(|part| part.seconds).sum();
    let system: f64 = parts().filter(|part| part.component == Component::CpuSys).map(|part| part.seconds).sum();
    Some(if whole > 0.0 { system / whole } else { 0.0 })
}

fn slice(grown: &Grown, kinds: &Kinds, system_share: Option<f64>, window: u64) -> Slice {
    let instant = |at: u64| seconds(at.saturating_sub(window));
    let mut parts: BTreeMap<Component, f64> = BTreeMap::new();
    for (doing, ns) in &grown.sums {
        let component = match doing {
            Doing::User => Component::CpuUser,
            Doing::Kernel => Component::CpuSys,
            Doing::Preempted => Component::RunqPreempt,
            Doing::Woken => Component::RunqWakeup,
            Doing::Throttled => Component::Throttled,
            Doing::Waiting(kind) => match kinds.get(kind) {
                Some((component, _)) => *component,
                // Its sum found no room: nobody knows.
                None => continue,
            },
        };
        *parts.entry(component).or_default() += seconds(*ns);
    }
    if let Some(share) = system_share {
        let [user, system] = [Component::CpuUser, Component::CpuSys].map(|id| parts.remove(&id).unwrap_or(0.0));
        parts.insert(Component::CpuUser, (user + system) * (1.0 - share));
        parts.insert(Component::CpuSys, (user + system) * share);
    }
    let parts = parts.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
    Slice { from: instant(grown.from), until: instant(grown.until), parts }
}
