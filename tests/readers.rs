//! What somebody sent is read by a process without rights, within bounds, and no secret of a command line leaves the host.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{path, rdiag};

const SECRET: &str = "hunter2secret";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, place) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_tree(&entry.path(), &place);
        } else if kind.is_symlink() {
            symlink(std::fs::read_link(entry.path()).unwrap(), place).unwrap();
        } else {
            std::fs::write(place, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// All that lies in a folder, unpacked.
fn everything(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut unpacked = flate2::read::GzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_string(&mut unpacked, &mut all).unwrap();
        } else {
            all += &text(&bytes);
        }
    }
    all
}

#[test]
fn no_secret_of_a_command_line_is_in_a_report_or_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("tree"), folder.path().join("out"));
    copy_tree(&path("tests/fixtures/hosts/whole-host-short-of-cpu"), &root);
    let mut processes = 0;
    for instant in std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path().join("proc")) {
        for entry in std::fs::read_dir(instant).into_iter().flatten().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().parse::<u32>().is_ok() {
                std::fs::write(entry.path().join("cmdline"), format!("mysqld\0--password={SECRET}\0--port=1\0"))
                    .unwrap();
                processes += 1;
            }
        }
    }
    assert!(processes > 0);
    let mut run = rdiag();
    run.args(["run", "use-method", "--no-guided", "--format", "html,md,json", "--out"])
        .arg(&out)
        .arg("--root")
        .arg(&root);
    let output = run.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = everything(&out) + &text(&output.stdout);
    assert!(all.contains("mysqld --password=*** --port=1"), "no command line is shown at all");
    assert!(!all.contains(SECRET));
}

#[test]
fn no_secret_of_the_command_that_is_measured_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut run = rdiag();
    run.args(["run", "use-method", "--no-guided", "--out"]).arg(&out);
    run.args(["--", "sh", "-c", "sleep 0.3", "--token", SECRET]);
    let output = run.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = everything(&out) + &text(&output.stdout) + &text(&output.stderr);
    assert!(all.contains("--token ***") && !all.contains(SECRET));
}

#[test]
fn no_link_leads_out_of_a_tree() {
    let folder = tempfile::tempdir().unwrap();
    let (root, secret) = (folder.path().join("tree"), folder.path().join("secret"));
    copy_tree(&path("tests/fixtures/hosts/idle"), &root);
    std::fs::write(&secret, format!("PRETTY_NAME=\"{SECRET}\"\n")).unwrap();
    let report = || {
        let mut run = rdiag();
        run.args(["run", "use-method", "--no-guided", "--format", "json", "--out", "-", "--root"]).arg(&root);
        let output = run.output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    let file = root.join("t0/etc/os-release");
    for target in [secret.display().to_string(), "../../../secret".to_owned()] {
        std::fs::remove_file(&file).unwrap();
        symlink(target, &file).unwrap();
        let report = report();
        assert!(report.contains("\"format_version\"") && !report.contains(SECRET), "{report}");
    }
    // A link that stays in the tree is followed, as if the tree were all there is.
    std::fs::write(root.join("t0/etc/release"), "PRETTY_NAME=\"in the tree\"\n").unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink("/etc/release", &file).unwrap();
    assert!(report().contains("in the tree"));
    let description = root.join("host.yaml");
    std::fs::remove_file(&description).unwrap();
    symlink(&secret, &description).unwrap();
    let said = report();
    assert!(!said.contains(SECRET), "{said}");
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Of a process, the words after a name in its status.
fn status_words(pid: u32, name: &str) -> Vec<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().map(str::to_owned).collect()
}

/// Gives a command its input once a child that has no rights waits for it; what it printed.
fn read_without_rights(args: &[&str], input: &[u8]) -> std::process::Output {
    let mut command = rdiag_process();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = command.spawn().unwrap();
    let since = Instant::now();
    let is_confined = |pid: &u32| status_words(*pid, "NoNewPrivs:") == ["1"] && status_words(*pid, "Seccomp:") != ["0"];
    let reader = loop {
        if let Some(pid) = children(command.id()).into_iter().find(is_confined) {
            break pid;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{args:?}: all that could read it has rights");
        std::thread::sleep(Duration::from_millis(10));
    };
    for rights in ["CapEff:", "CapPrm:"] {
        assert_eq!(status_words(reader, rights), ["0000000000000000"], "{args:?}");
    }
    if status_words(command.id(), "Uid:").get(1).is_some_and(|user| user == "0") {
        // No one else's, but where the namespace of users has not that many.
        let maps_all = std::fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295");
        let own = if maps_all { 0x7000_0000..0x7100_0000 } else { 65534..65535 };
        for ids in ["Uid:", "Gid:"].map(|ids| status_words(reader, ids)) {
            let are_own = ids.iter().all(|id| id.parse().is_ok_and(|id: u32| own.contains(&id)));
            assert!(ids.len() == 4 && are_own, "{args:?}: {ids:?}");
        }
        assert!(status_words(reader, "Groups:").is_empty(), "{args:?}");
    }
    command.stdin.take().unwrap().write_all(input).unwrap();
    command.wait_with_output().unwrap()
}

#[test]
fn a_recording_is_read_by_a_process_without_rights() {
    let file = path("tests/fixtures/recordings/orders-dsync.json.gz").display().to_string();
    let recording = std::fs::read(&file).unwrap();
    let report = rdiag().args(["analyze", &file, "--format", "json", "--out", "-"]).output().unwrap().stdout;
    let sadf = std::fs::read(path("tests/fixtures/sysstat/sadf.json")).unwrap();
    for (args, input, says) in [
        (&["analyze", "-"][..], &recording, "waiting for disk writes"),
        (&["report", "-"], &report, "waiting for disk writes"),
        (&["diff", "-", &file], &recording, "orders"),
        (&["fleet", "-"], &recording, "1 host"),
        (&["report", "--at", "2026-03-10T03:12Z", "--from", "-"], &sadf, "sysstat has nothing between"),
    ] {
        let output = read_without_rights(args, input);
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(told.contains(says), "{args:?}: {told}");
    }
}

/// The shipped binary, to be watched while it runs.
fn rdiag_process() -> std::process::Command {
    let program = rdiag();
    let mut command = std::process::Command::new(program.get_program());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn private_recordings_are_read_and_what_is_written_belongs_to_whoever_asked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let (recording, out) = (folder.path().join("recording.json.gz"), folder.path().join("out"));
    std::fs::copy(path("tests/fixtures/recordings/orders-dsync.json.gz"), &recording).unwrap();
    std::fs::set_permissions(&recording, std::fs::Permissions::from_mode(0o600)).unwrap();
    let own = std::fs::metadata(folder.path()).unwrap().uid();
    let run = |args: &[&str]| {
        let output = rdiag().args(args).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    };
    run(&["analyze", "recording.json.gz", "--format", "html,md,json", "--out", "out"]);
    run(&["report", "out/report.json", "--format", "md", "--out", "out/again"]);
    run(&["diff", "recording.json.gz", "recording.json.gz", "--format", "json", "--out", "out/comparison.json"]);
    for name in ["report.html", "report.md", "report.json", "again/report.md", "comparison.json"] {
        let meta = std::fs::metadata(out.join(name)).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o777), (own, 0o600), "{name}");
    }
}

