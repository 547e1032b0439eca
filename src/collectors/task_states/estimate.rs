//! From what was seen of one thread to the parts of its time. CPU time and waiting for a CPU are counted by the kernel; the rest of the
//! time is divided among the waits by how often they were seen.
//!
//! Waiting for a CPU is never taken from samples, which say too often that a thread could run where CPUs are short: the sampler
//! takes a CPU from the thread that is looked at (measured on two busy CPUs: 15 points more than `run_delay`). It comes from the kernel's
//! account, and from the wait that is under way at the end.

use std::collections::BTreeMap;

use super::delays::Disk;
use rdiag_kernel::host::Stolen;
use rdiag_model::Component;
use rdiag_model::ledger::{Accuracy, Part};

/// What a wait was about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitDetail {
    /// The system call, `page fault`, or "".
    pub(super) call: &'static str,
    /// File, lock; or "".
    pub(super) key: String,
}

/// Samples by component and what it was about.
pub(super) type Waits = BTreeMap<Component, BTreeMap<WaitDetail, u64>>;

/// One thread over the time in which it was observed. Times in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Observed {
    /// T.
    pub(super) seconds: f64,
    /// Change of schedstat's time on a CPU; none where the kernel keeps none.
    pub(super) cpu: Option<f64>,
    /// Change of schedstat's time waiting for a CPU.
    pub(super) run_delay: f64,
    /// Waiting that the kernel has not added yet: since when the thread was queued and has not run, up to the end.
    pub(super) queued_at_end: f64,
    /// Change of utime and stime.
    pub(super) user_ticks: u64,
    /// See `user_ticks`.
    pub(super) system_ticks: u64,
    /// utime and stime since the thread was born, for threads that used less than a tick.
    pub(super) life_ticks: (u64, u64),
    /// Seconds of a tick.
    pub(super) tick: f64,
    /// Mean distance of two samples.
    pub(super) interval: f64,
    /// Samples in which its state was seen.
    pub(super) samples: u64,
    /// Of those: it could run, or ran.
    pub(super) runnable: u64,
    /// Samples of waits that could be told.
    pub(super) waits: Waits,
    /// Seconds in which the group's quota stopped it, of the time that it waited for a CPU.
    pub(super) throttled: f64,
    /// What a hypervisor took of its CPU time.
    pub(super) stolen: Stolen,
    /// What the kernel counted as waits for a disk (level L2).
    pub(super) disk: Option<Disk>,
}

impl Observed {
    /// CPU time.
    pub(super) fn cpu(&self) -> f64 {
        self.cpu.unwrap_or((self.user_ticks.saturating_add(self.system_ticks)) as f64 * self.tick)
    }

    /// Time in which it could run and had no CPU, throttling included.
    pub(super) fn waited_for_cpu(&self) -> f64 {
        self.run_delay + self.pending()
    }

    /// Waiting for a CPU that the kernel has not added. It adds a wait when the thread gets the CPU, so what is missing
    /// is the wait that goes on at the end, and that was seen to begin.
    ///
    /// Samples would tell it too, and too much of it on a busy host, where the sampler takes a CPU from the thread
    /// that is looked at: they stand in only where the kernel keeps no such figures, for what is more than chance. The
    /// number of samples in one of two states varies by half the root of their number; twice that is not taken for chance.
    fn pending(&self) -> f64 {
        if self.cpu.is_some() {
            return self.queued_at_end;
        }
        let seen = self.runnable as f64 / self.samples.max(1) as f64 * self.seconds;
        let missing = seen - self.cpu();
        if missing > self.interval * (self.samples as f64).sqrt() { missing } else { 0.0 }
    }

