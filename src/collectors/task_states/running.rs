//! When sweeps are made: at jittered instants, on a thread of their own, and no more of them than their share of a CPU pays for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::sampler::Sampler;
use rdiag_kernel::host::{Clock, thread_usage};

/// Distance of two sweeps in seconds.
const INTERVAL: f64 = 0.02;
/// Share of one CPU that the sweeps may take: with more threads they are further apart.
const SHARE: f64 = 0.012;
/// No further apart than this.
const MAX_INTERVAL: f64 = 1.0;

/// A sampler at work.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sampler>,
}

impl Running {
    /// Goes on with sweeps until it is stopped.
    pub(super) fn start(mut sampler: Sampler) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let clock = Clock::live();
            let mut random = clock.now(0).to_bits() | 1;
            let mut interval = INTERVAL;
            loop {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // A quarter more or less, so that a program of regular habits is not always met at the same moment.
                let jitter = 0.75 + (random >> 11) as f64 / (1_u64 << 53) as f64 * 0.5;
                if !clock.wait_until(clock.now(0) + interval * jitter, &stopped) {
                    return sampler;
                }
                let before = thread_usage();
                let _ = sampler.sweep(&|| clock.now(0));
                let cost = thread_usage() - before;
                sampler.cost += cost;
                // One slow sweep says little.
                let wanted = (cost / SHARE).clamp(INTERVAL, MAX_INTERVAL);
                interval = (0.9 * interval + 0.1 * wanted).max(INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("rdiag-states".into()).stack_size(256 * 1024).spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Stops it, and gives what it has seen; none if it has failed.
    pub(super) fn stop(self) -> Option<Sampler> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok()
    }
}
