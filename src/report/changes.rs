//! What changed around a time that is over, in words for every renderer.

use rdiag_model::quantity;
use rdiag_model::report::{Change, Changes, Report};

/// The heading: from when to when was looked.
pub(super) fn heading(changes: &Changes) -> String {
    format!("What changed, {}", span(changes))
}

/// The same for a page that has a heading of its own.
pub(super) fn span(changes: &Changes) -> String {
    let nothing = if changes.changes.is_empty() { ": nothing that was recorded" } else { "" };
    format!("{}{nothing}", changes.span)
}

/// What is said to the second is within where it is outside by less.
const HARDLY: f64 = 0.5;

/// Where a change lies beside the window: `21.3 min before`.
pub(super) fn when(change: &Change, report: &Report) -> String {
    let rounded = |seconds: f64| if seconds < 120.0 { format!("{seconds:.0} s") } else { quantity::seconds(seconds) };
    let after = change.seconds - report.window.seconds;
    match change.seconds {
        seconds if seconds < -HARDLY => format!("{} before", rounded(-seconds)),
        _ if after > HARDLY => format!("{} after", rounded(after)),
        _ => "within".to_owned(),
    }
}

/// The largest changes, at most so many, in the order of time: what came before or within the window matters more than what came after.
pub(super) fn largest<'c>(changes: &'c Changes, report: &Report, most: usize) -> Vec<&'c Change> {
    let mut largest: Vec<&Change> = changes.changes.iter().collect();
    largest.sort_by_key(|change| change.seconds > report.window.seconds);
    largest.truncate(most);
    largest.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    largest
}

/// How many there are beside those that are shown.
pub(super) fn more(changes: &Changes, shown: usize) -> usize {
    changes.changes.len().saturating_sub(shown).saturating_add(changes.left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::report;
    use rdiag_model::report::ChangeKind;

    fn change(seconds: f64) -> Change {
        let kind = ChangeKind::Process;
        let text = |text: &str| text.to_owned();
        Change { at: text("x"), shown: text("x"), seconds, kind, subject: text("x"), text: format!("{seconds}") }
    }

    #[test]
    fn the_largest_are_told_in_the_order_of_time_and_what_came_after_gives_way() {
        let report = report(Vec::new());
        let end = report.window.seconds;
        let all = [end + 900.0, -20.0, 1.0, -1500.0, end + 5.0].map(change);
        let changes = Changes { changes: all.to_vec(), left_out: 3, ..Changes::default() };
        let told = |most| largest(&changes, &report, most).iter().map(|change| change.seconds).collect::<Vec<_>>();
        assert_eq!((told(2), more(&changes, 2)), (vec![-20.0, 1.0], 6));
        assert_eq!(told(4), [-1500.0, -20.0, 1.0, end + 900.0]);
        let when = |seconds| when(&change(seconds), &report);
        assert_eq!(when(-1500.0), "25.0 min before");
        assert_eq!(
            (when(-5.4), when(1.0), when(end + 5.0)),
            ("5 s before".into(), "within".into(), "5 s after".into())
        );
    }
}
