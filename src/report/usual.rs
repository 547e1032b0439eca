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
        _ => {
            let is_load = |unlike: &&Unlike| LOAD.contains(&unlike.metric.as_str());
            let mut load: Vec<&str> = usual.unlike.iter().filter(is_load).map(|unlike| unlike.title.as_str()).collect();
            load.dedup();
            let with = if load.is_empty() {
                String::new()
            } else {
                format!(": the load was another one ({}), from which other differences may follow", load.join(", "))
            };
            format!("Unlike {} ({}){with}", usual.name, usual.span)
        }
    }
}

/// What others ask of a host, and how much data passes through it. The rest is how it copes.
const LOAD: [&str; 6] = [
    "disk.read.bytes_per_second",
    "disk.write.bytes_per_second",
    "network.interface.receive.bytes_per_second",
    "network.interface.transmit.bytes_per_second",
    "network.tcp.passive_opens.per_second",
    "network.tcp.active_opens.per_second",
];

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
        let read = Unlike {
            metric: "disk.read.bytes_per_second".into(),
            title: "disk reads".into(),
            ..usual.unlike[0].clone()
        };
        usual.unlike.push(read);
        assert_eq!(
            heading(&usual),
            "Unlike the day before (then): the load was another one (disk reads), from which other differences may follow"
        );
        usual.unlike.clear();
        assert_eq!(heading(&usual), "Like the day before: none of 9 figures differs by 4 spreads or more (then)");
    }
}
