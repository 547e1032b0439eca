//! Tables on the page, whatever they are of.

use serde::Serialize;

/// A table.
#[derive(Serialize)]
pub(super) struct TableView {
    pub(super) title: String,
    pub(super) head: Vec<Head>,
    pub(super) rows: Vec<Vec<CellView>>,
    /// What is left out of it.
    pub(super) others: String,
}

/// The head of a column.
#[derive(Serialize)]
pub(super) struct Head {
    pub(super) title: String,
    pub(super) number: bool,
}

/// A cell: numbers stand to the right.
#[derive(Serialize)]
pub(super) struct CellView {
    pub(super) text: String,
    pub(super) number: bool,
}

/// A table whose first `texts` columns are words, and the others figures.
pub(super) fn table(title: &str, heads: &[&str], texts: usize, rows: Vec<Vec<CellView>>) -> TableView {
    let head = heads.iter().enumerate().map(|(at, title)| Head { title: (*title).to_owned(), number: at >= texts });
    TableView { title: title.to_owned(), head: head.collect(), rows, others: String::new() }
}

/// Words.
pub(super) fn text(text: String) -> CellView {
    CellView { text, number: false }
}

/// A figure.
pub(super) fn figure(text: String) -> CellView {
    CellView { text, number: true }
}
