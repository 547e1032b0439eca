//! Text for pages and pictures: what a stranger chose is no element and no attribute.

use minijinja::Value;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea as _, SVGBackend};
use serde::{Serialize, Serializer};

use super::{Html, Shown};
use crate::report::escape::{html, visible, visible_within};

/// What plotters draws on.
pub(in crate::report) type Canvas<'c> = DrawingArea<SVGBackend<'c>, Shift>;

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

    /// What plotters writes, which escapes the texts that it is given to draw.
    pub(in crate::report) fn plotted<E>(
        size: (u32, u32),
        draw: impl FnOnce(&Canvas<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut svg = String::new();
        {
            let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            draw(&canvas)?;
        }
        Ok(Self::made(svg))
    }

    /// As a value of a template.
    #[must_use]
    pub(in crate::report) fn value(&self) -> Value {
        Value::from_safe_string(self.text.clone())
    }

    /// With rdiag's own markup in the place of markup that plotters wrote.
    #[must_use]
    pub(in crate::report) fn replaced(mut self, markup: &'static str, own: &'static str) -> Self {
        self.text = self.text.replace(markup, own);
        self
    }
}

/// To the templates this, and nothing else, is markup.
impl Serialize for Shown<Html> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
