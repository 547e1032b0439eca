//! Who may import whom. A new edge is a decision about the architecture, not a detail: see ARCHITECTURE.md.

mod knots;

use crate::support::path;

/// The crates below src/ and those of rdiag that their `Cargo.toml` may name for what is built (tests may look further). The rest is the
/// compiler's.
const CRATES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("proc", &[]),
    ("kernel", &["model", "proc"]),
    ("collectors", &["kernel", "model", "proc"]),
    ("probes", &["kernel", "model", "proc"]),
    ("judge", &["model"]),
    ("fleet", &["model"]),
    ("history", &["model"]),
    ("playbook", &["judge", "model"]),
    ("report", &["fleet", "model"]),
    ("session", &["collectors", "history", "judge", "kernel", "model", "playbook", "probes", "proc", "report"]),
    ("lab/own", &["kernel", "proc"]),
    ("lab", &["kernel", "model", "own", "playbook", "proc", "report", "session"]),
];

/// Within a crate: the folder, and the others that it may import. A crate with one folder is named by itself.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kernel/classify", &["model"]),
    ("kernel/host", &["model", "proc"]),
    ("kernel/mechanism", &["host", "model", "proc"]),
    ("judge/metrics", &["model"]),
    ("judge/profile", &["model"]),
    ("judge/rules", &["model"]),
    (
        "cli",
        &[
            "lab",
            "session",
            "report",
            "playbook",
            "history",
            "collectors",
            "probes",
            "profile",
            "mechanism",
            "fleet",
            "host",
            "model",
            "proc",
        ],
    ),
    // What changes the host is behind no door that a production host has: exercises alone know it.
    ("lab", &["session", "report", "playbook", "own", "host", "model", "proc"]),
    ("lab/own", &["host", "proc"]),
    ("playbook", &["profile", "rules", "model"]),
    (
        "session",
        &[
            "report",
            "playbook",
            "history",
            "collectors",
            "probes",
            "mechanism",
            "metrics",
            "profile",
            "rules",
            "host",
            "model",
            "proc",
        ],
    ),
];

/// Crates that have one home.
const HOMES: &[(&str, &[&str])] = &[
    ("clap", &["cli"]),
    ("indicatif", &["cli/measure/progress.rs", "cli/ui.rs"]),
    ("serde_yaml", &["playbook/load.rs", "playbook/build.rs"]),
    ("minijinja", &["judge/rules", "report"]),
    ("sysinfo", &["kernel/host/facts.rs"]),
    ("procfs", &["proc"]),
    (
        "flate2",
        &[
            "session/store.rs",
            "session/past/elsewhere/packed.rs",
            "history/frame.rs",
            "playbook/build.rs",
            "cli/fleet/stream.rs",
        ],
    ),
    ("lzma_rust2", &["session/past/elsewhere/packed.rs"]),
    ("tar", &["session/past/elsewhere/archive.rs"]),
    ("quick_xml", &["session/past/elsewhere/sysstat/xml.rs"]),
    ("landlock", &["kernel/host/confine"]),
    ("seccompiler", &["kernel/host/confine"]),
    ("aya", &["kernel/mechanism/ebpf"]),
    ("blazesym", &["kernel/mechanism/symbols"]),
    (
        "object",
        &[
            "kernel/mechanism/points/binaries.rs",
            "kernel/mechanism/points/bounds.rs",
            "kernel/mechanism/points/go.rs",
            "kernel/mechanism/points/returns.rs",
            "kernel/mechanism/ebpf/types",
            "kernel/mechanism/symbols/reader/copy.rs",
            "kernel/mechanism/symbols/interpreted",
        ],
    ),
    ("perf_event_open_sys", &["kernel/mechanism/perf"]),
    ("syscall_numbers", &["kernel/classify", "probes/calls.rs"]),
];

