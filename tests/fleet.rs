//! Many recordings: what is common is told once, who is odd is named, and who cannot be judged is listed and costs no other host.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::readers::children;
use crate::schema::validate;
use crate::support::{path, rdiag};

/// What a recorded tree gives.
pub fn recording(story: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.json.gz");
    let root = path("tests/fixtures/hosts").join(story);
    rdiag().args(["record", "use-method", "--root"]).arg(root).arg("--out").arg(&file).assert().success();
    let packed = std::fs::read(file).unwrap();
    serde_json::to_value(rdiag_session::read_recording(&packed).unwrap()).unwrap()
}

/// A host's recording, under a name.
pub fn put(folder: &Path, recording: &Value, host: &str) {
    let mut own = recording.clone();
    own["host"]["hostname"] = json!(host);
    std::fs::write(folder.join(format!("{host}.json")), own.to_string()).unwrap();
}

pub fn rolled(folder: &Path, args: &[&str]) -> (Value, Option<i32>) {
    let output = rdiag().arg("fleet").arg(folder).args(["--format", "json"]).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}")), output.status.code())
}

pub fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["host"].as_str().unwrap()).collect()
}

#[test]
fn the_odd_host_is_named_and_what_cannot_be_used_is_listed_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (quiet, sick) = (recording("whole-host-quiet"), recording("whole-host-short-of-cpu"));
    for n in 0..9 {
        put(folder.path(), if n == 7 { &sick } else { &quiet }, &format!("web-{n}"));
    }
    let damaged: [(&str, &[u8]); 5] = [
        ("cut.json", &quiet.to_string().into_bytes()[..2000]),
        ("foreign.json", b"hello"),
        ("newer.json", br#"{"format_version": 99, "windows": []}"#),
        ("silent.json", b""),
        ("unpacked.json.gz", &[0x1f, 0x8b, 8, 0, 0, 0]),
    ];
    for (name, bytes) in damaged {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    std::fs::write(folder.path().join("expected"), "web-1\ndb-1\n# a comment\n").unwrap();
    let expected = folder.path().join("expected");
    let (fleet, code) = rolled(folder.path(), &["--expect", expected.to_str().unwrap()]);
    validate("fleet", &fleet);
    assert_eq!((fleet["judged"].as_u64(), code), (Some(9), Some(0)), "{}", fleet["headline"]);
    assert_eq!(names(&fleet["odd"]), ["web-7"]);
    let rules: Vec<&str> =
        fleet["odd"][0]["findings"].as_array().unwrap().iter().map(|one| one["rule"].as_str().unwrap()).collect();
    assert!(rules.contains(&"cpu.saturation") && rules.contains(&"cpu.utilization"), "{rules:?}");
    assert_eq!(fleet["odd"][0]["findings"][0]["culprit"], "stress-ng-cpu");
    assert!(fleet["common"].as_array().unwrap().is_empty());
    let gaps: Vec<(&str, &str)> = fleet["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| (gap["host"].as_str().unwrap(), gap["why"].as_str().unwrap()))
        .collect();
    let (gone, bad) = ("unreachable", "unreadable");
    let all = [("cut", bad), ("db-1", gone), ("foreign", bad), ("newer", bad), ("silent", gone), ("unpacked", bad)];
    assert_eq!(gaps, all);
    assert!(fleet["headline"].as_str().unwrap().starts_with("web-7 alone: CPU saturation"), "{}", fleet["headline"]);
}

#[test]
fn a_common_fault_is_told_once_and_groups_are_compared_within_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let (quiet, sick) = (recording("whole-host-quiet"), recording("whole-host-short-of-cpu"));
    for n in 0..5 {
        put(folder.path(), &sick, &format!("web-{n}"));
        put(folder.path(), &quiet, &format!("db-{n}"));
    }
    let (fleet, code) = rolled(folder.path(), &["--group", "web=web-*", "--group", "db=db-*", "--fail-on", "critical"]);
    assert_eq!(code, Some(1));
    let headline = fleet["headline"].as_str().unwrap();
    assert!(headline.starts_with("5 of 5 hosts of group web: CPU saturation, by stress-ng-cpu on 5"), "{headline}");
    assert!(fleet["odd"].as_array().unwrap().is_empty() && fleet["some"].as_array().unwrap().is_empty());
    assert_eq!(fleet["culprits"][0]["hosts"], 5);
    // Together, half of them have it.
    let (fleet, _) = rolled(folder.path(), &["--group-by", "arch"]);
    assert!(fleet["headline"].as_str().unwrap().starts_with("5 of 10 hosts: CPU saturation"), "{}", fleet["headline"]);
}

#[test]
fn without_a_host_to_judge_nothing_is_said_to_be_fine() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.json"), b"").unwrap();
    let (fleet, code) = rolled(folder.path(), &[]);
    assert_eq!((fleet["status"].as_str(), code), (Some("unknown"), Some(3)));
    assert_eq!(fleet["headline"], "1 of 1 not judged: a");
    let empty = tempfile::tempdir().unwrap();
    rdiag().arg("fleet").arg(empty.path()).assert().code(2);
    let absent = rdiag().args(["fleet", "nosuch", "nor-this"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(2), "{absent:?}");
    assert!(String::from_utf8_lossy(&absent.stderr).contains("reading nosuch: there is no such file"), "{absent:?}");
    // One of several is a host without a recording.
    let (fleet, _) = rolled(folder.path(), &["nosuch"]);
    assert_eq!(fleet["not_judged"].as_array().unwrap().len(), 2, "{fleet:#}");
}

#[test]
fn the_verdict_on_a_fleet_alone_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &recording("whole-host-quiet"), "web-1");
    for option in ["-q", "--quiet", "--summary"] {
        let verdict = "1 host: no common fault, and no host unlike the others\n";
        rdiag().arg("fleet").arg(folder.path()).arg(option).assert().success().stdout(verdict).stderr("");
    }
}

