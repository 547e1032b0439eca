//! /sys/dev/block: which device a number is; /sys/class/block: whether a device is there.

use rdiag_kernel::host::Host;

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether it is a device number as the kernel writes it: `254:1`.
fn is_numbers(name: &str) -> bool {
    name.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// The name of a device number as the kernel writes it (`254:1`), or the number where there is no such device.
pub(super) fn name_of(host: &Host, numbers: &str) -> String {
    let link = if is_numbers(numbers) { host.link(&format!("sys/dev/block/{numbers}")).ok() } else { None };
    link.and_then(|target| Some(target.rsplit('/').next()?.to_owned())).unwrap_or_else(|| numbers.to_owned())
}

/// Beginnings of the names of block devices, up to a letter or a number. What else a line may name (`ata3.00`, `2:0:0:0`, `nvme0`) is no
/// block device, and whether it is gone is not known.
const NAMES: [&str; 12] = ["sd", "vd", "xvd", "hd", "sr", "loop", "dm-", "md", "zram", "nbd", "nullb", "ram"];

/// The device of a journal, which jbd2 names by it and by the journal's inode: `loop0-8`, `dm-3-8`. Any other name stays as it is.
pub(super) fn of_journal(name: &str) -> &str {
    let device = name.rsplit_once('-').filter(|(device, inode)| is_number(inode) && is_device(device));
    device.map_or(name, |(device, _)| device)
}

/// Whether it is the name of a block device, whether it is there or not.
fn is_device(name: &str) -> bool {
    let rest = NAMES.iter().filter_map(|begin| name.strip_prefix(begin)).max_by_key(|rest| rest.len());
    let is_plain = rest.is_some_and(|rest| {
        !rest.is_empty() && rest.len() < 8 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let is_nvme = name
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('n'))
        .is_some_and(|(controller, space)| is_number(controller) && space.splitn(2, 'p').all(is_number));
    is_plain || is_nvme
}

/// Devices that are made and taken away by command. A disk that is not there any more may have failed: then its errors are what matters.
const VIRTUAL: [&str; 7] = ["loop", "dm-", "md", "zram", "nbd", "nullb", "ram"];

/// Whether a device of this number is a disk: SCSI, NVMe and others of the block extended range, IDE, MMC, Xen.
fn is_of_disk(numbers: &str) -> bool {
    let major = numbers.split(':').next().and_then(|major| major.parse::<u32>().ok());
    major.is_some_and(|major| matches!(major, 3 | 8 | 22 | 65..=71 | 128..=135 | 179 | 202 | 259))
}

/// Whether a virtual block device of this name, or of this number, is no longer there. Where the list of devices cannot be seen, none is
/// known to be gone.
pub(super) fn is_gone(host: &Host, name: &str) -> bool {
    let name = name.trim_start_matches("/dev/");
    if is_numbers(name) {
        let is_listed = host.link(&format!("sys/dev/block/{name}")).is_ok();
        return !is_listed && !is_of_disk(name) && host.list("sys/dev/block").is_ok_and(|all| !all.is_empty());
    }
    if !is_device(name) || !VIRTUAL.iter().any(|kind| name.starts_with(kind)) {
        return false;
    }
    // A loop device stays when its file is taken away, without a size.
    let is_empty = ["loop", "nbd", "zram"].iter().any(|kind| name.starts_with(kind))
        && host.read_u64(&format!("sys/class/block/{name}/size")).is_ok_and(|size| size == 0);
    let is_listed = host.exists(&format!("sys/class/block/{name}"));
    is_empty || (!is_listed && host.list("sys/class/block").is_ok_and(|all| !all.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use super::*;

    #[test]
    fn only_virtual_devices_that_are_no_longer_listed_are_gone() {
        let mut story = Story::of_seconds(1);
        for (device, size) in [("sda", "9"), ("nvme0n1", "9"), ("loop0", "0"), ("loop1", "8")] {
            story = story.file(0, &format!("sys/class/block/{device}/size"), format!("{size}\n"));
        }
        let host = story.host();
        for gone in ["loop5", "/dev/loop5", "loop0", "dm-3", "md127", "nullb0"] {
            assert!(is_gone(&host, gone), "{gone}");
        }
        for other in [
            "sda",
            "sdb",
            "/dev/sdb1",
            "nvme1n1p2",
            "nvme0n1",
            "loop1",
            "nvme1",
            "ata3.00",
            "2:0:0:0",
            "sd",
            "",
            "sd/../sda",
            "mdadm: no array",
        ] {
            assert!(!is_gone(&host, other), "{other:?}");
        }
        story.link("sys/dev/block/8:0", "../../devices/pci/block/sda");
        let host = story.host();
        assert!(is_gone(&host, "253:1") && !is_gone(&host, "8:0"));
        assert!(!is_gone(&host, "8:16") && !is_gone(&host, "259:3"), "a disk may have failed");
        for no_number in ["8:", ":1", "8:0:0:0", "8:x"] {
            assert!(!is_gone(&host, no_number), "{no_number}");
        }
        let unseen = Story::of_seconds(1).file(0, "proc/stat", "").host();
        assert!(!is_gone(&unseen, "253:1"), "the numbers cannot be seen");
        assert!(!is_gone(&Story::of_seconds(1).file(0, "proc/stat", "").host(), "sdb"), "the devices cannot be seen");
    }
    #[test]
    fn a_journal_is_of_its_device_and_a_device_with_a_number_behind_a_dash_is_no_journal() {
        let pairs = [("loop0-8", "loop0"), ("dm-3-8", "dm-3"), ("nvme0n1p2-8", "nvme0n1p2")];
        for (journal, device) in pairs {
            assert_eq!(of_journal(journal), device);
        }
        for device in ["dm-3", "sda1", "fuse-8", "loop0-", "cciss!c0d0-8"] {
            assert_eq!(of_journal(device), device);
        }
    }
}
