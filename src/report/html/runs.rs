//! Repeated runs, as the page shows them.

use serde::Serialize;

use super::table::{TableView, figure, table, text};
use super::view::Limits;
use crate::shown::{Html, Shown};
use crate::{run_words as words, svg};
use rdiag_model::Unit;
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::{Difference, Keyed, Runs};

#[derive(Serialize)]
pub(super) struct RunsView {
    lead: String,
    goal: String,
    svg: Shown<Html>,
    against: String,
    difference: Option<TableView>,
    alike: &'static str,
    by_key: String,
    keyed: Option<TableView>,
    spread: TableView,
    slowest: TableView,
}

impl RunsView {
    pub(super) fn of(runs: &Runs, limits: &Limits) -> Self {
        Self {
            lead: words::lead(runs),
            goal: words::goal(runs).unwrap_or_default(),
            svg: svg::bars(&runs.histogram, Unit::Seconds),
            against: runs.difference.as_ref().map(words::against).unwrap_or_default(),
            difference: runs.difference.as_ref().map(|difference| growth(difference, limits.rows)),
            alike: words::ALIKE,
            by_key: runs.keyed.as_ref().map(|keyed| words::by_key(keyed, runs)).unwrap_or_default(),
            keyed: runs.keyed.as_ref().filter(|keyed| !keyed.rows.is_empty()).map(|all| keyed(all, limits.rows)),
            spread: spread(runs, limits.rows),
            slowest: slowest(runs, limits.rows),
        }
    }
}

fn growth(difference: &Difference, most: usize) -> TableView {
    let rows = difference.rows.iter().take(most).map(|row| {
        vec![
            text(format!("{} ({})", words::grown(row), row.id.id())),
            figure(percent(row.share)),
            figure(words::signed(row.seconds)),
            figure(seconds(row.slow_mean)),
            figure(seconds(row.fast_mean)),
            figure(words::above(row, difference)),
        ]
    });
    let heads = ["What", "Of the difference", "More", "Slow runs", "Fast runs", "Above any fast run"];
    let mut view = table("What the slow runs have more of", &heads, 1, rows.collect());
    view.others = words::unexplained(difference).unwrap_or_default();
    view
}

fn keyed(keyed: &Keyed, most: usize) -> TableView {
    let has_goal = keyed.rows.iter().any(|row| row.missed.is_some());
    let rows = keyed.rows.iter().take(most).map(|row| {
        let mut cells = Vec::from([row.key.clone(), words::of_key(row)].map(text));
        cells.extend([row.runs, row.slow].map(|count| figure(count.to_string())));
        cells.extend(has_goal.then(|| figure(row.missed.unwrap_or(0).to_string())));
        cells.extend([seconds(row.spread.p50), seconds(row.spread.max), percent(row.share)].map(figure));
        cells
    });
    let over = has_goal.then_some("Over the goal");
    let heads: Vec<&str> = ["Key", "A run consists of", "Runs", "Slow ones"].into_iter().chain(over).collect();
    table("By key", &[heads, vec!["Median", "Most", "Of the time"]].concat(), 2, rows.collect())
}

fn spread(runs: &Runs, most: usize) -> TableView {
    let of = runs.response.unwrap_or_default();
    let components = runs.components.iter().take(most).map(|row| (row.title.clone(), row.spread));
    let rows = std::iter::once(("all of it".to_owned(), of)).chain(components).map(|(title, spread)| {
        std::iter::once(text(title)).chain(words::figures(&of, &spread).into_iter().map(figure)).collect()
    });
    let mut heads = vec!["Of a run"];
    heads.extend(words::heads(&of));
    table("How the time of a run is spread", &heads, 1, rows.collect())
}

fn slowest(runs: &Runs, most: usize) -> TableView {
    let rows = runs.slowest.iter().take(most).map(|run| {
        vec![
            text(words::keyed_parts(run)),
            figure(seconds(run.seconds)),
            figure(run.number.to_string()),
            figure(seconds(run.at)),
            figure(run.pid.to_string()),
        ]
    });
    table("The slowest runs", &["Parts", "Time", "Run", "Began at", "Process"], 1, rows.collect())
}
