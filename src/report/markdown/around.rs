//! The course of the time around a window that is over, as a table.

use super::super::around::{
    UNRECORDED, both, changed, has_io, has_marks, heading, is_judged, rows, share, source, top,
};
use super::{Text, table, text};
use crate::shown;
use rdiag_model::Report;
use rdiag_model::report::Course;

/// A row for some minutes; nothing of a time that is not over, or of which nothing more is known.
pub(super) fn around(report: &Report) -> Text {
    let Some(around) = &report.around else { return Text::new() };
    let (has_io, has_marks) = (has_io(around), has_marks(around));
    let mut head = vec!["From", "CPU busy", "PSI cpu", "PSI memory some / full", "PSI io some / full", "Most CPU time"];
    head.extend(has_io.then_some("Most I/O"));
    head.extend(has_marks.then_some("Changed"));
    let row = |row: &Course| -> Vec<Text> {
        let time = text(&row.shown);
        let mut cells = vec![if is_judged(around, row) { shown!("**{}**", time) } else { time }];
        let pressure = &row.pressure;
        match row.is_unknown() {
            true => cells.extend([Text::of(UNRECORDED), Text::new(), Text::new(), Text::new(), Text::new()]),
            false => cells.extend([
                Text::figure(share(row.cpu)),
                Text::figure(share(pressure.cpu_some)),
                Text::figure(both(pressure.memory_some, pressure.memory_full)),
                Text::figure(both(pressure.io_some, pressure.io_full)),
                text(top(row.top_cpu.as_ref())),
            ]),
        }
        cells.extend(has_io.then(|| text(top(row.top_io.as_ref()))));
        cells.extend(has_marks.then(|| text(changed(around, row))));
        cells
    };
    let rows: Vec<Vec<Text>> = rows(around).map(row).collect();
    let head: Vec<Text> = head.into_iter().map(Text::of).collect();
    let judged =
        "Rows of the judged window are bold. PSI: share of time with some tasks stalled, or all non-idle tasks (full).";
    shown!("## {}\n\n{} {}\n\n{}", text(heading(around)), text(source(around)), judged, table(&head, &rows))
}

#[cfg(test)]
mod tests {
    use super::super::{brief, markdown};
    use crate::sample::{around, report, saturated};

    #[test]
    fn an_hour_is_a_table_of_a_dozen_rows_in_the_whole_comment_alone() {
        let mut report = report(saturated());
        report.around = Some(around());
        let text = markdown(&report).unwrap().to_string();
        let (_, from) = text.split_once("## Around the window").unwrap();
        let (table, _) = from.split_once("\n| Resource").unwrap();
        insta::assert_snapshot!(table);
        assert!(!brief(&report).unwrap().contains("Around the window"));
    }
}
