use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{
    Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report, skip, wait_until,
};

const NO_MOUNT: &str = "an ext4 cannot be mounted from a file here";

/// Runs a program; false when it fails.
fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A mount point in a folder of its own, with an image beside it; all goes away with the test.
struct Mounted {
    folder: PathBuf,
    point: String,
}

impl Mounted {
    fn folder(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rdiag-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mount")).unwrap();
        let point = folder.join("mount").display().to_string();
        Self { folder, point }
    }

    /// A new ext4 of 64 MiB on a loop device; none where that cannot be had.
    fn ext4(name: &str, mkfs: &[&str], options: &str) -> Option<Self> {
        let mounted = Self::folder(name);
        let image = mounted.image();
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = run("mkfs.ext4", &[&["-q", "-F"], mkfs, &[image.as_str()]].concat());
        let options = format!("loop,{options}");
        if made && run("mount", &["-t", "ext4", "-o", &options, &image, &mounted.point]) {
            return Some(mounted);
        }
        None
    }

    fn image(&self) -> String {
        self.folder.join("image").display().to_string()
    }

    fn path(&self) -> &Path {
        Path::new(&self.point)
    }

    /// The name of its loop device.
    fn device(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&self.point)).expect("it is mounted");
        line.split(' ').next().unwrap().trim_start_matches("/dev/").to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &["-l", &self.point]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The mounts for which a rule fired.
fn fired(report: &Value, id: &str) -> Vec<String> {
    let bad = |found: &&&Value| ["warning", "critical"].contains(&found["status"].as_str().unwrap());
    findings(report, id).iter().filter(bad).map(|found| found["instance"].as_str().unwrap().to_owned()).collect()
}

const TOOLS: [Need; 3] = [Need::Root, Need::Tool("mkfs.ext4"), Need::Path("/dev/loop-control")];

#[test]
#[ignore = "needs: root, loop devices"]
fn a_full_file_system_is_critical_and_no_other_is_blamed() {
    let _alone = alone();
    if !has(&TOOLS) {
        return;
    }
    let Some(mounted) = Mounted::ext4("full", &[], "defaults") else { return skip(NO_MOUNT) };
    let file = mounted.path().join("fill").display().to_string();
    assert!(!run("dd", &["if=/dev/zero", &format!("of={file}"), "bs=1M"]), "it should not fit");
    let report = live_report(2);
    let found = finding(&report, "filesystem.utilization", Some(&mounted.point));
    assert_eq!(found["status"], "critical", "{found:#}");
    assert_eq!(found["culprit"]["labels"]["type"], "ext4", "{found:#}");
    assert!(!fired(&report, "filesystem.utilization.inodes").contains(&mounted.point));
    assert_eq!(finding(&report, "filesystem.errors.hung", Some(&mounted.point))["status"], "ok");
    let others: Vec<String> =
        fired(&report, "filesystem.utilization").into_iter().filter(|point| *point != mounted.point).collect();
    let truly_full = |point: &String| {
        let output = Command::new("df").args(["--output=pcent", point]).output().unwrap();
        String::from_utf8_lossy(&output.stdout)
            .split(['\n', '%'])
            .filter_map(|word| word.trim().parse::<u32>().ok())
            .any(|n| n > 84)
    };
    assert!(others.iter().all(truly_full), "{others:?}");
}

#[test]
#[ignore = "needs: root, loop devices"]
fn a_file_system_without_inodes_is_critical_although_it_has_space() {
    let _alone = alone();
    if !has(&TOOLS) {
        return;
    }
    let Some(mounted) = Mounted::ext4("inodes", &["-N", "128"], "defaults") else { return skip(NO_MOUNT) };
    let mut made = 0;
    while std::fs::File::create(mounted.path().join(made.to_string())).is_ok() {
        made += 1;
    }
    let report = live_report(2);
    let found = finding(&report, "filesystem.utilization.inodes", Some(&mounted.point));
    assert_eq!(found["status"], "critical", "{made} files: {found:#}");
    assert_eq!(finding(&report, "filesystem.utilization", Some(&mounted.point))["status"], "ok");
}

