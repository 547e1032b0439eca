//! What rdiag may do while it runs, and as whom it runs a command.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::tracefs::helper_of;
use crate::support::{Need, beside_others, has, rdiag, wait_until};

const CHOWN: u64 = 1 << 0;
const DAC_READ_SEARCH: u64 = 1 << 2;
const SETUID: u64 = 1 << 7;
const NET_ADMIN: u64 = 1 << 12;
const SYS_MODULE: u64 = 1 << 16;
const SYS_CHROOT: u64 = 1 << 18;
const SYS_PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;
const SYS_BOOT: u64 = 1 << 22;
const SYS_TIME: u64 = 1 << 25;
const BPF: u64 = 1 << 39;
/// Nobody needs these to measure.
const NEVER: u64 = CHOWN | SYS_MODULE | SYS_BOOT | SYS_TIME;
/// The user and group that own nothing.
const NOBODY: &str = "65534";

/// Name, permitted and bounding set of each thread.
fn threads(pid: u32) -> Vec<(String, u64, u64)> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let texts = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let fields = texts.map(|text| {
        let fields: BTreeMap<String, String> = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        fields
    });
    let set = |fields: &BTreeMap<String, String>, name: &str| u64::from_str_radix(&fields[name], 16).unwrap();
    fields.map(|fields| (fields["Name"].clone(), set(&fields, "CapPrm"), set(&fields, "CapBnd"))).collect()
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(rdiag().get_program());
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(mut child: Child) -> String {
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{told}");
    told
}

/// Waits until one thread has the name and all hold nothing of `gone`, and checks what the main one holds.
fn come_down_to(pid: u32, name: &str, gone: u64, held: u64) {
    let own = threads(std::process::id())[0].1;
    let is_so = || {
        let all = threads(pid);
        all.iter().any(|(thread, ..)| thread == name) && all.iter().all(|(_, has, bound)| (has | bound) & gone == 0)
    };
    assert!(wait_until(60, is_so), "{:x?}", threads(pid));
    assert_eq!(threads(pid)[0].1 & held, held & own, "{:x?}", threads(pid));
}

