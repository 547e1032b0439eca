//! Time of a thread on a CPU: whose it was.

use super::fill::seconds;
use super::record::Record;
use rdiag_kernel::host::Stolen;
use rdiag_model::Component;
use rdiag_model::ledger::Accuracy;

/// A page fault that needs no disk takes at least this long in the kernel, in seconds.
const FAULT_SECONDS: f64 = 100e-9;
/// One that reads: it makes room for the page, sends a request and goes to sleep.
const MAJOR_SECONDS: f64 = 5e-6;
/// The split of CPU time by the kernel's account replaces ours when faults may be more than this share of it.
const FAULTS_MATTER: f64 = 0.01;
/// What others had of the CPU makes user and system time estimates when it is more than this share.
const OTHERS_MATTER: f64 = 0.01;

/// Less than this (seconds) may well have spared some threads.
const MUST_SHOW: f64 = 0.01;

/// Time on a CPU by whose it was.
pub(super) struct OnCpu {
    pub(super) parts: [(Component, f64, Accuracy); 4],
    /// User and kernel mode are what the programs saw, at every moment.
    pub(super) seen: bool,
}

/// Time on a CPU: in user and kernel mode, and what of it others had. Calls are distinguished exactly; page faults, of which only
/// the number is known, and everything when calls were not watched all the time, by the kernel's own account, which is sampled
/// by ticks on most kernels. What others had is measured, but not in which mode it hit the thread: each gives its share.
pub(super) fn on_cpu(record: &Record, watched: bool, tick: f64, stolen: Stolen) -> OnCpu {
    let whole = seconds(record.user.saturating_add(record.kernel));
    let stolen = match stolen {
        Stolen::Within(share) => whole * share,
        Stolen::Beside(_) | Stolen::Nothing => seconds(record.stolen).min(whole),
    };
    let interrupted = seconds(record.interrupted).min(whole - stolen);
    let (taken, own) = (stolen + interrupted, whole - stolen - interrupted);
    let kernel = (seconds(record.kernel) * if whole > 0.0 { own / whole } else { 0.0 }).min(own);
    let sampled = record.change.user.saturating_add(record.change.system);
    let in_faults = record.change.faults as f64 * FAULT_SECONDS + record.change.majors as f64 * MAJOR_SECONDS;
    let by_faults = in_faults > whole * FAULTS_MATTER;
    let exact = record.kernel_thread || (watched && !by_faults);
    let (system, accuracy) = if exact && taken <= whole * OTHERS_MATTER {
        (kernel, Accuracy::Exact)
    } else if exact {
        (kernel, Accuracy::Estimate(Some(taken)))
    } else if sampled == 0 {
        (kernel, Accuracy::Estimate(None))
    } else {
        let share = record.change.system as f64 / sampled as f64;
        let ticks = (seconds(sampled) / tick).max(1.0);
        let error = (share * (1.0 - share) / ticks).sqrt() * own;
        let system = (own * share).clamp(if watched { kernel } else { 0.0 }, own);
        (system, Accuracy::Estimate(Some(error.max(tick.min(own)))))
    };
    let parts = [
        (Component::CpuUser, own - system, accuracy),
        (Component::CpuSys, system, accuracy),
        (Component::CpuIrq, interrupted, Accuracy::Estimate(None)),
        (Component::CpuSteal, stolen, Accuracy::Estimate(None)),
    ];
    OnCpu { parts, seen: exact || sampled == 0 }
}

/// A kernel that could leave stolen time out of run times may have been told not to: then it says of no thread that any was
/// taken, and run times are as long as the time on a CPU.
pub(super) fn by_evidence(stolen: Stolen, records: &[Record]) -> Stolen {
    let Stolen::Beside(ratio) = stolen else { return stolen };
    let share = ratio / (1.0 + ratio);
    let sum =
        |of: fn(&Record) -> u64| seconds(records.iter().fold(0, |sum: u64, record| sum.saturating_add(of(record))));
    let whole = sum(|record| record.user.saturating_add(record.kernel));
    let run = sum(|record| record.change.run);
    let silent = records.iter().all(|record| record.stolen == 0) && whole * share > MUST_SHOW;
    if silent && run > whole * (1.0 - share / 2.0) { Stolen::Within(share) } else { stolen }
}

#[cfg(test)]
mod tests {
    use super::super::record::Account;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Six seconds in user mode and two in the kernel, as the programs saw it; its ticks say half and half.
    fn record() -> Record {
        let change = Account { user: 4 * SECOND, system: 4 * SECOND, ..Account::default() };
        Record { user: 6 * SECOND, kernel: 2 * SECOND, change, ..Record::default() }
    }

