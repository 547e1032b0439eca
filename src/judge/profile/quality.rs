//! How far an account can be trusted: what is left over, and what other accounts of the same time say.

use rdiag_model::Component;
use rdiag_model::ledger::Ledger;
use rdiag_model::profile::{Check, Grade, Quality};
use rdiag_model::quantity::{percent, seconds};

use super::account::{Account, clean, share};
use super::beyond;
use super::clocks::{Compared, WakeUps};

/// Residual share up to which each grade is given.
const GRADES: [(f64, Grade); 3] = [(0.01, Grade::A), (0.05, Grade::B), (0.15, Grade::C)];
/// Tolerances of the checks, as shares.
const CPU: f64 = 0.02;
const RUN_QUEUE: f64 = 0.02;
const BLOCK_IO: f64 = 0.05;
const LIFETIMES: f64 = 0.005;
/// Differences below this (seconds) do not matter.
const NEGLIGIBLE: f64 = 0.001;
/// Nor do those below this share of the time of all threads: a tenth of what the best grade allows to be unaccounted.
const NEGLIGIBLE_SHARE: f64 = 0.001;

/// The grade, with the checks behind it.
pub(super) fn quality(account: &Account<'_>, ledger: &Ledger) -> Quality {
    let residual_share = share(account.unaccounted + account.over_accounted, account.total);
    let [cpu, run_queue] = on_a_cpu_and_waiting_for_one(account, ledger);
    let checks = vec![cpu, run_queue, lifetimes(account), block_io(account, ledger), signs(account)];
    let mut grade = if account.total > 0.0 {
        GRADES.into_iter().find(|(most, _)| residual_share <= *most).map_or(Grade::D, |(_, grade)| grade)
    } else {
        Grade::D
    };
    let failed: Vec<String> = checks
        .iter()
        .filter(|check| check.agrees == Some(false))
        .map(|check| format!("{} ({})", check.id, check.words))
        .collect();
    for _ in &failed {
        grade = lower(grade);
    }
    let made = checks.iter().filter(|check| check.agrees.is_some()).count();
    let beyond = account.not_followed().map(beyond::size);
    let words = format!(
        "unaccounted {}{}, double-counted {}; {}",
        percent(share(account.unaccounted, account.total)),
        beyond.map_or(String::new(), |size| format!(" (of which {size} were not followed)")),
        percent(share(account.over_accounted, account.total)),
        if failed.is_empty() {
            format!("{made} of {} checks made, all agree", checks.len())
        } else {
            format!("{} of {made} checks disagree: {}", failed.len(), failed.join("; "))
        }
    );
    Quality { grade, residual_share, checks, words }
}

fn lower(grade: Grade) -> Grade {
    match grade {
        Grade::A => Grade::B,
        Grade::B => Grade::C,
        Grade::C | Grade::D => Grade::D,
    }
}

fn check(id: &str, agrees: bool, words: String) -> Check {
    Check { id: id.into(), agrees: Some(agrees), words, otherwise_seconds: None }
}

fn not_made(id: &str, why: &str) -> Check {
    Check { id: id.into(), agrees: None, words: why.into(), otherwise_seconds: None }
}

/// CPU time here and as the scheduler counts it, or /proc, which counts in ticks, with what the other is.
fn cpu(account: &Account<'_>, ledger: &Ledger) -> Option<(Compared, &'static str)> {
    let inputs = &ledger.checks;
    let (other, source) = match (inputs.run_seconds, inputs.proc_cpu_seconds) {
        (Some(run), _) => (clean(run), "by the scheduler's count"),
        (None, Some(ticks)) => (clean(ticks), "in /proc (ticks)"),
        (None, None) => return None,
    };
    // What others had of the CPU is in neither count.
    let own = account.sum_of(|component| matches!(component, Component::CpuUser | Component::CpuSys));
    // The scheduler brings its count of a running thread up to date at ticks, too.
    let tick = clean(inputs.tick_seconds.unwrap_or(0.01));
    let tolerance = tick * account.threads.len() as f64 + CPU * own.max(other);
    Some((Compared { own, other, tolerance }, source))
}