#[test]
fn a_page_is_written_with_a_link_to_the_report_beside_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = recording("whole-host-quiet");
    for n in 0..3 {
        put(folder.path(), &quiet, &format!("web-{n}"));
    }
    std::fs::write(folder.path().join("web-1.html"), "its own").unwrap();
    let page = folder.path().join("fleet.html");
    rdiag().arg("fleet").arg(folder.path()).arg("--out").arg(&page).assert().success().stdout("");
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("<a href=\"./web-1.html\">web-1</a>") && text.matches("<a href=\"./").count() == 1);
}

#[test]
fn a_folder_gets_the_own_reports_of_odd_and_sick_hosts_first_and_the_page_links_them() {
    let folder = tempfile::tempdir().unwrap();
    let (quiet, sick) = (recording("whole-host-quiet"), recording("whole-host-short-of-cpu"));
    let hosts = ["web 0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "web-7", "<b>web", "web-9"];
    for host in hosts {
        put(folder.path(), if host == "web-7" { &sick } else { &quiet }, host);
    }
    let out = folder.path().join("rolled");
    let roll = |args: &[&str]| {
        let output = rdiag().arg("fleet").arg(folder.path()).args(args).arg("--out").arg(&out).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut reports: Vec<String> = std::fs::read_dir(out.join("reports")).map_or_else(
            |_| vec![],
            |folder| folder.map(|file| file.unwrap().file_name().into_string().unwrap()).collect(),
        );
        reports.sort();
        (std::fs::read_to_string(out.join("fleet.html")).unwrap(), reports, String::from_utf8(output.stdout).unwrap())
    };
    let (page, reports, _) = roll(&["--reports", "0"]);
    assert!(reports.is_empty() && !page.contains("<a href=\"./reports/"));
    let (page, reports, verdict) = roll(&["--reports", "1", "-q"]);
    assert_eq!(reports, ["web-7.html"], "the odd one");
    assert!(
        page.contains("<a href=\"./reports/web-7.html\">web-7</a>") && verdict.starts_with("web-7 alone"),
        "{verdict}"
    );
    let (page, reports, _) = roll(&[]);
    assert_eq!(reports.len(), hosts.len(), "{reports:?}");
    assert!(page.contains("<a href=\"./reports/web_0.html\">web 0</a>") && page.contains("\"./reports/_b_web.html\""));
    let own = std::fs::read_to_string(out.join("reports/web-7.html")).unwrap();
    assert!(own.contains("web-7") && own.contains("CPU saturation"));
    let json: Value = serde_json::from_slice(&std::fs::read(out.join("fleet.json")).unwrap()).unwrap();
    assert!(json["hosts"].as_array().unwrap().iter().all(|row| row["report"].is_string()), "{:#}", json["hosts"]);
}

#[test]
fn a_folder_gets_a_file_for_each_format_and_a_name_that_contradicts_its_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &recording("whole-host-quiet"), "web-1");
    let out = folder.path().join("rolled");
    let fleet = |args: &[&str]| rdiag().arg("fleet").arg(folder.path()).args(args).arg("--out").arg(&out).assert();
    fleet(&[]).success().stdout("");
    fleet(&["--format", "term"]).success().stdout("");
    let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(text("fleet.html").contains("web-1") && text("fleet.md").starts_with("# Fleet"));
    assert!(serde_json::from_str::<Value>(&text("fleet.json")).is_ok() && !text("fleet.txt").contains('\x1b'));
    let page = folder.path().join("fleet.md");
    rdiag().arg("fleet").arg(folder.path()).args(["--format", "html", "--out"]).arg(&page).assert().code(2);
    assert!(!page.exists());
}

