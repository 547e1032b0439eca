//! What the control group that was asked for is given and held to: read once, of this group alone. Other groups' limits are the
//! collectors'.

use std::collections::BTreeMap;

use super::group::path_of;
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Version};

/// Longer values are no number and no limit.
const LONGEST: usize = 64;
/// The files of a controller that say it, by version.
const FILES: [(&str, [&[&str]; 2]); 2] = [
    ("cpu", [&["cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"], &["cpu.weight", "cpu.max"]]),
    ("memory", [&["memory.limit_in_bytes"], &["memory.min", "memory.low", "memory.high", "memory.max"]]),
];

/// By the name of the file, as the kernel shows it. What the group has not, as a controller that is not enabled for it, is left out.
pub(super) fn of(host: &Host, typed: &str) -> BTreeMap<String, String> {
    let group = path_of(typed);
    let mut found = BTreeMap::new();
    for (controller, [first, second]) in FILES {
        let Ok(hierarchy) = Hierarchy::find(host, controller) else { continue };
        let files = if hierarchy.version == Version::V1 { first } else { second };
        for file in files {
            if let Ok(text) = host.read_line(&hierarchy.file(&group, file))
                && text.len() <= LONGEST
            {
                found.insert((*file).to_owned(), text);
            }
        }
    }
    found
}
