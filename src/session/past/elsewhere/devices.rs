//! What may be expected of a disk, where that was not recorded: rules ask for the class that the collector `diskstats` gives as a label.

/// The class of a disk, if its name tells that. `sda` may spin or not, and an NVMe device may be a hypervisor's, of which less is expected:
/// it is judged as one.
pub(super) fn class(name: &str) -> Option<&'static str> {
    const CLASSES: [(&str, &str); 15] = [
        ("bcache", "stacked"),
        ("dm-", "stacked"),
        ("drbd", "stacked"),
        ("loop", "stacked"),
        ("md", "stacked"),
        ("mmcblk", "other"),
        ("nbd", "virtual"),
        ("nvme", "virtual"),
        ("pmem", "memory"),
        ("ram", "memory"),
        ("rbd", "virtual"),
        ("sr", "other"),
        ("ublkb", "virtual"),
        ("zd", "stacked"),
        ("zram", "memory"),
    ];
    let stem = name.split(|c: char| c.is_ascii_digit()).next().unwrap_or(name);
    // Letters follow these: `vda`, `xvda`.
    let lettered = ["vd", "xvd"].iter().any(|prefix| stem.len() > prefix.len() && stem.starts_with(prefix));
    if lettered {
        return Some("virtual");
    }
    CLASSES.iter().find(|(prefix, _)| stem == *prefix && name.len() > stem.len()).map(|(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn a_name_tells_the_class_or_nothing() {
        for (name, expected) in [
            ("vda", Some("virtual")),
            ("xvdb", Some("virtual")),
            ("nvme0n1", Some("virtual")),
            ("dm-3", Some("stacked")),
            ("md127", Some("stacked")),
            ("loop0", Some("stacked")),
            ("zram0", Some("memory")),
            ("mmcblk0", Some("other")),
            ("sda", None),
            ("hdc", None),
            ("dev8-0", None),
            ("vd", None),
            ("md", None),
            ("", None),
        ] {
            assert_eq!(class(name), expected, "{name}");
        }
    }
}
