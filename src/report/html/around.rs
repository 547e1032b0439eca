//! The course of the time around a window that is over: lanes on one axis, with the window shaded, and the same in figures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::around::{UNRECORDED, both, changed, has_io, has_marks, is_judged, rows, share, source, top};
use crate::escape::visible_within as short;
use crate::shown::{Html, Shown};
use crate::svg;
use crate::words::plural;
use rdiag_model::quantity::{percent, seconds};
use rdiag_model::report::{Around, Band, Course, Curve, Lane, Pressure, Span, Timeline, TopConsumer};
use rdiag_model::{Report, Status, Unit};

/// Slices that are drawn at most, and characters of a name, of one in a legend and of a time: the document may come from anywhere.
const MAX: usize = 300;
const MAX_NAME: usize = 40;
const LEGEND: usize = 18;
const TIME: usize = 8;
/// Names with a colour of their own in a lane; the others share one.
const NAMED: usize = 3;
/// Labels of the axis stand so far apart, as shares of it: a time of day fits there on a narrow page.
const APART: f64 = 0.24;
/// Half of the width of a mark, as a share of the axis.
const MARK: f64 = 0.003;

#[derive(Serialize)]
pub(super) struct AroundView {
    span: String,
    source: String,
    lanes: Vec<LaneView>,
    axis: Shown<Html>,
    fold: String,
    has_io: bool,
    has_marks: bool,
    rows: Vec<RowView>,
}

#[derive(Serialize)]
struct LaneView {
    title: &'static str,
    legend: Vec<LegendView>,
    missing: &'static str,
    svg: Shown<Html>,
}

#[derive(Serialize)]
struct LegendView {
    class: &'static str,
    text: String,
}

#[derive(Serialize)]
struct RowView {
    at: String,
    is_judged: bool,
    unrecorded: &'static str,
    cpu: String,
    psi_cpu: String,
    psi_memory: String,
    psi_io: String,
    top_cpu: String,
    top_io: String,
    changed: String,
}

/// The slices that are drawn, and the axis as that of a timeline whose second window, the shaded one, is the judged one.
struct Drawn<'r> {
    around: &'r Around,
    slices: &'r [Course],
    timeline: Timeline,
}

