//! /dev/kmsg: lines of the kernel log that report something gone wrong, counted by class, and quoted.
//!
//! What is in the buffer at the first sample happened before the window; what comes after belongs to the window. Distinguishing them by
//! their order needs no clock: the log's time drifts from the monotonic clock by seconds over months.
//!
//! A line that a program writes to /dev/kmsg without a newline stays invisible until the next record. Lines of programs are distinguished
//! from the kernel's own by their facility.

mod classes;
mod patterns;
mod scan;

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::FileTypeExt as _;

use super::block_devices::{is_gone, name_of, of_journal};
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, SourceError};
use rdiag_model::{LogLine, Reason, Unavailable};
use scan::Scan;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "kernel_log",
    help: "Lines of the kernel log that report errors, by class, from /dev/kmsg.",
    cadence: Cadence::Interval,
    series: classes::SERIES,
    metrics: classes::METRICS,
    overhead: "the whole buffer once at the start (about 4 µs per record), then one read per interval if nothing is new",
    start: |_| Box::new(KernelLog::default()),
};

const PATH: &str = "dev/kmsg";
/// The kernel gives one whole record per read, of 8 KiB at most, and refuses a smaller buffer.
const BUFFER_BYTES: usize = 16 << 10;
/// A log that grows faster than this is read on at the next sample.
const MAX_RECORDS_PER_SAMPLE: usize = 20_000;
/// The buffer of a large machine holds this many at most; they must be read at one go to know where the window begins.
const MAX_RECORDS_AT_START: usize = 1_000_000;

#[derive(Default)]
struct KernelLog {
    device: Option<File>,
    scan: Scan,
    begun: bool,
}

impl Collect for KernelLog {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        if self.device.is_none() {
            let file = host.open(PATH).map_err(|error| explain(&error, host))?;
            let meta = file.metadata().map_err(|error| SourceError::io(PATH, &error))?;
            if meta.file_type().is_char_device() {
                self.device = Some(file);
            }
        }
        match &mut self.device {
            Some(device) => read_device(device, &mut self.scan, self.begun)?,
            // A recorded tree has the records in a plain file, one per line, all of them at each instant.
            None => {
                for line in host.read(PATH)?.lines() {
                    if let Some(record) = scan::parse(line) {
                        self.scan.take(&record, self.begun);
                    }
                }
            }
        }
        if self.scan.records == 0 {
            // No kernel boots in silence: an empty log is a substitute for one.
            return Err(Unavailable::new(Reason::Malformed, "/dev/kmsg holds no record"));
        }
        self.begun = true;
        for (class, series) in classes::CLASSES {
            out.count(series, "", self.scan.count(class));
        }
        out.count("kernel_log.cgroup_oom", "", self.scan.cgroup_kills);
        out.count("kernel_log.records", "", self.scan.records);
        out.count("kernel_log.missed", "", self.scan.missed);
        out.level("kernel_log.overwritten", "", self.scan.oldest.unwrap_or(0) as f64);
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let mut scan = std::mem::take(&mut self.scan);
        let renewed = std::mem::take(&mut scan.renewed);
        let mut lines: Vec<LogLine> = scan.lines().collect();
        for line in &mut lines {
            // The kernel writes the number of the device there, or the name of a journal; people know the device by its name.
            line.subject = line.subject.take().map(|device| match line.class.as_str() {
                "swap" => name_of(host, &device),
                "filesystem" => of_journal(&device).to_owned(),
                _ => device,
            });
            let is_other = |name: &str| renewed.get(name).is_some_and(|at| *at >= line.seconds_since_boot);
            line.gone = ["disk", "filesystem", "swap"].contains(&line.class.as_str())
                && line.subject.as_deref().is_some_and(|name| is_gone(host, name) || is_other(name));
        }
        Scan::fewer(lines).into_iter().for_each(|line| out.log(line));
    }
}