#[test]
fn a_fifo_in_the_place_of_a_recording_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("recording.json.gz");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0).unwrap();
    for command in ["analyze", "report", "check"] {
        let output = rdiag().arg(command).arg(&fifo).timeout(Duration::from_secs(20)).output().unwrap();
        assert!(matches!(output.status.code(), Some(2 | 4)), "{command}: {:?}", output.status);
        assert!(text(&output.stderr).contains("it is a FIFO"), "{command}: {}", text(&output.stderr));
    }
}

/// What a command printed, and how much memory the largest of the processes that read its input took at most. KiB.
pub(crate) fn with_peak(args: &[&std::ffi::OsStr]) -> (std::process::Output, u64) {
    let mut command = rdiag_process();
    let mut command = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    while command.try_wait().unwrap().is_none() {
        let readers = children(command.id());
        // `fleet` has a process between them.
        for pid in readers.iter().flat_map(|pid| children(*pid)).chain(readers.iter().copied()) {
            let found = status_words(pid, "VmHWM:").first().and_then(|kib| kib.parse().ok());
            peak = peak.max(found.unwrap_or(0));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (command.wait_with_output().unwrap(), peak)
}

/// A `perf.data` as a stream with one event, whose samples hold an address and a task.
fn stream(records: impl Iterator<Item = (u32, Vec<u8>)>) -> Vec<u8> {
    const IP_AND_TID: u64 = 3;
    let mut attr: Vec<u8> = [1_u32, 72].iter().flat_map(|word| word.to_le_bytes()).collect();
    attr.extend([0, 1, IP_AND_TID, 0, 0, 0, 0, 0_u64].iter().flat_map(|word| word.to_le_bytes()));
    let mut bytes = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    for (kind, body) in std::iter::once((64, attr)).chain(records) {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(2_u16.to_le_bytes());
        bytes.extend(u16::try_from(body.len() + 8).unwrap().to_le_bytes());
        bytes.extend(body);
    }
    bytes
}

/// Nothing of the verdict hangs on how it was read.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_reader_that_lacks_a_layer_of_confinement_says_so_once_and_judges_the_same() {
    let recording = path("tests/fixtures/recordings/orders-dsync.json.gz");
    let program = rdiag();
    let run = |denied: &[&str]| {
        let mut command = std::process::Command::new("python3");
        command.arg(path("tests/privileged/denied/deny.py")).args(denied).arg("--").arg(program.get_program());
        let output = command.arg("analyze").arg(&recording).env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return crate::support::skip("python3");
    }
    // A call that no reader makes.
    let (whole, said) = run(&["ENOSYS:kcmp"]);
    let (less, told) = run(&["ENOSYS:landlock_create_ruleset"]);
    let lacks = "is less confined than it can be; missing here: Landlock";
    assert!(told.matches(lacks).count() == 1 && whole == less, "{told}");
    let lsm = std::fs::read_to_string("/sys/kernel/security/lsm");
    if lsm.is_ok_and(|all| all.contains("landlock")) {
        assert!(!said.contains("less confined"), "{said}");
    }
}

#[test]
fn a_profile_with_a_long_name_at_each_place_takes_little_memory() {
    const START: u64 = 1 << 32;
    let task: Vec<u8> = [7_u32, 7].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut mapping = task.clone();
    mapping.extend([START, 1 << 31, 0].iter().flat_map(|word| word.to_le_bytes()));
    mapping.extend(format!("/{}\0", "n".repeat(60_000)).into_bytes());
    let sample = |at: u64| (9, [&(START + at).to_le_bytes()[..], &task].concat());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    std::fs::write(&file, stream(std::iter::once((1, mapping)).chain((0..60_000).map(sample)))).unwrap();
    let (output, peak) = with_peak(&["analyze".as_ref(), file.as_ref()]);
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
    assert!(text(&output.stdout).contains("cpu-clock by stack"));
    assert!((1..256 << 10).contains(&peak), "it took {peak} KiB; a name at each place would be 3.6 GB");
}

#[test]
fn a_profile_whose_events_share_their_ids_is_refused_with_the_reason() {
    const EVENTS: u64 = 300;
    const SIZE: u64 = 80;
    const IDS: u64 = 16 << 20;
    let at = 104 + EVENTS * SIZE;
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = b"PERFILE2".to_vec();
    bytes.extend(words(&[104, SIZE, 104, EVENTS * SIZE, at, 8, 0, 0, 0, 0, 0, 0]));
    for _ in 0..EVENTS {
        bytes.extend(words(&[1 | 64 << 32, 0, 1, 3, 0, 0, 0, 0, at, IDS]));
    }
    bytes.resize((at + IDS) as usize, 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    std::fs::write(&file, bytes).unwrap();
    let (output, peak) = with_peak(&["analyze".as_ref(), file.as_ref()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    // It may be over before it is looked at.
    assert!(peak < 256 << 10, "it took {peak} KiB of a file of 16 MiB");
    assert!(said.contains("its events have more than") && said.contains("record for a shorter time"), "{said}");
}

#[test]
fn a_rule_that_makes_much_of_little_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let rules = std::fs::read_to_string(path("playbooks/rules/cpu.yaml")).unwrap();
    let first = format!("- id: {}", rules.split("\n- id: ").nth(1).unwrap());
    let quiet = first.lines().find(|line| line.starts_with("  quiet: ")).unwrap();
    for (sentence, why) in [
        ("{{ ('a'*9000000)|replace('a', 'aaaaaaaa') }}", "only numbers can be multiplied"),
        ("{% set x = 'aa' %}{% set x = x ~ x %}", "may hold if, elif, else, endif"),
    ] {
        std::fs::write(&file, first.replacen(quiet, &format!("  quiet: \"{sentence}\""), 1)).unwrap();
        let output = rdiag().arg("check").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{sentence}: {}", text(&output.stdout));
        assert!(text(&output.stdout).contains(why), "{sentence}: {}", text(&output.stdout));
    }
}

#[test]
fn a_playbook_of_the_user_in_the_place_of_a_built_in_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (config, root) = (folder.path().join("rdiag"), path("tests/fixtures/hosts/idle"));
    std::fs::create_dir(&config).unwrap();
    let file = config.join("use-method.yaml");
    let own = format!("use-method of {} is used, not the built-in one", file.display());
    let recording = path("tests/captures/host/cpu.a_third_of_the_cpus_in_use_is_quiet.1.json.gz");
    let said = |playbook: &str| {
        let run = ["run", playbook, "--format", "md", "--out", "-", "--root", root.to_str().unwrap()];
        let analyze = ["analyze", "--format", "md", "--out", "-", recording.to_str().unwrap()];
        [&run[..], &analyze].map(|args| {
            let output = rdiag().env("XDG_CONFIG_HOME", folder.path()).args(args).output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stderr).unwrap()
        })
    };
    assert!(said("use-method").iter().all(|said| !said.contains("built-in")));
    std::fs::copy(path("playbooks/use-method.yaml"), &file).unwrap();
    for said in said("use-method") {
        assert_eq!(said.matches(&own).count(), 1, "{said}");
    }
    // A path says which one is meant.
    assert!(!said(file.to_str().unwrap())[0].contains(&own));
}
