//! What culprits did, as the definitions of their metrics tell: looked up when a report is made or read.

use rdiag_model::report::Consumers;
use rdiag_model::{DeedOfMetric, Finding, MetricDef, Report};

/// The definition of a metric, by its id.
type Definition<'d> = &'d dyn Fn(&str) -> Option<&'static MetricDef>;

/// In a report that was read. It may name metrics that this program does not know.
pub fn look_up(report: &mut Report, definition: Definition<'_>) {
    of_culprits(&mut report.findings, definition);
    of_consumers(&mut report.consumers, definition);
}

/// Of what is left of what all processes used.
pub(super) fn of_consumers(all: &mut [Consumers], definition: Definition<'_>) {
    for consumers in all {
        if let Some(def) = definition(&consumers.metric) {
            consumers.deed = DeedOfMetric::of(&def.deed);
        }
    }
}

/// Of all culprits.
pub(super) fn of_culprits(findings: &mut [Finding], definition: Definition<'_>) {
    for culprit in findings.iter_mut().filter_map(|finding| finding.culprit.as_mut()) {
        if let Some(def) = culprit.metric.as_deref().and_then(definition) {
            culprit.deed = DeedOfMetric::of(&def.deed);
        }
    }
}
