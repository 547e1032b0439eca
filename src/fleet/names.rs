//! Each name once: thousands of hosts have the same rules, metrics and facts.

use std::collections::HashMap;
use std::rc::Rc;

/// Longest name that is kept, in bytes: the sender of a recording chose it.
const LONGEST: usize = 400;

/// Names by number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Rc<str>, u32>,
    all: Vec<Rc<str>>,
}

impl Names {
    /// The number of a name.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        let name = cut(name);
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let (number, name) = (u32::try_from(self.all.len()).unwrap_or(u32::MAX), Rc::from(name));
        self.all.push(Rc::clone(&name));
        self.numbers.insert(name, number);
        number
    }

    /// The number of a name that was met.
    pub(crate) fn known(&self, name: &str) -> Option<u32> {
        self.numbers.get(cut(name)).copied()
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: u32) -> &str {
        self.all.get(number as usize).map_or("", |name| name)
    }
}

/// The beginning of a text, without half a character at its end.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
