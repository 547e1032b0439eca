//! What it takes to pass a place in a program at which the kernel stops, whatever is done there: the statistics of programs in the kernel
//! do not have it, and it depends on the processor and its hypervisor (under a microsecond, or ten).

use crate::host::{Host, thread_usage};
use crate::mechanism::perf::dynamic::{Spot, open};

/// Passes that are timed in one piece, and the pieces: the least of them is undisturbed.
const PASSES: u32 = 16;
const PIECES: u32 = 5;
/// Where it cannot be tried.
const OTHERWISE: f64 = 2e-6;

/// CPU seconds of one pass, and whether that was tried on this host, on a function of rdiag's own.
#[must_use]
pub fn seconds(host: &Host) -> (f64, bool) {
    if host.is_recorded() || host.is_seen_from_outside() {
        return (OTHERWISE, false);
    }
    let tried = offset(host).and_then(|offset| {
        let spot = Spot::User { path: "/proc/self/exe", offset, semaphore: None };
        let _stops = open(host, spot, Some(std::process::id())).ok()?;
        (0..PIECES).map(|_| timed()).min_by(f64::total_cmp)
    });
    tried.filter(|seconds| *seconds > 0.0).map_or((OTHERWISE, false), |seconds| (seconds, true))
}

fn timed() -> f64 {
    let before = thread_usage();
    (0..PASSES).for_each(|pass| {
        passed(pass);
    });
    (thread_usage() - before) / f64::from(PASSES)
}

/// The place. The first instruction is one that the kernel has the processor step over, as it has most: some it does itself, in a tenth of
/// the time.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn passed(pass: u32) -> u32 {
    std::arch::naked_asm!("mov eax, edi", "ret")
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
extern "C" fn passed(pass: u32) -> u32 {
    std::hint::black_box(pass)
}

/// Where that is in rdiag's own file.
fn offset(host: &Host) -> Option<u64> {
    let address = passed as *const () as u64;
    let maps = host.read("proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (from, until) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, until) = (hex(from)?, hex(until)?);
        let offset = hex(words.nth(1)?)?;
        (from..until).contains(&address).then(|| address - from + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_is_passed_lies_in_the_file_of_this_program() {
        let host = Host::live(std::path::Path::new("/"));
        let offset = offset(&host).unwrap();
        assert!(offset > 0 && offset < std::fs::metadata("/proc/self/exe").unwrap().len());
        assert_eq!(passed(7), 7);
    }

    #[test]
    fn what_a_pass_takes_is_no_more_than_a_call_of_the_kernel_takes_in_the_worst_case() {
        let (seconds, _) = seconds(&Host::live(std::path::Path::new("/")));
        assert!(seconds > 0.0 && seconds < 1e-3, "{seconds}");
    }
}
