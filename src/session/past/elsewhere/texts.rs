//! Texts of a file, each of them kept once.

use std::collections::HashMap;

/// Characters of a text.
const MAX_TEXT: usize = 1024;
/// No text.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Texts {
    all: Vec<String>,
    index: HashMap<String, u32>,
}

impl Texts {
    /// The number of a text; what is longer than texts are is cut off.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let text: String = text.chars().take(MAX_TEXT).collect();
        let next = u32::try_from(self.all.len()).unwrap_or(NONE);
        *self.index.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            next
        })
    }

    pub(super) fn get(&self, number: u32) -> &str {
        usize::try_from(number).ok().and_then(|number| self.all.get(number)).map_or("", String::as_str)
    }
}
