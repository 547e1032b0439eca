//! Names in sentences, which may be as long as their owners want.

/// Longest name in a sentence.
const NAME: usize = 60;

/// A name, or its beginning.
pub(super) fn cut(name: &str) -> String {
    let short: String = name.chars().take(NAME).collect();
    if short.len() < name.len() { format!("{short}…") } else { short }
}
