//! What proves each rule: docs/detection.md says which test induces the fault that the rule is for, and which judges a recorded
//! host by it. `RDIAG_BLESS=1 cargo test detection` writes it anew.

mod rates;
mod seen;
mod symptoms;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::support::path;

/// Calls whose arguments are rules that may fire as well, which proves nothing.
const ALLOWING: [&str; 2] = ["assert_nothing_else_fired(", "report_fired("];

/// Calls that judge a whole host.
const JUDGING: [&str; 6] =
    ["recorded_report(", "report_of_tree(", "live_report(", "live_report_every(", "report_told(", ".report("];

/// Ids of all rules, by the file that holds them.
pub(crate) fn rules() -> Vec<String> {
    let mut ids = Vec::new();
    for file in sorted("playbooks/rules", "yaml") {
        let text = std::fs::read_to_string(&file).unwrap();
        ids.extend(text.lines().filter_map(|line| line.strip_prefix("- id: ")).map(|id| id.trim().to_owned()));
    }
    ids
}

/// Files below a folder.
fn sorted(folder: &str, extension: &str) -> Vec<std::path::PathBuf> {
    let mut folders = vec![path(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|own| own == extension) {
                files.push(entry);
            }
        }
    }
    files.sort();
    files
}

/// The module of a file of tests, without that of the folder.
fn module(file: &std::path::Path, folder: &str) -> String {
    let below = file.strip_prefix(path(folder)).unwrap().with_extension("");
    let parts: Vec<_> = below.iter().map(|part| part.to_str().unwrap()).filter(|part| *part != "mod").collect();
    parts.join("::")
}

/// A function of a file of tests, or a constant, which may hold the names of rules as well.
struct Function {
    name: String,
    is_test: bool,
    body: String,
}

/// The functions of a file, as far as their text begins and ends at the beginning of a line.
fn functions(text: &str) -> Vec<Function> {
    let mut found: Vec<Function> = Vec::new();
    let (mut is_test, mut is_inside) = (false, false);
    for line in text.lines() {
        if line == "#[test]" {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ").or_else(|| line.strip_prefix("pub fn ")) {
            let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
            found.push(Function { name, is_test: std::mem::take(&mut is_test), body: String::new() });
            is_inside = true;
        } else if let Some((name, _)) = line.strip_prefix("const ").and_then(|rest| rest.split_once(':')) {
            found.push(Function { name: name.to_owned(), is_test: false, body: format!("{line}\n") });
            is_inside = !line.ends_with(';');
        } else if line.starts_with('}') || line.starts_with("];") {
            is_inside = false;
        } else if let (true, Some(function)) = (is_inside, found.last_mut()) {
            function.body.push_str(line);
            function.body.push('\n');
        }
    }
    found
}

/// The text without the arguments of calls that only allow rules to fire.
fn without_allowing(body: &str) -> String {
    let mut kept = body.to_owned();
    for call in ALLOWING {
        while let Some(at) = kept.find(call) {
            let end = kept[at..].find(';').map_or(kept.len(), |length| at + length);
            kept.replace_range(at..end, "");
        }
    }
    kept
}

/// Whether a text uses a function or a constant.
fn uses(text: &str, helper: &str) -> bool {
    let is_part = |other: Option<char>| other.is_some_and(|other| other.is_alphanumeric() || other == '_');
    let is_constant =
        helper.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
    text.match_indices(helper).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + helper.len()..].chars().next());
        !is_part(before) && if is_constant { !is_part(after) } else { after == Some('(') }
    })
}

/// By rule, the exercises in which `rdiag` must find it: the test of each has it do so.
fn exercises() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sorted("lab-scenarios", "yaml") {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in text.lines() {
            let Some(rest) = line.trim().strip_prefix("- {rule: ") else { continue };
            let rule = rest.split([',', '}']).next().unwrap_or_default();
            found
                .entry(rule.to_owned())
                .or_default()
                .insert(format!("lab {}", file.file_stem().unwrap().to_str().unwrap()));
        }
    }
    found
}

/// By rule, the tests of a folder that name it: in their own text, or in that of a function or constant of their file that they use.
fn naming(folder: &str, rules: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sorted(folder, "rs") {
        let stem = module(&file, folder);
        let all = functions(&std::fs::read_to_string(&file).unwrap());
        let texts: Vec<String> = all.iter().map(|function| without_allowing(&function.body)).collect();
        for (function, text) in all.iter().zip(&texts).filter(|(function, _)| function.is_test) {
            let helpers = all.iter().zip(&texts).filter(|(helper, _)| !helper.is_test && uses(text, &helper.name));
            let whole = helpers.fold(text.clone(), |whole, (_, helper)| whole + helper);
            for rule in rules.iter().filter(|rule| whole.contains(&format!("\"{rule}\""))) {
                tests.entry(rule.clone()).or_default().insert(format!("{stem}::{}", function.name));
            }
        }
    }
    tests
}

