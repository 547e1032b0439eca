//! Looks at threads → their timelines.

use std::collections::BTreeMap;

use super::fill::seconds;
use super::kinds::{Kinds, Split};
use super::record::Record;
use super::timeline_samples::{Doing, Grown, TimelineSamples};
use rdiag_model::Component;
use rdiag_model::ledger::{Slice, Thread, Timeline};

/// Timelines that are kept: as many as a page has room for.
const MAX_KEPT: usize = 24;

/// Timelines of the threads that did most; records, kinds, threads, and whether their modes were seen at every moment, are in the same
/// order. `window` is its beginning in ns of CLOCK_MONOTONIC.
pub(super) fn timelines(
    records: &[Record],
    kinds: &[Kinds],
    (threads, seen): (&[Thread], &[bool]),
    samples: &TimelineSamples,
    window: u64,
) -> Vec<Timeline> {
    let mut all: Vec<_> =
        records.iter().zip(kinds).zip(threads.iter().zip(seen)).filter(|((record, _), _)| record.tid != 0).collect();
    all.sort_by(|(_, (a, _)), (_, (b, _))| busy(b).total_cmp(&busy(a)));
    all.truncate(MAX_KEPT);
    let timeline = |((record, kinds), (thread, seen)): ((&Record, &Kinds), (&Thread, &bool))| {
        let shares = cpu_shares(thread, *seen);
        let slices = samples.of(record).into_iter().map(|grown| slice(&grown, kinds, &shares, window));
        Timeline { tid: record.tid, slices: slices.filter(|slice| !slice.parts.is_empty()).collect() }
    };
    all.into_iter().map(timeline).collect()
}

/// Seconds that a thread was not waiting for work.
fn busy(thread: &Thread) -> f64 {
    thread.parts.iter().filter(|part| !part.component.def().idle).map(|part| part.seconds).sum()
}

/// The shares of its CPU time that a thread spent in each way, where those are known of the whole only.
struct OnCpu {
    /// None where the programs told user and kernel mode apart at every moment.
    system: Option<f64>,
    taken: [(Component, f64); 2],
}

fn cpu_shares(thread: &Thread, seen: bool) -> OnCpu {
    let parts = || thread.parts.iter().filter(|part| part.component.on_cpu());
    let sum = |wanted| parts().filter(|part| part.component == wanted).map(|part| part.seconds).sum::<f64>();
    let whole: f64 = parts().map(|part| part.seconds).sum();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let [user, system] = [Component::CpuUser, Component::CpuSys].map(sum);
    OnCpu {
        system: (!seen).then(|| share(system, user + system)),
        taken: [Component::CpuIrq, Component::CpuSteal].map(|component| (component, share(sum(component), whole))),
    }
}

fn slice(grown: &Grown, kinds: &Kinds, on_cpu: &OnCpu, window: u64) -> Slice {
    let instant = |at: u64| seconds(at.saturating_sub(window));
    let mut parts: BTreeMap<Component, f64> = BTreeMap::new();
    for (doing, ns) in &grown.sums {
        let component = match doing {
            Doing::User => Component::CpuUser,
            Doing::Kernel => Component::CpuSys,
            Doing::Preempted => Component::RunqPreempt,
            Doing::Woken => Component::RunqWakeup,
            Doing::Throttled => Component::Throttled,
            Doing::Waiting(kind) => match kinds.get(kind).and_then(Split::mostly) {
                Some(component) => component,
                // Its sum found no room: not known.
                None => continue,
            },
        };
        *parts.entry(component).or_default() += seconds(*ns);
    }
    let [user, system] = [Component::CpuUser, Component::CpuSys].map(|id| parts.remove(&id).unwrap_or(0.0));
    let whole = user + system;
    for (component, share) in on_cpu.taken {
        parts.insert(component, whole * share);
    }
    let own = whole * on_cpu.taken.iter().fold(1.0, |left, (_, share)| left - share);
    let system = own * on_cpu.system.unwrap_or(if whole > 0.0 { system / whole } else { 0.0 });
    parts.insert(Component::CpuUser, own - system);
    parts.insert(Component::CpuSys, system);
    let parts = parts.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
    Slice { from: instant(grown.from), until: instant(grown.until), parts }
}

#[cfg(test)]
mod tests {
    use super::super::timeline_samples::Sums;
    use super::*;
    use rdiag_model::ledger::{Accuracy, Part};

    /// A slice of a second in user mode and three in the kernel, of a thread with these seconds on a CPU.
    fn sliced(parts: &[(Component, f64)], seen: bool) -> Vec<(Component, f64)> {
        let part = |(component, seconds): &(Component, f64)| Part {
            component: *component,
            call: String::new(),
            key: String::new(),
            seconds: *seconds,
            accuracy: Accuracy::Estimate(None),
            edge_seconds: 0.0,
            open: 0,
            durations: None,
        };
        let thread = Thread { parts: parts.iter().map(part).collect(), ..Thread::default() };
        let sums = Sums::from([(Doing::User, 1_000_000_000), (Doing::Kernel, 3_000_000_000)]);
        slice(&Grown { from: 0, until: 4_000_000_000, sums }, &Kinds::new(), &cpu_shares(&thread, seen), 0).parts
    }

    #[test]
    fn time_on_a_cpu_is_divided_as_in_the_whole_where_the_moment_is_not_known() {
        use Component::{CpuSteal, CpuSys, CpuUser};
        let whole = [(CpuUser, 6.0), (CpuSys, 2.0), (CpuSteal, 8.0)];
        assert_eq!(sliced(&whole[..2], true), [(CpuUser, 1.0), (CpuSys, 3.0)]);
        assert_eq!(sliced(&whole[..2], false), [(CpuUser, 3.0), (CpuSys, 1.0)]);
        assert_eq!(sliced(&whole, true), [(CpuUser, 0.5), (CpuSys, 1.5), (CpuSteal, 2.0)]);
        assert_eq!(sliced(&whole, false), [(CpuUser, 1.5), (CpuSys, 0.5), (CpuSteal, 2.0)]);
    }
}
