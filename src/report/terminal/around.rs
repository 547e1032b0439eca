//! The course of the time around a window that is over, a line for some minutes.

use super::super::around::{
    UNKNOWN, UNRECORDED, changed, has_io, has_marks, heading, is_judged, rows, share, source, top,
};
use super::{NARROW, Page, Paint, Text, pad, seen};
use crate::shown;
use rdiag_model::report::{Around, Course, Report};

/// Columns of the time of day, and of the marks behind it.
const TIME: usize = 8;
const MARKS: usize = 3;
/// What the figures are called, and how wide each is; where there is less room, as whole percents.
const FIGURES: [(&str, usize); 4] = [("CPU busy", 9), ("PSI cpu", 9), ("PSI mem", 9), ("PSI io", 8)];
const SHORT: [(&str, usize); 4] = [("busy", 5), ("cpu", 5), ("mem", 5), ("io", 5)];
/// From this width on there is room for what storage did.
const WIDE: usize = 96;
/// Columns of the name with most CPU time, where another follows.
const NAME: usize = 28;

impl Page {
    /// A table of about a dozen rows; nothing of a time that is not over, or of which nothing more is known.
    pub(super) fn around(&mut self, report: &Report) {
        let Some(around) = &report.around else { return };
        self.line(seen(heading(around)), 0, Paint::Bold);
        self.line(seen(source(around)), 0, Paint::Dim);
        let is_narrow = self.width < NARROW;
        let has_io = self.width >= WIDE && has_io(around);
        let columns = if is_narrow { SHORT } else { FIGURES };
        let mut head = Text::repeated(" ", TIME + MARKS);
        columns.iter().for_each(|(name, width)| head.push(right(Text::of(*name), *width)));
        if !is_narrow {
            head.push("  ");
            head.push(if has_io { pad("most CPU time", NAME) } else { Text::of("most CPU time") });
            head.push(if has_io { "most I/O" } else { "" });
        }
        self.line(head.trimmed_end(), 0, Paint::Dim);
        for row in rows(around) {
            let line = Line { around, row, columns, is_narrow, has_io, width: self.width }.text();
            let paint = if is_judged(around, row) { Paint::Bold } else { Paint::None };
            self.line(line.trimmed_end(), 0, paint);
        }
        let marked = if has_marks(around) { ", * something changed (above)" } else { "" };
        let psi = "PSI: share of time with some tasks stalled";
        self.line(shown!("> judged{}. {}.", marked, psi), 0, Paint::Dim);
        self.blank();
    }
}

/// A row in the making.
struct Line<'a> {
    around: &'a Around,
    row: &'a Course,
    columns: [(&'static str, usize); 4],
    is_narrow: bool,
    has_io: bool,
    width: usize,
}

impl Line<'_> {
    fn text(&self) -> Text {
        let Self { around, row, .. } = self;
        let judged = if is_judged(around, row) { ">" } else { " " };
        let mark = if changed(around, row).is_empty() { " " } else { "*" };
        let mut text: Text = shown!("{} {}{}", pad(seen(&row.shown).cut(TIME), TIME), judged, mark);
        if row.is_unknown() {
            text.push(shown!("  {}", UNRECORDED));
            return text;
        }
        let pressure = &row.pressure;
        let figures = [row.cpu, pressure.cpu_some, pressure.memory_some, pressure.io_some];
        for (figure, (_, width)) in figures.into_iter().zip(self.columns) {
            let figure = if self.is_narrow { whole(figure) } else { Text::seen(share(figure)) };
            text.push(right(figure, width));
        }
        if !self.is_narrow {
            let taken = TIME + MARKS + self.columns.iter().map(|(_, width)| width).sum::<usize>() + 2;
            let room = if self.has_io { NAME - 1 } else { self.width.saturating_sub(taken) };
            let name = Text::seen(top(row.top_cpu.as_ref())).cut(room);
            text.push(shown!("  {}", if self.has_io { pad(name, NAME) } else { name }));
            if self.has_io {
                let room = self.width.saturating_sub(taken + NAME);
                text.push(Text::seen(top(row.top_io.as_ref())).cut(room));
            }
        }
        text
    }
}

/// A share without decimals, which is not rounded to nothing.
fn whole(share: Option<f64>) -> Text {
    match share.map(|share| share * 100.0) {
        None => Text::of(UNKNOWN),
        Some(percent) if percent > 0.0 && percent < 1.0 => Text::of("<1%"),
        Some(percent) => shown!("{:.0}%", percent),
    }
}

/// At the right end of a column.
fn right(text: Text, width: usize) -> Text {
    use unicode_width::UnicodeWidthStr as _;
    shown!("{}{}", Text::repeated(" ", width.saturating_sub(text.width())), text)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::super::{Style, terminal};
    use crate::sample::{around, report, saturated};

    fn shown(width: usize) -> String {
        let mut report = report(saturated());
        report.around = Some(around());
        let text = terminal(&report, None, &Style { width, color: false, unicode: true }).to_string();
        let (_, from) = text.split_once("Around the window").unwrap();
        let (table, _) = from.split_once("\n\n").unwrap();
        format!("Around the window{table}")
    }

    #[test]
    fn an_hour_is_a_dozen_lines_at_most_as_wide_as_the_terminal() {
        insta::assert_snapshot!(shown(80));
        insta::assert_snapshot!(shown(32));
        insta::assert_snapshot!(shown(110));
        for width in 32..=110 {
            let widest = shown(width).lines().map(str::width).max().unwrap();
            assert!(widest <= width, "{widest} > {width}\n{}", shown(width));
        }
    }

    #[test]
    fn a_screen_has_no_table_of_the_hour() {
        let mut report = report(saturated());
        report.around = Some(around());
        let style = Style { width: 80, color: false, unicode: true };
        assert!(!super::super::brief(&report, None, &style).contains("Around the window"));
    }
}
