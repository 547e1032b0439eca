//! The report as a ticket comment: CommonMark that also reads well as plain text.

mod answer;
mod around;
mod brief;
mod finding;
mod probes;
mod profile;
mod runs;

pub use brief::brief;

use super::changes::{heading, largest, more, when};
use super::shown::{Markdown, Shown};
use super::{probe_words, rows, usual, words};
use crate::error::ReportError;
use crate::shown;
use rdiag_model::quantity::with_unit;
use rdiag_model::report::{Cell, MatrixRow, TopRow};
use rdiag_model::{Kind, ProbeResult, Report, Status};

/// What a ticket is written.
type Text = Shown<Markdown>;

/// What a ticket comment may hold at most, in characters.
const MAX_CHARS: usize = 30_000;
/// Room that is kept for the note about what was left out.
const NOTE_CHARS: usize = 400;
/// The same where it says no more than how many sections were left out.
const SENTENCE_CHARS: usize = 200;
/// Rows of a list or table.
const MAX_ROWS: usize = 20;

/// One result that belongs to no run: a profile that was made elsewhere.
#[must_use]
pub fn profile(result: &ProbeResult, title: &str) -> Text {
    probes::probe(&super::probed::alone(result, title))
}

/// The report as Markdown of at most 30 000 characters. What does not fit is left out, and named.
///
/// # Errors
///
/// None today; the other renderers have some.
pub fn markdown(report: &Report) -> Result<Text, ReportError> {
    let mut page = Page { out: Text::new(), chars: 0, left_out: Vec::new() };
    page.section("the verdict", head(report));
    page.section("the causes", answer::causes(report));
    page.section("what limits the conclusion", limits(report));
    page.section("what changed", changes(report, MAX_ROWS));
    page.section("the course around the window", around::around(report));
    page.section("the same time of earlier days", earlier(report));
    if let Some(task) = &report.profile {
        page.section("the runs", task.runs.as_ref().map(runs::runs).unwrap_or_default());
        page.section("the profile", profile::head(task));
        let missing = profile::components(task).into_iter().filter(|one| !page.fits(one.clone())).count();
        if missing > 0 {
            page.left_out.push(plural(missing, "component", "components"));
        }
        page.section("the forecast", profile::forecast(task));
        page.section("the calls", profile::calls(task));
        page.section("the waker chains", profile::chains(task));
        let notes: Text = task.notes.iter().take(MAX_ROWS).map(|note| shown!("- **Note:** {}\n", text(note))).collect();
        page.section("the notes", if notes.is_empty() { notes } else { shown!("{}\n", notes) });
    }
    page.section("the matrix", matrix(report));
    finding::findings(report, &mut page);
    let mut missing = 0;
    let (silent, telling) = probe_words::by_silence(report);
    for (at, probed) in telling.iter().enumerate() {
        let heading = if at == 0 { "## Inside the kernel\n\n" } else { "" };
        let fits = at < MAX_ROWS && page.fits(shown!("{}{}", heading, probes::probe(probed)));
        missing += usize::from(!fits);
    }
    if missing > 0 {
        page.left_out.push(plural(missing, "probe", "probes"));
    }
    page.section("the probes that saw nothing", probes::silent(&silent));
    page.section("what was ruled out", ruled_out(report));
    page.section("what could not be measured", gaps(report));
    page.section("the largest consumers", top(report));
    page.section("the cost of measuring", shown!("{}\n", text(words::cost(report))));
    if !page.left_out.is_empty() {
        let left_out = Text::joined(page.left_out, ", ");
        page.out.push(shown!("\n*Left out here for length: {}. The HTML and JSON reports have it.*\n", left_out));
    }
    Ok(page.out)
}

struct Page {
    out: Text,
    chars: usize,
    left_out: Vec<Text>,
}

impl Page {
    fn section(&mut self, name: &'static str, body: Text) {
        if !body.is_empty() && !self.fits(body) {
            self.left_out.push(Text::of(name));
        }
    }

