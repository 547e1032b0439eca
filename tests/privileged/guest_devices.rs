//! Block devices of guests that take their faults as parameters: those of null_blk and scsi_debug.

use std::path::PathBuf;
use std::process::Command;

use super::kernels::modprobe;
use crate::support::wait_until;

/// Removes a module when a test ends, however it ends: what still looks at the disk (udev) goes away within seconds.
pub(super) fn unload(module: &str) {
    wait_until(60, || {
        Command::new("modprobe").args(["--quiet", "--remove", module]).status().is_ok_and(|status| status.success())
    });
}

/// Waits until udev has looked at new disks.
pub(super) fn settle() {
    let _ = Command::new("udevadm").args(["settle", "--timeout=60"]).status();
}

/// Disks of null_blk, nullb0 and so on, each with its own settings.
pub(super) struct NullDisks {
    count: usize,
}

impl NullDisks {
    pub(super) fn folder(number: usize) -> PathBuf {
        // New kernels name the disk by its folder, old ones count.
        PathBuf::from(format!("/sys/kernel/config/nullb/nullb{number}"))
    }

    pub(super) fn new(disks: &[&[(&str, &str)]]) -> Self {
        modprobe(&["null_blk", "nr_devices=0"]);
        if !PathBuf::from("/sys/kernel/config/nullb").exists() {
            let mounted =
                Command::new("mount").args(["-t", "configfs", "none", "/sys/kernel/config"]).status().unwrap();
            assert!(mounted.success(), "configfs is mounted");
        }
        let made = Self { count: disks.len() };
        for (number, settings) in disks.iter().enumerate() {
            let folder = Self::folder(number);
            std::fs::create_dir(&folder).unwrap();
            for (name, value) in settings.iter().chain(&[("power", "1")]) {
                std::fs::write(folder.join(name), value)
                    .unwrap_or_else(|error| panic!("nullb{number}/{name}: {error}"));
            }
        }
        settle();
        made
    }
}

impl Drop for NullDisks {
    fn drop(&mut self) {
        for number in 0..self.count {
            let _ = std::fs::write(Self::folder(number).join("power"), "0");
            let _ = std::fs::remove_dir(Self::folder(number));
        }
        unload("null_blk");
    }
}

/// A SCSI disk of 16 MiB that cannot read eight sectors from 1 MiB on.
pub(super) struct ScsiDisk {
    pub(super) name: String,
}

impl ScsiDisk {
    const DELAY: &str = "/sys/bus/pseudo/drivers/scsi_debug/delay";

    pub(super) fn new() -> Self {
        modprobe(&["sd_mod"]);
        modprobe(&["scsi_debug", "dev_size_mb=16", "opts=2", "medium_error_start=2048", "medium_error_count=8"]);
        assert!(wait_until(60, || Self::found().is_some()), "the SCSI disk appears");
        settle();
        Self { name: Self::found().unwrap() }
    }

    fn found() -> Option<String> {
        let mut disks = std::fs::read_dir("/sys/block").ok()?.flatten();
        let is_own = |disk: &std::fs::DirEntry| {
            std::fs::read_to_string(disk.path().join("device/model")).is_ok_and(|model| model.trim() == "scsi_debug")
        };
        disks.find(is_own).map(|disk| disk.file_name().to_string_lossy().into_owned())
    }

    /// Writes need no flush, and a command may take its time before the kernel gives up on it.
    pub(super) fn be_patient(&self) {
        let device = format!("/sys/block/{}/device", self.name);
        std::fs::write(format!("{device}/timeout"), "300").unwrap();
        for entry in std::fs::read_dir(format!("{device}/scsi_disk")).unwrap().flatten() {
            std::fs::write(entry.path().join("cache_type"), "temporary write through").unwrap();
        }
    }

    /// From now on each command takes so many ticks of the kernel (250 a second). It refuses while a command is under way.
    pub(super) fn slow_down(ticks: u32) -> bool {
        wait_until(90, || std::fs::write(Self::DELAY, ticks.to_string()).is_ok())
    }
}

impl Drop for ScsiDisk {
    fn drop(&mut self) {
        Self::slow_down(1);
        unload("scsi_debug");
    }
}
