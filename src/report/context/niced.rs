//! Niced work: it makes a CPU as busy as any other work, and its priority cannot be lowered.

use rdiag_model::Finding;
use rdiag_model::quantity::percent;

use super::{mean, reword};

/// The rule whose value leaves niced work out.
const CORE: &str = "cpu.utilization.core";
/// What the rules advise for a process that takes the CPU from others, and the part of it that is about its priority.
const RENICE: &str = "renice -n 10 -p PID";
const OR_RENICE: &str = ", or lower its priority (renice -n 10 -p PID)";
/// A nice value that raises no priority.
const LOWEST: &str = "renice -n 19 -p PID";
/// Below this share of the busy CPU time, niced work is not what a step is about.
const SOME: f64 = 0.05;

/// "CPU 1 was 6.8% busy" is said of a CPU that is full; and nice 10 would raise the priority of a process at nice 19.
pub(super) fn complete(finding: &mut Finding) {
    if finding.id == CORE
        && let (Some(value), Some(busy)) = (finding.value, mean(finding, "cpu.core.busy.ratio"))
        && percent(value) != percent(busy)
    {
        let [all, without] = [busy, value].map(percent);
        let told = format!("was {all} busy ({without} without niced work)");
        finding.summary = finding.summary.replacen(&format!("was {without} busy"), &told, 1);
    }
    if let (Some(nice), Some(busy)) = (mean(finding, "cpu.nice.ratio"), mean(finding, "cpu.busy.ratio")) {
        reword(finding, |action| {
            Some(match nice {
                nice if nice > 0.5 * busy => action.replace(OR_RENICE, ""),
                nice if nice > SOME * busy => action.replace(RENICE, LOWEST),
                _ => action.to_owned(),
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{advice, advising, having};
    use super::*;
    use rdiag_model::Status;

    #[test]
    fn a_cpu_full_of_niced_work_is_busy_and_its_value_is_the_rest() {
        let core = |busy: f64, value: f64| {
            let summary = format!("CPU 1 was {} busy.", percent(value));
            let read = [("cpu.core.busy.ratio", busy, 0.0)];
            let mut found = Finding { value: Some(value), summary, ..having(CORE, Status::Ok, &read) };
            complete(&mut found);
            found.summary
        };
        assert_eq!(core(0.998, 0.068), "CPU 1 was 99.8% busy (6.8% without niced work).");
        assert_eq!(core(0.4, 0.4), "CPU 1 was 40.0% busy.");
    }

    #[test]
    fn nobodys_priority_is_raised_by_a_step_that_lowers_it() {
        let rules = include_str!("../../../playbooks/rules/cpu.yaml");
        let step = format!("Move the largest consumer to another time or host{OR_RENICE}.");
        assert!(rules.contains(&step), "the rule has other words");
        let after = |nice: f64| {
            let read = [("cpu.busy.ratio", 1.0, 0.0), ("cpu.nice.ratio", nice, 0.0)];
            let mut found = advising(having("cpu.saturation", Status::Info, &read), &[&step, "Another."]);
            complete(&mut found);
            advice(&found).join(" ")
        };
        assert_eq!(after(0.95), "Move the largest consumer to another time or host. Another.");
        assert_eq!(after(0.4), format!("{} Another.", step.replace("-n 10", "-n 19")));
        assert_eq!(after(0.0), format!("{step} Another."));
    }
}
