//! How far a finding can be trusted, and why not further.

use std::collections::BTreeSet;

use crate::model::{Confidence, Metrics, Reading};

/// Below this, tick-based figures and short bursts dominate.
const SHORT_WINDOW_SECONDS: f64 = 4.5;

/// Reasons for less confidence that come from the data behind a finding.
pub(super) fn reasons(metrics: &Metrics, cited: &BTreeSet<String>, instance: &str) -> Vec<String> {
    let mut reasons = BTreeSet::new();
    if metrics.seconds > 0.0 && metrics.seconds < SHORT_WINDOW_SECONDS {
        reasons.insert(format!("the window was only {:.1} s long", metrics.seconds));
    }
    for id in cited {
        reasons.extend(metrics.notes.get(id).into_iter().flatten().cloned());
        let Some(Reading::Measured { rank, source, instances, .. }) = metrics.readings.get(id) else { continue };
        if *rank > 0 {
            reasons.insert(format!("{id} comes from a fallback: {source}"));
        }
        let stats = instances.get(instance).or_else(|| instances.get(""));
        if let Some(Ok(stats)) = stats
            && stats.discarded > 0
        {
            reasons.insert(format!("{} intervals of {id} were thrown away: the counter was reset", stats.discarded));
        }
    }
    reasons.into_iter().collect()
}

/// One reason costs one step, a second one the other.
pub(super) fn level(reasons: &[String]) -> Confidence {
    match reasons.len() {
        0 => Confidence::High,
        1 => Confidence::Medium,
        _ => Confidence::Low,
    }
}
