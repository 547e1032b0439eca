//! Curves of metrics, and bars of distributions.

use super::scale::{levels, scale, tick};
use super::{WIDE, rule, stretched, wide, words};
use crate::shown;
use crate::shown::{Html, Shown};
use rdiag_model::probed::Bar;
use rdiag_model::quantity::with_unit;
use rdiag_model::report::Plot;
use rdiag_model::{Status, Unit};

/// Points that are drawn at most.
const MAX_POINTS: usize = 500;
/// Bars that are drawn at most.
const MAX_BARS: usize = 80;
/// Fewer bars than this would be as wide as a wall.
const FEW_BARS: usize = 8;
/// Room above what is drawn, its height, and room for the labels of the axis below it, in pixels.
const ABOVE: f64 = 14.0;
const HEIGHT: f64 = 110.0;
const BELOW: f64 = 18.0;

/// The lines and labels of the vertical axis.
fn levelled(bottom: f64, top: f64, suffix: &'static str) -> Shown<Html> {
    let mut out = Shown::new();
    for level in levels(bottom, top, 3) {
        let y = place(level, bottom, top) + ABOVE;
        out.push(rule(if level == 0.0 { "zero" } else { "grid" }, y));
        if level != 0.0 {
            out.push(words("tick", 0.0, y - 3.0, &format!("{}{suffix}", tick(level))));
        }
    }
    out
}

/// How far below the upper edge a value is drawn.
fn place(value: f64, bottom: f64, top: f64) -> f64 {
    if top > bottom { (1.0 - (value - bottom) / (top - bottom)).clamp(0.0, 1.0) * HEIGHT } else { HEIGHT }
}

/// Draws a curve; where an interval could not be measured, the line is broken.
pub(crate) fn curve(plot: &Plot) -> Shown<Html> {
    let values = || plot.points.iter().filter_map(|(_, value)| *value).filter(|value| value.is_finite());
    let (largest, smallest) = (values().fold(0.0, f64::max), values().fold(0.0, f64::min));
    // A level far above the curve would flatten it.
    let thresholds: Vec<(Status, f64)> =
        plot.thresholds.iter().copied().filter(|(_, level)| *level <= largest * 2.0).collect();
    let highest = thresholds.iter().map(|(_, level)| *level).fold(largest, f64::max);
    let (factor, suffix) = scale(plot.unit, highest.max(-smallest));
    let top = if highest > 0.0 { highest * factor * 1.08 } else { 1.0 };
    let bottom = smallest * factor * 1.08;
    let segments = segments(plot);
    let end = segments.iter().flatten().map(|(at, _)| *at).fold(1e-3, f64::max);
    let x = |at: f64| (at / end).clamp(0.0, 1.0) * WIDE;
    let y = |value: f64| place(value * factor, bottom, top);

    let mut out = levelled(bottom, top, suffix);
    let mut drawn = Shown::new();
    for segment in &segments {
        let mut line: Shown<Html> = Shown::new();
        for (at, (seconds, value)) in segment.iter().enumerate() {
            let letter = if at == 0 { "M" } else { "L" };
            line.push(shown!("{}{:.1} {:.1}", letter, x(*seconds), y(*value)));
        }
        let (Some((first, _)), Some((last, _))) = (segment.first(), segment.last()) else { continue };
        if segment.len() == 1 {
            // A single point is a short line.
            line.push(shown!("h{:.1}", WIDE / 100.0));
        } else {
            let zero = y(0.0);
            drawn.push(shown!(
                "<path class=\"under\" d=\"{}L{:.1} {:.1}L{:.1} {:.1}z\"/>",
                &line,
                x(*last),
                zero,
                x(*first),
                zero
            ));
        }
        drawn.push(shown!("<path class=\"line\" d=\"{}\"/>", line));
    }
    out.push(stretched(ABOVE, HEIGHT, &drawn));
    for (status, level) in thresholds {
        let y = y(level) + ABOVE;
        out.push(rule(status.word(), y));
        out.push(words(status.word(), 1.0, y - 3.0, status.word()));
    }
    for share in [0.0, 0.5, 1.0] {
        out.push(words("tick", share, ABOVE + HEIGHT + BELOW - 4.0, &format!("{} s", tick(end * share))));
    }
    wide("plot", ABOVE + HEIGHT + BELOW, &out)
}

