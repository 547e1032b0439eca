//! The report as terminal text: the answer first, for a reader with thirty seconds.

mod answer;
mod around;
mod brief;
mod changes;
mod findings;
mod probes;
mod profile;
mod runs;
mod so_far;

use unicode_width::UnicodeWidthStr as _;

pub use brief::{brief, summary, verdict_alone};
pub use changes::compared;
pub use so_far::{so_far, so_far_line};

use super::shown::{Piece, Shown, Terminal};
use super::{rows, words};
use crate::shown;
use rdiag_model::report::{Cell, MatrixRow};
use rdiag_model::{Finding, Kind, Report, Resource, Status};

/// Causes of gaps that are listed.
const MAX_GAPS: usize = 8;
/// Narrower than this, the matrix becomes a list.
const NARROW: usize = 56;
/// Wider lines are hard to read, however wide the terminal is.
const WIDEST: usize = 110;
/// Longest text of a finding, in characters.
const MAX_TEXT: usize = 500;
/// Width of the column of resources.
const LABEL: usize = 17;

/// What a terminal is written.
type Text = Shown<Terminal>;

/// How to write: the caller knows the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether colours may be used; they only repeat what the words say.
    pub color: bool,
    /// Whether more than ASCII may be used.
    pub unicode: bool,
}

/// The whole report as text, ending with the verdict. `written` says where its files are.
#[must_use]
pub fn terminal(report: &Report, written: Option<&Shown<Terminal>>, style: &Style) -> Shown<Terminal> {
    let mut page = Page::new(style);
    page.occasion(report);
    if let Some(profile) = &report.profile {
        page.profile(profile);
        page.push("The resources behind it", Paint::Bold);
    }
    page.answer(report);
    page.changes(report, usize::MAX);
    page.around(report);
    page.usual(report);
    page.matrix(report);
    page.findings(report);
    page.probes(report);
    page.ruled_out(report);
    page.gaps(report);
    page.line(Text::seen(words::cost(report)), 0, Paint::Dim);
    page.files(written);
    page.blank();
    page.verdict_line(report);
    let checks = &report.coverage.checks;
    if checks.unknown > 0 {
        let apply = checks.judged.saturating_add(checks.unknown);
        let note = shown!("Not measured: {} of {} checks; see above.", checks.unknown, apply);
        page.line(note, 0, Paint::None);
    }
    page.done()
}

#[derive(Clone, Copy, PartialEq)]
enum Paint {
    None,
    Dim,
    Bold,
    Status(Status),
}

struct Page {
    out: Text,
    width: usize,
    color: bool,
    unicode: bool,
}

impl Page {
    fn new(style: &Style) -> Self {
        let width = style.width.clamp(32, WIDEST);
        Self { out: Text::new(), width, color: style.color, unicode: style.unicode }
    }

    fn done(self) -> Text {
        if self.unicode { self.out } else { self.out.ascii() }
    }

    fn verdict_line(&mut self, report: &Report) {
        let verdict = &report.verdict;
        let badge = self.badge(verdict.status);
        self.hanging(&badge, &seen(verdict.headline.to_string()), 2, Paint::Status(verdict.status), Paint::Bold);
    }

    fn files(&mut self, written: Option<&Text>) {
        if let Some(written) = written {
            self.line(written, 0, Paint::None);
        }
    }

    /// What was measured, where and when.
    fn occasion(&mut self, report: &Report) {
        let [measured, occasion] = [words::measured(report), words::occasion(report)].map(Text::seen);
        self.line(shown!("{} · {} · {}", seen(&report.playbook.name), measured, occasion), 0, Paint::Dim);
        self.recipe(report);
        self.blank();
    }

    /// How to have the same again, of what was measured during an exercise.
    fn recipe(&mut self, report: &Report) {
        if let Some((said, command)) = words::recipe(report) {
            let (said, command) = (Text::seen(said), Text::seen(command));
            self.line(shown!("{} The same again: {}", said, command), 0, Paint::Dim);
        }
    }

