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
    cells: Vec<(CellOf<'c, R>, bool)>,
}

/// What fills a column, of a row.
type CellOf<'c, R> = Box<dyn Fn(&R) -> Cell + 'c>;

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
    pub(crate) fn text<T: Into<Option<String>>>(self, id: &str, title: &str, text: impl Fn(&R) -> T + 'c) -> Self {
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

    /// A column whose cells are neither text nor a number in a unit: a stack, or the number that stands for it until it has names.
    pub(crate) fn cell(self, id: &str, title: &str, cell: impl Fn(&R) -> Cell + 'c) -> Self {
        self.column(Column::text(id, title), Box::new(cell), false)
    }

    fn column(mut self, column: Column, cell: CellOf<'c, R>, is_summed: bool) -> Self {
        self.table.columns.push(column);
        self.cells.push((cell, is_summed));
        self
    }

    /// The table of all rows.
    pub(crate) fn all(&self, rows: impl IntoIterator<Item = R>) -> ProbeTable {
        self.top(rows, usize::MAX)
    }

    /// The table of the first `top` rows; the others are summed up.
    pub(crate) fn top(&self, rows: impl IntoIterator<Item = R>, top: usize) -> ProbeTable {
        let mut table = self.table.clone();
        rows.into_iter().for_each(|row| self.add(&row, top, &mut table));
        table
    }

    /// One more row, or one more that is left out of a table of `top` rows.
    fn add(&self, row: &R, top: usize, table: &mut ProbeTable) {
        if table.rows.len() < top {
            table.rows.push(self.row(row));
        } else {
            self.leave_out(row, table);
        }
    }

    /// One row.
    fn row(&self, of: &R) -> Row {
        Row { instance: (self.instance)(of), cells: self.cells(of) }
    }

    /// The cells of one row.
    pub(crate) fn cells(&self, of: &R) -> Vec<Cell> {
        self.cells.iter().map(|(cell, _)| cell(of)).collect()
    }

    /// The table without rows.
    pub(crate) fn empty(&self) -> &ProbeTable {
        &self.table
    }

    /// Counts one more row as left out, and adds it to the sums.
    pub(crate) fn leave_out(&self, row: &R, table: &mut ProbeTable) {
        table.others = table.others.saturating_add(1);
        for (column, (cell, _)) in self.table.columns.iter().zip(&self.cells).filter(|(_, (_, is_summed))| *is_summed) {
            add_up(&column.id, cell(row).number(), table);
        }
    }
}

impl<'c, K: Default + 'c, S: 'c> TableSpec<'c, (K, S)> {
    /// The table of the first `top` rows. What stands for the others is added up by `add` before it becomes seconds or a rate, which are
    /// rounded; `rest` is what had no row from the beginning, where there was such.
    pub(crate) fn top_with_rest(
        &self,
        mut rows: Vec<(K, S)>,
        top: usize,
        (mut rest, is_more): (S, bool),
        mut add: impl FnMut(&mut S, &S),
    ) -> ProbeTable {
        let left_out = rows.split_off(top.min(rows.len()));
        let others = left_out.len() as u64 + u64::from(is_more);
        left_out.iter().for_each(|(_, sum)| add(&mut rest, sum));
        let mut table = self.all(rows);
        if others > 0 {
            self.leave_out(&(K::default(), rest), &mut table);
            table.others = others;
        }
        table
    }
}

/// Events since the last reading, a row each. The first column is the time.
#[derive(Debug, Default)]
pub(crate) struct EventRows(ProbeTable);

impl EventRows {
    /// Of a reading `most` are shown.
    pub(crate) fn add<R>(&mut self, event: &R, spec: &TableSpec<'_, R>, most: usize) {
        spec.add(event, most, &mut self.0);
    }

    /// The events in order of time, and forgets them.
    pub(crate) fn take<R>(&mut self, spec: &TableSpec<'_, R>) -> ProbeTable {
        let ProbeTable { mut rows, others, others_sum, .. } = std::mem::take(&mut self.0);
        // Every CPU hands on its own events, so they come in order only nearly.
        let time = |row: &Row| row.cells.first().and_then(Cell::number).unwrap_or_default();
        rows.sort_by(|a, b| time(a).total_cmp(&time(b)));
        ProbeTable { rows, others, others_sum, ..spec.table.clone() }
    }
}

fn text_cell(text: Option<String>) -> Cell {
    text.map_or(Cell::Unknown(()), Cell::Text)
}

fn number_cell(number: Option<f64>) -> Cell {
    number.map_or(Cell::Unknown(()), Cell::Number)
}

/// Adds a number to what is left out of a column, where it is known.
fn add_up(id: &str, number: Option<f64>, table: &mut ProbeTable) {
    let Some(number) = number else { return };
    match table.others_sum.get_mut(id) {
        Some(sum) => *sum += number,
        None => drop(table.others_sum.insert(id.to_owned(), number)),
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
