//! Text for terminals: every character is seen, and only rdiag colours.

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr as _;

use super::{Shown, Terminal};
use crate::escape::{visible, visible_within};

impl Shown<Terminal> {
    /// A name, a sentence with names in it, a figure: one line, in which every character is seen.
    #[must_use]
    pub fn seen(text: impl AsRef<str>) -> Self {
        Self::made(visible(text.as_ref()).into_owned())
    }

    /// The same, cut after `most` characters.
    #[must_use]
    pub fn seen_within(text: impl AsRef<str>, most: usize) -> Self {
        Self::made(visible_within(text.as_ref(), most).into_owned())
    }

    /// A text of several lines that rdiag laid out. In each every character but tabs is seen; the caller who inserts a name makes it
    /// one line before, by `{:?}` or [`Self::seen`].
    #[must_use]
    pub fn lines(text: impl AsRef<str>) -> Self {
        let mut out = String::with_capacity(text.as_ref().len());
        for line in text.as_ref().split_inclusive(['\n', '\t']) {
            let end = line.len() - usize::from(line.ends_with(['\n', '\t']));
            let (line, end) = line.split_at(end);
            out.push_str(&visible_within(line, usize::MAX));
            out.push_str(end);
        }
        Self::made(out)
    }

    /// The same in a colour or weight: `code` is what stands between `ESC [` and `m`.
    #[must_use]
    pub fn painted(&self, code: &'static str) -> Self {
        Self::made(format!("\x1b[{code}m{self}\x1b[0m"))
    }

    /// With blanks behind it, up to so many columns.
    #[must_use]
    pub fn padded(mut self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.text.extend(std::iter::repeat_n(' ', missing));
        self
    }

    /// Its first characters.
    #[must_use]
    pub fn cut(&self, most: usize) -> Self {
        Self::made(self.chars().take(most).collect())
    }

    /// Broken into lines of at most so many columns, of which the first begins at the column `first` and the others at `rest`; the
    /// blanks up to there are left out.
    #[must_use]
    pub fn wrapped(&self, width: usize, first: usize, rest: usize) -> Vec<Self> {
        self.broken(width, first, rest, WordSplitter::NoHyphenation)
    }

    /// The same, with words broken at their hyphens.
    #[must_use]
    pub fn wrapped_at_hyphens(&self, width: usize, first: usize, rest: usize) -> Vec<Self> {
        self.broken(width, first, rest, WordSplitter::HyphenSplitter)
    }

    fn broken(&self, width: usize, first: usize, rest: usize, words: WordSplitter) -> Vec<Self> {
        let (first, rest) = (" ".repeat(first), " ".repeat(rest));
        let options = Options::new(width).initial_indent(&first).subsequent_indent(&rest).word_splitter(words);
        let lines = textwrap::wrap(self, options).into_iter().enumerate();
        let unindented = lines.map(|(at, line)| {
            let indent = if at == 0 { &first } else { &rest };
            Self::made(line.strip_prefix(indent.as_str()).unwrap_or(line.trim_start()).to_owned())
        });
        unindented.collect()
    }

    /// For terminals without UTF-8: our own signs have ASCII forms, everything else is spelled out.
    #[must_use]
    pub fn ascii(&self) -> Self {
        let mut out = String::with_capacity(self.len());
        for c in self.chars() {
            match c {
                c if c.is_ascii() => out.push(c),
                '—' | '–' => out.push('-'),
                '…' => out.push_str("..."),
                '·' => out.push('|'),
                '→' => out.push_str("->"),
                'µ' => out.push('u'),
                '×' => out.push('x'),
                '≥' => out.push_str(">="),
                '≤' => out.push_str("<="),
                '’' => out.push('\''),
                c => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            }
        }
        Self::made(out)
    }
}