/// The tests of a folder that judge a host by all rules.
#[derive(Default)]
struct Strictness {
    all: Vec<String>,
    /// Those that fail if any other rule fires.
    strict: Vec<String>,
    /// Those that look who is blamed.
    blaming: Vec<String>,
}

fn strictness(folder: &str) -> Strictness {
    let mut found = Strictness::default();
    for file in sorted(folder, "rs") {
        let all = functions(&std::fs::read_to_string(&file).unwrap());
        for test in all.iter().filter(|function| function.is_test) {
            let helpers = all.iter().filter(|helper| !helper.is_test && uses(&test.body, &helper.name));
            let whole = helpers.fold(test.body.clone(), |whole, helper| whole + &helper.body);
            let says = |words: &[&str]| words.iter().any(|word| whole.contains(word));
            if !says(&JUDGING) {
                continue;
            }
            let name = format!("{}::{}", module(&file, folder), test.name);
            if says(&ALLOWING) {
                found.strict.push(name.clone());
            }
            if says(&["culprit"]) {
                found.blaming.push(name.clone());
            }
            found.all.push(name);
        }
    }
    found
}

/// By rule, why no test induces its fault.
fn reasons() -> BTreeMap<String, String> {
    #[derive(serde::Deserialize)]
    struct Reason {
        why: String,
        rules: Vec<String>,
    }
    let text = std::fs::read_to_string(path("tests/no_fault.yaml")).unwrap();
    let all: Vec<Reason> = serde_yaml::from_str(&text).unwrap();
    all.into_iter().flat_map(|reason| reason.rules.into_iter().map(move |rule| (rule, reason.why.clone()))).collect()
}

