//! Text that is harmless where it goes, as a type.
//!
//! Text that is not trusted is a `String`, and stays one until it is [`Shown`] in a medium: the terminal, Markdown, HTML or JSON. Only
//! this module makes a `Shown`, from rdiag's own words or by escaping, and everything that writes takes a [`Piece`] of the
//! same medium. So a field that is not escaped is a compile error:
//!
//! ```
//! use rdiag_report::shown::{Markdown, Shown, Terminal};
//! let name = String::from("\u{1b}[2J");
//! let mut text = Shown::<Terminal>::seen(&name);
//! text.push(" is the name");
//! assert_eq!(&*text, "\\x1b[2J is the name");
//! ```
//!
//! A name as it is, or a text that was escaped for something else, does not compile:
//!
//! ```compile_fail,E0277
//! # use rdiag_report::shown::{Markdown, Shown, Terminal};
//! # let name = String::from("\u{1b}[2J");
//! # let mut text = Shown::<Terminal>::seen(&name);
//! text.push(name.clone());
//! ```
//!
//! ```compile_fail,E0597
//! # use rdiag_report::shown::{Markdown, Shown, Terminal};
//! # let name = String::from("\u{1b}[2J");
//! # let mut text = Shown::<Terminal>::seen(&name);
//! text.push(name.as_str());
//! ```
//!
//! ```compile_fail,E0277
//! # use rdiag_report::shown::{Markdown, Shown, Terminal};
//! # let name = String::from("\u{1b}[2J");
//! # let mut text = Shown::<Terminal>::seen(&name);
//! text.push(Shown::<Markdown>::text(&name));
//! ```
//!
//! [`shown!`](macro@crate::shown) fills in a sentence as `format!` does. Its own text can name no variable:
//!
//! ```
//! # use rdiag_report::shown::{Shown, Terminal};
//! let text: Shown<Terminal> = rdiag_report::shown!("{:>4} of {}", 3, Shown::<Terminal>::seen("x\n"));
//! assert_eq!(&*text, "   3 of x\\n");
//! ```
//!
//! ```compile_fail
//! # use rdiag_report::shown::{Shown, Terminal};
//! let name = String::from("x");
//! let text: Shown<Terminal> = rdiag_report::shown!("{name}");
//! ```
//!
//! ```compile_fail,E0277
//! # use rdiag_report::shown::{Shown, Terminal};
//! let name = String::from("x");
//! let text: Shown<Terminal> = rdiag_report::shown!("{}", name);
//! ```

mod html;
mod json;
mod markdown;
mod page;
mod piece;
mod terminal;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

pub(super) use self::page::Pages;
pub use json::{json, json_line};
pub use piece::Piece;

/// A terminal, or a file of plain lines that is looked at on one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terminal;

/// CommonMark with tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Markdown;

/// A page, a part of one, or a picture (SVG), which is escaped in the same way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Html;

/// JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Json;

/// A document as a whole, in whatever format was asked for: nothing can be put into it any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole;

/// Text in which nothing acts in the medium `M` but what rdiag itself put there.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown<M> {
    text: String,
    medium: PhantomData<M>,
}

impl<M> Shown<M> {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::made(String::new())
    }

    /// Only for this module's own parts, each of which says why the text is harmless.
    fn made(text: String) -> Self {
        Self { text, medium: PhantomData }
    }

    /// Words of rdiag, a number, or what is shown already.
    #[must_use]
    pub fn of<'p>(piece: impl Into<Piece<'p, M>>) -> Self {
        let mut out = Self::new();
        out.push(piece);
        out
    }

    /// A sentence of rdiag with pieces in the places of `{}`, `{:>9}`, `{:<9}` and `{:.1}`, which mean what they mean in `format!`.
    /// [`shown!`](macro@crate::shown) sees that there are as many places as pieces.
    #[must_use]
    pub fn filled<const N: usize>(sentence: &'static str, pieces: [Piece<'_, M>; N]) -> Self {
        Self::made(piece::fill(sentence, &pieces))
    }

    /// So many of rdiag's own marks, one after the other.
    #[must_use]
    pub fn repeated(mark: &'static str, times: usize) -> Self {
        Self::made(mark.repeat(times))
    }

    /// All of them, with words of rdiag between any two.
    #[must_use]
    pub fn joined(all: impl IntoIterator<Item = Self>, between: &'static str) -> Self {
        let mut out = Self::new();
        for (at, one) in all.into_iter().enumerate() {
            if at > 0 {
                out.push(between);
            }
            out.push(&one);
        }
        out
    }

    /// Adds a piece at the end.
    pub fn push<'p>(&mut self, piece: impl Into<Piece<'p, M>>) {
        piece.into().put(&mut self.text, "");
    }

    /// As a document that is ready to be written.
    #[must_use]
    pub fn whole(self) -> Shown<Whole> {
        Shown::made(self.text)
    }

    /// Without white space at the end.
    #[must_use]
    pub fn trimmed_end(mut self) -> Self {
        self.text.truncate(self.text.trim_end().len());
        self
    }
}

impl<M> FromIterator<Self> for Shown<M> {
    fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
        Self::joined(all, "")
    }
}

impl<M> Deref for Shown<M> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<M> fmt::Display for Shown<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl<M> AsRef<str> for Shown<M> {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl<M> PartialEq<&str> for Shown<M> {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl<M> fmt::Debug for Shown<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// A sentence of rdiag in which every piece is a [`Piece`] of the medium: its own words, numbers, and what was escaped for it.
#[macro_export]
macro_rules! shown {
    ($sentence:literal $(, $piece:expr)* $(,)?) => {{
        // Counts the places. A sentence that comes from a macro can take no variable from around it.
        if false {
            let _ = ::std::format_args!(::std::concat!($sentence) $(, ::std::stringify!($piece))*);
        }
        $crate::shown::Shown::filled(
            $sentence,
            [$($crate::shown::Piece::from($piece)),*],
        )
    }};
}
