//! Waits on the page: how long they were, who ended them, in which code they were.

use serde::Serialize;

use crate::shown::{Html, Shown};
use crate::spread::{self, Axis};
use crate::words::counted;
use crate::{flame, wait_words as words};
use rdiag_model::Profile;
use rdiag_model::profile::ComponentRow;
use rdiag_model::quantity::seconds;

/// Distributions side by side.
const MAX_SPREADS: usize = 6;
/// Fewer waits than this need no picture.
const LEAST: u64 = 10;

/// A figure for each large component that has waits of several lengths.
#[derive(Serialize)]
pub(super) struct Spreads {
    lead: &'static str,
    all: Vec<Spread>,
}

#[derive(Serialize)]
struct Spread {
    id: &'static str,
    caption: String,
    svg: Shown<Html>,
}

impl Spreads {
    pub(super) fn of(described: &[&ComponentRow]) -> Option<Self> {
        let shown = || {
            let all =
                described.iter().filter(|row| row.bins.len() > 1 && row.count.is_some_and(|count| count >= LEAST));
            all.take(MAX_SPREADS)
        };
        let axis = Axis::over(shown().map(|row| row.bins.as_slice()))?;
        let spread = |row: &&ComponentRow| Spread {
            id: row.id.id(),
            caption: format!(
                "{}: {}, {} on average, {} at most",
                row.title,
                counted(row.count.unwrap_or(0), "time", "times"),
                seconds(row.mean.unwrap_or(0.0)),
                seconds(row.max.unwrap_or(0.0))
            ),
            svg: spread::picture(&row.bins, axis),
        };
        Some(Self { lead: words::LENGTHS, all: shown().map(spread).collect() })
    }
}

/// Waker chains.
#[derive(Serialize)]
pub(super) struct Chains {
    lead: &'static str,
    all: Vec<Vec<String>>,
}

impl Chains {
    pub(super) fn of(profile: &Profile, most: usize) -> Option<Self> {
        let all: Vec<Vec<String>> = profile.chains.iter().take(most).map(words::chain).collect();
        (!all.is_empty()).then_some(Self { lead: words::CHAINS, all })
    }
}

/// The code in which threads ran and waited.
#[derive(Serialize)]
pub(super) struct Code {
    lead: String,
    flame: Shown<Html>,
}

impl Code {
    pub(super) fn of(profile: &Profile) -> Option<Self> {
        let flame = flame::waits(profile.stacks.as_ref()?)?;
        Some(Self { lead: words::with_stacks(profile).unwrap_or_default(), flame })
    }

    /// Bytes of the picture.
    pub(super) fn len(&self) -> usize {
        self.flame.len()
    }
}
