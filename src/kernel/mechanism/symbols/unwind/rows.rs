//! Rows that are known, by file and place.

use std::collections::{BTreeMap, HashMap};

use super::row::Row;
use crate::mechanism::symbols::open::Identity;

/// So many are remembered; then all are forgotten, as after an hour on a host where programs come and go.
const MAX: usize = 50_000;
/// And so many rules of theirs: a row has five at most, but for those of signal handlers.
const MAX_RULES: usize = 8 * MAX;

/// Rows by file, each at the place where it begins.
#[derive(Debug, Default)]
pub(in super::super) struct Rows {
    files: HashMap<Identity, BTreeMap<u64, Known>>,
    count: usize,
    rules: usize,
}

#[derive(Debug)]
struct Known {
    end: u64,
    row: Option<Row>,
}

impl Rows {
    /// The row for a place, or that there is none; nothing if it is not known yet.
    pub(super) fn find(&self, file: &Identity, offset: u64) -> Option<Option<&Row>> {
        let (_, known) = self.files.get(file)?.range(..=offset).next_back()?;
        (offset < known.end).then_some(known.row.as_ref())
    }

    /// Remembers the row for a place.
    pub(in super::super) fn keep(&mut self, file: &Identity, offset: u64, mut row: Option<Row>) {
        if self.count >= MAX || self.rules >= MAX_RULES {
            *self = Self::default();
        }
        row.iter_mut().for_each(|row| row.rules.shrink_to_fit());
        self.rules += row.as_ref().map_or(0, |row| row.rules.len());
        let (before, after) = row.as_ref().map_or((0, 1), |row| (row.before, row.after.max(1)));
        let known = Known { end: offset.saturating_add(after), row };
        let rows = self.files.entry(file.clone()).or_default();
        rows.insert(offset.saturating_sub(before), known);
        // A file whose rows overlap could hide the one that was just told.
        let hides = |(at, _): (&u64, &Known)| *at != offset.saturating_sub(before);
        let hiding: Vec<u64> = rows
            .range(offset.saturating_sub(before)..=offset)
            .filter(|found| hides(*found))
            .map(|(at, _)| *at)
            .collect();
        hiding.iter().for_each(|at| drop(rows.remove(at)));
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{Base, Rule, Value};
    use super::*;

    #[test]
    fn rows_with_many_rules_are_forgotten_sooner() {
        let file = Identity::numbered(1);
        let frame = Value { base: Base::Frame, offset: 0, loaded: None };
        let rules = vec![(0, Rule::Gone); 32];
        let row = Row { before: 0, after: 1, frame, returns: 16, rules, is_signal: false };
        let mut rows = Rows::default();
        let most = MAX_RULES as u64 / 32;
        (0..most).for_each(|offset| rows.keep(&file, offset, Some(row.clone())));
        assert!(rows.find(&file, 0).is_some());
        rows.keep(&file, most, Some(row));
        assert!(rows.find(&file, 0).is_none() && rows.find(&file, most).is_some());
    }

    #[test]
    fn a_row_holds_for_its_range_and_one_that_overlaps_hides_none() {
        let file = Identity::numbered(1);
        let frame = Value { base: Base::Frame, offset: 0, loaded: None };
        let row = |before, after| Row { before, after, frame, returns: 16, rules: Vec::new(), is_signal: false };
        let mut rows = Rows::default();
        rows.keep(&file, 100, Some(row(10, 5)));
        rows.keep(&file, 200, None);
        for (offset, found) in
            [(89, None), (90, Some(true)), (104, Some(true)), (105, None), (200, Some(false)), (201, None)]
        {
            assert_eq!(rows.find(&file, offset).map(|row| row.is_some()), found, "{offset}");
        }
        assert_eq!(rows.find(&Identity::numbered(2), 100), None);
        let wide = row(50, 50);
        rows.keep(&file, 110, Some(wide.clone()));
        assert_eq!(rows.find(&file, 110), Some(Some(&wide)));
        assert_eq!(rows.find(&file, 100), Some(Some(&wide)));
    }
}
