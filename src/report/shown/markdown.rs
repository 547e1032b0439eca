//! Text for Markdown: what is not trusted is no markup.

use super::{Markdown, Shown};
use crate::escape::{markdown, markdown_code, visible, visible_within};

impl Shown<Markdown> {
    /// A name or a sentence with names in it: nothing in it is markup, a mention or a link.
    #[must_use]
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::made(markdown(text.as_ref()))
    }

    /// The same, cut after `most` characters.
    #[must_use]
    pub fn text_within(text: impl AsRef<str>, most: usize) -> Self {
        Self::text(visible_within(text.as_ref(), most))
    }

    /// A figure with its unit, as it is if it is one: letters and digits, `.`, `%`, `±`, `µ`, and `<` before a digit.
    #[must_use]
    pub fn figure(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let rest = text.strip_prefix('<').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).unwrap_or(text);
        let of_figures = |c: char| c.is_ascii_alphanumeric() || " .%/±µ".contains(c);
        if rest.starts_with(char::is_alphanumeric) && rest.chars().all(of_figures) {
            return Self::made(text.to_owned());
        }
        Self::text(text)
    }

    /// As code; in a table, `|` cannot stand in it.
    #[must_use]
    pub fn code(text: impl AsRef<str>) -> Self {
        Self::made(markdown_code(text.as_ref()))
    }

    /// One line of a block of code that is indented by four blanks, which it ends with its line.
    #[must_use]
    pub fn indented_code(line: impl AsRef<str>) -> Self {
        Self::made(format!("    {}\n", visible(line.as_ref())))
    }

    /// One line, without its end, of a block of code between two lines of three backquotes; a line that would end the block is none of it.
    #[must_use]
    pub fn fenced_code(line: impl AsRef<str>) -> Self {
        Self::made(visible(line.as_ref()).replace('`', "'"))
    }

    /// With blanks behind it, up to so many columns.
    #[must_use]
    pub(crate) fn padded(mut self, width: usize) -> Self {
        use unicode_width::UnicodeWidthStr as _;
        let missing = width.saturating_sub(self.width());
        self.text.extend(std::iter::repeat_n(' ', missing));
        self
    }
}
