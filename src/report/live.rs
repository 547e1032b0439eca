//! Events on the terminal, as they come.

use unicode_width::UnicodeWidthStr as _;

use super::probe::{EVENT, Text, below, cells, headings, limits, line, output_text, table_text};
use crate::shown;
use crate::terminal::Style;
use rdiag_model::probe::{Cell, Output, ProbeResult, ProbeTable, Row};
use rdiag_model::{Unit, quantity};

/// Events as they come: the heading once, then lines.
#[derive(Debug, Default)]
pub struct Live {
    widths: Vec<usize>,
    has_heading: bool,
    /// Tables of counts, summed up over all readings.
    counts: Vec<ProbeTable>,
    /// Events that were counted and not shown.
    others: u64,
}

impl Live {
    /// The events of a reading, with the heading if it is the first one that has any.
    #[must_use]
    pub fn events(&mut self, result: &ProbeResult, style: &Style) -> Text {
        let mut out = Text::new();
        for output in &result.outputs {
            let Output::Events(table) = output else { continue };
            self.others = self.others.saturating_add(table.others);
            let rows = cells(table, EVENT);
            let headings = headings(table);
            self.widths.resize(headings.len(), 0);
            for row in rows.iter().chain([&headings]) {
                for (width, cell) in self.widths.iter_mut().zip(row) {
                    *width = (*width).max(cell.width());
                }
            }
            // The first readings may well be empty.
            if !rows.is_empty() && !std::mem::replace(&mut self.has_heading, true) {
                out.push(line(&headings, &self.widths, table));
            }
            for (row, shown) in table.rows.iter().zip(&rows) {
                out.push(line(shown, &self.widths, table));
                out.push(below(row));
            }
        }
        for output in &result.outputs {
            if let Output::Table(table) = output {
                self.count(table);
            }
            if let Output::Stacks(stacks) = output
                && !stacks.stacks.is_empty()
            {
                out.push(output_text(output, style));
            }
        }
        out.push(limits(result));
        out
    }

    /// What there was of each kind, when all is over; nothing for probes that count nothing beside the events.
    #[must_use]
    pub fn end(&self) -> Text {
        let text = |table: &ProbeTable| {
            let mut table = table.clone();
            let largest = |row: &Row| row.cells.iter().find_map(Cell::number).unwrap_or(0.0);
            table.rows.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
            shown!("\n{}\n\n{}", Text::seen(&table.title), table_text(&table))
        };
        let others = match self.others {
            0 => Text::new(),
            others => shown!("note: {} more events are not shown\n", Text::seen(quantity::number(others as f64))),
        };
        [others].into_iter().chain(self.counts.iter().map(text)).collect()
    }

    /// Adds a table, if all its numbers are counts: other figures of several readings may not be summed up.
    fn count(&mut self, table: &ProbeTable) {
        if !table.columns.iter().all(|column| matches!(column.unit, None | Some(Unit::Count))) {
            return;
        }
        let Some(sums) = self.counts.iter_mut().find(|sums| sums.id == table.id) else {
            return self.counts.push(table.clone());
        };
        for row in &table.rows {
            let Some(sum) = sums.rows.iter_mut().find(|sum| sum.instance == row.instance) else {
                sums.rows.push(row.clone());
                continue;
            };
            for (cell, more) in sum.cells.iter_mut().zip(&row.cells) {
                if let (Cell::Number(sum), Cell::Number(more)) = (cell, more) {
                    *sum += more;
                }
            }
        }
    }
}
