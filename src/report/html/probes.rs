//! What the probes inside the kernel measured, as the page shows it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::hot::{HotView, TreeView};
use super::schedule::ScheduleView;
use super::table::{CellView, Head, TableView};
use super::view::{Limits, Named, more};
use crate::escape::visible_within as short;
use crate::shapes::ShapeWriter;
use crate::shown::{Html, Shown};
use crate::{flame, probe_words as words, svg};
use rdiag_model::call_trace::CallTrace;
use rdiag_model::heat::HeatMap;
use rdiag_model::hot::Hot;
use rdiag_model::probe::{ProbeTable, Stacks};
use rdiag_model::probed::{Distributions, Probed, ProbedOutput};
use rdiag_model::quantity::{number, seconds, with_unit};
use rdiag_model::schedule::Strips;
use rdiag_model::{Finding, Report};

/// Rows of a table that stand as evidence beside a finding.
const EVIDENCE_ROWS: usize = 5;
/// Columns of a table.
const MAX_COLUMNS: usize = 16;
/// Longest text of a cell, in characters.
const MAX_CELL: usize = 100;
/// Outputs of one probe.
const MAX_OUTPUTS: usize = 8;
/// Calls as they happened, for each row of a table.
const CALLS: usize = 10;
/// Frames of a stack that is shown as text.
const MAX_FRAMES: usize = 24;

#[derive(Serialize)]
pub(super) struct ProbeView {
    anchor: String,
    probe: String,
    question: String,
    caveats: String,
    /// Of the whole: nothing happened.
    empty: bool,
    outputs: Vec<OutputView>,
    limits: Vec<String>,
    steps: Vec<String>,
    params: Vec<Named>,
    window: String,
    attached: Vec<String>,
    cost: String,
    /// Made elsewhere: nothing is known of how.
    imported: bool,
}

/// One output; of the parts, only those of its kind are filled.
#[derive(Serialize, Default)]
struct OutputView {
    title: String,
    flame: Shown<Html>,
    charts: Vec<Chart>,
    table: Option<TableView>,
    /// Single events: folded until clicked.
    folded: bool,
    stacks: Vec<StackView>,
    hot: Option<HotView>,
    calls: Option<TreeView>,
    schedule: Option<ScheduleView>,
}

#[derive(Serialize)]
struct Chart {
    caption: String,
    figures: String,
    svg: Shown<Html>,
}

#[derive(Serialize)]
struct StackView {
    who: String,
    frames: String,
}

impl ProbeView {
    /// Bytes of its flame graphs.
    pub(super) fn flames(&self) -> usize {
        self.outputs.iter().map(|output| output.flame.len()).sum()
    }
}

/// A probe that a finding cites.
#[derive(Serialize)]
pub(super) struct Cited {
    link: Option<String>,
    probe: String,
    question: String,
    table: Option<TableView>,
}

/// All flame graphs of a page together, in bytes; they come on top of what the page may hold without them.
const MAX_FLAMES: usize = 1_000_000;
/// With less room than this, another one is not begun.
const MAX_FLAME: usize = 100_000;

/// The flame graphs of a report, by probe and output. They take time, so each is drawn once.
pub(super) type Flames = BTreeMap<(usize, usize), Shown<Html>>;

/// Draws them, as many as there is room for.
pub(super) fn flames(report: &Report) -> Flames {
    let mut room = MAX_FLAMES;
    let mut drawn = Flames::new();
    for (at, probed) in report.probes.iter().enumerate() {
        for (output_at, output) in probed.outputs.iter().take(MAX_OUTPUTS).enumerate() {
            let ProbedOutput::Stacks(sums) = output else { continue };
            if room < MAX_FLAME {
                return drawn;
            }
            if let Some(svg) = flame::svg(&sums.stacks).filter(|svg| svg.len() <= room) {
                room -= svg.len();
                drawn.insert((at, output_at), svg);
            }
        }
    }
    drawn
}

