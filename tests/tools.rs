//! The map of old tools, through the shipped binary and against a list of names that stands apart from it.

use rdiag_playbook::tools::Tools;

use crate::support::{path, rdiag};

/// Names that people learn, and whether each is of a tool of bcc.
fn named() -> Vec<(bool, String)> {
    let text = std::fs::read_to_string(path("tests/fixtures/tools/named.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.strip_prefix("bcc ") {
            Some(name) => (true, name.to_owned()),
            None => (false, line.to_owned()),
        })
        .collect()
}

fn explain(words: &[&str]) -> (bool, String, String) {
    let output = rdiag().arg("explain").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_tool_that_people_learn_is_in_the_map() {
    let map = Tools::builtin(&rdiag_session::catalogue());
    let named = named();
    assert!(named.len() > 250, "the list is cut short");
    let missing: Vec<&String> = named.iter().map(|(_, name)| name).filter(|name| map.find(name).is_none()).collect();
    assert!(missing.is_empty(), "neither answered, planned nor explained: {missing:?}");
}

#[test]
fn old_tools_are_explained_with_the_command_to_type() {
    for (words, says) in [
        (&["biosnoop"] as &[&str], &["Which block I/Os", "rdiag probe biosnoop", "Attaches to"] as &[&str]),
        (&["biosnoop-bpfcc"], &["rdiag probe biosnoop"]),
        (&["perf sched"], &["rdiag probe runqlat", "runqslower (probe)"]),
        (&["perf", "sched", "timehist"], &["rdiag probe runqlat"]),
        (&["set_ftrace_filter"], &["Which functions of the kernel run", "By hand"]),
        (&["vmstat"], &["rdiag run use-method", "use-method/memory", "Series"]),
        (&["dTLB-loads"], &["rdiag probe stat --param events=dTLB-loads"]),
        (&["cycles:u"], &["rdiag probe stat --param events=cycles:u"]),
        (&["perf list"], &["rdiag list events"]),
        (&["mmiotrace"], &["No part of diagnosis"]),
    ] {
        let (success, told, error) = explain(words);
        assert!(success, "{words:?}: {error}");
        for text in says {
            assert!(told.contains(text), "{words:?} should say {text:?}:\n{told}");
        }
    }
}

#[test]
fn a_name_that_nobody_knows_is_told_with_the_nearest() {
    for (asked, meant) in
        [("biosnop", "biosnoop"), ("perf shced", "perf sched"), ("set_ftrace_fliter", "set_ftrace_filter")]
    {
        let (success, _, error) = explain(&[asked]);
        assert!(!success && error.contains(&format!("did you mean `{meant}`?")), "{asked}: {error}");
    }
    let (success, _, error) = explain(&["\u{1b}[31mred"]);
    assert!(!success && !error.contains('\u{1b}'), "{error:?}");
}

#[test]
fn an_old_tool_that_is_no_probe_is_pointed_to_its_explanation() {
    let output = rdiag().args(["probe", "iosnoop"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("`rdiag explain iosnoop`"), "{told}");
}

#[test]
fn the_list_of_tools_gives_each_a_standing_and_most_a_command() {
    let output = rdiag().args(["list", "tools", "--json"]).output().unwrap();
    let list: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    for tool in &list {
        let commands = tool["commands"].as_array().unwrap();
        match tool["standing"].as_str().unwrap() {
            "answered" => assert!(!commands.is_empty(), "{tool}"),
            "planned" => assert!(!tool["by"].as_array().unwrap().is_empty(), "{tool}"),
            "outside" => assert!(tool["outside"].as_str().unwrap().ends_with('.'), "{tool}"),
            other => panic!("{other}"),
        }
    }
    let lines = rdiag().args(["list", "tools"]).output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&lines).lines().count(), list.len());
}

#[test]
fn the_list_of_probes_answers_for_every_tool_of_bcc() {
    let output = rdiag().args(["list", "probes"]).output().unwrap();
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let words: Vec<&str> = told.split(|c: char| c.is_whitespace() || ",;".contains(c)).collect();
    for (_, name) in named().iter().filter(|(of_bcc, _)| *of_bcc) {
        assert!(words.contains(&name.as_str()), "{name} is missing:\n{told}");
    }
}
