//! Resources down; utilization, saturation, errors across.

use rdiag_model::report::{Cell, MatrixRow};
use rdiag_model::{Finding, Kind, Reason, Resource, Status};

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
    let judged = of().filter(|finding| finding.status == Status::Ok || finding.status.fired()).count();
    // What this kernel or machine does not have is no doubt about the rest, if that is the larger part: how many of the checks were made
    // stands beside it.
    let is_enough = judged > 0 && judged >= of().filter(|finding| is_absent(finding)).count();
    let is_lacking = |finding: &Finding| is_enough && is_absent(finding);
    // The order of findings is by importance already.
    let counting = of().find(|finding| !finding.is_past() && !is_lacking(finding));
    let worst = counting.or_else(|| of().find(|finding| !is_lacking(finding))).or_else(|| of().next());
    let figure = worst.and_then(|worst| figure(worst, of()));
    let lacking = of().find(|finding| is_lacking(finding));
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
        label: figure
            .filter(|finding| finding.status.fired() && !is_general(finding))
            .map(|finding| finding.title.clone()),
        note: worst
            .filter(|finding| matches!(finding.status, Status::Unknown | Status::Skipped))
            .or(lacking.filter(|_| worst.is_some_and(|finding| finding.status == Status::Ok)))
            .map(|finding| finding.summary.clone()),
        findings: of().count(),
        unknown: of().filter(|finding| finding.status == Status::Unknown).count(),
        judged,
    }
}

/// Whether something could not be measured since this kernel or machine does not have it.
fn is_absent(finding: &Finding) -> bool {
    finding.status == Status::Unknown && finding.unavailable.as_ref().is_some_and(|gap| gap.reason == Reason::Absent)
}

/// Whether a rule is about the whole resource: `cpu.saturation`, and not `cpu.saturation.core`.
fn is_general(finding: &Finding) -> bool {
    finding.id.matches('.').count() == 1
}

/// The finding whose value stands for the cell: the general rule's, if it is as bad as the worst, as its figure says more than that of
/// a special one. Where all is well a special figure says nothing, unless it counts errors: a share of one CPU, of one table and of the
/// whole host are not to be compared.
fn figure<'f>(worst: &'f Finding, mut of: impl Iterator<Item = &'f Finding>) -> Option<&'f Finding> {
    let general = of.find(|finding| finding.status == worst.status && is_general(finding));
    general.or_else(|| (worst.status.fired() || worst.kind == Kind::Errors).then_some(worst))
}

#[cfg(test)]
mod tests {
    use rdiag_model::{Kind, Reason, Resource, Status, Unavailable};

    use super::super::sample::{finding, unknown};
    use super::super::words::cell_figure;
    use super::cell;
    use rdiag_model::Finding;

    /// A check that could not be made, for this reason.
    fn missing(id: &str, reason: Reason) -> Finding {
        Finding { unavailable: Some(Unavailable::new(reason, "why")), ..unknown(id, "why") }
    }

    fn utilization(findings: &[Finding]) -> (Option<Status>, String, Option<String>) {
        let cell = cell(findings, Resource::Network, Kind::Utilization);
        (cell.status, cell_figure(&cell), cell.note)
    }

    #[test]
    fn what_a_machine_does_not_have_is_counted_and_what_is_hidden_is_unknown() {
        let ok = finding("network.utilization.time_wait", Status::Ok);
        let (status, figure, note) = utilization(&[missing("network.utilization", Reason::Absent), ok.clone()]);
        assert_eq!((status, figure.as_str()), (Some(Status::Ok), "1 of 2"));
        assert!(note.is_some(), "it says what is missing");
        for reason in [Reason::Denied, Reason::Disabled, Reason::Hung, Reason::NotVisible] {
            let (status, figure, _) = utilization(&[missing("network.utilization", reason), ok.clone()]);
            assert_eq!((status, figure.as_str()), (Some(Status::Unknown), "1 of 2 ok"), "{reason:?}");
        }
        let (status, ..) = utilization(&[missing("network.utilization", Reason::Absent)]);
        assert_eq!(status, Some(Status::Unknown), "nothing else was looked at");
        let two = ["network.utilization", "network.utilization.ports"].map(|id| missing(id, Reason::Absent));
        let (status, figure, _) = utilization(&[&two[..], &[ok]].concat());
        assert_eq!((status, figure.as_str()), (Some(Status::Unknown), "1 of 3 ok"), "most of it was not looked at");
    }

    #[test]
    fn a_figure_that_is_not_the_resources_own_says_what_it_is_of() {
        let with = |id: &str, status| Finding {
            title: "Ephemeral ports".into(),
            value: Some(0.9),
            unit: rdiag_model::Unit::Ratio,
            ..finding(id, status)
        };
        let figure = |findings: &[Finding]| utilization(findings).1;
        assert_eq!(figure(&[with("network.utilization.ports", Status::Warning)]), "90.0% Ephemeral ports");
        assert_eq!(figure(&[with("network.utilization.ports", Status::Ok)]), "", "one of many tables");
        assert_eq!(figure(&[with("network.utilization", Status::Ok)]), "90.0%");
        let both = [with("network.utilization.ports", Status::Warning), with("network.utilization", Status::Warning)];
        assert_eq!(figure(&both), "90.0%");
    }

    #[test]
    fn a_mean_of_what_may_be_there_is_no_number_of_errors() {
        let errors = |value: f64| {
            let found = Finding {
                value: Some(value),
                unit: rdiag_model::Unit::Count,
                ..finding("tasks.errors.zombies", Status::Ok)
            };
            cell_figure(&cell(&[found], Resource::Tasks, Kind::Errors))
        };
        assert_eq!((errors(0.43).as_str(), errors(0.0).as_str(), errors(2.0).as_str()), ("", "0", "2"));
    }
}
