//! What the kernel counted of its own work for the threads (taskstats, level L2), added up.

use std::collections::BTreeMap;

use rdiag_model::ledger::DelayKind;
use rdiag_model::profile::{DelayRow, Piece};

use super::account::{Account, clean, share};

/// Threads that are named.
const MAX_THREADS: usize = 5;

/// One row for each kind that happened, the longest first.
pub(super) fn rows(account: &Account<'_>) -> Vec<DelayRow> {
    let mut kinds: BTreeMap<DelayKind, Vec<Piece>> = BTreeMap::new();
    for thread in &account.threads {
        for delay in thread.thread.delays.iter().filter(|delay| delay.count > 0) {
            let seconds = clean(delay.seconds);
            let count = Some(delay.count);
            let piece = Piece { name: thread.name(), seconds, count, ..Piece::default() };
            kinds.entry(delay.kind).or_default().push(piece);
        }
    }
    let mut rows: Vec<DelayRow> = kinds.into_iter().map(|(kind, threads)| row(kind, threads, account.total)).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    rows
}

fn row(kind: DelayKind, mut threads: Vec<Piece>, total: f64) -> DelayRow {
    let seconds = threads.iter().map(|thread| thread.seconds).sum();
    let count = threads.iter().filter_map(|thread| thread.count).fold(0_u64, u64::saturating_add);
    threads.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    threads.truncate(MAX_THREADS);
    for thread in &mut threads {
        thread.share = share(thread.seconds, seconds);
        thread.mean = thread.count.map(|count| share(thread.seconds, count as f64));
    }
    let (title, within) = words(kind);
    DelayRow {
        kind,
        title: title.into(),
        within: within.into(),
        seconds,
        share: share(seconds, total),
        count,
        mean: share(seconds, count as f64),
        threads,
    }
}

/// What it is, and in which lines of the profile its seconds stand.
fn words(kind: DelayKind) -> (&'static str, &'static str) {
    match kind {
        DelayKind::Reclaim => ("direct reclaim", "in mem.reclaim while it waited, else in cpu.sys"),
        DelayKind::Compaction => ("memory compaction", "in mem.reclaim while it waited, else in cpu.sys"),
        DelayKind::Thrashing => ("thrashing (refaults)", "in the waits for disks and in page faults"),
        DelayKind::SwapIn => ("swap-in", "in fault.swap while it waited, else in cpu.sys"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{part, thread};
    use super::super::tests::{plain, syncing};
    use super::*;
    use rdiag_model::Component as C;
    use rdiag_model::ledger::{Delay, Level};

    #[test]
    fn what_the_kernel_counts_of_its_own_work_is_told_beside_the_sum_and_never_added_to_it() {
        let delay = |kind, count, seconds| Delay { kind, count, seconds };
        let mut ledger = syncing();
        ledger.level = Level::L2;
        ledger.threads[0].delays = vec![delay(DelayKind::Reclaim, 100, 0.4), delay(DelayKind::Thrashing, 0, 0.0)];
        let mut other = thread(2, 1, 10.0, vec![part(C::WaitPoll, 10.0)]);
        other.delays = vec![delay(DelayKind::Reclaim, 100, 1.2), delay(DelayKind::SwapIn, 7, f64::NAN)];
        ledger.threads.push(other);
        let profile = plain(&ledger);
        let told: Vec<_> = profile.delays.iter().map(|row| (row.kind, row.count, row.seconds)).collect();
        assert_eq!(told, [(DelayKind::Reclaim, 200, 1.6), (DelayKind::SwapIn, 7, 0.0)]);
        let reclaim = &profile.delays[0];
        assert!(near(reclaim.share, 0.08) && near(reclaim.mean, 0.008));
        assert_eq!(reclaim.threads[0].name, "task2 (thread 2)");
        assert!(near(reclaim.threads[0].share, 0.75));
        assert!(near(profile.components.iter().map(|row| row.seconds).sum::<f64>(), profile.task_seconds));
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }
}
