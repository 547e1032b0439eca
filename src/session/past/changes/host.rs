//! The host as a whole from one block to the next: booted, with another kernel, suspended, its clock set.

use super::{Before, OF_HOST, Seen};
use rdiag_kernel::host::Zone;
use rdiag_model::quantity;
use rdiag_model::report::ChangeKind;

/// Clocks that moved apart by less were kept in step, and not set: seconds, and as much of the time between as NTP may slew.
const STEP: f64 = 1.0;
const SLEW: f64 = 0.0005;
/// A memory that differs by less than one of so many parts is the same.
const SAME_MEMORY: u64 = 50;

/// What became of the host between two blocks.
pub(super) fn between(before: &Before, now: &Before, zone: &Zone) -> Vec<Seen> {
    let mut seen = Vec::new();
    if before.header.boot == now.header.boot {
        clocks(before, now, &mut seen);
    } else {
        let last = zone.time_of_day(before.part.to);
        let at = booted_at(now).unwrap_or(now.part.from);
        seen.push(of_host(at, ChangeKind::Reboot, format!("Reboot; the last sample before it is of {last}")));
    }
    facts(before, now, &mut seen);
    seen
}

/// The boot before the first block, if that was not long ago.
pub(super) fn booted(first: &Before) -> Option<Seen> {
    booted_at(first).map(|at| of_host(at, ChangeKind::Reboot, "Reboot".to_owned()))
}

fn of_host(at: i64, kind: ChangeKind, text: String) -> Seen {
    Seen { at, kind, subject: String::new(), text, weight: OF_HOST }
}

/// When the host was booted, by the wall clock of the block; none where it does not say.
fn booted_at(block: &Before) -> Option<i64> {
    let header = &block.header;
    (header.boottime > 0.0).then(|| header.wall_micros.saturating_sub((header.boottime * 1e6) as i64))
}

fn clocks(before: &Before, now: &Before, seen: &mut Vec<Seen>) {
    let (a, b) = (&before.header, &now.header);
    let slept = (b.boottime - b.monotonic) - (a.boottime - a.monotonic);
    let passed = b.boottime - a.boottime;
    if slept > STEP {
        let text = format!("Suspended for {}", quantity::seconds(slept));
        seen.push(of_host(now.part.from, ChangeKind::Suspend, text));
    }
    let step = b.wall_micros.saturating_sub(a.wall_micros) as f64 * 1e-6 - passed;
    if step.abs() > STEP + SLEW * passed.max(0.0) {
        let way = if step > 0.0 { "forward" } else { "back" };
        let text = format!("Clock set {way} by {}", quantity::seconds(step.abs()));
        seen.push(of_host(now.part.from, ChangeKind::Clock, text));
    }
}

fn facts(before: &Before, now: &Before, seen: &mut Vec<Seen>) {
    let (a, b) = (&before.header.host, &now.header.host);
    // What the kernel keeps for itself differs a little from boot to boot.
    let is_same = a.memory_bytes.abs_diff(b.memory_bytes) <= a.memory_bytes / SAME_MEMORY;
    let bytes = |bytes: u64| if is_same { String::new() } else { quantity::bytes(bytes as f64) };
    let pairs = [
        ("Kernel", a.kernel.clone(), b.kernel.clone()),
        ("Distribution", a.os.clone(), b.os.clone()),
        ("Host name", a.hostname.clone(), b.hostname.clone()),
        ("CPUs online", a.cpus.to_string(), b.cpus.to_string()),
        ("Memory", bytes(a.memory_bytes), bytes(b.memory_bytes)),
    ];
    for (what, from, to) in pairs.into_iter().filter(|(_, from, to)| from != to) {
        let text = format!("{what} {} → {}", super::short(&from), super::short(&to));
        seen.push(Seen { subject: what.to_owned(), ..of_host(now.part.from, ChangeKind::Host, text) });
    }
}
