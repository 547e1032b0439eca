//! Where other users own a folder or have put a link, root writes nothing and believes nothing.

use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Need, has, path, rdiag};

/// Another user, of no rights.
const OTHER: u32 = 65534;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn names_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn no_link_of_another_user_is_an_output_folder_or_leads_to_one() {
    if !has(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let recording = path("tests/fixtures/recordings/orders-dsync.json.gz").display().to_string();
    let report = at("report.json");
    let made = rdiag().args(["analyze", &recording, "--format", "json", "--out", "-"]).output().unwrap().stdout;
    std::fs::write(&report, made).unwrap();
    let root = path("tests/fixtures/hosts/idle").display().to_string();
    let report = report.display().to_string();
    let commands: [&[&str]; 4] = [
        &["run", "use-method", "--no-guided", "--root", &root],
        &["analyze", &recording],
        &["report", &report],
        &["diff", &recording, &recording],
    ];
    std::fs::create_dir_all(at("victim/within")).unwrap();
    symlink(at("victim"), at("theirs")).unwrap();
    lchown(at("theirs"), Some(OTHER), Some(OTHER)).unwrap();
    symlink(at("victim"), at("own")).unwrap();
    let link = at("theirs").display().to_string();
    for command in commands {
        for below in ["", "/", "/.", "//", "/new", "/new/er", "/within", "/within/", "/report.html"] {
            let formats: &[&str] = if below.ends_with(".html") { &[] } else { &["--format", "html"] };
            let output = rdiag().args(command).args(formats).arg(format!("--out={link}{below}")).output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(4), "{command:?} {below:?}: {said}");
            assert!(said.contains("is a link that belongs to another user"), "{command:?} {below:?}: {said}");
            assert_eq!(names_in(&at("victim")), [at("victim/within")], "{command:?} {below:?}");
            assert!(names_in(&at("victim/within")).is_empty(), "{command:?} {below:?}");
        }
        // An own link leads where its owner wants.
        for below in ["/", "/new", "/within"] {
            let out = format!("--out={}{below}", at("own").display());
            let output = rdiag().args(command).args(["--format", "html", &out]).output().unwrap();
            assert!(output.status.success(), "{command:?} {below:?}: {}", text(&output.stderr));
        }
        std::fs::remove_dir_all(at("victim")).unwrap();
        std::fs::create_dir_all(at("victim/within")).unwrap();
    }
}

/// A process that ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap())
    }

    /// What a journal of the lab says of it, so that it is ended.
    fn entry(&self) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let started: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let process = serde_json::json!({"pid": self.0.id(), "started": started, "boot": boot.trim()});
        serde_json::json!({ "process": process }).to_string() + "\n"
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn give(paths: &[&Path], user: u32) {
    paths.iter().for_each(|path| lchown(path, Some(user), Some(user)).unwrap());
}

#[test]
fn no_journal_in_the_home_of_another_user_has_root_end_a_process() {
    if !has(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut sleeper = Sleeper::start();
    let run = |home: &Path, args: &[&str]| {
        let mut lab = rdiag();
        lab.env_remove("XDG_STATE_HOME").env("HOME", home).arg("lab").args(args);
        let output = lab.output().unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    // As sudo leaves it where HOME is kept; the same behind a link; and a folder of root's with theirs below.
    let lab = at("home/.local/state/rdiag/lab");
    std::fs::create_dir_all(&lab).unwrap();
    std::fs::write(lab.join("journal"), sleeper.entry()).unwrap();
    let ways: Vec<PathBuf> = lab.ancestors().take(5).map(Path::to_owned).collect();
    symlink(at("home"), at("link")).unwrap();
    for theirs in 0..ways.len() {
        for (depth, way) in ways.iter().enumerate() {
            give(&[way, &at("link")], if depth >= theirs { OTHER } else { 0 });
            std::fs::set_permissions(way, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        for home in [at("home"), at("link")] {
            for args in [&["stop"][..], &["status"], &["list"], &["progress"], &["start", "01", "--for", "10s"]] {
                let (code, said) = run(&home, args);
                let acts = !["list", "progress"].contains(&args[0]);
                assert!(!acts || code == Some(2), "{args:?} {theirs}: {said}");
                assert!(!acts || said.contains("cannot hold the state of an exercise"), "{args:?} {theirs}: {said}");
                assert!(sleeper.runs(), "{args:?} {theirs}: it was ended");
            }
        }
    }
    // It would have been: in a home of root's own it is.
    ways.iter().for_each(|way| give(&[way], 0));
    give(&[&lab.join("journal")], 0);
    let (code, said) = run(&at("home"), &["stop"]);
    assert!(code == Some(0) && said.contains("processes ended: 1"), "{said}");
    // Where the CPUs are busy, it has got its signal before it acts on it.
    let until = Instant::now() + Duration::from_secs(5);
    while sleeper.runs() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!sleeper.runs());
}

/// What a recorded run of use-method says on stderr with this home.
fn said_with(home: &Path) -> String {
    let mut run = rdiag();
    run.env_remove("XDG_CONFIG_HOME").env("HOME", home);
    run.args(["run", "use-method", "--no-guided", "--format", "md", "--out", "-", "--root"]);
    let output = run.arg(path("tests/fixtures/hosts/idle")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("Shadowed by another"), "a playbook of another user was used");
    text(&output.stderr)
}

#[test]
fn no_playbook_or_rule_in_the_home_of_another_user_takes_the_place_of_a_built_in_one() {
    if !has(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = folder.path().join(".config/rdiag");
    let (rules, playbook) = (config.join("rules"), config.join("use-method.yaml"));
    std::fs::create_dir_all(&rules).unwrap();
    let built_in = std::fs::read_to_string(path("playbooks/use-method.yaml")).unwrap();
    let title = built_in.lines().find(|line| line.starts_with("title: ")).unwrap();
    std::fs::write(&playbook, built_in.replacen(title, "title: Shadowed by another", 1)).unwrap();
    let rule = rules.join("cpu.yaml");
    let rule_text = std::fs::read_to_string(path("playbooks/rules/cpu.yaml")).unwrap();
    std::fs::write(&rule, rule_text).unwrap();
    for theirs in [&config, &playbook, &rules, &rule] {
        give(&[&config, &rules, &playbook, &rule], 0);
        give(&[theirs], OTHER);
        if theirs == &rules || theirs == &rule {
            // The one that is left would be used, and named.
            give(&[&playbook], OTHER);
        }
        let said = said_with(folder.path());
        let why = format!("{}: not used: it belongs to user {OTHER}", theirs.display());
        assert!(said.contains(&why), "{said}");
    }
    give(&[&config, &rules, &playbook, &rule], 0);
    std::fs::remove_file(&playbook).unwrap();
    let elsewhere = folder.path().join("elsewhere.yaml");
    std::fs::write(&elsewhere, &built_in).unwrap();
    symlink(&elsewhere, &playbook).unwrap();
    chown(&elsewhere, Some(OTHER), None).unwrap();
    let said = said_with(folder.path());
    assert!(said.contains(&format!("{}: not used: it belongs to user {OTHER}", playbook.display())), "{said}");
}
