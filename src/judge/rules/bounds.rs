//! What untrusted expressions and sentences may consist of. Fuel bounds their steps; this bounds what one step can make.
//!
//! Text grows in a template by being repeated (`'a' * 9000000`), by being joined with itself again and again, which takes a variable, and
//! by filters. So what is multiplied are numbers and nothing else (`numbers.rs`), a template's own variables are what `top` gives, and
//! there are none but known filters; what is written out at last is bounded too.

use std::fmt::{self, Write as _};

use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

use super::numbers;
use super::tokens::tokens;

/// Longest expression and sentence, in bytes.
const MAX_TEXT: usize = 16 << 10;
/// Longest text that a sentence gives, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Longest value that is named in an error.
const MAX_SHOWN: usize = 200;
/// What may stand at the beginning of `{% … %}`.
const STATEMENTS: &[&str] = &["if", "elif", "else", "endif"];

/// Whether an expression is within bounds.
pub(super) fn expression(text: &str) -> Result<(), Error> {
    length(text)?;
    parts(text).map_err(wrong)?;
    numbers::multiplied(text, &[]).map_err(wrong)
}

/// Whether a sentence with expressions in it is.
pub(super) fn sentence(text: &str) -> Result<(), Error> {
    length(text)?;
    let mut named = Vec::new();
    for Tag { inside, is_statement } in tags(text) {
        parts(inside).map_err(wrong)?;
        numbers::multiplied(inside, &named).map_err(wrong)?;
        let word = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        if is_statement && let Some(name) = numbers::set(inside) {
            named.push(name);
        } else if is_statement && !STATEMENTS.contains(&word) {
            return Err(wrong(format!(
                "a sentence may hold if, elif, else, endif and `set name = top(…)`, and no other {word:?}"
            )));
        }
    }
    Ok(())
}

/// A tag of a sentence: `{{ … }}`, or the statement `{% … %}`.
pub(super) struct Tag<'t> {
    pub(super) inside: &'t str,
    pub(super) is_statement: bool,
}

/// All that may be tags of a sentence, those within the texts of others as well.
pub(super) fn tags(sentence: &str) -> impl Iterator<Item = Tag<'_>> {
    sentence.match_indices('{').filter_map(|(at, _)| {
        let tag = sentence.get(at + 1..)?;
        let is_statement = tag.starts_with('%');
        if !is_statement && !tag.starts_with('{') {
            return None;
        }
        let inside = until(tag.get(1..)?, if is_statement { "%}" } else { "}}" });
        // Of several signs one says what becomes of the white space around the tag; the others are the expression's.
        let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside);
        let inside = inside.strip_suffix(['-', '+']).unwrap_or(inside).trim();
        Some(Tag { inside, is_statement })
    })
}

/// What stands before the end of a tag. In a text, and in a bracket that is open, the same signs end nothing.
fn until<'t>(tag: &'t str, end: &str) -> &'t str {
    let (mut open, mut text, mut escaped) = (0_i32, None, false);
    for (at, c) in tag.char_indices() {
        match (text, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(quote), _) if quote == c => text = None,
            (Some(_), _) => {}
            (None, _) if open == 0 && tag.get(at..).is_some_and(|rest| rest.starts_with(end)) => {
                return tag.get(..at).unwrap_or_default();
            }
            (None, '\'' | '"') => text = Some(c),
            (None, '(' | '[' | '{') => open += 1,
            (None, ')' | ']' | '}') => open -= 1,
            (None, _) => {}
        }
    }
    tag
}

/// Refuses parts of texts and lists, `x[a:b]`: no rule needs them, and the template language panics at some (`''[::-1]`).
fn parts(expression: &str) -> Result<(), String> {
    if !expression.contains('[') || !expression.contains(':') {
        return Ok(());
    }
    // Where a text ends that has some is for the template language to say.
    if expression.contains('\\') {
        return Err("an expression with brackets and colons has no backslash".to_owned());
    }
    let mut open = Vec::new();
    for token in tokens(expression) {
        match token.text {
            "(" | "[" | "{" => open.push(token.text),
            ")" | "]" | "}" => drop(open.pop()),
            ":" if open.last() == Some(&"[") => {
                return Err("parts of texts and lists, x[a:b], are no part of the language".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

fn wrong(why: String) -> Error {
    Error::new(ErrorKind::SyntaxError, why)
}

fn length(text: &str) -> Result<(), Error> {
    if text.len() > MAX_TEXT { Err(wrong(format!("it is longer than {MAX_TEXT} bytes"))) } else { Ok(()) }
}

/// Text that is not longer than it may be.
struct Bounded {
    text: String,
    most: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.text.len() + more.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// What a sentence gives, byte by byte.
#[derive(Default)]
pub(super) struct Written(Vec<u8>);

impl Written {
    pub(super) fn into_text(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(std::io::Error::other(format!("it gives more than {MAX_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A value in an error.
pub(super) fn shown(value: &Value) -> String {
    let mut text = Bounded { text: String::new(), most: MAX_SHOWN };
    match write!(text, "{value}") {
        Ok(()) => text.text,
        Err(_) => format!("{}…", text.text),
    }
}

#[cfg(test)]
mod tests {
    use super::{expression, sentence};

    #[test]
    fn where_an_expression_of_a_sentence_ends_its_texts_do_not_say() {
        for template in [
            "{{ '}}' * 9000000 }}",
            "{{ \"%}}}\" ~ 'a' * 9000000 }}",
            "{% if '%}' * 9000000 %}{% endif %}",
            "{{ '}} {{ ' * 9000000 }}",
            "{{ {'a': {'b': 1}} ~ 'a' * 9000000 }}",
            r"{{ '\'}}' * 9000000 }}",
        ] {
            assert!(sentence(template).is_err(), "{template}");
        }
        for template in
            ["{{ '}}' ~ value * 2 }} {{ instance }} 2 * x", "it's {{ value }}, isn't it * 2", "{{ value * 2 -}}"]
        {
            assert!(sentence(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn parts_of_texts_and_lists_are_no_part_of_the_language() {
        for wrong in ["''[::-1]", "value[1:]", "[1, 2][0:{'a': 1}['a']]", r"'\''[::-1]", "''[\n:\n:-1]"] {
            assert!(expression(wrong).is_err(), "{wrong}");
            assert!(sentence(&format!("{{{{ {wrong} }}}}")).is_err(), "{wrong}");
        }
        for right in ["{'hdd': 1, 'ssd': 2}[label.class]", "[{'a': 1}][0]", "'[:]'", "instance ~ '[' ~ ':' ~ ']'"] {
            assert!(expression(right).is_ok(), "{right}");
        }
    }
}
