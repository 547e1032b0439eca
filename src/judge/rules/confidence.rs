//! How far a finding can be trusted, and why not further.

use std::collections::BTreeSet;

use rdiag_model::finding::{Doubt, SHORT_WINDOW_SECONDS};
use rdiag_model::{Confidence, Metrics, Reading};

/// Reasons for less confidence that come from the data behind a finding. `confirmed` is a metric of which the kernel log says the same.
pub(super) fn reasons(
    metrics: &Metrics,
    cited: &BTreeSet<String>,
    instance: &str,
    confirmed: Option<&str>,
) -> Vec<Doubt> {
    let mut reasons = BTreeSet::new();
    if metrics.seconds > 0.0 && metrics.seconds < SHORT_WINDOW_SECONDS {
        reasons.insert(Doubt::short_window(metrics.seconds));
    }
    for id in cited {
        reasons.extend(metrics.notes.get(id).into_iter().flatten().cloned());
        let Some(Reading::Measured { rank, source, instances, .. }) = metrics.readings.get(id) else { continue };
        if *rank > 0 && confirmed != Some(id.as_str()) {
            let why = format!("{id} was taken from {source}; the better source for it gave nothing on this host");
            reasons.insert(why.into());
        }
        let stats = instances.get(instance).or_else(|| instances.get(""));
        if let Some(Ok(stats)) = stats
            && stats.discarded > 0
        {
            let left_out =
                if stats.discarded == 1 { "1 interval".into() } else { format!("{} intervals", stats.discarded) };
            reasons.insert(format!("{id} leaves out {left_out}: the counter was reset").into());
        }
    }
    reasons.into_iter().collect()
}

/// One reason costs one step, a second one the other.
pub(super) fn level(reasons: &[Doubt]) -> Confidence {
    match reasons.len() {
        0 => Confidence::High,
        1 => Confidence::Medium,
        _ => Confidence::Low,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{Doubt, level, reasons};
    use rdiag_model::{Confidence, Metrics, Reading, Stats, Unit};

    /// What is said of a metric in a window of so many seconds, from its best source or a fallback, with so many resets.
    fn said(seconds: f64, rank: usize, discarded: u32) -> Vec<String> {
        said_with(seconds, rank, discarded, None)
    }

    /// The same, where the kernel log says what a metric says.
    fn said_with(seconds: f64, rank: usize, discarded: u32, confirmed: Option<&str>) -> Vec<String> {
        let reading = Reading::Measured {
            unit: Unit::Ratio,
            dimension: None,
            source: "another file".into(),
            rank,
            instances: BTreeMap::from([(String::new(), Ok(Stats { discarded, ..Stats::constant(0.5) }))]),
        };
        let readings = BTreeMap::from([("a.x.ratio".to_owned(), reading)]);
        let metrics = Metrics { readings, seconds, ..Metrics::default() };
        let reasons = reasons(&metrics, &BTreeSet::from(["a.x.ratio".to_owned()]), "", confirmed);
        reasons.into_iter().map(String::from).collect()
    }

    #[test]
    fn a_short_window_a_fallback_and_a_reset_are_each_a_reason() {
        assert!(said(4.5, 0, 0).is_empty());
        assert_eq!(said(4.0, 0, 0), ["the window was only 4.0 s long"]);
        assert_eq!(
            said(5.0, 1, 0),
            ["a.x.ratio was taken from another file; the better source for it gave nothing on this host"]
        );
        assert_eq!(said(5.0, 0, 1), ["a.x.ratio leaves out 1 interval: the counter was reset"]);
        assert_eq!(said(4.4, 2, 3).len(), 3);
    }

    #[test]
    fn a_fallback_that_the_kernel_log_confirms_costs_nothing() {
        assert!(said_with(5.0, 1, 0, Some("a.x.ratio")).is_empty());
        assert_eq!(said_with(5.0, 1, 0, Some("a.y.ratio")).len(), 1);
        assert_eq!(said_with(4.0, 1, 1, Some("a.x.ratio")).len(), 2, "a short window and a reset stay");
    }

    #[test]
    fn each_reason_costs_a_step() {
        let all: Vec<Doubt> = said(4.0, 1, 1).into_iter().map(Doubt::from).collect();
        assert_eq!(level(&[]), Confidence::High);
        assert_eq!(level(&all[..1]), Confidence::Medium);
        assert_eq!((level(&all[..2]), level(&all)), (Confidence::Low, Confidence::Low));
    }
}
