//! What the README shows is what rdiag prints.

use crate::support::{path, rdiag};

fn printed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_readme_shows_real_output() {
    let root = path("tests/fixtures/hosts/whole-host-short-of-cpu");
    let folder = tempfile::tempdir().unwrap();
    let mut run = rdiag();
    // A long path of the folder would be a second line.
    run.current_dir(folder.path()).args(["run", "use-method", "--no-guided", "--out", "out", "--root"]).arg(root);
    let output = printed(&run.env("LANG", "C.UTF-8").output().unwrap().stdout);
    // Where the files are differs from run to run.
    let output: String =
        output.lines().filter(|line| !line.starts_with("Written: ")).map(|line| format!("{line}\n")).collect();
    let place = path("README.md");
    let readme = std::fs::read_to_string(&place).unwrap();
    let (before, rest) = readme.split_once("```text\n").unwrap();
    let (example, after) = rest.split_once("```").unwrap();
    if std::env::var_os("RDIAG_BLESS").is_some() {
        return std::fs::write(place, format!("{before}```text\n{output}```{after}")).unwrap();
    }
    assert_eq!(example, output, "RDIAG_BLESS=1 cargo test readme_shows_real_output writes it anew");
}

#[test]
fn the_rule_in_the_readme_passes_the_check() {
    let readme = std::fs::read_to_string(path("README.md")).unwrap();
    let rule = readme.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, rule).unwrap();
    let output = rdiag().arg("check").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}{}", printed(&output.stdout), printed(&output.stderr));
}

#[test]
fn the_readme_shows_what_is_said_of_a_recorded_task() {
    let recording = |name: &str| path("tests/fixtures/recordings").join(name);
    let (slow, fast) = (recording("orders-dsync.json.gz"), recording("orders-fdatasync.json.gz"));
    let shown =
        |args: &[&std::ffi::OsStr]| printed(&rdiag().args(args).env("LANG", "C.UTF-8").output().unwrap().stdout);
    let analysis = shown(&["analyze".as_ref(), slow.as_os_str()]);
    let comparison = shown(&["diff".as_ref(), slow.as_os_str(), fast.as_os_str()]);
    let readme = std::fs::read_to_string(path("README.md")).unwrap();
    let section = readme.split("\n## ").find(|section| section.starts_with("Where the time of one task goes")).unwrap();
    let examples: Vec<&str> =
        section.split("```text\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 2);
    for (example, output) in examples.into_iter().zip([analysis, comparison]) {
        let said: Vec<&str> = output.lines().map(str::trim_end).collect();
        for line in example.lines().filter(|line| !line.starts_with("$ ") && *line != "…") {
            assert!(
                said.contains(&line.trim_end()),
                "the README shows a line that rdiag does not print: {line:?}\n{output}"
            );
        }
    }
}
