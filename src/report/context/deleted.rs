//! A file system that is full of files that are deleted and still open: no search of its directories finds what takes the space.

use rdiag_model::quantity::bytes;
use rdiag_model::{Culprit, Finding, NextStep, Status};

use super::mean;

const SPACE: &str = "filesystem.utilization";
const DELETED: &str = "filesystem.utilization.deleted";
/// What begins a step that looks for what takes the space, and what ends one that looks for deleted files.
const SEARCH: &str = "Find what takes the space: du ";
const LOOK_FOR_DELETED: &str = "lsof +L1";

/// What deleted files hold of a file system that is nearly full.
pub(super) struct DeletedFiles {
    mount: Option<String>,
    bytes: f64,
    who: Option<Culprit>,
    next: Vec<NextStep>,
}

/// The file systems of which deleted files hold a part that is worth a warning.
pub(super) fn held(findings: &[Finding]) -> Vec<DeletedFiles> {
    let of = |finding: &Finding| {
        let is_worth = finding.id == DELETED && finding.status >= Status::Warning;
        let bytes = mean(finding, "filesystem.deleted.bytes").filter(|_| is_worth)?;
        let who = finding.culprit.clone().filter(|culprit| culprit.kind == "process");
        Some(DeletedFiles { mount: finding.instance.clone(), bytes, who, next: finding.next.clone() })
    };
    findings.iter().filter_map(of).collect()
}

/// Says how much of it deleted files hold. If it is most of what is used, their holder is behind it, and there is nothing to search.
pub(super) fn complete(finding: &mut Finding, held: &[DeletedFiles]) {
    if finding.id != SPACE || !finding.status.fired() {
        return;
    }
    let Some(own) = held.iter().find(|held| held.mount == finding.instance) else { return };
    let said = finding.summary.trim_end().trim_end_matches('.');
    finding.summary = format!("{said}; deleted but open files hold {}.", bytes(own.bytes));
    finding.next.retain(|step| !step.action.ends_with(LOOK_FOR_DELETED));
    if used(finding).is_some_and(|used| own.bytes > 0.5 * used) {
        finding.culprit = own.who.clone().or_else(|| finding.culprit.take());
        let others = std::mem::take(&mut finding.next);
        finding.next = own.next.clone();
        finding.next.extend(others.into_iter().filter(|step| !step.action.starts_with(SEARCH)));
    }
}

/// Bytes in use. What the file system reserves is neither used nor available, so they follow from what is available and the share of the
/// rest that is used; of a full one, where nothing is available, from its size.
fn used(finding: &Finding) -> Option<f64> {
    let available = mean(finding, "filesystem.available.bytes")?;
    let size = mean(finding, "filesystem.size.bytes")?;
    let of_rest = mean(finding, "filesystem.space.ratio").filter(|share| (0.0..1.0).contains(share));
    Some(of_rest.map_or(size - available, |share| available * share / (1.0 - share)).min(size))
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::stress;
    use super::super::tests::{advice, advising, having};
    use super::*;

    const GIB: f64 = 1_073_741_824.0;

    /// A file system of 10 GiB with 1 GiB left, of which deleted files hold some.
    fn full(gibibytes: f64, mount: &str, status: Status) -> Finding {
        full_of(10.0, gibibytes, mount, status)
    }

    /// The same with 1 GiB left beside 9 GiB in use, whatever its size: the rest is reserved.
    fn full_of(size: f64, gibibytes: f64, mount: &str, status: Status) -> Finding {
        let [search, look] = [format!("{SEARCH}-xh MOUNT"), format!("Find files: {LOOK_FOR_DELETED}")];
        let read = [
            ("filesystem.size.bytes", size * GIB, 0.0),
            ("filesystem.available.bytes", GIB, 0.0),
            ("filesystem.space.ratio", 0.9, 0.0),
        ];
        let mut space = advising(having(SPACE, Status::Critical, &read), &[&search, &look, "Delete something."]);
        space.instance = Some("/srv".into());
        space.summary = "/srv is 90.0% full.".into();
        space.culprit = Some(Culprit { kind: "mount".into(), name: "/srv".into(), ..stress() });
        let mut deleted = having(DELETED, status, &[("filesystem.deleted.bytes", gibibytes * GIB, 0.0)]);
        deleted = advising(deleted, &["List these files."]);
        deleted.instance = Some(mount.into());
        deleted.culprit = Some(stress());
        complete(&mut space, &held(&[deleted]));
        space
    }

    fn name(finding: &Finding) -> &str {
        finding.culprit.as_ref().map_or("", |culprit| culprit.name.as_str())
    }

    #[test]
    fn where_deleted_files_hold_most_of_it_their_holder_is_named_and_nothing_is_searched() {
        let rules = include_str!("../../../playbooks/rules/filesystem.yaml");
        assert!(rules.contains(&format!("\"{SEARCH}")) && rules.contains(LOOK_FOR_DELETED), "the rule has other words");
        let most = full(5.0, "/srv", Status::Warning);
        assert_eq!(most.summary, "/srv is 90.0% full; deleted but open files hold 5.0 GiB.");
        assert_eq!((name(&most), advice(&most)), ("stress-ng", vec!["List these files.", "Delete something."]));
    }

    #[test]
    fn what_is_reserved_is_not_used() {
        let of_reserving = |gibibytes| full_of(20.0, gibibytes, "/srv", Status::Warning);
        assert_eq!(name(&of_reserving(4.6)), "stress-ng", "4.6 of 9 GiB, beside 10 GiB that are reserved");
        assert_eq!(name(&of_reserving(4.4)), "/srv");
    }

    #[test]
    fn where_they_hold_less_the_rest_is_searched_and_elsewhere_nothing_changes() {
        let less = full(4.0, "/srv", Status::Warning);
        assert_eq!(less.summary, "/srv is 90.0% full; deleted but open files hold 4.0 GiB.");
        assert_eq!((name(&less), advice(&less).len()), ("/srv", 2));
        for other in [full(5.0, "/home", Status::Warning), full(5.0, "/srv", Status::Info)] {
            assert_eq!((other.summary.as_str(), name(&other)), ("/srv is 90.0% full.", "/srv"));
            assert_eq!(advice(&other).len(), 3);
        }
    }
}
