//! What a rule that did not fire says, and whether its own figure speaks for it.
//!
//! Most rules ask for more than one thing: tasks that wait for a CPU *and* CPUs that are in demand. Where the figure that a rule is
//! about is beyond its threshold, and only what else it asks for is missing, that figure rules nothing out.

use super::words;
use rdiag_model::{Finding, Status};

/// What a figure that comes within a tenth of its threshold is taken for: noise alone moves it to the other side.
const NEAR: f64 = 0.9;

/// Whether the figure is beyond a threshold, so that another condition, or the number of intervals it must last, kept the rule quiet.
pub(super) fn is_beyond(finding: &Finding) -> bool {
    reaches(finding, 1.0)
}

/// Whether the figure is beyond a threshold, or so near to it that it speaks neither for the rule nor against it, and nothing else that
/// the rule asks for is missed by far: a large share of hardly any CPU time is no sign of anything.
pub(super) fn is_near(finding: &Finding) -> bool {
    reaches(finding, NEAR)
}

fn reaches(finding: &Finding, slack: f64) -> bool {
    let Some(value) = finding.value else { return false };
    let holds = |condition: &String| {
        let is_open = |parts: &[&str]| slack == 1.0 || !parts.iter().any(|part| is_far(finding, part));
        any_alternative(condition, value, slack, &is_open)
    };
    finding.status == Status::Ok && finding.refuted_by.is_none() && finding.threshold.conditions.values().any(holds)
}

/// Whether the figure does its part of a condition: in one of the alternatives it meets all that is asked of it, which is more than
/// that it is not too large.
fn any_alternative(condition: &str, value: f64, slack: f64, is_open: &dyn Fn(&[&str]) -> bool) -> bool {
    split(condition, "or").into_iter().any(|alternative| {
        let parts = split(alternative, "and");
        let asked: Vec<(usize, Comparison)> =
            (0..).zip(&parts).filter_map(|(at, part)| Some((at, Comparison::of(part)?))).collect();
        let is_about = asked.iter().any(|(at, comparison)| *at == 0 || !comparison.below);
        // A figure that is also compared with a share of another one, of all packets, say, may be usual however large it is.
        let is_share =
            |part: &&str| COMPARED.iter().any(|with| bare(part).starts_with(with)) && Comparison::of(part).is_none();
        let holds = |(_, comparison): &(usize, Comparison)| comparison.holds(value, slack);
        is_about && asked.iter().all(holds) && !parts.iter().any(is_share) && is_open(&parts)
    })
}

/// How busy CPUs may be before tasks wait, and what that is at least, with a single CPU.
const KNEE: &str = "knee(host.cpus)";
const LOWEST_KNEE: f64 = 0.5;

/// Whether other figures have less than half of what a condition asks of them at least (`cpu.busy.ratio.mean > 0.5`), or are anything where
/// they would have to be nothing (`disk.reads.per_second.total + disk.writes.per_second.total == 0`).
fn is_far(finding: &Finding, part: &str) -> bool {
    let Some((left, operator, level)) = ["==", ">=", ">"].into_iter().find_map(|operator| {
        let (left, level) = bare(part).split_once(&format!(" {operator} "))?;
        Some((left, operator, level.trim()))
    }) else {
        return false;
    };
    let term = |term: &str| {
        let (metric, field) = term.trim().rsplit_once('.')?;
        let evidence = finding.evidence.iter().find(|evidence| evidence.metric == metric)?;
        match field {
            "mean" => evidence.mean,
            "total" => evidence.total,
            _ => None,
        }
    };
    let Some(seen) = left.split('+').map(term).sum::<Option<f64>>() else { return false };
    let level = if level.contains(KNEE) { Some(LOWEST_KNEE) } else { level.parse().ok() };
    level.is_some_and(|level| if operator == "==" { level == 0.0 && seen > 0.0 } else { seen < level / 2.0 })
}

/// How a comparison of the figure begins.
const COMPARED: [&str; 4] = ["value > ", "value >= ", "value < ", "value <= "];

/// What a condition asks of the figure: `value > 0.2`.
struct Comparison {
    below: bool,
    or_equal: bool,
    level: f64,
}

impl Comparison {
    /// None where the figure is not compared with a number. Of numbers for several kinds of device (`{'hdd': 2, 'ssd': 4}[…]`), the
    /// smallest is taken.
    fn of(part: &str) -> Option<Self> {
        let (operator, level) = bare(part).strip_prefix("value ")?.trim().split_once(' ')?;
        let (below, or_equal) = match operator {
            ">" => (false, false),
            ">=" => (false, true),
            "<" => (true, false),
            "<=" => (true, true),
            _ => return None,
        };
        let level = match level.trim().strip_prefix('{') {
            Some(kinds) => {
                let numbers = kinds.split([':', ',', '}']).filter_map(|word| word.trim().parse().ok());
                numbers.reduce(f64::min)?
            }
            None => level.trim().parse().ok()?,
        };
        Some(Self { below, or_equal, level })
    }

    fn holds(&self, value: f64, slack: f64) -> bool {
        let Self { below, or_equal, level } = *self;
        let is_equal = or_equal && value == level;
        is_equal || if below { value < level / slack } else { value > level * slack }
    }
}

