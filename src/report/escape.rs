//! Names made harmless: any local user can choose the name of a process, a file or a control group.
//!
//! Two layers. [`visible`] comes first, in every medium: what has no glyph of its own (control characters, escape
//! sequences, marks that reorder text, zero-width characters) is spelled out. What the medium itself would take for
//! markup is escaped after that: HTML by the template engine, Markdown by [`markdown`].

use std::borrow::Cow;
use std::io;

use serde_json::ser::Formatter;

/// Longest name, line or sentence that is shown to people, in characters. The JSON has it in full.
const MAX_SHOWN: usize = 1500;

/// Whether a character would act on the text around it instead of being seen.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}' | '\u{e0000}'..='\u{e0fff}')
}

/// One line of text in which every character is seen: hidden ones are written as `\n`, `\x1b` or `\u{202e}`. Text too
/// long to be read is cut, and says so.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    visible_within(text, MAX_SHOWN)
}

/// As [`visible`], cut after `most` characters.
#[must_use]
pub fn visible_within(text: &str, most: usize) -> Cow<'_, str> {
    let mut end = text.len();
    let mut cut = false;
    if let Some((at, _)) = text.char_indices().nth(most) {
        end = at;
        cut = true;
    }
    let shown = text.get(..end).unwrap_or_default();
    if !cut && !shown.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(shown.len() + 16);
    for c in shown.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii() && is_hidden(c) => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if is_hidden(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    if cut {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Text of several lines on its way to a terminal, from whatever it was put together: no character in it moves the cursor, clears the
/// screen or talks to the terminal. Colours (`ESC [ … m`) stay if they are wanted. Names in it were escaped before; this is the last door.
#[must_use]
pub fn for_terminal(text: &str, colours: bool) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    // The last 32 control characters begin with the byte 0xc2. Most long texts (JSON) have none of these bytes, which are found faster.
    let may_act = |byte: u8| (byte < b' ' && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2;
    if !text.bytes().any(may_act) || !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(acts) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let colour = colour_at(from).filter(|_| colours);
        let mut chars = from.chars();
        let c = chars.next().unwrap_or_default();
        match colour {
            Some(colour) => out.push_str(colour),
            None => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
        }
        rest = from.get(colour.map_or(c.len_utf8(), str::len)..).unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The sequence that sets a colour or weight, if the text begins with one.
fn colour_at(text: &str) -> Option<&str> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';').filter(|end| *end < 20)?;
    codes.get(end..)?.starts_with('m').then(|| text.get(..end + 3)).flatten()
}

/// Text as it stands between HTML tags or in a quoted attribute. The templates do this by themselves.
#[must_use]
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Text as it stands in a line of Markdown: nothing in it is markup, a mention or a link.
#[must_use]
pub fn markdown(text: &str) -> String {
    let text = visible(text.trim());
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let word_before = before.is_some_and(char::is_alphanumeric);
        match c {
            // Entities, not backslashes: a table splits at `\|` in some dialects, and `<` must survive raw-HTML filters.
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' => out.push_str("&#124;"),
            // In some dialects a heading may end in attributes in braces.
            '}' if chars.peek().is_none() => out.push_str("&#125;"),
            // A mention or a reference that a ticket system would act upon: an invisible space breaks it.
            '@' => out.push_str("@\u{200b}"),
            '#' => out.push_str("&#35;\u{200b}"),
            '_' if word_before => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            // Not the start of a list, a heading or a line under one, and no bare link.
            '-' | '+' | '=' | '!' if before.is_none() => {
                out.push('\\');
                out.push(c);
            }
            ':' if ends_with_scheme(&out) => out.push_str(":\u{200b}"),
            '.' if out.ends_with("www") => out.push_str(".\u{200b}"),
            // A number, a period and a space would begin a list.
            '.' | ')'
                if chars.peek().is_none_or(|c| c.is_whitespace())
                    && !out.is_empty()
                    && out.chars().all(|c| c.is_ascii_digit()) =>
            {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = Some(c);
    }
    out
}

fn ends_with_scheme(text: &str) -> bool {
    ["http", "https", "ftp", "mailto", "xmpp"].iter().any(|scheme| text.to_ascii_lowercase().ends_with(scheme))
}

/// Text as Markdown code: the fence is longer than any run of backquotes within. In a table, `|` cannot stand in code.
#[must_use]
pub fn markdown_code(text: &str) -> String {
    let text = visible(text);
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 || text.is_empty() || text.starts_with(' ') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// JSON in which hidden characters are escaped too: it is read in terminals.
pub(super) struct VisibleJson<F>(pub(super) F);

impl<F: Formatter> Formatter for VisibleJson<F> {
    fn begin_array<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.begin_array(w)
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_array(w)
    }
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(w, first)
    }
    fn end_array_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_array_value(w)
    }
    fn begin_object<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.begin_object(w)
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_object(w)
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(w, first)
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.begin_object_value(w)
    }
    fn end_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.0.end_object_value(w)
    }
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, w: &mut W, fragment: &str) -> io::Result<()> {
        if !fragment.contains(is_hidden) {
            return w.write_all(fragment.as_bytes());
        }
        let mut units = [0; 2];
        let mut bytes = [0; 4];
        for c in fragment.chars() {
            if is_hidden(c) {
                for unit in c.encode_utf16(&mut units) {
                    write!(w, "\\u{unit:04x}")?;
                }
            } else {
                w.write_all(c.encode_utf8(&mut bytes).as_bytes())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_reach_a_terminal_and_only_if_they_are_wanted() {
        let text =
            "\u{1b}[1;31mred\u{1b}[0m\tx\n\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}5A\r\u{1b}[31\u{1b}[99999999999999999999m";
        let seen = "\\x1b[2J\\x1b]0;title\\x07\\x9b5A\\x0d\\x1b[31\\x1b[99999999999999999999m";
        assert_eq!(for_terminal(text, true), format!("\u{1b}[1;31mred\u{1b}[0m\tx\n{seen}"));
        assert_eq!(for_terminal(text, false), format!("\\x1b[1;31mred\\x1b[0m\tx\n{seen}"));
        assert!(matches!(for_terminal("a\tb\n", false), Cow::Borrowed(_)));
    }
}
