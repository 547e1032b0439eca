//! The profile of a task's time, as Markdown.

use super::super::profile_words as words;
use super::super::wait_words;
use super::{table, text};
use rdiag_model::Profile;
use rdiag_model::profile::ComponentRow;
use rdiag_model::quantity::{number, percent, seconds};

/// Lines of the forecast and of calls.
const MAX_ROWS: usize = 8;
/// Chains of waits.
const MAX_CHAINS: usize = 3;
/// Components that are looked into.
const MAX_LOOKED_INTO: usize = 4;
/// A component below this share is not.
const WORTH: f64 = 0.05;

/// The table that sums up to 100 %, with what was asked and answered.
pub(super) fn head(profile: &Profile) -> String {
    let mut out = format!("## Where the time of {} went\n\n", text(&profile.subject));
    for (name, said) in [("Asked", &profile.answer.asked), ("Goal", &profile.answer.goal)] {
        if let Some(said) = said {
            out.push_str(&format!("**{name}:** {}\n\n", text(said)));
        }
    }
    out.push_str(&format!("{}\n\n", words::how_to_read(profile)));
    let (counts, errors) = (words::has_counts(profile), words::has_errors(profile));
    let mut titles = vec!["Share", "Seconds"];
    titles.extend(errors.then_some("±"));
    if counts {
        titles.extend(["Times", "Mean", "p99", "Longest"]);
    }
    titles.extend(["What", "Component"]);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in words::lines(profile) {
        let mut cells = vec![line.percent, line.seconds];
        cells.extend(errors.then_some(line.plus_minus));
        if counts {
            cells.extend([line.count, line.mean, line.p99, line.max]);
        }
        cells.push(format!("{}{}", line.title, if line.idle { " *" } else { "" }));
        cells.push(line.id);
        rows.push(cells.iter().map(|cell| text(cell)).collect());
    }
    let mut sum = vec!["100%".to_owned(), seconds(profile.task_seconds)];
    sum.resize(titles.len() - 2, String::new());
    sum.extend([words::sum(profile), String::new()]);
    rows.push(sum.iter().map(|cell| text(cell)).collect());
    let titles: Vec<String> = titles.into_iter().map(str::to_owned).collect();
    out.push_str(&table(&titles, &rows));
    for said in words::busy(profile).into_iter().chain([words::quality(profile)]).chain(words::delays(profile)) {
        out.push_str(&format!("{}\n\n", text(&said)));
    }
    out.push_str(&format!("States: {}\n\n", text(&words::states(profile))));
    out
}

/// What the large components are made of, each by itself.
pub(super) fn components(profile: &Profile) -> Vec<String> {
    words::worth(profile, MAX_LOOKED_INTO, WORTH).into_iter().map(|row| component(profile, row)).collect()
}

fn component(profile: &Profile, row: &ComponentRow) -> String {
    let mut out = format!("### {} {}: {}\n\n", percent(row.share), row.id.id(), text(&row.title));
    out.push_str(&format!("{}\n\n", text(&row.help)));
    let mut item = |name: &str, said: &str| {
        if !said.is_empty() {
            out.push_str(&format!("- **{name}:** {}\n", text(said)));
        }
    };
    item("Spread", &row.skew_words);
    if let (Some((count, time)), Some(span)) = (wait_words::lengths(row, true), wait_words::span(&row.bins)) {
        item("Lengths", &format!("{span}: how many {count}, how much time {time}"));
    }
    item("Calls", &words::pieces(&row.calls, 4));
    item("On", &words::pieces(&row.keys, 4));
    item("Threads", &words::pieces(&row.threads, 4));
    item("Ended by", &words::wakers(profile, row.id, 3));
    for call in row.slow.iter().take(2) {
        item("Slowest", &words::slow(call));
    }
    for step in row.next.iter().take(3) {
        item("Next", &step.action);
    }
    out.push('\n');
    out
}

/// Who waited for whom.
pub(super) fn chains(profile: &Profile) -> String {
    if profile.chains.is_empty() {
        return String::new();
    }
    let mut out = format!("## Who waited for whom\n\n{}\n\n", wait_words::CHAINS);
    for chain in profile.chains.iter().take(MAX_CHAINS) {
        for (at, line) in wait_words::chain(chain).iter().enumerate() {
            out.push_str(&format!("{}- {}\n", "  ".repeat(at), text(line)));
        }
    }
    out.push('\n');
    out
}

/// What would be if a component were gone.
pub(super) fn forecast(profile: &Profile) -> String {
    let forecast = &profile.forecast;
    if forecast.rows.is_empty() {
        return String::new();
    }
    let head = ["Component", "Now", "If gone", "If halved", "Faster", "What can be done"].map(str::to_owned);
    let rows: Vec<Vec<String>> = forecast
        .rows
        .iter()
        .take(MAX_ROWS)
        .map(|row| {
            let cells = [
                row.id.id().to_owned(),
                seconds(row.seconds),
                words::bounds(row.vanished),
                words::bounds(row.halved),
                words::speed_up(row),
                row.words.clone(),
            ];
            cells.iter().map(|cell| text(cell)).collect()
        })
        .collect();
    format!("## What if it were gone?\n\n{}\n\n{}", text(&forecast.basis), table(&head, &rows))
}

/// The same time by call.
pub(super) fn calls(profile: &Profile) -> String {
    let Some(calls) = &profile.calls else { return String::new() };
    let head = ["Call", "Seconds", "Share", "Times", "Mean", "p99", "Longest", "Errors"].map(str::to_owned);
    let time = |value: Option<f64>| value.map_or_else(|| words::NOT_KNOWN.to_owned(), seconds);
    let rows: Vec<Vec<String>> = calls
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
            cells.iter().map(|cell| text(cell)).collect()
        })
        .collect();
    format!(
        "## The same time by call\n\nIn system calls {}, in page faults {}, outside both {}. Within a call there is waiting \
         and CPU time.{}\n\n{}",
        seconds(calls.syscall_seconds),
        seconds(calls.fault_seconds),
        seconds(calls.user_seconds),
        words::watched(calls),
        table(&head, &rows)
    )
}
