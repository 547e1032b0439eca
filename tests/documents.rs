//! What documents and comments point at exists: a pointer that leads nowhere costs a reader more than none.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{files_below, path};

/// The folders that paths in Markdown begin with.
const FOLDERS: [&str; 8] = [".ci/", "benches/", "docs/", "lab-scenarios/", "playbooks/", "reports/", "src/", "tests/"];
/// Where sources are.
const OF_SOURCES: [&str; 2] = ["src", "tests"];
const KINDS_OF_SOURCES: [&str; 4] = [".rs", ".h", ".c", ".md"];

/// The words in backticks and in blocks of code.
fn words_of_code(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split('`').skip(1).step_by(2);
    code.flat_map(str::split_whitespace).map(|word| word.trim_matches(['.', ',', ';', ':', '(', ')', '"', '\'']))
}

/// As much of a path as is meant as it stands: `src/collectors` of `src/collectors/NAME.rs`.
fn without_stand_ins(word: &str) -> String {
    let two_capitals = |part: &str| part.as_bytes().windows(2).any(|two| two.iter().all(u8::is_ascii_uppercase));
    let is_real = |part: &&str| part.ends_with(".md") || !(part.contains(['*', '{', '…']) || two_capitals(part));
    word.split('/').take_while(is_real).collect::<Vec<_>>().join("/")
}

#[test]
fn every_path_that_a_document_names_exists() {
    let mut documents: BTreeSet<String> = BTreeSet::new();
    for folder in ["docs", "benches", "lab-scenarios", "src"] {
        files_below(folder, &mut documents);
    }
    for entry in std::fs::read_dir(path("")).unwrap() {
        documents.insert(entry.unwrap().file_name().into_string().unwrap());
    }
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for document in documents.iter().filter(|name| name.ends_with(".md")) {
        let text = std::fs::read_to_string(path(document)).unwrap();
        let named = words_of_code(&text).filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
        for word in named {
            seen += 1;
            if !path(&without_stand_ins(word)).exists() {
                wrong.push(format!("{document}: {word}"));
            }
        }
    }
    assert!(wrong.is_empty() && seen > 100, "{seen} paths, of which these do not exist:\n{}", wrong.join("\n"));
}

#[test]
fn every_source_that_a_comment_names_exists() {
    let mut files: BTreeSet<String> = BTreeSet::new();
    for folder in OF_SOURCES {
        files_below(folder, &mut files);
    }
    let exists = |word: &str| {
        path(word).exists() || files.iter().any(|file| file.strip_suffix(word).is_some_and(|rest| rest.ends_with('/')))
    };
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files.iter().filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "rs")) {
        let text = std::fs::read_to_string(path(file)).unwrap();
        let comments = text.lines().map(str::trim).filter(|line| line.starts_with("//"));
        for word in comments.flat_map(words_of_code) {
            // What begins with `include/` is mostly a header of the kernel's.
            let is_source = KINDS_OF_SOURCES.iter().any(|kind| word.ends_with(kind)) && !word.starts_with("include/");
            let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
            if is_source && is_plain && without_stand_ins(word) == word {
                seen += 1;
                if !exists(word) {
                    wrong.push(format!("{file}: {word}"));
                }
            }
        }
    }
    assert!(wrong.is_empty() && seen > 30, "{seen} sources, of which these do not exist:\n{}", wrong.join("\n"));
}
