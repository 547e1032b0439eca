//! When the findings held.

use std::collections::BTreeMap;

use rdiag_model::finding::Levels;
use rdiag_model::report::{Band, Span};
use rdiag_model::{Finding, Metrics, Status};

use crate::causes::Problem;
use crate::order::judged_by;

/// Problems that are marked on the axis.
const MAX_BANDS: usize = 5;

/// One for each of the first problems, in order.
pub(super) fn bands(
    windows: &[Span],
    metrics: &[Metrics],
    findings: &[Finding],
    problems: &[Problem<'_>],
    levels: &BTreeMap<String, Levels>,
) -> Vec<Band> {
    let band = |problem: &Problem<'_>| {
        let lead = problem.lead.lead;
        let window = *windows.get(window(lead))?;
        let exact = exact(lead, window, metrics, levels.get(&lead.id));
        let is_exact = exact.is_some();
        let spans = exact.unwrap_or_else(|| vec![window]);
        Some(Band {
            finding: findings.iter().position(|finding| std::ptr::eq(finding, lead))?,
            status: lead.status,
            spans,
            exact: is_exact,
        })
    };
    problems.iter().filter_map(band).take(MAX_BANDS).collect()
}

/// The window that a finding was judged by.
fn window(finding: &Finding) -> usize {
    let judged = finding.evidence.iter().find(|evidence| judged_by(finding, evidence));
    judged.or(finding.evidence.first()).map_or(0, |evidence| evidence.window)
}

/// The stretches in which the condition held, where the intervals tell: a condition on the judged figure alone, or one that held all
/// the time.
fn exact(finding: &Finding, window: Span, metrics: &[Metrics], levels: Option<&Levels>) -> Option<Vec<Span>> {
    let (held, of) = finding.held_intervals?;
    if held == of {
        return Some(vec![window]);
    }
    let evidence = finding.evidence.iter().find(|evidence| judged_by(finding, evidence))?;
    let instance = evidence.instance.as_deref().unwrap_or_default();
    let intervals = &metrics.get(evidence.window)?.measured(&evidence.metric, instance)?.intervals;
    let levels = levels?;
    let level = level(finding.status, levels)?;
    let fires = |value: f64| if levels.low_is_bad { value < level } else { value > level };
    let width = (window.until - window.from) / intervals.len().max(1) as f64;
    let mut spans: Vec<Span> = Vec::new();
    let mut was = false;
    for (at, value) in intervals.iter().enumerate() {
        let does = value.is_some_and(fires);
        let until = window.from + (at + 1) as f64 * width;
        match spans.last_mut().filter(|_| was && does) {
            Some(span) => span.until = until,
            None if does => spans.push(Span { from: window.from + at as f64 * width, until }),
            None => {}
        }
        was = does;
    }
    // What does not agree with the rule is not shown as if it did.
    let longest = spans.iter().map(|span| ((span.until - span.from) / width).round() as usize).max();
    (longest == Some(held)).then_some(spans)
}

fn level(status: Status, levels: &Levels) -> Option<f64> {
    levels.by_status.get(&status).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes;
    use crate::sample::{levels, metrics, saturated};

    /// The band of the sample's saturation, whose condition held for some intervals in a row.
    fn band(held: usize, level: f64) -> Band {
        let mut findings = saturated();
        findings.retain(|finding| finding.id == "cpu.saturation");
        findings[0].held_intervals = Some((held, 10));
        let mut levels = levels();
        levels.get_mut("cpu.saturation").unwrap().by_status.insert(Status::Critical, level);
        let windows = [Span { from: 2.0, until: 12.0 }];
        let problems = causes::of(&findings).problems;
        bands(&windows, &[metrics()], &findings, &problems, &levels).remove(0)
    }

    #[test]
    fn a_band_is_where_the_intervals_fulfil_the_condition() {
        // 0.55, 0.68, 0.71, 0.74, 0.70, 0.73, 0.72, 0.71, 0.69, 0.77
        let cut = band(3, 0.705);
        let spans: Vec<(f64, f64)> = cut.spans.iter().map(|span| (span.from, span.until)).collect();
        assert_eq!(spans, [(4.0, 6.0), (7.0, 10.0), (11.0, 12.0)]);
        assert!(cut.exact && cut.finding == 0 && cut.status == Status::Critical);
        assert_eq!(band(10, 0.5).spans, [Span { from: 2.0, until: 12.0 }]);
    }

    #[test]
    fn a_condition_that_the_figure_alone_does_not_explain_is_no_exact_band() {
        let unclear = band(4, 0.705);
        assert!(!unclear.exact && unclear.spans == [Span { from: 2.0, until: 12.0 }]);
    }
}
