//! Steps that the same report answers, or that this host cannot take.

use std::collections::HashMap;

use rdiag_model::{Finding, Status};

use super::reword;

/// What begins a step that asks for what another rule is about, whose id follows in parentheses.
const ASKS: [&str; 2] = ["Check ", "Compare with "];
/// What begins a step whose answer may be no.
const ASKS_WHETHER: &str = "Check whether ";
/// The oldest kernel that probes run on.
const FIRST_WITH_PROBES: (u32, u32) = (5, 10);

/// What was judged, by id of the rule and instance. A host may have hundreds of instances, and a step for each.
type Judged = HashMap<String, HashMap<Option<String>, Vec<Status>>>;

/// What was judged. What is over counts if the report shows it: the lines of the kernel log.
pub(super) fn judged(findings: &[Finding]) -> Judged {
    let counts = |finding: &&Finding| match finding.is_past() {
        true => !finding.log.is_empty(),
        false => finding.status.fired() || finding.status == Status::Ok,
    };
    let mut judged = Judged::new();
    for finding in findings.iter().filter(counts) {
        let of_rule = judged.entry(finding.id.clone()).or_default();
        of_rule.entry(finding.instance.clone()).or_default().push(finding.status);
    }
    judged
}

/// Leaves out what the report has answered; `kernel` is the release of the host's.
pub(super) fn complete(finding: &mut Finding, judged: &Judged, kernel: &str) {
    let own = finding.instance.clone();
    let is_answered = |action: &str| {
        let by = |id: &str| {
            let is_whole_question = action.starts_with(ASKS_WHETHER) && action.ends_with(&format!("({id})."));
            let answers = |status: &Status| status.fired() || is_whole_question;
            let Some(all) = judged.get(id) else { return false };
            match &own {
                None => all.values().flatten().any(answers),
                // What is said of the whole host holds for each instance.
                own => [own, &None].into_iter().filter_map(|place| all.get(place)).flatten().any(answers),
            }
        };
        ASKS.iter().any(|asks| action.starts_with(asks)) && in_parentheses(action).any(by)
    };
    let is_old = rdiag_model::facts::version(kernel).is_some_and(|version| version < FIRST_WITH_PROBES);
    reword(finding, |action| match action {
        action if is_answered(action) => None,
        action if is_old => without_probes(action),
        action => Some(action.to_owned()),
    });
}

/// What stands in parentheses that hold no others.
fn in_parentheses(text: &str) -> impl Iterator<Item = &str> {
    text.split('(').skip(1).filter_map(|part| Some(part.split_once(')')?.0))
}

/// A step without the probes among its commands; none where nothing else is left of it.
fn without_probes(action: &str) -> Option<String> {
    const PROBE: &str = "rdiag probe ";
    if !action.contains(PROBE) {
        return Some(action.to_owned());
    }
    let (what, commands) = action.split_once(": ")?;
    let others = commands.split("; ").flat_map(|part| part.split(", or ")).filter(|part| !part.contains(PROBE));
    let others: Vec<&str> = others.collect();
    (!what.contains(PROBE) && !others.is_empty()).then(|| format!("{what}: {}", others.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::finding;
    use super::super::tests::{advice, advising};
    use super::*;

    fn of_group(id: &str, status: Status, group: &str) -> Finding {
        Finding { instance: Some(group.into()), ..finding(id, status) }
    }

    /// What is left of the steps of a group's memory beside other findings.
    fn left(others: &[Finding]) -> Vec<String> {
        let steps = [
            "Check how much is not page cache (cgroup.utilization.memory), and who holds it.",
            "Check whether the group refaults file pages (cgroup.saturation.refaults).",
            "Find the reason: its files, or interrupts (interrupts.utilization).",
        ];
        let mut found = advising(of_group("cgroup.saturation.memory", Status::Critical, "/web"), &steps);
        complete(&mut found, &judged(others), "6.1.0");
        advice(&found).iter().map(|step| step.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn what_another_finding_of_the_same_thing_says_is_not_asked() {
        use Status::{Info, Ok, Unknown, Warning};
        let all = ["Check how", "Check whether", "Find the"];
        assert_eq!(left(&[of_group("cgroup.utilization.memory", Warning, "/web")]), all[1..]);
        assert_eq!(left(&[of_group("cgroup.utilization.memory", Warning, "/other")]), all);
        assert_eq!(left(&[of_group("cgroup.utilization.memory", Ok, "/web")]), all, "who holds it is open");
        assert_eq!(left(&[of_group("cgroup.saturation.refaults", Ok, "/web")]), [all[0], all[2]], "no is an answer");
        assert_eq!(left(&[of_group("cgroup.saturation.refaults", Unknown, "/web")]), all);
        assert_eq!(left(&[finding("interrupts.utilization", Info)]), all, "one of several reasons");
    }

    #[test]
    fn what_is_over_answers_by_the_lines_of_the_log_that_are_shown() {
        let left = |log: &[&str]| {
            let mut past = Finding { value: Some(0.0), ..finding("kernel.errors.clocksource", Status::Info) };
            past.threshold.conditions.insert("info".into(), "since_boot > 0".into());
            past.log = log.iter().map(|line| (*line).to_owned()).collect();
            assert!(past.is_past());
            let steps = ["Check the kernel log for why (kernel.errors.clocksource)."];
            let mut clock = advising(finding("kernel.utilization.clocksource", Status::Info), &steps);
            complete(&mut clock, &judged(&[past]), "6.1.0");
            advice(&clock).len()
        };
        assert_eq!((left(&["tsc: Marking TSC unstable"]), left(&[])), (0, 1));
    }

    #[test]
    fn a_kernel_without_probes_is_given_no_step_that_runs_one() {
        let left = |kernel: &str| {
            let steps = [
                "Measure the stall time by task: rdiag probe memstall",
                "Find the processes: pidstat -d 1 10; rdiag probe biotop",
                "See whether it loops: rdiag probe profile --pid PID, or perf top -p PID",
                "Count those calls with rdiag probe syscount.",
                "Look at vmstat.",
            ];
            let mut found = advising(finding("memory.saturation", Status::Warning), &steps);
            complete(&mut found, &Judged::new(), kernel);
            advice(&found).join(" | ")
        };
        let old = "Find the processes: pidstat -d 1 10 | See whether it loops: perf top -p PID | Look at vmstat.";
        assert_eq!(left("5.4.0-187-generic"), old);
        assert_eq!(left("4.18.0-553.el8"), old);
        for kernel in ["5.10.0-46-amd64", "6.1.0", "7.2", "unknown", ""] {
            assert_eq!(left(kernel).matches(" | ").count(), 4, "{kernel}");
        }
    }
}