/// The cards, and how many more there are.
pub(super) fn probes(report: &Report, flames: &Flames, limits: &Limits) -> (Vec<ProbeView>, String) {
    let mut cards = Vec::new();
    for (at, probed) in report.probes.iter().take(limits.probes).enumerate() {
        cards.push(card(probed, at, flames, limits));
    }
    let hidden = more(report.probes.len(), limits.probes, "more probes are in the JSON report.");
    (cards, hidden)
}

/// The card of a result that belongs to no run.
pub(super) fn alone(probed: &Probed, limits: &Limits) -> ProbeView {
    let mut drawn = Flames::new();
    for (output_at, output) in probed.outputs.iter().take(MAX_OUTPUTS).enumerate() {
        if let ProbedOutput::Stacks(sums) = output {
            drawn.extend(flame::svg(&sums.stacks).map(|svg| ((0, output_at), svg)));
        }
    }
    card(probed, 0, &drawn, limits)
}

fn anchor(at: usize) -> String {
    format!("probe-{}", at + 1)
}

fn card(probed: &Probed, at: usize, flames: &Flames, limits: &Limits) -> ProbeView {
    let mut outputs = Outputs { views: Vec::new(), probed, at, flames, limits };
    for output in probed.outputs.iter().take(MAX_OUTPUTS) {
        outputs.probed(output);
    }
    let params = probed.params.iter().take(limits.rows);
    ProbeView {
        anchor: anchor(at),
        probe: probed.probe.clone(),
        question: probed.question.clone(),
        caveats: probed.caveats.clone(),
        empty: words::is_empty(probed),
        outputs: outputs.views,
        limits: words::limits(probed).into_iter().take(limits.rows).collect(),
        steps: probed.steps.iter().take(limits.rows).cloned().collect(),
        params: params.map(|(name, value)| Named { name: name.clone(), value: value.clone() }).collect(),
        window: format!("{} of window {}", seconds(probed.seconds), probed.window.saturating_add(1)),
        attached: words::attached(probed).into_iter().take(limits.rows).collect(),
        cost: words::cost(probed),
        imported: probed.attached.is_empty() && probed.steps.is_empty(),
    }
}

/// The outputs of the probe at this place, each as a part of its card.
struct Outputs<'a> {
    views: Vec<OutputView>,
    probed: &'a Probed,
    at: usize,
    flames: &'a Flames,
    limits: &'a Limits,
}

impl ShapeWriter for Outputs<'_> {
    fn histogram(&mut self, all: &Distributions) {
        let mut charts = Vec::new();
        for row in all.rows.iter().filter(|row| row.count > 0).take(self.limits.plots.min(4)) {
            charts.push(Chart {
                caption: short(&row.instance, MAX_CELL).into_owned(),
                figures: words::key_figures(row, all.unit),
                svg: svg::bars(&row.bars, all.unit),
            });
        }
        let table = (all.rows.len() > 1).then(|| figures(all, self.limits));
        self.views.push(OutputView { title: all.title.clone(), charts, table, ..OutputView::default() });
    }

    fn table(&mut self, rows: &ProbeTable) {
        let table = Some(table(rows, self.limits.rows));
        self.views.push(OutputView { title: rows.title.clone(), table, ..OutputView::default() });
    }

    fn events(&mut self, rows: &ProbeTable) {
        let table = Some(table(rows, self.limits.rows * 2));
        self.views.push(OutputView { title: rows.title.clone(), table, folded: true, ..OutputView::default() });
    }

    fn heat(&mut self, map: &HeatMap) {
        let title = format!("{}: heat map of time and latency", map.title);
        let threshold = self.probed.params.get("threshold").map(String::as_str);
        let chart = Chart { caption: String::new(), figures: words::heat(map, threshold), svg: svg::heat(map) };
        self.views.push(OutputView { title, charts: vec![chart], ..OutputView::default() });
    }

    fn stacks(&mut self, stacks: &Stacks, whole: f64, hot: &Hot) {
        let rows = self.limits.rows;
        let shown = (0..rows.min(5)).filter_map(|at| words::stack(stacks, whole, at, MAX_FRAMES));
        let view = |(who, frames): (String, String)| StackView {
            who: short(&who, MAX_CELL).into_owned(),
            frames: short(&frames, 600).into_owned(),
        };
        self.views.push(OutputView {
            title: stacks.title.clone(),
            flame: self.flames.get(&(self.at, self.views.len())).cloned().unwrap_or_default(),
            stacks: shown.map(view).collect(),
            hot: (!hot.functions.rows.is_empty()).then(|| HotView::of(stacks, hot, rows)),
            ..OutputView::default()
        });
    }

    fn calls(&mut self, trace: &CallTrace) {
        let calls = (!trace.calls.is_empty()).then(|| TreeView::calls(trace, self.limits.rows * CALLS));
        self.views.push(OutputView { title: trace.title.clone(), calls, ..OutputView::default() });
    }

    fn schedule(&mut self, strips: &Strips) {
        let schedule = Some(ScheduleView::of(strips));
        self.views.push(OutputView { title: strips.title.clone(), schedule, ..OutputView::default() });
    }
}

