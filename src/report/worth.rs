//! How much of a task's account each place has room for: from which share on a component is described, has a line, or is bold. All of this
//! is layout, decided by renderers, which have nothing but the document: a page that is made of a report.json leaves out the same.
//!
//! What the account itself mentions, and from which share on, stands in `playbooks/method-r/components.yaml`.

use rdiag_model::Profile;
use rdiag_model::profile::ComponentRow;

/// Which components a report describes one by one: the first so many of those that hold at least this share.
#[derive(Clone, Copy)]
pub(super) struct Described {
    most: usize,
    least: f64,
}

/// On a terminal, where all that is said of three components fills a screen.
pub(super) const ON_TERMINAL: Described = Described { most: 3, least: 0.05 };
/// In a ticket.
pub(super) const IN_MARKDOWN: Described = Described { most: 4, least: 0.05 };
/// On the page, which has room, and links from its table.
pub(super) const ON_PAGE: Described = Described { most: 6, least: 0.02 };
/// Of the busy time of a task that mostly waits for work: described from this share on, however small a part of all that is.
const DESCRIBED_OF_BUSY: f64 = 0.1;

/// A line of the terminal's tables is bold.
pub(super) const BOLD: f64 = 0.1;
/// A component has a line in the terminal's table; the residuals always have one.
pub(super) const LINE: f64 = 0.0005;
/// The spread of a component over runs has a line there.
pub(super) const SPREAD_OVER_RUNS: f64 = 0.005;
/// What no component holds of the difference between slow and fast runs is a sentence.
pub(super) const UNEXPLAINED: f64 = 0.01;
/// What an account leaves over or counts twice is a figure on the first screen.
pub(super) const LEFT_OVER: f64 = 0.005;

/// The components to describe: the largest, idle ones only after all others; where one thread spans an execution, in the order of that
/// thread's time.
pub(super) fn described(profile: &Profile, which: Described) -> Vec<&ComponentRow> {
    let relevant = |row: &&ComponentRow| {
        row.share >= which.least || row.busy_share.is_some_and(|share| share >= DESCRIBED_OF_BUSY)
    };
    let is_execution = profile.target.command.is_some();
    let place = |row: &ComponentRow| profile.forecast.rows.iter().position(|other| other.id == row.id);
    let mut all: Vec<&ComponentRow> = profile.components.iter().filter(relevant).collect();
    let has_runs = profile.runs.as_ref().is_some_and(|runs| runs.count > 0);
    if has_runs || (is_execution && profile.forecast.thread.is_some()) {
        all.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
    } else if !is_execution && all.iter().any(|row| !row.idle) {
        all.sort_by_key(|row| row.idle);
    }
    all.truncate(which.most);
    all
}

#[cfg(test)]
mod tests {
    use super::super::profile_testing::profile_of;
    use super::*;
    use crate::accounts::{ledger, part, thread};
    use rdiag_model::profile::Conversation;
    use rdiag_model::{Component as C, Target};

    /// A profile whose components have these shares of all time and of the busy time.
    fn profile(rows: &[(C, f64, Option<f64>)]) -> Profile {
        let ledger = ledger(10.0, vec![thread(1, 1, 10.0, vec![part(C::CpuUser, 10.0)])]);
        let mut profile = profile_of(&ledger, &Target::default(), Conversation::default());
        let like = profile.components[0].clone();
        let row = |(id, share, busy_share): &(C, f64, Option<f64>)| ComponentRow {
            id: *id,
            share: *share,
            busy_share: *busy_share,
            idle: busy_share.is_none(),
            ..like.clone()
        };
        profile.components = rows.iter().map(row).collect();
        profile
    }

    fn ids(rows: &[&ComponentRow]) -> Vec<C> {
        rows.iter().map(|row| row.id).collect()
    }

    #[test]
    fn the_page_describes_smaller_components_than_a_ticket_and_more_of_them() {
        let profile = profile(&[
            (C::CpuUser, 0.8, None),
            (C::IoBlockRead, 0.05, None),
            (C::IoBlockWrite, 0.0499, None),
            (C::CpuSys, 0.02, None),
            (C::CpuIrq, 0.0199, None),
        ]);
        let of = |which| ids(&described(&profile, which));
        assert_eq!(of(ON_TERMINAL), [C::CpuUser, C::IoBlockRead]);
        assert_eq!(of(IN_MARKDOWN), of(ON_TERMINAL));
        assert_eq!(of(ON_PAGE), [C::CpuUser, C::IoBlockRead, C::IoBlockWrite, C::CpuSys]);
    }

    #[test]
    fn of_many_large_components_the_first_few_are_described() {
        let all: Vec<(C, f64, Option<f64>)> = C::ALL.iter().take(8).map(|id| (*id, 0.125, None)).collect();
        let profile = profile(&all);
        let numbers = [ON_TERMINAL, IN_MARKDOWN, ON_PAGE].map(|which| described(&profile, which).len());
        assert_eq!(numbers, [3, 4, 6]);
    }

    #[test]
    fn of_a_task_that_mostly_waits_for_work_what_it_does_is_described_first() {
        let profile = profile(&[
            (C::WaitPoll, 0.99, None),
            (C::IoBlockRead, 0.008, Some(0.8)),
            (C::CpuUser, 0.001, Some(0.1)),
            (C::CpuSys, 0.001, Some(0.0999)),
        ]);
        assert_eq!(ids(&described(&profile, ON_TERMINAL)), [C::IoBlockRead, C::CpuUser, C::WaitPoll]);
    }
}
