//! The host over the run, who used what, and what to do next: what stands beside the verdict.

use serde::Serialize;

use super::anchors::FindingAnchors;
use super::view::Limits;
use crate::escape::visible_within as short;
use crate::shown::{Html, Shown};
use crate::{svg, words};
use rdiag_model::Report;
use rdiag_model::quantity::{percent, with_unit};
use rdiag_model::report::{Band, Consumer, Consumers, Curve, Lane, Timeline};

/// Longest command line.
const MAX_COMMAND: usize = 60;
/// Lanes, bands and rows that are drawn at most: the document may come from anywhere.
const MAX: usize = 8;

#[derive(Serialize)]
pub(super) struct TimelineView {
    windows: String,
    bands: Vec<BandView>,
    lanes: Vec<LaneView>,
    axis: Shown<Html>,
}

#[derive(Serialize)]
struct BandView {
    class: &'static str,
    title: String,
    link: Option<String>,
    note: String,
    svg: Shown<Html>,
}

#[derive(Serialize)]
struct LaneView {
    title: String,
    instance: String,
    legend: Vec<LegendView>,
    missing: String,
    svg: Shown<Html>,
}

#[derive(Serialize)]
struct LegendView {
    class: &'static str,
    name: String,
    mean: String,
    max: String,
}

#[derive(Serialize)]
pub(super) struct ConsumersView {
    title: String,
    whole: String,
    rows: Vec<ConsumerView>,
    rest: Vec<RestView>,
}

#[derive(Serialize)]
struct ConsumerView {
    name: String,
    count: String,
    pid: String,
    command: String,
    svg: Shown<Html>,
    value: String,
    share: String,
}

#[derive(Serialize)]
struct RestView {
    name: String,
    value: String,
    share: String,
}

pub(super) fn timeline(report: &Report, anchors: &FindingAnchors) -> Option<TimelineView> {
    let timeline = report.timeline.as_ref()?;
    let band = |band: &Band| {
        let finding = report.findings.get(band.finding)?;
        let held = words::held(finding).unwrap_or_default();
        Some(BandView {
            class: band.status.word(),
            title: finding.title.clone(),
            link: anchors.of(band.finding),
            note: if band.exact { held } else { "judged over the whole window".to_owned() },
            svg: svg::band(band, timeline),
        })
    };
    Some(TimelineView {
        windows: words::windows(timeline),
        bands: timeline.bands.iter().filter_map(band).take(MAX).collect(),
        lanes: timeline.lanes.iter().take(MAX).map(|lane| lane_view(lane, timeline)).collect(),
        axis: svg::axis(timeline),
    })
}

fn lane_view(lane: &Lane, timeline: &Timeline) -> LaneView {
    let legend = |(at, curve): (usize, &Curve)| LegendView {
        class: svg::class(at),
        name: curve.name.clone(),
        mean: with_unit(curve.mean, lane.unit),
        max: with_unit(curve.max, lane.unit),
    };
    LaneView {
        title: lane.title.clone(),
        instance: lane.instance.as_deref().map(words::instance).unwrap_or_default(),
        legend: lane.curves.iter().enumerate().take(MAX).map(legend).collect(),
        missing: lane.missing.clone().unwrap_or_default(),
        svg: svg::lane(lane, timeline),
    }
}

pub(super) fn consumers(of: &Consumers, limits: &Limits) -> ConsumersView {
    let most = of.rows.iter().flat_map(|row| row.values.iter().flatten()).copied().fold(0.0, f64::max);
    let share = |value: f64| if of.whole > 0.0 { percent(value / of.whole) } else { String::new() };
    let row = |row: &Consumer| ConsumerView {
        name: row.name.clone(),
        count: if row.count > 1 { format!("× {}", row.count) } else { String::new() },
        pid: row.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        command: row.command.as_deref().map(|command| short(command, MAX_COMMAND).into_owned()).unwrap_or_default(),
        svg: svg::spark(&row.values, most),
        value: with_unit(row.value, of.unit),
        share: share(row.value),
    };
    let rest = |name: String, value: f64| RestView { name, value: with_unit(value, of.unit), share: share(value) };
    let others = (of.others_count > 0).then(|| rest(words::plural(of.others_count, "other", "others"), of.others));
    let unattributed = of.unattributed.map(|value| rest(words::unattributed(of.deed.get()), value));
    let unused = of.unused.map(|value| rest(of.deed.get().unused.to_owned(), value));
    ConsumersView {
        title: of.title.clone(),
        whole: of.whole_is.clone(),
        rows: of.rows.iter().take(limits.rows.min(MAX)).map(row).collect(),
        rest: [others, unattributed, unused].into_iter().flatten().collect(),
    }
}
