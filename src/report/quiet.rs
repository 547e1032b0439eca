//! What a rule that did not fire says, and whether its own figure speaks for it.
//!
//! Most rules ask for more than one thing: tasks that wait for a CPU *and* CPUs that are in demand. Where the figure that a rule is
//! about is beyond its threshold, and only what else it asks for is missing, that figure rules nothing out.

use super::words;
use rdiag_model::{Finding, Status};

/// Whether the figure is beyond a threshold, so that another condition, or the number of intervals it must last, kept the rule quiet.
pub(super) fn is_beyond(finding: &Finding) -> bool {
    let Some(value) = finding.value else { return false };
    let holds =
        |condition: &String| first_comparison(condition).is_some_and(|(comparison, level)| comparison(value, level));
    finding.status == Status::Ok && finding.refuted_by.is_none() && finding.threshold.conditions.values().any(holds)
}

type Comparison = fn(f64, f64) -> bool;

/// What a condition asks of the figure first: `value > 0.2 and …`. None where it is not compared with a number, or where anything else
/// would do.
fn first_comparison(condition: &str) -> Option<(Comparison, f64)> {
    let mut tokens = condition.split_whitespace();
    if tokens.next()? != "value" {
        return None;
    }
    let comparison: Comparison = match tokens.next()? {
        ">" => |value, level| value > level,
        ">=" => |value, level| value >= level,
        "<" => |value, level| value < level,
        "<=" => |value, level| value <= level,
        _ => return None,
    };
    let level = tokens.next()?.parse().ok()?;
    matches!(tokens.next(), None | Some("and")).then_some((comparison, level))
}

/// The sentence of the instance that comes closest to firing, which stands for `same` of them.
pub(super) fn sentence(finding: &Finding, same: usize) -> String {
    let text = finding.summary.trim();
    let refuted = finding.refuted_by.as_ref().and_then(|why| {
        let seen = text.strip_suffix(&format!("({why})"))?;
        Some(format!("{}: {why}", seen.trim().trim_end_matches('.')))
    });
    let text = refuted.unwrap_or_else(|| text.trim_end_matches('.').to_owned());
    let worst = if same > 1 { format!(" (the worst of {same})") } else { String::new() };
    match words::instance_of(finding) {
        Some(name) if !names(&text, &name) => format!("{name}: {text}{worst}."),
        _ => format!("{text}{worst}."),
    }
}

/// Whether a sentence says which instance it is about; of a process, its pid is enough.
fn names(text: &str, instance: &str) -> bool {
    text.contains(instance) || instance.strip_prefix("pid ").is_some_and(|pid| text.contains(pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::finding;

    fn quiet(value: f64, condition: &str) -> Finding {
        let mut finding = finding("cpu.saturation", Status::Ok);
        finding.value = Some(value);
        finding.threshold.conditions = [("warning".to_owned(), condition.to_owned())].into();
        finding
    }

    #[test]
    fn a_figure_beyond_its_threshold_is_told_from_one_below() {
        assert!(is_beyond(&quiet(0.75, "value > 0.2 and cpu.demand.ratio.mean > knee(host.cpus)")));
        assert!(!is_beyond(&quiet(0.1, "value > 0.2 and cpu.demand.ratio.mean > knee(host.cpus)")));
        assert!(is_beyond(&quiet(0.75, "value > 0.2\n  and not (value > 0.9)")));
        assert!(is_beyond(&quiet(0.3, "value < 1 and memory.allocation_stalls.per_second.mean > 1")));
        // Three intervals in a row were asked for, and it did not last that long.
        assert!(is_beyond(&quiet(0.75, "value > 0.2")));
    }

    #[test]
    fn what_cannot_be_compared_is_not_beyond() {
        for condition in [
            "value > knee(host.cpus)",
            "value > 0.9 or memory.free.bytes.last < 1",
            "cpu.busy.ratio.mean > 0.5 and value > 0.2",
        ] {
            assert!(!is_beyond(&quiet(0.95, condition)), "{condition}");
        }
        let mut unknown = quiet(0.75, "value > 0.2");
        unknown.value = None;
        assert!(!is_beyond(&unknown));
        let fired = Finding { status: Status::Warning, ..quiet(0.75, "value > 0.2") };
        assert!(!is_beyond(&fired));
    }

    #[test]
    fn what_spoke_against_a_finding_is_part_of_the_sentence() {
        let mut finding = quiet(7.0, "value >= 1");
        finding.refuted_by = Some("each was killed at the limit of a control group".into());
        finding.summary = "7 processes were killed. (each was killed at the limit of a control group)".into();
        assert!(!is_beyond(&finding));
        assert_eq!(sentence(&finding, 1), "7 processes were killed: each was killed at the limit of a control group.");
    }
}
