//! Whether what an expression multiplies are numbers. The template language repeats a text or a list that is multiplied, to any length.

use super::tokens::{Kind, Token, tokens};

/// Variables with texts in them, and functions that give such.
const TEXTS: &[&str] = &["instance", "label", "top", "log"];
/// What is a number of the host.
const HOST: &[&str] =
    &["cpus", "cpus_present", "memory_bytes", "page_size", "ticks_per_second", "uptime_seconds", "uid", "pid"];
/// Functions and filters that give numbers; `default` gives what it is given.
const FUNCTIONS: &[&str] = &["knee", "min", "max", "highest", "sum", "status"];
const FILTERS: &[&str] = &["abs", "round", "int", "float", "length"];
const DEFAULT: &str = "default";
/// Words before a bracket that are no functions.
const KEYWORDS: &[&str] = &["and", "or", "not", "if", "else", "in", "is"];

/// Refuses an expression with a multiplication whose operands may be anything but numbers. `named` are variables of a sentence's own, whose
/// parts may be texts.
pub(super) fn multiplied(expression: &str, named: &[&str]) -> Result<(), String> {
    if !expression.contains('*') {
        return Ok(());
    }
    // Where a text ends that has some is for the template language to say.
    if expression.contains('\\') {
        return Err("an expression that multiplies has no backslash".to_owned());
    }
    let tokens = tokens(expression);
    let first = |token: &Token<'_>| named.contains(&token.text.split('.').next().unwrap_or_default());
    let multiplies = tokens.iter().any(|token| token.text == "*");
    if multiplies && tokens.iter().any(first) {
        return Err("what is named by set stands in an expression that multiplies".to_owned());
    }
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == "*") {
        let (before, after) = tokens.split_at_checked(at).unwrap_or_default();
        if !ends_with_number(before) || !begins_with_number(after.get(1..).unwrap_or_default()) {
            return Err(format!(
                "only numbers can be multiplied: {:?}",
                expression.chars().take(80).collect::<String>()
            ));
        }
    }
    Ok(())
}

