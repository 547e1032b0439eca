//! What a rule that did not fire says, and whether its own figure speaks for it.
//!
//! Most rules ask for more than one thing: tasks that wait for a CPU *and* CPUs that are in demand. Where the figure that a rule is
//! about is beyond its threshold, and only what else it asks for is missing, that figure rules nothing out.

use std::collections::BTreeMap;

use super::words;
use rdiag_model::finding::{Asked, Figure, Levels, Sign};
use rdiag_model::{Finding, Status};

/// What a figure that comes within a tenth of its threshold is taken for: noise alone moves it to the other side.
const NEAR: f64 = 0.9;

/// What each rule asks for, by its id.
#[derive(Clone, Copy)]
pub(super) struct Quiet<'l>(pub(super) &'l BTreeMap<String, Levels>);

impl Quiet<'_> {
    /// Whether the figure is beyond a threshold, so that another condition, or the number of intervals it must last, kept the rule quiet.
    pub(super) fn is_beyond(self, finding: &Finding) -> bool {
        self.reaches(finding, 1.0)
    }

    /// Whether the figure is beyond a threshold, or so near to it that it speaks neither for the rule nor against it, and nothing else that
    /// the rule asks for is missed by far: a large share of hardly any CPU time is no sign of anything.
    pub(super) fn is_near(self, finding: &Finding) -> bool {
        self.reaches(finding, NEAR)
    }

    fn reaches(self, finding: &Finding, slack: f64) -> bool {
        let (Some(value), Some(levels)) = (finding.value, self.0.get(&finding.id)) else { return false };
        let is_open = |asked: &Vec<Asked>| slack == 1.0 || !asked.iter().any(|part| is_far(finding, part));
        let holds = |asked: &Vec<Asked>| is_met(asked, value, slack) && is_open(asked);
        finding.status == Status::Ok && finding.refuted_by.is_none() && levels.alternatives.iter().any(holds)
    }
}

/// Whether the figure does its part of an alternative: it meets all that is asked of it, which is more than that it is not too large.
fn is_met(asked: &[Asked], value: f64, slack: f64) -> bool {
    let is_about = |(at, part): (usize, &Asked)| match part {
        Asked::Value(Sign::Below | Sign::AtMost, _) => at == 0,
        Asked::Value(..) => true,
        _ => false,
    };
    let holds = |part: &Asked| match part {
        Asked::Value(sign, level) => holds(*sign, *level, value, slack),
        // A figure that is also compared with a share of another one, of all packets, say, may be usual however large it is.
        Asked::Share => false,
        _ => true,
    };
    asked.iter().enumerate().any(is_about) && asked.iter().all(holds)
}

fn holds(sign: Sign, level: f64, value: f64, slack: f64) -> bool {
    match sign {
        Sign::Below => value < level / slack,
        Sign::AtMost => value < level / slack || value == level,
        Sign::Equal => value == level,
        Sign::AtLeast => value > level * slack || value == level,
        Sign::Above => value > level * slack,
    }
}

