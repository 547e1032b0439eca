//! What the conditions of a rule ask for, as data: curves show the numbers, instances are put in order by them, and of a rule that did not
//! fire a report says whether its figure speaks for it.

use super::Rule;
use super::expression::knee;
use super::tokens::{Kind, Token, tokens};
use rdiag_model::finding::{Asked, Figure, Levels, Sign};

/// How busy CPUs may be before tasks wait: the least with a single one.
const KNEE: [&str; 4] = ["knee", "(", "host.cpus", ")"];

impl Rule {
    /// The levels of its conditions.
    #[must_use]
    pub fn levels(&self) -> Levels {
        let mut levels = Levels::default();
        for (status, text) in self.conditions() {
            let condition = tokens(text);
            levels.by_status.extend(level(&condition).map(|level| (status, level)));
            levels.low_is_bad |= wants_low(&condition);
            levels.alternatives.extend(alternatives(&condition));
        }
        levels
    }
}

/// The number that a condition compares `value` with; none where it depends on more than that.
fn level(condition: &[Token<'_>]) -> Option<f64> {
    let [value, comparison, level @ ..] = condition else { return None };
    if value.text != "value" || comparison.kind != Kind::Comparison || comparison.text == "!=" {
        return None;
    }
    number(level).filter(|level| level.is_finite())
}

/// The number that pieces are, of which `-1` and `1e3` have two.
fn number(pieces: &[Token<'_>]) -> Option<f64> {
    pieces.iter().map(|piece| piece.text).collect::<String>().parse().ok()
}

/// Whether a condition asks for a low `value`.
fn wants_low(condition: &[Token<'_>]) -> bool {
    let mut pairs = condition.iter().zip(condition.iter().skip(1));
    pairs.any(|(value, sign)| value.text == "value" && matches!(sign.text, "<" | "<="))
}

/// The alternatives of a condition, and what each asks for. Within brackets, nothing but a single comparison is looked at.
fn alternatives(condition: &[Token<'_>]) -> Vec<Vec<Asked>> {
    let all = split(condition, "or").into_iter();
    all.map(|own| split(own, "and").into_iter().map(|part| asked(bare(part))).collect()).collect()
}

fn asked(part: &[Token<'_>]) -> Asked {
    let Some((at, sign)) = outside(part).find_map(|at| Some((at, sign(part.get(at)?)?))) else { return Asked::Else };
    let (Some(left), Some(right)) = (part.get(..at), part.get(at + 1..)) else { return Asked::Else };
    if left.iter().map(|piece| piece.text).eq(["value"]) {
        return match (sign, smallest(right)) {
            (Sign::Equal, _) => Asked::Else,
            (_, Some(level)) => Asked::Value(sign, level),
            (_, None) => Asked::Share,
        };
    }
    let is_knee = right.windows(KNEE.len()).any(|pieces| pieces.iter().map(|piece| piece.text).eq(KNEE));
    let level = if is_knee { Some(knee(1.0)) } else { number(right) };
    match (sum(left), level) {
        (Some(sum), Some(level)) => Asked::Others(sum, sign, level),
        _ => Asked::Else,
    }
}

fn sign(piece: &Token<'_>) -> Option<Sign> {
    Some(match piece.text {
        "<" => Sign::Below,
        "<=" => Sign::AtMost,
        "==" => Sign::Equal,
        ">=" => Sign::AtLeast,
        ">" => Sign::Above,
        _ => return None,
    })
}

/// A number; of numbers by the kind of device (`{'hdd': 2, 'ssd': 4}[label.class]`), the smallest.
fn smallest(pieces: &[Token<'_>]) -> Option<f64> {
    match pieces {
        [first, kinds @ ..] if first.text == "{" => {
            kinds.split(|piece| [":", ",", "}"].contains(&piece.text)).filter_map(number).reduce(f64::min)
        }
        _ => number(pieces),
    }
}

/// Figures that are added up: `disk.reads.per_second.total + disk.writes.per_second.total`.
fn sum(pieces: &[Token<'_>]) -> Option<Vec<Figure>> {
    let figure = |pieces: &[Token<'_>]| {
        let [piece] = pieces else { return None };
        let (metric, statistic) = piece.text.rsplit_once('.')?;
        let is_total = statistic == "total";
        (is_total || statistic == "mean").then(|| Figure { metric: metric.to_owned(), is_total })
    };
    pieces.split(|piece| piece.text == "+").map(figure).collect()
}

/// The parts of a condition between the words `and` or `or` outside of all brackets but those that enclose all of it.
fn split<'p, 't>(pieces: &'p [Token<'t>], word: &str) -> Vec<&'p [Token<'t>]> {
    let pieces = bare(pieces);
    let mut parts = Vec::new();
    let mut begin = 0;
    for at in outside(pieces).filter(|at| pieces.get(*at).is_some_and(|piece| piece.text == word)) {
        parts.extend(pieces.get(begin..at));
        begin = at + 1;
    }
    parts.extend(pieces.get(begin..));
    parts
}

/// Without the brackets that enclose all of it.
fn bare<'p, 't>(mut pieces: &'p [Token<'t>]) -> &'p [Token<'t>] {
    while let [first, inner @ .., last] = pieces
        && (first.text, last.text) == ("(", ")")
        && depths(inner).all(|depth| depth >= 0)
    {
        pieces = inner;
    }
    pieces
}

/// Which pieces stand outside of all brackets.
fn outside(pieces: &[Token<'_>]) -> impl Iterator<Item = usize> {
    (0..).zip(depths(pieces)).filter(|(_, depth)| *depth == 0).map(|(at, _)| at)
}

/// In how many brackets each piece stands, itself included.
fn depths(pieces: &[Token<'_>]) -> impl Iterator<Item = i32> {
    pieces.iter().scan(0_i32, |depth, piece| {
        *depth += match piece.text {
            "(" | "[" | "{" => 1,
            ")" | "]" | "}" => -1,
            _ => 0,
        };
        Some(*depth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(condition: &str) -> Option<f64> {
        super::level(&tokens(condition))
    }

    fn wants_low(condition: &str) -> bool {
        super::wants_low(&tokens(condition))
    }

    fn alternatives(condition: &str) -> Vec<Vec<Asked>> {
        super::alternatives(&tokens(condition))
    }

    #[test]
    fn only_a_comparison_of_the_value_with_one_number_has_a_level() {
        assert_eq!(level("value > 0.2"), Some(0.2));
        assert_eq!(level(" value<=1e3 "), Some(1000.0));
        assert_eq!(level("value >= -1"), Some(-1.0));
        for condition in [
            "value != 3",
            "value > 0.5 * host.cpus",
            "value > 0.2 and cpu.busy.ratio.mean > 0.3",
            "value / window.seconds >= 10",
            "kernel.log.nic.since_boot.count.last > 0",
            "value > knee(host.cpus)",
            "value > inf",
            "value",
            "",
        ] {
            assert_eq!(level(condition), None, "{condition}");
        }
    }

    #[test]
    fn a_condition_that_asks_for_a_low_value_is_known_wherever_it_does() {
        assert!(wants_low("value < 0.5") && wants_low("host.cpus > 2 and value<=1"));
        assert!(!wants_low("value > 0.5") && !wants_low("other.value < 1") && !wants_low("0.5 < value"));
    }

    fn value(sign: Sign, level: f64) -> Asked {
        Asked::Value(sign, level)
    }

    #[test]
    fn a_condition_asks_for_one_of_its_alternatives_and_for_all_parts_of_that() {
        let busy = |sign, level| Asked::Others(sum(&tokens("cpu.busy.ratio.mean")).unwrap(), sign, level);
        let above = |level| value(Sign::Above, level);
        for (condition, wanted) in [
            ("value > 0.2 and cpu.busy.ratio.mean > knee(host.cpus)", vec![vec![above(0.2), busy(Sign::Above, 0.5)]]),
            ("value > 0.2\n  and not (value > 0.9)", vec![vec![above(0.2), Asked::Else]]),
            ("cpu.busy.ratio.mean >= 0.8 and (value > 0.2)", vec![vec![busy(Sign::AtLeast, 0.8), above(0.2)]]),
            ("value > 0.1 and value <= 1e0", vec![vec![above(0.1), value(Sign::AtMost, 1.0)]]),
            ("value > 1.0e9 or (value > 32 and x > 10)", vec![vec![above(1e9)], vec![above(32.0), Asked::Else]]),
            ("value > 1 and (value > 32 and x > 10)", vec![vec![above(1.0), Asked::Share]]),
            ("value > {'hdd': 4, 'ssd': 2}[label.class]", vec![vec![above(2.0)]]),
            ("(value > 0.75 * highest(a.b)|default(1.0e9) and x > 3)", vec![vec![Asked::Share, Asked::Else]]),
            ("value == 3 or max(value, 1) > 0.2", vec![vec![Asked::Else], vec![Asked::Else]]),
            ("label.class == 'and (' or value < 1", vec![vec![Asked::Else], vec![value(Sign::Below, 1.0)]]),
            ("", vec![vec![Asked::Else]]),
        ] {
            assert_eq!(alternatives(condition), wanted, "{condition}");
        }
    }

    #[test]
    fn other_figures_are_known_by_their_mean_or_total_alone_and_in_sums() {
        let of = |condition: &str| alternatives(condition).remove(0).remove(0);
        let figure = |metric: &str, is_total| Figure { metric: metric.to_owned(), is_total };
        let both = vec![figure("a.b", true), figure("c.d", false)];
        assert_eq!(of("a.b.total + c.d.mean == 0"), Asked::Others(both, Sign::Equal, 0.0));
        assert_eq!(
            of("a.b.mean > max(knee(host.cpus), 0.8)"),
            Asked::Others(vec![figure("a.b", false)], Sign::Above, 0.5)
        );
        for condition in
            ["a.b.max > 1", "a.b.mean - c.d.mean > 1", "a.b.mean > c.d.mean", "a.b.mean != 1", "not a.b.mean > 1"]
        {
            assert_eq!(of(condition), Asked::Else, "{condition}");
        }
    }
}
