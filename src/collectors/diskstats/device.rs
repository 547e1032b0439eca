//! What kind of thing a block device is: what its numbers mean depends on it. A disk in a virtual machine may claim to rotate
//! (`queue/rotational` is 1 on some virtio disks), which is not believed.

use super::row;
use crate::sink::Sink;
use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Unavailable};
use rdiag_proc::DiskStat;

/// A block device as the collector knows it.
#[derive(Debug, Clone)]
pub(super) struct Device {
    /// Whether its line is recorded: a whole device whose counters move.
    pub(super) recorded: bool,
    /// Whether it has ever been used; one that has not is looked at again when it is.
    pub(super) used: bool,
    /// diskseq, or the device number.
    pub(super) identity: u64,
    /// Reads and writes at the last sample: a step back suggests another device under the same name.
    pub(super) requests: u64,
    /// The sample that saw it last.
    pub(super) seen: usize,
}

/// Where a device stands in /sys: the kernel replaces `/` in names by `!` there.
pub(super) fn sysfs(name: &str) -> String {
    format!("sys/block/{}", name.replace('/', "!"))
}

/// Looks at a device for the first time, names it, and says so if its counters are frozen.
pub(super) fn look(host: &Host, out: &Sink, row: &DiskStat, is_whole: bool) -> Device {
    let used = row::was_used(row);
    let mut device = Device { recorded: false, used, identity: 0, requests: 0, seen: out.current() };
    if !is_whole {
        return device;
    }
    let directory = sysfs(&row.name);
    let kind = kind(&row.name);
    // A device without size has nothing behind it: loop0 without a file (even if it had one once), an empty drive.
    if host.read_u64(&format!("{directory}/size")).is_ok_and(|size| size == 0) {
        device.used = false;
        return device;
    }
    if matches!(host.read_line(&format!("{directory}/queue/iostats")).as_deref(), Ok("0")) {
        out.gap("diskstats.", &row.name, frozen(&row.name, &directory, kind));
        return device;
    }
    if used {
        device.recorded = true;
        device.identity = identity(host, row);
        label(host, out, &row.name, &directory, kind);
    }
    device
}

fn frozen(name: &str, directory: &str, kind: &str) -> Unavailable {
    if is_memory(kind) {
        return Unavailable::new(Reason::NotApplicable, format!("{name} keeps its blocks in memory"));
    }
    Unavailable::new(Reason::Disabled, format!("the statistics of {name} are switched off: queue/iostats is 0"))
        .with_remedy(format!("echo 1 > /{directory}/queue/iostats"))
}

/// diskseq where the kernel has it: it is never used twice since boot.
pub(super) fn identity(host: &Host, row: &DiskStat) -> u64 {
    host.read_u64(&format!("{}/diskseq", sysfs(&row.name))).unwrap_or_else(|_| row::device_number(row))
}

fn label(host: &Host, out: &Sink, name: &str, directory: &str, kind: &'static str) {
    let slaves = host.list(&format!("{directory}/slaves")).unwrap_or_default();
    let stacked = !slaves.is_empty() || is_virtual_layer(kind);
    let spins = host.read_line(&format!("{directory}/queue/rotational")).ok().map(|flag| flag == "1");
    let class = class(kind, spins, stacked, host.facts().virtual_machine);
    // What a hypervisor or a RAM disk says about rotation describes an emulation, not a disk.
    let rotational = match (class, spins) {
        ("hdd", _) => "yes",
        ("ssd" | "nvme" | "memory", _) => "no",
        ("other" | "stacked", Some(true)) => "yes",
        ("other" | "stacked", Some(false)) => "no",
        _ => "unknown",
    };
    out.label(name, "kind", kind);
    out.label(name, "class", class);
    out.label(name, "rotational", rotational);
    out.label(name, "stacked", if stacked { "yes" } else { "no" });
    if !slaves.is_empty() {
        out.label(name, "on", slaves.join(" "));
    }
}

/// The driver, as far as the name tells it.
fn kind(name: &str) -> &'static str {
    const KINDS: [(&str, &str); 20] = [
        ("nvme", "nvme"),
        ("sd", "sd"),
        ("vd", "virtio"),
        ("xvd", "xen"),
        ("hd", "ide"),
        ("sr", "cdrom"),
        ("dm-", "dm"),
        ("md", "md"),
        ("loop", "loop"),
        ("zram", "zram"),
        ("ram", "ram"),
        ("pmem", "pmem"),
        ("mmcblk", "mmc"),
        ("nbd", "nbd"),
        ("rbd", "rbd"),
        ("drbd", "drbd"),
        ("bcache", "bcache"),
        ("zd", "zvol"),
        ("ublkb", "ublk"),
        ("dasd", "dasd"),
    ];
    let stem = name.split(|c: char| c.is_ascii_digit()).next().unwrap_or(name);
    let exact = |prefix: &str| match prefix {
        // `sda`, `sdab`: letters follow; everything else is followed by a number.
        "sd" | "vd" | "xvd" | "hd" | "dasd" => stem.starts_with(prefix) && stem.len() > prefix.len(),
        _ => stem == prefix,
    };
    KINDS.iter().find(|(prefix, _)| exact(prefix)).map_or("other", |(_, kind)| kind)
}

fn is_memory(kind: &str) -> bool {
    matches!(kind, "zram" | "ram" | "pmem")
}

fn is_virtual_layer(kind: &str) -> bool {
    matches!(kind, "dm" | "md" | "loop" | "bcache" | "drbd" | "zvol")
}

/// What may be expected of it, in the words that the rules use.
fn class(kind: &str, spins: Option<bool>, stacked: bool, virtual_machine: bool) -> &'static str {
    match (kind, spins) {
        _ if is_memory(kind) => "memory",
        _ if stacked => "stacked",
        // A disk of the hypervisor or the network is behind it, whatever it calls itself.
        ("virtio" | "xen" | "nbd" | "rbd" | "ublk", _) => "virtual",
        ("cdrom" | "mmc", _) => "other",
        _ if virtual_machine => "virtual",
        ("nvme", _) => "nvme",
        (_, Some(true)) => "hdd",
        (_, Some(false)) => "ssd",
        (_, None) => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_driver() {
        let cases = [
            ("sda", "sd"),
            ("sdab", "sd"),
            ("vda", "virtio"),
            ("xvda", "xen"),
            ("nvme0n1", "nvme"),
            ("dm-3", "dm"),
            ("md127", "md"),
            ("mmcblk0", "mmc"),
            ("zram0", "zram"),
            ("cciss/c0d0", "other"),
            ("sd", "other"),
            ("", "other"),
        ];
        for (name, expected) in cases {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn a_disk_that_claims_to_spin_inside_a_virtual_machine_is_not_believed() {
        assert_eq!(class("virtio", Some(true), false, true), "virtual");
        assert_eq!(class("sd", Some(true), false, true), "virtual");
        assert_eq!(class("sd", Some(true), false, false), "hdd");
        assert_eq!(class("sd", Some(false), false, false), "ssd");
        assert_eq!(class("sd", None, false, false), "other");
    }

    #[test]
    fn what_stands_on_other_devices_is_told_apart() {
        assert_eq!(class("dm", Some(true), true, false), "stacked");
        assert_eq!(class("zram", Some(false), false, true), "memory");
    }

    #[test]
    fn a_slash_in_a_name_is_an_exclamation_mark_in_sysfs() {
        assert_eq!(sysfs("cciss/c0d0"), "sys/block/cciss!c0d0");
    }
}
