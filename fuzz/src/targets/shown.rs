//! Oracles about what people and programs are shown: whatever a stranger wrote, it is text there and nothing else.

use pulldown_cmark::{Event, Options, Parser};
use serde_json::Value;

/// What inputs use as markup and what no document of rdiag's own has: where it is in a page as it stands, it was not escaped.
const MARKUP: &str = "<rdiagx";

/// A page or a picture.
pub fn markup(what: &str, text: &str) {
    plain(what, text);
    assert!(!text.contains(MARKUP), "{what}: a name became a tag");
}

/// Markdown, in which rdiag itself takes apart what would become a link with U+200B.
pub fn document(what: &str, text: &str) {
    // As code it may stand there.
    let is_tag = |event: Event<'_>| matches!(event, Event::Html(tag) | Event::InlineHtml(tag) if tag.contains(MARKUP));
    assert!(!Parser::new_ext(text, Options::all()).any(is_tag), "{what}: a name became a tag");
    none_of(what, text, acts);
}

/// Text for a terminal.
pub fn plain(what: &str, text: &str) {
    none_of(what, text, |c| acts(c) || c == '\u{200b}');
}

fn acts(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn none_of(what: &str, text: &str, acts: impl Fn(char) -> bool) {
    if let Some(c) = text.chars().find(|c| acts(*c)) {
        panic!("{what}: the character {c:?} is in it as it stands");
    }
}

/// JSON, which is not to act on the terminal either.
pub fn json(what: &str, text: &str) -> Value {
    plain(what, text);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{what} is no JSON: {error}"))
}
