//! Repeated runs, as Markdown.

use super::super::run_words as words;
use super::{Text, table, text, titles};
use crate::shown;
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::{Keyed, Runs};

/// Lines of components, of growth, of slow runs.
const MAX_ROWS: usize = 8;
/// Bars of the histogram; a report may come from anywhere.
const MAX_BARS: usize = 24;

/// How long the runs took and what differs; "" without any.
pub(super) fn runs(runs: &Runs) -> Text {
    let Some(response) = runs.response.filter(|_| runs.count > 0) else { return Text::new() };
    let mut out: Text = shown!("## Run by run\n\n{}\n\n", text(words::lead(runs)));
    if let Some(goal) = words::goal(runs) {
        out.push(shown!("{}\n\n", text(&goal)));
    }
    let line = |cells: Vec<String>| cells.iter().map(text).collect::<Vec<_>>();
    let ranges = runs.histogram.iter().take(MAX_BARS).map(|bar| {
        let range = format!("{} – {}", seconds(bar.from), seconds(bar.below));
        let filled = (bar.length.clamp(0.0, 1.0) * 20.0).ceil() as usize;
        line(vec![range, bar.count.to_string(), "█".repeat(filled)])
    });
    out.push(table(&titles(["Response time", "Runs", ""]), &ranges.collect::<Vec<_>>()));
    match &runs.difference {
        None => out.push(shown!("{}\n\n", words::ALIKE)),
        Some(difference) => {
            out.push(shown!("### What the slow runs have more of\n\n{}\n\n", text(words::against(difference))));
            let rows = difference.rows.iter().take(MAX_ROWS).map(|row| {
                line(vec![
                    percent(row.share),
                    words::signed(row.seconds),
                    seconds(row.slow_mean),
                    seconds(row.fast_mean),
                    words::above(row, difference),
                    words::grown(row),
                    row.id.id().to_owned(),
                ])
            });
            let heads = titles(["Share", "More", "Slow", "Fast", "Above any fast run", "What", "Component"]);
            out.push(table(&heads, &rows.collect::<Vec<_>>()));
            if let Some(said) = words::unexplained(difference) {
                out.push(shown!("{}\n\n", text(&said)));
            }
        }
    }
    if let Some(keyed) = &runs.keyed {
        out.push(by_key(keyed, runs));
    }
    let heads: Vec<Text> = words::heads(&response).into_iter().chain(["Of a run"]).map(Text::of).collect();
    let all = (&response, "all");
    let components = runs.components.iter().take(MAX_ROWS).map(|row| (&row.spread, row.title.as_str()));
    let rows = std::iter::once(all).chain(components).map(|(spread, title)| {
        let mut cells = words::figures(&response, spread);
        cells.push(title.to_owned());
        line(cells)
    });
    out.push(table(&heads, &rows.collect::<Vec<_>>()));
    for run in runs.slowest.iter().take(3) {
        let said = format!("{} took {}: {}", words::name(run), seconds(run.seconds), words::parts(run));
        out.push(shown!("- **Slow:** {}\n", text(&said)));
    }
    out.push("\n");
    out
}

/// The runs by what they are called by.
fn by_key(keyed: &Keyed, runs: &Runs) -> Text {
    let mut out: Text = shown!("### By key\n\n{}\n\n", text(words::by_key(keyed, runs)));
    let has_goal = keyed.rows.iter().any(|row| row.missed.is_some());
    let rows = keyed.rows.iter().take(MAX_ROWS).map(|row| {
        let mut cells = vec![row.key.clone(), row.runs.to_string(), row.slow.to_string()];
        cells.extend(has_goal.then(|| row.missed.unwrap_or(0).to_string()));
        cells.extend([row.spread.p50, row.spread.max].map(seconds));
        cells.extend([percent(row.share), words::of_key(row)]);
        cells.iter().map(text).collect::<Vec<_>>()
    });
    let over = has_goal.then_some("Over the goal");
    let heads = ["Key", "Runs", "Slow ones"].into_iter().chain(over);
    let heads = heads.chain(["Median", "Most", "Of the time", "A run consists of"]).map(Text::of);
    if !keyed.rows.is_empty() {
        out.push(table(&heads.collect::<Vec<_>>(), &rows.collect::<Vec<_>>()));
    }
    out
}