    fn fits(&mut self, body: Text) -> bool {
        let chars = body.chars().count();
        let fits = self.chars + chars + NOTE_CHARS <= MAX_CHARS;
        if fits {
            self.chars += chars;
            self.out.push(body);
        }
        fits
    }
}

/// As many sections, in their order, as fit into one comment, and how many do not.
pub(super) fn fitting(sections: Vec<Text>) -> (Text, usize) {
    let (mut out, mut left_out) = (Text::new(), 0);
    for section in sections {
        if out.chars().count() + section.chars().count() + SENTENCE_CHARS <= MAX_CHARS {
            out.push(section);
        } else {
            left_out += 1;
        }
    }
    (out, left_out)
}

/// A name, or a sentence with names in it.
fn text(text: impl AsRef<str>) -> Text {
    Text::text(text)
}

fn code(text: impl AsRef<str>) -> Text {
    Text::code(text)
}

fn plural(count: usize, one: &'static str, many: &'static str) -> Text {
    if count == 1 { shown!("1 {}", one) } else { shown!("{} {}", count, many) }
}

fn head(report: &Report) -> Text {
    let verdict = &report.verdict;
    let detail = words::detail(report);
    let mut out = shown!("# {}: {}\n\n", text(verdict.status.word().to_uppercase()), text(&verdict.headline.title));
    if !detail.is_empty() {
        out.push(shown!("**{}**\n\n", text(&detail)));
    }
    out.push(shown!(
        "{} · {} · playbook {} · {} {}\n\n",
        text(words::occasion(report)),
        Text::figure(words::measured(report)),
        code(&report.playbook.name),
        text(&report.tool.name),
        text(&report.tool.version),
    ));
    if let Some((said, command)) = words::recipe(report) {
        out.push(shown!("{} The same again: {}\n\n", text(&said), code(&command)));
    }
    out
}

fn limits(report: &Report) -> Text {
    let limits = &report.verdict.limits;
    if limits.is_empty() {
        return Text::new();
    }
    let mut out = Text::of("What limits this conclusion:\n\n");
    for limit in limits.iter().take(MAX_ROWS) {
        out.push(shown!("- {}\n", text(limit)));
    }
    out.push("\n");
    out
}

/// What changed around a time that is over: the largest changes, at most so many.
fn changes(report: &Report, most: usize) -> Text {
    let Some(changes) = &report.changes else { return Text::new() };
    let mut out: Text = shown!("## {}\n\n", text(heading(changes)));
    let told = largest(changes, report, most);
    for change in &told {
        out.push(shown!("- **{}** ({}): {}\n", text(&change.shown), text(when(change, report)), text(&change.text)));
    }
    let more = more(changes, told.len());
    if more > 0 {
        out.push(shown!("- and {} more\n", more));
    }
    if told.is_empty() { out } else { shown!("{}\n", out) }
}

/// The same time of earlier days.
fn earlier(report: &Report) -> Text {
    let mut out = Text::new();
    for one in &report.usual {
        out.push(shown!("{}\n\n", text(usual::heading(one))));
        for unlike in &one.unlike {
            out.push(shown!("- {}: {}\n", text(usual::what(unlike)), text(usual::figures(unlike))));
        }
        if !one.unlike.is_empty() {
            out.push("\n");
        }
    }
    if out.is_empty() { out } else { shown!("## The same time of earlier days\n\n{}", out) }
}

fn matrix(report: &Report) -> Text {
    let rows: Vec<&MatrixRow> = report.matrix.iter().take(MAX_ROWS).collect();
    if rows.is_empty() { Text::new() } else { matrix_of(&rows) }
}

