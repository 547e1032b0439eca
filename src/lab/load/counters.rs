//! Two threads that each add to counters of their own: side by side in memory, or strewn over more than a cache holds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::kinds::Layout;
use super::process::{Order, STACK_BYTES, Tally, now, sleep};
use rdiag_own as own;

/// Additions between two looks at the clock.
const CHECKED_EVERY: u64 = 10_000;
/// Counters of one thread, where they are strewn: 24 MiB.
const STREWN: usize = 3 << 20;
/// From the counter of one thread to that of the other, where they are apart, in counters: more than any line of a cache, and
/// than two that are fetched together.
const APART: usize = 64;
/// Additions of a trial.
const TRIED: u64 = 300_000;
/// A host is tried so often: a thread that did not get its CPU meets no other thread there.
const TRIALS: usize = 6;

/// Adds so many times in each of two threads, again and again, and counts the rounds.
pub(super) fn add_in_two_threads(order: &Order, layout: Layout, additions: u64, every: f64) -> io::Result<()> {
    let counters = Arc::new(counters(layout));
    let (until, second) = (order.until, counters.clone());
    let [own_cpu, other_cpu] = two_cpus();
    let start = std::thread::Builder::new().name(order.name()).stack_size(STACK_BYTES);
    let other = start.spawn(move || -> io::Result<()> {
        own::use_only(other_cpu)?;
        in_rounds(until, every, || add(&second, layout, 1, additions, until));
        Ok(())
    })?;
    own::use_only(own_cpu)?;
    let mut tally = Tally::new(order)?;
    let mut counted = Ok(());
    in_rounds(until, every, || {
        add(&counters, layout, 0, additions, until);
        if counted.is_ok() {
            counted = tally.add(1);
        }
    });
    let _ = other.join();
    counted
}

/// How many times as long two threads take to add side by side as apart, the most of some trials; 1 where there is only one CPU.
#[must_use]
pub fn cost_of_neighbours() -> f64 {
    if two_cpus()[0] == two_cpus()[1] {
        return 1.0;
    }
    let trial = |layout| {
        let all = counters(layout);
        let began = now();
        std::thread::scope(|scope| {
            for (which, cpu) in two_cpus().into_iter().enumerate() {
                let all = &all;
                scope.spawn(move || own::use_only(cpu).map(|()| add(all, layout, which, TRIED, f64::MAX)));
            }
        });
        now() - began
    };
    (0..TRIALS).map(|_| trial(Layout::Close) / trial(Layout::Apart).max(1e-9)).fold(1.0, f64::max)
}

/// The first and the last that may be used: neighbours in number may be one core.
fn two_cpus() -> [usize; 2] {
    let cpus = own::usable_cpus();
    [cpus.first(), cpus.last()].map(|cpu| cpu.copied().unwrap_or(0))
}

fn counters(layout: Layout) -> Vec<AtomicU64> {
    let count = match layout {
        Layout::Close => 2,
        Layout::Apart => 2 * APART,
        Layout::Strewn => 2 * STREWN,
    };
    // Written to here, so that no addition meets a page for the first time.
    (0..count).map(|_| AtomicU64::new(1)).collect()
}

/// Both threads begin a round at the same time: the clock is the same for both.
fn in_rounds(until: f64, every: f64, mut round: impl FnMut()) {
    while now() < until {
        sleep(every - now() % every, until);
        round();
    }
}

/// Adds in one of two threads, 0 or 1.
#[inline(never)]
fn add(counters: &[AtomicU64], layout: Layout, which: usize, additions: u64, until: f64) {
    let mut state = which as u64 + 1;
    let mut at = match layout {
        // What the allocator gives begins at a multiple of 16 bytes, so these two are in one line.
        Layout::Close => which,
        Layout::Apart => which * APART,
        Layout::Strewn => which * STREWN,
    };
    for number in 0..additions {
        if let Some(counter) = counters.get(at) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if layout == Layout::Strewn {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            at = which * STREWN + (state >> 33) as usize % STREWN;
        }
        if number % CHECKED_EVERY == 0 && now() >= until {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_adds_to_its_own_counters_as_often_as_it_was_told() {
        for layout in [Layout::Close, Layout::Apart, Layout::Strewn] {
            let all = counters(layout);
            add(&all, layout, 0, 25_000, f64::MAX);
            let touched = |all: &[AtomicU64]| -> Vec<usize> {
                (0..all.len()).filter(|at| all[*at].load(Ordering::Relaxed) > 1).collect()
            };
            let first = touched(&all);
            assert_eq!(all.iter().map(|one| one.load(Ordering::Relaxed) - 1).sum::<u64>(), 25_000);
            all.iter().for_each(|one| one.store(1, Ordering::Relaxed));
            add(&all, layout, 1, 25_000, f64::MAX);
            let second = touched(&all);
            assert!(first.last() < second.first(), "{layout:?}: {first:?} {second:?}");
            assert_eq!(first.len() > 10_000, layout == Layout::Strewn);
        }
    }
}
