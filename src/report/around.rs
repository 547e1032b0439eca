//! The course of the time around a window that is over, in words for every renderer.

use super::words::{plural, some};
use rdiag_model::quantity::percent;
use rdiag_model::report::{Around, ChangeKind, Course, TopConsumer};

/// Rows of a table at most: the document may come from anywhere.
pub(super) const MAX_ROWS: usize = 24;
/// Stretches that are named.
const MAX_NAMED: usize = 4;
/// What is not known.
pub(super) const UNKNOWN: &str = "–";
/// What stands in the place of a row's figures.
pub(super) const UNRECORDED: &str = "not recorded";

/// The heading: from when to when.
pub(super) fn heading(around: &Around) -> String {
    format!("Around the window, {}", around.span)
}

/// Where it comes from, and what is missing.
pub(super) fn source(around: &Around) -> String {
    let shown: Vec<String> = around.unrecorded.iter().map(|gap| gap.shown.clone()).collect();
    let missing = match shown.is_empty() {
        true => String::new(),
        false => format!(" Not recorded: {}.", some(&shown, MAX_NAMED)),
    };
    format!("Source: {}.{missing}", around.source)
}

/// The rows that are shown.
pub(super) fn rows(around: &Around) -> impl Iterator<Item = &Course> {
    around.rows.iter().take(MAX_ROWS)
}

/// Whether a row is of the judged window.
pub(super) fn is_judged(around: &Around, row: &Course) -> bool {
    row.seconds < around.judged.until && row.seconds + around.row_seconds > around.judged.from
}

/// A share; where it is not known that is said, and it is not 0.
pub(super) fn share(share: Option<f64>) -> String {
    share.map_or_else(|| UNKNOWN.to_owned(), percent)
}

/// `some` and `full` of PSI: `12.0% / 3.1%`.
pub(super) fn both(some: Option<f64>, full: Option<f64>) -> String {
    match (some, full) {
        (Some(_), None) => share(some),
        (None, None) => UNKNOWN.to_owned(),
        _ => format!("{} / {}", share(some), share(full)),
    }
}

/// A name with its share.
pub(super) fn top(top: Option<&TopConsumer>) -> String {
    top.map_or_else(String::new, |top| format!("{} {}", top.name, percent(top.share)))
}

/// Whether storage was charged to processes in some row.
pub(super) fn has_io(around: &Around) -> bool {
    rows(around).any(|row| row.top_io.is_some())
}

/// Whether something changed in some row.
pub(super) fn has_marks(around: &Around) -> bool {
    rows(around).any(|row| !changed(around, row).is_empty())
}

/// What changed in a row: `reboot, 2 processes`.
pub(super) fn changed(around: &Around, row: &Course) -> String {
    let (from, until) = (row.seconds, row.seconds + around.row_seconds);
    let marks = || around.marks.iter().filter(|mark| (from..until).contains(&mark.seconds));
    let said = WORDS.iter().filter_map(|(kind, one, many)| {
        let count = marks().filter(|mark| mark.kind == *kind).count();
        match count {
            0 => None,
            1 => Some((*one).to_owned()),
            _ => Some(plural(count, one, many)),
        }
    });
    said.collect::<Vec<_>>().join(", ")
}

/// Kinds of changes, in the order in which they matter.
const WORDS: [(ChangeKind, &str, &str); 8] = [
    (ChangeKind::Reboot, "reboot", "reboots"),
    (ChangeKind::Host, "kernel or hardware", "changes of kernel or hardware"),
    (ChangeKind::OomKill, "OOM kill", "OOM kills"),
    (ChangeKind::Clock, "clock set", "changes of the clock"),
    (ChangeKind::Suspend, "suspend", "suspends"),
    (ChangeKind::Mount, "mount", "mounts"),
    (ChangeKind::Setting, "setting", "settings"),
    (ChangeKind::Process, "process", "processes"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::around;

    #[test]
    fn a_figure_that_is_not_known_is_no_zero() {
        assert_eq!((share(None), share(Some(0.0)), share(Some(0.12))), ("–".into(), "0%".into(), "12.0%".into()));
        assert_eq!(both(Some(0.5), Some(0.25)), "50.0% / 25.0%");
        assert_eq!((both(Some(0.5), None), both(None, None)), ("50.0%".into(), "–".into()));
    }

    #[test]
    fn rows_of_the_window_and_of_changes_are_marked_and_gaps_are_named() {
        let around = around();
        let judged: Vec<bool> = rows(&around).map(|row| is_judged(&around, row)).collect();
        assert_eq!(judged, [false, false, true, true, false]);
        let changed: Vec<String> = rows(&around).map(|row| changed(&around, row)).collect();
        assert_eq!(changed, ["", "", "OOM kill, 2 processes", "", "reboot"]);
        assert_eq!(source(&around), "Source: recorder, a sample every 5 s. Not recorded: 02:58:00 to 03:03:00.");
        assert_eq!(heading(&around), "Around the window, 2026-03-10 02:53:00 UTC to 03:18:00");
        assert_eq!(top(around.rows[2].top_cpu.as_ref()), "report-job 91.0%");
        assert!(has_io(&around));
    }
}