    /// The parts of its time. They are not forced to sum up: what is over is seen as such.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let queued = self.waited_for_cpu();
        // What was counted cannot have been taken.
        let disk = self.disk.map_or(0.0, |disk| disk.seconds);
        let rest = (self.seconds - self.cpu() - queued - disk).max(0.0);
        let (own, stolen) = match self.stolen {
            Stolen::Nothing => (self.cpu(), 0.0),
            // For a thread that was on a CPU all the time, nothing else is missing.
            Stolen::Beside(ratio) => (self.cpu(), (self.cpu() * ratio).min(rest)),
            Stolen::Within(share) => (self.cpu() * (1.0 - share), self.cpu() * share),
        };
        self.on_cpu(own, &mut parts);
        push(&mut parts, Component::CpuSteal, stolen, Accuracy::Estimate(None));
        let throttled = self.throttled.clamp(0.0, queued);
        let exact = self.cpu.is_some() && self.pending() == 0.0 && throttled == 0.0;
        let accuracy = if exact { Accuracy::Exact } else { Accuracy::Estimate(None) };
        push(&mut parts, Component::Runq, queued - throttled, accuracy);
        push(&mut parts, Component::Throttled, throttled, Accuracy::Estimate(None));
        self.off_cpu((self.seconds - own - stolen - queued).max(0.0), &mut parts);
        parts
    }

    /// User and system by ticks: their sum is right, how it is divided is a matter of luck with few ticks.
    fn on_cpu(&self, cpu: f64, parts: &mut Vec<Part>) {
        let (user, system, ticks) = match (self.user_ticks, self.system_ticks, self.life_ticks) {
            (0, 0, (0, 0)) => (1.0, 0.0, 0.0),
            // Less than a tick: as it was so far, which says little of now.
            (0, 0, (user, system)) => (user as f64, system as f64, 0.0),
            (user, system, _) => (user as f64, system as f64, user.saturating_add(system) as f64),
        };
        let share = user / (user + system);
        let error = if ticks > 0.0 { cpu * (share * (1.0 - share) / ticks).sqrt() } else { cpu };
        push(parts, Component::CpuUser, cpu * share, Accuracy::Estimate(Some(error)));
        push(parts, Component::CpuSys, cpu * (1.0 - share), Accuracy::Estimate(Some(error)));
    }

    /// Time off the CPU by samples; of waits for a disk, as much as the kernel has counted.
    fn off_cpu(&self, off: f64, parts: &mut Vec<Part>) {
        let Some(counted) = self.disk else {
            divide(off, &self.waits, |_| true, Component::OtherOff, parts);
            return;
        };
        let disk = counted.seconds.clamp(0.0, off);
        match counted.swap_in {
            // Samples divide what the kernel does not distinguish.
            Some(swap_in) => {
                let swap_in = swap_in.clamp(0.0, disk);
                push_about(parts, Component::FaultSwap, &fault(), swap_in, Accuracy::Exact);
                let is_other = |component| is_disk(component) && component != Component::FaultSwap;
                divide(disk - swap_in, &self.waits, is_other, Component::IoBlock, parts);
            }
            None => divide(disk, &self.waits, is_disk, Component::IoBlock, parts),
        }
        // The sum is the kernel's; if nothing had to be divided, so is the part.
        if parts.iter().filter(|part| is_disk(part.component)).count() == 1 {
            parts.iter_mut().filter(|part| is_disk(part.component)).for_each(|part| part.accuracy = Accuracy::Exact);
        }
        // What is left beside the counted waits is none of them, unless nothing else was ever seen: an fsync may wait for
        // the journal's commit, which the kernel does not count.
        let others = self.waits.keys().any(|component| !is_disk(*component));
        divide(off - disk, &self.waits, |component| !others || !is_disk(component), Component::OtherOff, parts);
        merge(parts);
    }
}

/// What a wait in a page fault is about.
fn fault() -> WaitDetail {
    WaitDetail { call: "page fault", key: String::new() }
}

/// Components whose time the kernel counts as waits for a disk.
pub(super) fn is_disk(component: Component) -> bool {
    use Component as C;
    matches!(
        component,
        C::IoBlock
            | C::IoBlockRead
            | C::IoBlockWrite
            | C::IoBlockSync
            | C::IoBlockMeta
            | C::IoBlockAsync
            | C::IoPace
            | C::Fault
            | C::FaultFile
            | C::FaultSwap
    )
}

/// Divides seconds among the waits that are `wanted`, by their samples; all to `otherwise` where there is none.
fn divide(
    seconds: f64,
    waits: &Waits,
    wanted: impl Fn(Component) -> bool,
    otherwise: Component,
    parts: &mut Vec<Part>,
) {
    let of_interest = || waits.iter().filter(|(component, _)| wanted(**component));
    let samples: u64 = of_interest().flat_map(|(_, keys)| keys.values()).sum();
    if samples == 0 {
        push(parts, otherwise, seconds, Accuracy::Estimate(None));
        return;
    }
    for (component, keys) in of_interest() {
        for (what, count) in keys {
            let share = *count as f64 / samples as f64;
            let error = seconds * (share * (1.0 - share) / samples as f64).sqrt();
            push_about(parts, *component, what, seconds * share, Accuracy::Sampled(*count, error));
        }
    }
}

/// One part for each component and key.
fn merge(parts: &mut Vec<Part>) {
    let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts.drain(..) {
        match merged
            .iter_mut()
            .find(|known| known.component == part.component && known.call == part.call && known.key == part.key)
        {
            Some(known) => {
                known.seconds += part.seconds;
                known.accuracy = Accuracy::Estimate(None);
            }
            None => merged.push(part),
        }
    }
    *parts = merged;
}

fn push(parts: &mut Vec<Part>, component: Component, seconds: f64, accuracy: Accuracy) {
    push_about(parts, component, &WaitDetail::default(), seconds, accuracy);
}