/// Reads record by record until there is no more.
fn read_device(device: &mut File, scan: &mut Scan, begun: bool) -> Result<(), SourceError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let limit = if begun { MAX_RECORDS_PER_SAMPLE } else { MAX_RECORDS_AT_START };
    for _ in 0..limit {
        match device.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
                if let Some(record) = scan::parse(&text) {
                    scan.take(&record, begun);
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => break,
                // The record was overwritten before it could be read; the next read goes on with the oldest that is left.
                ErrorKind::BrokenPipe | ErrorKind::Interrupted => {}
                _ => return Err(SourceError::io(PATH, &error)),
            },
        }
    }
    Ok(())
}

fn explain(error: &SourceError, host: &Host) -> Unavailable {
    let gap = error.gap();
    match error.reason {
        Reason::Denied => gap.with_remedy(
            "run rdiag with CAP_SYSLOG or as root, or let every user read the log: sysctl kernel.dmesg_restrict=0",
        ),
        Reason::Absent if host.facts().container.is_some() => {
            Unavailable::new(Reason::NotVisible, "the container does not show /dev/kmsg")
                .with_remedy("run rdiag on the host, or in a container that is given /dev/kmsg")
        }
        Reason::Absent => gap.with_remedy("a kernel built with CONFIG_PRINTK, and a /dev made by devtmpfs or udev"),
        _ => gap,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use super::patterns::{PATTERNS, recognise};
    use super::*;

    #[test]
    fn swap_space_that_fails_is_named_like_the_disk_that_it_is_on() {
        let log =
            "3,1,1000000,-;Read-error on swap-device (254:1:1234)\n3,2,1000001,-;Write-error on swap-device (8:2:80)\n";
        let story = Story::of_seconds(1).file(0, "dev/kmsg", log);
        story.link("sys/dev/block/254:1", "../../devices/virtual/block/nullb1");
        let named: Vec<_> = story.record(&COLLECTOR).log.into_iter().filter_map(|line| line.subject).collect();
        assert_eq!(named, ["nullb1", "8:2"], "of the second there is no device");
    }

    #[test]
    fn lines_about_devices_that_are_no_longer_there_or_were_set_up_anew_are_known_as_such() {
        let log = "3,1,1000000,-;Read-error on swap-device (254:0:1234)\n\
                   3,2,1000001,-;Write-error on swap-device (252:7:80)\n\
                   3,3,1000002,-;Write-error on swap-device (253:0:8)\n\
                   3,4,1000003,-;Aborting journal on device loop0-8.\n\
                   3,5,1000004,-;EXT4-fs error (device loop1): ext4_lookup:1855: inode #2: comm ls: deleted inode\n\
                   3,6,1000005,-;I/O error, dev loop2, sector 8\n\
                   6,7,1000006,-;loop2: detected capacity change from 0 to 131072\n\
                   6,8,1000007,-;loop1: detected capacity change from 131072 to 262144\n\
                   6,9,1000008,-;sda: detected capacity change from 0 to 262144\n\
                   3,10,1000009,-;JBD2: Detected IO errors while flushing file data on loop3-8\n\
                   3,11,1000010,-;I/O error, dev sda, sector 8\n";
        let sizes = [("sda", "9"), ("zram0", "0"), ("loop0", "0"), ("loop1", "9"), ("loop2", "9"), ("loop3", "9")];
        let story = sizes.iter().fold(Story::of_seconds(1).file(0, "dev/kmsg", log), |story, (device, size)| {
            story.file(0, &format!("sys/class/block/{device}/size"), format!("{size}\n"))
        });
        story.link("sys/dev/block/254:0", "../../devices/virtual/block/sda");
        story.link("sys/dev/block/253:0", "../../devices/virtual/block/zram0");
        let lines = story.record(&COLLECTOR).log;
        let is_gone = |subject: &str| {
            let mut of = lines.iter().filter(|line| line.subject.as_deref() == Some(subject)).map(|line| line.gone);
            let first = of.next().unwrap_or_else(|| panic!("{subject}: {lines:?}"));
            assert!(of.all(|other| other == first), "{subject}");
            first
        };
        for gone in ["252:7", "zram0", "loop0", "loop2"] {
            assert!(is_gone(gone), "{gone}");
        }
        for there in ["sda", "loop1", "loop3"] {
            assert!(!is_gone(there), "{there}");
        }
    }

    #[test]
    fn every_class_has_a_pattern_and_every_pattern_a_class() {
        for (class, _) in classes::CLASSES {
            assert!(PATTERNS.iter().any(|pattern| pattern.class == *class), "no pattern for {class}");
        }
        for pattern in PATTERNS {
            assert!(classes::CLASSES.iter().any(|(class, _)| *class == pattern.class), "{} is no class", pattern.class);
        }
        assert!(classes::CLASSES.is_sorted());
    }

    fn class_and_subject(line: &str) -> (&'static str, Option<String>) {
        recognise(line).map_or(("none", None), |pattern| (pattern.class, pattern.subject(line)))
    }

    #[test]
    fn lines_of_many_kernels_are_told_apart_and_name_the_right_one() {
        let lines = [
            ("blk_update_request: I/O error, dev sdb, sector 4711 op 0x0:(READ) flags 0x0", "disk", "sdb"),
            ("critical medium error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1", "disk", "nvme0n1"),
            ("critical target error, dev sda, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1", "disk", "sda"),
            ("I/O error, dev sda, sector 8 op 0x3:(DISCARD) flags 0x800 phys_seg 1", "disk", "sda"),
            ("Buffer I/O error on dev dm-3, logical block 7, lost async page write", "disk", "dm-3"),
            ("nvme nvme1: I/O 12 QID 3 timeout, aborting", "disk", "nvme1"),
            ("ata3.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen", "disk", "ata3.00"),
            ("sd 2:0:0:0: [sdc] rejecting I/O to offline device", "disk", "sdc"),
            ("md/raid1:md0: Disk failure on sda1, disabling device.", "disk", "sda1"),
            ("Read-error on swap-device (254:0:1234)", "swap", "254:0"),
            ("Write-error on swap-device (253:1:80)", "swap", "253:1"),
            ("EXT4-fs error (device sda2): ext4_lookup:1855: inode #2: comm ls: deleted inode", "filesystem", "sda2"),
            ("XFS (dm-0): Metadata corruption detected at xfs_agf_verify+0x1/0x2", "filesystem", "dm-0"),
            ("BTRFS warning (device vdb): csum failed root 5 ino 257 off 0", "filesystem", "vdb"),
            ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:345]", "lockup", "kworker/1:2 (pid 345)"),
            ("INFO: task mysqld:812 blocked for more than 120 seconds.", "hung_task", "mysqld (pid 812)"),
            ("INFO: task cp:8 blocked in I/O wait for more than 122 seconds.", "hung_task", "cp (pid 8)"),
            ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#0", "hardware", "MC0"),
            ("EDAC MC1: 1 UE memory read error on DIMM_A1", "hardware_fatal", "MC1"),
            (
                "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
                "hardware",
                "pcieport 0000:00:1c.0",
            ),
            ("NETDEV WATCHDOG: eth0 (e1000e): transmit queue 0 timed out", "nic", "eth0"),
            ("virtio_net virtio0 eth1: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5212 ms", "nic", "eth1"),
            ("igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down", "nic", "eno1"),
            ("r8169 0000:02:00.0 enp2s0: Link is Down", "nic", "enp2s0"),
            ("tg3 0000:02:00.0: eth1: Link is down.", "nic", "eth1"),
            ("neighbour: arp_cache: neighbor table overflow!", "neighbour", "arp_cache"),
            (
                "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8080. Sending cookies.",
                "syn_flood",
                "0.0.0.0:8080",
            ),
            ("cgroup: fork rejected by pids controller in /system.slice/x.service", "pids", "/system.slice/x.service"),
            ("nginx[4242]: segfault at 0 ip 00007f sp 00007f error 4 in nginx[55+9]", "crash", "nginx (pid 4242)"),
            (
                "eth0: link down[5799] bad frame in rt_sigreturn frame:ab ip:7f in none[4+1]",
                "crash",
                "eth0: link down (pid 5799)",
            ),
            ("traps: a[b] c[77] general protection fault ip:7f sp:7f error:0 in libc.so", "crash", "a[b] c (pid 77)"),
            ("CPU3: Core temperature is above threshold, cpu clock is throttled (total events = 9)", "thermal", "CPU3"),
            (
                "clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew is large:",
                "clocksource",
                "tsc",
            ),
            ("WARNING: CPU: 1 PID: 9 at fs/inode.c:338 drop_nlink+0x28/0x40", "kernel_warning", "fs/inode.c:338"),
            ("WARNING: fs/inode.c:338 at drop_nlink+0x28/0x40, CPU#1: rm/9", "kernel_warning", "fs/inode.c:338"),
            ("UBSAN: array-index-out-of-bounds in drivers/net/x.c:42:7", "kernel_warning", "drivers/net/x.c:42:7"),
            ("dd: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP)", "page_allocation", "dd"),
            ("modprobe: vmalloc error: size 1048574951424, exceeds total pages", "page_allocation", "modprobe"),
            ("modprobe: vmalloc: allocation failure: 1048574951424 bytes", "page_allocation", "modprobe"),
            ("Aborting journal on device dm-3-8.", "filesystem", "dm-3-8"),
            ("JBD2: Detected IO errors while flushing file data on loop0-8", "filesystem", "loop0-8"),
            ("JBD2: I/O error when updating journal superblock for loop0-8.", "filesystem", "loop0-8"),
        ];
        for (line, class, subject) in lines {
            assert_eq!(class_and_subject(line), (class, Some(subject.to_owned())), "{line}");
        }
    }

    #[test]
    fn lines_that_name_nobody_still_have_their_class() {
        let lines = [
            ("nf_conntrack: nf_conntrack: table full, dropping packet", "conntrack"),
            ("nf_conntrack: nf_conntrack: table full in netns 4026532281, dropping packet", "conntrack"),
            ("TCP: out of memory -- consider tuning tcp_mem", "tcp_memory"),
            ("VFS: file-max limit 1024 reached", "file_max"),
            ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "lockup"),
            ("BUG: kernel NULL pointer dereference, address: 0000000000000008", "bug"),
            ("general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP", "bug"),
            ("mce: [Hardware Error]: Machine check events logged", "hardware"),
            ("sched: RT throttling activated", "rt_throttling"),
            ("dd: page allocation failure: order:3, mode:0x40820(GFP_ATOMIC|__GFP_COMP)", "page_allocation"),
        ];
        for (line, class) in lines {
            assert_eq!(class_and_subject(line), (class, None), "{line}");
        }
    }

    #[test]
    fn what_a_user_has_the_kernel_quote_is_no_word_of_the_kernel() {
        let said = [
            "Killed process 1 (systemd) total-vm:9kB",
            "Out of memory: Killed process 1 (systemd) total-vm:9kB",
            "x[1]: segfault at 0",
            "blk_update_request: I/O error, dev sda, sector 1",
            "sd 2:0:0:0: [sdc] rejecting I/O to offline device",
            "mce: [Hardware Error]: event severity: fatal",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [x:1]",
            "e1000e: eno1 NIC Link is Down",
            "thermal: critical temperature reached",
            "dd: page allocation failure: order:4",
        ];
        for said in said {
            assert_ne!(class_and_subject(said).0, "none", "{said}");
            for line in [
                format!("tmpfs: Unknown parameter '{said}'"),
                format!("overlayfs: failed to resolve '/tmp/{said}': -2"),
                format!("process '/usr/bin/{said}' launched '-' with NULL argv: empty string added"),
                format!("warning: process `x' used {said}"),
                format!("Memory cgroup stats for /user.slice/user-1000.slice/{said}:"),
                format!("Tasks in /user.slice/{said} are going to be killed due to memory.oom.group set"),
            ] {
                assert_eq!(class_and_subject(&line).0, "none", "{line}");
            }
            let pids = format!("cgroup: fork rejected by pids controller in /user.slice/{said}");
            assert_eq!(class_and_subject(&pids).0, "pids", "{pids}");
        }
        // Names of files stand unquoted behind those of tasks, and those of tasks at the beginning.
        for said in said.into_iter().chain([
            "Kernel panic - x",
            "EDAC MC0: UE x",
            "critical medium error, dev vda, sector 4711",
        ]) {
            for line in [
                format!("a[12]: segfault at 0 ip 00007f sp 00007f error 4 in {said}[55+9]"),
                format!("XFS (vda1): [12]: segfault at 0 ip 00007f sp 00007f error 4 in I/O error {said}[55+9]"),
                format!("traps: a[12] general protection fault ip:7f sp:7f error:0 in {said}[55+9]"),
            ] {
                assert_eq!(class_and_subject(&line).0, "crash", "{line}");
            }
            let frame = format!("a[12] bad frame in rt_sigreturn frame:00 ip:7f sp:7f orax:f in {said}[55+9]");
            assert_eq!(class_and_subject(&frame), ("crash", Some("a (pid 12)".to_owned())), "{frame}");
            let name: String = said.chars().take(15).collect();
            for told in [" invoked oom-killer: gfp_mask=0xcc0", " (12) used greatest stack depth: 9 bytes left"] {
                assert_eq!(class_and_subject(&format!("{name}{told}")).0, "none", "{name}{told}");
            }
        }
        for line in [
            "x: Link is Down invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "CPU: 0 UID: 1000 PID: 812 Comm: x: Link is Down Not tainted 6.18.0 #1",
            "[    812]  1000   812      551      256        0      256         0    45056        0             0 x: Link is Down",
            "eth0: Link is Down[9] general protection fault ip:7f sp:7f error:0",
        ] {
            assert_eq!(class_and_subject(line).0, "none", "{line}");
        }
    }

    #[test]
    fn a_name_with_a_quote_or_a_slash_in_it_hides_no_line() {
        let lines = [
            (
                "it's /a \\xe2\\x82\\xac[4242]: segfault at 0 ip 00007f sp 00007f",
                "crash",
                "it's /a \\xe2\\x82\\xac (pid 4242)",
            ),
            ("it's /x: page allocation failure: order:4, mode:0x40cc0", "page_allocation", "it's /x"),
            ("Memory cgroup out of memory: Killed process 7 (it's /x) total-vm:9kB", "oom", "it's /x (pid 7)"),
            ("INFO: task it's /x:812 blocked for more than 120 seconds.", "hung_task", "it's /x (pid 812)"),
            ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [it's:9]", "lockup", "it's (pid 9)"),
        ];
        for (line, class, subject) in lines {
            assert_eq!(class_and_subject(line), (class, Some(subject.to_owned())), "{line}");
        }
    }

    #[test]
    fn what_healthy_machines_log_at_boot_is_of_no_class() {
        let lines = [
            "EDAC MC: Ver: 3.0.0",
            "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0: DEV 0000:3a:0a.0",
            "mce: CPU0: Thermal monitoring enabled (TM1)",
            "thermal_sys: Registered thermal governor 'step_wise'",
            "ata1: SATA link down (SStatus 0 SControl 300)",
            "IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready",
            "GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC.",
            "pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
            "EXT4-fs (vda): mounted filesystem 00 r/w without journal. Quota mode: none.",
            "EXT4-fs (sda1): error count since last fsck: 3",
            "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)",
            "critical target error, dev sda, sector 2048 op 0x3:(DISCARD) flags 0x800 phys_seg 1 prio class 2",
            "blk_update_request: critical target error, dev sdb, sector 9 op 0x9:(WRITE_ZEROES) flags 0x0",
            "[Firmware Bug]: TSC_DEADLINE disabled due to Errata",
            "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
            "clocksource: Switched to clocksource tsc",
            "oom_reaper: reaped process 12 (x), now anon-rss:0kB",
            "random: crng init done",
            "Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 panic=1 oops=panic",
        ];
        for line in lines {
            assert_eq!(class_and_subject(line).0, "none", "{line}");
        }
    }
}
