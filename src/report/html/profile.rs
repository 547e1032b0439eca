//! The profile of a task's time, as the page shows it.

use serde::Serialize;

use super::runs::RunsView;
use super::table::{CellView, TableView, figure, table, text};
use super::timeline::{ThreadView, threads};
use super::view::Limits;
use super::waits::{Chains, Code, Spreads};
use crate::profile_words as words;
use crate::shade::Shade;
use crate::shown::{Html, Shown};
use crate::words::counted;
use crate::{quality, svg, worth};
use rdiag_model::Profile;
use rdiag_model::profile::{CallProfile, ComponentRow, Range};
use rdiag_model::quantity::{number, percent, seconds};

#[derive(Serialize)]
pub(super) struct ProfileView {
    subject: String,
    asked: String,
    goal: String,
    runs: Option<RunsView>,
    how_to_read: String,
    strip: Shown<Html>,
    legend: Vec<Legend>,
    counts: bool,
    errors: bool,
    lines: Vec<LineView>,
    total: String,
    sum: String,
    busy: String,
    quality: String,
    /// The same in short.
    confidence: String,
    checks: Vec<String>,
    states: Vec<StateView>,
    delays: Vec<String>,
    components: Vec<ComponentView>,
    forecast_basis: String,
    forecast: Option<TableView>,
    forecast_ranges: Vec<String>,
    threads: Vec<ThreadView>,
    ends: String,
    threads_hidden: String,
    calls_lead: String,
    calls: Option<TableView>,
    spreads: Option<Spreads>,
    chains: Option<Chains>,
    code: Option<Code>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Legend {
    class: &'static str,
    word: &'static str,
}

#[derive(Serialize)]
struct LineView {
    link: String,
    title: String,
    id: String,
    percent: String,
    bar: f64,
    class: &'static str,
    seconds: String,
    plus_minus: String,
    count: String,
    mean: String,
    p99: String,
    max: String,
    idle: bool,
}

#[derive(Serialize)]
struct StateView {
    word: &'static str,
    share: String,
}

#[derive(Serialize)]
struct ComponentView {
    anchor: String,
    class: &'static str,
    title: String,
    id: String,
    figures: String,
    help: String,
    spread: String,
    facts: Vec<Fact>,
    ranges: Option<TableView>,
    slow: Vec<String>,
    next: Vec<String>,
}

#[derive(Serialize)]
struct Fact {
    name: &'static str,
    value: String,
}

impl ProfileView {
    /// Bytes of the flame graph, which do not count against the size of the page.
    pub(super) fn flame_bytes(&self) -> usize {
        self.code.as_ref().map_or(0, Code::len)
    }