fn push_about(parts: &mut Vec<Part>, component: Component, what: &WaitDetail, seconds: f64, accuracy: Accuracy) {
    if seconds > 0.0 {
        let (call, key) = (what.call.to_owned(), what.key.clone());
        parts.push(Part { component, call, key, seconds, accuracy, edge_seconds: 0.0, open: 0, durations: None });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(parts: &[Part], component: Component) -> f64 {
        parts.iter().filter(|part| part.component == component).map(|part| part.seconds).sum()
    }

    fn waits(of: &[(Component, u64)]) -> Waits {
        of.iter().map(|(component, count)| (*component, [(WaitDetail::default(), *count)].into())).collect()
    }

    /// Ten seconds at 50 Hz.
    fn observed() -> Observed {
        Observed { seconds: 10.0, cpu: Some(0.0), tick: 0.01, interval: 0.02, samples: 500, ..Observed::default() }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_time_off_the_cpu_is_divided_by_samples() {
        let waits = waits(&[(Component::WaitSleep, 300), (Component::IpcPipe, 100)]);
        let thread = Observed {
            cpu: Some(1.5),
            run_delay: 0.5,
            user_ticks: 100,
            system_ticks: 50,
            runnable: 100,
            waits,
            ..observed()
        };
        let parts = thread.parts();
        assert!(near(seconds(&parts, Component::CpuUser), 1.0) && near(seconds(&parts, Component::CpuSys), 0.5));
        assert!(near(seconds(&parts, Component::Runq), 0.5));
        assert!(near(seconds(&parts, Component::WaitSleep), 6.0) && near(seconds(&parts, Component::IpcPipe), 2.0));
        let runq = parts.iter().find(|part| part.component == Component::Runq).unwrap();
        assert_eq!(runq.accuracy, Accuracy::Exact);
        let pipe = parts.iter().find(|part| part.component == Component::IpcPipe).unwrap();
        let Accuracy::Sampled(100, error) = pipe.accuracy else { panic!("{pipe:?}") };
        assert!((error - 8.0 * (0.25_f64 * 0.75 / 400.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn what_a_hypervisor_took_is_no_wait_whether_the_kernel_counts_it_as_run_time_or_not() {
        let waits = waits(&[(Component::WaitSleep, 100)]);
        let thread =
            |cpu, stolen| Observed { cpu: Some(cpu), user_ticks: 100, stolen, waits: waits.clone(), ..observed() };
        let shares = |thread: Observed| {
            let parts = thread.parts();
            [Component::CpuUser, Component::CpuSteal, Component::WaitSleep].map(|wanted| seconds(&parts, wanted))
        };
        assert_eq!(shares(thread(4.0, Stolen::Beside(0.5))), [4.0, 2.0, 4.0]);
        assert_eq!(shares(thread(4.0, Stolen::Within(0.25))), [3.0, 1.0, 6.0]);
        assert_eq!(shares(thread(9.0, Stolen::Beside(0.5))), [9.0, 1.0, 0.0], "no more than is missing");
        let disk = Some(Disk { seconds: 5.0, swap_in: None });
        let parts = Observed { disk, ..thread(4.0, Stolen::Beside(0.5)) }.parts();
        let seconds = [Component::IoBlock, Component::CpuSteal].map(|wanted| seconds(&parts, wanted));
        assert_eq!(seconds, [5.0, 1.0], "counted waits for a disk stay what they are");
    }

    #[test]
    fn a_thread_that_never_gets_a_cpu_waits_for_one_all_the_time() {
        // run_delay is added when it gets the CPU: here never.
        let starved = Observed { runnable: 500, queued_at_end: 10.0, ..observed() };
        assert!(near(seconds(&starved.parts(), Component::Runq), 10.0));
        // One that got the CPU again and again: the kernel has added all of it, whatever the samples say.
        let waits = waits(&[(Component::WaitSleep, 200)]);
        let busy = Observed { cpu: Some(1.0), run_delay: 2.0, runnable: 300, waits, ..observed() };
        assert!(near(seconds(&busy.parts(), Component::Runq), 2.0));
    }

    #[test]
    fn waits_that_nobody_saw_are_called_nothing() {
        assert!(near(seconds(&observed().parts(), Component::OtherOff), 10.0));
    }

    #[test]
    fn throttling_is_taken_out_of_the_waiting_for_a_cpu_and_never_more_than_that() {
        let thread = Observed { cpu: Some(2.0), run_delay: 8.0, runnable: 500, throttled: 7.5, ..observed() };
        assert!(near(seconds(&thread.parts(), Component::Throttled), 7.5));
        assert!(near(seconds(&thread.parts(), Component::Runq), 0.5));
        let parts = Observed { throttled: 20.0, ..thread }.parts();
        assert!(near(seconds(&parts, Component::Throttled), 8.0) && near(seconds(&parts, Component::Runq), 0.0));
    }

    #[test]
    fn counted_waits_for_disks_replace_the_sampled_ones() {
        let waits = waits(&[(Component::IoBlockRead, 150), (Component::FaultFile, 50), (Component::WaitSleep, 300)]);
        let disk = |seconds| Some(Disk { seconds, swap_in: None });
        let thread = Observed { waits, disk: disk(3.0), ..observed() };
        let parts = thread.parts();
        assert!(
            near(seconds(&parts, Component::IoBlockRead), 2.25) && near(seconds(&parts, Component::FaultFile), 0.75)
        );
        assert!(near(seconds(&parts, Component::WaitSleep), 7.0));
        // Never seen in a sample, but counted.
        let parts = Observed { waits: super::tests::waits(&[(Component::WaitSleep, 500)]), ..thread }.parts();
        assert!(near(seconds(&parts, Component::IoBlock), 3.0) && near(seconds(&parts, Component::WaitSleep), 7.0));
        // An fsync that waits for the journal for the most part, which is not counted.
        let syncs = super::tests::waits(&[(Component::IoBlockSync, 500)]);
        let parts = Observed { waits: syncs, disk: disk(1.0), ..observed() }.parts();
        assert!(near(seconds(&parts, Component::IoBlockSync), 10.0));
        assert_eq!(parts.len(), 1);
    }

    #[test]
    fn swapping_in_is_as_long_as_the_kernel_counts_where_it_counts_that_apart() {
        let waits = waits(&[(Component::IoBlockRead, 100), (Component::FaultSwap, 100), (Component::WaitSleep, 300)]);
        let thread = Observed { waits, disk: Some(Disk { seconds: 4.0, swap_in: Some(1.0) }), ..observed() };
        let parts = thread.parts();
        assert!(near(seconds(&parts, Component::FaultSwap), 1.0) && near(seconds(&parts, Component::IoBlockRead), 3.0));
        assert!(near(seconds(&parts, Component::WaitSleep), 6.0));
        let swap = parts.iter().find(|part| part.component == Component::FaultSwap).unwrap();
        assert_eq!(swap.accuracy, Accuracy::Exact);
    }

    #[test]
    fn without_scheduler_figures_ticks_and_samples_stand_in() {
        let waits = waits(&[(Component::WaitSleep, 250)]);
        let thread = Observed { cpu: None, user_ticks: 200, runnable: 250, waits, ..observed() };
        let parts = thread.parts();
        assert!(near(seconds(&parts, Component::CpuUser), 2.0));
        assert!(near(seconds(&parts, Component::Runq), 3.0) && near(seconds(&parts, Component::WaitSleep), 5.0));
        assert!(parts.iter().all(|part| part.accuracy != Accuracy::Exact));
        // A few samples more than the known time are chance.
        let lucky = Observed { runnable: 110, ..thread };
        assert!(near(seconds(&lucky.parts(), Component::Runq), 0.0));
    }

    proptest! {
        #[test]
        fn parts_sum_up_to_the_time_unless_more_was_counted_than_there_was(
            seconds in 0.0..100.0_f64, cpu in 0.0..100.0_f64, run_delay in 0.0..100.0_f64, throttled in 0.0..100.0_f64,
            user_ticks: u64, system_ticks: u64, samples in 0_u64..10_000, share in 0.0..1.0_f64,
            disk in proptest::option::of(0.0..100.0_f64), swap_in in proptest::option::of(0.0..100.0_f64),
            sleeps in 0_u64..1000, reads in 0_u64..1000,
            beside: bool, stolen in 0.0..1.0_f64,
        ) {
            let stolen = if beside { Stolen::Beside(stolen) } else { Stolen::Within(stolen) };
            let runnable = (samples as f64 * share) as u64;
            let waits = waits(&[(Component::WaitSleep, sleeps), (Component::IoBlockRead, reads)]);
            let disk = disk.map(|seconds| Disk { seconds, swap_in });
            let thread = Observed {
                seconds, cpu: Some(cpu), run_delay, throttled, user_ticks, system_ticks, samples, runnable, waits, disk, stolen,
                ..observed()
            };
            let parts = thread.parts();
            let sum: f64 = parts.iter().map(|part| part.seconds).sum();
            prop_assert!(parts.iter().all(|part| part.seconds >= 0.0 && part.seconds.is_finite()));
            let counted = cpu + thread.waited_for_cpu();
            prop_assert!((sum - seconds.max(counted)).abs() < 1e-6, "{sum} of {seconds}, {counted} counted");
        }
    }
}