#[test]
fn a_reader_that_ends_costs_the_recording_that_it_was_at_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = recording("whole-host-quiet");
    put(folder.path(), &quiet, "before");
    put(folder.path(), &quiet, "behind");
    let at = |name: &str| folder.path().join(format!("{name}.json"));
    let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("rdiag"));
    run.arg("fleet").arg(at("before")).arg("/dev/stdin").arg(at("behind")).args(["--format", "json"]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"{").unwrap();
    // The reader is the child of a child; it waits for more of what it reads.
    let until = Instant::now() + Duration::from_secs(60);
    let reader = loop {
        assert!(Instant::now() < until, "there is no reader");
        let readers: Vec<u32> = children(run.id()).into_iter().flat_map(children).collect();
        let waits =
            |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|at| at.contains("pipe"));
        match readers.as_slice() {
            [reader] if waits(reader) || Instant::now() + Duration::from_secs(50) > until => break *reader,
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(reader.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    drop(stdin);
    let output = run.wait_with_output().unwrap();
    let fleet: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&fleet["hosts"]), ["before", "behind"]);
    assert_eq!(names(&fleet["not_judged"]), ["stdin"]);
    assert!(fleet["not_judged"][0]["detail"].as_str().unwrap().contains("its reader was ended by signal 9"));
}

