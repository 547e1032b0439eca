//! Limits at which something fails at once: `cannot-fork`, `disk-full`.

use super::{Group, Mounted, assert_verdict, found, outcome, report, run};
use crate::support::{Load, Need, alone, finding, has, skip, wait_until};

/// Tries to have 80 children, and goes on trying.
const FORKS: &str = "for n in {1..80}; do sleep 60 & done; wait";
const AS_USER: [&str; 7] = ["--reuid", "4245", "--regid", "4245", "--clear-groups", "bash", "-c"];

/// How many processes a user has.
fn processes_of(uid: &str) -> usize {
    let listed = std::process::Command::new("ps").args(["-u", uid, "-o", "pid="]).output().unwrap().stdout;
    String::from_utf8_lossy(&listed).lines().count()
}

#[test]
#[ignore = "needs: root, bash, setpriv, ps"]
fn forks_that_fail_at_the_limit_of_a_user_are_told_from_as_many_processes_without_one() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bash"), Need::Tool("setpriv"), Need::Tool("ps")]) {
        return;
    }
    let script = format!("ulimit -u 60; {FORKS}");
    let load = Load::start(1, "setpriv", &[&AS_USER[..], &[script.as_str()]].concat());
    assert!(wait_until(20, || processes_of("4245") == 60), "the processes could not be started");
    let full = report("cannot-fork", 2);
    drop(load);
    assert_verdict(&full, "user", "User 4245 has 60 processes and threads");
    let _load = Load::start(1, "setpriv", &[&AS_USER[..], &[FORKS]].concat());
    assert!(wait_until(20, || processes_of("4245") == 81), "the processes could not be started");
    let free = report("cannot-fork", 2);
    assert_eq!(free["verdict"]["status"], "ok", "{:#}", free["verdict"]);
    let headline = free["verdict"]["headline"].as_str().unwrap();
    assert!(
        headline.contains("no cause found; ruled out: pids.max of a control group, the process limit of a user"),
        "{headline}"
    );
}

#[test]
#[ignore = "needs: root, the pids controller, bash"]
fn forks_that_a_group_refuses_are_told_from_a_group_with_room() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("bash")]) {
        return;
    }
    for (limit, expected) in [("20", "found"), ("400", "ruled_out")] {
        let files = [[("pids.max", limit), ("pids.max", limit)]];
        let Some(group) = Group::new("pids", "rdiag-fork", &files) else { return skip("no pids controller") };
        let _load = group.run("for n in {1..30}; do sleep 60 & done; while :; do sleep 0.3 & wait $!; done");
        std::thread::sleep(std::time::Duration::from_millis(500));
        let report = report("cannot-fork", 3);
        assert_eq!(outcome(&report, "cgroup"), expected, "{:#}", report["answer"]);
        if expected == "found" {
            assert_verdict(&report, "cgroup", "rdiag-fork");
        }
    }
}

#[test]
#[ignore = "needs: root, loop devices, mkfs.ext4"]
fn no_space_left_is_told_by_its_cause() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("bash"), Need::Path("/dev/loop-control")]) {
        return;
    }
    let no_mount = "an ext4 cannot be mounted from a file here";
    let Some(mounted) = Mounted::ext4("symptom-inodes", &["-N", "128"]) else { return skip(no_mount) };
    let mut made = 0;
    while std::fs::File::create(format!("{}/{made}", mounted.point)).is_ok() {
        made += 1;
    }
    let inodes = report("disk-full", 1);
    assert_verdict(&inodes, "inodes", &mounted.point);
    drop(mounted);

    let Some(mounted) = Mounted::ext4("symptom-deleted", &["-m", "0"]) else { return skip(no_mount) };
    let point = &mounted.point;
    let script = format!("exec 3>{point}/log; head -c 56M /dev/zero >&3; rm {point}/log; exec sleep 60");
    let load = Load::start(1, "bash", &["-c", &script]);
    let ready =
        || std::fs::read_to_string(format!("/proc/{}/comm", load.pids()[0])).is_ok_and(|name| name == "sleep\n");
    assert!(wait_until(10, ready), "the file is not deleted");
    let deleted = report("disk-full", 1);
    assert!(found(&deleted, "deleted").contains(point.as_str()), "{:#}", deleted["answer"]);
    assert_verdict(&deleted, "deleted", "sleep");
    drop(load);
    // The same file system with the same file, which nobody deleted: it is the space.
    run("bash", &["-c", &format!("head -c 56M /dev/zero > {point}/kept")]);
    let kept = report("disk-full", 1);
    assert_eq!(outcome(&kept, "space"), "found", "{:#}", kept["answer"]);
    assert_eq!(finding(&kept, "filesystem.utilization", Some(point))["status"], "critical");
    assert_ne!(outcome(&kept, "deleted"), "found", "{:#}", kept["answer"]);
}

#[test]
#[ignore = "needs: root, loop devices, squashfs"]
fn an_image_at_100_percent_is_no_full_disk() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("mksquashfs"), Need::Path("/dev/loop-control")]) {
        return;
    }
    let mounted = Mounted::folder("symptom-image");
    let source = crate::support::path("playbooks").display().to_string();
    assert!(run("mksquashfs", &[&source, &mounted.image(), "-quiet", "-no-progress"]));
    if !run("mount", &["-t", "squashfs", "-o", "loop,ro", &mounted.image(), &mounted.point]) {
        return skip("this kernel has no squashfs");
    }
    for playbook in ["disk-full", "sixty-seconds"] {
        let report = report(playbook, 1);
        let id = if playbook == "disk-full" { "space" } else { "full" };
        assert_eq!(finding(&report, "filesystem.utilization", Some(&mounted.point))["status"], "skipped");
        assert!(!report["answer"].to_string().contains(&mounted.point), "{id}: {:#}", report["answer"]);
    }
}

#[test]
#[ignore = "needs: root, loop devices, mkfs.ext4"]
fn the_first_sixty_seconds_name_a_full_file_system() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("bash"), Need::Path("/dev/loop-control")]) {
        return;
    }
    let Some(mounted) = Mounted::ext4("symptom-full", &["-m", "0"]) else {
        return skip("an ext4 cannot be mounted from a file here");
    };
    run("bash", &["-c", &format!("head -c 64M /dev/zero > {}/file", mounted.point)]);
    let report = report("sixty-seconds", 2);
    assert_eq!(outcome(&report, "full"), "found", "{:#}", report["answer"]);
    assert_eq!(finding(&report, "filesystem.utilization", Some(&mounted.point))["status"], "critical");
}
