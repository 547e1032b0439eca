//! The same time of earlier days, in words for every renderer.

use rdiag_model::quantity::with_unit;
use rdiag_model::report::{Unlike, Usual};

/// What the comparison came to.
pub(super) fn heading(usual: &Usual) -> String {
    match usual.unlike.len() {
        0 => {
            format!(
                "Like {}: none of {} figures differs by 4 spreads or more ({})",
                usual.name, usual.compared, usual.span
            )
        }
        _ => format!("Unlike {} ({})", usual.name, usual.span),
    }
}

/// Which figure differs: `disk await vda`.
pub(super) fn what(unlike: &Unlike) -> String {
    format!("{} {}", unlike.title, unlike.instance).trim_end().to_owned()
}

/// By how much: `100 ms (2.00 ms then, spread 0.50 ms)`.
pub(super) fn figures(unlike: &Unlike) -> String {
    let [now, then, spread] = [unlike.now, unlike.then, unlike.spread].map(|value| with_unit(value, unlike.unit));
    format!("{now} ({then} then, spread {spread})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::Unit;

    #[test]
    fn a_difference_is_told_with_its_figures_and_none_as_none() {
        let unlike = Unlike {
            metric: "disk.await.seconds".into(),
            title: "disk await".into(),
            instance: "vda".into(),
            unit: Unit::Seconds,
            then: 0.002,
            spread: 0.0005,
            now: 0.1,
            spreads: 196.0,
        };
        assert_eq!(
            (what(&unlike), figures(&unlike)),
            ("disk await vda".into(), "100 ms (2.00 ms then, spread 500 µs)".into())
        );
        let mut usual = Usual { name: "the day before".into(), span: "then".into(), compared: 9, unlike: vec![unlike] };
        assert_eq!(heading(&usual), "Unlike the day before (then)");
        usual.unlike.clear();
        assert_eq!(heading(&usual), "Like the day before: none of 9 figures differs by 4 spreads or more (then)");
    }
}
