//! A curve as inline SVG.
//!
//! The colours written here are those of the light theme; the style sheet finds elements by them and gives every theme
//! its own. No text from outside gets into a picture: the caption around it names what it shows.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::ReportError;
use super::shown::{Canvas, Html, Shown};
use crate::shown;
use rdiag_model::probed::Bar;
use rdiag_model::quantity::with_unit;
use rdiag_model::report::Plot;
use rdiag_model::{Status, Unit};

/// Points that are drawn at most.
const MAX_POINTS: usize = 500;
/// Bars that are drawn at most.
const MAX_BARS: usize = 80;
const SIZE: (u32, u32) = (480, 170);
/// How plotters begins a picture of this size.
const BEGIN: &str = "<svg width=\"480\" height=\"170\"";
const GRID: RGBColor = RGBColor(0xE4, 0xE4, 0xDF);
const LABEL: RGBColor = RGBColor(0x5C, 0x63, 0x70);
const CURVE: RGBColor = RGBColor(0x2F, 0x5D, 0x8A);
const WARNING: RGBColor = RGBColor(0x8A, 0x53, 0x00);
const CRITICAL: RGBColor = RGBColor(0xB4, 0x23, 0x18);

/// Draws a curve; where an interval could not be measured, the line is broken.
pub(super) fn curve(plot: &Plot) -> Result<Shown<Html>, ReportError> {
    drawn(|root| draw(plot, root))
}

/// Draws how many values fall between powers of two.
pub(super) fn bars(bars: &[Bar], unit: Unit) -> Result<Shown<Html>, ReportError> {
    drawn(|root| draw_bars(bars, unit, root))
}

/// What is drawn, without what a page of our own need not be told.
fn drawn(draw: impl FnOnce(&Canvas<'_>) -> Result<(), Failed>) -> Result<Shown<Html>, ReportError> {
    let svg = Shown::plotted(SIZE, draw).map_err(|error| ReportError::Plot(error.to_string()))?;
    // It scales with the page, and stands in a page that names no address at all.
    let own = svg.replaced(BEGIN, "<svg class=\"plot\" aria-hidden=\"true\"");
    let defaults = [
        " xmlns=\"http://www.w3.org/2000/svg\"",
        " opacity=\"1\"",
        " stroke-width=\"1\"",
        " font-family=\"sans-serif\"",
        "\n",
    ];
    Ok(defaults.into_iter().fold(own, |small, default| small.replaced(default, "")))
}

/// A part of a bar, by shares of its width.
pub(super) struct Stretch {
    pub(super) from: f64,
    pub(super) until: f64,
    /// Class in the style sheet, one of ours.
    pub(super) class: &'static str,
    /// What a pointer is told; words of ours only.
    pub(super) title: String,
}

/// A bar of coloured stretches, as wide as the page.
pub(super) fn stretches(parts: &[Stretch], height: u32) -> Shown<Html> {
    let mut out = strip(height);
    for part in parts {
        let (x, width) = (part.from * 1000.0, (part.until - part.from) * 1000.0);
        if !(x.is_finite() && width > 0.05) {
            continue;
        }
        out.push(shown!(
            "<rect class=\"{}\" x=\"{:.1}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>",
            part.class,
            x,
            width,
            height,
            Shown::<Html>::text(&part.title)
        ));
    }
    out.push("</svg>");
    out
}

/// Boxes of one colour, by shares of the width and, from the top, of the height: from, until, top, floor.
pub(super) struct Area {
    /// Class in the style sheet, one of ours.
    pub(super) class: &'static str,
    /// What a pointer is told.
    pub(super) title: &'static str,
    pub(super) boxes: Vec<[f64; 4]>,
}

/// A strip of coloured boxes, as wide as the page: one element for each colour, however many boxes there are.
pub(super) fn areas(areas: &[Area], height: u32) -> Shown<Html> {
    let mut out = strip(height);
    for area in areas {
        out.push(shown!("<path class=\"{}\" d=\"", area.class));
        for [from, until, top, floor] in area.boxes.iter().filter(|of| of.iter().all(|edge| edge.is_finite())) {
            let ([left, right], [top, floor]) =
                ([from * 1000.0, until * 1000.0], [top, floor].map(|y| y * f64::from(height)));
            out.push(shown!("M{:.1} {:.1}H{:.1}V{:.1}H{:.1}z", left, top, right, floor, left));
        }
        out.push(shown!("\"><title>{}</title></path>", area.title));
    }
    out.push("</svg>");
    out
}

fn strip(height: u32) -> Shown<Html> {
    shown!("<svg class=\"strip\" viewBox=\"0 0 1000 {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">", height)
}

type Failed = Box<dyn std::error::Error>;

fn draw(plot: &Plot, root: &Canvas<'_>) -> Result<(), Failed> {
    let values = || plot.points.iter().filter_map(|(_, value)| *value).filter(|value| value.is_finite());
    let (largest, smallest) = (values().fold(0.0, f64::max), values().fold(0.0, f64::min));
    // A level far above the curve would flatten it.
    let levels: Vec<(Status, f64)> =
        plot.thresholds.iter().copied().filter(|(_, level)| *level <= largest * 2.0).collect();
    let highest = levels.iter().map(|(_, level)| *level).fold(largest, f64::max);
    let (factor, suffix) = scale(plot.unit, highest.max(-smallest));
    let top = if highest > 0.0 { highest * factor * 1.12 } else { 1.0 };
    let bottom = smallest * factor * 1.12;
    let begin = 0.0;
    let end = segments(plot).iter().flatten().map(|(at, _)| *at).fold(1e-3, f64::max);

    let mut chart = ChartBuilder::on(root)
        .margin(4)
        .margin_right(12)
        .x_label_area_size(20)
        .y_label_area_size(60)
        .build_cartesian_2d(begin..end, bottom..top)?;
    let label = ("sans-serif", 14).into_font().color(&LABEL);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .x_labels(5)
        .y_labels(4)
        .label_style(label)
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|value| format!("{}{suffix}", tick(*value)))
        .draw()?;
    for segment in segments(plot) {
        let points: Vec<(f64, f64)> = segment.iter().map(|(at, value)| (*at, value * factor)).collect();
        if let [only] = points.as_slice() {
            chart.draw_series([Circle::new(*only, 2, CURVE.filled())])?;
            continue;
        }
        chart.draw_series(AreaSeries::new(points.iter().copied(), 0.0, CURVE.mix(0.14)))?;
        chart.draw_series(LineSeries::new(points, CURVE.stroke_width(2)))?;
    }
    for (status, level) in levels {
        let color = if status == Status::Critical { CRITICAL } else { WARNING };
        let level = level * factor;
        chart.draw_series([PathElement::new([(begin, level), (end, level)], color.stroke_width(1))])?;
        let anchor = Pos::new(HPos::Right, VPos::Bottom);
        let text = ("sans-serif", 14).into_font().color(&color).pos(anchor);
        chart.draw_series([Text::new(status.word(), (end, level), text)])?;
    }
    root.present()?;
    Ok(())
}

fn draw_bars(bars: &[Bar], unit: Unit, root: &Canvas<'_>) -> Result<(), Failed> {
    let bars = bars.get(..bars.len().min(MAX_BARS)).unwrap_or_default();
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1) as f64;
    let (factor, suffix) = scale(Unit::Count, most);
    // Few bars would be as wide as a wall.
    let slots = bars.len().max(8) as f64;
    let mut chart = ChartBuilder::on(root)
        .margin(4)
        .margin_right(24)
        .x_label_area_size(20)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..slots, 0.0..most * factor * 1.08)?;
    let bound = |at: &f64| bars.get(at.round() as usize).map_or(String::new(), |bar| with_unit(bar.from, unit));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .x_labels(6)
        .y_labels(4)
        .label_style(("sans-serif", 14).into_font().color(&LABEL))
        .x_label_formatter(&bound)
        .y_label_formatter(&|value| format!("{}{suffix}", tick(*value)))
        .draw()?;
    let drawn = bars.iter().enumerate().filter(|(_, bar)| bar.count > 0).map(|(at, bar)| {
        let left = at as f64;
        Rectangle::new([(left + 0.06, 0.0), (left + 0.94, bar.count as f64 * factor)], CURVE.filled())
    });
    chart.draw_series(drawn)?;
    root.present()?;
    Ok(())
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

