//! What Method R says of the components of a task's time, read from the file that is part of the program.

use std::sync::LazyLock;

use super::{Problem, builtin, load};
use rdiag_judge::profile::AdviceBook;

static BOOK: LazyLock<Result<AdviceBook, Problem>> =
    LazyLock::new(|| load::parse(builtin::ADVICE.0, builtin::ADVICE.1));

/// The advice on all components.
#[must_use]
pub fn book() -> &'static AdviceBook {
    static NONE: LazyLock<AdviceBook> = LazyLock::new(AdviceBook::default);
    BOOK.as_ref().unwrap_or(&NONE)
}

/// Why the file cannot be read.
#[must_use]
pub fn unreadable() -> Option<Problem> {
    BOOK.as_ref().err().cloned()
}

/// A place in the file.
#[must_use]
pub fn problem(token: &str, message: String) -> Problem {
    let (file, text) = builtin::ADVICE;
    // Where it is a key: its word may stand in a sentence before.
    let key = [format!("\n  {token}:"), format!("\n{token}:")].iter().find_map(|key| text.find(key));
    Problem::at(file, text, key.unwrap_or(0), token, message)
}