    pub(super) fn of(profile: &Profile, limits: &Limits) -> Self {
        let described = worth::described(profile, worth::ON_PAGE);
        let linked: Vec<&str> = described.iter().map(|row| row.id.id()).collect();
        let mut shades: Vec<Shade> = profile.components.iter().map(|row| Shade::of(row.id)).collect();
        shades.sort_unstable();
        shades.dedup();
        let (threads, threads_hidden) = threads(profile);
        let word = |shade: Shade| match shade {
            // These are part of the request's response time too.
            Shade::Idle if profile.is_of_requests() => "pauses and polls",
            other => other.word(),
        };
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        let losses =
            profile.lost.iter().map(|(reason, count)| format!("lost {}: {reason}", counted(*count, "event", "events")));
        let runs = profile.runs.as_ref().filter(|runs| runs.count > 0);
        Self {
            subject: profile.subject.clone(),
            asked: said(&words::asked(profile)),
            goal: said(&profile.answer.goal),
            runs: runs.map(|runs| RunsView::of(runs, limits)),
            how_to_read: [Some(words::how_to_read(profile)), words::bases(profile)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
            strip: strip(profile),
            legend: shades.iter().map(|shade| Legend { class: shade.class(), word: word(*shade) }).collect(),
            counts: words::has_counts(profile),
            errors: words::has_errors(profile),
            lines: words::lines(profile).into_iter().map(|line| line_view(line, &linked)).collect(),
            total: seconds(profile.task_seconds),
            sum: words::sum(profile),
            busy: words::busy(profile).unwrap_or_default(),
            quality: quality::quality(profile),
            confidence: quality::confidence(&profile.quality, profile.level),
            checks: profile.quality.checks.iter().map(check).collect(),
            states: profile
                .states
                .iter()
                .map(|row| StateView { word: row.state.word(), share: percent(row.share) })
                .collect(),
            spreads: Spreads::of(&described),
            chains: Chains::of(profile, limits.rows),
            delays: words::delays(profile),
            components: described.into_iter().map(|row| component(profile, row)).collect(),
            forecast_basis: profile.forecast.basis.clone(),
            forecast: forecast(profile),
            forecast_ranges: words::ranges(&profile.forecast, usize::MAX)
                .into_iter()
                .map(|(number, why)| format!("{number} {why}"))
                .collect(),
            threads,
            ends: seconds(profile.elapsed_seconds),
            threads_hidden,
            calls_lead: profile.calls.as_ref().map(calls_lead).unwrap_or_default(),
            calls: profile.calls.as_ref().map(|all| calls(all, limits.rows)),
            code: Code::of(profile),
            notes: profile.notes.iter().cloned().chain(losses).take(limits.rows).collect(),
        }
    }
}

/// All components side by side, in the order of the table.
fn strip(profile: &Profile) -> Shown<Html> {
    let mut from = 0.0;
    let parts = words::lines(profile).into_iter().filter_map(|line| {
        let part = svg::Stretch {
            from,
            until: from + line.share.max(0.0),
            class: line.component.map_or("t-none", |component| Shade::of(component).class()),
            title: format!("{} {}", line.percent, line.title),
        };
        from = part.until;
        (line.share > 0.0).then_some(part)
    });
    svg::stretches(&parts.collect::<Vec<_>>(), 26)
}

fn line_view(line: words::Line, linked: &[&str]) -> LineView {
    let link = if linked.contains(&line.id.as_str()) { anchor(&line.id) } else { String::new() };
    LineView {
        link,
        bar: (line.share.clamp(0.0, 1.0) * 1000.0).round() / 10.0,
        class: line.component.map_or("t-none", |component| Shade::of(component).class()),
        title: line.title,
        id: if line.component.is_some() { line.id } else { String::new() },
        percent: line.percent,
        seconds: line.seconds,
        plus_minus: line.plus_minus,
        count: line.count,
        mean: line.mean,
        p99: line.p99,
        max: line.max,
        idle: line.idle,
    }
}

fn anchor(id: &str) -> String {
    format!("time-{}", id.replace('.', "-"))
}

fn check(check: &rdiag_model::profile::Check) -> String {
    let outcome = match check.agrees {
        Some(true) => "agrees",
        Some(false) => "DISAGREES",
        None => "could not be made",
    };
    format!("{}: {outcome} ({})", check.id.replace('_', " "), check.words)
}

fn component(profile: &Profile, row: &ComponentRow) -> ComponentView {
    let mut figures = format!("{} of the time, {}", percent(row.share), seconds(row.seconds));
    if let (Some(count), Some(mean)) = (row.count.filter(|count| *count > 0), row.mean) {
        figures.push_str(&format!(", {}, {} on average", counted(count, "time", "times"), seconds(mean)));
    }
    if row.open > 0 {
        figures.push_str(&format!(", {} under way at an edge of the window", row.open));
    }
    let facts = [
        ("Calls", words::pieces(&row.calls, 8)),
        ("On", words::pieces(&row.keys, 8)),
        ("Threads", words::pieces(&row.threads, 8)),
        ("In", words::pieces(&row.code, 5)),
        ("Ended by", words::wakers(profile, row.id, 5)),
        ("Explained by", row.rules.join(", ")),
    ];
    ComponentView {
        anchor: anchor(row.id.id()),
        class: Shade::of(row.id).class(),
        title: row.title.clone(),
        id: row.id.id().into(),
        figures,
        help: row.help.clone(),
        spread: row.skew_words.clone(),
        facts: facts
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| Fact { name, value })
            .collect(),
        ranges: (row.ranges.len() > 1).then(|| ranges(&row.ranges)),
        slow: row.slow.iter().map(words::slow).collect(),
        next: row.next.iter().map(|step| step.action.clone()).collect(),
    }
}

fn ranges(ranges: &[Range]) -> TableView {
    let row = |range: &Range| {
        vec![
            text(format!("{} – {}", seconds(range.from), seconds(range.below))),
            figure(seconds(range.seconds)),
            figure(percent(range.share)),
            figure(number(range.count as f64)),
            figure(percent(range.count_share)),
            figure(seconds(range.mean)),
        ]
    };
    table(
        "By duration",
        &["Duration", "Time", "Of the time", "Times", "Of the times", "Mean"],
        1,
        ranges.iter().map(row).collect(),
    )
}

fn forecast(profile: &Profile) -> Option<TableView> {
    let rows: Vec<Vec<CellView>> = profile
        .forecast
        .rows
        .iter()
        .map(|row| {
            vec![
                text(row.id.id().into()),
                figure(seconds(row.seconds)),
                figure(format!("{}{}", words::bounds(row.vanished), words::marks(row))),
                figure(format!("{}{}", words::bounds(row.halved), words::marks(row))),
                figure(words::speed_up(row)),
                text(row.words.clone()),
            ]
        })
        .collect();
    let heads =
        ["Component", "Now", "If gone, all else equal", "If halved, all else equal", "Faster", "What can be done"];
    (!rows.is_empty()).then(|| {
        let mut view = table("What if it were gone", &heads, 1, rows);
        if let Some(last) = view.head.last_mut() {
            last.number = false;
        }
        view
    })
}

fn calls_lead(calls: &CallProfile) -> String {
    format!(
        "In system calls {}, in page faults {}, outside both {}. Within a call there is waiting and CPU time, so this is a \
         second cut of the same seconds.{}",
        seconds(calls.syscall_seconds),
        seconds(calls.fault_seconds),
        seconds(calls.user_seconds),
        words::watched(calls)
    )
}

fn calls(all: &CallProfile, most: usize) -> TableView {
    let time = |value: Option<f64>| figure(value.map_or_else(|| words::NOT_KNOWN.to_owned(), seconds));
    let row = |row: &rdiag_model::profile::CallRow| {
        vec![
            text(row.name.clone()),
            figure(seconds(row.seconds)),
            figure(percent(row.share)),
            figure(number(row.count as f64)),
            time(row.mean),
            time(row.p50),
            time(row.p99),
            time(row.max),
            time(row.on_cpu_seconds),
            text(format!("{}{}", if row.error_storm { "many: " } else { "" }, words::errors(row))),
        ]
    };
    let rows = all.rows.iter().take(most).map(row).collect();
    let heads = ["Call", "Time", "Of all", "Times", "Mean", "Median", "p99", "Longest", "On a CPU", "Errors"];
    let mut view = table("Calls", &heads, 1, rows);
    if all.others.others > 0 {
        view.others = format!("{} other calls, {}.", all.others.others, seconds(all.others.seconds));
    }
    view
}
