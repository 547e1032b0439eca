//! The rows of the USE method as Linux has them: what judges or shows each, and what to type where nothing does. The list is
//! tests/rows_of_use.yaml; docs/coverage.md and what reports say of it follow from it. `RDIAG_BLESS=1 cargo test use_rows` writes both anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Deserialize;

use crate::detection::rules;
use crate::support::path;

/// What a row can be about.
const KINDS: [&str; 4] = ["utilization", "saturation", "errors", "context"];
/// Sources that name the facts of a host's setup.
const FACTS: [&str; 3] = ["src/kernel/host/setup/cpus.rs", "src/kernel/host/setup/kernel.rs", "src/session/rows.rs"];
/// A report with all its keys.
const EXAMPLE: &str = "reports/examples/whole-host-quiet/report.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    sections: Vec<Section>,
    beyond: Vec<Beyond>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    section: String,
    title: String,
    rows: Vec<Row>,
}

/// Rules that are about no row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Beyond {
    because: String,
    rules: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row: String,
    of: Vec<String>,
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default)]
    shown: Vec<String>,
    missing: Option<String>,
    lacks: Option<String>,
    instead: Option<String>,
}

impl Row {
    fn is_judged(&self) -> bool {
        !self.rules.is_empty()
    }

    fn is_shown(&self) -> bool {
        !self.is_judged() && !self.shown.is_empty()
    }
}

fn text(below: &str) -> String {
    std::fs::read_to_string(path(below)).unwrap()
}

fn list() -> List {
    serde_yaml::from_str(&text("tests/rows_of_use.yaml")).unwrap()
}

fn is_probe(id: &str) -> bool {
    rdiag_probes::ALL.iter().any(|probe| probe.id == id)
}

/// Whether there is what shows a row.
fn is_there(what: &str) -> bool {
    match what.split_once(' ').unwrap_or((what, "")) {
        ("metric", id) => rdiag_session::metric(id).is_some(),
        ("probe", id) => is_probe(id),
        ("collector", id) => rdiag_collectors::ALL.iter().any(|collector| collector.id == id),
        ("component", id) => text("src/model/component.rs").contains(&format!(" \"{id}\" ")),
        ("fact", name) => {
            let name = format!("\"{}\"", name.trim_start_matches("sysctl "));
            FACTS.iter().any(|file| text(file).contains(&name))
        }
        ("report", key) => {
            let report: serde_json::Value = serde_json::from_str(&text(EXAMPLE)).unwrap();
            report.pointer(&format!("/{}", key.replace('.', "/"))).is_some()
        }
        ("doctor", "") => true,
        _ => false,
    }
}

/// Words as code, in a cell of a table.
fn code(words: &str) -> String {
    format!("`{}`", words.replace('|', "\\|"))
}

fn cell(words: &[String]) -> String {
    words.iter().map(|word| code(word)).collect::<Vec<_>>().join(", ")
}

fn line(row: &Row) -> String {
    let gap = match (&row.missing, &row.lacks) {
        (Some(why), _) => format!("Not measured: {why}"),
        (None, Some(part)) => format!("Lacks {part}"),
        (None, None) => String::new(),
    };
    let instead = row.instead.as_deref().map(code).unwrap_or_default();
    let cells = [row.row.clone(), row.of.join(", "), cell(&row.rules), cell(&row.shown), gap, instead];
    format!("| {} |", cells.join(" | "))
}