    fn matrix(&mut self, report: &Report) {
        if self.width < NARROW {
            return self.matrix_as_list(report);
        }
        self.matrix_of(&report.matrix);
        self.blank();
    }

    /// Rows of the matrix, under their heading.
    fn matrix_of(&mut self, rows: &[MatrixRow]) {
        let column = ((self.width - LABEL) / 3).min(24);
        let head: Text = Kind::ALL.iter().map(|kind| pad(words::kind(*kind), column)).collect();
        self.push(shown!("{}{}", blanks(LABEL), head.trimmed_end()), Paint::Dim);
        for row in rows.iter().take(Resource::ALL.len()) {
            let mut line = pad(words::resource(row.resource), LABEL);
            for cell in row.cells.iter().take(Kind::ALL.len()) {
                line.push(self.cell(cell, column));
            }
            self.push(line.trimmed_end(), Paint::None);
        }
    }

    fn matrix_as_list(&mut self, report: &Report) {
        for row in report.matrix.iter().take(Resource::ALL.len()) {
            self.push(words::resource(row.resource), Paint::Bold);
            for cell in row.cells.iter().take(Kind::ALL.len()) {
                let text: Text = shown!("  {}{}", pad(words::kind(cell.kind), 13), self.cell(cell, self.width - 15));
                self.push(text.trimmed_end(), Paint::None);
            }
        }
        self.blank();
    }

    /// A cell: mark, word, and the figure if there is room.
    fn cell(&self, cell: &Cell, column: usize) -> Text {
        let word = words::cell_word(cell);
        let mark = match (self.unicode, cell.status) {
            (false, _) | (_, None) => "",
            (_, Some(status)) => mark(status),
        };
        let mut text = if mark.is_empty() { Text::of(word) } else { shown!("{} {}", mark, word) };
        let figure = Text::seen(words::cell_figure(cell));
        if !figure.is_empty() && text.width() + figure.width() + 2 <= column {
            text.push(" ");
            text.push(&figure);
        }
        let padding = blanks(column.saturating_sub(text.width()));
        let paint = cell.status.map_or(Paint::Dim, Paint::Status);
        shown!("{}{}", self.painted(&text, paint), padding)
    }

    fn ruled_out(&mut self, report: &Report) {
        if report.ruled_out.is_empty() {
            return;
        }
        self.push("Ruled out", Paint::Bold);
        for out in report.ruled_out.iter().take(Resource::ALL.len()) {
            let first = Text::joined(out.sentences.iter().take(2).map(seen), " ");
            let more = out.sentences.len().saturating_sub(2);
            let more = if more > 0 { shown!(" (+{})", more) } else { Text::new() };
            let partly = if out.complete { "" } else { "in part: " };
            let label: Text = shown!("  {}", pad(words::resource(out.resource), LABEL - 1));
            self.item(label, shown!("{}{}{}", partly, first, more), Paint::None, Paint::None);
        }
        self.blank();
    }

    fn gaps(&mut self, report: &Report) {
        if let Some(counted) = rows::counted(&report.coverage) {
            let where_listed = "report.html and --format json list them, with what to type instead.";
            self.line(shown!("{}; {}", Text::seen(counted), where_listed), 0, Paint::Dim);
            self.blank();
        }
        let groups = &report.coverage.groups;
        if groups.is_empty() {
            return;
        }
        let checks = report.coverage.checks.unknown;
        let metrics = report.coverage.unavailable.len();
        let [metrics, checks] = [(metrics, "reading", "readings"), (checks, "check", "checks")]
            .map(|(count, one, many)| Text::seen(words::plural(count, one, many)));
        self.line(shown!("Could not be measured: {}, {}", metrics, checks), 0, Paint::Bold);
        for group in groups.iter().take(MAX_GAPS) {
            let named = Text::seen(words::some(&words::missing(group), 3));
            self.item("  -", shown!("{}: {}", seen(&group.gap.why), named), Paint::None, Paint::None);
            if let Some(remedy) = &group.gap.remedy {
                self.item("    →", seen(remedy), Paint::None, Paint::None);
            }
        }
        if groups.len() > MAX_GAPS {
            let more = groups.len() - MAX_GAPS;
            self.line(shown!("and {} more causes; --format json lists them", more), 2, Paint::Dim);
        }
        self.blank();
    }

