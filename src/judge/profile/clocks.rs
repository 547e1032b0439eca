//! Where the scheduler and the ledger draw the line between waiting for a CPU and having it.

use rdiag_model::Component;
use rdiag_model::ledger::{Ledger, Level};
use rdiag_model::quantity::seconds;

use super::account::{Account, share};

/// What a CPU takes out of idleness at most, in seconds. Beyond it another reason must be looked for. On a virtual machine it is 5 to
/// 10 µs.
const OUT_OF_IDLENESS: f64 = 50e-6;
/// How much later than in the scheduler's account a wait for a CPU may begin and end in the ledger, whose programs run at an event while
/// that has set its clock before it: less than 1 µs.
const AT_THE_EVENT: f64 = 10e-6;

/// Two counts of the same time, in seconds.
pub(super) struct Compared {
    /// The ledger's.
    pub(super) own: f64,
    /// The kernel's.
    pub(super) other: f64,
    /// How much they differ without any reason.
    pub(super) tolerance: f64,
}

impl Compared {
    pub(super) fn agree(&self) -> bool {
        (self.own - self.other).abs() <= self.tolerance
    }
}

/// How many wake-ups the ledger saw, of threads whose every change of state it saw.
///
/// The scheduler sets the clock of a run queue when the woken CPU takes up a wake-up, and not again before the switch that follows it
/// (`rq_clock_skip_update()`). What lies between is CPU time of the thread in `se.sum_exec_runtime`, and with it in getrusage() and /proc;
/// it is in no `run_delay`. In the ledger it is waiting for a CPU.
pub(super) struct WakeUps(u64);

impl WakeUps {
    /// None where changes of state were sampled, or no thread was woken.
    pub(super) fn of(account: &Account<'_>, ledger: &Ledger) -> Option<Self> {
        let parts = account.threads.iter().flat_map(|own| &own.thread.parts);
        let waits =
            parts.filter(|part| part.component == Component::RunqWakeup).filter_map(|part| part.durations.as_ref());
        let count = waits.fold(0_u64, |sum, durations| sum.saturating_add(durations.count));
        (ledger.level == Level::L3 && count > 0).then_some(Self(count))
    }

    /// How much of what the ledger has as waiting the scheduler has as CPU time, and why, where that is what a CPU takes out of
    /// idleness: the one has too much of what the other lacks, and it is not more than a wake-up can take.
    pub(super) fn on_cpu(&self, cpu: &Compared, waiting: &Compared) -> Option<(f64, String)> {
        let (more, lacks) = (cpu.other - cpu.own, waiting.own - waiting.other);
        let moved = more.min(lacks);
        (moved > 0.0 && more <= lacks + cpu.tolerance && self.each(more) <= OUT_OF_IDLENESS).then(|| {
            let why = format!(
                "{} more at each of {} wake-ups: its clock stands still from when the woken CPU has taken up a wake-up to the switch, \
                 so that this is CPU time there and run-queue wait here",
                seconds(self.each(moved)),
                self.0
            );
            (moved, why)
        })
    }

    /// Why the ledger has more waiting for a CPU, where what is no CPU time of the other count is not more than the events explain.
    pub(super) fn waiting(&self, cpu: Option<&Compared>, waiting: &Compared) -> Option<String> {
        let more = waiting.own - waiting.other;
        let before = more - cpu.map_or(0.0, |cpu| (cpu.other - cpu.own).max(0.0));
        (more > 0.0 && self.each(before) <= AT_THE_EVENT).then(|| {
            format!(
                "{} more at each of {} wake-ups: here the wait lasts until the switch, there until the woken CPU has taken up the \
                 wake-up",
                seconds(self.each(more)),
                self.0
            )
        })
    }

    fn each(&self, seconds: f64) -> f64 {
        share(seconds, self.0 as f64)
    }
}
