//! Which limit of a control group's memory binds: `memory.max`, which kills, or `memory.high`, which only slows down.

use rdiag_model::{Finding, Status};

use super::{reading, reword};

/// How the rules name both limits, and the one of a container.
const BOTH: &str = "MemoryMax= MemoryHigh=";
const OF_CONTAINER: &str = "MemoryMax=, or the memory limit of the container";
/// The rule that sees the time of direct reclaim.
const STALLS: &str = "memory.saturation.stalls";

/// What happened at the limits of a group within the window.
pub(super) struct Hits {
    group: Option<String>,
    max: f64,
    high: f64,
}

impl Hits {
    fn is_high_alone(&self) -> bool {
        self.high > 0.0 && self.max <= 0.0
    }
}

/// The groups of which it is known, and in which tasks stalled.
pub(super) fn hits(findings: &[Finding]) -> Vec<Hits> {
    let of = |finding: &Finding| {
        let total = |metric| reading(finding, metric)?.total;
        let stalls = finding.id == "cgroup.saturation.memory" && finding.status >= Status::Warning;
        let max = total("cgroup.memory.limit_hits.count").filter(|_| stalls)?;
        Some(Hits { group: finding.instance.clone(), max, high: total("cgroup.memory.high.count").unwrap_or(0.0) })
    };
    findings.iter().filter_map(of).collect()
}

/// Names the limit that binds alone. The sleep at memory.high is no direct reclaim, which the sentence about stalls would make one believe.
pub(super) fn complete(finding: &mut Finding, hits: &[Hits]) {
    if finding.id == STALLS && finding.status == Status::Ok && hits.iter().any(|hits| hits.high > 0.0) {
        let said = finding.summary.trim_end().trim_end_matches('.');
        finding.summary = format!("{said}; the sleep of tasks above memory.high is not counted.");
    }
    let Some(own) = hits.iter().find(|hits| finding.id.starts_with("cgroup.") && hits.group == finding.instance) else {
        return;
    };
    reword(finding, |action| {
        Some(match own.is_high_alone() {
            true => action.replace(BOTH, "MemoryHigh=").replace(OF_CONTAINER, "MemoryHigh="),
            false if own.high <= 0.0 => action.replace(BOTH, "MemoryMax="),
            false => action.to_owned(),
        })
    });
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::finding;
    use super::super::tests::{advice, advising, having};
    use super::*;

    /// Findings about a group whose limits were hit that often, after they are read together.
    fn after(max: f64, high: f64) -> [Finding; 3] {
        let of = |id: &str, status: Status, step: &str| {
            let read = [("cgroup.memory.limit_hits.count", 0.0, max), ("cgroup.memory.high.count", 0.0, high)];
            let found = Finding { instance: Some("/web".into()), ..having(id, status, &read) };
            advising(found, &[&format!("Raise the limit: systemctl set-property UNIT {step}")])
        };
        let mut stalls = finding(STALLS, Status::Ok);
        stalls.summary = "Allocation stalls took 0.3% of the time.".into();
        let mut all = [
            of("cgroup.saturation.memory", Status::Critical, BOTH),
            of("cgroup.utilization.memory", Status::Warning, OF_CONTAINER),
            stalls,
        ];
        let hits = hits(&all);
        all.iter_mut().for_each(|finding| complete(finding, &hits));
        all
    }

    fn limits(all: &[Finding]) -> Vec<&str> {
        all.iter().filter_map(|finding| advice(finding).first()?.split_once("UNIT ")).map(|(_, limit)| limit).collect()
    }

    #[test]
    fn the_limit_that_binds_is_named_alone() {
        let rules = include_str!("../../../playbooks/rules/cgroup.yaml");
        assert!(rules.contains(BOTH) && rules.contains(OF_CONTAINER), "the rules have other words");
        assert_eq!(limits(&after(0.0, 9.0)), ["MemoryHigh=", "MemoryHigh="]);
        assert_eq!(limits(&after(9.0, 0.0)), ["MemoryMax=", OF_CONTAINER]);
        assert_eq!(limits(&after(9.0, 9.0)), [BOTH, OF_CONTAINER]);
    }

    #[test]
    fn what_does_not_count_the_sleep_at_memory_high_says_so() {
        let told = |high: f64| after(0.0, high)[2].summary.clone();
        assert_eq!(
            told(9.0),
            "Allocation stalls took 0.3% of the time; the sleep of tasks above memory.high is not counted."
        );
        assert_eq!(told(0.0), "Allocation stalls took 0.3% of the time.");
    }
}
