//! Text for pages and pictures: what is not trusted is no element and no attribute.

use minijinja::Value;
use serde::{Serialize, Serializer};

use super::{Html, Shown};
use crate::escape::{html, visible, visible_within};

impl Shown<Html> {
    /// A text between tags or in a quoted attribute.
    #[must_use]
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::made(html(&visible(text.as_ref())))
    }

    /// The same, cut after `most` characters.
    #[must_use]
    pub fn text_within(text: impl AsRef<str>, most: usize) -> Self {
        Self::made(html(&visible_within(text.as_ref(), most)))
    }

    /// As a value of a template.
    #[must_use]
    pub(crate) fn value(&self) -> Value {
        Value::from_safe_string(self.text.clone())
    }
}

/// To the templates this, and nothing else, is markup.
impl Serialize for Shown<Html> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
