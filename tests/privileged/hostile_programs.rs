//! Programs that a user starts under a server's name, to have rdiag look for functions elsewhere than the kernel stops.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Need, beside_others, has, path, rdiag};

/// Looks at its own code until it finds a breakpoint, or for ten seconds. NAME stands for a place within an instruction.
const VICTIM: &str = r#"
#include <stdio.h>
#include <unistd.h>
extern const unsigned char target[];
__asm__(".text\n.globl target\n.type target,@function\ntarget:\n.byte 0x48,0xb8,0x90\nNAME.byte 0x90,0x90,0x90,0x90,0x90,0x90,0x90\nret\n");
int main(void) {
    const volatile unsigned char *code = target;
    for (int look = 0; look < 200; look++) {
        for (int at = 0; at < 10; at++) if (code[at] == 0xcc) { printf("a breakpoint at %d\n", at); return 0; }
        usleep(50000);
    }
    puts("untouched");
    return 0;
}
"#;
const NAME: &str = r".globl pgstat_report_activity\n.type pgstat_report_activity,@function\npgstat_report_activity:\n";
const SERVER: &str = "#include <unistd.h>\nint main(void) { for (;;) sleep(100); }\n";
/// In the namespace there is another file at the victim's path; what the server's path leads to is that path.
const ATTACK: &str = r#"cd "$1" && mount --bind fake victim && { ./postgres & } && sleep 0.5 && rm postgres &&
ln -s "$1/victim" "postgres (deleted)" && echo ready > said && wait"#;

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compile(source: &str, program: &Path) {
    let file = program.with_extension("c");
    std::fs::write(&file, source).unwrap();
    assert!(Command::new("cc").arg("-O1").arg("-o").arg(program).arg(&file).status().unwrap().success());
}

#[test]
#[ignore = "needs: root, uprobes, cc, x86_64"]
fn a_link_in_a_users_namespace_has_the_kernel_stop_in_no_program_of_the_host() {
    let _beside = beside_others();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("unshare"), Need::Tool("setpriv")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let at = |name: &str| folder.path().join(name);
    compile(&VICTIM.replace("NAME", ""), &at("victim"));
    compile(&VICTIM.replace("NAME", NAME), &at("fake"));
    compile(SERVER, &at("postgres"));
    let mut attack = Command::new("setpriv");
    attack.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "unshare",
        "-Urmpf",
        "--kill-child",
        "sh",
        "-c",
        ATTACK,
    ]);
    let _attack = Ended(attack.arg("sh").arg(folder.path()).stdin(Stdio::null()).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(10);
    while !at("said").exists() {
        assert!(Instant::now() < until, "the namespace was not made");
        std::thread::sleep(Duration::from_millis(50));
    }
    let victim = Command::new(at("victim")).stdout(Stdio::piped()).spawn().unwrap();
    let output = rdiag().args(["probe", "dbslower", "--duration", "2s", "--format", "json"]).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(victim.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(said, "untouched\n", "in a program of the host's root");
    // It was looked at all the same, as the user's own program.
    assert!(report.contains("pgstat_report_activity"), "{report:.3000} {}", String::from_utf8_lossy(&output.stderr));
}

/// What a command of rdiag says, or that it does not end.
fn ends(args: &[&str]) -> Option<String> {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("rdiag"));
    let mut child =
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(8);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= until {
            let _ = child.kill();
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    Some(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

#[test]
#[ignore = "needs: root, uprobes, cc, python3, FUSE"]
fn a_link_into_a_users_namespace_leads_to_no_overlay_over_a_stuck_daemon() {
    let _beside = beside_others();
    let tools = ["cc", "unshare", "python3"].map(Need::Tool);
    if !has(&[Need::Root, Need::Path("/dev/fuse")]) || !has(&tools) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    ["mount", "over"].iter().for_each(|name| std::fs::create_dir(at(name)).unwrap());
    compile(SERVER, &at("postgres"));
    let log = std::fs::File::create(at("log")).unwrap();
    let mut daemon = Command::new("unshare");
    daemon.args(["-Urm", "--kill-child", "python3"]).arg(path("tests/privileged/hostile/stuck_fuse.py"));
    daemon.args([at("mount"), at("postgres"), at("over")]).stdin(Stdio::null()).stdout(log);
    let daemon = Ended(daemon.spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(10);
    let told = loop {
        let told = std::fs::read_to_string(at("log")).unwrap();
        if told.contains("stuck") {
            break told;
        }
        assert!(Instant::now() < until, "the daemon does not stop to answer: {told}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let inside = told.lines().find_map(|line| line.strip_prefix("pid ")).unwrap();
    let server = Ended(Command::new(at("postgres")).stdin(Stdio::null()).spawn().unwrap());
    std::fs::remove_file(at("postgres")).unwrap();
    let link = at("postgres (deleted)");
    std::os::unix::fs::symlink(format!("/proc/{inside}/root{}", at("over/asked").display()), &link).unwrap();
    let listed = ends(&["probe", "list", &format!("{}:main", link.display())]);
    let observed = listed.is_some().then(|| ends(&["probe", "dbslower", "--duration", "1s"])).flatten();
    // What waits for the daemon ends with it.
    drop((daemon, server));
    assert!(listed.is_some(), "a list of functions waits for the daemon");
    assert!(observed.is_some(), "a probe waits for the daemon");
}