/// A factor and a suffix with which the axis has round numbers.
fn scale(unit: Unit, largest: f64) -> (f64, &'static str) {
    let decimal = |suffixes: [&'static str; 3]| match largest {
        v if v >= 1e6 => (1e-6, suffixes[2]),
        v if v >= 1e4 => (1e-3, suffixes[1]),
        _ => (1.0, suffixes[0]),
    };
    let binary = |suffixes: [&'static str; 5]| {
        let power = (0..4).rev().find(|power| largest >= 1024_f64.powi(*power)).unwrap_or(0);
        let suffix = suffixes.into_iter().nth(power as usize).unwrap_or_default();
        (1024_f64.powi(-power), suffix)
    };
    match unit {
        Unit::Ratio => (100.0, "%"),
        Unit::Seconds if largest < 1e-3 => (1e6, " µs"),
        Unit::Seconds if largest < 1.0 => (1e3, " ms"),
        Unit::Seconds => (1.0, " s"),
        Unit::Count => decimal(["", " k", " M"]),
        Unit::PerSecond => decimal(["/s", " k/s", " M/s"]),
        Unit::Bytes => binary([" B", " KiB", " MiB", " GiB", " TiB"]),
        Unit::BytesPerSecond => binary([" B/s", " KiB/s", " MiB/s", " GiB/s", " TiB/s"]),
    }
}

fn tick(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.to_owned() }
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
        let svg = curve(&plot(&[Some(0.1), Some(0.4), None, Some(0.3), Some(0.2)], Unit::Ratio)).unwrap();
        assert_eq!(svg.matches("<polyline fill=\"none\" stroke=\"#2F5D8A\"").count(), 2, "{svg}");
        assert!(svg.contains("critical") && svg.contains("warning"), "{svg}");
        assert!(!svg.contains("style=") && !svg.contains("http"), "{svg}");
    }

    #[test]
    fn any_values_give_a_picture() {
        let odd = [f64::NAN, f64::INFINITY, -5.0, 0.0, 1e300, 1e-300].map(Some);
        let mut wild = plot(&odd, Unit::Count);
        wild.points.extend([(-1e308, Some(1.0)), (1e308, Some(2.0)), (5.0, Some(3.0))]);
        curve(&wild).unwrap();
        for unit in [Unit::Ratio, Unit::Seconds, Unit::Bytes, Unit::Count, Unit::PerSecond, Unit::BytesPerSecond] {
            curve(&plot(&odd, unit)).unwrap();
            curve(&plot(&[Some(0.0); 3], unit)).unwrap();
            curve(&plot(&[None; 3], unit)).unwrap();
            curve(&plot(&[], unit)).unwrap();
        }
    }
}