/// Whether other figures have less than half of what a condition asks of them at least (`cpu.busy.ratio.mean > 0.5`), or are anything where
/// they would have to be nothing (`disk.reads.per_second.total + disk.writes.per_second.total == 0`).
fn is_far(finding: &Finding, part: &Asked) -> bool {
    let Asked::Others(figures, sign, level) = part else { return false };
    let seen = |figure: &Figure| {
        let evidence = finding.evidence.iter().find(|evidence| evidence.metric == figure.metric)?;
        if figure.is_total { evidence.total } else { evidence.mean }
    };
    let Some(seen) = figures.iter().map(seen).sum::<Option<f64>>() else { return false };
    match sign {
        Sign::Equal => *level == 0.0 && seen > 0.0,
        Sign::AtLeast | Sign::Above => seen < level / 2.0,
        Sign::Below | Sign::AtMost => false,
    }
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
    use crate::sample::{above, finding};
    use rdiag_model::finding::Evidence;

    const ID: &str = "cpu.saturation";

    fn quiet(value: f64) -> Finding {
        Finding { value: Some(value), ..finding(ID, Status::Ok) }
    }

    /// Whether a finding is beyond, and near, where its rule asks for one of these.
    fn judged(finding: &Finding, alternatives: &[Vec<Asked>]) -> (bool, bool) {
        let levels = Levels { alternatives: alternatives.to_vec(), ..Levels::default() };
        let levels = [(ID.to_owned(), levels)].into();
        (Quiet(&levels).is_beyond(finding), Quiet(&levels).is_near(finding))
    }

    fn is_beyond(value: f64, alternatives: &[Vec<Asked>]) -> bool {
        judged(&quiet(value), alternatives).0
    }

    fn value(sign: Sign, level: f64) -> Asked {
        Asked::Value(sign, level)
    }

    fn busy(sign: Sign, level: f64) -> Asked {
        Asked::Others(vec![Figure { metric: "cpu.busy.ratio".into(), is_total: false }], sign, level)
    }

    fn all(parts: &[Vec<Asked>]) -> Vec<Asked> {
        parts.concat()
    }

    #[test]
    fn a_figure_beyond_its_threshold_is_told_from_one_below() {
        let both = [all(&[above(0.2), vec![busy(Sign::Above, 0.5)]])];
        assert!(is_beyond(0.75, &both) && !is_beyond(0.1, &both));
        assert!(is_beyond(0.75, &[all(&[above(0.2), vec![Asked::Else]])]));
        assert!(is_beyond(0.3, &[vec![value(Sign::Below, 1.0), Asked::Else]]));
        // Three intervals in a row were asked for, and it did not last that long.
        assert!(is_beyond(0.75, &[above(0.2)]));
        // Alternatives, and parts in another order.
        let either = [vec![Asked::Share, Asked::Else], all(&[above(32.0), vec![Asked::Else]])];
        assert!(is_beyond(226.0, &either) && !is_beyond(31.0, &either));
        assert!(is_beyond(0.75, &[all(&[vec![busy(Sign::Above, 0.5)], above(0.2)])]));
        let within = [all(&[above(0.1), vec![value(Sign::Below, 0.9)]])];
        assert!(is_beyond(0.5, &within) && !is_beyond(0.05, &within) && !is_beyond(0.95, &within));
        let equal = |sign| is_beyond(3.0, &[vec![value(sign, 3.0)]]);
        assert!(equal(Sign::AtLeast) && equal(Sign::AtMost) && !equal(Sign::Above) && !equal(Sign::Below));
    }

    #[test]
    fn a_figure_within_a_tenth_of_its_threshold_speaks_neither_way() {
        let near = |value: f64, asked: &[Asked]| judged(&quiet(value), &[asked.to_vec()]);
        assert_eq!(near(32.0, &above(32.0)), (false, true));
        let both = all(&[above(0.2), vec![Asked::Else]]);
        assert_eq!((near(0.185, &both).1, near(0.175, &both).1), (true, false));
        let below = [value(Sign::Below, 1.0)];
        assert_eq!((near(1.05, &below).1, near(1.15, &below).1), (true, false));
        // Another figure of the rule, just missed and missed by far; that it would have to be low says nothing.
        let beside = |mean: f64, asked: Asked| {
            let evidence = vec![Evidence {
                metric: "cpu.busy.ratio".into(),
                instance: None,
                window: 0,
                mean: Some(mean),
                max: None,
                total: None,
                unit: rdiag_model::Unit::Ratio,
                source: String::new(),
            }];
            judged(&Finding { evidence, ..quiet(0.75) }, &[all(&[above(0.2), vec![asked]])])
        };
        assert_eq!(beside(0.45, busy(Sign::AtLeast, 0.8)), (true, true));
        assert_eq!(beside(0.35, busy(Sign::AtLeast, 0.8)), (true, false));
        assert_eq!(beside(0.01, busy(Sign::Below, 0.5)), (true, true));
        assert_eq!(beside(0.1, busy(Sign::Equal, 0.0)), (true, false));
        let total = Figure { metric: "cpu.busy.ratio".into(), is_total: true };
        assert_eq!(beside(0.1, Asked::Others(vec![total], Sign::Equal, 0.0)), (true, true), "it is not known");
        let refuted = Finding { refuted_by: Some("it was planned".into()), ..quiet(0.75) };
        assert_eq!(judged(&refuted, &[above(0.2)]), (false, false));
    }

    #[test]
    fn what_cannot_be_compared_is_not_beyond() {
        for asked in [
            vec![Asked::Share],
            vec![Asked::Else],
            // An upper bound beside what the rule is about.
            vec![busy(Sign::Above, 0.5), value(Sign::Below, 2.0)],
            all(&[above(0.1), vec![Asked::Share]]),
        ] {
            assert!(!is_beyond(0.95, std::slice::from_ref(&asked)), "{asked:?}");
        }
        let not = |finding: Finding| assert!(!judged(&finding, &[above(0.2)]).0);
        not(Finding { value: None, ..quiet(0.75) });
        not(Finding { status: Status::Warning, ..quiet(0.75) });
        not(Finding { id: "memory.saturation".into(), ..quiet(0.75) });
    }

    #[test]
    fn what_spoke_against_a_finding_is_part_of_the_sentence() {
        let mut finding = quiet(7.0);
        finding.refuted_by = Some("each was killed at the limit of a control group".into());
        finding.summary = "7 processes were killed. (each was killed at the limit of a control group)".into();
        assert!(!judged(&finding, &[above(1.0)]).0);
        assert_eq!(sentence(&finding, 1), "7 processes were killed: each was killed at the limit of a control group.");
    }
}