fn document(list: &List) -> String {
    let rows: Vec<&Row> = list.sections.iter().flat_map(|section| &section.rows).collect();
    let count = |holds: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| holds(row)).count();
    let mut text = String::from("# Rows of the USE method, and what judges each\n\n");
    text.push_str(
        "Rows of the USE method as Linux has them, generated from `tests/rows_of_use.yaml`: `RDIAG_BLESS=1 cargo test use_rows`.\n\
         *Judged by* names rules; some are of drill-downs, which run only where another rule fired, or of other playbooks than\n\
         `use-method` (`rdiag explain RULE`). *Shown by* names what shows the row without a verdict: metrics and `report` are in\n\
         report.json, `fact` is in `--format rows` and `rdiag fleet`, `component` is one of Method R, `rdiag probe` runs probes.\n\
         Whatever a host cannot answer is `unknown` in its report, with the reason and the least remedy.\n\n",
    );
    writeln!(text, "| rows | |\n|---|---:|\n| all | {} |", rows.len()).unwrap();
    writeln!(text, "| judged | {} |", count(&|row| row.is_judged() && row.lacks.is_none())).unwrap();
    writeln!(text, "| judged in part | {} |", count(&|row| row.is_judged() && row.lacks.is_some())).unwrap();
    writeln!(text, "| shown, without a verdict | {} |", count(&|row| row.is_shown() && row.lacks.is_none())).unwrap();
    writeln!(text, "| shown in part | {} |", count(&|row| row.is_shown() && row.lacks.is_some())).unwrap();
    writeln!(text, "| not measured | {} |", count(&|row| row.missing.is_some())).unwrap();
    for Section { section, title, rows } in &list.sections {
        writeln!(text, "\n## {section} {title}\n").unwrap();
        text.push_str("| row | of | judged by | shown by | gap | type instead |\n|---|---|---|---|---|---|\n");
        rows.iter().for_each(|row| writeln!(text, "{}", line(row)).unwrap());
    }
    text.push_str("\n## Rules that are about no row\n\n| what | rules |\n|---|---|\n");
    for beyond in &list.beyond {
        writeln!(text, "| {} | {} |", beyond.because, cell(&beyond.rules)).unwrap();
    }
    text
}

#[test]
fn every_row_is_judged_or_shown_or_says_what_to_type_instead() {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (number, section) in (1..).zip(list().sections) {
        assert_eq!(section.section, format!("A.{number}"), "sections follow each other");
        for row in section.rows {
            let name = format!("{} {} ({})", section.section, row.row, row.of.join(", "));
            let has_answer = row.is_judged() || row.is_shown();
            if has_answer == row.missing.is_some() || (row.missing.is_some() && row.lacks.is_some()) {
                wrong.push(format!("{name}: either rules or shown, or missing"));
            }
            if row.instead.is_some() != (row.missing.is_some() || row.lacks.is_some()) {
                wrong.push(format!("{name}: what to type instead goes with what is missing or lacking"));
            }
            if row.of.is_empty() || row.of.iter().any(|kind| !KINDS.contains(&kind.as_str())) {
                wrong.push(format!("{name}: a row is of {KINDS:?}"));
            }
            if !seen.insert((row.row, row.of)) {
                wrong.push(format!("{name}: is there twice"));
            }
        }
    }
    assert!(wrong.is_empty() && seen.len() > 150, "{} rows:\n{}", seen.len(), wrong.join("\n"));
}

#[test]
fn what_judges_or_shows_a_row_exists() {
    let (list, rules) = (list(), rules());
    let mut wrong = Vec::new();
    for row in list.sections.iter().flat_map(|section| &section.rows) {
        let no_rules = row.rules.iter().filter(|rule| !rules.contains(rule));
        let nothing = row.shown.iter().filter(|what| !is_there(what));
        let typed = row.instead.iter().flat_map(|line| line.split("rdiag probe ").skip(1));
        let no_probes = typed.filter_map(|rest| rest.split(' ').next()).filter(|id| !is_probe(id)).map(str::to_owned);
        let found = no_rules.chain(nothing).cloned().chain(no_probes);
        wrong.extend(found.map(|what| format!("{}: {what}", row.row)));
    }
    assert!(wrong.is_empty(), "these do not exist:\n{}", wrong.join("\n"));
    for what in
        ["metric cpu.load", "probe cpu_stat", "collector runqlat", "component io", "fact nothing", "report x", "meter"]
    {
        assert!(!is_there(what), "{what}");
    }
}