/// A condition without the brackets that enclose all of it.
fn bare(condition: &str) -> &str {
    let mut text = condition.trim();
    while let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        if depths(inner).any(|(_, depth)| depth < 0) {
            break;
        }
        text = inner.trim();
    }
    text
}

/// The parts of a condition between the words `and` or `or` outside of all brackets.
fn split<'c>(condition: &'c str, word: &str) -> Vec<&'c str> {
    let text = bare(condition);
    let outside: Vec<usize> = depths(text).filter(|(_, depth)| *depth == 0).map(|(at, _)| at).collect();
    let is_word = |at: &usize| {
        let after = |rest: &str| rest.starts_with(char::is_whitespace) || rest.starts_with('(');
        let before = text.get(..*at).is_some_and(|before| before.ends_with(|c: char| c.is_whitespace() || c == ')'));
        before && text.get(*at..).and_then(|rest| rest.strip_prefix(word)).is_some_and(after)
    };
    let mut parts = Vec::new();
    let mut begin = 0;
    for at in outside.into_iter().filter(is_word) {
        parts.extend(text.get(begin..at));
        begin = at + word.len();
    }
    parts.extend(text.get(begin..));
    parts.into_iter().map(str::trim).collect()
}

/// Where each character stands, and in how many brackets, itself included.
fn depths(text: &str) -> impl Iterator<Item = (usize, i32)> {
    text.char_indices().scan(0_i32, |depth, (at, c)| {
        *depth += match c {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        Some((at, *depth))
    })
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
    use rdiag_model::finding::Evidence;

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
        // Alternatives, brackets, conditions in another order, and numbers by the kind of device.
        let deep = "(value > 0.75 * highest(disk.slots.count)|default(1.0e9) and x > 3)\n  or (value > 32 and x > 10)";
        assert!(is_beyond(&quiet(226.0, deep)) && !is_beyond(&quiet(31.0, deep)));
        assert!(is_beyond(&quiet(0.75, "cpu.busy.ratio.mean > 0.5 and (value > 0.2)")));
        let kinds = "value > 1 and value > {'hdd': 2, 'nvme': 4}[label.class] and x > 0.025";
        assert!(is_beyond(&quiet(32.0, kinds)) && !is_beyond(&quiet(1.5, kinds)));
        let within = "value > 0.1 and value < 0.9";
        assert!(is_beyond(&quiet(0.5, within)) && !is_beyond(&quiet(0.05, within)) && !is_beyond(&quiet(0.95, within)));
    }

    #[test]
    fn a_figure_within_a_tenth_of_its_threshold_speaks_neither_way() {
        assert!(is_near(&quiet(32.0, "value > 32")) && !is_beyond(&quiet(32.0, "value > 32")));
        assert!(is_near(&quiet(0.185, "value > 0.2 and x > 1")) && !is_near(&quiet(0.175, "value > 0.2 and x > 1")));
        assert!(is_near(&quiet(1.05, "value < 1")) && !is_near(&quiet(1.15, "value < 1")));
        // Another figure of the rule, just missed and missed by far; that it would have to be low says nothing.
        let beside = |mean: f64, condition: &str| {
            let mut finding = quiet(0.75, condition);
            finding.evidence = vec![Evidence {
                metric: "cpu.busy.ratio".into(),
                instance: None,
                window: 0,
                mean: Some(mean),
                max: None,
                total: None,
                unit: rdiag_model::Unit::Ratio,
                source: String::new(),
            }];
            (is_beyond(&finding), is_near(&finding))
        };
        assert_eq!(beside(0.45, "value > 0.2 and cpu.busy.ratio.mean >= 0.8"), (true, true));
        assert_eq!(beside(0.35, "value > 0.2 and cpu.busy.ratio.mean >= 0.8"), (true, false));
        assert_eq!(beside(0.3, "value > 0.2 and cpu.busy.ratio.mean > knee(host.cpus)"), (true, true));
        assert_eq!(beside(0.2, "value > 0.2 and cpu.busy.ratio.mean > knee(host.cpus)"), (true, false));
        assert_eq!(beside(0.01, "value > 0.2 and cpu.busy.ratio.mean < 0.5"), (true, true));
        assert_eq!(beside(0.1, "value > 0.2 and cpu.busy.ratio.mean + cpu.busy.ratio.mean == 0"), (true, false));
        assert_eq!(beside(0.1, "value > 0.2 and cpu.busy.ratio.mean + cpu.busy.ratio.max == 0"), (true, true));
        let refuted = Finding { refuted_by: Some("it was planned".into()), ..quiet(0.75, "value > 0.2") };
        assert!(!is_near(&refuted));
    }

    #[test]
    fn what_cannot_be_compared_is_not_beyond() {
        for condition in [
            "value > knee(host.cpus)",
            "value > 1.0e9 or memory.free.bytes.last < 1",
            // An upper bound beside what the rule is about.
            "cpu.busy.ratio.mean > 0.5 and value < 2",
            "max(value, 1) > 0.2",
            "value > 0.1 and value > 0.001 * network.interface.receive.per_second.mean",
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