/// Waiting for a CPU here and in schedstat: both end when the thread gets one.
fn run_queue(account: &Account<'_>, ledger: &Ledger) -> Option<Compared> {
    let other = clean(ledger.checks.run_delay_seconds?);
    let own = account.sum_of(Component::runnable);
    Some(Compared { own, other, tolerance: RUN_QUEUE * own.max(other) + negligible(account) })
}

/// Both, since what one count has too much may be what the other lacks.
fn on_a_cpu_and_waiting_for_one(account: &Account<'_>, ledger: &Ledger) -> [Check; 2] {
    let wake_ups = WakeUps::of(account, ledger);
    let (cpu, waiting) = (cpu(account, ledger), run_queue(account, ledger));
    let first = match &cpu {
        None => not_made("cpu", "/proc gave no CPU time of these threads to compare with"),
        Some((cpu, source)) => {
            let words = format!("CPU time: {} here, {} {source}", seconds(cpu.own), seconds(cpu.other));
            let why = wake_ups.as_ref().filter(|_| !cpu.agree()).and_then(|all| all.on_cpu(cpu, waiting.as_ref()?));
            let (otherwise_seconds, why) = why.unzip();
            Check { otherwise_seconds, ..compared("cpu", cpu, words, why) }
        }
    };
    let second = match &waiting {
        None => not_made("run_queue", "schedstat gave no run-queue delay of these threads to compare with"),
        Some(waiting) => {
            let words =
                format!("run-queue wait: {} here, {} in schedstat", seconds(waiting.own), seconds(waiting.other));
            let cpu = cpu.as_ref().map(|(cpu, _)| cpu);
            let why = wake_ups.as_ref().filter(|_| !waiting.agree()).and_then(|all| all.waiting(cpu, waiting));
            compared("run_queue", waiting, words, why)
        }
    };
    [first, second]
}

/// Whether they agree, which they also do where it is known why they do not.
fn compared(id: &str, counts: &Compared, mut words: String, why: Option<String>) -> Check {
    let agrees = counts.agree() || why.is_some();
    if let Some(why) = why {
        words.push_str(&format!(", {why}"));
    }
    check(id, agrees, words)
}

/// Differences below this (seconds) do not matter to the account as a whole.
fn negligible(account: &Account<'_>) -> f64 {
    NEGLIGIBLE.max(NEGLIGIBLE_SHARE * account.total)
}

/// The lives of the threads, and the time they are said to have been observed.
fn lifetimes(account: &Account<'_>) -> Check {
    let single = || account.threads.iter().filter(|thread| thread.thread.stands_for == 1 && thread.thread.tid != 0);
    if single().next().is_none() {
        return not_made("lifetimes", "no thread was observed by itself");
    }
    let lives: f64 = single().map(|thread| clean(thread.thread.ended - thread.thread.began)).sum();
    let observed: f64 = single().map(|thread| thread.seconds).sum();
    let beyond = single().any(|thread| thread.seconds > account.elapsed * (1.0 + LIFETIMES) + NEGLIGIBLE);
    let agrees = !beyond && (lives - observed).abs() <= LIFETIMES * lives.max(observed) + NEGLIGIBLE;
    let words =
        format!("lifetimes of the threads: {} by start and exit, {} observed", seconds(lives), seconds(observed));
    check("lifetimes", agrees, if beyond { format!("{words}; one is longer than the window") } else { words })
}

/// Waits for block devices, and what the kernel's delay accounting and the devices say.
fn block_io(account: &Account<'_>, ledger: &Ledger) -> Check {
    let inputs = &ledger.checks;
    if let (Some(own), Some(other)) = (inputs.iowait_seconds, inputs.blkio_delay_seconds) {
        let agrees = (own - other).abs() <= BLOCK_IO * clean(own).max(clean(other)) + negligible(account);
        let words =
            format!("waiting for block devices: {} here, {} by delay accounting", seconds(own), seconds(clean(other)));
        return check("block_io", agrees, words);
    }
    let Some(devices) = inputs.device_seconds else {
        return not_made("block_io", "delay accounting is off, and no device's times were read");
    };
    let is_disk = |component: Component| {
        matches!(
            component,
            Component::IoBlock | Component::IoBlockRead | Component::IoBlockWrite | Component::IoBlockAsync
        )
    };
    // Waits for a journal or a page end with other requests than the thread's own; those are left out here.
    let own = account.sum_of(is_disk);
    let agrees = own <= clean(devices) * (1.0 + BLOCK_IO) * account.threads.len().max(1) as f64 + NEGLIGIBLE;
    check(
        "block_io",
        agrees,
        format!("waiting for block devices: {}, their requests took {}", seconds(own), seconds(devices)),
    )
}