/// Whether what stands before a `*` is a number.
fn ends_with_number(tokens: &[Token<'_>]) -> bool {
    let Some((last, rest)) = tokens.split_last() else { return false };
    let before = rest.last().map_or("", |token| token.text);
    match last.kind {
        Kind::Number => before != ".",
        // The other half of `**`.
        Kind::Other if last.text == "*" => true,
        Kind::Other if last.text == ")" => {
            let Some((head, inside)) = opening(tokens) else { return false };
            let Some((word, head)) = head.split_last().filter(|(token, _)| token.kind == Kind::Word) else {
                return are_numbers(inside);
            };
            match head.split_last() {
                Some((sign, base)) if sign.text == "|" => is_filtered(word.text, base) && are_numbers(inside),
                _ if KEYWORDS.contains(&word.text) => are_numbers(inside),
                _ => FUNCTIONS.contains(&word.text),
            }
        }
        Kind::Word if before == "|" => is_filtered(last.text, rest.split_last().map_or(&[], |(_, base)| base)),
        Kind::Word => before != "." && is_number(last.text),
        _ => false,
    }
}

fn is_filtered(filter: &str, base: &[Token<'_>]) -> bool {
    FILTERS.contains(&filter) || (filter == DEFAULT && ends_with_number(base))
}

/// Whether what stands behind a `*` is a number.
fn begins_with_number(tokens: &[Token<'_>]) -> bool {
    let Some((first, rest)) = tokens.split_first() else { return false };
    match first.kind {
        Kind::Other if matches!(first.text, "*" | "-" | "+") => begins_with_number(rest),
        Kind::Number => stays_number(rest),
        Kind::Other if first.text == "(" => {
            closing(rest).is_some_and(|(inside, rest)| are_numbers(inside) && stays_number(rest))
        }
        Kind::Word if FUNCTIONS.contains(&first.text) => {
            let inside = rest.split_first().filter(|(token, _)| token.text == "(").map(|(_, rest)| rest);
            inside.and_then(closing).is_some_and(|(_, rest)| stays_number(rest))
        }
        Kind::Word => is_number(first.text) && stays_number(rest),
        _ => false,
    }
}

/// Whether what follows an operand leaves it a number: filters belong to it.
fn stays_number(tokens: &[Token<'_>]) -> bool {
    let mut rest = tokens;
    while let Some((sign, behind)) = rest.split_first() {
        match (sign.text, behind.split_first()) {
            ("|", Some((filter, behind))) if FILTERS.contains(&filter.text) || filter.text == DEFAULT => {
                rest = behind;
                if let Some((_, behind)) = behind.split_first().filter(|(token, _)| token.text == "(") {
                    let Some((inside, behind)) = closing(behind) else { return false };
                    if !are_numbers(inside) {
                        return false;
                    }
                    rest = behind;
                }
            }
            ("|" | "[" | "." | "(", _) => return false,
            _ => return true,
        }
    }
    true
}

/// Whether nothing but numbers and comparisons stands here.
fn are_numbers(tokens: &[Token<'_>]) -> bool {
    tokens.iter().enumerate().all(|(at, token)| {
        let text_at = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |token| token.text);
        let (before, after) = (text_at(at.checked_sub(1)), text_at(at.checked_add(1)));
        match token.kind {
            Kind::Text => {
                matches!(before, "=" | "==" | "!=") && matches!(after, "" | "," | ")" | "and" | "or" | "if" | "else")
            }
            Kind::Word if before == "|" => FILTERS.contains(&token.text) || token.text == DEFAULT,
            // In `label='x'` it is the name of an option.
            Kind::Word => after == "=" || is_number(token.text),
            Kind::Other => !matches!(token.text, "~" | "[" | "{" | "."),
            Kind::Number | Kind::Comparison => true,
        }
    })
}

/// Whether a word can be a number: a metric, or a variable that is one.
fn is_number(word: &str) -> bool {
    let mut parts = word.split('.');
    match (parts.next().unwrap_or_default(), parts.next()) {
        ("host", field) => field.is_some_and(|field| HOST.contains(&field)),
        (first, _) => !TEXTS.contains(&first),
    }
}

/// The name in `set NAME = top(…)`; none if it is anything else.
pub(super) fn set(statement: &str) -> Option<&str> {
    let tokens = tokens(statement);
    let (head, call) = tokens.split_at_checked(5)?;
    let [set, name, is, top, open] = head else { return None };
    let is_call = set.text == "set" && is.text == "=" && top.text == "top" && open.text == "(";
    let is_whole = closing(call).is_some_and(|(_, rest)| rest.is_empty());
    let is_name = name.kind == Kind::Word && !name.text.contains('.');
    (is_call && is_whole && is_name).then_some(name.text)
}

/// What stands before the bracket that the last token closes, and what is in it.
fn opening<'a, 't>(tokens: &'a [Token<'t>]) -> Option<(&'a [Token<'t>], &'a [Token<'t>])> {
    let (_, within) = tokens.split_last()?;
    let mut depth = 1;
    for (at, token) in within.iter().enumerate().rev() {
        depth += i32::from(token.text == ")") - i32::from(token.text == "(");
        if depth == 0 {
            return Some((within.get(..at)?, within.get(at + 1..)?));
        }
    }
    None
}

/// What is in a bracket that is open, and what follows it.
fn closing<'a, 't>(tokens: &'a [Token<'t>]) -> Option<(&'a [Token<'t>], &'a [Token<'t>])> {
    let mut depth = 1;
    for (at, token) in tokens.iter().enumerate() {
        depth += i32::from(token.text == "(") - i32::from(token.text == ")");
        if depth == 0 {
            return Some((tokens.get(..at)?, tokens.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{multiplied, set};

    #[test]
    fn numbers_are_multiplied() {
        for expression in [
            "cpu.busy.ratio.mean * host.cpus > 0.9 * knee(host.cpus)",
            "highest(disk.await.seconds, stacked='no')|default(0) * 1000",
            "(value - 1.5e3) * -2 ** 2 + min(value, 3) * window.seconds",
            "label.fstype == 'ext4' and value > 1",
            "{'a': [1, instance ~ '*']}",
            "value * 2 if value == 'x' else 3",
            "value > {'hdd': 0.025, 'ssd': 0.008}[label.class] and (label.class != 'x' or value > 2 * (highest(disk.a.b, \
                s='no')|default(0)))",
            "(cgroup.cpu.throttled_time.ratio.mean * window.seconds)|seconds",
            "instance ~ value * 2 ~ 'x'",
            "value * 2 * 3 + 'x'|length * 2",
            "'a * b'",
        ] {
            assert_eq!(multiplied(expression, &[]), Ok(()), "{expression}");
        }
    }

    #[test]
    fn texts_and_lists_are_not() {
        for expression in [
            "'a' * 9000000",
            "9000000*'a'",
            "9 * value|percent",
            "9 * -instance",
            "9 * (value|default('a'))",
            "9 * highest(x)|default('a')",
            "instance|default(1) * 9",
            "9 * log('oom').name",
            "9 * knee(1)['a']",
            "1.5 ** 2 * 'a'",
            "* 9",
            "9 *",
            "9) * 9",
            "('a') * 9000000",
            "value == 'a' * 9",
            "instance * 9",
            "label.device * 9",
            "host.kernel * 9",
            "host * 9",
            "(value|percent) * 9",
            "top(process.cpu.seconds).name * 9",
            "highest(x).name * 9",
            "[1] * 9",
            "{'a': 1} * 9",
            "(instance ~ 'x') * 9",
            "(value ~ value) * 9",
            "(value == 'x' 'y') * 9",
            r"'a\'' * 9 + 'b'",
        ] {
            assert!(multiplied(expression, &[]).is_err(), "{expression}");
        }
    }

    #[test]
    fn what_a_sentence_may_name_is_what_top_gives() {
        assert_eq!(set("set who = top(biotop.io_time.seconds, device=instance)"), Some("who"));
        for other in [
            "set x = 'a'",
            "set x = top(a) ~ top(a)",
            "set x = x ~ x",
            "set x",
            "set a.b = top(c)",
            "set x, y = top(a)",
        ] {
            assert_eq!(set(other), None, "{other}");
        }
        assert!(multiplied("who.name * 9", &["who"]).is_err() && multiplied("who.name ~ 9", &["who"]).is_ok());
    }
}
