//! What the conditions of a rule say of `value` in numbers: curves show it, and instances are put in order by it.

use super::Rule;
use super::tokens::{Kind, tokens};
use rdiag_model::finding::Levels;

impl Rule {
    /// The levels of its conditions.
    #[must_use]
    pub fn levels(&self) -> Levels {
        let conditions = self.conditions();
        Levels {
            by_status: conditions.iter().filter_map(|(status, text)| Some((*status, level(text)?))).collect(),
            low_is_bad: conditions.iter().any(|(_, text)| wants_low(text)),
        }
    }
}

/// The number that a condition compares `value` with; none where it depends on more than that.
fn level(condition: &str) -> Option<f64> {
    let pieces = tokens(condition);
    let [value, comparison, ..] = pieces.as_slice() else { return None };
    if value.text != "value" || comparison.kind != Kind::Comparison || comparison.text == "!=" {
        return None;
    }
    let level: f64 = condition.get(comparison.at.end..)?.trim().parse().ok()?;
    level.is_finite().then_some(level)
}

/// Whether a condition asks for a low `value`.
fn wants_low(condition: &str) -> bool {
    let pieces = tokens(condition);
    let mut pairs = pieces.iter().zip(pieces.iter().skip(1));
    pairs.any(|(value, sign)| value.text == "value" && matches!(sign.text, "<" | "<="))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
