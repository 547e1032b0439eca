//! The profile of a task's time, as Markdown.

use super::super::profile_words as words;
use super::super::quality;
use super::super::{wait_words, worth};
use super::{Text, table, text, titles};
use crate::shown;
use rdiag_model::Profile;
use rdiag_model::profile::ComponentRow;
use rdiag_model::quantity::{number, percent, seconds};

/// Lines of the forecast and of calls.
const MAX_ROWS: usize = 8;
/// Chains of waits.
const MAX_CHAINS: usize = 3;

/// The table that sums up to 100 %, with what was asked and answered.
pub(super) fn head(profile: &Profile) -> Text {
    let mut out: Text = shown!("## Where the time of {} went\n\n", text(&profile.subject));
    for (name, said) in [("Asked", &words::asked(profile)), ("Goal", &profile.answer.goal)] {
        if let Some(said) = said {
            out.push(shown!("**{}:** {}\n\n", name, text(said)));
        }
    }
    out.push(shown!("{}\n\n", text(words::how_to_read(profile))));
    let (counts, errors) = (words::has_counts(profile), words::has_errors(profile));
    let mut heads = vec!["Share", "Seconds"];
    heads.extend(errors.then_some("±"));
    if counts {
        heads.extend(["Times", "Mean", "p99", "Longest"]);
    }
    heads.extend(["What", "Component"]);
    let mut rows: Vec<Vec<Text>> = Vec::new();
    for line in words::lines(profile) {
        let mut cells = vec![line.percent, line.seconds];
        cells.extend(errors.then_some(line.plus_minus));
        if counts {
            cells.extend([line.count, line.mean, line.p99, line.max]);
        }
        cells.push(format!("{}{}", line.title, if line.idle { " *" } else { "" }));
        cells.push(line.id);
        rows.push(cells.iter().map(text).collect());
    }
    let mut sum = vec!["100%".to_owned(), seconds(profile.task_seconds)];
    sum.resize(heads.len() - 2, String::new());
    sum.extend([words::sum(profile), String::new()]);
    rows.push(sum.iter().map(text).collect());
    out.push(table(&heads.into_iter().map(Text::of).collect::<Vec<_>>(), &rows));
    let bases = words::bases(profile).into_iter();
    for said in bases.chain(words::busy(profile)).chain([quality::quality(profile)]).chain(words::delays(profile)) {
        out.push(shown!("{}\n\n", text(&said)));
    }
    out.push(shown!("States: {}\n\n", text(words::states(profile))));
    out
}

/// What the large components are made of, each by itself.
pub(super) fn components(profile: &Profile) -> Vec<Text> {
    worth::described(profile, worth::IN_MARKDOWN).into_iter().map(|row| component(profile, row)).collect()
}

fn component(profile: &Profile, row: &ComponentRow) -> Text {
    let mut out: Text = shown!("### {} {}: {}\n\n", Text::figure(percent(row.share)), row.id.id(), text(&row.title));
    out.push(shown!("{}\n\n", text(&row.help)));
    let mut item = |name: &'static str, said: &str| {
        if !said.is_empty() {
            out.push(shown!("- **{}:** {}\n", name, text(said)));
        }
    };
    item("Spread", &row.skew_words);
    if let (Some((count, time)), Some(span)) = (wait_words::lengths(row, true), wait_words::span(&row.bins)) {
        item("Lengths", &format!("{span}: how many {count}, how much time {time}"));
    }
    item("Calls", &words::pieces(&row.calls, 4));
    item("On", &words::pieces(&row.keys, 4));
    item("Threads", &words::pieces(&row.threads, 4));
    item("In", &words::pieces(&row.code, 4));
    item("Ended by", &words::wakers(profile, row.id, 3));
    for call in row.slow.iter().take(2) {
        item("Slowest", &words::slow(call));
    }
    for step in row.next.iter().take(3) {
        item("Next", &step.action);
    }
    out.push("\n");
    out
}

/// Waker chains.
pub(super) fn chains(profile: &Profile) -> Text {
    if profile.chains.is_empty() {
        return Text::new();
    }
    let mut out: Text = shown!("## Waker chains\n\n{}\n\n", wait_words::CHAINS);
    for chain in profile.chains.iter().take(MAX_CHAINS) {
        for (at, line) in wait_words::chain(chain).iter().enumerate() {
            out.push(shown!("{}- {}\n", Text::repeated("  ", at), text(line)));
        }
    }
    out.push("\n");
    out
}

/// What would be if a component were gone.
pub(super) fn forecast(profile: &Profile) -> Text {
    let forecast = &profile.forecast;
    if forecast.rows.is_empty() {
        return Text::new();
    }
    let head = titles([
        "Component",
        "Now",
        "If gone, all else equal",
        "If halved, all else equal",
        "Faster",
        "What can be done",
    ]);
    let rows: Vec<Vec<Text>> = forecast
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let cells = [
                row.id.id().to_owned(),
                seconds(row.seconds),
                format!("{}{}", words::bounds(row.vanished), words::marks(row)),
                format!("{}{}", words::bounds(row.halved), words::marks(row)),
                words::speed_up(row),
                row.words.clone(),
            ];
            cells.iter().map(text).collect()
        })
        .collect();
    let mut out = shown!("## What if it were gone?\n\n{}\n\n{}", text(&forecast.basis), table(&head, &rows));
    let ranges = words::ranges(forecast, MAX_ROWS);
    for (number, why) in &ranges {
        out.push(shown!("- {} {}\n", text(number), text(why)));
    }
    if !ranges.is_empty() {
        out.push("\n");
    }
    out
}

/// The same time by call.
pub(super) fn calls(profile: &Profile) -> Text {
    let Some(calls) = &profile.calls else { return Text::new() };
    let head = titles(["Call", "Seconds", "Share", "Times", "Mean", "p99", "Longest", "Errors"]);
    let time = |value: Option<f64>| value.map_or_else(|| words::NOT_KNOWN.to_owned(), seconds);
    let rows: Vec<Vec<Text>> = calls
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let cells = [
                row.name.clone(),
                seconds(row.seconds),
                percent(row.share),
                number(row.count as f64),
                time(row.mean),
                time(row.p99),
                time(row.max),
                words::errors(row),
            ];
            cells.iter().map(text).collect()
        })
        .collect();
    let watched = words::watched(calls);
    let watched = if watched.is_empty() { Text::new() } else { shown!(" {}", text(watched)) };
    shown!(
        "## The same time by call\n\nIn system calls {}, in page faults {}, outside both {}. Within a call there is waiting \
         and CPU time.{}\n\n{}",
        Text::figure(seconds(calls.syscall_seconds)),
        Text::figure(seconds(calls.fault_seconds)),
        Text::figure(seconds(calls.user_seconds)),
        watched,
        table(&head, &rows)
    )
}
