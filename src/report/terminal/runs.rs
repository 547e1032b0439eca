//! Repeated runs: how long they took, and what differs between the slow and the fast ones.

use super::super::{run_words as words, worth};
use super::{Page, Paint, Text, seen};
use crate::shown;
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::{Difference, Keyed, Runs};

/// Lines of components, of growth, of slow runs.
const MAX_LINES: usize = 6;
/// Bars of the histogram; a report may come from anywhere.
const MAX_BARS: usize = 24;
/// Narrower than this, only some figures of a spread are shown.
const NARROW: usize = 72;

impl Page {
    pub(super) fn runs(&mut self, runs: &Runs) {
        self.push("Run by run", Paint::Bold);
        for limit in runs.limits.iter().take(MAX_LINES) {
            self.item("  !", seen(limit), Paint::None, Paint::None);
        }
        if runs.count == 0 {
            return self.blank();
        }
        self.line(Text::seen(words::lead(runs)), 0, Paint::Dim);
        if let Some(goal) = words::goal(runs) {
            self.line(Text::seen(goal), 0, Paint::None);
        }
        self.blank();
        self.run_histogram(runs);
        match &runs.difference {
            Some(difference) => self.difference(difference),
            None => self.line(words::ALIKE, 0, Paint::None),
        }
        self.blank();
        if let Some(keyed) = &runs.keyed {
            self.keyed(keyed, runs);
        }
        self.spreads(runs);
        self.push("The slowest runs", Paint::Bold);
        for run in runs.slowest.iter().take(MAX_LINES) {
            let label = shown!("  {:>9}", Text::seen(seconds(run.seconds)));
            let text = format!("{} at {}: {}", words::name(run), seconds(run.at), words::parts(run));
            self.item(label, seen(&text), Paint::None, Paint::None);
        }
        self.blank();
    }

    fn run_histogram(&mut self, runs: &Runs) {
        let width = self.width.saturating_sub(36).clamp(4, 40);
        for bar in runs.histogram.iter().take(MAX_BARS) {
            let filled = (bar.length.clamp(0.0, 1.0) * width as f64).ceil() as usize;
            let sign = if self.unicode { "█" } else { "#" };
            let [from, below] = [bar.from, bar.below].map(|edge| Text::seen(seconds(edge)));
            let range: Text = match self.width {
                ..NARROW => shown!("from {:>9}", from),
                _ => shown!("{:>9} – {:>9}", from, below),
            };
            self.push(shown!("  {}  {:>5} {}", range, bar.count, Text::repeated(sign, filled)), Paint::None);
        }
        self.blank();
    }

    fn difference(&mut self, difference: &Difference) {
        self.push("What the slow runs have more of", Paint::Bold);
        self.line(Text::seen(words::against(difference)), 0, Paint::None);
        let wide = self.width >= NARROW;
        let both = if wide { shown!("{:>10}{:>10}", "slow", "fast") } else { Text::new() };
        self.push(shown!("{:>8}{:>11}{}  what", "share", "more", both), Paint::Dim);
        for row in difference.rows.iter().take(MAX_LINES) {
            let [slow, fast] = [row.slow_mean, row.fast_mean].map(|mean| Text::seen(seconds(mean)));
            let both = if wide { shown!("{:>10}{:>10}", slow, fast) } else { Text::new() };
            let [share, more] = [percent(row.share), words::signed(row.seconds)].map(Text::seen);
            let figures = shown!("{:>8}{:>11}{} ", share, more, both);
            let text = format!("{}; above any fast run in {}", words::grown(row), words::above(row, difference));
            let paint = if row.share >= worth::BOLD { Paint::Bold } else { Paint::None };
            self.hanging(&figures, &seen(&text), 4, paint, Paint::None);
        }
        if let Some(text) = words::unexplained(difference) {
            self.line(Text::seen(text), 2, Paint::Dim);
        }
    }

    fn keyed(&mut self, keyed: &Keyed, runs: &Runs) {
        self.push("By key", Paint::Bold);
        self.line(seen(words::by_key(keyed, runs)), 0, Paint::None);
        let wide = self.width >= NARROW;
        let has_goal = wide && keyed.rows.iter().any(|row| row.missed.is_some());
        let in_between = |over: Text, median: Text| {
            let over = if has_goal { shown!("{:>10}", over) } else { Text::new() };
            if wide { shown!("{}{:>10}", over, median) } else { Text::new() }
        };
        if !keyed.rows.is_empty() {
            let in_between = in_between(Text::of("over goal"), Text::of("median"));
            self.push(shown!("{:>8}{:>7}{}{:>10}  key", "runs", "slow", in_between, "most"), Paint::Dim);
        }
        for row in keyed.rows.iter().take(MAX_LINES) {
            let missed = row.missed.map_or_else(|| Text::of("–"), |missed| Text::seen(missed.to_string()));
            let [median, most] = [row.spread.p50, row.spread.max].map(|value| Text::seen(seconds(value)));
            let figures = shown!("{:>8}{:>7}{}{:>10}  ", row.runs, row.slow, in_between(missed, median), most);
            let paint = if row.slow > 0 { Paint::Bold } else { Paint::None };
            self.item_at(figures, seen(&row.key), paint);
            self.line(seen(words::of_key(row)), 10, Paint::Dim);
        }
        self.blank();
    }

    fn spreads(&mut self, runs: &Runs) {
        let Some(response) = &runs.response else { return };
        let wide = self.width >= NARROW;
        let heads = words::heads(response);
        let line = |all: &[String]| -> Text {
            let shown = heads.iter().zip(all).filter(|(head, _)| wide || ["Mean", "Median", "Most"].contains(head));
            shown.map(|(_, text)| shown!("{:>10}", Text::seen(text))).collect()
        };
        let titles: Vec<String> = heads.iter().map(|head| head.to_lowercase()).collect();
        self.push("How the time of a run is spread", Paint::Bold);
        self.item_at(shown!("{}  ", line(&titles)), "of a run", Paint::Dim);
        self.item_at(shown!("{}  ", line(&words::figures(response, response))), "all", Paint::Bold);
        for row in runs.components.iter().filter(|row| row.share >= worth::SPREAD_OVER_RUNS).take(MAX_LINES) {
            let figures = line(&words::figures(response, &row.spread));
            self.item_at(shown!("{}  ", figures), seen(&row.title), Paint::None);
        }
        self.blank();
    }
}
