//! What rdiag wrote itself, or somebody in its name: recordings and reports.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rdiag_model::comparison::Side;
use rdiag_model::probe::{Output, Stacks};
use rdiag_model::probed::ProbedOutput;
use rdiag_model::{Recording, Report};
use rdiag_playbook::LoadedPlaybook;
use rdiag_report::diff::{self, Input};
use rdiag_report::{self as report, Exported, Style};
use rdiag_session as session;
use rdiag_session::NamedPlaybook;

use super::{profile, shown};

/// The playbooks that rdiag has: finding one takes longer than judging by it.
static NAMED: LazyLock<BTreeMap<String, NamedPlaybook>> = LazyLock::new(|| {
    let library = rdiag_playbook::Library::read(Vec::new());
    let named = |loaded: &LoadedPlaybook| NamedPlaybook {
        library: library.clone(),
        loaded: loaded.clone(),
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    library.playbooks.iter().map(|(name, loaded)| (name.clone(), named(loaded))).collect()
});

/// `rdiag analyze RECORDING`.
pub fn recording(data: &[u8]) -> bool {
    let Ok(recording) = session::read_recording(data) else { return false };
    let mut written = Vec::new();
    session::write_recording(&recording, &mut written).expect("what was read can be written");
    let again = session::read_recording(&written).expect("what was written can be read");
    assert!(again == recording, "a recording that is written and read is another one");
    let document = judged(&recording);
    drawn(&document);
    exported(&Exported { report: &document, recording: Some(&recording) });
    let stacks = recording.windows.iter().flat_map(|window| window.probes.values().flatten());
    stacks.flat_map(|result| &result.outputs).for_each(|output| {
        if let Output::Stacks(stacks) = output {
            profile::drawn(stacks);
        }
    });
    true
}

pub(super) fn judged(recording: &Recording) -> Report {
    let named = NAMED.get(&recording.playbook).or_else(|| NAMED.get("use-method")).expect("a playbook of rdiag's own");
    // Parameters may be wrong; then those of the playbook are taken.
    let plan = named.plan_of(recording).or_else(|_| {
        let recording = Recording { params: BTreeMap::new(), ..recording.clone() };
        named.plan_of(&recording)
    });
    let plan = plan.expect("a playbook of rdiag's own has a plan");
    let analysis = session::analyze(recording, &plan);
    session::document(recording, &analysis, &plan, &BTreeMap::new())
}

/// `rdiag report REPORT`.
pub fn report(data: &[u8]) -> bool {
    let Ok(report) = session::read_report(data) else { return false };
    drawn(&report);
    stacks(&report).for_each(profile::drawn);
    true
}

/// `rdiag diff BEFORE AFTER`: a list of two reports.
pub fn diff(data: &[u8]) -> bool {
    let at = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (before, after) = data.split_at(at);
    let read = |bytes: &[u8]| {
        let report =
            session::read_report(bytes).or_else(|_| session::read_recording(bytes).map(|r| judged(&r))).ok()?;
        let side = Side { file: "x".into(), ..Side::default() };
        let stacks = stacks(&report).map(|stacks| (stacks.id.clone(), stacks.clone())).collect();
        Some(Input { side, stacks, report: Some(report), ..Input::default() })
    };
    let Some(before) = read(before) else { return false };
    let after = read(after.get(1..).unwrap_or_default()).unwrap_or_default();
    for (one, other) in [(&before, &after), (&after, &before), (&before, &before)] {
        let comparison = diff::compare(one, other);
        shown::plain("the comparison", &diff::text(&comparison, true));
        shown::document("the comparison in Markdown", &diff::markdown(&comparison));
        shown::json("the comparison", &report::comparison_json(&comparison).expect("a comparison has a JSON form"));
        let pictures: Vec<_> = diff::pairs(one, other).map(|(_, one, other)| diff::picture(one, other, true)).collect();
        let page = report::comparison_html(&comparison, &pictures).expect("a comparison can be drawn");
        shown::markup("the page of the comparison", &page);
    }
    true
}

fn stacks(report: &Report) -> impl Iterator<Item = &Stacks> {
    let outputs = report.probes.iter().flat_map(|probed| &probed.outputs);
    outputs.filter_map(|output| match output {
        ProbedOutput::Stacks(sums) => Some(&sums.stacks),
        _ => None,
    })
}

/// A report in every format.
fn drawn(report: &Report) {
    let json = report::json(report).expect("a report has a JSON form");
    shown::json("report.json", &json);
    let again = session::read_report(json.as_bytes()).expect("what was written can be read");
    assert!(again == *report, "a report that is written and read is another one");
    shown::markup("report.html", &report::html(report).expect("a report can be drawn"));
    shown::document("report.md", &report::markdown_brief(report).expect("a report can be written down"));
    shown::document("the whole of it", &report::markdown(report).expect("a report can be written down"));
    for unicode in [true, false] {
        shown::plain("the terminal", &report::terminal(report, None, &Style { width: 80, color: false, unicode }));
    }
    exported(&Exported { report, recording: None });
}

/// The formats for other programs.
fn exported(of: &Exported<'_>) {
    shown::json("the trace", &report::perfetto(of).expect("a report can be a trace"));
    let lines = report::otlp(of).expect("a report can be written as OTLP");
    for line in lines.lines() {
        shown::json("a line of OTLP", line);
    }
}
