//! Metrics and rules that reports treat in a way of their own are named in the code. One that is renamed would lose that unnoticed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{files_below, path, rdiag};

/// Sources that are not read: tests, and those whose texts only look like ids (files of control groups, attributes of OpenTelemetry).
const OTHERS: [&str; 4] = ["test", "report/sample", "report/allotted", "report/otlp"];

/// The ids of all metrics and rules.
fn ids() -> BTreeSet<String> {
    let output = rdiag().args(["list", "rules", "--json"]).output().unwrap();
    let rules: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let rules = rules.iter().map(|rule| rule["id"].as_str().unwrap().to_owned());
    rdiag_session::all_metrics().map(|(_, metric)| metric.id.to_owned()).chain(rules).collect()
}

/// The texts in quotes of a source that have the shape of an id: `cpu.busy.ratio`.
fn named(source: &str) -> impl Iterator<Item = &str> {
    let code = source.split("#[cfg(test)]").next().unwrap().lines();
    let code = code.filter(|line| !line.trim_start().starts_with("//"));
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    code.flat_map(|line| line.split('"').skip(1).step_by(2))
        .filter(move |text| text.contains('.') && !text.ends_with(".html") && text.split('.').all(is_part))
}

/// Names in a source that begin like ids of the program and are none.
fn unknown(source: &str, ids: &BTreeSet<String>) -> Vec<String> {
    let first = |id: &str| id.split('.').next().map(str::to_owned);
    let beginnings: BTreeSet<String> = ids.iter().filter_map(|id| first(id)).collect();
    let begins = |name: &&str| first(name).is_some_and(|first| beginnings.contains(&first));
    // `network.saturation.softnet` stands for all rules that begin so.
    let is_there = |name: &str| ids.iter().any(|id| id.starts_with(name));
    named(source).filter(begins).filter(|name| !is_there(name)).map(str::to_owned).collect()
}

#[test]
fn metrics_and_rules_that_reports_name_exist() {
    let ids = ids();
    let mut files = BTreeSet::new();
    files_below("src/report", &mut files);
    let is_read = |file: &&String| file.ends_with(".rs") && !OTHERS.iter().any(|part| file.contains(part));
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files.iter().filter(is_read) {
        let source = std::fs::read_to_string(path(file)).unwrap();
        seen += named(&source).count();
        wrong.extend(unknown(&source, &ids).into_iter().map(|id| format!("{file}: {id}")));
    }
    assert!(wrong.is_empty() && seen > 80, "{seen} names, of which these stand for nothing:\n{}", wrong.join("\n"));
}

#[test]
fn a_name_that_stands_for_nothing_is_found_and_other_texts_are_left_alone() {
    let ids = BTreeSet::from(["cpu.busy.ratio".to_owned(), "network.saturation.softnet".to_owned()]);
    let source = "f(\"cpu.busy.ratio\", \"cpu.bsy.ratio\", \"network.saturation\", \"host.name\", \"Cpu.x\", \"a. b\");\n\
                  // \"cpu.gone\"\n#[cfg(test)]\n\"cpu.of_a_test\"";
    assert_eq!(unknown(source, &ids), ["cpu.bsy.ratio"]);
}
