//! Repeated runs, as Markdown.

use super::super::run_words as words;
use super::{table, text};
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::Runs;

/// Lines of components, of growth, of slow runs.
const MAX_ROWS: usize = 8;
/// Bars of the histogram; a report may come from anywhere.
const MAX_BARS: usize = 24;

/// How long the runs took and what differs; "" without any.
pub(super) fn runs(runs: &Runs) -> String {
    let Some(response) = runs.response.filter(|_| runs.count > 0) else { return String::new() };
    let mut out = format!("## Run by run\n\n{}\n\n", text(&words::lead(runs)));
    if let Some(goal) = words::goal(runs) {
        out.push_str(&format!("{}\n\n", text(&goal)));
    }
    let line = |cells: Vec<String>| cells.iter().map(|cell| text(cell)).collect::<Vec<_>>();
    let heads = |heads: &[&str]| heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>();
    let ranges = runs.histogram.iter().take(MAX_BARS).map(|bar| {
        let range = format!("{} – {}", seconds(bar.from), seconds(bar.below));
        let filled = (bar.length.clamp(0.0, 1.0) * 20.0).ceil() as usize;
        line(vec![range, bar.count.to_string(), "█".repeat(filled)])
    });
    out.push_str(&table(&heads(&["Response time", "Runs", ""]), &ranges.collect::<Vec<_>>()));
    match &runs.difference {
        None => out.push_str(&format!("{}\n\n", words::ALIKE)),
        Some(difference) => {
            out.push_str(&format!("### What the slow runs have more of\n\n{}\n\n", text(&words::against(difference))));
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
            let titles = ["Share", "More", "Slow", "Fast", "Above any fast run", "What", "Component"];
            out.push_str(&table(&heads(&titles), &rows.collect::<Vec<_>>()));
            if let Some(said) = words::unexplained(difference) {
                out.push_str(&format!("{}\n\n", text(&said)));
            }
        }
    }
    let mut titles = heads(&words::heads(&response));
    titles.push("Of a run".to_owned());
    let all = (&response, "all");
    let components = runs.components.iter().take(MAX_ROWS).map(|row| (&row.spread, row.title.as_str()));
    let rows = std::iter::once(all).chain(components).map(|(spread, title)| {
        let mut cells = words::figures(&response, spread);
        cells.push(title.to_owned());
        line(cells)
    });
    out.push_str(&table(&titles, &rows.collect::<Vec<_>>()));
    for run in runs.slowest.iter().take(3) {
        let said = format!("run {} took {}: {}", run.number, seconds(run.seconds), words::parts(run));
        out.push_str(&format!("- **Slow:** {}\n", text(&said)));
    }
    out.push('\n');
    out
}