fn cell(tests: Option<&BTreeSet<String>>, none: &str) -> String {
    let quoted = |test: &String| format!("`{test}`");
    tests.map_or(none.to_owned(), |tests| tests.iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// By rule, what proves that it finds something, and what that it keeps quiet.
struct Proofs {
    /// Exercises, and tests on live hosts in which it fired, as the ledger of proofs says, or which judge no whole host.
    induced: BTreeMap<String, BTreeSet<String>>,
    /// Tests on live hosts that name it, and in which it did not fire.
    quiet: BTreeMap<String, BTreeSet<String>>,
    recorded: BTreeMap<String, BTreeSet<String>>,
}

impl Proofs {
    fn of(rules: &[String]) -> Self {
        let seen = seen::Seen::read();
        let (mut induced, mut quiet) = (exercises(), BTreeMap::<String, BTreeSet<String>>::new());
        for (rule, tests) in naming("tests/privileged", rules) {
            for test in tests {
                let to = if seen.has_fired(&test, &rule) == Some(false) { &mut quiet } else { &mut induced };
                to.entry(rule.clone()).or_default().insert(test);
            }
        }
        Self { induced, quiet, recorded: naming("tests/recorded", rules) }
    }
}

/// The document, with this section about rates.
fn document(rates: &str) -> String {
    let rules = rules();
    let Proofs { induced, quiet, recorded } = Proofs::of(&rules);
    let count = |holds: &dyn Fn(&String) -> bool| rules.iter().filter(|rule| holds(rule)).count();
    let mut text = String::from("# What proves each rule\n\n");
    text.push_str(
        "Generated from the tests and the ledger of proofs: `RDIAG_BLESS=1 cargo test detection`. *Induced fault*: tests under `tests/privileged/` that\n\
         name the rule and in whose last run on a live host it fired, or that judge no whole host. *Quiet*: how many name it and have seen that it does\n\
         not fire. `lab`: an exercise in which rdiag must find it. *Recorded host*: tests under `tests/recorded/` that name it, with a recorded or\n\
         made-up tree. Rules that a test merely allows to fire are not counted. The tests in the rule's own YAML, which every rule has, are judged by\n\
         `rdiag check`.\n\n",
    );
    writeln!(text, "| | rules |\n|---|---:|\n| all | {} |", rules.len()).unwrap();
    writeln!(text, "| with an induced fault | {} |", induced.len()).unwrap();
    writeln!(text, "| without an induced fault | {} |", rules.len() - induced.len()).unwrap();
    writeln!(text, "| with a live host on which they keep quiet | {} |", quiet.len()).unwrap();
    writeln!(text, "| with a recorded host | {} |", recorded.len()).unwrap();
    let neither = count(&|rule| !induced.contains_key(rule) && !recorded.contains_key(rule));
    writeln!(text, "| with neither a fault nor a recorded host | {neither} |\n").unwrap();
    text.push_str("| tests that judge a whole host | all | fail if any other rule fires | look who is blamed |\n");
    text.push_str("|---|---:|---:|---:|\n");
    for (what, folder) in [("live hosts", "tests/privileged"), ("recorded hosts", "tests/recorded")] {
        let Strictness { all, strict, blaming } = strictness(folder);
        writeln!(text, "| {what} | {} | {} | {} |", all.len(), strict.len(), blaming.len()).unwrap();
    }
    write!(text, "\nA test may judge several hosts.\n\n{rates}\n## Rules\n\n").unwrap();
    text.push_str("| rule | induced fault | quiet | recorded host |\n|---|---|---:|---|\n");
    let reasons = reasons();
    for rule in &rules {
        let why = reasons.get(rule).map(|why| format!("none: {why}")).unwrap_or_default();
        let (induced, recorded) = (cell(induced.get(rule), &why), cell(recorded.get(rule), "none"));
        let quiet = quiet.get(rule).map_or(0, BTreeSet::len);
        writeln!(text, "| `{rule}` | {induced} | {quiet} | {recorded} |").unwrap();
    }
    text
}

#[test]
fn the_table_of_what_proves_each_rule_is_that_of_these_tests() {
    let place = path("docs/detection.md");
    if std::env::var_os("RDIAG_BLESS").is_some() {
        let live = strictness("tests/privileged");
        let rates = rates::fresh(&live)
            + &seen::section(&live.all, &naming("tests/privileged", &rules()))
            + &symptoms::section();
        std::fs::write(&place, document(&rates)).unwrap();
    }
    let committed = std::fs::read_to_string(&place).unwrap();
    assert!(
        committed == document(rates::of(&committed).unwrap_or_default()),
        "docs/detection.md is stale; run RDIAG_BLESS=1 cargo test detection"
    );
}

#[test]
fn every_rule_has_an_induced_fault_or_a_recorded_host() {
    let rules = rules();
    let proofs = Proofs::of(&rules);
    let is_proved = |rule: &str| [&proofs.induced, &proofs.recorded].iter().any(|tests| tests.contains_key(rule));
    let unproved: Vec<_> = rules.iter().filter(|rule| !is_proved(rule)).collect();
    assert!(unproved.is_empty(), "no test shows that these find anything; record a host for each: {unproved:?}");
}

#[test]
fn every_rule_has_an_induced_fault_or_a_reason_why_there_is_none() {
    let (rules, reasons) = (rules(), reasons());
    let induced = Proofs::of(&rules).induced;
    let has_fault = |rule: &&String| induced.contains_key(*rule);
    let wrong: Vec<_> = rules.iter().filter(|rule| has_fault(rule) == reasons.contains_key(*rule)).collect();
    assert!(wrong.is_empty(), "tests/no_fault.yaml lacks these, or has them although a test induces them: {wrong:?}");
    let unknown: Vec<_> = reasons.keys().filter(|rule| !rules.contains(rule)).collect();
    assert!(unknown.is_empty(), "tests/no_fault.yaml names what is no rule: {unknown:?}");
}

#[test]
fn a_rule_that_is_only_allowed_to_fire_is_not_proved() {
    let text = "const IDS: [&str; 1] = [\"g.h\"];\n\n#[test]\nfn one() {\n    assert_nothing_else_fired(&report, &[\n        \"a.b\",\n    ]);\n    look(\"c.d\");\n}\n\nfn look(id: &str) {\n    \
                finding(\"e.f\");\n}\n";
    let all = functions(text);
    let names: Vec<_> = all.iter().map(|f| (f.name.as_str(), f.is_test)).collect();
    assert_eq!(names, [("IDS", false), ("one", true), ("look", false)]);
    let kept = without_allowing(&all[1].body);
    assert!(!kept.contains("a.b") && kept.contains("c.d"), "{kept}");
    assert!(all[0].body.contains("g.h") && all[2].body.contains("e.f"));
    assert!(uses(&kept, "look") && !uses(&kept, "loo") && uses("for id in IDS {", "IDS") && !uses("MY_IDS", "IDS"));
}