    fn badge(&self, status: Status) -> Text {
        let word = Text::seen(status.word().to_uppercase());
        if self.unicode { shown!("{} {}", mark(status), word) } else { word }
    }

    /// A name and a text that hangs beside it.
    fn field<'p>(&mut self, name: &'static str, text: impl Into<Piece<'p, Terminal>>) {
        self.item(shown!("  {:<9}", name), text, Paint::Dim, Paint::None);
    }

    /// A text that hangs beside its label, or under it where there is no room.
    fn item<'p>(
        &mut self,
        label: impl Into<Piece<'p, Terminal>>,
        text: impl Into<Piece<'p, Terminal>>,
        label_paint: Paint,
        text_paint: Paint,
    ) {
        let label = Text::of(label);
        let hang = label.width() + 1;
        let hang = if hang * 2 > self.width { 4 } else { hang };
        self.hanging(&label, &Text::of(text), hang, label_paint, text_paint);
    }

    /// A label and a text; lines after the first begin at column `hang`.
    fn hanging(&mut self, label: &Text, text: &Text, hang: usize, label_paint: Paint, text_paint: Paint) {
        for (at, line) in text.wrapped(self.width, label.width() + 1, hang).iter().enumerate() {
            let part = self.painted(line, text_paint);
            if at == 0 {
                self.push(shown!("{} {}", self.painted(label, label_paint), part), Paint::None);
            } else {
                self.push(shown!("{}{}", blanks(hang), part), Paint::None);
            }
        }
    }

    fn line<'p>(&mut self, text: impl Into<Piece<'p, Terminal>>, indent: usize, paint: Paint) {
        for part in Text::of(text).wrapped(self.width.saturating_sub(indent).max(16), 0, 0) {
            let part = self.painted(&part, paint);
            self.push(shown!("{}{}", blanks(indent), part), Paint::None);
        }
    }

    fn blank(&mut self) {
        self.out.push("\n");
    }

    fn push<'p>(&mut self, line: impl Into<Piece<'p, Terminal>>, paint: Paint) {
        let line = self.painted(&Text::of(line), paint);
        self.out.push(line.trimmed_end());
        self.out.push("\n");
    }

    fn painted(&self, text: &Text, paint: Paint) -> Text {
        let code = match paint {
            _ if !self.color => return text.clone(),
            Paint::None => return text.clone(),
            Paint::Dim => "2",
            Paint::Bold => "1",
            Paint::Status(Status::Critical) => "1;31",
            Paint::Status(Status::Warning) => "1;33",
            Paint::Status(Status::Info) => "36",
            Paint::Status(Status::Unknown) => "35",
            Paint::Status(Status::Ok) => "32",
            Paint::Status(Status::Skipped) => "2",
        };
        text.painted(code)
    }
}

/// Text that is not trusted; a terminal has no room for the longest.
fn seen(text: impl AsRef<str>) -> Text {
    Text::seen_within(text, MAX_TEXT)
}

fn blanks(columns: usize) -> Text {
    Text::repeated(" ", columns)
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Critical => "✖",
        Status::Warning => "▲",
        Status::Info => "●",
        Status::Unknown => "?",
        Status::Ok => "✓",
        Status::Skipped => "·",
    }
}

fn instance_and_value(finding: &Finding) -> Text {
    let instance = words::instance_of(finding).map_or_else(|| Text::of("this host"), Text::seen);
    let text: Text = shown!("{} {}", instance, Text::seen(words::value(finding)));
    text.trimmed_end()
}

fn pad<'p>(text: impl Into<Piece<'p, Terminal>>, width: usize) -> Text {
    Text::of(text).padded(width)
}