    /// Seconds of user, system, interrupts and stolen.
    fn divided(record: &Record, watched: bool, stolen: Stolen) -> ([f64; 4], Accuracy) {
        let parts = on_cpu(record, watched, 0.01, stolen).parts;
        let all = [Component::CpuUser, Component::CpuSys, Component::CpuIrq, Component::CpuSteal];
        let of =
            |wanted| parts.iter().filter(|(component, ..)| *component == wanted).map(|(_, seconds, _)| *seconds).sum();
        (all.map(of), parts[0].2)
    }

    #[test]
    fn with_all_calls_watched_it_is_what_the_programs_saw_and_else_what_ticks_say() {
        assert_eq!(divided(&record(), true, Stolen::Nothing), ([6.0, 2.0, 0.0, 0.0], Accuracy::Exact));
        let (seconds, accuracy) = divided(&record(), false, Stolen::Nothing);
        assert_eq!(seconds, [4.0, 4.0, 0.0, 0.0]);
        assert!(matches!(accuracy, Accuracy::Estimate(Some(_))));
    }

    #[test]
    fn a_few_faults_that_read_cost_as_much_as_many_that_do_not() {
        let faults = |faults, majors| Record {
            change: Account { user: SECOND, system: 7 * SECOND, faults, majors, ..Account::default() },
            ..record()
        };
        assert_eq!(
            divided(&faults(20_000, 0), true, Stolen::Nothing).0,
            [6.0, 2.0, 0.0, 0.0],
            "as the programs saw it"
        );
        assert_eq!(divided(&faults(20_000, 20_000), true, Stolen::Nothing).0, [1.0, 7.0, 0.0, 0.0], "as ticks tell");
    }

    #[test]
    fn what_others_had_of_the_cpu_is_taken_from_both_modes_alike() {
        let taken = Record { stolen: 3 * SECOND, interrupted: SECOND, ..record() };
        assert_eq!(
            divided(&taken, true, Stolen::Beside(0.9)),
            ([3.0, 1.0, 1.0, 3.0], Accuracy::Estimate(Some(4.0))),
            "what the kernel measured of the thread goes before what all lost"
        );
        assert_eq!(divided(&taken, false, Stolen::Nothing).0, [2.0, 2.0, 1.0, 3.0]);
        let little = Record { stolen: SECOND / 100, ..record() };
        assert_eq!(divided(&little, true, Stolen::Nothing).1, Accuracy::Exact);
    }

    #[test]
    fn where_the_kernel_does_not_measure_it_a_thread_lost_as_much_as_all() {
        assert_eq!(divided(&record(), true, Stolen::Within(0.25)).0, [4.5, 1.5, 0.0, 2.0]);
    }

    #[test]
    fn a_kernel_that_was_told_not_to_measure_is_known_by_its_run_times() {
        let ran = |run, stolen| Record { change: Account { run, ..Account::default() }, stolen, ..record() };
        let beside = Stolen::Beside(0.25);
        assert_eq!(by_evidence(beside, &[ran(8 * SECOND, 0)]), Stolen::Within(0.2));
        assert_eq!(by_evidence(beside, &[ran(8 * SECOND, 1)]), beside, "it does measure");
        assert_eq!(by_evidence(beside, &[ran(6 * SECOND, 0)]), beside, "run times lack it");
        let short = Record { user: SECOND / 1000, kernel: 0, ..ran(SECOND / 1000, 0) };
        assert_eq!(by_evidence(beside, &[short]), beside, "too short to tell");
        assert_eq!(by_evidence(Stolen::Nothing, &[ran(8 * SECOND, 0)]), Stolen::Nothing);
    }

    #[test]
    fn a_thread_that_never_left_the_kernel_keeps_its_sum_to_the_last_bit() {
        let change = Account { user: 1, system: 5 * SECOND, faults: 1 << 30, ..Account::default() };
        for kernel in (5_973_996_000..5_973_997_000).step_by(7) {
            let record = Record { kernel, stolen: 4_266_876_548, change, ..Record::default() };
            let parts = on_cpu(&record, true, 0.01, Stolen::Nothing).parts;
            let sum: f64 = parts.iter().map(|(_, seconds, _)| seconds).sum();
            assert!((sum - seconds(kernel)).abs() < 1e-9 && parts.iter().all(|(_, seconds, _)| *seconds >= 0.0));
        }
    }

    #[test]
    fn more_than_all_of_it_cannot_have_been_taken() {
        let absurd = Record { stolen: 9 * SECOND, interrupted: SECOND, ..record() };
        assert_eq!(divided(&absurd, true, Stolen::Nothing).0, [0.0, 0.0, 0.0, 8.0]);
        assert_eq!(divided(&Record::default(), true, Stolen::Within(0.5)).0, [0.0; 4]);
    }
}
