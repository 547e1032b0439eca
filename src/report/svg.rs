//! Pictures as inline SVG, written by hand: what scales with the page is drawn in shares of its width, and text keeps its size.
//!
//! A picture has no width of its own and no style: the style sheet gives elements their colours by class, in each theme. Heights are
//! pixels. No text from outside gets into a picture: the caption around it names what it shows.

mod curve;
mod heat;
mod lanes;
mod scale;

pub(super) use curve::{bars, curve};
pub(super) use heat::heat;
pub(super) use lanes::{axis, band, class, gapped, labelled, lane, spark};

use super::shown::{Html, Shown};
use crate::shown;

/// Width of the part of a picture that is stretched.
const WIDE: f64 = 1000.0;

/// A picture: its class, the other attributes of its element, and what is drawn.
pub(super) fn element(class: &'static str, attributes: &Shown<Html>, drawn: &Shown<Html>) -> Shown<Html> {
    shown!("<svg class=\"{}\" {}>{}</svg>", class, attributes, drawn)
}

/// A picture as wide as the page; what it shows is said beside it.
fn wide(class: &'static str, height: f64, drawn: &Shown<Html>) -> Shown<Html> {
    element(class, &shown!("height=\"{:.0}\" aria-hidden=\"true\"", height), drawn)
}

/// The same with all of it stretched.
fn strip(height: u32, drawn: &Shown<Html>) -> Shown<Html> {
    let attributes = shown!("viewBox=\"0 0 1000 {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\"", height);
    element("strip", &attributes, drawn)
}

/// What is stretched over the width of a picture, between two heights in pixels: x from 0 to [`WIDE`], y in pixels.
fn stretched(top: f64, height: f64, content: &Shown<Html>) -> Shown<Html> {
    shown!(
        "<svg viewBox=\"0 0 1000 {:.0}\" preserveAspectRatio=\"none\" y=\"{:.0}\" height=\"{:.0}\">{}</svg>",
        height,
        top,
        height,
        content
    )
}

/// A line across the picture.
fn rule(class: &'static str, y: f64) -> Shown<Html> {
    shown!("<line class=\"{}\" x2=\"100%\" y1=\"{:.1}\" y2=\"{:.1}\"/>", class, y, y)
}

/// Words at a share of the width; those at the right end end there.
fn words(class: &'static str, x: f64, y: f64, text: &str) -> Shown<Html> {
    let anchor = if x >= 0.98 {
        " text-anchor=\"end\""
    } else if x <= 0.02 {
        ""
    } else {
        " text-anchor=\"middle\""
    };
    let text = Shown::<Html>::text(text);
    shown!("<text class=\"{}\" x=\"{:.1}%\" y=\"{:.1}\"{}>{}</text>", class, x * 100.0, y, anchor, text)
}

/// A part of a bar, by shares of its width.
pub(super) struct Stretch {
    pub(super) from: f64,
    pub(super) until: f64,
    /// Class in the style sheet, one of ours.
    pub(super) class: &'static str,
    /// The tooltip; rdiag's own words only.
    pub(super) title: String,
}

/// A bar of coloured stretches, as wide as the page.
pub(super) fn stretches(parts: &[Stretch], height: u32) -> Shown<Html> {
    let mut out = Shown::new();
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
    strip(height, &out)
}

/// Boxes of one colour, by shares of the width and, from the top, of the height: from, until, top, floor.
pub(super) struct Area {
    /// Class in the style sheet, one of ours.
    pub(super) class: &'static str,
    /// The tooltip.
    pub(super) title: &'static str,
    pub(super) boxes: Vec<[f64; 4]>,
}

/// A strip of coloured boxes, as wide as the page: one element for each colour, however many boxes there are.
pub(super) fn areas(areas: &[Area], height: u32) -> Shown<Html> {
    let mut out = Shown::new();
    for area in areas {
        out.push(shown!("<path class=\"{}\" d=\"", area.class));
        for [from, until, top, floor] in area.boxes.iter().filter(|of| of.iter().all(|edge| edge.is_finite())) {
            let ([left, right], [top, floor]) =
                ([from * 1000.0, until * 1000.0], [top, floor].map(|y| y * f64::from(height)));
            out.push(shown!("M{:.1} {:.1}H{:.1}V{:.1}H{:.1}z", left, top, right, floor, left));
        }
        out.push(shown!("\"><title>{}</title></path>", area.title));
    }
    strip(height, &out)
}
