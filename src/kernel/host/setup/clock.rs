//! Whether the wall clock is kept in step.
#![expect(unsafe_code, reason = "adjtimex(2) has no safe wrapper")]

use rdiag_model::setup::WallClock;

use super::Host;

/// What the kernel says of its clock; nothing of a recorded tree, and nothing where a sandbox refuses the question.
pub(super) fn read(host: &Host) -> Option<WallClock> {
    if host.is_recorded() {
        return None;
    }
    // SAFETY: all bits zero are a timex; no mode means that it is only read.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live variable of the type that the call fills.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    if state < 0 {
        return None;
    }
    let unsynchronized = clock.status & libc::STA_UNSYNC != 0;
    Some(WallClock { synchronized: !unsynchronized, max_error_seconds: clock.maxerror as f64 * 1e-6 })
}
