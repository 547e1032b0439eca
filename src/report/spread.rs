//! Distributions of durations as small pictures that share one axis, so that they can be compared.

use super::shown::{Html, Shown};
use super::svg;
use crate::shown;
use rdiag_model::profile::Bin;
use rdiag_model::quantity::percent;

/// Size of a picture, the edges of the room for its bars, and how high they may be.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 458.0;
const FLOOR: f64 = 126.0;
const HIGHEST: f64 = 108.0;
/// Bars are at most this wide.
const WIDEST: f64 = 44.0;
/// Names on the axis stand at least so far apart.
const APART: f64 = 56.0;
/// Colours; that of words gives way to the one in the style sheet.
const CURVE: &str = "#2F5D8A";
const GRID: &str = "#E4E4DF";
const LABEL: &str = "#5C6370";

/// The powers of two of nanoseconds that all pictures have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    /// The lower bound of the leftmost bar, as a power of two of nanoseconds.
    lowest: f64,
    slots: f64,
}

impl Axis {
    /// From the shortest to the longest of all; none without any.
    pub(super) fn over<'b>(all: impl Iterator<Item = &'b [Bin]>) -> Option<Self> {
        let mut powers = all.flatten().map(power).filter(|power| power.is_finite());
        let first = powers.next()?;
        let (low, high) = powers.fold((first, first), |(low, high), power| (low.min(power), high.max(power)));
        Some(Self { lowest: low - 1.0, slots: (high - low + 1.0).clamp(1.0, 64.0) })
    }

    fn slot(self) -> f64 {
        ((RIGHT - LEFT) / self.slots).min(WIDEST)
    }

    fn place(self, power: f64) -> f64 {
        LEFT + (power - self.lowest) * self.slot()
    }
}

/// The upper bound as a power of two of nanoseconds.
fn power(bin: &Bin) -> f64 {
    (bin.below * 1e9).log2().round()
}

/// How many waits are of each length, outlined, and how much of the time they hold, filled; both as shares.
pub(super) fn picture(bins: &[Bin], axis: Axis) -> Shown<Html> {
    let count: f64 = bins.iter().map(|bin| bin.count as f64).sum();
    let seconds: f64 = bins.iter().map(|bin| bin.seconds).sum();
    let share = |part: f64, whole: f64| Some(part / whole).filter(|share| share.is_finite()).unwrap_or(0.0);
    let shares = |bin: &Bin| [share(bin.count as f64, count), share(bin.seconds, seconds)];
    let most = bins.iter().flat_map(shares).fold(0.0, f64::max);
    let mut out = Shown::new();
    for (part, y) in [(1.0, FLOOR - HIGHEST), (0.5, FLOOR - HIGHEST / 2.0), (0.0, FLOOR)] {
        out.push(shown!(
            "<path d=\"M{} {:.1}H{}\" stroke=\"{}\"/><text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
            LEFT,
            y,
            RIGHT,
            GRID,
            LEFT - 5.0,
            y + 4.0,
            LABEL,
            Shown::<Html>::text(percent(most * part))
        ));
    }
    for bin in bins.iter().filter(|bin| bin.count > 0 && power(bin).is_finite()) {
        let [of_count, of_time] = shares(bin).map(|part| share(part, most) * HIGHEST);
        let (x, half) = (axis.place(power(bin) - 1.0), axis.slot() / 2.0);
        let width = (half - 1.5).max(1.0);
        for (x, height, colours) in [
            (x + 1.0, of_count, shown!("fill=\"none\" stroke=\"{}\"", CURVE)),
            (x + half + 0.5, of_time, shown!("fill=\"{}\"", CURVE)),
        ] {
            let y = FLOOR - height;
            out.push(shown!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" {}/>",
                x,
                y,
                width,
                height,
                colours
            ));
        }
    }
    out.push(names(axis));
    svg::element("plot", &shown!("viewBox=\"0 0 {} {}\" aria-hidden=\"true\"", WIDTH, HEIGHT), &out)
}

/// Powers of ten below the axis.
fn names(axis: Axis) -> Shown<Html> {
    const NAMES: [&str; 12] =
        ["10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"];
    let mut out = Shown::new();
    let mut free = 0.0;
    for (at, name) in NAMES.iter().enumerate() {
        let x = axis.place((at as f64 + 1.0) * 10_f64.log2());
        if x < LEFT.max(free) || x > RIGHT {
            continue;
        }
        free = x + APART;
        out.push(shown!(
            "<path d=\"M{:.1} {}v4\" stroke=\"{}\"/><text x=\"{:.1}\" y=\"144\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
            x,
            FLOOR,
            LABEL,
            x,
            LABEL,
            *name
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(power: i32, count: u64, seconds: f64) -> Bin {
        let below = 2_f64.powi(power) / 1e9;
        Bin { from: below / 2.0, below, count, seconds }
    }

    fn heights(svg: &str, kind: &str) -> Vec<f64> {
        let rects = svg.split("<rect ").skip(1).filter(|rect| rect.split('>').next().unwrap().contains(kind));
        rects.map(|rect| rect.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn the_bars_of_each_kind_add_up_to_the_whole() {
        let bins = [bin(10, 900, 0.0009), bin(11, 0, 0.0), bin(20, 100, 0.1)];
        let axis = Axis::over([bins.as_slice()].into_iter()).unwrap();
        let svg = picture(&bins, axis);
        // The highest is the one that holds most: 99.1 % of the time.
        let scale = 0.1 / 0.1009 / HIGHEST;
        for kind in ["fill=\"none\"", "fill=\"#2F5D8A\""] {
            let heights = heights(&svg, kind);
            assert_eq!(heights.len(), 2, "nothing is drawn where nothing is");
            let sum: f64 = heights.iter().sum::<f64>() * scale;
            assert!((sum - 1.0).abs() < 0.002, "{kind}: {sum} {svg}");
        }
        assert!(svg.contains(">1 µs<") && svg.contains(">1 ms<") && svg.contains(">99.1%<"), "{svg}");
    }

    #[test]
    fn pictures_of_one_axis_have_equal_durations_at_equal_places() {
        let (short, long) = ([bin(10, 1, 1e-6)], [bin(10, 5, 5e-6), bin(30, 1, 1.0)]);
        let axis = Axis::over([short.as_slice(), long.as_slice()].into_iter()).unwrap();
        let first = |svg: &str| svg.split("<rect x=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        assert_eq!(first(&picture(&short, axis)), first(&picture(&long, axis)));
        assert_eq!(Axis::over([].into_iter()), None);
    }

    #[test]
    fn absurd_bounds_make_no_absurd_picture() {
        let absurd =
            [bin(10, 1, 1.0), Bin { below: f64::INFINITY, ..bin(9, 1, 1.0) }, Bin { below: -1.0, ..bin(9, 2, 1.0) }];
        let axis = Axis::over([absurd.as_slice()].into_iter()).unwrap();
        assert_eq!(axis.slots, 1.0);
        let svg = picture(&absurd, axis);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
