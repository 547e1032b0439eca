//! The kernel's own watch over pressure: a trigger that is written to a file of /proc/pressure counts stalls over a sliding window, and
//! poll(2) tells that they exceeded a threshold.
//!
//! Until Linux 6.5 this took CAP_SYS_RESOURCE when the file was opened; since then any user may, if the window is a multiple of two
//! seconds. A trigger may also report stalls from before it was set: its caller looks at the totals, too.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::Host;

/// A trigger. It is gone when this is dropped.
#[derive(Debug)]
pub struct Alarm(File);

impl Host {
    /// Sets a trigger: `name` is a file of /proc/pressure, `line` is `some` or `full`, `share` the threshold as a share (0 to 1) of the
    /// window of so many seconds.
    ///
    /// # Errors
    /// When the kernel refuses it, and on a tree that stands in for the machine.
    pub fn pressure_alarm(&self, name: &str, line: &str, share: f64, seconds: f64) -> io::Result<Alarm> {
        use std::os::unix::fs::OpenOptionsExt as _;
        if self.is_tree() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let path = Path::new("/proc/pressure").join(name);
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
        let mut file = options.open(path)?;
        let window = (seconds * 1e6).round();
        file.write_all(format!("{line} {:.0} {window:.0}\0", (share * window).round()).as_bytes())?;
        Ok(Alarm(file))
    }
}

impl Alarm {
    /// Whether the threshold was exceeded since it was asked last. It never waits.
    ///
    /// # Errors
    /// When the trigger is gone.
    pub fn rang(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.0, PollFlags::PRI)];
        match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let told = asked.first().map_or(PollFlags::empty(), PollFd::revents);
        if told.contains(PollFlags::ERR) {
            return Err(io::Error::other("the kernel has removed the trigger"));
        }
        Ok(told.contains(PollFlags::PRI))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_no_trigger_and_nothing_is_written_to_it() {
        let place = tempfile::tempdir().unwrap();
        let host = Host::live(place.path());
        let refused = host.pressure_alarm("io", "full", 0.4, 4.0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn a_trigger_that_cannot_be_reached_does_not_ring() {
        let host = Host::live(Path::new("/"));
        // Every task stalled for memory all the time: a host that runs this test is not in that state. It may be refused.
        if let Ok(alarm) = host.pressure_alarm("memory", "full", 1.0, 10.0) {
            assert!(!alarm.rang().unwrap());
        }
        for (line, seconds) in [("none", 4.0), ("some", 0.0), ("some", 1e9)] {
            assert!(host.pressure_alarm("memory", line, 0.5, seconds).is_err(), "{line} {seconds}");
        }
        assert!(host.pressure_alarm("../version", "some", 0.5, 4.0).is_err());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test waits for what the kernel does, and no recording replays it")]
    fn a_trigger_rings_when_tasks_wait_for_a_cpu() {
        let host = Host::live(Path::new("/"));
        // Before Linux 6.5 it takes a capability, and some kernels have no PSI.
        let Ok(alarm) = host.pressure_alarm("cpu", "some", 0.05, 2.0) else { return };
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let over = std::sync::atomic::AtomicBool::new(false);
        let cpus = std::thread::available_parallelism().unwrap().get();
        let rang = std::thread::scope(|scope| {
            for _ in 0..2 * cpus {
                scope.spawn(|| {
                    while !over.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let mut rang = false;
            while !rang && std::time::Instant::now() < until {
                std::thread::sleep(std::time::Duration::from_millis(100));
                rang = alarm.rang().unwrap();
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            rang
        });
        assert!(rang, "two threads for each CPU, and no stall within 20 s");
    }
}