/// Draws how many values fall between powers of two.
pub(crate) fn bars(bars: &[Bar], unit: Unit) -> Shown<Html> {
    let bars = bars.get(..bars.len().min(MAX_BARS)).unwrap_or_default();
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1) as f64;
    let (factor, suffix) = scale(Unit::Count, most);
    let top = most * factor * 1.08;
    let slot = 1.0 / bars.len().max(FEW_BARS) as f64;
    let mut out = levelled(0.0, top, suffix);
    let labelled = bars.len().div_ceil(5).max(2);
    for (at, bar) in bars.iter().enumerate() {
        let left = at as f64 * slot;
        if bar.count > 0 {
            let y = place(bar.count as f64 * factor, 0.0, top);
            out.push(shown!(
                "<rect x=\"{:.2}%\" width=\"{:.2}%\" y=\"{:.1}\" height=\"{:.1}\"/>",
                (left + slot * 0.06) * 100.0,
                slot * 88.0,
                y + ABOVE,
                HEIGHT - y
            ));
        }
        if at % labelled == 0 && left < 0.95 {
            out.push(words("tick", left, ABOVE + HEIGHT + BELOW - 4.0, &with_unit(bar.from, unit)));
        }
    }
    wide("plot", ABOVE + HEIGHT + BELOW, &out)
}

/// Runs of points between gaps.
fn segments(plot: &Plot) -> Vec<Vec<(f64, f64)>> {
    let mut segments = vec![Vec::new()];
    // A page is drawn from a file that may come from anywhere.
    for (at, value) in plot.points.iter().take(MAX_POINTS).filter(|(at, _)| at.abs() < 1e9) {
        match (value.filter(|value| value.is_finite()), segments.last_mut()) {
            (Some(value), Some(segment)) => segment.push((*at, value)),
            (None, Some(segment)) if !segment.is_empty() => segments.push(Vec::new()),
            _ => {}
        }
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[Option<f64>], unit: Unit) -> Plot {
        Plot {
            metric: "m".into(),
            instance: None,
            window: 0,
            unit,
            title: String::new(),
            points: points.iter().enumerate().map(|(at, value)| (at as f64 + 0.5, *value)).collect(),
            thresholds: vec![(Status::Warning, 0.2), (Status::Critical, 0.5)],
        }
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let svg = curve(&plot(&[Some(0.1), Some(0.4), None, Some(0.3), Some(0.2)], Unit::Ratio));
        assert_eq!(svg.matches("<path class=\"line\"").count(), 2, "{svg}");
        assert!(svg.contains(">critical</text>") && svg.contains(">warning</text>"), "{svg}");
        assert!(svg.contains(">20%</text>") && svg.contains(">4.5 s</text>"), "{svg}");
        assert!(!svg.contains("style=") && !svg.contains("http"), "{svg}");
    }

    #[test]
    fn any_values_give_a_picture_without_a_number_that_is_none() {
        let odd = [f64::NAN, f64::INFINITY, -5.0, 0.0, 1e300, 1e-300].map(Some);
        let mut wild = plot(&odd, Unit::Count);
        wild.points.extend([(-1e308, Some(1.0)), (1e308, Some(2.0)), (5.0, Some(3.0))]);
        let mut pictures = vec![curve(&wild), curve(&plot(&[], Unit::Ratio)), curve(&plot(&[Some(0.3)], Unit::Ratio))];
        for unit in [Unit::Ratio, Unit::Seconds, Unit::Bytes, Unit::Count, Unit::PerSecond, Unit::BytesPerSecond] {
            pictures.extend([curve(&plot(&odd, unit)), curve(&plot(&[Some(0.0); 3], unit))]);
        }
        let bar = |from: f64, count| Bar { from, below: from * 2.0, count, length: 0.0 };
        pictures.extend([
            bars(&[], Unit::Seconds),
            bars(&[bar(1e-6, 3), bar(2e-6, 0), bar(4e-6, u64::MAX)], Unit::Seconds),
            bars(&vec![bar(1e300, 1); 500], Unit::Bytes),
        ]);
        for svg in pictures {
            let numbers: Shown<Html> = svg.clone();
            let drawn =
                numbers.split('>').filter(|part| part.contains(" d=") || part.contains(" y")).collect::<String>();
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{svg}");
            assert!(svg.len() < 20_000, "{}", svg.len());
        }
    }

    #[test]
    fn small_differences_of_large_levels_do_not_draw_from_zero_below_zero() {
        let svg = curve(&plot(&[Some(-2.0), Some(1.0), Some(2.0)], Unit::Count));
        assert!(svg.contains("class=\"zero\"") && svg.contains(">-2</text>"), "{svg}");
    }
}
