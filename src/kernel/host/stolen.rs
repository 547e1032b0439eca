//! CPU time that a hypervisor took away, and what the kernel's account of a task's run time makes of it.
//!
//! That depends on how the kernel was built. With CONFIG_PARAVIRT_TIME_ACCOUNTING a run queue's clock stands still while the hypervisor has
//! the CPU, so utime, stime and schedstat leave that time out while the clock on the wall goes on: it would look like a wait. The kernel
//! keeps what it left out by run queue (`prev_steal_time_rq`), which the probe `response` reads at each switch; its BTF shows
//! whether it does. Elsewhere /proc/stat knows the sum only, and each task's CPU time is said to have lost as much.

use super::Host;
use rdiag_model::quantity::percent;
use rdiag_proc::{CpuTimes, host_cpu};

/// Less than this share of the demanded CPU time is not worth a row in an account.
const MATTERS: f64 = 0.01;
/// The field of a run queue in which the kernel keeps what it has left out of run times (CONFIG_PARAVIRT_TIME_ACCOUNTING).
const FIELD: &[u8] = b"prev_steal_time_rq\0";

/// Ticks of all CPUs since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// In user mode, in the kernel and in interrupts.
    busy: u64,
    /// Taken away by a hypervisor.
    stolen: u64,
}

/// What a hypervisor took of the CPU time of each task: it is not counted by task, so each lost the same share as all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Stolen {
    /// Nothing that matters, or not known.
    #[default]
    Nothing,
    /// Seconds beside each second of run time, which leaves them out.
    Beside(f64),
    /// Share of the run time, which counts them.
    Within(f64),
}

impl Stolen {
    /// Of run time by the kernel's account, what a task had itself; in seconds.
    pub fn own(self, run: f64) -> f64 {
        match self {
            Self::Within(share) => run * (1.0 - share),
            Self::Beside(_) | Self::Nothing => run,
        }
    }

    /// What a reader must know of it, where it was divided by run time.
    pub fn note(self) -> Option<String> {
        let share = match self {
            Self::Nothing => return None,
            Self::Beside(ratio) => ratio / (1.0 + ratio),
            Self::Within(share) => share,
        };
        Some(format!(
            "the hypervisor had taken away {} of the CPU time that all tasks together wanted: by task that is not counted, and each \
             is said to have lost as much",
            percent(share)
        ))
    }
}

impl CpuTicks {
    /// As of now; none where /proc/stat has no such line.
    pub fn read(host: &Host) -> Option<Self> {
        let text = host.read("proc/stat").ok()?;
        let CpuTimes { user, nice, system, irq, softirq, steal, .. } = host_cpu(&text)?;
        let busy = [user, nice, system, irq, softirq].iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        Some(Self { busy, stolen: steal })
    }

    /// What was stolen since then.
    pub fn stolen_since(self, host: &Host) -> Stolen {
        let Some(now) = Self::read(host) else { return Stolen::Nothing };
        let (busy, stolen) = (now.busy.saturating_sub(self.busy) as f64, now.stolen.saturating_sub(self.stolen) as f64);
        if busy <= 0.0 || stolen <= (busy + stolen) * MATTERS {
            return Stolen::Nothing;
        }
        match run_time_leaves_it_out(host) {
            Some(true) => Stolen::Beside(stolen / busy),
            Some(false) => Stolen::Within(stolen / (busy + stolen)),
            None => Stolen::Nothing,
        }
    }
}

/// Whether run times of tasks are without stolen time; none where the kernel does not describe itself (BTF).
fn run_time_leaves_it_out(host: &Host) -> Option<bool> {
    // What the kernel could do, it may have been told not to.
    if host.read("proc/cmdline").is_ok_and(|line| line.split_whitespace().any(|word| word == "no-steal-acc")) {
        return Some(false);
    }
    let types = host.read_bytes("sys/kernel/btf/vmlinux").ok()?;
    Some(types.windows(FIELD.len()).any(|name| name == FIELD))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree in which this is all.
    #[expect(clippy::disallowed_methods, reason = "a made-up tree, not the host")]
    fn host(folder: &std::path::Path, stat: &str, types: Option<&[u8]>) -> Host {
        std::fs::create_dir_all(folder.join("proc")).unwrap();
        std::fs::create_dir_all(folder.join("sys/kernel/btf")).unwrap();
        std::fs::write(folder.join("proc/stat"), stat).unwrap();
        if let Some(types) = types {
            std::fs::write(folder.join("sys/kernel/btf/vmlinux"), types).unwrap();
        }
        Host::live(folder)
    }

    #[test]
    fn stolen_time_is_beside_or_within_run_time_as_the_kernel_was_built() {
        let before = CpuTicks { busy: 100, stolen: 10 };
        let since = |stat: &str, types: Option<&[u8]>| {
            let folder = tempfile::tempdir().unwrap();
            before.stolen_since(&host(folder.path(), stat, types))
        };
        let stat = "cpu  60 10 30 9999 99 40 60 60 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(since(stat, Some(b"\0clock\0prev_steal_time_rq\0")), Stolen::Beside(0.5));
        assert_eq!(since(stat, Some(b"\0clock\0prev_steal_time\0")), Stolen::Within(1.0 / 3.0));
        assert_eq!(since(stat, None), Stolen::Nothing, "it is not known which");
        assert_eq!(since("cpu  60 10 30 9999 99 40 60 10 0 0\n", Some(b"")), Stolen::Nothing);
        assert_eq!(since("cpu  6000 10 30 9999 99 40 60 11 0 0\n", Some(b"")), Stolen::Nothing, "too little");
        assert_eq!(since("cpu  1 1\n", Some(b"")), Stolen::Nothing, "a line that is not whole");
        assert_eq!(since("cpu  0 0 0 0 0 0 0 0 0 0\n", Some(b"")), Stolen::Nothing, "counters that fell");
    }
}