/// Some rows of the matrix.
fn matrix_of(rows: &[&MatrixRow]) -> Text {
    let cell = |cell: &Cell| {
        let word = words::cell_word(cell);
        let word = match cell.status {
            Some(Status::Warning | Status::Critical) => shown!("**{}**", word),
            _ => Text::of(word),
        };
        shown!("{} {}", word, text(words::cell_figure(cell))).trimmed_end()
    };
    let row = |row: &MatrixRow| {
        let cells = row.cells.iter().take(Kind::ALL.len()).map(cell);
        [Text::of(words::resource(row.resource))].into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<Text>> = rows.iter().map(|one| row(one)).collect();
    let kinds = Kind::ALL.iter().map(|kind| Text::of(words::kind(*kind)));
    let head: Vec<Text> = [Text::of("Resource")].into_iter().chain(kinds).collect();
    table(&head, &rows)
}

/// A table whose columns also line up as plain text.
pub(super) fn table(head: &[Text], rows: &[Vec<Text>]) -> Text {
    use unicode_width::UnicodeWidthStr as _;
    let widths: Vec<usize> = (0..head.len())
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at)).chain(head.get(at));
            cells.map(|cell| cell.width()).max().unwrap_or(0).clamp(3, 48)
        })
        .collect();
    let line = |cells: &[Text]| -> Text {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| cell.clone().padded(*width));
        shown!("| {} |\n", Text::joined(padded, " | "))
    };
    let rule = Text::joined(widths.iter().map(|width| Text::repeated("-", *width)), " | ");
    let mut out: Text = shown!("{}| {} |\n", line(head), rule);
    for row in rows {
        out.push(line(row));
    }
    out.push("\n");
    out
}

/// Titles of columns.
fn titles<const N: usize>(titles: [&'static str; N]) -> [Text; N] {
    titles.map(Text::of)
}

fn ruled_out(report: &Report) -> Text {
    if report.ruled_out.is_empty() {
        return Text::new();
    }
    let mut out = Text::of("## Ruled out\n\n");
    for cleared in &report.ruled_out {
        let partly = if cleared.complete { "" } else { " (in part)" };
        let sentences = Text::joined(cleared.sentences.iter().take(6).map(text), " ");
        let more = cleared.sentences.len().saturating_sub(6);
        let more = if more > 0 { shown!(" And {} more.", more) } else { Text::new() };
        out.push(shown!("- **{}**{}: {}{}\n", words::resource(cleared.resource), partly, sentences, more));
    }
    out.push("\n");
    out
}

fn gaps(report: &Report) -> Text {
    let groups = &report.coverage.groups;
    let counted = rows::counted(&report.coverage);
    if groups.is_empty() && counted.is_none() {
        return Text::new();
    }
    let mut out = Text::of("## Not measured\n\n");
    for group in groups.iter().take(MAX_ROWS) {
        let named = text(words::some(&words::missing(group), 4));
        let remedy = group.gap.remedy.as_ref().map(|remedy| shown!(" *To see it:* {}", text(remedy)));
        out.push(shown!("- {}: {}.{}\n", text(&group.gap.why), named, remedy.unwrap_or_default()));
    }
    if groups.len() > MAX_ROWS {
        out.push(shown!("- and {} more causes\n", groups.len() - MAX_ROWS));
    }
    if let Some(counted) = counted {
        out.push(shown!("- {}; report.html and report.json list them, with what to type instead.\n", text(counted)));
    }
    out.push("\n");
    out
}

fn top(report: &Report) -> Text {
    let mut out = Text::new();
    for top in &report.top {
        let row = |row: &TopRow| {
            let pid = row.labels.get("pid").map_or("", String::as_str);
            let share = rdiag_model::quantity::percent(row.share);
            vec![text(&row.name), text(pid), text(with_unit(row.value, top.unit)), Text::figure(share)]
        };
        let rows: Vec<Vec<Text>> = top.rows.iter().take(5).map(row).collect();
        out.push(table(&["Process", "pid", top.title.as_str(), "Share"].map(text), &rows));
    }
    if out.is_empty() { out } else { shown!("## Largest consumers\n\n{}", out) }
}