#[test]
fn every_rule_has_a_row_or_is_listed_beyond() {
    let list = list();
    let of_rows: BTreeSet<&String> =
        list.sections.iter().flat_map(|one| &one.rows).flat_map(|row| &row.rules).collect();
    let beyond: Vec<&String> = list.beyond.iter().flat_map(|beyond| &beyond.rules).collect();
    let rules = rules();
    let homeless: Vec<_> = rules.iter().filter(|rule| !of_rows.contains(rule) && !beyond.contains(rule)).collect();
    assert!(
        homeless.is_empty(),
        "tests/rows_of_use.yaml has no row for {homeless:?}, and does not list them beyond the rows"
    );
    let wrong: Vec<_> = beyond.iter().filter(|rule| of_rows.contains(*rule) || !rules.contains(rule)).collect();
    assert!(wrong.is_empty(), "listed beyond the rows, and in a row or no rule: {wrong:?}");
    assert_eq!(beyond.iter().collect::<BTreeSet<_>>().len(), beyond.len(), "a rule is listed beyond the rows twice");
}

#[test]
fn the_document_is_that_of_the_list() {
    let fresh = document(&list());
    let place = path("docs/coverage.md");
    if std::env::var_os("RDIAG_BLESS").is_some() {
        std::fs::write(&place, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(committed == fresh, "docs/coverage.md is stale; run RDIAG_BLESS=1 cargo test use_rows");
}

/// The rows that rdiag does not measure, or not whole, as reports have them.
fn unmeasured(list: &List) -> String {
    let of_section = |section: &Section| {
        let title = section.title.clone();
        let rows = section.rows.iter().filter_map(move |row| {
            let why = row.missing.as_ref().or(row.lacks.as_ref())?;
            let [in_part, remedy] = [serde_json::json!(row.missing.is_none()), serde_json::json!(row.instead)];
            Some(serde_json::json!({"section": title, "row": row.row, "of": row.of, "in_part": in_part, "why": why, "remedy": remedy}))
        });
        rows.collect::<Vec<_>>()
    };
    let rows: Vec<String> = list.sections.iter().flat_map(of_section).map(|row| row.to_string()).collect();
    format!("[\n{}\n]\n", rows.join(",\n"))
}

#[test]
fn what_reports_leave_unknown_is_what_the_list_says_is_not_measured() {
    let fresh = unmeasured(&list());
    let place = path("reports/templates/unmeasured_rows.json");
    if std::env::var_os("RDIAG_BLESS").is_some() {
        std::fs::write(&place, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(
        committed == fresh,
        "reports/templates/unmeasured_rows.json is stale; run RDIAG_BLESS=1 cargo test use_rows"
    );
}

#[test]
fn each_row_has_a_cell_in_a_report_a_verdict_a_figure_or_unknown_with_its_reason_and_what_to_type() {
    let report: serde_json::Value = serde_json::from_str(&text(EXAMPLE)).unwrap();
    let said = |pointer: &str, key: &str| -> BTreeSet<String> {
        let all = report.pointer(pointer).and_then(serde_json::Value::as_array).unwrap();
        all.iter().map(|of| of[key].as_str().unwrap().to_owned()).collect()
    };
    let [judged, unknown] = [said("/findings", "id"), said("/coverage/rows", "row")];
    let gaps: BTreeSet<String> = &said("/coverage/unavailable", "id") | &said("/coverage/not_applicable", "id");
    let measured = report["coverage"]["measured"].as_array().unwrap();
    let in_report = |what: &String| match what.split_once(' ').unwrap_or((what, "")) {
        ("metric", id) => measured.iter().any(|of| of == id) || gaps.contains(id),
        _ => true,
    };
    let list = list();
    let rows = list.sections.iter().flat_map(|section| &section.rows);
    let silent = rows.filter(|row| {
        let has_cell = row.rules.iter().any(|rule| judged.contains(rule)) || row.shown.iter().any(in_report);
        !has_cell && !unknown.contains(&row.row)
    });
    let names: Vec<&str> = silent.map(|row| row.row.as_str()).collect();
    assert_eq!(names, Vec::<&str>::new(), "rows of which a report says nothing");
}
