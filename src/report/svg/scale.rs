//! Round numbers for axes.

use rdiag_model::Unit;

/// A factor and a suffix with which the axis has round numbers.
pub(super) fn scale(unit: Unit, largest: f64) -> (f64, &'static str) {
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

pub(super) fn tick(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// Round levels between two ends, about so many.
pub(super) fn levels(bottom: f64, top: f64, wanted: usize) -> Vec<f64> {
    let rough = (top - bottom) / wanted.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![0.0];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= rough).unwrap_or(rough);
    let first = (bottom / step).ceil() as i64;
    // More than twice as many as wanted would be a mistake of rounding.
    (first..).map(|at| at as f64 * step).take_while(|level| *level <= top).take(wanted * 2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_round_and_about_as_many_as_wanted() {
        assert_eq!(levels(0.0, 100.0, 3), [0.0, 50.0, 100.0]);
        assert_eq!(levels(0.0, 7.3, 3), [0.0, 5.0]);
        assert_eq!(levels(-3.0, 7.0, 3), [0.0, 5.0]);
        assert_eq!(levels(0.0, 0.0, 3), [0.0]);
        for top in [f64::NAN, f64::INFINITY, 1e300, 1e-300] {
            assert!(levels(0.0, top, 3).len() <= 6);
        }
    }

    #[test]
    fn ticks_have_no_needless_digits() {
        for (value, expected) in [(0.5, "0.5"), (10.0, "10"), (-0.0, "0"), (1.234, "1.23")] {
            assert_eq!(tick(value), expected);
        }
    }
}
