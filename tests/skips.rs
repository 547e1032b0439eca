//! A test that cannot run says so by `skip`, and in no other way: a bare `return` would pass for nothing.

use std::path::{Path, PathBuf};

use crate::support::path;

/// What skips by itself where it says no.
const GATES: &[&str] =
    &["has(", "ready", "can_trace(", "kernel_can(", "kernel_has_", "has_kprobes(", "has_markers(", "has_headers("];

/// Files in which `return` ends something else than a test, with how often: a loop of a guard, a test that has both outcomes, or one whose
/// program says by `skip` that it cannot be made.
const OTHERWISE: &[(&str, usize)] =
    &[("privileged/code_of_node.rs", 2), ("privileged/memory.rs", 1), ("privileged/probes_hardware.rs", 1)];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Lines that end a function without a value right after something that is no gate.
fn bare_returns(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_bare = |(at, line): &(usize, &&str)| {
        let line = line.trim();
        if line.contains("else { return }") {
            return true;
        }
        // The condition may go over some lines.
        let mut before: Vec<&str> = Vec::new();
        for line in lines.iter().take(*at).rev().take(10) {
            before.push(line);
            if line.trim_start().starts_with("if ") {
                break;
            }
        }
        line == "return;" && !before.iter().any(|line| GATES.iter().any(|gate| line.contains(gate)))
    };
    lines.iter().enumerate().filter(is_bare).map(|(at, line)| format!("{}: {}", at + 1, line.trim())).collect()
}

#[test]
fn whatever_cannot_run_here_is_skipped_by_the_one_function_for_it() {
    let root = path("");
    let mut files = Vec::new();
    ["tests", "src"].iter().for_each(|folder| sources(&root.join(folder), &mut files));
    let mut wrong = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        let printed = |line: &&str| line.contains("println!(\"SKIP") || line.contains("println!(\"skip");
        if name != "tests/skips.rs" && text.lines().any(|line| printed(&line)) {
            wrong.push(format!("{name} prints that it skips"));
        }
        let is_other = name == "tests/skips.rs" || name.starts_with("tests/support/");
        let Some(name) = name.strip_prefix("tests/").filter(|_| !is_other) else { continue };
        let bare = bare_returns(&text);
        let expected = OTHERWISE.iter().find(|(file, _)| *file == name).map_or(0, |(_, often)| *often);
        if bare.len() != expected {
            wrong.push(format!("{name} returns without a word: {bare:?}"));
        }
    }
    assert!(wrong.is_empty(), "use support::skip:\n{}", wrong.join("\n"));
}

#[test]
fn a_bare_return_is_found() {
    assert_eq!(bare_returns("if !has(&[Need::Root]) {\n    return;\n}"), Vec::<String>::new());
    assert_eq!(bare_returns("if !has(&[\n    Need::Root,\n    X,\n]) {\n    return;\n}"), Vec::<String>::new());
    assert_eq!(bare_returns("if cpus() < 2 {\n    return;\n}").len(), 1);
    assert_eq!(bare_returns("let Some(group) = Group::new() else { return };").len(), 1);
}
