//! Rules with one thing changed. Where no test of a rule fails with the change, the tests do not prove that thing.

use super::Rule;
use super::tokens::{Kind, Token, tokens};

/// A rule with one thing changed.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// What was changed, after "if": "0.05 in `warning` were 0.06".
    pub what: String,
    /// The changed rule.
    pub rule: Rule,
}

/// All rules that differ from this one in one number, comparison, `and`, `or` or part.
#[must_use]
pub fn mutants(rule: &Rule) -> Vec<Mutant> {
    let mut found = Vec::new();
    for (key, text) in rule.expressions() {
        for (what, changed) in changes(key, text) {
            let mut rule = rule.clone();
            set(&mut rule, key, Some(changed));
            found.push(Mutant { what, rule });
        }
        if key != "value" {
            let mut rule = rule.clone();
            set(&mut rule, key, None);
            found.push(Mutant { what: format!("there were no `{key}`"), rule });
        }
    }
    if let Some(hold) = rule.hold {
        let with = |hold: Option<usize>| Rule { hold, ..rule.clone() };
        found.push(Mutant { what: "there were no `for`".into(), rule: with(None) });
        for other in [hold.saturating_sub(1), hold + 1].into_iter().filter(|other| *other > 0) {
            found.push(Mutant { what: format!("`for: {hold}` were `for: {other}`"), rule: with(Some(other)) });
        }
    }
    found
}

/// Exchanges an expression, or takes it away.
fn set(rule: &mut Rule, key: &str, text: Option<String>) {
    let condition = match key {
        "value" => return rule.value = text.unwrap_or_default(),
        "info" => return rule.info = text,
        "warning" => return rule.warning = text,
        "critical" => return rule.critical = text,
        "culprit" => return rule.culprit = text,
        "applies" => &mut rule.applies,
        _ => &mut rule.unless,
    };
    *condition = condition.take().zip(text).map(|(condition, when)| super::schema::Condition { when, ..condition });
}

