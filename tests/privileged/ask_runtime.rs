//! `--ask-runtime`: a Java program that was started like any other has names in a profile, and one that cannot be asked lives on.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::Path;
use std::time::Duration;

use crate::support::{Load, Need, alone, has, rdiag, skip};

const LOOP: &str = "public class Main {
    static long sum(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * 31 % 7; return s; }
    public static void main(String[] args) { long all = 0; while (true) all += sum(100000); }
}";

/// What a profile of a Java program says on stdout and stderr, with and without asking; the program runs as another user.
fn profiled(options: &[&str]) -> [String; 2] {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let source = folder.path().join("Main.java");
    std::fs::write(&source, LOOP).unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let source = source.display().to_string();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "java", "-Xmx64m"];
    let load = Load::start(1, "setpriv", &[&user, options, &[&source]].concat());
    // It compiles its source first, and the loop is compiled when it has run for a while.
    std::thread::sleep(Duration::from_secs(4));
    let pid = load.pids()[0].to_string();
    let profile = ["probe", "profile", "--pid", &pid, "--duration", "2s"];
    let run = |more: &[&str]| {
        let output = rdiag().args(profile).args(more).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        text(output.stdout) + &text(output.stderr)
    };
    let both = [run(&[]), run(&["--ask-runtime"])];
    let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    assert!(Path::new(&format!("/proc/{pid}/exe")).exists(), "it lives on: {}", both[1]);
    assert!(!Path::new(&format!("/tmp/.attach_pid{pid}")).exists(), "what asked is gone");
    both
}

#[test]
#[ignore = "needs: root, eBPF, a JDK of version 17 or later"]
fn a_java_program_that_is_asked_has_names_and_one_that_cannot_be_asked_lives_on() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("java"), Need::Tool("jcmd"), Need::Tool("setpriv")]) {
        return;
    }
    let [before, asked] = profiled(&[]);
    assert!(before.contains("compiled at run time") && !before.contains("Main.sum"), "{before}");
    if asked.contains("JDK 17 has") {
        return skip("the installed JDK is older");
    }
    assert!(asked.contains("Main.sum(long)") && asked.contains("wrote where its compiled functions are"), "{asked}");
    // SIGQUIT would end this one.
    let [_, refused] = profiled(&["-Xrs"]);
    assert!(refused.contains("it does not answer SIGQUIT") && refused.contains("no symbols"), "{refused}");
    let [_, disabled] = profiled(&["-XX:+DisableAttachMechanism"]);
    assert!(disabled.contains("it opens no socket (-XX:+DisableAttachMechanism)"), "{disabled}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_process_that_is_no_java_is_not_asked() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let load = Load::start(1, "sh", &["-c", "while :; do :; done"]);
    let pid = load.pids()[0].to_string();
    let output =
        rdiag().args(["probe", "profile", "--ask-runtime", "--duration", "1s", "--pid", &pid]).output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no Java process is here to be asked"), "{said}");
    assert!(Path::new(&format!("/proc/{pid}/exe")).exists());
}