/// No duration may be negative or absurd.
fn signs(account: &Account<'_>) -> Check {
    let words = if account.absurd == 0 {
        "no component of any thread is negative".to_owned()
    } else {
        format!("{} durations are negative or absurd and were counted as 0", account.absurd)
    };
    check("signs", account.absurd == 0, words)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ledger, part, thread, waits};
    use super::super::tests::{plain, syncing};
    use super::*;
    use rdiag_model::Component as C;
    use rdiag_model::ledger::{CheckInputs, Level};

    #[test]
    fn the_grade_follows_the_residual_and_drops_for_each_check_that_disagrees() {
        let with =
            |missing: f64| plain(&ledger(10.0, vec![thread(1, 1, 10.0, vec![part(C::CpuUser, 10.0 - missing)])]));
        let grades = [0.05, 0.4, 1.4, 2.0].map(|missing| with(missing).quality.grade);
        assert_eq!(grades, [Grade::A, Grade::B, Grade::C, Grade::D]);
        let mut checked = syncing();
        checked.checks = CheckInputs {
            proc_cpu_seconds: Some(3.01),
            tick_seconds: Some(0.01),
            run_delay_seconds: Some(1.001),
            ..CheckInputs::default()
        };
        assert_eq!(plain(&checked).quality.grade, Grade::A);
        checked.checks.run_delay_seconds = Some(3.0);
        let quality = plain(&checked).quality;
        assert_eq!(quality.grade, Grade::B);
        assert!(quality.words.contains("run_queue"), "{}", quality.words);
        checked.checks.proc_cpu_seconds = Some(0.5);
        (checked.checks.iowait_seconds, checked.checks.blkio_delay_seconds) = (Some(6.0), Some(1.0));
        assert_eq!(plain(&checked).quality.grade, Grade::D);
    }

    #[test]
    fn cpu_time_is_compared_with_the_schedulers_count_rather_than_with_ticks() {
        let mut checked = syncing();
        checked.checks = CheckInputs {
            proc_cpu_seconds: Some(0.5),
            run_seconds: Some(3.01),
            tick_seconds: Some(0.01),
            ..CheckInputs::default()
        };
        assert_eq!(plain(&checked).quality.grade, Grade::A);
        checked.checks.run_seconds = Some(0.5);
        let quality = plain(&checked).quality;
        assert!(quality.words.contains("by the scheduler's count"), "{}", quality.words);
    }

    #[test]
    fn a_check_that_cannot_be_made_is_not_passed() {
        let quality = plain(&syncing()).quality;
        let made: Vec<_> = quality.checks.iter().map(|check| (check.id.as_str(), check.agrees)).collect();
        assert_eq!(
            made,
            [("cpu", None), ("run_queue", None), ("lifetimes", Some(true)), ("block_io", None), ("signs", Some(true))]
        );
    }

    #[test]
    fn a_life_longer_than_the_window_is_a_disagreement() {
        let quality = plain(&ledger(10.0, vec![thread(1, 1, 12.0, vec![part(C::CpuUser, 12.0)])])).quality;
        assert_eq!((quality.grade, quality.checks[2].agrees), (Grade::B, Some(false)));
    }

    /// A thread that was woken `times` times, by the ledger and by the scheduler: seconds on a CPU and waiting for one.
    fn woken(level: Level, times: u64, own: (f64, f64), scheduler: (f64, f64)) -> Quality {
        let parts = vec![
            part(C::CpuSys, own.0),
            waits(C::RunqWakeup, "", &[(times, own.1 / times as f64)]),
            part(C::IoBlockSync, 2.0 - own.0 - own.1),
        ];
        let mut ledger = ledger(2.0, vec![thread(1, 1, 2.0, parts)]);
        ledger.level = level;
        ledger.checks = CheckInputs {
            run_seconds: Some(scheduler.0),
            run_delay_seconds: Some(scheduler.1),
            tick_seconds: Some(0.01),
            ..CheckInputs::default()
        };
        plain(&ledger).quality
    }

    /// Whether CPU time and waiting for a CPU agree.
    fn agree(quality: &Quality) -> [Option<bool>; 2] {
        [quality.checks[0].agrees, quality.checks[1].agrees]
    }

    #[test]
    fn the_way_out_of_idleness_is_cpu_time_there_and_waiting_here_and_both_are_right() {
        // As measured of a program that waits for a disk.
        let quality = woken(Level::L3, 42_489, (0.600, 0.238), (0.784, 0.0167));
        assert_eq!((agree(&quality), quality.grade), ([Some(true); 2], Grade::A), "{}", quality.words);
        let [cpu, waiting] = [&quality.checks[0], &quality.checks[1]];
        assert!(cpu.otherwise_seconds.is_some_and(|moved| (moved - 0.184).abs() < 1e-9), "{cpu:?}");
        assert!(cpu.words.contains("4.33 µs more at each of 42489 wake-ups"), "{}", cpu.words);
        assert!(waiting.words.contains("5.21 µs more at each of 42489 wake-ups"), "{}", waiting.words);
        assert_eq!(waiting.otherwise_seconds, None);
    }

    #[test]
    fn cpu_time_that_the_ledger_has_neither_as_waiting_is_missing() {
        let quality = woken(Level::L3, 38_110, (0.585, 0.100), (0.790, 0.022));
        assert_eq!(agree(&quality)[0], Some(false), "{}", quality.words);
        assert!(!quality.words.contains("clock stands still") && quality.grade > Grade::A, "{}", quality.words);
    }

    #[test]
    fn no_more_is_said_to_be_cpu_time_elsewhere_than_the_ledger_has_as_waiting() {
        let quality = woken(Level::L3, 40_000, (0.585, 0.206), (0.800, 0.001));
        let moved = quality.checks[0].otherwise_seconds;
        assert!(
            moved.is_some_and(|moved| (moved - 0.205).abs() < 1e-9),
            "{moved:?} of 0.215 s, the rest is within a tick"
        );
    }

    #[test]
    fn a_few_wake_ups_explain_little() {
        let quality = woken(Level::L3, 4_000, (0.585, 0.230), (0.790, 0.022));
        assert_eq!(agree(&quality)[0], Some(false), "51 µs each");
        let quality = woken(Level::L3, 4_200, (0.585, 0.230), (0.790, 0.022));
        assert_eq!(agree(&quality)[0], Some(true), "49 µs each");
        let in_neither = |each: f64| agree(&woken(Level::L3, 10_000, (0.5, 0.001 + 1e4 * each), (0.5, 0.001)));
        assert_eq!(in_neither(9e-6), [Some(true), Some(true)]);
        assert_eq!(in_neither(11e-6), [Some(true), Some(false)]);
    }

    #[test]
    fn what_the_scheduler_has_less_is_not_explained_nor_what_samples_say() {
        let quality = woken(Level::L3, 38_110, (0.790, 0.022), (0.585, 0.308));
        assert_eq!(agree(&quality), [Some(false); 2]);
        let quality = woken(Level::L2, 38_110, (0.585, 0.308), (0.790, 0.022));
        assert_eq!(agree(&quality), [Some(false); 2]);
        assert_eq!(quality.checks[0].otherwise_seconds, None);
    }

    #[test]
    fn a_thousandth_of_the_time_of_all_threads_does_not_matter() {
        let of = |delay: f64| woken(Level::L2, 10, (0.1, 0.0002), (0.1, delay)).grade;
        assert_eq!((of(0.0021), of(0.0023)), (Grade::A, Grade::B));
    }
}
