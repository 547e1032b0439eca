//! The window that metrics are computed of, so that series are found by name.

use std::collections::{BTreeMap, HashMap};

use rdiag_model::Facts;
use rdiag_model::recording::{CollectorRecord, Series, Window};

/// The series of a window by name, with the record that each belongs to.
pub(super) struct Table<'w> {
    pub(super) series: BTreeMap<&'w str, Vec<(&'w CollectorRecord, &'w Series)>>,
    /// The same by name and instance: to search the list for each instance would cost the square of their number.
    pub(super) places: HashMap<(&'w str, &'w str), (&'w CollectorRecord, &'w Series)>,
    pub(super) window: &'w Window,
    pub(super) facts: &'w Facts,
}

impl<'w> Table<'w> {
    /// The series of one instance; "" is the whole host.
    pub(super) fn one(&self, series: &str, instance: &str) -> Option<(&'w CollectorRecord, &'w Series)> {
        self.places.get(&(series, instance)).copied()
    }
}

/// How many intervals a window has; an interrupted one may have less than it was meant to.
pub(super) fn intervals(window: &Window) -> usize {
    if window.interval_seconds <= 0.0 {
        return 1;
    }
    ((window.seconds / window.interval_seconds).round() as usize).clamp(1, 100_000)
}