#[test]
fn a_recording_of_which_more_is_to_be_said_than_a_line_takes_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = recording("whole-host-quiet");
    put(folder.path(), &quiet, "before");
    put(folder.path(), &quiet, "behind");
    let long = "x".repeat(17 << 20);
    let mut named = quiet.clone();
    named["host"]["hostname"] = json!(long);
    std::fs::write(folder.path().join("between.json"), named.to_string()).unwrap();
    let mut wrong = quiet;
    wrong["interrupted"] = json!(long);
    std::fs::write(folder.path().join("beside.json"), wrong.to_string()).unwrap();
    let (fleet, code) = rolled(folder.path(), &[]);
    assert_eq!((names(&fleet["hosts"]), code), (vec!["before", "behind"], Some(0)));
    assert_eq!(names(&fleet["not_judged"]), ["beside", "between"]);
    assert!(fleet["not_judged"][1]["detail"].as_str().unwrap().ends_with("takes more than 16 MiB"));
    let rows = rdiag().arg("fleet").arg(folder.path()).args(["--format", "rows"]).output().unwrap();
    let runs = String::from_utf8(rows.stdout).unwrap().lines().filter(|line| line.contains(r#""tbl":"runs""#)).count();
    assert_eq!((runs, rows.status.code()), (4, Some(0)), "{}", String::from_utf8_lossy(&rows.stderr));
}

#[test]
fn no_name_in_a_recording_acts_in_what_is_said_of_a_fleet() {
    const NAME: &str = "\u{1b}[2J\u{202e}\nFORGED: <b>x</b> [y](javascript:z) \"onmouseover='z'";
    let folder = tempfile::tempdir().unwrap();
    let sick = recording("whole-host-short-of-cpu");
    for n in 0..6 {
        let quoted = json!(NAME).to_string();
        let text = sick.to_string().replace("stress-ng-cpu", &quoted[1..quoted.len() - 1]);
        let mut own: Value = serde_json::from_str(&text).unwrap();
        own["host"]["hostname"] = json!(NAME);
        own["host"]["kernel"] = json!(NAME);
        own["started"] = json!(format!("{NAME}{n}"));
        std::fs::write(folder.path().join(format!("{n}.json")), own.to_string()).unwrap();
    }
    for format in ["term", "md", "html", "json"] {
        let output = rdiag().arg("fleet").arg(folder.path()).args(["--format", format]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("FORGED"), "{format}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{format}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("FORGED")), "{format}: {text}");
        assert!(!["md", "html"].contains(&format) || !text.contains("<b>x"), "{format}");
        assert!(format != "md" || !text.replace("\\]", "").contains("](javascript"), "{text}");
        assert!(format != "html" || !text.contains("onmouseover='"), "{text}");
    }
}

/// The commands of a document, block by block.
fn commands(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path(document)).unwrap();
    text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn each_command_of_the_page_on_fleets_does_what_it_says() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = |name: &str, text: &str| {
        std::fs::write(bin.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let (program, trees) = (rdiag().get_program().to_owned(), path("tests/fixtures/hosts"));
    script("rdiag", &format!("exec {} \"$@\" $TREE", program.display()));
    // Two hosts answer, each with a tree of its own.
    let quiet = trees.join("whole-host-quiet");
    script(
        "ssh",
        &format!(
            "while [ \"$1\" = -o ]; do shift 2; done\ncase $1 in web-3) echo 'no route to host' >&2; exit 255;; esac\n\
             shift; TREE='--root {}'; export TREE; exec sh -c \"$*\"",
            quiet.display()
        ),
    );
    let blocks = commands("docs/fleet.md");
    assert!(blocks.len() >= 6, "{blocks:?}");
    let mut said = String::new();
    for block in &blocks {
        let mut run = std::process::Command::new("sh");
        let own = std::env::var("PATH").unwrap_or_default();
        run.args(["-ec", block]).current_dir(folder.path()).env("PATH", format!("{}:{own}", bin.display()));
        run.env("NO_COLOR", "1").env("XDG_CONFIG_HOME", "/nonexistent").env_remove("TREE");
        let output = run.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}: {error}");
        said += &String::from_utf8_lossy(&output.stdout);
    }
    for part in ["1 of 3 not judged: web-3", "# Fleet:", "runs/web-3.json.gz: the file is empty", "No bottleneck found"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(std::fs::read_to_string(folder.path().join("fleet.html")).unwrap().contains("Hosts and resources"));
    let made = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    for name in ["rolled-up/fleet.html", "rolled-up/fleet.md", "rolled-up/fleet.json"] {
        assert!(made(name).contains("web-3"), "{name}");
    }
    assert!(
        made("rolled-up/fleet.html").contains("./reports/web-1.html")
            && made("rolled-up/reports/web-1.html").contains("<html")
    );
    let rows: Vec<Value> = made("fleet.ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.iter().filter(|row| row["tbl"] == "runs").count(), 3, "two hosts, and the one that is missing");
}

const SCRIPTS: [(&str, &str); 4] = [
    ("Other transports", "tests/transports/check.py"),
    ("Ansible", "tests/ansible/check.py"),
    ("Kubernetes", "tests/kubernetes/check.py"),
    ("A bucket of recordings, and a history", "tests/spark/check.py"),
];

#[test]
fn each_command_of_the_page_that_is_not_run_here_is_run_by_a_script_of_the_full_proof() {
    let [page, full] = ["docs/fleet.md", ".ci/full"].map(|file| std::fs::read_to_string(path(file)).unwrap());
    let sections: Vec<&str> = page.split("\n## ").filter(|section| section.contains("```bash\n")).collect();
    let titles: Vec<&str> = sections.iter().map(|section| section.lines().next().unwrap()).collect();
    for (section, title) in sections.iter().zip(&titles) {
        let (_, script) =
            SCRIPTS.iter().find(|(known, _)| known == title).unwrap_or_else(|| panic!("{title} is run by no script"));
        let text = std::fs::read_to_string(path(script)).unwrap();
        let asks = text.contains(&format!("blocks(\"{title}\")")) || text.contains(&format!("SECTION = \"{title}\""));
        assert!(asks && full.contains(script), "{script} and {title}");
        // A block of more would be no error of a script that takes the first; the second of Kubernetes is tests/kubernetes/daemons.py's.
        let known = BTreeMap::from([("Other transports", 3), ("Kubernetes", 2)]);
        assert_eq!(section.matches("```bash\n").count(), known.get(title).copied().unwrap_or(1), "{title}");
    }
    assert_eq!(titles.len(), SCRIPTS.len());
    // Within sentences stand names and options, and no command of which nothing is known.
    let prose: String = page.split("```").step_by(2).collect();
    let words: Vec<&str> = prose.split('`').skip(1).step_by(2).collect();
    let with_options = |words: &&&str| words.contains(" -") && !words.starts_with('-');
    let commands: Vec<&&str> = words.iter().filter(with_options).collect();
    assert_eq!(commands, [&"rdiag run use-method --pod NAMESPACE/POD"], "tests/one_group.rs runs this one");
}

/// `reports/examples/fleet-of-200/`: 200 hosts of which 150 are short of CPUs, one alone is short of memory, and three have sent nothing. The report of
/// that one is linked.
#[test]
fn the_example_of_200_hosts_is_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    std::fs::create_dir(&runs).unwrap();
    let [quiet, busy, thrashing] =
        ["whole-host-quiet", "whole-host-short-of-cpu", "memory-thrashing-5.4"].map(recording);
    for n in 0..200 {
        let name = format!("web-{n:03}");
        match n {
            60..=62 => std::fs::write(runs.join(format!("{name}.json")), b"").unwrap(),
            117 => put(&runs, &thrashing, &name),
            _ if n % 4 == 0 => put(&runs, &quiet, &name),
            _ => put(&runs, &busy, &name),
        }
    }
    let args = ["fleet", "runs", "--format", "html,md", "--reports", "1", "--out", "pages"];
    rdiag().current_dir(folder.path()).args(args).assert().success();
    for file in ["fleet.html", "fleet.md", "reports/web-117.html"] {
        let fresh = std::fs::read_to_string(folder.path().join("pages").join(file)).unwrap();
        let kept = path("reports/examples/fleet-of-200").join(file);
        assert!(fresh.len() < 300_000, "{file} has {} bytes", fresh.len());
        if std::env::var_os("RDIAG_BLESS").is_some() {
            std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
            std::fs::write(&kept, &fresh).unwrap();
        }
        let committed = std::fs::read_to_string(&kept).unwrap_or_default();
        assert!(committed == fresh, "{} is stale; run RDIAG_BLESS=1 cargo test fleet", kept.display());
    }
}
