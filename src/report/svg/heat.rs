//! Heat maps: time from left to right, latency upwards, the darker the more.

use super::{WIDE, stretched, wide, words};
use crate::shown;
use crate::shown::{Html, Shown};
use rdiag_model::Unit;
use rdiag_model::heat::HeatMap;
use rdiag_model::quantity::{seconds, with_unit};

/// Room above the fields and for the labels of the axis below them, in pixels.
const ABOVE: f64 = 10.0;
const BELOW: f64 = 18.0;
/// About the height of all bands, and the least and largest of one, in pixels.
const HEIGHT: f64 = 120.0;
const BAND: (f64, f64) = (9.0, 24.0);
/// Least distance of two labels, in pixels.
const LABELS: f64 = 24.0;
/// Share of the width that the labels of bands take.
const LEFT: f64 = 0.16;
/// Bands and columns that are drawn at most; a page is drawn from a file that may come from anywhere.
const MOST: usize = 100;
/// Classes by how many events are in a field, from one to the most.
const SHADES: [&str; 5] = ["h-1", "h-2", "h-3", "h-4", "h-5"];

/// Draws the fields that hold anything.
pub(crate) fn heat(map: &HeatMap) -> Shown<Html> {
    let bands = map.bands.get(..map.bands.len().min(MOST)).unwrap_or_default();
    let columns = bands.iter().map(|band| band.counts.len()).max().unwrap_or(0).clamp(1, MOST);
    let band = (HEIGHT / bands.len().max(1) as f64).clamp(BAND.0, BAND.1);
    let height = band * bands.len() as f64;
    let most = map.counts().max().unwrap_or(0);
    let width = (1.0 - LEFT) * WIDE / columns as f64;
    let mut fields: Shown<Html> =
        shown!("<path class=\"h-0\" d=\"M{:.0} 0H{:.0}V{:.0}H{:.0}z\"/>", LEFT * WIDE, WIDE, height, LEFT * WIDE);
    for (shade, class) in SHADES.into_iter().enumerate() {
        let mut path: Shown<Html> = Shown::new();
        for (row, band_of) in bands.iter().rev().enumerate() {
            let of_shade = |(_, count): &(usize, &u64)| shade_of(**count, most) == Some(shade);
            for (column, _) in band_of.counts.iter().take(MOST).enumerate().filter(of_shade) {
                let (x, y) = (LEFT * WIDE + column as f64 * width, row as f64 * band);
                path.push(shown!("M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z", x, y, width, band, width));
            }
        }
        if !path.is_empty() {
            fields.push(shown!("<path class=\"{}\" d=\"{}\"/>", class, path));
        }
    }
    let mut out = stretched(ABOVE, height, &fields);
    let every = (LABELS / band).ceil().max(1.0) as usize;
    let bounds = bands.iter().map(|band| band.from).chain(bands.last().map(|band| band.below));
    for (at, bound) in bounds.enumerate().filter(|(at, _)| at % every == 0) {
        out.push(words("tick", 0.0, ABOVE + height - at as f64 * band + 4.0, &with_unit(bound, Unit::Seconds)));
    }
    for share in [0.0, 0.5, 1.0] {
        let at = LEFT + share * (1.0 - LEFT);
        out.push(words("tick", at, ABOVE + height + BELOW - 4.0, &seconds(map.seconds * share)));
    }
    wide("plot heat-map", ABOVE + height + BELOW, &out)
}

/// The shade of a field: by the logarithm, so that one event among hundreds is still seen.
fn shade_of(count: u64, most: u64) -> Option<usize> {
    let share = (count as f64).ln_1p() / (most.max(1) as f64).ln_1p();
    (count > 0).then(|| ((share * SHADES.len() as f64).ceil() as usize).clamp(1, SHADES.len()) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::heat::HeatBand;

    fn map(counts: &[&[u64]]) -> HeatMap {
        let band = |(at, counts): (usize, &&[u64])| HeatBand {
            from: 0.02 * (at as f64).exp2(),
            below: 0.04 * (at as f64).exp2(),
            counts: counts.to_vec(),
        };
        HeatMap { seconds: 6.0, bands: counts.iter().enumerate().map(band).collect(), ..HeatMap::default() }
    }

    #[test]
    fn fuller_fields_are_darker_and_empty_ones_are_not_drawn() {
        let svg = heat(&map(&[&[1, 0, 200], &[0, 0, 30]]));
        assert_eq!(svg.matches("class=\"h-1\"").count(), 1, "{svg}");
        assert_eq!(svg.matches("class=\"h-5\"").count(), 1, "{svg}");
        assert_eq!(svg.matches("v24.0").count(), 3, "three fields hold something: {svg}");
        for label in [">20.0 ms</text>", ">80.0 ms</text>", ">6.00 s</text>"] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
        assert!(!svg.contains("style=") && !svg.contains("http"), "{svg}");
    }

    #[test]
    fn any_map_gives_a_picture_without_a_number_that_is_none() {
        let mut wild = map(&[&[u64::MAX; 3], &[]]);
        wild.seconds = f64::NAN;
        let large = map(&vec![&[7_u64; 500][..]; 500]);
        for map in [wild, large, HeatMap::default()] {
            let svg = heat(&map);
            let drawn = svg.split('>').filter(|part| part.contains(" d=") || part.contains(" y")).collect::<String>();
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{svg}");
            assert!(svg.len() < 400_000, "{}", svg.len());
        }
    }
}
