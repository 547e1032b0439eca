//! The comment that a colleague reads: at most 60 lines, the verdict first. Everything else is in the other reports.

use super::super::gist::{Gist, Named, Problem, Rows, named, rows};
use super::super::profile_words::{self, Line};
use super::super::{next as next_steps, quality, run_words, words};
use super::{Text, answer, changes, code, earlier, head, matrix_of, table, text};
use crate::error::ReportError;
use crate::shown;
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::Runs;
use rdiag_model::{Profile, Report};

/// Names in a list.
const MAX_NAMES: usize = 4;
/// Components of a task's time; what is left is one row.
const MAX_COMPONENTS: usize = 8;
/// Resources in the matrix.
const MAX_RESOURCES: usize = 8;
/// Causes for which something was not measured.
const MAX_GAPS: usize = 4;
/// Changes around a time that is over.
const MAX_CHANGES: usize = 6;

/// The report as Markdown of at most 60 lines.
///
/// # Errors
///
/// None today; the other renderers have some.
pub fn brief(report: &Report) -> Result<Text, ReportError> {
    let mut out = head(report);
    if let Some(profile) = &report.profile {
        out.push(account(profile));
    }
    out.push(answer::causes(report));
    out.push(problems(report));
    out.push(changes(report, MAX_CHANGES));
    out.push(earlier(report));
    out.push(next(report));
    out.push(resources(report));
    out.push(gaps(report));
    out.push(shown!("{}\n\n", text(words::cost(report))));
    out.push("*Evidence, thresholds, what was ruled out and how to check it by hand: report.html, or Markdown with ");
    out.push(shown!("{}.*\n", code("-v")));
    Ok(out)
}

/// Where the time of a task went: the largest components, a row for all others, and what is in none, so that it is the whole.
fn account(profile: &Profile) -> Text {
    let mut out: Text = shown!("## Where the time of {} went\n\n", text(&profile.subject));
    // That an account ended early comes before anything that it says.
    let (name, early) = profile_words::early_end(profile).unzip();
    let asked = profile_words::asked(profile);
    let said = [(name.unwrap_or_default(), early), ("Asked", asked.as_ref()), ("Goal", profile.answer.goal.as_ref())];
    for (name, said) in said {
        if let Some(said) = said {
            out.push(shown!("**{}:** {}\n\n", name, text(said)));
        }
    }
    if let Some(runs) = &profile.runs {
        out.push(spread(runs));
    }
    let (components, residuals): (Vec<_>, Vec<_>) =
        profile_words::lines(profile).into_iter().partition(|line| line.component.is_some());
    let row = |share: &str, time: &str, what: &str| [share, time, what].map(text).to_vec();
    let line = |line: &Line| row(&line.percent, &line.seconds, &line.title);
    let (large, small) = components.split_at(components.len().min(MAX_COMPONENTS));
    let mut rows: Vec<Vec<Text>> = large.iter().map(line).collect();
    if !small.is_empty() {
        let share: f64 = small.iter().map(|line| line.share).sum();
        let time = seconds(share * profile.task_seconds);
        rows.push(row(&percent(share), &time, &format!("{} smaller components", small.len())));
    }
    rows.extend(residuals.iter().map(line));
    rows.push(row("100%", &seconds(profile.task_seconds), &profile_words::sum(profile)));
    out.push(table(&["Share", "Time", "What"].map(Text::of), &rows));
    if let Some(bases) = profile_words::bases(profile) {
        out.push(shown!("{}\n\n", text(&bases)));
    }
    for (at, said) in profile_words::code(profile).iter().enumerate() {
        out.push(shown!("{}{}\n\n", if at == 0 { "Code: " } else { "" }, text(said)));
    }
    out.push(shown!("Confidence: {}\n\n", text(quality::confidence(&profile.quality, profile.level))));
    out
}

/// How long the runs took, and what the slow ones have more of.
fn spread(runs: &Runs) -> Text {
    let mut out: Text = shown!("{}\n\n", text(run_words::lead(runs)));
    if let Some(goal) = run_words::goal(runs) {
        out.push(shown!("{}\n\n", text(&goal)));
    }
    if let Some(difference) = &runs.difference {
        let more = difference.rows.iter().take(MAX_NAMES);
        let more = more.map(|row| shown!("{} {}", code(row.id.id()), text(run_words::signed(row.seconds))));
        out.push(shown!("{} {}\n\n", text(run_words::against(difference)), Text::joined(more, ", ")));
    }
    if let Some(keyed) = runs.keyed.as_ref().filter(|keyed| !keyed.headline.is_empty()) {
        out.push(shown!("{}\n\n", text(&keyed.headline)));
    }
    out
}

