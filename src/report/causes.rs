//! Which findings are one problem: run-queue wait, pressure and utilization of one shortage of CPU time are three views of it.

use super::groups::{self, Group};
use rdiag_model::{Finding, Report, Status};

/// Rules that look at one thing from several sides. What is in no family is a problem of its own.
const FAMILIES: &[&[&str]] = &[
    &[
        "cpu.saturation",
        "cpu.saturation.pressure",
        "cpu.saturation.run_queue_latency",
        "cpu.saturation.runnable",
        "cpu.utilization",
        "cpu.utilization.hottest_code",
        "cpu.utilization.kernel_code",
        "cpu.utilization.process",
        "cpu.utilization.system",
    ],
    &["cpu.saturation.core", "cpu.saturation.pinned", "cpu.utilization.core", "cpu.utilization.single_thread"],
    &["cpu.saturation.steal", "cpu.saturation.steal_burst"],
    &[
        "memory.saturation",
        "memory.saturation.direct_reclaim",
        "memory.saturation.kswapd",
        "memory.saturation.stalls",
        "memory.saturation.swap_in",
        "memory.saturation.swap_waits",
        "memory.saturation.thrashing",
        "memory.saturation.watermark",
        "memory.utilization",
        "memory.utilization.swap",
    ],
    &[
        "disk.saturation",
        "disk.saturation.depth",
        "disk.saturation.io_latency",
        "disk.saturation.pressure",
        "disk.saturation.read_latency",
        "disk.saturation.write_latency",
        "disk.saturation.writeback",
        "disk.utilization",
    ],
    &["cgroup.saturation.throttling", "cgroup.utilization.cpu"],
    &[
        "cgroup.errors.oom",
        "cgroup.saturation.above",
        "cgroup.saturation.memory",
        "cgroup.saturation.refaults",
        "cgroup.utilization.memory",
    ],
    &["cgroup.errors.pids", "cgroup.utilization.pids"],
    &["fd.errors.host", "fd.utilization"],
    &["filesystem.utilization", "filesystem.utilization.deleted"],
    &["kernel.errors.clocksource", "kernel.utilization.clocksource"],
    &["network.errors.conntrack_drop", "network.utilization.conntrack"],
    &["network.errors.neighbour", "network.utilization.neighbours"],
    &["network.errors.retransmits", "network.errors.retransmitting_peers", "network.errors.timeouts"],
    &["network.saturation.tcp_memory", "network.utilization.tcp_memory"],
    &["tasks.saturation.lock_code", "tasks.saturation.locks"],
];

/// Whether two rules look at one thing from two sides.
#[must_use]
pub fn is_same_shortage(rule: &str, other: &str) -> bool {
    FAMILIES.iter().any(|family| family.contains(&rule) && family.contains(&other))
}

/// Findings with one cause.
pub(super) struct Problem<'r> {
    /// What to look at first; its status is that of the problem.
    pub(super) lead: Group<'r>,
    /// The same from other sides.
    pub(super) also: Vec<Group<'r>>,
}

/// What fired, by what it is worth.
#[derive(Default)]
pub(super) struct Fired<'r> {
    /// What is wrong, in order.
    pub(super) problems: Vec<Problem<'r>>,
    /// What is only worth knowing.
    pub(super) notes: Vec<Group<'r>>,
    /// What happened before the window.
    pub(super) history: Vec<Group<'r>>,
}

/// What fired in a report.
pub(super) fn fired(report: &Report) -> Fired<'_> {
    of(&report.findings)
}

/// The same of findings that are in order.
pub(super) fn of(findings: &[Finding]) -> Fired<'_> {
    let mut fired = Fired::default();
    for group in groups::of(findings) {
        if group.lead.is_past() {
            fired.history.push(group);
        } else if let Some(problem) = fired.problems.iter_mut().find(|problem| problem.has(group.lead)) {
            problem.also.push(group);
        } else if group.lead.status >= Status::Warning {
            fired.problems.push(Problem { lead: group, also: Vec::new() });
        } else {
            fired.notes.push(group);
        }
    }
    fired
}

