//! CPU time that no process can be charged with has a row of its own, which may be the largest. It is nothing to move, to renice or to
//! profile.

use rdiag_model::{Finding, NextStep};

/// What stands for the culprit in a step that the rules give for a process.
const FOR_A_PROCESS: [&str; 4] =
    ["PID", "the largest consumer", "the culprit should", "the process that uses the most CPU time"];
const FIND: &str = "Find out what these processes are and what starts them: rdiag probe execsnoop --duration 10s";

const BY_PARENT: &str = "cpu.utilization.short_lived";
/// The share of all short-lived processes from which on one parent is named for them.
const MOST: f64 = 0.5;

/// Who started most of the short-lived processes, where that was counted.
pub(super) fn parent(findings: &[Finding]) -> Option<String> {
    let counted = findings.iter().find(|finding| finding.id == BY_PARENT && finding.status.fired())?;
    let culprit = counted.culprit.as_ref().filter(|culprit| culprit.share.is_some_and(|share| share > MOST))?;
    let pid = culprit.pids.first().filter(|_| culprit.count == 1).map(|pid| format!(", pid {pid}"));
    Some(culprit.name.clone() + &pid.unwrap_or_default())
}

/// Names their parent, and asks what they are in the place of steps for a process.
pub(super) fn complete(finding: &mut Finding, parent: Option<&str>) {
    let is_rest = |culprit: &rdiag_model::Culprit| {
        let names = ["short-lived", "not seen"];
        culprit.kind == "process" && culprit.pids.is_empty() && names.iter().any(|name| culprit.name.contains(name))
    };
    if !finding.culprit.as_ref().is_some_and(is_rest) {
        return;
    }
    if let (Some(culprit), Some(parent)) = (finding.culprit.as_mut(), parent)
        && culprit.name.contains("short-lived")
    {
        culprit.name = format!("short-lived processes (most are children of {parent})");
    }
    finding.next.retain(|step| !FOR_A_PROCESS.iter().any(|words| step.action.contains(words)));
    if !finding.next.iter().any(|step| step.action.contains("execsnoop")) {
        finding.next.insert(0, NextStep { action: FIND.to_owned(), changes_host: false });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::{advice, advising, having};
    use super::*;
    use rdiag_model::{Culprit, Status};

    #[test]
    fn what_no_sample_saw_is_neither_moved_nor_reniced() {
        let steps = [
            "Check whether the culprit should run now and on this host.",
            "Check whether latency matters here.",
            "Move the largest consumer to another host, or lower its priority (renice -n 10 -p PID).",
        ];
        let told = |name: &str, pids: &[u32]| {
            let mut found = advising(having("cpu.saturation", Status::Warning, &[]), &steps);
            found.culprit = Some(Culprit {
                kind: "process".into(),
                name: name.into(),
                pids: pids.into(),
                count: 1,
                share: None,
                value: None,
                unit: None,
                metric: None,
                deed: rdiag_model::DeedOfMetric::default(),
                labels: BTreeMap::new(),
            });
            complete(&mut found, Some("bash, pid 7"));
            found
        };
        assert_eq!(advice(&told("short-lived or hidden processes", &[])), [FIND, steps[1]]);
        assert_eq!(advice(&told("processes that were not seen", &[])), [FIND, steps[1]]);
        assert_eq!(advice(&told("short-lived", &[7])), steps, "a program of that name");
        assert_eq!(advice(&told("cc1", &[7])), steps);
        let name = |found: Finding| found.culprit.unwrap().name;
        let started = "short-lived processes (most are children of bash, pid 7)";
        assert_eq!(name(told("short-lived or hidden processes", &[])), started);
        assert_eq!(name(told("processes that were not seen", &[])), "processes that were not seen");
        assert_eq!(name(told("short-lived", &[7])), "short-lived", "a program of that name");
    }

    #[test]
    fn a_parent_is_named_where_it_started_most_of_them() {
        let counted = |share: f64| {
            let mut found = having(BY_PARENT, Status::Info, &[]);
            found.culprit = Some(Culprit {
                kind: "process".into(),
                name: "bash".into(),
                pids: vec![7],
                count: 1,
                share: Some(share),
                value: None,
                unit: None,
                metric: None,
                deed: rdiag_model::DeedOfMetric::default(),
                labels: BTreeMap::new(),
            });
            found
        };
        assert_eq!(parent(&[counted(0.9)]).as_deref(), Some("bash, pid 7"));
        assert_eq!(parent(&[counted(0.4)]), None);
        assert_eq!(parent(&[Finding { status: Status::Ok, ..counted(0.9) }]), None);
    }
}
