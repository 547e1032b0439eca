//! Tables, declared: each column stands with what fills it, and with whether it is summed up over the rows that are left out.

use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column, ProbeTable, Row};

/// What a table of rows made of `R` shows. What does not depend on `R` stands in functions of its own, so that there is one of each and
/// not one for each table.
pub(crate) struct TableSpec<'c, R> {
    /// Without rows.
    table: ProbeTable,
    instance: Box<dyn Fn(&R) -> String + 'c>,
    /// Of each column: what fills it, and whether it is summed up.
    cells: Vec<(Box<dyn Fn(&R) -> Cell + 'c>, bool)>,
}

impl<'c, R: 'c> TableSpec<'c, R> {
    /// A table without columns so far, of rows that have no name: events.
    pub(crate) fn new(id: &'static str, title: impl Into<String>) -> Self {
        let table = ProbeTable { id: id.to_owned(), title: title.into(), ..ProbeTable::default() };
        Self { table, instance: Box::new(|_| String::new()), cells: Vec::new() }
    }

    /// What a row is one of (`process`), and its name, which no other row has.
    pub(crate) fn rows(mut self, dimension: &'static str, instance: impl Fn(&R) -> String + 'c) -> Self {
        self.table.dimension = Some(dimension.to_owned());
        self.named(instance)
    }

    /// The name of a row, in a table whose rows are of nothing that has one.
    pub(crate) fn named(mut self, instance: impl Fn(&R) -> String + 'c) -> Self {
        self.instance = Box::new(instance);
        self
    }

    /// A column of text, not known where there is none.
    pub(crate) fn text<T: Into<Option<String>>>(
        self,
        id: &str,
        title: &str,
        text: impl Fn(&R) -> T + 'c,
    ) -> Self {
        self.column(Column::text(id, title), Box::new(move |row| text_cell(text(row).into())), false)
    }

    /// A column of numbers in base units that mean nothing when they are added: the longest, a mean.
    pub(crate) fn number<N: Into<Option<f64>>>(
        self,
        id: &str,
        title: &str,
        unit: Unit,
        number: impl Fn(&R) -> N + 'c,
    ) -> Self {
        self.column(Column::number(id, title, unit), Box::new(move |row| number_cell(number(row).into())), false)
    }

    /// A column of numbers that are summed up over rows that are left out.
    pub(crate) fn sum<N: Into<Option<f64>>>(
        self,
        id: &str,
        title: &str,
        unit: Unit,
        number: impl Fn(&R) -> N + 'c,
    ) -> Self {
        self.column(Column::number(id, title, unit), Box::new(move |row| number_cell(number(row).into())), true)
    }

    fn column(mut self, column: Column, cell: Box<dyn Fn(&R) -> Cell + 'c>, is_summed: bool) -> Self {
        self.table.columns.push(column);
        self.cells.push((cell, is_summed));
        self
    }

    /// The table without rows.
    pub(crate) fn empty(&self) -> ProbeTable {
        self.table.clone()
    }

    /// The table of all rows.
    pub(crate) fn all(&self, rows: impl IntoIterator<Item = R>) -> ProbeTable {
        self.top(rows, usize::MAX)
    }

    /// The table of the first `top` rows; the others are summed up.
    pub(crate) fn top(&self, rows: impl IntoIterator<Item = R>, top: usize) -> ProbeTable {
        let mut table = self.empty();
        rows.into_iter().for_each(|row| self.add(&row, top, &mut table));
        table
    }

    fn add(&self, row: &R, top: usize, table: &mut ProbeTable) {
        if table.rows.len() < top {
            table.rows.push(self.row(row));
        } else {
            self.leave_out(row, table);
        }
    }

    /// One row.
    pub(crate) fn row(&self, of: &R) -> Row {
        Row { instance: (self.instance)(of), cells: self.cells.iter().map(|(cell, _)| cell(of)).collect() }
    }

    /// Counts one more row as left out, and adds it to the sums.
    pub(crate) fn leave_out(&self, row: &R, table: &mut ProbeTable) {
        let summed = self.cells.iter().map(|(cell, is_summed)| if *is_summed { cell(row).number() } else { None });
        add_up(summed.collect(), table);
    }
}

fn text_cell(text: Option<String>) -> Cell {
    text.map_or(Cell::Unknown(()), Cell::Text)
}

fn number_cell(number: Option<f64>) -> Cell {
    number.map_or(Cell::Unknown(()), Cell::Number)
}

/// Adds a row to what is left out: the numbers of its columns, where they are summed up and known.
fn add_up(numbers: Vec<Option<f64>>, table: &mut ProbeTable) {
    table.others = table.others.saturating_add(1);
    for (column, number) in table.columns.iter().zip(numbers) {
        if let Some(number) = number {
            *table.others_sum.entry(column.id.clone()).or_default() += number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TableSpec<'static, (&'static str, f64, Option<f64>)> {
        TableSpec::<(&str, f64, Option<f64>)>::new("waits", "Waits")
            .rows("wait", |(name, ..)| format!("of {name}"))
            .text("name", "for", |(name, ..)| (*name).to_owned())
            .sum("time", "time", Unit::Seconds, |(_, time, _)| *time)
            .sum("bytes", "bytes", Unit::Bytes, |(.., bytes)| *bytes)
            .number("max", "longest", Unit::Seconds, |(_, time, _)| time / 2.0)
    }

    #[test]
    fn rows_beyond_the_first_are_counted_and_summed_up_by_the_columns_that_can_be() {
        let rows = [("a", 4.0, None), ("b", 2.0, Some(10.0)), ("c", 1.0, None), ("d", 0.5, Some(1.0))];
        let table = spec().top(rows, 1);
        assert_eq!((table.rows.len(), table.others), (1, 3));
        assert_eq!(table.others_sum, [("time".to_owned(), 3.5), ("bytes".to_owned(), 11.0)].into());
        let row = &table.rows[0];
        let cells = ["a".into(), 4.0.into(), Cell::Unknown(()), 2.0.into()];
        assert_eq!((row.instance.as_str(), &row.cells[..]), ("of a", &cells[..]));
        assert_eq!(table.columns[1], Column::number("time", "time", Unit::Seconds));
    }

    #[test]
    fn nothing_is_summed_up_where_nothing_is_left_out() {
        let table = spec().all([("a", 4.0, None)]);
        assert_eq!((table.others, table.others_sum.len(), table.dimension.as_deref()), (0, 0, Some("wait")));
    }
}
