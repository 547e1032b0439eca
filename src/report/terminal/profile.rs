//! The profile of a task's time: the table whose sum is 100 %, then what it is made of.

use super::super::profile_words::{self as words, Line};
use super::super::quality;
use super::super::shade::{Shade, dominant};
use super::super::{wait_words, worth};
use super::{Page, Paint, Text, blanks, pad, seen};
use crate::shown;
use crate::shown::{Piece, Terminal};
use rdiag_model::Profile;
use rdiag_model::ledger::Timeline;
use rdiag_model::profile::{ComponentRow, ThreadRow};
use rdiag_model::quantity::{number, percent, seconds};

/// Lines of the forecast, of calls, of threads.
const MAX_LINES: usize = 6;
/// Chains of waits.
const MAX_CHAINS: usize = 3;
/// Longest paragraph, in characters.
const SENTENCES: usize = 1_000;
/// Narrower than this, figures of single waits are left out of the table.
const NARROW: usize = 76;

impl Page {
    /// The answer and the table.
    pub(super) fn profile_in_brief(&mut self, profile: &Profile) {
        self.profile_head(profile);
        self.blank();
        self.table(profile);
        for (at, said) in words::code(profile).iter().enumerate() {
            self.item(if at == 0 { "Code:" } else { "     " }, seen(said), Paint::None, Paint::None);
        }
        self.line(
            shown!("Confidence: {}", Text::seen(quality::confidence(&profile.quality, profile.level))),
            0,
            Paint::None,
        );
        for doubt in words::untold_doubts(profile).into_iter().take(MAX_LINES) {
            self.item("  !", seen(doubt), Paint::None, Paint::None);
        }
        self.blank();
    }

    /// What was asked, and what the table is about.
    fn profile_head(&mut self, profile: &Profile) {
        // That an account ended early comes before anything that it says.
        if let Some((name, limit)) = words::early_end(profile) {
            self.item(shown!("{}:", name), seen(limit), Paint::Bold, Paint::None);
        }
        if let Some(asked) = &words::asked(profile) {
            self.item("Asked:", seen(asked), Paint::Bold, Paint::None);
        }
        if let Some(goal) = &profile.answer.goal {
            self.item("Goal:", seen(goal), Paint::Bold, Paint::None);
        }
        if let Some(runs) = &profile.runs {
            if words::asked(profile).is_some() {
                self.blank();
            }
            self.runs(runs);
        }
        self.line(shown!("Where the time of {} went", seen(&profile.subject)), 0, Paint::Bold);
    }

    pub(super) fn profile(&mut self, profile: &Profile) {
        self.profile_head(profile);
        self.line(Text::seen(words::how_to_read(profile)), 0, Paint::Dim);
        self.blank();
        self.table(profile);
        for text in words::busy(profile).into_iter().chain([quality::quality(profile)]).chain(words::delays(profile)) {
            self.line(Text::seen_within(&text, SENTENCES), 2, Paint::None);
        }
        self.item("  States:", Text::seen(words::states(profile)), Paint::None, Paint::None);
        for limit in words::untold_limits(profile) {
            self.item("  !", Text::seen_within(limit, SENTENCES), Paint::None, Paint::None);
        }
        self.blank();
        for row in worth::described(profile, worth::ON_TERMINAL) {
            self.component(profile, row);
        }
        self.chains(profile);
        self.forecast(profile);
        self.timelines(profile);
        self.calls(profile);
        for note in profile.notes.iter().take(MAX_LINES) {
            self.item("  !", seen(note), Paint::None, Paint::None);
        }
        if !profile.notes.is_empty() {
            self.blank();
        }
    }

