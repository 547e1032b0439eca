//! The host over the run: lanes, the bands of findings, the axis below them, and the small curves of processes. Each interval is drawn as
//! what it is, one value for a stretch of time.

use super::{WIDE, rule, stretched, wide, words};
use crate::shown;
use crate::shown::{Html, Shown};
use rdiag_model::quantity::{seconds, with_unit};
use rdiag_model::report::{Band, Lane, Span, Timeline};

/// Heights in pixels: of a lane, of the room for the label of its scale, of a band, of a small curve.
const LANE: f64 = 46.0;
const LABEL: f64 = 12.0;
const BAND: f64 = 12.0;
const AXIS: f64 = 16.0;
const SPARK: f64 = 18.0;
/// Curves of a lane that have a class.
const CLASSES: [&str; 4] = ["c-0", "c-1", "c-2", "c-3"];
/// Values of a window, and windows, that are drawn at most: the document may come from anywhere.
const MAX: usize = 500;
const MAX_WINDOWS: usize = 20;

/// A value for a stretch of the picture.
struct Step {
    from: f64,
    until: f64,
    /// From the floor of what is drawn to its top, as shares of the height.
    floor: f64,
    top: f64,
}

/// A share of the axis.
fn share(at: f64, of: f64) -> f64 {
    let share = at / of;
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// The class of a curve by its place.
pub(crate) fn class(at: usize) -> &'static str {
    CLASSES.get(at).copied().unwrap_or("c-3")
}

/// One lane.
pub(crate) fn lane(lane: &Lane, timeline: &Timeline) -> Shown<Html> {
    gapped(lane, timeline, &[])
}

/// One lane in which stretches without a figure are framed, so that they are not taken for 0.
pub(crate) fn gapped(lane: &Lane, timeline: &Timeline, gaps: &[Span]) -> Shown<Html> {
    let height = LABEL + LANE;
    let mut out = windows(timeline, height);
    out.push(rule("grid", LABEL));
    out.push(rule("zero", height));
    let mut floors: Vec<Vec<f64>> = Vec::new();
    let mut drawn = Shown::new();
    for (at, curve) in lane.curves.iter().take(CLASSES.len()).enumerate() {
        let mut steps: Vec<Option<Step>> = Vec::new();
        for (window, (span, values)) in timeline.windows.iter().zip(&curve.values).enumerate().take(MAX_WINDOWS) {
            let count = values.len().min(MAX);
            floors.resize_with(floors.len().max(window + 1), Vec::new);
            let Some(floors) = floors.get_mut(window) else { continue };
            floors.resize(floors.len().max(count), 0.0);
            for (slot, (value, floor)) in values.iter().zip(floors).enumerate() {
                let width = (span.until - span.from) / count as f64;
                let place = |slot: usize| share(span.from + slot as f64 * width, timeline.seconds) * WIDE;
                let step = value.map(|value| {
                    let bottom = if lane.stacked { *floor } else { 0.0 };
                    Step {
                        from: place(slot),
                        until: place(slot + 1),
                        floor: share(bottom, lane.top),
                        top: share(bottom + value, lane.top),
                    }
                });
                *floor += value.unwrap_or(0.0);
                steps.push(step);
            }
            steps.push(None);
        }
        if lane.stacked {
            drawn.push(shown!("<path class=\"{}\" d=\"{}\"/>", class(at), areas(&steps, LANE)));
        } else {
            drawn.push(shown!("<path class=\"line {}\" d=\"{}\"/>", class(at), line(&steps, LANE)));
        }
    }
    out.push(stretched(LABEL, LANE, &drawn));
    for gap in gaps.iter().take(MAX) {
        out.push(boxed("around", gap, timeline.seconds, LABEL + 1.0, LANE - 2.0));
    }
    if !lane.curves.is_empty() {
        out.push(words("tick", 1.0, LABEL - 2.0, &with_unit(lane.top, lane.unit)));
    }
    wide("lane", height, &out)
}

