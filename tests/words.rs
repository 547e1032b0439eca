//! What rdiag says, and what its sources say of it, is the plain English of the field. Whole words of `src/playbook/words/banned.rs` count, in
//! sentences only: comments and texts of the code, documents, playbooks, exercises, templates of reports.

use std::collections::BTreeSet;

use rdiag_playbook::words::banned;

use crate::support::{files_below, path};

const FOLDERS: [&str; 6] = ["docs", "lab-scenarios", "packaging", "playbooks", "reports/templates", "src"];
const DOCUMENTS: [&str; 4] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
const KINDS: [&str; 6] = [".html", ".md", ".rs", ".service", ".sh", ".yaml"];
/// The list itself, and its tests.
const LISTED: [&str; 2] = ["src/playbook/words/banned.rs", "src/playbook/words/tests.rs"];
/// Messages of the kernel, which are matched as they are.
const OF_THE_KERNEL: [&str; 1] = ["nobody cared"];

/// The comments and string literals of Rust code, on the lines on which they stand. Names are what the code calls things, not sentences.
fn sentences_of_code(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (sentence, length) = token(rest, first);
        let (token, after) = rest.split_at(length);
        for c in token.chars() {
            kept.push(if sentence || c == '\n' { c } else { ' ' });
        }
        rest = after;
    }
    kept
}

/// Whether code begins with a comment or a string literal, and how long that is; else the length of what it begins with.
fn token(code: &str, first: char) -> (bool, usize) {
    let up_to = |end: &str, from: usize| code[from..].find(end).map_or(code.len(), |at| from + at + end.len());
    if code.starts_with("//") {
        return (true, code.find('\n').unwrap_or(code.len()));
    }
    if code.starts_with("/*") {
        return (true, up_to("*/", 2));
    }
    if first == '"' {
        return (true, quoted(code, '"'));
    }
    let hashes = code.strip_prefix('r').map(|after| after.len() - after.trim_start_matches('#').len());
    if let Some(hashes) = hashes.filter(|hashes| code[1 + hashes..].starts_with('"')) {
        return (true, up_to(&format!("\"{}", "#".repeat(hashes)), hashes + 2));
    }
    if first == '\'' {
        // A lifetime has no quote behind it.
        let is_character = code.starts_with("'\\") || code.chars().nth(2) == Some('\'');
        return (false, if is_character { quoted(code, '\'') } else { 1 });
    }
    if first.is_alphanumeric() || first == '_' {
        let end = code.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(code.len());
        // `br"…"` and `c"…"` are read as a name and a text.
        return (false, end);
    }
    (false, first.len_utf8())
}

/// The length of what is in these quotes.
fn quoted(code: &str, quote: char) -> usize {
    let mut is_escaped = true;
    for (at, c) in code.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    code.len()
}

/// The lines of a playbook without `because`: it is proven with its condition, so a change of it makes proofs stale.
fn without_because(text: &str) -> String {
    let mut within = None;
    let lines = text.lines().map(|line| {
        let depth = line.len() - line.trim_start().len();
        within = within.filter(|above| depth > *above || line.trim().is_empty());
        if within.is_none() && line.trim_start().starts_with("because:") {
            within = Some(depth);
        }
        if within.is_some() { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line without names: what stands in backticks. A name with underscores stays one word.
fn without_names(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_open = parts.len().is_multiple_of(2);
    let outside = parts.iter().enumerate().filter(|(at, _)| at % 2 == 0 || (is_open && at + 1 == parts.len()));
    let text = outside.map(|(_, part)| *part).collect::<Vec<_>>().join(" ");
    let text = text.replace('_', "-").replace("\\n", " ");
    OF_THE_KERNEL.iter().fold(text, |text, said| text.replace(said, ""))
}

/// Line, phrase and what to write instead; a phrase may go over the end of a line.
fn found_in(name: &str, text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let text = match name.rsplit('.').next() {
        Some("rs") => sentences_of_code(text),
        Some("yaml") => without_because(text),
        _ => text.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(without_names).collect();
    // Braces hide what a template puts in, which is known line by line.
    if banned(&lines.join(" ").replace(['{', '}'], " ")).next().is_none() {
        return Vec::new();
    }
    let mut found = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or("", String::as_str);
        let of_next: BTreeSet<_> = banned(next).collect();
        let across = banned(&format!("{line} {next}")).filter(|one| !of_next.contains(one)).collect::<Vec<_>>();
        found.extend(banned(line).chain(across).map(|(phrase, instead)| (at + 1, phrase, instead)));
    }
    found.into_iter().collect()
}

#[test]
fn no_sentence_uses_a_word_that_engineers_do_not() {
    let mut files: BTreeSet<String> = DOCUMENTS.map(str::to_owned).into();
    for folder in FOLDERS {
        files_below(folder, &mut files);
    }
    let is_read = |name: &&String| KINDS.iter().any(|kind| name.ends_with(kind)) && !LISTED.contains(&name.as_str());
    let read = files.iter().filter(is_read);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for name in read {
        seen += 1;
        for (line, phrase, instead) in found_in(name, &std::fs::read_to_string(path(name)).unwrap()) {
            wrong.push(format!("{name}:{line}: {phrase:?}: {instead}"));
        }
    }
    assert!(wrong.is_empty() && seen > 500, "{seen} files, in which these words stand:\n{}", wrong.join("\n"));
}

#[test]
fn words_are_found_in_comments_and_texts_and_not_in_names() {
    let lines =
        |name: &str, text: &str| found_in(name, text).iter().map(|found| (found.0, found.1)).collect::<Vec<_>>();
    let code = "fn whom(nobody: &'static str) -> char {\n    // Whoever `whom` is,\n    let to = r#\"told\n    apart\"#;\n    '\"'\n}\n";
    assert_eq!(lines("a.rs", code), [(2, "whoever"), (3, "told apart")]);
    assert_eq!(lines("a.rs", "let a = \"\\\"nobody\\\"\"; // for_whom"), [(1, "nobody")]);
    assert!(lines("a.rs", "line(\"^irq \", \": nobody cared\")").is_empty(), "the kernel's own words");
    assert_eq!(lines("a.md", "In\nvain, `nobody`, for_whom {{ whom }}"), [(1, "in vain")]);
    assert_eq!(lines("a.yaml", "a:\n  because: >-\n    nobody\n  says: whoever"), [(4, "whoever")]);
}