    fn table(&mut self, profile: &Profile) {
        let counts = words::has_counts(profile) && self.width >= NARROW;
        let errors = words::has_errors(profile) && !counts;
        let figures = |line: &Line| -> Vec<String> {
            let mut all = vec![line.seconds.clone()];
            if counts {
                all.extend([line.count.clone(), line.mean.clone(), line.max.clone()]);
            }
            if errors {
                all.push(line.plus_minus.clone());
            }
            all
        };
        let mut titles = vec!["seconds"];
        if counts {
            titles.extend(["times", "mean", "longest"]);
        }
        if errors {
            titles.push("±");
        }
        let lines: Vec<Line> = words::lines(profile);
        let lines: Vec<&Line> =
            lines.iter().filter(|line| line.component.is_none() || line.share >= worth::LINE).collect();
        // `11 + 2 open` needs more room than a number.
        let width = |column: usize| {
            let longest = |line: &&Line| figures(line).get(column).map_or(0, |figure| figure.chars().count());
            lines.iter().map(longest).max().map_or(9, |longest| 9.max(longest + 2))
        };
        let widths: Vec<usize> = (0..titles.len()).map(width).collect();
        let head: Text =
            titles.iter().zip(&widths).map(|(title, width)| Text::seen(format!("{title:>width$}"))).collect();
        self.push(shown!("{:>7} {:6}{}  what", "share", "", head), Paint::Dim);
        for line in &lines {
            let bar = bar(line.share, self.unicode);
            let figures = figures(line);
            let figures: Text =
                figures.iter().zip(&widths).map(|(figure, width)| Text::seen(format!("{figure:>width$}"))).collect();
            let mark = if line.idle { " *" } else { "" };
            let name = shown!("{}{}", seen(&line.title), mark);
            let text = shown!("{:>7} {}{}  ", Text::seen(&line.percent), bar, figures);
            let paint = if line.share >= worth::BOLD { Paint::Bold } else { Paint::None };
            self.item_at(text, name, paint);
        }
        let first = widths.first().copied().unwrap_or(9);
        let whole = seconds(profile.task_seconds);
        let all = shown!("{:>7} {:6}{}  ", "100%", "", Text::seen(format!("{whole:>first$}")));
        self.item_at(all, Text::seen(words::sum(profile)), Paint::Dim);
        if lines.iter().any(|line| line.idle) {
            self.line("* waiting for others or for work", 2, Paint::Dim);
        }
        if let Some(bases) = words::bases(profile) {
            self.line(Text::seen_within(&bases, SENTENCES), 2, Paint::Dim);
        }
        self.blank();
    }

