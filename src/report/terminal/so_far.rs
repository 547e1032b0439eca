//! What can be said while the window runs: the cells of the matrix in which something fired, and each problem in a line. Provisional
//! until the end.

use std::collections::BTreeMap;

use super::super::{matrix, order, words};
use super::{NARROW, Page, Style, Text, seen};
use crate::shown;
use rdiag_model::report::MatrixRow;
use rdiag_model::{Finding, Status};

/// What would follow if the window ended here, as lines below a progress bar.
#[must_use]
pub fn so_far(mut findings: Vec<Finding>, seconds: f64, style: &Style) -> Text {
    order::sort(&mut findings, &BTreeMap::new());
    let rows = matrix::rows(&findings);
    let fired = |row: &MatrixRow| row.cells.iter().any(|cell| cell.status.is_some_and(Status::fired));
    let (loud, quiet): (Vec<MatrixRow>, Vec<MatrixRow>) = rows.into_iter().partition(fired);
    let mut page = Page::new(&Style { width: style.width.max(NARROW), color: false, ..*style });
    page.line(shown!("After {:.0} s, provisional until the end:", seconds), 0, super::Paint::None);
    if !loud.is_empty() {
        page.matrix_of(&loud);
    }
    let is_ok = |row: &&MatrixRow| row.cells.iter().any(|cell| cell.judged > 0);
    let names: Vec<Text> = quiet.iter().filter(is_ok).map(|row| Text::of(words::resource(row.resource))).collect();
    if !names.is_empty() {
        page.line(shown!("ok so far: {}", Text::joined(names, ", ")), 0, super::Paint::None);
    }
    page.done().trimmed_end()
}

/// A problem in one line: when, how bad, what, of which instance, how much.
#[must_use]
pub fn so_far_line(finding: &Finding, seconds: f64) -> Text {
    let [id, value] = [words::full_id(finding), words::value(finding)].map(Text::seen);
    shown!("  {:.0} s  {:<8}  {} · {} {}", seconds, finding.status.word(), seen(&finding.title), id, value)
}