/// The distributions side by side, as figures.
fn figures(all: &Distributions, limits: &Limits) -> TableView {
    let key = all.dimension.clone().unwrap_or_default();
    let mut head = vec![Head { title: key, number: false }];
    let names = ["values", "mean", "median", "p95", "p99", words::largest(all.unit)];
    head.extend(names.map(|name| Head { title: name.to_owned(), number: true }));
    let figure = |value: Option<f64>| value.map_or("–".to_owned(), |value| with_unit(value, all.unit));
    let row = |row: &rdiag_model::probed::Distribution| {
        let mut cells = vec![CellView { text: short(&row.instance, MAX_CELL).into_owned(), number: false }];
        let values = [row.mean, row.p50, row.p95, row.p99, row.max].map(figure);
        let values = [number(row.count as f64)].into_iter().chain(values);
        cells.extend(values.map(|text| CellView { text, number: true }));
        cells
    };
    let hidden = all.others + all.rows.len().saturating_sub(limits.rows);
    TableView {
        title: all.title.clone(),
        head,
        rows: all.rows.iter().take(limits.rows).map(row).collect(),
        others: if hidden > 0 { format!("and {hidden} more") } else { String::new() },
    }
}

fn table(rows: &ProbeTable, most: usize) -> TableView {
    let columns: Vec<_> = rows.columns.iter().take(MAX_COLUMNS).collect();
    let cells = |row: &rdiag_model::probe::Row| {
        let cells = columns.iter().zip(&row.cells);
        cells
            .map(|(column, cell)| CellView {
                text: short(&words::cell(column, cell), MAX_CELL).into_owned(),
                number: column.unit.is_some(),
            })
            .collect()
    };
    TableView {
        title: rows.title.clone(),
        head: columns
            .iter()
            .map(|column| Head { title: column.title.clone(), number: column.unit.is_some() })
            .collect(),
        rows: rows.rows.iter().take(most).map(cells).collect(),
        others: words::others(rows, rows.rows.len().saturating_sub(most)),
    }
}

/// The probes behind the readings that a finding cites, each with the table that names a task.
pub(super) fn cited(report: &Report, finding: &Finding, limits: &Limits) -> Vec<Cited> {
    let mut all = Vec::new();
    for (at, probed) in report.probes.iter().enumerate() {
        let output = finding
            .evidence
            .iter()
            .filter(|evidence| evidence.window == probed.window)
            .find_map(|evidence| probed.metrics.get(&evidence.metric));
        if let Some(output) = output {
            all.push(Cited {
                link: (at < limits.probes).then(|| anchor(at)),
                probe: probed.probe.clone(),
                question: probed.question.clone(),
                table: telling(probed, output).map(|rows| table(rows, EVIDENCE_ROWS.min(limits.rows))),
            });
        }
    }
    all.truncate(limits.rows);
    all
}

/// The table that the reading came from; of a distribution, the first table of the probe, which names who.
fn telling<'p>(probed: &'p Probed, output: &str) -> Option<&'p ProbeTable> {
    let tables = || {
        probed.outputs.iter().filter_map(|output| match output {
            ProbedOutput::Table(table) => Some(table),
            _ => None,
        })
    };
    tables().find(|table| table.id == output).or_else(|| tables().next()).filter(|table| !table.rows.is_empty())
}
