//! The lists and tables of the page.

use std::collections::BTreeMap;

use serde::Serialize;

use super::view::{Limits, Named, more};
use crate::changes as told;
use crate::escape::visible_within as short;
use crate::shown::{Html, Shown};
use crate::{lesson, usual as days, words};
use rdiag_model::quantity::{percent, seconds, with_unit};
use rdiag_model::report::{Change, GapGroup, TopRow, TopTable, Unlike, UnmeasuredRow, Usual};
use rdiag_model::{Finding, Report, Resource, Status};

#[derive(Serialize)]
pub(super) struct Top {
    title: String,
    rows: Vec<TopRowView>,
    others: String,
    others_name: String,
}

#[derive(Serialize)]
pub(super) struct TopRowView {
    name: String,
    pid: String,
    command: String,
    cgroup: String,
    value: String,
    share: String,
    width: String,
}

/// Changes in the table: findings stand below it.
const MOST_CHANGES: usize = 8;

/// What changed around a time that is over.
#[derive(Serialize)]
pub(super) struct ChangesView {
    lead: String,
    rows: Vec<ChangeRow>,
    more: String,
}

#[derive(Serialize)]
struct ChangeRow {
    at: String,
    when: String,
    text: String,
}

pub(super) fn changes(report: &Report, limits: &Limits) -> Option<ChangesView> {
    let changes = report.changes.as_ref()?;
    let rows = told::largest(changes, report, limits.rows.min(MOST_CHANGES));
    let row = |change: &&Change| ChangeRow {
        at: change.shown.clone(),
        when: told::when(change, report),
        text: short(&change.text, limits.characters).into_owned(),
    };
    let more = told::more(changes, rows.len());
    Some(ChangesView {
        lead: told::span(changes),
        rows: rows.iter().map(row).collect(),
        more: if more > 0 { format!("and {more} more; report.json has the largest") } else { String::new() },
    })
}

/// The same time of an earlier day.
#[derive(Serialize)]
pub(super) struct UsualView {
    lead: String,
    rows: Vec<UnlikeRow>,
}

#[derive(Serialize)]
struct UnlikeRow {
    what: String,
    figures: String,
}

pub(super) fn usual(usual: &Usual) -> UsualView {
    let row = |one: &Unlike| UnlikeRow { what: days::what(one), figures: days::figures(one) };
    UsualView { lead: days::heading(usual), rows: usual.unlike.iter().take(20).map(row).collect() }
}

#[derive(Serialize)]
pub(super) struct Step {
    question: String,
    class: &'static str,
    word: &'static str,
    answer: String,
    when: String,
    teach: Shown<Html>,
    rules: String,
}

#[derive(Serialize)]
pub(super) struct Check {
    id: String,
    title: String,
    class: &'static str,
    word: &'static str,
    count: String,
    value: String,
    threshold: String,
}

#[derive(Serialize)]
pub(super) struct ByHand {
    manual: String,
    metrics: String,
}

#[derive(Serialize)]
pub(super) struct GapView {
    why: String,
    rules: String,
    probes: String,
    metrics: String,
    remedy: String,
}

#[derive(Serialize)]
pub(super) struct RuledOutView {
    name: &'static str,
    complete: bool,
    sentences: Vec<String>,
}

pub(super) fn ruled_out(report: &Report, limits: &Limits) -> Vec<RuledOutView> {
    let out = |cleared: &rdiag_model::report::RuledOut| {
        let mut sentences: Vec<String> = cleared.sentences.iter().take(limits.sentences).cloned().collect();
        let left = cleared.sentences.len().saturating_sub(limits.sentences);
        if left > 0 {
            sentences.push(format!("{left} more, in the JSON report."));
        }
        RuledOutView { name: words::resource(cleared.resource), complete: cleared.complete, sentences }
    };
    report.ruled_out.iter().take(Resource::ALL.len()).map(out).collect()
}

pub(super) fn gap_view(group: &GapGroup, limits: &Limits) -> GapView {
    GapView {
        why: group.gap.why.clone(),
        rules: words::some(&group.rules, limits.rows),
        probes: words::some(&group.probes, limits.rows),
        metrics: words::some(&group.metrics, limits.rows),
        remedy: group.gap.remedy.clone().unwrap_or_default(),
    }
}