type Figure = (&'static str, fn(&Pressure) -> Option<f64>);
type Consumer = fn(&Course) -> Option<&TopConsumer>;

pub(super) fn around(report: &Report) -> Option<AroundView> {
    let around = report.around.as_ref()?;
    let slices = around.slices.get(..around.slices.len().min(MAX))?;
    let begins = slices.first()?.seconds;
    let length = slices.len() as f64 * around.slice_seconds;
    let judged = Span { from: around.judged.from - begins, until: around.judged.until - begins };
    let windows = vec![Span { from: 0.0, until: length }, judged];
    let drawn = Drawn { around, slices, timeline: Timeline { seconds: length, windows, ..Timeline::default() } };
    let stalled: [(&str, [Figure; 3]); 2] = [
        ("PSI some", [("cpu", |of| of.cpu_some), ("memory", |of| of.memory_some), ("io", |of| of.io_some)]),
        // Its colours are those of the lane above.
        ("PSI full", [("cpu", |_| None), ("memory", |of| of.memory_full), ("io", |of| of.io_full)]),
    ];
    let mut lanes = vec![drawn.lane("CPU", true, &[("busy", slices.iter().map(|slice| slice.cpu).collect())])];
    for (title, figures) in stalled {
        let curves = figures.map(|(name, of)| (name, slices.iter().map(|slice| of(&slice.pressure)).collect()));
        lanes.push(drawn.lane(title, false, &curves));
    }
    let consumers: [(&str, Consumer); 2] =
        [("Most CPU time", |slice| slice.top_cpu.as_ref()), ("Most I/O", |slice| slice.top_io.as_ref())];
    lanes.extend(consumers.into_iter().filter_map(|(title, of)| drawn.consumers(title, of)));
    let marks = around.marks.iter().map(|mark| mark.seconds - begins);
    let marks = marks.map(|at| Span { from: at - MARK * length, until: at + MARK * length });
    lanes.extend(drawn.band("What changed", marks.collect(), true));
    let missing =
        around.unrecorded.iter().map(|gap| Span { from: gap.span.from - begins, until: gap.span.until - begins });
    lanes.extend(drawn.band("Not recorded", missing.collect(), false));
    Some(AroundView {
        span: around.span.clone(),
        source: source(around),
        lanes,
        axis: drawn.axis(),
        fold: format!("In figures, every {:.0} min", around.row_seconds / 60.0),
        has_io: has_io(around),
        has_marks: has_marks(around),
        rows: rows(around).map(|row| row_view(around, row)).collect(),
    })
}

fn row_view(around: &Around, row: &Course) -> RowView {
    let named = |text: String| short(&text, MAX_NAME).into_owned();
    let pressure = &row.pressure;
    RowView {
        at: short(&row.shown, TIME).into_owned(),
        is_judged: is_judged(around, row),
        unrecorded: if row.is_unknown() { UNRECORDED } else { "" },
        cpu: share(row.cpu),
        psi_cpu: share(pressure.cpu_some),
        psi_memory: both(pressure.memory_some, pressure.memory_full),
        psi_io: both(pressure.io_some, pressure.io_full),
        top_cpu: named(top(row.top_cpu.as_ref())),
        top_io: named(top(row.top_io.as_ref())),
        changed: changed(around, row),
    }
}

impl Drawn<'_> {
    /// A lane of shares; areas, or lines.
    fn lane(&self, title: &'static str, stacked: bool, curves: &[(&str, Vec<Option<f64>>)]) -> LaneView {
        let highest = |values: &[Option<f64>]| values.iter().flatten().copied().max_by(f64::total_cmp);
        let legend = curves.iter().enumerate().filter_map(|(at, (name, values))| {
            let text = format!("{name}, highest {}", percent(highest(values)?));
            Some(LegendView { class: svg::class(at), text })
        });
        let legend: Vec<LegendView> = legend.collect();
        let is_known = |at: usize| curves.iter().any(|(_, values)| values.get(at).copied().flatten().is_some());
        let gaps = self.gaps(|at| !is_known(at));
        let missing = if legend.is_empty() { UNRECORDED } else { "" };
        let all = curves.iter().map(|(_, values)| values.clone()).collect();
        LaneView { title, legend, missing, svg: self.drawn(all, stacked, &gaps) }
    }

    /// Runs of slices of which something is missing.
    fn gaps(&self, is_missing: impl Fn(usize) -> bool) -> Vec<Span> {
        let begins = |at: usize| at as f64 * self.around.slice_seconds;
        let mut gaps: Vec<Span> = Vec::new();
        for at in (0..self.slices.len()).filter(|at| is_missing(*at)) {
            match gaps.last_mut() {
                Some(last) if last.until >= begins(at) => last.until = begins(at + 1),
                _ => gaps.push(Span { from: begins(at), until: begins(at + 1) }),
            }
        }
        gaps
    }

    /// Who had most of something, slice by slice: each of the names that had it longest has a colour.
    fn consumers(&self, title: &'static str, of: Consumer) -> Option<LaneView> {
        let mut slices: BTreeMap<&str, usize> = BTreeMap::new();
        for top in self.slices.iter().filter_map(of) {
            *slices.entry(&top.name).or_default() += 1;
        }
        let mut names: Vec<(&str, usize)> = slices.into_iter().collect();
        names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        names.first()?;
        let (named, others) = names.split_at(names.len().min(NAMED));
        let of_names = |is_it: &dyn Fn(&str) -> bool| -> Vec<Option<f64>> {
            self.slices.iter().map(|slice| of(slice).filter(|top| is_it(&top.name)).map(|top| top.share)).collect()
        };
        let mut curves: Vec<Vec<Option<f64>>> =
            named.iter().map(|(name, _)| of_names(&|other| other == *name)).collect();
        let time = |count: usize| seconds(count as f64 * self.around.slice_seconds);
        let named_legend = named.iter().map(|(name, count)| format!("{}, {}", short(name, LEGEND), time(*count)));
        let mut texts: Vec<String> = named_legend.collect();
        if !others.is_empty() {
            curves.push(of_names(&|other| others.iter().any(|(name, _)| *name == other)));
            let count = others.iter().map(|(_, count)| count).sum();
            texts.push(format!("{} others, {}", others.len(), time(count)));
        }
        let legend = texts.into_iter().enumerate().map(|(at, text)| LegendView { class: svg::class(at), text });
        let gaps = self.gaps(|at| self.slices.get(at).is_some_and(Course::is_unknown));
        Some(LaneView { title, legend: legend.collect(), missing: "", svg: self.drawn(curves, true, &gaps) })
    }

    fn drawn(&self, curves: Vec<Vec<Option<f64>>>, stacked: bool, gaps: &[Span]) -> Shown<Html> {
        let curve = |values| Curve {
            name: String::new(),
            source: String::new(),
            mean: 0.0,
            max: 0.0,
            values: vec![values, Vec::new()],
        };
        let curves = curves.into_iter().map(curve).collect();
        svg::gapped(&Lane { unit: Unit::Ratio, top: 1.0, stacked, curves, ..Lane::default() }, &self.timeline, gaps)
    }

    /// A lane of moments or stretches, if there are any.
    fn band(&self, title: &'static str, spans: Vec<Span>, exact: bool) -> Option<LaneView> {
        let whole = || spans.iter().map(|span| span.until - span.from).sum::<f64>() / self.timeline.seconds;
        let text = match (spans.len(), exact) {
            (0, _) => return None,
            (count, true) => plural(count, "change", "changes"),
            (_, false) => format!("{} of this time", percent(whole())),
        };
        let band = Band { finding: 0, status: Status::Info, spans, exact };
        let legend = vec![LegendView { class: "", text }];
        Some(LaneView { title, legend, missing: "", svg: svg::band(&band, &self.timeline) })
    }

    /// Times of day: those of the ends, and of the window.
    fn axis(&self) -> Shown<Html> {
        let shown = |time: &str| short(time, TIME).into_owned();
        let is_end = |slice: &&Course| {
            let Span { from, until } = self.around.judged;
            [from, until].iter().any(|end| (slice.seconds - end).abs() < self.around.slice_seconds / 2.0)
        };
        let begins = self.slices.first().map_or(0.0, |slice| slice.seconds);
        let label = |slice: &Course| ((slice.seconds - begins) / self.timeline.seconds, shown(&slice.shown));
        let mut labels: Vec<(f64, String)> = self.slices.first().map(label).into_iter().collect();
        labels.extend(self.slices.iter().skip(1).filter(is_end).map(label));
        labels.push((1.0, shown(&self.around.ends)));
        svg::labelled(&labels, APART)
    }
}