#[test]
#[ignore = "needs: root, eBPF"]
fn what_no_phase_needs_is_given_up_before_the_window_and_attaching_with_it() {
    let _beside = beside_others();
    if !has(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("recording.json.gz").display().to_string();
    // Counters alone, and a later window that may attach.
    let run = start(&["record", "use-method", "--duration", "8s", "--interval", "500ms", "--out", &out]);
    come_down_to(run.id(), "rdiag-collect", NEVER | NET_ADMIN, DAC_READ_SEARCH | SYS_PTRACE | SYS_CHROOT);
    end(run);
    // Nothing is attached after this window has begun; the delays of tasks are asked for in it.
    let args = ["record", "method-r", "--duration", "8s", "--out", &out];
    let run = start(&[&args[..], &["--pid", &std::process::id().to_string()]].concat());
    come_down_to(run.id(), "rdiag-collect", NEVER | SYS_CHROOT, DAC_READ_SEARCH | SYS_PTRACE | NET_ADMIN | SYS_ADMIN);
    end(run);
    let probe = start(&["probe", "runqlat", "--duration", "4s"]);
    let own = rdiag().get_program().to_string_lossy().rsplit('/').next().unwrap().to_owned();
    come_down_to(probe.id(), &own, NEVER | SYS_CHROOT | NET_ADMIN, BPF | SYS_PTRACE);
    end(probe);
}

#[test]
#[ignore = "needs: root"]
fn when_the_window_is_over_only_writing_is_left() {
    let _beside = beside_others();
    if !has(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report").display().to_string();
    let mut command = Command::new(rdiag().get_program());
    let args = ["run", "use-method", "--duration", "600ms", "--interval", "200ms", "--guided", "--out", &out];
    // It waits for an answer once all is written.
    let mut run = command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let asking = folder.path().join("report/report.json");
    assert!(wait_until(60, || asking.exists()));
    let all = NEVER | NET_ADMIN | SYS_ADMIN | SYS_PTRACE | DAC_READ_SEARCH | SETUID | BPF;
    let (_, has, bound) = threads(run.id())[0];
    drop(run.stdin.take());
    assert!(run.wait().unwrap().success());
    assert_eq!((has | bound) & all, 0, "{has:x} {bound:x}");
}

#[test]
#[ignore = "needs: root, setpriv"]
fn what_root_has_in_memory_is_not_for_its_group() {
    let _beside = beside_others();
    if !has(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("recording.json.gz");
    let mut command = Command::new("setpriv");
    command.args(["--regid", NOBODY, "--clear-groups"]).arg(rdiag().get_program());
    command.args(["record", "use-method", "--duration", "3s", "--out"]).arg(&out).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    assert!(wait_until(60, || threads(run.id()).iter().any(|(thread, ..)| thread == "rdiag-collect")));
    let maps = Path::new("/proc").join(run.id().to_string()).join("maps");
    // The files of what may be dumped belong to its user and group, and to root those of what may not.
    let group = std::fs::metadata(maps).unwrap().gid();
    assert!(run.wait().unwrap().success());
    assert_eq!(group, 0);
}

/// As whom a command ran, in the words of `id` and the environment, and what rdiag told.
fn ran_as(sudo: Option<&str>, args: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (told, out) = (folder.path().join("told"), folder.path().join("recording.json.gz"));
    let script = format!(
        "echo $(id -u) $(id -g) $(id -G) $USER $LOGNAME $HOME $(grep CapPrm /proc/self/status) > {}",
        told.display()
    );
    let mut run = rdiag();
    run.env_remove("SUDO_UID").envs(sudo.map(|id| ("SUDO_UID", id)));
    run.args(["record", "use-method", "--interval", "200ms", "--out"]).arg(&out).args(args);
    let output = run.args(["--", "sh", "-c", &script]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {stderr}");
    (std::fs::read_to_string(told).unwrap_or_default(), stderr)
}

#[test]
#[ignore = "needs: root"]
fn a_command_runs_as_who_started_sudo_or_as_who_is_asked_for() {
    let _beside = beside_others();
    if !has(&[Need::Root]) {
        return;
    }
    let note = "the command runs as nobody, who started sudo; --user root runs it as root";
    let as_nobody = "65534 65534 65534 nobody nobody /nonexistent CapPrm: 0000000000000000";
    let (ran, told) = ran_as(Some(NOBODY), &[]);
    assert!(ran.trim() == as_nobody && told.contains(note), "{ran}{told}");
    for user in ["nobody", NOBODY] {
        let (ran, told) = ran_as(None, &["--user", user]);
        assert!(ran.trim() == as_nobody && !told.contains("sudo"), "{ran}{told}");
    }
    // Root's command has all that root has, whatever rdiag has given up.
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap().trim().to_owned();
    for (sudo, args) in [(None, &[][..]), (Some("0"), &[]), (Some(NOBODY), &["--user", "root"])] {
        let (ran, told) = ran_as(sudo, args);
        let words: Vec<&str> = ran.split_whitespace().collect();
        assert!(words[0] == "0" && *words.last().unwrap() == own && !told.contains("sudo;"), "{sudo:?}: {ran}{told}");
    }
}

#[test]
#[ignore = "needs: root, setpriv"]
fn nobody_becomes_another_user_and_an_unknown_one_is_told() {
    let _beside = beside_others();
    if !has(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let refused = |as_nobody: bool, sudo: &str, args: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(if as_nobody { &["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"][..] } else { &[] });
        command.arg(rdiag().get_program()).env("SUDO_UID", sudo).current_dir(folder.path());
        let output =
            command.args(["record", "use-method"]).args(args).args(["--", "touch", "it-ran"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(!folder.path().join("it-ran").exists());
        told
    };
    assert!(refused(false, "0", &["--user", "no-such-user"]).contains("there is no user \"no-such-user\""));
    assert!(refused(false, "4294967294", &[]).contains("--user root"));
    let built = Path::new(rdiag().get_program()).to_owned();
    let can_be_run = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--clear-groups", "test", "-x"])
        .arg(built)
        .status()
        .is_ok_and(|status| status.success());
    if can_be_run {
        assert!(refused(true, "0", &["--user", "root"]).contains("only root can start a command as another user"));
    }
}

#[test]
#[ignore = "needs: root, tracefs"]
fn who_undoes_what_rdiag_leaves_may_do_nothing_else_and_goes_first() {
    let _beside = beside_others();
    if !super::tracefs::can_trace() {
        return;
    }
    let mut probe = start(&["probe", "events", "--param", "event=sched:sched_process_exec"]);
    assert!(wait_until(60, || super::tracefs::instance_of(probe.id()).is_some()));
    let helper = helper_of(probe.id()).unwrap();
    assert_eq!(threads(helper)[0].1 & !(1 << 1), 0, "nothing but CAP_DAC_OVERRIDE");
    // It stays while rdiag needs it, whoever ends its session.
    let signal = |name: &str, pid: u32| Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(["-INT", "-TERM", "-HUP"].iter().all(|name| signal(name, helper).success()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!threads(helper).is_empty() && super::tracefs::instance_of(probe.id()).is_some());
    assert!(signal("-INT", probe.id()).success());
    assert!(probe.wait().unwrap().success());
    assert!(threads(helper).is_empty(), "it was waited for");
    assert_eq!(super::tracefs::instance_of(probe.id()), None);
}
