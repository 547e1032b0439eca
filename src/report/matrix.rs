//! Resources down; utilization, saturation, errors across.

use rdiag_model::report::{Cell, MatrixRow};
use rdiag_model::{Finding, Kind, Resource, Status};

/// One row per resource that any rule looked at. `findings` are in order.
pub(super) fn rows(findings: &[Finding]) -> Vec<MatrixRow> {
    Resource::ALL
        .into_iter()
        .filter(|resource| findings.iter().any(|finding| finding.resource == *resource))
        .map(|resource| MatrixRow {
            resource,
            cells: Kind::ALL.into_iter().map(|kind| cell(findings, resource, kind)).collect(),
        })
        .collect()
}

fn cell(findings: &[Finding], resource: Resource, kind: Kind) -> Cell {
    let of = || findings.iter().filter(move |finding| finding.resource == resource && finding.kind == kind);
    // The order of findings is by importance already, so the first is the worst.
    let worst = of().find(|finding| !finding.is_past()).or_else(|| of().next());
    let figure = worst.map(|worst| figure(worst, of()));
    Cell {
        kind,
        // The matrix is about the window: what happened before it is in the list of findings alone.
        status: worst.map(|finding| if finding.is_past() { Status::Ok } else { finding.status }),
        value: figure.and_then(|finding| finding.value),
        unit: figure.map(|finding| finding.unit),
        finding: worst.map(|finding| match &finding.instance {
            Some(instance) => format!("{}|{instance}", finding.id),
            None => finding.id.clone(),
        }),
        note: worst
            .filter(|finding| matches!(finding.status, Status::Unknown | Status::Skipped))
            .map(|finding| finding.summary.clone()),
        findings: of().count(),
        unknown: of().filter(|finding| finding.status == Status::Unknown).count(),
        judged: of().filter(|finding| finding.status == Status::Ok || finding.status.fired()).count(),
    }
}

/// The finding whose value stands for the cell: the general rule's (`cpu.saturation`), if it is as bad as the worst.
/// Its figure says more than that of a special one.
fn figure<'f>(worst: &'f Finding, mut of: impl Iterator<Item = &'f Finding>) -> &'f Finding {
    of.find(|finding| finding.status == worst.status && finding.id.matches('.').count() == 1).unwrap_or(worst)
}
