use crate::support::{assert_nothing_else_fired, finding, findings, recorded_report};

#[test]
fn each_mount_is_judged_by_what_is_wrong_with_it_and_by_nothing_else() {
    let report = recorded_report("filesystem-troubles");
    assert_nothing_else_fired(&report, &["filesystem.", "disk.errors.degraded_array"]);
    let fired = |id: &str| -> Vec<(String, String)> {
        let bad = |found: &&&serde_json::Value| ["warning", "critical"].contains(&found["status"].as_str().unwrap());
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        findings(&report, id)
            .iter()
            .filter(bad)
            .map(|found| (text(&found["instance"]), text(&found["status"])))
            .collect()
    };
    let critical = |instance: &str| (instance.to_owned(), "critical".to_owned());
    assert_eq!(fired("filesystem.utilization"), [critical("/var"), critical("/srv/xfs")]);
    assert_eq!(fired("filesystem.utilization.inodes"), [critical("/var/mail")]);
    assert_eq!(fired("filesystem.errors.hung"), [critical("/mnt/old server")]);
    assert_eq!(fired("filesystem.errors.read_only"), [critical("/home")]);
    assert_eq!(fired("filesystem.errors.recorded"), [critical("sda5")]);
    assert_eq!(fired("disk.errors.degraded_array"), [critical("md0")]);
}

#[test]
fn a_full_image_or_read_only_mount_is_skipped_and_a_large_file_system_has_room_at_88_percent() {
    let report = recorded_report("filesystem-troubles");
    for mount in ["/snap/core/1", "/usr/share/image"] {
        assert_eq!(finding(&report, "filesystem.utilization", Some(mount))["status"], "skipped", "{mount}");
    }
    assert_eq!(finding(&report, "filesystem.utilization", Some("/srv/big"))["status"], "info");
    assert_eq!(finding(&report, "filesystem.utilization.inodes", Some("/data"))["status"], "skipped");
}

#[test]
fn a_hung_mount_has_an_unknown_capacity_and_does_not_hide_the_others() {
    let report = recorded_report("filesystem-troubles");
    let capacity = finding(&report, "filesystem.utilization", Some("/mnt/old server"));
    assert_eq!((&capacity["status"], &capacity["unavailable"]["reason"]), (&"unknown".into(), &"hung".into()));
    assert_eq!(finding(&report, "filesystem.utilization", Some("/mnt/other"))["status"], "ok");
}

#[test]
fn space_held_by_deleted_files_is_found_in_the_second_window_with_its_holder() {
    let report = recorded_report("filesystem-troubles");
    let found = finding(&report, "filesystem.utilization.deleted", Some("/var"));
    assert_eq!(found["status"], "warning", "{found:#}");
    assert_eq!((&found["culprit"]["name"], &found["culprit"]["pids"][0]), (&"app server".into(), &700.into()));
    // Another process holds more, elsewhere.
    assert_eq!(found["culprit"]["share"], 1.0, "{found:#}");
    let big = finding(&report, "filesystem.utilization.deleted", Some("/srv/big"));
    assert_eq!((&big["status"], big["value"].as_f64().unwrap() > 0.0), (&"ok".into(), true));
    assert_eq!(finding(&report, "filesystem.utilization.deleted", Some("/"))["status"], "ok");
    assert_eq!(finding(&report, "filesystem.utilization.deleted", Some("/srv/xfs"))["status"], "ok");
    let quiet = recorded_report("whole-host-quiet");
    assert!(findings(&quiet, "filesystem.utilization.deleted").iter().all(|found| found["status"] != "warning"));
}

#[test]
fn errors_from_years_ago_are_only_worth_knowing() {
    let report = recorded_report("filesystem-troubles");
    let old = finding(&report, "filesystem.errors.recorded", Some("sda3"));
    assert_eq!(old["status"], "info");
    assert!(old["summary"].as_str().unwrap().contains("2017-07-14"), "{old:#}");
}

#[test]
fn mounts_that_hold_no_data_of_anybody_do_not_appear() {
    let report = recorded_report("filesystem-troubles");
    for found in findings(&report, "filesystem.utilization") {
        let mount = found["instance"].as_str().unwrap();
        assert!(!["/proc", "/sys", "/misc", "/var/www", "/sys/fs/cgroup"].contains(&mount), "{mount}");
        assert!(!mount.ends_with("/merged"), "{mount}");
    }
}

#[test]
fn slow_file_servers_are_told_from_requests_that_wait_on_this_host() {
    let report = recorded_report("filesystem-nfs-slow");
    let status = |id: &str, mount: &str| finding(&report, id, Some(mount))["status"].as_str().unwrap().to_owned();
    assert_eq!(status("filesystem.saturation.nfs_read", "/home"), "critical");
    assert_eq!(status("filesystem.saturation.nfs_lookup", "/home"), "ok", "6 ms is no trouble");
    assert_eq!(status("filesystem.errors.nfs_retransmits", "/home"), "warning", "a request used up its retries");
    assert_eq!(status("filesystem.saturation.nfs_queue", "/home"), "ok");
    assert_eq!(status("filesystem.saturation.nfs_queue", "/srv/builds"), "warning");
    assert_eq!(status("filesystem.saturation.nfs_write", "/srv/builds"), "ok", "the server itself answers in 6 ms");
    assert_eq!(status("filesystem.saturation.nfs_read", "/srv/builds"), "skipped", "nothing was read");
    for id in ["nfs_read", "nfs_lookup", "nfs_queue"] {
        assert_eq!(status(&format!("filesystem.saturation.{id}"), "/srv/tools"), "ok");
    }
    let slow = finding(&report, "filesystem.saturation.nfs_read", Some("/home"));
    assert_eq!(slow["culprit"]["labels"]["device"], "filer:/home", "{slow:#}");
    let named =
        ["filesystem.saturation.nfs_read", "filesystem.saturation.nfs_queue", "filesystem.errors.nfs_retransmits"];
    assert_nothing_else_fired(&report, &named);
}

#[test]
fn a_host_without_nfs_has_nothing_to_judge_there() {
    let report = recorded_report("whole-host-quiet");
    for id in ["saturation.nfs_read", "saturation.nfs_write", "saturation.nfs_lookup", "saturation.nfs_queue"] {
        assert_eq!(finding(&report, &format!("filesystem.{id}"), None)["status"], "skipped", "{id}");
    }
    assert_eq!(finding(&report, "filesystem.errors.nfs_retransmits", None)["status"], "skipped");
}