/// When a finding held.
pub(crate) fn band(band: &Band, timeline: &Timeline) -> Shown<Html> {
    let mut out = windows(timeline, BAND);
    let class = if band.exact { "exact" } else { "around" };
    for span in band.spans.iter().take(MAX) {
        out.push(boxed(class, span, timeline.seconds, 1.0, BAND - 2.0));
    }
    wide("band", BAND, &out)
}

/// The axis, with the ends of the windows.
pub(crate) fn axis(timeline: &Timeline) -> Shown<Html> {
    let mut ends: Vec<f64> = vec![0.0, timeline.seconds];
    ends.extend(timeline.windows.iter().skip(1).take(6).map(|window| window.from));
    ends.sort_by(f64::total_cmp);
    let labels = ends.into_iter().map(|at| (share(at, timeline.seconds), seconds(at)));
    labelled(&labels.collect::<Vec<_>>(), 0.1)
}

/// An axis with labels at shares of its width, in their order. One that would stand upon the one before it is left out; the ends are not.
pub(crate) fn labelled(labels: &[(f64, String)], apart: f64) -> Shown<Html> {
    let mut out = Shown::new();
    let mut last = -1.0;
    for (x, label) in labels {
        if *x >= 1.0 || (x - last >= apart && *x <= 0.98 - apart) {
            out.push(words("tick", *x, AXIS - 4.0, label));
            last = *x;
            if *x >= 1.0 {
                break;
            }
        }
    }
    wide("axis", AXIS, &out)
}

/// A small curve; `most` is the top of its scale.
pub(crate) fn spark(values: &[Option<f64>], most: f64) -> Shown<Html> {
    let count = values.len().min(MAX);
    let place = |slot: usize| share(slot as f64, count as f64) * WIDE;
    let step = |(slot, value): (usize, &Option<f64>)| {
        value.map(|value| Step { from: place(slot), until: place(slot + 1), floor: 0.0, top: share(value, most) })
    };
    let steps: Vec<Option<Step>> = values.iter().take(MAX).enumerate().map(step).collect();
    wide("spark", SPARK, &stretched(0.0, SPARK, &shown!("<path d=\"{}\"/>", areas(&steps, SPARK))))
}

/// The measured windows, behind what is drawn.
fn windows(timeline: &Timeline, height: f64) -> Shown<Html> {
    let mut out = Shown::new();
    for (at, window) in timeline.windows.iter().take(MAX_WINDOWS).enumerate() {
        // The windows of a recorded tree may be the same stretch of time.
        let is_later = timeline.windows.first().is_some_and(|first| window.from > first.from);
        out.push(boxed(if at > 0 && is_later { "drill" } else { "first" }, window, timeline.seconds, 0.0, height));
    }
    out
}

fn boxed(class: &'static str, span: &Span, seconds: f64, y: f64, height: f64) -> Shown<Html> {
    let [from, until] = [span.from, span.until].map(|at| share(at, seconds) * 100.0);
    shown!(
        "<rect class=\"{}\" x=\"{:.2}%\" width=\"{:.2}%\" y=\"{:.0}\" height=\"{:.0}\"/>",
        class,
        from,
        (until - from).max(0.0),
        y,
        height
    )
}

/// The tops of steps that follow one another.
fn tops(run: &[&Step], height: f64) -> Shown<Html> {
    let mut out = Shown::new();
    for (at, step) in run.iter().enumerate() {
        let y = (1.0 - step.top) * height;
        out.push(match at {
            0 => shown!("M{:.1} {:.1}H{:.1}", step.from, y, step.until),
            _ => shown!("V{:.1}H{:.1}", y, step.until),
        });
    }
    out
}

/// Runs of steps between gaps, as lines.
fn line(steps: &[Option<Step>], height: f64) -> Shown<Html> {
    let mut out = Shown::new();
    for run in runs(steps) {
        out.push(tops(&run, height));
    }
    out
}

/// The same as areas above their floors.
fn areas(steps: &[Option<Step>], height: f64) -> Shown<Html> {
    let mut out = Shown::new();
    for run in runs(steps) {
        out.push(tops(&run, height));
        for step in run.iter().rev() {
            out.push(shown!("V{:.1}H{:.1}", (1.0 - step.floor) * height, step.from));
        }
        out.push("z");
    }
    out
}