/// Each change of one piece of an expression: what it is, and the expression after it.
fn changes(key: &str, text: &str) -> Vec<(String, String)> {
    let pieces = tokens(text);
    let mut found = Vec::new();
    for (at, token) in pieces.iter().enumerate() {
        let others = match token.kind {
            // Which of two is the culprit turns on a comparison; how many of something it needs is no threshold.
            Kind::Number if key != "culprit" => numbers(&pieces, at),
            Kind::Comparison => comparisons(&pieces, at),
            Kind::Word => connective(token.text).into_iter().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let name = name(&pieces, at);
        for other in others {
            let Some((before, after)) = text.get(..token.at.start).zip(text.get(token.at.end..)) else { continue };
            found.push((format!("{name} in `{key}` were {other}"), format!("{before}{other}{after}")));
        }
    }
    found
}

/// What a piece is called: "0.5", or "the 2nd 0.5" where it stands there before.
fn name(pieces: &[Token<'_>], at: usize) -> String {
    let Some(token) = pieces.get(at) else { return String::new() };
    let shown = if token.kind == Kind::Number { token.text.to_owned() } else { format!("`{}`", token.text) };
    match pieces.iter().take(at).filter(|other| other.text == token.text).count() {
        0 => shown,
        1 => format!("the 2nd {shown}"),
        2 => format!("the 3rd {shown}"),
        n => format!("the {}th {shown}", n + 1),
    }
}

fn connective(word: &str) -> Option<&'static str> {
    match word {
        "and" => Some("or"),
        "or" => Some("and"),
        _ => None,
    }
}

/// The opposite of a comparison; and the one that differs from it only at the threshold, where that is a small number
/// that things are counted by.
fn comparisons(pieces: &[Token<'_>], at: usize) -> Vec<String> {
    let sign = pieces.get(at).map_or("", |token| token.text);
    let (opposite, close) = match sign {
        ">" => ("<=", Some(">=")),
        ">=" => ("<", Some(">")),
        "<" => (">=", Some("<=")),
        "<=" => (">", Some("<")),
        "==" => ("!=", None),
        _ => ("==", None),
    };
    let counted = pieces
        .get(at + 1)
        .is_some_and(|token| token.kind == Kind::Number && whole(token.text).is_some_and(|n| n <= 10));
    let ends = !pieces.get(at + 2).is_some_and(|token| ["*", "/", "+", "-"].contains(&token.text));
    let close = close.filter(|_| counted && ends);
    std::iter::once(opposite).chain(close).map(str::to_owned).collect()
}

/// A fifth more and a fifth less; of small whole numbers one more and one less.
fn numbers(pieces: &[Token<'_>], at: usize) -> Vec<String> {
    let text = pieces.get(at).map_or("", |token| token.text);
    let before = |n: usize| at.checked_sub(n).and_then(|at| pieces.get(at)).map_or("", |token| token.text);
    if before(2) == "default" {
        // What holds where nothing was measured is no threshold.
        return Vec::new();
    }
    // `x / max(y, 1)` keeps from dividing by zero: what matters is that it is not less.
    let guard = before(1) == "," && guards(pieces, at);
    let (less, more) = match whole(text) {
        Some(n) if n < 10 => ((n - 1).to_string(), (n + 1).to_string()),
        Some(n) => ((n as f64 * 0.8).round().to_string(), (n as f64 * 1.2).round().to_string()),
        None => match text.parse::<f64>() {
            Ok(n) => (shown(n * 0.8), shown(n * 1.2)),
            Err(_) => return Vec::new(),
        },
    };
    match (guard, before(2)) {
        (true, _) => vec![less],
        // There is no queue with less than one server.
        (_, "knee") => vec![more],
        _ => vec![more, less],
    }
}

/// Whether the call that a number closes is what something is divided by.
fn guards(pieces: &[Token<'_>], at: usize) -> bool {
    let mut depth = 0;
    for place in (0..at).rev() {
        match pieces.get(place).map_or("", |token| token.text) {
            ")" => depth += 1,
            "(" if depth > 0 => depth -= 1,
            "(" => {
                let word = |n: usize| place.checked_sub(n).and_then(|at| pieces.get(at)).map_or("", |token| token.text);
                return word(1) == "max" && word(2) == "/";
            }
            _ => {}
        }
    }
    false
}

fn whole(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Without the dust of binary fractions.
fn shown(number: f64) -> String {
    let text = format!("{number:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, text: &str) -> Vec<String> {
        changes(key, text).into_iter().map(|(_, changed)| changed).collect()
    }

    #[test]
    fn numbers_move_by_a_fifth_or_by_one() {
        assert_eq!(of("warning", "value > 0.05")[1..], ["value > 0.06", "value > 0.04"]);
        assert_eq!(of("info", "value >= 1"), ["value < 1", "value > 1", "value >= 2", "value >= 0"]);
        assert_eq!(
            of("info", "value > 50000 * host.cpus")[1..],
            ["value > 60000 * host.cpus", "value > 40000 * host.cpus"]
        );
    }

    #[test]
    fn what_is_no_threshold_stays() {
        assert_eq!(of("value", "a.total / max(b.total + c.total, 1)"), ["a.total / max(b.total + c.total, 0)"]);
        assert_eq!(of("value", "highest(a.x)|default(0)"), [""; 0]);
        assert_eq!(of("culprit", "top(a) if b.mean > 100 else top(c)"), ["top(a) if b.mean <= 100 else top(c)"]);
    }

    #[test]
    fn each_change_has_a_name_of_its_own() {
        let names: Vec<String> = changes("unless", "a < 0.5 and b < 0.5").into_iter().map(|(what, _)| what).collect();
        assert!(names.contains(&"the 2nd 0.5 in `unless` were 0.4".to_owned()), "{names:?}");
        assert!(names.contains(&"`and` in `unless` were or".to_owned()), "{names:?}");
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
