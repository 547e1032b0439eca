//! Texts with holes: `{reading}` or `{role}` is filled with what was measured or chosen.

use std::collections::BTreeMap;

/// What stands in the holes.
pub type Words = BTreeMap<String, String>;

/// Said of a reading that this host does not give.
const UNKNOWN: &str = "(cannot be measured here)";

/// The holes of a text, in order; braces that hold anything but a name are text.
pub fn holes(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|after| after.split_once('}').map(|(hole, _)| hole)).filter(|hole| is_name(hole))
}

/// Fills the holes of a text.
#[must_use]
pub fn fill(text: &str, words: &Words) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        match after.split_once('}') {
            Some((hole, behind)) if is_name(hole) => {
                out.push_str(words.get(hole).map_or(UNKNOWN, String::as_str));
                rest = behind;
            }
            _ => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn is_name(hole: &str) -> bool {
    !hole.is_empty() && hole.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_and_other_braces_are_text() {
        let words = Words::from([("who".into(), "indexd".into())]);
        assert_eq!(
            fill("{who} took {own_cpu}; awk '{print $1}' {", &words),
            "indexd took (cannot be measured here); awk '{print $1}' {"
        );
        assert_eq!(holes("{who} {A b} {own_cpu} {").collect::<Vec<_>>(), ["who", "own_cpu"]);
    }
}