    /// Figures, and a name that is cut rather than broken.
    pub(super) fn item_at<'p>(&mut self, figures: Text, name: impl Into<Piece<'p, Terminal>>, paint: Paint) {
        let mut line = figures;
        line.push(name);
        if line.chars().count() > self.width {
            line = line.cut(self.width - 1);
            line.push(if self.unicode { "…" } else { "~" });
        }
        self.push(line, paint);
    }

    fn component(&mut self, profile: &Profile, row: &ComponentRow) {
        let [share, took] = [percent(row.share), seconds(row.seconds)].map(Text::seen);
        self.line(shown!("{} · {}: {} ({})", share, row.id.id(), seen(&row.title), took), 0, Paint::Bold);
        self.line(seen(&row.help), 2, Paint::Dim);
        if !row.skew_words.is_empty() {
            self.field("spread", seen(&row.skew_words));
        }
        self.lengths(row);
        for (name, pieces) in [("calls", &row.calls), ("on", &row.keys), ("in", &row.code), ("threads", &row.threads)] {
            if pieces.len() > 1 || (name != "threads" && !pieces.is_empty()) {
                self.field(name, seen(words::pieces(pieces, 4)));
            }
        }
        let wakers = words::wakers(profile, row.id, 3);
        if !wakers.is_empty() {
            self.field("ended by", seen(&wakers));
        }
        for (at, call) in row.slow.iter().take(2).enumerate() {
            self.field(if at == 0 { "slowest" } else { "" }, seen(words::slow(call)));
        }
        for (at, step) in row.next.iter().take(3).enumerate() {
            self.field(if at == 0 { "next" } else { "" }, seen(&step.action));
        }
        self.blank();
    }

    /// How many waits of each length there were, above how much time they hold.
    fn lengths(&mut self, row: &ComponentRow) {
        let Some((count, time)) = wait_words::lengths(row, self.unicode) else { return };
        let span = wait_words::span(&row.bins).unwrap_or_default();
        let [count, time, span] = [count, time, span].map(Text::seen);
        self.field("lengths", shown!("|{}| how many", count));
        self.field("", shown!("|{}| how much time, {}", time, span));
    }

    fn chains(&mut self, profile: &Profile) {
        if profile.chains.is_empty() {
            return;
        }
        self.push("Waker chains", Paint::Bold);
        self.line(wait_words::CHAINS, 2, Paint::Dim);
        for chain in profile.chains.iter().take(MAX_CHAINS) {
            for (at, line) in wait_words::chain(chain).iter().enumerate() {
                let mark = if at == 0 { "-" } else { ">" };
                self.item(shown!("{}{}", blanks(2 + 2 * at), mark), seen(line), Paint::None, Paint::None);
            }
        }
        self.blank();
    }

    fn forecast(&mut self, profile: &Profile) {
        let forecast = &profile.forecast;
        if forecast.rows.is_empty() {
            return;
        }
        self.push("What if it were gone?", Paint::Bold);
        self.line(seen(&forecast.basis), 2, Paint::Dim);
        for row in forecast.rows.iter().take(MAX_LINES) {
            let [vanished, halved] = [row.vanished, row.halved].map(|bounds| Text::seen(words::bounds(bounds)));
            let marks = Text::seen(words::marks(row));
            let text = shown!("all else equal: gone {}, halved {}{}. {}", vanished, halved, marks, seen(&row.words));
            self.item(shown!("  {}", pad(row.id.id(), 15)), text, Paint::None, Paint::None);
        }
        for (number, why) in words::ranges(forecast, MAX_LINES) {
            self.item(shown!("  {}", Text::seen(number)), seen(why), Paint::Dim, Paint::Dim);
        }
        self.blank();
    }

    fn timelines(&mut self, profile: &Profile) {
        let rows: Vec<(&ThreadRow, &Timeline)> = profile
            .threads
            .iter()
            .filter_map(|row| Some((row, profile.timelines.iter().find(|timeline| timeline.tid == row.tid)?)))
            .take(MAX_LINES)
            .collect();
        if rows.is_empty() {
            return;
        }
        self.push("The threads over time", Paint::Bold);
        let width = self.width.saturating_sub(26).clamp(6, 60);
        let mut shades: Vec<Shade> = Vec::new();
        for (row, timeline) in &rows {
            let bar: String = (0..width)
                .map(|at| {
                    let shade = shade_at(timeline, profile.elapsed_seconds, at, width);
                    shades.extend(shade);
                    shade.map_or(' ', Shade::letter)
                })
                .collect();
            let name = seen(words::thread(row)).cut(22);
            self.push(shown!("  {}|{}|", pad(name, 22), Text::seen(bar)), Paint::None);
        }
        let legend = Shade::ALL.iter().filter(|shade| shades.contains(shade));
        let legend = legend.map(|shade| shown!("{} {}", Text::seen(shade.letter().to_string()), shade.word()));
        self.line(Text::joined(legend, "   "), 2, Paint::Dim);
        self.blank();
    }

    fn calls(&mut self, profile: &Profile) {
        let Some(calls) = &profile.calls else { return };
        self.push("The same time by call", Paint::Bold);
        let [called, faults, outside] =
            [calls.syscall_seconds, calls.fault_seconds, calls.user_seconds].map(|time| Text::seen(seconds(time)));
        let text = shown!(
            "In system calls {}, in page faults {}, outside both {}. Within a call there is waiting and CPU time.{}",
            called,
            faults,
            outside,
            Text::seen(words::watched(calls))
        );
        self.line(text, 2, Paint::Dim);
        let columns = if self.width >= NARROW { 5 } else { 2 };
        let heads = ["seconds", "times", "mean", "p99", "longest"].iter().take(columns);
        let heads: Text = heads.map(|head| shown!("{:>9}", *head)).collect();
        self.push(shown!("{}  call", heads), Paint::Dim);
        let time = |value: Option<f64>| value.map_or_else(|| words::NOT_KNOWN.to_owned(), seconds);
        for row in calls.rows.iter().take(MAX_LINES) {
            let figures =
                [seconds(row.seconds), number(row.count as f64), time(row.mean), time(row.p99), time(row.max)];
            let figures: Text =
                figures.iter().take(columns).map(|figure| shown!("{:>9}", Text::seen(figure))).collect();
            let errors = words::errors(row);
            let storm = if row.error_storm { "!" } else { "" };
            let errors = if errors.is_empty() { errors } else { format!(" {storm}({errors})") };
            self.item_at(shown!("{}  ", figures), seen(format!("{}{errors}", row.name)), Paint::None);
        }
        if calls.others.others > 0 {
            let took = Text::seen(seconds(calls.others.seconds));
            self.line(shown!("and {} other calls, {}", calls.others.others, took), 2, Paint::Dim);
        }
        self.blank();
    }
}

/// What a thread mostly did in one of `width` equal parts of the window; none where nothing is known.
fn shade_at(timeline: &Timeline, elapsed: f64, at: usize, width: usize) -> Option<Shade> {
    let part = elapsed / width.max(1) as f64;
    let (from, until) = (at as f64 * part, (at + 1) as f64 * part);
    let mut best: Option<(f64, Shade)> = None;
    for slice in &timeline.slices {
        let overlap = slice.until.min(until) - slice.from.max(from);
        if overlap > best.map_or(0.0, |best| best.0)
            && let Some(component) = dominant(slice)
        {
            best = Some((overlap, Shade::of(component)));
        }
    }
    best.map(|best| best.1)
}

/// Six characters for a share.
fn bar(share: f64, unicode: bool) -> Text {
    let eighths = (share.clamp(0.0, 1.0) * 48.0).round() as usize;
    if !unicode {
        return shown!("{:6}", Text::repeated("#", eighths / 8));
    }
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"].get(eighths % 8).copied().unwrap_or_default();
    pad(shown!("{}{}", Text::repeated("█", eighths / 8), rest), 6)
}