pub(super) fn not_applicable(report: &Report, limits: &Limits) -> Vec<GapView> {
    let mut by_why: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for gap in &report.coverage.not_applicable {
        by_why.entry(&gap.gap.why).or_default().push(gap.id.clone());
    }
    let view = |(why, ids): (&str, Vec<String>)| GapView {
        why: why.to_owned(),
        rules: String::new(),
        probes: String::new(),
        metrics: words::some(&ids, limits.rows),
        remedy: String::new(),
    };
    by_why.into_iter().take(limits.rows * 2).map(view).collect()
}

/// A row of the checklist that is not measured.
#[derive(Serialize)]
pub(super) struct RowView {
    section: String,
    row: String,
    of: String,
    why: String,
    remedy: String,
}

pub(super) fn unmeasured(report: &Report, limits: &Limits) -> Vec<RowView> {
    let view = |row: &UnmeasuredRow| RowView {
        section: row.section.clone(),
        row: row.row.clone(),
        of: row.of.join(", "),
        why: format!("{}{}", if row.in_part { "In part: lacks " } else { "Not measured: " }, row.why),
        remedy: row.remedy.clone(),
    };
    report.coverage.rows.iter().take(limits.checks).map(view).collect()
}

pub(super) fn top(table: &TopTable, limits: &Limits) -> Top {
    let label = |row: &TopRow, name: &str| row.labels.get(name).cloned().unwrap_or_default();
    let command = |row: &TopRow| {
        // The name alone, again, tells nothing.
        let command = label(row, "command");
        if command == row.name { String::new() } else { short(&command, 110).into_owned() }
    };
    let rows = table.rows.iter().take(limits.rows).map(|row| TopRowView {
        name: row.name.clone(),
        pid: label(row, "pid"),
        command: command(row),
        cgroup: short(&label(row, "cgroup"), 110).into_owned(),
        value: with_unit(row.value, table.unit),
        share: percent(row.share),
        width: format!("{:.1}", (row.share * 100.0).clamp(0.0, 100.0)),
    });
    Top {
        title: table.title.clone(),
        rows: rows.collect(),
        others: if table.others_count > 0 { with_unit(table.others, table.unit) } else { String::new() },
        others_name: words::plural(table.others_count, "other", "others"),
    }
}

pub(super) fn steps(report: &Report, limits: &Limits) -> Vec<Step> {
    let step = |step: &rdiag_model::report::StepOutcome| Step {
        question: step.question.clone(),
        class: step.status.word(),
        word: if step.window.is_none() { "not run" } else { step.status.word() },
        answer: step.answer.clone(),
        when: step.when.clone().unwrap_or_default(),
        teach: lesson::html(&step.teach, limits.lesson),
        rules: words::some(&step.rules, limits.rows),
    };
    report.steps.iter().take(limits.steps).map(step).collect()
}

/// One line per rule, for its worst instance.
pub(super) fn all_checks(report: &Report, limits: &Limits) -> (Vec<Check>, String) {
    let mut counts: BTreeMap<&str, (usize, &Finding)> = BTreeMap::new();
    for finding in &report.findings {
        counts.entry(&finding.id).or_insert((0, finding)).0 += 1;
    }
    let mut rules: Vec<(usize, &Finding)> = counts.into_values().collect();
    rules.sort_by_key(|(_, finding)| (finding.resource, finding.kind));
    let check = |(count, finding): &(usize, &Finding)| Check {
        id: finding.id.clone(),
        title: finding.title.clone(),
        class: finding.status.word(),
        word: if finding.status == Status::Skipped { "n/a" } else { finding.status.word() },
        count: if *count > 1 { format!("worst of {count}") } else { String::new() },
        value: words::value(finding),
        threshold: words::threshold(finding),
    };
    let checks = rules.iter().take(limits.checks).map(check).collect();
    (checks, more(rules.len(), limits.checks, "more rules are in the JSON report."))
}

pub(super) fn by_hand(report: &Report, limits: &Limits) -> Vec<ByHand> {
    let mut commands: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (id, note) in report.metrics.iter().filter(|(_, note)| !note.manual.is_empty()) {
        commands.entry(&note.manual).or_default().push(id.clone());
    }
    let view = |(manual, ids): (&str, Vec<String>)| ByHand {
        manual: manual.to_owned(),
        metrics: words::some(&ids, limits.rows),
    };
    commands.into_iter().take(limits.checks).map(view).collect()
}

pub(super) fn collectors(report: &Report) -> Vec<Named> {
    let mut times: Vec<(&String, f64)> = report.overhead.collectors.iter().map(|(id, time)| (id, *time)).collect();
    times.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    times.into_iter().take(12).map(|(id, time)| Named { name: id.clone(), value: seconds(time) }).collect()
}
