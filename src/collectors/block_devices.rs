//! /sys/dev/block: which device a number is; /sys/class/block: whether a device is there.

use rdiag_kernel::host::Host;

/// The name of a device number as the kernel writes it (`254:1`), or the number where there is no such device.
pub(super) fn name_of(host: &Host, numbers: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_device = numbers.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor));
    let link = if is_device { host.link(&format!("sys/dev/block/{numbers}")).ok() } else { None };
    link.and_then(|target| Some(target.rsplit('/').next()?.to_owned())).unwrap_or_else(|| numbers.to_owned())
}

/// Beginnings of the names of block devices, up to a letter or a number. What else a line may name (`ata3.00`, `2:0:0:0`, `nvme0`) is no
/// block device, and whether it is gone is not known.
const NAMES: [&str; 12] = ["sd", "vd", "xvd", "hd", "sr", "loop", "dm-", "md", "zram", "nbd", "nullb", "ram"];

/// Whether a block device of this name is no longer there. Where the list of devices cannot be seen, none is known to be gone.
pub(super) fn is_gone(host: &Host, name: &str) -> bool {
    let name = name.trim_start_matches("/dev/");
    let rest = NAMES.iter().filter_map(|begin| name.strip_prefix(begin)).max_by_key(|rest| rest.len());
    let is_plain = rest.is_some_and(|rest| {
        !rest.is_empty() && rest.len() < 8 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let is_nvme = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n')).is_some_and(|(controller, space)| {
        [controller, space.split('p').next().unwrap_or_default()]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    });
    if !is_plain && !is_nvme {
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
    fn only_block_devices_that_are_no_longer_listed_are_gone() {
        let mut story = Story::of_seconds(1);
        for (device, size) in [("sda", "9"), ("nvme0n1", "9"), ("loop0", "0"), ("loop1", "8")] {
            story = story.file(0, &format!("sys/class/block/{device}/size"), format!("{size}\n"));
        }
        let host = story.host();
        for gone in ["sdb", "/dev/sdb1", "loop5", "loop0", "dm-3", "nvme1n1", "nvme1n1p2", "nullb0"] {
            assert!(is_gone(&host, gone), "{gone}");
        }
        for other in
            ["sda", "nvme0n1", "loop1", "nvme1", "ata3.00", "2:0:0:0", "sd", "", "sd/../sda", "mdadm: no array"]
        {
            assert!(!is_gone(&host, other), "{other:?}");
        }
        assert!(!is_gone(&Story::of_seconds(1).file(0, "proc/stat", "").host(), "sdb"), "the devices cannot be seen");
    }
}
