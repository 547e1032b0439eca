//! Who may import whom. A new edge is a decision about the architecture, not a detail: see ARCHITECTURE.md.

use crate::support::path;

/// Folder of src/, and the folders that it may import.
const ALLOWED: &[(&str, &[&str])] = &[
    ("classify", &["model"]),
    ("cli", &["lab", "session", "report", "host", "playbook", "collectors", "probes", "model"]),
    ("collectors", &["classify", "mechanism", "host", "model"]),
    ("host", &["model"]),
    ("lab", &["session", "report", "playbook", "host", "model"]),
    ("mechanism", &["host", "model"]),
    ("metrics", &["model"]),
    ("model", &[]),
    ("playbook", &["rules", "model"]),
    ("probes", &["classify", "mechanism", "host", "model"]),
    ("profile", &["model"]),
    ("report", &["model"]),
    ("rules", &["model"]),
    ("session", &["playbook", "collectors", "probes", "mechanism", "metrics", "profile", "rules", "host", "model"]),
];

/// Crates that have one home.
const HOMES: &[(&str, &[&str])] = &[
    ("clap", &["cli"]),
    ("indicatif", &["cli/ui.rs", "cli/run.rs"]),
    ("serde_yaml", &["playbook/load.rs"]),
    ("minijinja", &["rules", "report", "model"]),
    ("sysinfo", &["host/facts.rs"]),
    ("procfs", &["collectors"]),
    ("plotters", &["report"]),
    ("flate2", &["session/store.rs"]),
    ("aya", &["mechanism/ebpf"]),
    ("blazesym", &["mechanism/symbols"]),
    ("object", &["mechanism/points/binaries.rs", "mechanism/ebpf/types"]),
    ("perf_event_open_sys", &["mechanism/perf"]),
    ("syscall_numbers", &["classify", "probes/calls.rs"]),
];

fn sources() -> Vec<(String, String)> {
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
        (name, text.split("#[cfg(test)]\nmod ").next().unwrap_or("").to_owned())
    };
    // Unit tests may look further than the code they test.
    files
        .into_iter()
        .map(read)
        .filter(|(name, _)| !name.ends_with("tests.rs") && !name.ends_with("testing.rs"))
        .collect()
}

#[test]
fn modules_import_only_what_the_architecture_allows() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let Some((folder, _)) = name.split_once('/') else { continue };
        let allowed = ALLOWED.iter().find(|(of, _)| *of == folder);
        let Some((_, allowed)) = allowed else { panic!("src/{folder} is not in the table of this test") };
        for (number, line) in text.lines().enumerate() {
            for (after, _) in line.match_indices("crate::").map(|(at, found)| (at + found.len(), ())) {
                let target: String = line[after..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let known = ALLOWED.iter().any(|(of, _)| *of == target);
                if known && target != folder && !allowed.contains(&target.as_str()) {
                    wrong.push(format!("src/{name}:{}: {folder} imports {target}", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
