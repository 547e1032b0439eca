//! What programs cost, as the kernel itself counts it.

use std::os::fd::OwnedFd;

use aya::sys::{Stats, enable_stats};

use super::Object;

/// Switches the kernel's run-time statistics on for as long as it lives (Linux 5.8, CAP_SYS_ADMIN). They cost two clock
/// reads, some 40 ns, for each run of any program on the host, so they are kept on for a part of the window only.
#[derive(Debug)]
pub struct CostMeter {
    statistics: Option<OwnedFd>,
}

impl CostMeter {
    /// Begins to count; without the right, or on an older kernel, nothing is counted.
    #[must_use]
    pub fn start() -> Self {
        Self { statistics: enable_stats(Stats::RunTime).ok() }
    }

    /// Whether the kernel counts.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.statistics.is_some()
    }
}

impl Object {
    /// Runs of all its programs that the statistics saw, and their CPU seconds.
    #[must_use]
    pub fn run_time(&self) -> (u64, f64) {
        let infos = self.ebpf.programs().filter_map(|(_, program)| program.info().ok());
        infos.fold((0, 0.0), |(runs, seconds), info| (runs + info.run_count(), seconds + info.run_time().as_secs_f64()))
    }
}
