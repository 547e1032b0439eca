//! How far an account can be trusted: what is left over, and what other accounts of the same time say.

use rdiag_model::Component;
use rdiag_model::ledger::{Ledger, Level};
use rdiag_model::profile::{Check, Grade, Quality};
use rdiag_model::quantity::{percent, seconds};

use super::account::{Account, clean, share};
use super::beyond;

/// Residual share up to which each grade is given.
const GRADES: [(f64, Grade); 3] = [(0.01, Grade::A), (0.05, Grade::B), (0.15, Grade::C)];
/// Tolerances of the checks, as shares.
const CPU: f64 = 0.02;
const RUN_QUEUE: f64 = 0.02;
const BLOCK_IO: f64 = 0.05;
const LIFETIMES: f64 = 0.005;
/// Differences below this (seconds) do not matter.
const NEGLIGIBLE: f64 = 0.001;

/// The grade, with the checks behind it.
pub(super) fn quality(account: &Account<'_>, ledger: &Ledger) -> Quality {
    let residual_share = share(account.unaccounted + account.over_accounted, account.total);
    let checks = vec![
        cpu(account, ledger),
        run_queue(account, ledger),
        lifetimes(account),
        block_io(account, ledger),
        signs(account),
    ];
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
    Check { id: id.into(), agrees: Some(agrees), words }
}

fn not_made(id: &str, why: &str) -> Check {
    Check { id: id.into(), agrees: None, words: why.into() }
}

/// CPU time here and as the scheduler counts it, or /proc, which counts in ticks.
fn cpu(account: &Account<'_>, ledger: &Ledger) -> Check {
    let inputs = &ledger.checks;
    let (other, source) = match (inputs.run_seconds, inputs.proc_cpu_seconds) {
        (Some(run), _) => (run, "by the scheduler's count"),
        (None, Some(ticks)) => (ticks, "in /proc (ticks)"),
        (None, None) => return not_made("cpu", "/proc gave no CPU time of these threads to compare with"),
    };
    // What others had of the CPU is in neither count.
    let own = account.sum_of(|component| matches!(component, Component::CpuUser | Component::CpuSys));
    // The scheduler brings its count of a running thread up to date at ticks, too.
    let tick = clean(inputs.tick_seconds.unwrap_or(0.01));
    let tolerance = tick * account.threads.len() as f64 + CPU * own.max(clean(other));
    let agrees = (own - other).abs() <= tolerance;
    let mut words = format!("CPU time: {} here, {} {source}", seconds(own), seconds(clean(other)));
    if let Some((each, wakeups)) = by_wakeup(account, ledger, clean(other) - own).filter(|_| !agrees) {
        words.push_str(&format!(
            ", {} more for each of {wakeups} wake-ups: there the run begins when the woken CPU takes up the wake-up, here when \
             the thread has the CPU",
            seconds(each)
        ));
    }
    check("cpu", agrees, words)
}

/// Waiting for a CPU here and in schedstat: both end when the thread gets one.
fn run_queue(account: &Account<'_>, ledger: &Ledger) -> Check {
    let Some(other) = ledger.checks.run_delay_seconds else {
        return not_made("run_queue", "schedstat gave no run-queue delay of these threads to compare with");
    };
    let own = account.sum_of(Component::runnable);
    let agrees = (own - other).abs() <= RUN_QUEUE * own.max(clean(other)) + NEGLIGIBLE;
    let mut words = format!("run-queue wait: {} here, {} in schedstat", seconds(own), seconds(clean(other)));
    if let Some((each, wakeups)) = by_wakeup(account, ledger, own - clean(other)).filter(|_| !agrees) {
        words.push_str(&format!(
            ", {} more for each of {wakeups} wake-ups: here the wait begins with the wake-up, in the kernel's count when the \
             woken CPU has taken it up, which on a virtual machine can be some 10 µs later",
            seconds(each)
        ));
    }
    check("run_queue", agrees, words)
}

/// A difference per wake-up beyond which another reason must be looked for.
const WAKE_UP: f64 = 100e-6;

/// A difference of two counts by wake-up, where every change of state was seen and the difference is as small for each as
/// another idea of when a wake-up ends makes it; and the number of wake-ups.
fn by_wakeup(account: &Account<'_>, ledger: &Ledger, more: f64) -> Option<(f64, u64)> {
    let parts = account.threads.iter().flat_map(|own| &own.thread.parts);
    let wakeups =
        parts.filter(|part| part.component == Component::RunqWakeup).filter_map(|part| part.durations.as_ref());
    let wakeups = wakeups.fold(0_u64, |sum, durations| sum.saturating_add(durations.count));
    let each = share(more, wakeups as f64);
    (ledger.level == Level::L3 && each > 0.0 && each < WAKE_UP).then_some((each, wakeups))
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
        let agrees = (own - other).abs() <= BLOCK_IO * clean(own).max(clean(other)) + NEGLIGIBLE;
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
    use super::super::tests::{plain, syncing};
    use super::*;

    #[test]
    fn a_disagreement_about_waiting_for_a_cpu_is_explained_where_it_can_be() {
        let words = |level, run_delay: f64| {
            let mut ledger = syncing();
            (ledger.level, ledger.checks.run_delay_seconds) = (level, Some(run_delay));
            plain(&ledger).quality.words
        };
        let told = words(Level::L3, 0.96);
        assert!(
            told.contains("run_queue (run-queue wait: 1.00 s here, 960 ms in schedstat, 40.0 µs more for each of 1000"),
            "{told}"
        );
        assert!(!words(Level::L3, 0.995).contains("wake-ups"), "they agree");
        assert!(!words(Level::L3, 0.2).contains("wake-ups"), "far more than a wake-up can take");
        assert!(!words(Level::L3, 2.0).contains("wake-ups"), "it is less here");
        assert!(!words(Level::L2, 0.96).contains("wake-ups"));
    }
}
