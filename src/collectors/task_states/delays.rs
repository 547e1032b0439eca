//! Waits for disks as the kernel counts them, where it does, and what it counts of its work for memory: level L2.
//!
//! What taskstats counts around the kernel's own work (reclaim, compaction, refaults, swap-in) holds CPU time and other waits, so it is
//! reported beside the sum (`Thread::delays`), never in it. Only before Linux 5.17 is swapping in counted separately from other waits for
//! disks; there it is a part of its own.

use super::estimate::is_disk;
use super::sampler::Task;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::taskstats::{Delay, Delays, Listener, Taskstats};
use rdiag_model::ledger::{self, DelayKind};
use rdiag_model::{Reason, Unavailable};

/// What the kernel counts, or why it is not known.
pub(super) struct Kernel {
    connection: Result<Taskstats, Unavailable>,
    /// Reports threads that end.
    listener: Option<Listener>,
}

impl Kernel {
    /// Asks whether delays are counted and may be seen. Nothing is switched on: that would be for all of the host.
    pub(super) fn ask(host: &Host) -> Self {
        let connection = connect(host);
        let listener = connection.is_ok().then(|| {
            let cpus = host.read_line("sys/devices/system/cpu/possible").ok()?;
            Taskstats::open().and_then(|connection| connection.listen(&cpus)).ok()
        });
        Self { connection, listener: listener.flatten() }
    }

    /// Why waits for disks are not counted, if they are not.
    pub(super) fn gap(&self) -> Option<&Unavailable> {
        self.connection.as_ref().err()
    }

    /// What was counted for a thread so far.
    pub(super) fn now(&mut self, tid: u32) -> Option<Delays> {
        self.connection.as_mut().ok()?.of_thread(tid).ok().flatten()
    }

    /// What was counted for a thread that was born just now, if anything will be.
    pub(super) fn at_birth(&self) -> Option<Delays> {
        self.connection.is_ok().then(Delays::default)
    }

    /// Threads that have ended since the last time.
    pub(super) fn ended(&mut self) -> Vec<(u32, Delays)> {
        self.listener.as_mut().map(Listener::take).unwrap_or_default()
    }

    /// How often the kernel dropped records of threads that ended.
    pub(super) fn lost(&self) -> u64 {
        self.listener.as_ref().map_or(0, Listener::lost)
    }
}

fn connect(host: &Host) -> Result<Taskstats, Unavailable> {
    if host.is_recorded() || host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "taskstats reports the tasks of this machine only"));
    }
    let switch = host.read_line("proc/sys/kernel/task_delayacct");
    // Before Linux 5.14 there is no such file, and delays are counted unless that was forbidden at boot.
    let off = match &switch {
        Ok(value) => value != "1",
        Err(_) => host.read("proc/cmdline").unwrap_or_default().split_whitespace().any(|word| word == "nodelayacct"),
    };
    if off {
        let gap = Unavailable::new(Reason::Disabled, "the kernel does not count how long tasks wait for disks");
        return Err(gap.with_remedy(
            "as root: sysctl kernel.task_delayacct=1, for all of the host; then start the program anew, since only tasks \
             that are born afterwards are counted",
        ));
    }
    let mut connection = Taskstats::open()?;
    // The right to ask shows when one asks.
    connection.of_thread(host.facts().pid)?;
    Ok(connection)
}

/// Waits for disks as the kernel counted them. Times in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Disk {
    /// All of them.
    pub(super) seconds: f64,
    /// Of these: swapping in, where the kernel counts it separately (before Linux 5.17).
    pub(super) swap_in: Option<f64>,
}

/// What the kernel counted as waits for a disk while the thread was observed. None if it was not asked, or counted
/// nothing although the thread was seen to wait for one: then the thread was there before counting was switched on.
pub(super) fn disk(task: &Task) -> Option<Disk> {
    let (Some(first), Some(last)) = task.delays else { return None };
    let seen = task.waits.keys().any(|component| is_disk(*component));
    let swap_in = last.swap_is_apart().then(|| seconds(first.swap_in, last.swap_in));
    let counted = last.disk.count.saturating_add(if swap_in.is_some() { last.swap_in.count } else { 0 });
    if counted == 0 && seen {
        return None;
    }
    Some(Disk { seconds: seconds(first.disk, last.disk) + swap_in.unwrap_or(0.0), swap_in })
}

/// What the kernel counted beside waits for disks while the thread was observed. Nothing counted is left out: it may be
/// that the thread was there before counting was switched on.
pub(super) fn others(task: &Task) -> Vec<ledger::Delay> {
    let (Some(first), Some(last)) = task.delays else { return Vec::new() };
    let none = Delay::default();
    let pairs = [
        (DelayKind::Reclaim, first.reclaim, last.reclaim),
        (DelayKind::Compaction, first.compaction, last.compaction),
        (DelayKind::Thrashing, first.thrashing, last.thrashing),
        (DelayKind::SwapIn, Some(first.swap_in), Some(last.swap_in)),
    ];
    let change = |(kind, first, last): (DelayKind, Option<Delay>, Option<Delay>)| {
        let (first, last) = (first.unwrap_or(none), last?);
        let count = last.count.saturating_sub(first.count);
        (count > 0).then(|| ledger::Delay { kind, count, seconds: seconds(first, last) })
    };
    pairs.into_iter().filter_map(change).collect()
}

fn seconds(first: Delay, last: Delay) -> f64 {
    last.nanoseconds.saturating_sub(first.nanoseconds) as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::Component;

    fn delays(version: u16, disk: u64, swap_in: u64) -> Delays {
        let delay = |seconds: u64| Delay { count: seconds, nanoseconds: seconds * 1_000_000_000 };
        Delays {
            version,
            disk: delay(disk),
            swap_in: delay(swap_in),
            reclaim: Some(delay(2 * disk)),
            ..Delays::default()
        }
    }

    fn task(first: Delays, last: Delays) -> Task {
        let mut task = Task::default();
        task.delays = (Some(first), Some(last));
        task
    }

    #[test]
    fn waits_while_swapping_in_are_waits_for_a_disk_where_the_kernel_counts_them_apart() {
        let old = task(delays(10, 1, 2), delays(10, 4, 7));
        assert_eq!(disk(&old), Some(Disk { seconds: 8.0, swap_in: Some(5.0) }));
        let new = task(delays(16, 1, 2), delays(16, 4, 7));
        assert_eq!(disk(&new), Some(Disk { seconds: 3.0, swap_in: None }));
    }

    #[test]
    fn nothing_counted_of_a_thread_that_was_seen_to_wait_is_no_count() {
        let mut task = task(delays(16, 0, 0), delays(16, 0, 0));
        assert_eq!(disk(&task), Some(Disk::default()));
        task.waits = [(Component::IoBlockRead, [(super::super::estimate::WaitDetail::default(), 3)].into())].into();
        assert_eq!(disk(&task), None);
    }

    #[test]
    fn delays_are_those_of_the_window_and_what_was_not_counted_is_left_out() {
        let told = others(&task(delays(10, 1, 2), delays(10, 4, 2)));
        let told: Vec<_> = told.iter().map(|delay| (delay.kind, delay.count, delay.seconds)).collect();
        assert_eq!(told, [(DelayKind::Reclaim, 6, 6.0)]);
        // A thread that was born within the window: it began with nothing.
        let born = others(&task(Delays::default(), delays(10, 4, 0)));
        assert_eq!((born[0].kind, born[0].count), (DelayKind::Reclaim, 8));
        assert!(others(&Task::default()).is_empty());
    }
}
