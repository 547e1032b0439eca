//! Many processes at once that compute for a moment.

use std::io;

use super::process::{Order, hand, now, sleep};
use super::task::Task;

/// Starts bursts until the time is over.
#[inline(never)]
pub(super) fn serve_in_bursts(order: &Order, processes: u32, busy: f64, every: f64) -> io::Result<()> {
    let request = order.pass_on(Task::Burst { busy });
    while now() < order.until {
        let began = now();
        start_burst(&request, processes)?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

/// They are started first and let go together: it is the crowd that others have to wait behind.
#[inline(never)]
fn start_burst(request: &Order, processes: u32) -> io::Result<()> {
    let started: io::Result<Vec<_>> = (0..processes).map(|_| request.start_one()).collect();
    let mut started = started?;
    let handed: io::Result<()> = started.iter_mut().try_for_each(|child| hand(child, request));
    for child in &mut started {
        // Without an order it reads the end of its input, and ends too.
        drop(child.stdin.take());
        child.wait()?;
    }
    handed
}

/// Computes until a time, in user mode.
#[inline(never)]
pub(super) fn compute_one_request(until: f64) {
    let mut state = 1_u64;
    while now() < until {
        for _ in 0..2000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}
