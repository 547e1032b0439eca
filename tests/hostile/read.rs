//! Reading back what rdiag wrote, as a terminal, a browser and a renderer of Markdown would.

use pulldown_cmark::{Event, Options, Parser};

/// Characters that act on the text around them, other than the end of a line.
fn acts(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// What is wrong with a text that people look at on a terminal, our own colours aside.
pub(super) fn acting(text: &str) -> Option<String> {
    let plain = uncoloured(text);
    let found = plain.lines().find(|line| line.contains(acts) || line.trim_start().starts_with("FORGED:"));
    found.map(|line| format!("{line:?}"))
}

/// The same of a page, whose source nobody reads line by line.
pub(super) fn acting_in_page(text: &str) -> Option<String> {
    text.lines().find(|line| line.contains(acts)).map(|line| format!("{line:?}"))
}

fn uncoloured(text: &str) -> String {
    let mut plain = text.to_owned();
    for (code, word) in [(31, "error"), (33, "warning")] {
        plain = plain.replace(&format!("\u{1b}[1m\u{1b}[{code}m{word}\u{1b}[0m"), word);
    }
    for code in ["1", "2", "1;31", "1;33", "36", "35", "32", "0"] {
        plain = plain.replace(&format!("\u{1b}[{code}m"), "");
    }
    plain
}

/// What is wrong with a file: as [`acting`], but for the zero-width spaces by which Markdown breaks links and mentions.
pub(super) fn acting_in_markdown(text: &str) -> Option<String> {
    acting(
        &[":", "@", "&#35;", "www."]
            .iter()
            .fold(text.to_owned(), |text, own| text.replace(&format!("{own}\u{200b}"), own)),
    )
}

/// The structure of a Markdown document, without its texts.
pub(super) fn structure(text: &str) -> Vec<String> {
    let mut options = Options::all();
    options.remove(Options::ENABLE_SMART_PUNCTUATION);
    let mut events = Vec::new();
    for event in Parser::new_ext(text, options) {
        let shown = match event {
            Event::Text(_) => "text".to_owned(),
            Event::Code(_) => "code".to_owned(),
            other => format!("{other:?}"),
        };
        if shown != "text" || events.last().is_none_or(|last| last != "text") {
            events.push(shown);
        }
    }
    events
}

/// Whether all rows of each table have as many columns as its first.
pub(super) fn columns_agree(text: &str) -> bool {
    let mut columns = 0;
    text.lines().all(|line| {
        let now = if line.starts_with('|') { line.matches('|').count() } else { 0 };
        let agrees = columns == 0 || now == 0 || columns == now;
        columns = now;
        agrees
    })
}

/// The elements of a page, each with its attributes and the values that are not text for people.
pub(super) fn elements(page: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = page;
    while let Some((_, from)) = rest.split_once('<') {
        let (tag, after) = tag(from);
        rest = after;
        // What stands in these is no markup until they end.
        for raw in ["style", "script"] {
            if tag.split(' ').next() == Some(raw) {
                rest = after.find(&format!("</{raw}")).map_or("", |at| &after[at..]);
            }
        }
        // A flame graph leaves out the labels for which there is no room; each is a text all the same.
        if !["text", "/text"].contains(&tag.split(' ').next().unwrap_or_default()) {
            all.push(tag);
        }
    }
    all
}

/// One tag, from behind its `<`, and what follows it.
fn tag(from: &str) -> (String, &str) {
    let mut shown = String::new();
    let mut quote = None;
    for (at, c) in from.char_indices() {
        match (quote, c) {
            (None, '>') => return (shown, &from[at + 1..]),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => continue,
            (None, _) => {}
        }
        shown.push(c);
    }
    (shown, "")
}

#[test]
fn elements_are_read_as_a_browser_does() {
    let page = "<p class=\"<b>\">x</p><style>a < b</style><i title='y'>";
    assert_eq!(elements(page), ["p class=\"\"", "/p", "style", "/style", "i title=''"]);
}
