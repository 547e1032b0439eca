//! Whole stories: from the mounts to the metrics.

use super::COLLECTOR;
use crate::testing::{Story, gap, instances, stats};
use rdiag_kernel::host::HostSpec;
use rdiag_model::Reason;

const MOUNTS: &str = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      2 1 0:5 / /proc rw - proc proc rw\n\
                      3 1 7:0 / /snap/core ro - squashfs /dev/loop0 ro\n\
                      4 1 0:40 / /mnt/dead\\040server rw - nfs4 srv:/export rw\n\
                      5 1 0:41 / /data rw - btrfs /dev/sdb rw\n\
                      6 1 8:3 / /usr ro - ext4 /dev/sda3 ro\n";

fn story() -> Story {
    let mut story = Story::of_seconds(3).file(0, "proc/self/mountinfo", MOUNTS);
    let yaml = "
statvfs:
  /: {frsize: 4096, blocks: 1000, bfree: 100, bavail: 50, files: 200, ffree: 50}
  /snap/core: {frsize: 131072, blocks: 500, bfree: 0, bavail: 0, files: 10, ffree: 0}
  /mnt/dead server: {hung: true}
  /data: {frsize: 4096, blocks: 1000, bfree: 900, bavail: 900}
  /usr: {frsize: 4096, blocks: 1000, bfree: 0, bavail: 0, files: 200, ffree: 0}
";
    let spec: HostSpec = serde_yaml::from_str(yaml).unwrap();
    story.spec.statvfs = spec.statvfs;
    story
}

#[test]
fn use_is_counted_as_df_does() {
    let metrics = story().metrics(&COLLECTOR);
    let space = stats(&metrics, "filesystem.space.ratio", "/");
    assert!((space.last - 900.0 / 950.0).abs() < 1e-12, "reserved blocks are not available: {}", space.last);
    assert_eq!(stats(&metrics, "filesystem.inodes.ratio", "/").last, 0.75);
    assert_eq!(stats(&metrics, "filesystem.available.bytes", "/").last, 204_800.0);
    let labels = &metrics.labels["mount"]["/"];
    assert_eq!((labels["type"].as_str(), labels["device"].as_str()), ("ext4", "/dev/sda1"));
}

#[test]
fn a_hung_mount_is_a_fact_of_its_own_and_has_no_capacity() {
    let metrics = story().metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.hung.count", "/mnt/dead server").last, 1.0);
    assert_eq!(gap(&metrics, "filesystem.space.ratio", "/mnt/dead server").reason, Reason::Hung);
    assert_eq!(gap(&metrics, "filesystem.broken.count", "/mnt/dead server").reason, Reason::Hung);
    assert_eq!(stats(&metrics, "filesystem.hung.count", "/").last, 0.0);
}

#[test]
fn a_full_image_and_a_full_read_only_file_system_are_nothing_to_judge() {
    let metrics = story().metrics(&COLLECTOR);
    for mount in ["/snap/core", "/usr"] {
        for metric in ["filesystem.space.ratio", "filesystem.inodes.ratio"] {
            assert_eq!(gap(&metrics, metric, mount).reason, Reason::NotApplicable, "{metric} of {mount}");
        }
    }
    assert_eq!(stats(&metrics, "filesystem.forced_read_only.count", "/usr").last, 0.0);
}

#[test]
fn a_file_system_without_a_fixed_number_of_inodes_is_not_judged_by_them() {
    let metrics = story().metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "filesystem.inodes.ratio", "/data").reason, Reason::NotApplicable);
    assert!((stats(&metrics, "filesystem.space.ratio", "/data").last - 0.1).abs() < 1e-12);
}

#[test]
fn pseudo_file_systems_do_not_appear() {
    let mut found = instances(&story().metrics(&COLLECTOR), "filesystem.space.ratio");
    found.sort();
    assert_eq!(found, ["/", "/data", "/mnt/dead server", "/snap/core", "/usr"]);
}

#[test]
fn a_tree_that_does_not_know_a_capacity_says_so() {
    let story = Story::of_seconds(2).file(0, "proc/self/mountinfo", MOUNTS);
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "filesystem.space.ratio", "/").reason, Reason::Absent);
}

#[test]
fn a_file_system_that_lost_its_disk_is_seen_as_forced_read_only() {
    let mut story = story().file(1, "proc/self/mountinfo", MOUNTS.replace("/dev/sda1 rw", "/dev/sda1 ro"));
    story.spec.times = vec![0.0, 1.0];
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.forced_read_only.count", "/").last, 1.0);
}

#[test]
fn errors_of_the_file_system_are_told_from_missing_rights() {
    assert!(super::is_refusal(13));
    assert!([126, 127, 128, 129].into_iter().all(super::is_refusal), "a key of Kerberos is missing, or was refused");
    assert!(!super::is_refusal(107), "transport endpoint is not connected: the FUSE daemon is gone");
    assert!(!super::is_refusal(5));
}

#[test]
fn a_host_whose_only_mount_hangs_still_names_it() {
    let mut story = Story::of_seconds(2).file(0, "proc/self/mountinfo", "1 0 0:40 / /mnt rw - nfs4 srv:/x rw\n");
    let spec: HostSpec = serde_yaml::from_str("statvfs: {/mnt: {hung: true}}").unwrap();
    story.spec.statvfs = spec.statvfs;
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(gap(&metrics, "filesystem.space.ratio", "/mnt").reason, Reason::Hung);
    assert_eq!(stats(&metrics, "filesystem.hung.count", "/mnt").last, 1.0);
}