#[test]
#[ignore = "needs: root, loop devices, bash"]
fn deleted_files_that_fill_a_file_system_name_the_process_that_holds_them() {
    let _alone = alone();
    if !has(&TOOLS) || !has(&[Need::Tool("bash")]) {
        return;
    }
    // Most of the space in a file that is held though deleted, or in one that is not, with a small one that is.
    for (held, kept, status) in [(50, 0, "warning"), (1, 49, "ok")] {
        let Some(mounted) = Mounted::ext4("deleted", &["-m", "0"], "defaults") else { return skip(NO_MOUNT) };
        let point = &mounted.point;
        let script = format!(
            "head -c {kept}M /dev/zero >{point}/kept; exec 3>{point}/log; head -c {held}M /dev/zero >&3; \
             rm {point}/log; exec sleep 60"
        );
        let load = Load::start(1, "bash", &["-c", &script]);
        let pid = load.pids()[0];
        let name = || std::fs::read_link(format!("/proc/{pid}/fd/3")).unwrap_or_default();
        let ready = || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
        assert!(wait_until(10, || ready() && name().to_string_lossy().ends_with("(deleted)")), "{:?}", name());
        let report = live_report(2);
        assert_ne!(finding(&report, "filesystem.utilization", Some(point))["status"], "ok");
        let found = finding(&report, "filesystem.utilization.deleted", Some(point));
        assert_eq!(found["status"], status, "{found:#}");
        if status == "warning" {
            assert_eq!((&found["culprit"]["name"], &found["culprit"]["pids"][0]), (&"sleep".into(), &pid.into()));
            assert!(found["value"].as_f64().unwrap() > 0.7, "{found:#}");
        }
        let others = fired(&report, "filesystem.utilization.deleted");
        assert!(others.iter().all(|other| other == point), "{others:?}");
        assert_nothing_else_fired(&report, &["filesystem.utilization", "filesystem.utilization.deleted", "cpu."]);
        drop(load);
    }
}

#[test]
#[ignore = "needs: root, loop devices, squashfs"]
fn an_image_that_is_full_by_nature_stays_quiet() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("mksquashfs"), Need::Path("/dev/loop-control")]) {
        return;
    }
    let mounted = Mounted::folder("squashfs");
    let source = path_of_something_small();
    assert!(run("mksquashfs", &[&source, &mounted.image(), "-quiet", "-no-progress"]));
    if !run("mount", &["-t", "squashfs", "-o", "loop,ro", &mounted.image(), &mounted.point]) {
        return skip("this kernel has no squashfs");
    }
    let report = live_report(2);
    let found = finding(&report, "filesystem.utilization", Some(&mounted.point));
    assert_eq!(found["status"], "skipped", "{found:#}");
    assert_eq!(fired(&report, "filesystem.utilization.inodes"), Vec::<String>::new());
}

fn path_of_something_small() -> String {
    crate::support::path("playbooks").display().to_string()
}

#[test]
#[ignore = "needs: root, loop devices"]
fn a_file_system_that_finds_an_error_is_critical_and_seen_to_be_read_only() {
    let _alone = alone();
    if !has(&TOOLS) {
        return;
    }
    let Some(mounted) = Mounted::ext4("error", &[], "errors=remount-ro") else { return skip(NO_MOUNT) };
    let device = mounted.device();
    let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
    if !Path::new(&trigger).exists() {
        return skip("this kernel cannot be told to find an error");
    }
    let cause = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        std::fs::write(trigger, "rdiag test").unwrap();
    });
    let report = live_report(5);
    cause.join().unwrap();
    assert_eq!(finding(&report, "filesystem.errors.recorded", Some(&device))["status"], "critical");
    assert_eq!(finding(&report, "filesystem.errors.read_only", Some(&mounted.point))["status"], "critical");
    let logged = finding(&report, "filesystem.errors", None);
    assert_eq!(logged["status"], "critical", "{logged:#}");
    assert_eq!(logged["culprit"]["name"], device, "{logged:#}");
    assert_nothing_else_fired(&report, &["filesystem.", "cpu."]);
}