impl<'r> Problem<'r> {
    /// All of its findings but those of further instances, in order.
    pub(super) fn leads(&self) -> impl Iterator<Item = &'r Finding> {
        std::iter::once(self.lead.lead).chain(self.also.iter().map(|group| group.lead))
    }

    /// Whether a finding is about the same. Pressure on a whole host may be that of the one device that is full, but two devices are two
    /// problems.
    fn has(&self, finding: &Finding) -> bool {
        let family = FAMILIES.iter().find(|family| family.contains(&self.lead.lead.id.as_str()));
        let own = self.leads().find_map(|lead| lead.instance.as_deref());
        let is_same_thing = match (own, finding.instance.as_deref()) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        is_same_thing && family.is_some_and(|family| family.contains(&finding.id.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::finding;

    fn of_device(id: &str, status: Status, device: &str) -> Finding {
        Finding { instance: Some(device.into()), ..finding(id, status) }
    }

    /// The rules of each problem, then those of the notes.
    fn grouped(findings: &[Finding]) -> Vec<Vec<&str>> {
        let fired = of(findings);
        let mut all: Vec<Vec<&str>> =
            fired.problems.iter().map(|problem| problem.leads().map(|lead| lead.id.as_str()).collect()).collect();
        all.push(fired.notes.iter().map(|group| group.lead.id.as_str()).collect());
        all
    }

    #[test]
    fn the_sides_of_one_shortage_are_one_problem_and_two_disks_are_two() {
        use Status::{Critical, Info, Ok, Warning};
        let findings = [
            finding("cpu.saturation", Critical),
            of_device("disk.saturation", Critical, "sda"),
            of_device("disk.saturation.write_latency", Critical, "sdb"),
            finding("disk.saturation.pressure", Critical),
            finding("cpu.saturation.steal", Warning),
            finding("cpu.utilization", Warning),
            finding("memory.utilization", Ok),
            finding("cpu.saturation.run_queue_latency", Info),
            finding("tasks.saturation.blocked", Info),
            finding("memory.saturation", Info),
        ];
        assert_eq!(
            grouped(&findings),
            [
                vec!["cpu.saturation", "cpu.utilization", "cpu.saturation.run_queue_latency"],
                vec!["disk.saturation", "disk.saturation.pressure"],
                vec!["disk.saturation.write_latency"],
                vec!["cpu.saturation.steal"],
                vec!["tasks.saturation.blocked", "memory.saturation"],
            ]
        );
    }

    #[test]
    fn what_is_over_is_history_even_where_its_rule_is_of_the_family() {
        let mut past = finding("cgroup.errors.oom", Status::Info);
        past.value = Some(0.0);
        past.threshold.conditions.insert("info".into(), "so_far > 0".into());
        let findings = [finding("cgroup.saturation.memory", Status::Critical), past];
        let fired = of(&findings);
        assert_eq!((fired.problems.len(), fired.notes.len(), fired.history.len()), (1, 0, 1));
        assert!(fired.problems[0].also.is_empty());
    }

    #[test]
    fn every_rule_of_a_family_is_shipped_and_in_no_other() {
        let rules = concat!(
            include_str!("../../playbooks/rules/cgroup.yaml"),
            include_str!("../../playbooks/rules/cpu.yaml"),
            include_str!("../../playbooks/rules/disk.yaml"),
            include_str!("../../playbooks/rules/fd.yaml"),
            include_str!("../../playbooks/rules/filesystem.yaml"),
            include_str!("../../playbooks/rules/kernel.yaml"),
            include_str!("../../playbooks/rules/memory.yaml"),
            include_str!("../../playbooks/rules/network.yaml"),
            include_str!("../../playbooks/rules/tasks.yaml"),
        );
        let mut seen = std::collections::BTreeSet::new();
        for id in FAMILIES.concat() {
            assert!(rules.contains(&format!("- id: {id}\n")), "{id} is no rule");
            assert!(seen.insert(id), "{id} is in two families");
        }
    }
}