fn runs(steps: &[Option<Step>]) -> Vec<Vec<&Step>> {
    let mut runs: Vec<Vec<&Step>> = vec![Vec::new()];
    for step in steps {
        match (step, runs.last_mut()) {
            (Some(step), Some(run)) => run.push(step),
            (None, Some(run)) if !run.is_empty() => runs.push(Vec::new()),
            _ => {}
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::report::Curve;
    use rdiag_model::{Status, Unit};

    fn timeline() -> Timeline {
        let windows = vec![Span { from: 0.0, until: 5.0 }, Span { from: 5.0, until: 10.0 }];
        Timeline { seconds: 10.0, windows, ..Timeline::default() }
    }

    fn curve(values: Vec<Vec<Option<f64>>>) -> Curve {
        Curve { name: "user".into(), source: String::new(), mean: 0.5, max: 1.0, values }
    }

    #[test]
    fn an_interval_is_one_level_and_stacked_parts_stand_upon_one_another() {
        let below = curve(vec![vec![Some(0.5)], vec![Some(0.25), None]]);
        let above = curve(vec![vec![Some(0.5)], vec![Some(0.25), Some(0.25)]]);
        let stacked =
            Lane { unit: Unit::Ratio, top: 1.0, stacked: true, curves: vec![below, above], ..Lane::default() };
        let svg = lane(&stacked, &timeline());
        for part in [
            "<path class=\"c-0\" d=\"M0.0 23.0H500.0V46.0H0.0zM500.0 34.5H750.0V46.0H500.0z\"/>",
            "<path class=\"c-1\" d=\"M0.0 0.0H500.0V23.0H0.0zM500.0 23.0H750.0V34.5H1000.0V46.0H750.0V34.5H500.0z\"/>",
            "<rect class=\"drill\" x=\"50.00%\" width=\"50.00%\"",
            ">100%</text>",
        ] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }

    #[test]
    fn lines_are_drawn_where_nothing_is_stacked_and_a_gap_breaks_them() {
        let values = vec![vec![Some(1.0), None, Some(2.0), Some(4.0)], Vec::new()];
        let lines = Lane { unit: Unit::PerSecond, top: 4.0, curves: vec![curve(values)], ..Lane::default() };
        let svg = lane(&lines, &timeline());
        assert!(svg.contains("d=\"M0.0 34.5H125.0M250.0 23.0H375.0V0.0H500.0\""), "{svg}");
        let svg = spark(&[Some(1.0), Some(2.0)], 2.0);
        assert!(svg.contains("d=\"M0.0 9.0H500.0V0.0H1000.0V18.0H500.0V18.0H0.0z\""), "{svg}");
    }

    #[test]
    fn labels_of_the_axis_do_not_stand_upon_one_another() {
        let mut timeline = timeline();
        timeline.windows.push(Span { from: 5.2, until: 9.0 });
        let svg = axis(&timeline);
        assert!(svg.contains(">0 s<") && svg.contains(">5.00 s<") && svg.contains(">10.0 s<") && !svg.contains("5.20"));
    }

    #[test]
    fn any_numbers_give_a_picture() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 1e300, 1e-300];
        let mut wild = timeline();
        wild.windows.push(Span { from: f64::NAN, until: f64::NEG_INFINITY });
        wild.seconds = 0.0;
        let values = vec![odd.map(Some).to_vec(); 3];
        let bands = Band { finding: 9, status: Status::Critical, spans: wild.windows.clone(), exact: false };
        let mut pictures = vec![axis(&wild), band(&bands, &wild), spark(&odd.map(Some), f64::NAN)];
        for stacked in [false, true] {
            let curves = vec![curve(values.clone()); 6];
            pictures.push(lane(&Lane { unit: Unit::Bytes, top: f64::NAN, stacked, curves, ..Lane::default() }, &wild));
        }
        for svg in pictures {
            let drawn = svg.split('>').filter(|part| part.starts_with('<')).collect::<String>();
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{svg}");
        }
    }
}
