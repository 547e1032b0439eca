//! Which processes are in a control group, and how much of what the group did they account for. The group of a process is read for few of
//! them: a share among those alone would be one of what happened to be seen, and the largest of them may be an innocent.

use std::collections::BTreeMap;

use rdiag_model::Metrics;

/// Label with the groups of a process in other hierarchies, one per line.
pub(super) const OTHER_GROUPS: &str = "other_cgroups";
/// Known processes that account for less than this part of a group have no share of it.
const COVERED: f64 = 0.9;
/// By how much the use of a window of some seconds may exceed its quota.
const QUOTA_SLACK: f64 = 0.05;

/// Whether a process is in a group or below; not known where its group was not read, and of rows that stand for many processes. Where each
/// controller has its own hierarchy, a process is in as many groups.
pub(super) fn is_in(labels: Option<&BTreeMap<String, String>>, group: &str) -> Option<bool> {
    let labels = labels?;
    let mut paths = ["cgroup", OTHER_GROUPS].into_iter().filter_map(|key| labels.get(key)).flat_map(|own| own.lines());
    let is_below = |path: &str| {
        path.strip_prefix(group.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let first = is_below(paths.next()?);
    Some(first || paths.any(is_below))
}

/// What the kernel counted for the group itself of the same as this metric of processes; groups below included.
pub(super) fn own_figure(metrics: &Metrics, metric: &str, group: &str) -> Option<f64> {
    let figure = |id: &str| metrics.measured(id, group);
    match metric {
        // What a rate is of, its total: the CPU time that the group used.
        "process.cpu.seconds" => Some(figure("cgroup.cpu.used_of_quota.ratio")?.total),
        // The most: who held it when the limit was near may be gone by the end.
        "process.resident.bytes" => Some(figure("cgroup.memory.used.bytes")?.max),
        "process.threads.count" => Some(figure("cgroup.pids.current.count")?.max),
        _ => None,
    }
}

/// The most that a group can have done, where the kernel counts nothing for it (cpuacct mounted apart from cpu): what its quota allows.
pub(super) fn allowed(metrics: &Metrics, metric: &str, group: &str) -> Option<f64> {
    let quota = (metric == "process.cpu.seconds").then(|| metrics.measured("cgroup.cpu.quota.count", group))??;
    // The last periods of before may reach into the window, and a slice that ran out is paid back in the next period.
    Some(quota.max * metrics.seconds * (1.0 + QUOTA_SLACK))
}

/// What is seen of a group: what its known processes did, what those did whose group is not known, and what the kernel counted for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupUse {
    pub(super) known: f64,
    pub(super) unplaced: f64,
    pub(super) own: Option<f64>,
    /// No more than this, where the kernel did not count.
    pub(super) allowed: Option<f64>,
}

impl GroupUse {
    /// The most that processes did which are in the group and are not known to be.
    fn hidden(self) -> f64 {
        let whole = self.own.or(self.allowed);
        whole.map_or(self.unplaced, |whole| self.unplaced.min((whole - self.known).max(0.0)))
    }

    fn is_covered(self) -> bool {
        self.known >= COVERED * (self.known + self.hidden())
    }

    /// Whether those who did `value` of it can be named, where the next did `next`: not if others of the group may have done more.
    pub(super) fn names(self, value: f64, next: f64) -> bool {
        self.is_covered() || value >= next + self.hidden()
    }

    /// Their share of the group; none where too little of it is known.
    pub(super) fn share(self, value: f64) -> Option<f64> {
        let whole = (self.known + self.hidden()).max(self.own.unwrap_or(0.0));
        (self.is_covered() && whole > 0.0).then(|| value / whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_process_is_in_its_groups_and_those_above_and_of_one_whose_group_was_not_read_nothing_is_known() {
        let of = |labels: &[(&str, &str)], group: &str| is_in(Some(&process(labels)), group);
        assert_eq!(of(&[("cgroup", "/a/b")], "/a"), Some(true));
        assert_eq!(of(&[("cgroup", "/ab")], "/a"), Some(false));
        assert_eq!(of(&[("cgroup", "/"), (OTHER_GROUPS, "/x\n/a/c")], "/a"), Some(true));
        assert_eq!(of(&[("name", "sh")], "/a"), None);
        assert_eq!(is_in(None, "/a"), None);
    }

    #[test]
    fn the_whole_is_what_the_group_itself_had() {
        let share = |known, unplaced, own, value| GroupUse { known, unplaced, own, allowed: None }.share(value);
        assert_eq!(share(8.0, 900.0, Some(8.0), 4.0), Some(0.5), "strangers are elsewhere");
        assert_eq!(share(19.0, 900.0, Some(20.0), 19.0), Some(0.95));
        assert_eq!(share(4.0, 0.0, Some(16.0), 4.0), Some(0.25), "the rest is no process's");
        assert_eq!(share(12.0, 0.0, Some(8.0), 6.0), Some(0.5), "shared pages count for each process");
        assert_eq!(share(10.0, 1.0, None, 10.0), Some(10.0 / 11.0), "that one may be of the group");
    }

    #[test]
    fn who_is_one_of_few_that_were_seen_is_not_named_and_who_is_the_largest_in_any_case_has_no_share() {
        let half = GroupUse { known: 10.0, unplaced: 900.0, own: Some(20.0), allowed: None };
        assert!(!half.names(9.0, 1.0), "9 of 20, and the other 10 may be of one that did 1");
        let most = GroupUse { own: Some(15.0), ..half };
        assert!(most.names(9.0, 1.0), "at most 1 + 5 are of another");
        assert_eq!((half.share(9.0), most.share(9.0)), (None, None));
        let unmeasured = GroupUse { known: 10.0, unplaced: 40.0, own: None, allowed: None };
        assert!(!unmeasured.names(10.0, 0.0) && unmeasured.share(10.0).is_none());
    }

    #[test]
    fn what_others_did_elsewhere_hides_no_one_in_a_group_that_its_quota_keeps_from_more() {
        let used_up = GroupUse { known: 1.0, unplaced: 8.0, own: None, allowed: Some(1.05) };
        assert!(used_up.names(1.0, 0.0));
        assert!(used_up.share(1.0).is_some_and(|share| share > 0.95 && share < 1.0), "the rest may be of others");
        let idle = GroupUse { known: 0.1, ..used_up };
        assert!(!idle.names(0.1, 0.0) && idle.share(0.1).is_none(), "others may have used the quota");
    }
}
