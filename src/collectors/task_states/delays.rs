//! Waits for disks as the kernel counts them, where it does: level L2.

use super::estimate::is_disk;
use super::sampler::Task;
use crate::host::Host;
use crate::mechanism::taskstats::{Delays, Listener, Taskstats};
use crate::model::{Reason, Unavailable};

/// What the kernel counts, or why it is not known.
pub(super) struct Kernel {
    connection: Result<Taskstats, Unavailable>,
    /// Tells of threads that end.
    listener: Option<Listener>,
}

impl Kernel {
    /// Asks whether delays are counted and may be seen. Nothing is switched on: that would be for all of the host.
    pub(super) fn ask(host: &Host) -> Self {
        let connection = connect(host);
        let listener = connection.is_ok().then(|| {
            let cpus = host.read_line("sys/devices/system/cpu/possible").ok()?;
            Taskstats::open().and_then(|connection| connection.listen(&cpus)).ok()
        });
        Self { connection, listener: listener.flatten() }
    }

    /// Why waits for disks are not counted, if they are not.
    pub(super) fn gap(&self) -> Option<&Unavailable> {
        self.connection.as_ref().err()
    }

    /// What was counted for a thread so far.
    pub(super) fn now(&mut self, tid: u32) -> Option<Delays> {
        self.connection.as_mut().ok()?.of_thread(tid).ok().flatten()
    }

    /// What was counted for a thread that was born just now, if anything will be.
    pub(super) fn at_birth(&self) -> Option<Delays> {
        self.connection.is_ok().then(Delays::default)
    }

    /// Threads that have ended since the last time.
    pub(super) fn ended(&mut self) -> Vec<(u32, Delays)> {
        self.listener.as_mut().map(Listener::take).unwrap_or_default()
    }

    /// How often the kernel dropped records of threads that ended.
    pub(super) fn lost(&self) -> u64 {
        self.listener.as_ref().map_or(0, Listener::lost)
    }
}

fn connect(host: &Host) -> Result<Taskstats, Unavailable> {
    if host.is_recorded() || host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "taskstats tells of the tasks of this machine only"));
    }
    let switch = host.read_line("proc/sys/kernel/task_delayacct");
    // Before Linux 5.14 there is no such file, and delays are counted unless that was forbidden at boot.
    let off = match &switch {
        Ok(value) => value != "1",
        Err(_) => host.read("proc/cmdline").unwrap_or_default().split_whitespace().any(|word| word == "nodelayacct"),
    };
    if off {
        let gap = Unavailable::new(Reason::Disabled, "the kernel does not count how long tasks wait for disks");
        return Err(gap.with_remedy(
            "as root: sysctl kernel.task_delayacct=1, for all of the host; then start the program anew, since only tasks \
             that are born afterwards are counted",
        ));
    }
    let mut connection = Taskstats::open()?;
    // The right to ask shows when one asks.
    connection.of_thread(host.facts().pid)?;
    Ok(connection)
}

/// Seconds that the kernel counted as waits for a disk while the thread was observed. None if it was not asked, or counted
/// nothing although the thread was seen to wait for one: then the thread was there before counting was switched on.
pub(super) fn disk_seconds(task: &Task) -> Option<f64> {
    let (Some(first), Some(last)) = task.delays else { return None };
    let seen = task.waits.keys().any(|component| is_disk(*component));
    if last.disk_count == 0 && seen {
        return None;
    }
    Some(last.disk_delay.saturating_sub(first.disk_delay) as f64 * 1e-9)
}
