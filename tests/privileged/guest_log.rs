//! What faults of a whole guest have in common: they fill its kernel log, and change settings of its kernel.

use std::io::Write as _;
use std::process::Command;

const CONSOLE: &str = "/proc/sys/kernel/printk";

/// Keeps what the kernel logs off the emulated console, which is slow, and overwrites it when the fault is over: what was logged in the
/// last ten minutes counts as current, and the next test is about another host.
pub(super) struct KernelLog {
    console: String,
}

impl KernelLog {
    pub(super) fn new() -> Self {
        let console = std::fs::read_to_string(CONSOLE).unwrap();
        std::fs::write(CONSOLE, "1").unwrap();
        // With the end of a line: the kernel wants it. Refused where the command line of the kernel decides it.
        let _ = std::fs::write("/proc/sys/kernel/printk_devkmsg", "on\n");
        Self { console }
    }

    /// All lines that it holds.
    pub(super) fn all_lines() -> String {
        String::from_utf8_lossy(&Command::new("dmesg").output().unwrap().stdout).into_owned()
    }
}

impl Drop for KernelLog {
    fn drop(&mut self) {
        // Twice what the kernels of the matrix keep (128 KiB).
        if let Ok(mut log) = std::fs::OpenOptions::new().write(true).open("/dev/kmsg") {
            for number in 0..2000 {
                let _ = log.write_all(
                    format!("<7>rdiag: line {number} of those that overwrite the log {:.<100}\n", "").as_bytes(),
                );
            }
        }
        let _ = std::fs::write(CONSOLE, self.console.trim());
    }
}

/// A setting of the kernel that is another while a test runs.
pub(super) struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    pub(super) fn to(path: &'static str, value: &str) -> Self {
        let before = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, value).unwrap_or_else(|error| panic!("{value} > {path}: {error}"));
        Self { path, before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path, self.before.trim());
    }
}
