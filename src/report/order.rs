//! What to look at first.

use std::cmp::{Ordering, Reverse};

use crate::model::{Finding, Kind, Resource, Status};

/// Sorts findings: the worst status first; then errors before saturation before utilization, because errors are the
/// cheapest to interpret and utilization alone is no problem; then what can be trusted more. Among equals, memory comes
/// first: a lack of memory keeps disks and CPUs busy, and seldom the other way round.
pub(super) fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(&b.id)).then_with(|| worse_value(a, b)));
}

type Rank = (Reverse<u8>, u8, Reverse<crate::model::Confidence>, u8);

fn rank(finding: &Finding) -> Rank {
    let importance = match finding.status {
        Status::Critical => 5,
        Status::Warning => 4,
        Status::Info => 3,
        Status::Unknown => 2,
        Status::Ok => 1,
        Status::Skipped => 0,
    };
    let kind = match finding.kind {
        Kind::Errors => 0,
        Kind::Saturation => 1,
        Kind::Utilization => 2,
    };
    let row = Resource::ALL.iter().position(|resource| *resource == finding.resource).unwrap_or_default() as u8;
    let resource = if finding.resource == Resource::Memory { 0 } else { row + 1 };
    if finding.status.fired() {
        (Reverse(importance), kind, Reverse(finding.confidence), resource)
    } else {
        (Reverse(importance), row, Reverse(crate::model::Confidence::High), kind)
    }
}

/// Among the instances of one rule: the value that is further on the bad side.
fn worse_value(a: &Finding, b: &Finding) -> Ordering {
    let low_is_bad = a.threshold.conditions.values().any(|condition| condition.replace(' ', "").contains("value<"));
    let by_value = match (a.value, b.value) {
        (Some(x), Some(y)) if low_is_bad => x.total_cmp(&y),
        (Some(x), Some(y)) => y.total_cmp(&x),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    };
    by_value.then_with(|| a.instance.cmp(&b.instance))
}