#[test]
fn no_line_is_longer_than_140_columns() {
    let mut wrong = Vec::new();
    for (name, text) in all_sources() {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.chars().count() > 140) {
            wrong.push(format!("src/{name}:{}: {} columns", number + 1, line.chars().count()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tables whose columns stand apart from what fills them, which is where a cell comes under the wrong head. `TableSpec` has both in one line.
const PUT_TOGETHER: &[&str] = &["collectors/blocked_tasks/sightings.rs"];
/// What makes them of a declaration; of events it adds when each was.
const MAKE_THEM: &[&str] = &["probes/table.rs", "probes/stream.rs"];

#[test]
fn what_is_measured_is_shown_in_tables_that_declare_their_columns() {
    let by_hand = ["columns: vec![", "Column::text(", "Column::number(", ".rows.push("];
    let is_measured = |name: &str| name.starts_with("probes/") || name.starts_with("collectors/");
    let files = sources().into_iter().filter(|(name, _)| is_measured(name) && !MAKE_THEM.contains(&name.as_str()));
    let found: Vec<String> =
        files.filter(|(_, text)| by_hand.iter().any(|sign| text.contains(sign))).map(|(name, _)| name).collect();
    assert_eq!(found, PUT_TOGETHER, "src/: declare the table by TableSpec; what is listed in vain has been mended");
}

/// What is built, without its tests: they may look further than the code they test.
fn sources() -> Vec<(String, String)> {
    let is_built = |(name, _): &(String, String)| !name.ends_with("tests.rs") && !name.ends_with("testing.rs");
    let without_tests = |(name, text): (String, String)| (name, without_tests(&text).to_owned());
    all_sources().into_iter().filter(is_built).map(without_tests).collect()
}

fn all_sources() -> Vec<(String, String)> {
    fn walk(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = path("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    let read = |file: std::path::PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        (name, text)
    };
    files.into_iter().map(read).collect()
}

/// A file but for its module of tests; one that only declares such a module goes on behind it.
fn without_tests(text: &str) -> &str {
    let ends_in_tests = |(at, _): &(usize, &str)| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    text.match_indices("#[cfg(test)]\nmod ").find(ends_in_tests).map_or(text, |(at, _)| &text[..at])
}

/// The folder of the crate that a file is of; none for one of `rdiag` itself.
fn crate_of(name: &str) -> Option<&'static str> {
    CRATES.iter().map(|(folder, _)| *folder).find(|folder| name.starts_with(&format!("{folder}/")))
}

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    for (name, allowed) in CRATES {
        let manifest = std::fs::read_to_string(path(&format!("src/{name}/Cargo.toml"))).unwrap();
        let built = manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or("");
        let own: Vec<&str> = built.lines().filter_map(|line| line.strip_prefix("rdiag-")?.split('.').next()).collect();
        assert_eq!(own, *allowed, "src/{name}/Cargo.toml: its rooms, sorted");
    }
}

#[test]
fn modules_import_only_what_the_architecture_allows() {
    let folder_of = |name: &str| {
        let mut parts = name.split('/');
        match (crate_of(name), parts.next(), parts.next(), parts.next()) {
            (Some(own), ..) if ALLOWED.iter().any(|(of, _)| *of == own) => Some(own.to_owned()),
            (Some("kernel" | "judge"), Some(top), Some(folder), Some(_)) => Some(format!("{top}/{folder}")),
            (None, Some(top), Some(_), _) => Some(top.to_owned()),
            _ => None,
        }
    };
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let Some(folder) = folder_of(&name) else { continue };
        let allowed = ALLOWED.iter().find(|(of, _)| *of == folder);
        let Some((_, allowed)) = allowed else { panic!("src/{folder} is not in the table of this test") };
        let own = folder.rsplit('/').next().unwrap();
        // Where the crate has one room, none of its modules is another one.
        let within = if crate_of(&name) == Some(folder.as_str()) { text.replace("crate::", "") } else { text };
        for (number, line) in within.lines().enumerate() {
            for target in imported(line) {
                if target != own && !allowed.contains(&target.as_str()) {
                    wrong.push(format!("src/{name}:{}: {folder} imports {target}", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What stood at the root of such a crate could be imported past the table by all who import any room of it.
#[test]
fn a_crate_of_several_rooms_shows_none_of_their_insides_at_its_root() {
    for root in ["lib.rs", "kernel/lib.rs", "judge/lib.rs"] {
        let text = std::fs::read_to_string(path("src").join(root)).unwrap();
        let shown = text.lines().find(|line| line.trim_start().starts_with("pub use "));
        assert_eq!(shown, None, "src/{root}: name it in its room, where those are held to the table who import it");
    }
}

/// The rooms that a line names: `report` of `crate::report::html`, `model` of `rdiag_model::Unit`, `host` of `rdiag_kernel::host::Host`.
fn imported(line: &str) -> Vec<String> {
    let mut line = line.to_owned();
    for reach in ["rdiag_kernel::", "rdiag_judge::", "crate::", "rdiag_"] {
        line = line.replace(reach, "@");
    }
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let is_room = |name: &String| CRATES.iter().chain(ALLOWED).any(|(room, _)| room.rsplit('/').next() == Some(name));
    line.split('@').skip(1).map(word).filter(is_room).collect()
}

#[test]
fn outside_crates_stay_in_their_home() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        for (krate, homes) in HOMES {
            let used = text.contains(&format!("use {krate}::")) || text.contains(&format!(" {krate}::"));
            if used && !homes.iter().any(|home| name == *home || name.starts_with(&format!("{home}/"))) {
                wrong.push(format!("src/{name} uses {krate}, whose home is {}", homes.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
