//! Whole stories: from open files to the metrics.

use super::{COLLECTOR, is_deleted};
use crate::testing::{Story, gap, instances, stats};
use rdiag_kernel::host::{Fault, OpenFile};
use rdiag_model::{Facts, Reason};

const MOUNTS: &str = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      21 20 8:2 / /var rw - ext4 /dev/sda2 rw\n\
                      22 20 0:40 / /mnt rw - nfs4 srv:/export rw\n\
                      23 20 7:0 / /image ro - squashfs /dev/loop0 ro\n";

fn host() -> Story {
    Story::of_seconds(2).file(0, "proc/self/mountinfo", MOUNTS)
}

/// Opens a deleted file in a process: its name, its mount, its inode and how many 512-byte blocks it has.
fn open(story: &mut Story, pid: u32, descriptor: u32, name: &str, mount: u64, (inode, blocks): (u64, u64)) {
    // A recorded tree of one instant at its beginning.
    let times = std::mem::replace(&mut story.spec.times, vec![0.0]);
    story.put(
        &format!("proc/{pid}/stat"),
        format!("{pid} (p{pid}) S 1 1 1 0 -1 0 7 0 0 0 1 0 0 0 20 0 1 0 500 9 5 1\n"),
    );
    story.put(&format!("proc/{pid}/fdinfo/{descriptor}"), format!("pos:\t0\nmnt_id:\t{mount}\n"));
    story.link(&format!("proc/{pid}/fd/{descriptor}"), name);
    story.spec.times = times;
    let file = OpenFile { regular: true, deleted: true, device: mount, inode, blocks };
    story.spec.open_files.insert(format!("proc/{pid}/fd/{descriptor}"), file);
}

#[test]
fn the_space_of_deleted_files_is_summed_by_file_system_and_by_process() {
    let mut story = host();
    open(&mut story, 10, 3, "/var/log/a (deleted)", 21, (5, 2000));
    open(&mut story, 10, 4, "/var/log/b (deleted)", 21, (6, 1000));
    open(&mut story, 11, 3, "/var/tmp/c (deleted)", 21, (7, 1000));
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.deleted.bytes", "/var").last, 4000.0 * 512.0);
    assert_eq!(stats(&metrics, "filesystem.deleted.bytes", "/").last, 0.0);
    assert_eq!(stats(&metrics, "filesystem.deleted_held.bytes", "10 /var").last, 3000.0 * 512.0);
    let labels = &metrics.labels["process"]["10 /var"];
    assert_eq!((labels["name"].as_str(), labels["mount"].as_str()), ("p10", "/var"));
}

#[test]
fn a_file_that_is_open_twice_takes_its_space_once() {
    let mut story = host();
    open(&mut story, 10, 3, "/var/log/a (deleted)", 21, (5, 2000));
    open(&mut story, 10, 4, "/var/log/a (deleted)", 21, (5, 2000));
    open(&mut story, 11, 3, "/var/log/a (deleted)", 21, (5, 2000));
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.deleted.bytes", "/var").last, 2000.0 * 512.0);
    assert_eq!(instances(&metrics, "filesystem.deleted_held.bytes"), ["10 /var"]);
}

#[test]
fn what_only_looks_deleted_is_not_counted() {
    let mut story = host();
    open(&mut story, 10, 3, "/var/with another name (deleted)", 21, (5, 2000));
    story.spec.open_files.get_mut("proc/10/fd/3").unwrap().deleted = false;
    open(&mut story, 10, 4, "/var/directory (deleted)", 21, (6, 8));
    story.spec.open_files.get_mut("proc/10/fd/4").unwrap().regular = false;
    open(&mut story, 10, 5, "/drm mm object (deleted)", 999, (7, 2000));
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.deleted.bytes", "/var").last, 0.0);
    assert_eq!(gap(&metrics, "filesystem.deleted_held.bytes", "").reason, Reason::NotApplicable);
    for name in
        ["/var/log/a", "/memfd:x (deleted)", "/dev/zero (deleted)", "/SYSV0 (deleted)", "socket:[5]", "", "(deleted)"]
    {
        assert!(!is_deleted(name.as_bytes()), "{name:?}");
    }
    assert!(is_deleted(b"/dev/shm/x (deleted)"), "it takes space of a file system in memory");
}

#[test]
fn network_file_systems_are_never_asked_and_images_have_nothing_to_delete() {
    let mut story = host();
    open(&mut story, 10, 3, "/mnt/a (deleted)", 22, (5, 2000));
    let mut found = instances(&story.metrics(&COLLECTOR), "filesystem.deleted.bytes");
    found.sort();
    assert_eq!(found, ["/", "/var"]);
}

#[test]
fn a_container_takes_the_space_where_its_overlay_is_written() {
    let mut story = host();
    open(&mut story, 10, 3, "/log/a (deleted)", 77, (5, 2000));
    let overlay =
        "77 1 0:60 / / rw - overlay overlay rw,lowerdir=/a,upperdir=/var/lib/c/diff,workdir=/var/lib/c/work\n";
    let story = story.file(0, "proc/10/mountinfo", overlay);
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.deleted.bytes", "/var").last, 2000.0 * 512.0);
}

#[test]
fn what_other_users_hide_is_a_gap_and_what_was_found_is_kept() {
    let mut story = host();
    open(&mut story, 10, 3, "/var/log/a (deleted)", 21, (5, 2000));
    open(&mut story, 11, 3, "/var/log/b (deleted)", 21, (6, 2000));
    story.spec.faults = vec![Fault { path: "proc/11/fd".into(), fails: Reason::Denied, from: 0 }];
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.deleted.bytes", "/var").last, 2000.0 * 512.0);
    assert_eq!(gap(&metrics, "filesystem.deleted.bytes", "/").reason, Reason::Denied);
    assert!(metrics.notes["filesystem.deleted.bytes"].iter().any(|note| note.why().contains("1 of 2 processes")));
}

#[test]
fn a_process_that_has_just_ended_hides_nothing() {
    let mut story = host();
    open(&mut story, 10, 3, "/var/log/a (deleted)", 21, (5, 2000));
    let gone = |path: &str| Fault { path: path.into(), fails: Reason::Denied, from: 0 };
    story.spec.faults = vec![gone("proc/10/fd"), gone("proc/10/stat")];
    assert_eq!(stats(&story.metrics(&COLLECTOR), "filesystem.deleted.bytes", "/var").last, 0.0);
}

#[test]
fn a_host_without_open_files_holds_nothing() {
    let metrics = host().metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.deleted.bytes", "/").last, 0.0);
}

#[test]
fn a_search_that_was_cut_short_says_so() {
    let unseen = |denied, late| super::unseen(&Facts::default(), 10, denied, late);
    assert_eq!(unseen(0, 0), None);
    assert_eq!(unseen(0, 3).unwrap().reason, Reason::ShortWindow);
    assert_eq!(unseen(1, 3).unwrap().reason, Reason::Denied);
}

#[test]
fn root_is_not_told_to_become_root() {
    for (uid, remedy) in [(1000, "run rdiag as root"), (0, "run rdiag with every capability")] {
        let gap = super::unseen(&Facts { uid, ..Facts::default() }, 10, 1, 0).unwrap();
        assert!(gap.remedy.unwrap().starts_with(remedy));
    }
}