#[test]
#[ignore = "needs: root, FUSE"]
fn a_mount_that_hangs_is_critical_and_hangs_nobody() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/dev/fuse")]) {
        return;
    }
    let mounted = Mounted::folder("fuse");
    // A FUSE daemon that never answers anything: the kernel waits for its first word.
    let script = format!(
        "exec 3<>/dev/fuse; mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 rdiag-test {} && exec sleep 60",
        mounted.point
    );
    let daemon = Load::start(1, "sh", &["-c", &script]);
    let is_mounted =
        || std::fs::read_to_string("/proc/self/mounts").unwrap().lines().any(|line| line.contains(&mounted.point));
    if !wait_until(3, is_mounted) {
        return skip("this kernel has no FUSE");
    }
    let begin = Instant::now();
    let report = live_report(3);
    assert!(begin.elapsed() < Duration::from_secs(15), "it took {:?}", begin.elapsed());
    let hung = finding(&report, "filesystem.errors.hung", Some(&mounted.point));
    assert_eq!(hung["status"], "critical", "{hung:#}");
    let capacity = finding(&report, "filesystem.utilization", Some(&mounted.point));
    assert_eq!((&capacity["status"], &capacity["unavailable"]["reason"]), (&"unknown".into(), &"hung".into()));
    assert_ne!(finding(&report, "filesystem.utilization", Some("/"))["status"], "unknown");
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("statvfs-helper")
    });
    assert_eq!(left.count(), 0, "no helper is left behind");

    // Now the daemon dies, and everything fails at once instead of waiting.
    drop(daemon);
    let report = live_report(2);
    let broken = finding(&report, "filesystem.errors.broken", Some(&mounted.point));
    assert_eq!(broken["status"], "critical", "{broken:#}");
    assert_eq!(finding(&report, "filesystem.errors.hung", Some(&mounted.point))["status"], "ok");
}

/// A frozen file system thaws with the test, or its writers would be there for ever.
struct Frozen<'m>(&'m Mounted);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        run("fsfreeze", &["-u", &self.0.point]);
    }
}

#[test]
#[ignore = "needs: root, loop devices, fsfreeze"]
fn writers_of_a_frozen_file_system_are_blocked_tasks_named_with_their_place_in_the_kernel() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("fsfreeze"), Need::Path("/proc/self/stack")]) {
        return;
    }
    let Some(mounted) = Mounted::ext4("frozen", &[], "rw") else { return skip(NO_MOUNT) };
    assert!(run("fsfreeze", &["-f", &mounted.point]));
    let frozen = Frozen(&mounted);
    let target = mounted.path().join("file").display().to_string();
    let writers = Load::start(3, "touch", &[&target]);
    // The table of blocked tasks begins after three seconds and what attaching takes, and a wait of five is a warning.
    let report = live_report(10);
    drop(frozen);
    drop(writers);
    let blocked = finding(&report, "tasks.saturation.blocked", None);
    assert_eq!(blocked["status"], "warning", "{blocked:#}");
    assert!(blocked["culprit"].is_null(), "who waits is the victim: {blocked:#}");
    let said = blocked["summary"].as_str().unwrap();
    let (_, place) = said.split_once("touch waited the most (in ").unwrap_or_else(|| panic!("{said}"));
    assert!(place.contains("rwsem") || place.contains("freeze") || place.contains("start_write"), "{place}");
    assert_nothing_else_fired(&report, &["tasks.saturation.blocked"]);
}
