//! How full the file systems were before a run: what of them was so already is true of the machine, and no false alarm.

use std::collections::BTreeMap;

thread_local! {
    /// As it was when the test of this thread last began to measure.
    static BEFORE: std::cell::RefCell<FullBefore> = std::cell::RefCell::default();
}

/// Shares of blocks and of inodes that are used, by mount point: of what an ordinary user could have, as df counts.
#[derive(Debug, Default)]
pub struct FullBefore(BTreeMap<String, (f64, f64)>);

impl FullBefore {
    pub fn remember() {
        BEFORE.set(Self::now());
    }

    /// Whether what a finding says was so when this test began to measure.
    pub fn explains(finding: &serde_json::Value) -> bool {
        // The kernel log of the minutes before is that of other tests.
        finding["seconds_before"].is_number() || BEFORE.with_borrow(|before| before.explain(finding))
    }

    fn now() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let words = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // Only what cannot hang is asked: a disk, and what lies above one. A blank within a path is written as \040; it is not asked either.
        let points = words.filter_map(|words| match words[..] {
            [device, point, kind, ..] if device.starts_with("/dev/") && !kind.starts_with("fuse") => Some(point),
            // In a guest, 9p is the disk of the machine that emulates it.
            [_, point, "overlay" | "9p", ..] => Some(point),
            _ => None,
        });
        Self(points.filter_map(|point| Some((point.to_owned(), shares_of_mount(point)?))).collect())
    }

    /// Whether the mount point that a finding is about was, to one percent, as full as the finding says.
    fn explain(&self, finding: &serde_json::Value) -> bool {
        let point = finding["instance"].as_str().unwrap_or_default();
        let Some((blocks, inodes)) = self.0.get(point) else { return false };
        let value = finding["value"].as_f64().unwrap_or(f64::INFINITY);
        match finding["id"].as_str().unwrap_or_default() {
            "filesystem.utilization" => *blocks > value - 0.01,
            "filesystem.utilization.inodes" => *inodes > value - 0.01,
            _ => false,
        }
    }
}

fn shares_of_mount(point: &str) -> Option<(f64, f64)> {
    let stat = rustix::fs::statvfs(point).ok()?;
    let share = |all: u64, free: u64, left: u64| {
        let used = all.saturating_sub(free);
        if used + left == 0 { 0.0 } else { used as f64 / (used + left) as f64 }
    };
    Some((share(stat.f_blocks, stat.f_bfree, stat.f_bavail), share(stat.f_files, stat.f_ffree, stat.f_favail)))
}

#[test]
fn what_was_full_before_is_true_of_the_machine_and_what_became_full_is_not() {
    let full = FullBefore(BTreeMap::from([("/".to_owned(), (0.865, 0.2))]));
    let finding =
        |id: &str, instance: &str, value: f64| serde_json::json!({"id": id, "instance": instance, "value": value});
    assert!(full.explain(&finding("filesystem.utilization", "/", 0.87)));
    assert!(!full.explain(&finding("filesystem.utilization", "/", 0.91)), "it became fuller");
    assert!(!full.explain(&finding("filesystem.utilization", "/mnt", 0.87)), "it was not there");
    assert!(!full.explain(&finding("filesystem.utilization.inodes", "/", 0.87)), "it has inodes");
    assert!(!full.explain(&finding("disk.saturation", "/", 0.1)));
    assert!(FullBefore::now().0.contains_key("/"));
}