fn problems(report: &Report) -> Text {
    let gist = Gist::of(report);
    let mut out = Text::new();
    for (at, problem) in gist.problems.iter().enumerate() {
        out.push(one(report, at + 1, problem));
    }
    // Beside an account of a task it would seem to be about that, whose own stands below its table.
    if let Some(confidence) = gist.confidence().filter(|_| report.profile.is_none()) {
        out.push(shown!("\nConfidence: {}\n", text(&confidence)));
    }
    for (label, findings) in gist.lists() {
        if !findings.is_empty() {
            out.push(shown!("\n{}: {}\n", label, list(&findings)));
        }
    }
    if out.is_empty() { out } else { shown!("## Findings\n\n{}\n", out) }
}

fn one(report: &Report, number: usize, problem: &Problem<'_>) -> Text {
    let finding = problem.lead;
    let mut out = shown!(
        "{}. **{}: {}**{}, {}",
        number,
        text(finding.status.word().to_uppercase()),
        text(&finding.title),
        spaced(text(words::value(finding))),
        code(words::full_id(finding)),
    );
    if let Some(sentence) = &problem.sentence {
        out.push(shown!(". {}", text(sentence)));
    }
    out.push("\n");
    if let Some(who) = &problem.who {
        let label = if problem.label == "where" { "Where" } else { "Who" };
        out.push(shown!("   - {}: {}\n", label, text(who)));
    }
    if !problem.others.is_empty() {
        out.push(shown!("   - Also: {}\n", list(&named(&problem.others))));
    }
    if number == 1 {
        let figures = finding.evidence.iter().take(3);
        let figures =
            figures.map(|evidence| shown!("{} {}", code(&evidence.metric), text(words::figures(report, evidence))));
        out.push(shown!("   - Evidence: {}\n", Text::joined(figures, "; ")));
    }
    out
}

/// Something after a space, if it is not empty.
fn spaced(text: Text) -> Text {
    if text.is_empty() { text } else { shown!(" {}", text) }
}

fn list(all: &[Named]) -> Text {
    let one = |(title, value): &Named| shown!("{}{}", text(title), spaced(text(value)));
    let more = all.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { shown!(" and {} more", more) } else { Text::new() };
    shown!("{}{}", Text::joined(all.iter().take(MAX_NAMES).map(one), ", "), more)
}

fn next(report: &Report) -> Text {
    let mut out = Text::new();
    for (at, step) in next_steps::actions(report).iter().enumerate() {
        let mark = if step.changes_host { " (changes the host)" } else { "" };
        out.push(shown!("{}. {}{}\n", at + 1, text(&step.action), mark));
    }
    if out.is_empty() { out } else { shown!("## Next\n\n{}\n", out) }
}

/// The rows of the matrix that are not quiet, and the names of those that are.
fn resources(report: &Report) -> Text {
    let Rows { telling, quiet, unchecked } = rows(report);
    let mut out = Text::new();
    if !telling.is_empty() {
        let (shown, left) = telling.split_at(telling.len().min(MAX_RESOURCES));
        out.push(matrix_of(shown));
        if !left.is_empty() {
            let left = left.iter().map(|row| Text::of(words::resource(row.resource)));
            out.push(shown!("Not quiet either: {}.\n\n", Text::joined(left, ", ")));
        }
    }
    for (label, rows) in [("Checked and ok", quiet), ("Nothing to check", unchecked)] {
        if !rows.is_empty() {
            let names = Text::joined(rows.iter().map(|row| Text::of(words::resource(row.resource))), ", ");
            out.push(shown!("{}: {}.\n\n", label, names));
        }
    }
    out
}

fn gaps(report: &Report) -> Text {
    let groups = &report.coverage.groups;
    let mut out = Text::new();
    for group in groups.iter().take(MAX_GAPS) {
        let named = text(words::some(&words::missing(group), 2));
        out.push(shown!("- {}: {}\n", text(&group.gap.why), named));
    }
    let more = groups.len().saturating_sub(MAX_GAPS);
    if more > 0 {
        out.push(shown!("- and {} more causes\n", more));
    }
    let checks = &report.coverage.checks;
    match out.is_empty() {
        true => out,
        false => shown!(
            "Not measured, {} of {} checks:\n\n{}\n",
            checks.unknown,
            checks.judged.saturating_add(checks.unknown),
            out
        ),
    }
}
