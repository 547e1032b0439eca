//! Which groups have a limit, found by walking the tree now and then: a host may have thousands of groups, and few of
//! them are limited.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Hierarchy, group_of};
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// More groups than this are not looked at.
const MAX_GROUPS: usize = 2000;
/// Groups deeper than this are not looked at.
const MAX_DEPTH: usize = 24;
/// New groups are looked for at each such sample, and the more rarely the more groups there are.
const WALK_EVERY: usize = 5;
/// So many groups make the walk rarer by as much again.
const GROUPS_PER_WALK: usize = 400;
/// So many groups are reported; more only if all of them have something to tell.
const MAX_REPORTED: usize = 30;
/// Of so many groups the processes are listed.
const MAX_LISTED: usize = 200;
/// So many processes are listed.
const MAX_PROCESSES: usize = 2000;

/// The limited groups of a hierarchy, and the groups below them.
#[derive(Debug)]
pub struct Watch {
    /// Where they are.
    pub hierarchy: Hierarchy,
    /// The limited groups and those below one, each with the nearest limited group: itself, or one above.
    pub members: BTreeMap<String, String>,
    /// Groups seen by the last walk.
    pub seen: usize,
    /// Whether the last walk left groups out.
    pub cut: bool,
    samples: usize,
    /// The sample of the next walk.
    next_walk: usize,
    /// How much each group that was recorded deserves to be reported.
    weights: BTreeMap<String, f64>,
    /// The group of rdiag itself.
    own: String,
}

impl Watch {
    /// No groups yet.
    #[must_use]
    pub fn new(host: &Host, hierarchy: Hierarchy, controller: &str) -> Self {
        let own = host.read("proc/self/cgroup").unwrap_or_default();
        let own = group_of(&own, controller).unwrap_or_default().to_owned();
        Self {
            hierarchy,
            members: BTreeMap::new(),
            seen: 0,
            cut: false,
            samples: 0,
            next_walk: 0,
            weights: BTreeMap::new(),
            own,
        }
    }

    /// Begins a sample: at the first one, and at every fifth or more rarely, looks which groups `limited` says yes to.
    pub fn refresh(&mut self, host: &Host, limited: impl Fn(&Hierarchy, &str) -> bool) {
        if self.samples >= self.next_walk {
            self.walk(host, limited);
            self.next_walk = self.samples + WALK_EVERY * (1 + self.seen / GROUPS_PER_WALK);
        }
        self.samples += 1;
    }

    /// The groups that have a limit of their own.
    #[must_use]
    pub fn limited(&self) -> Vec<String> {
        self.members.iter().filter(|(path, limited_by)| path == limited_by).map(|(path, _)| path.clone()).collect()
    }

    /// What the last walk left out, as an instance and its gap.
    #[must_use]
    pub fn not_seen(&self) -> Option<(&'static str, Unavailable)> {
        let why = format!(
            "more than {MAX_GROUPS} control groups, or groups nested deeper than {MAX_DEPTH}: the rest was not looked at"
        );
        self.cut.then(|| ("(groups left out)", Unavailable::new(Reason::NotVisible, why)))
    }

    /// What the groups above the visible ones are, as an instance and its gap, if there are any.
    #[must_use]
    pub fn hidden(&self) -> Option<(&'static str, Unavailable)> {
        let why = "a namespace or mount hides the control groups above, and with them their limits";
        let gap = Unavailable::new(Reason::NotVisible, why).with_remedy("run rdiag on the host");
        (!self.hierarchy.whole).then_some(("(groups above)", gap))
    }

    /// Says how near to its limit a group was seen; infinitely near if it ran into it.
    pub fn weigh(&mut self, group: &str, weight: f64) {
        let known = self.weights.entry(group.to_owned()).or_insert(weight);
        *known = known.max(weight);
    }

    /// The groups that are worth reporting: those that ran into their limit, and the nearest to it.
    #[must_use]
    pub fn worth_reporting(&self) -> BTreeSet<&str> {
        let mut ranked: Vec<(&str, f64)> =
            self.weights.iter().map(|(group, weight)| (group.as_str(), *weight)).collect();
        ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let chosen = ranked.iter().enumerate().filter(|(at, (_, weight))| *at < MAX_REPORTED || weight.is_infinite());
        chosen.map(|(_, (group, _))| *group).collect()
    }

    /// Tells `label` what there is to know about a group from its name: the version, the container, and whether rdiag
    /// itself is in it.
    pub fn label(&self, group: &str, label: &mut dyn FnMut(&str, &str)) {
        label("version", self.hierarchy.version.word());
        if let Some(id) = container(group) {
            label("container", id);
        }
        if is_within(&self.own, group) {
            label("own", "yes");
        }
    }

    /// For the groups that ran into their limit, the names of the processes in them and in the groups below, the most
    /// frequent first: `sleep ×18, bash`. At most ten groups and two hundred processes in each are looked at.
    #[must_use]
    pub fn processes(&self, host: &Host) -> Vec<(&str, String)> {
        let troubled = self.weights.iter().filter(|(_, weight)| weight.is_infinite()).take(10);
        troubled.filter_map(|(group, _)| Some((group.as_str(), self.processes_of(host, group)?))).collect()
    }

    /// For the groups worth reporting, which processes are in them and in the groups below: a line `12 13 /a/b` for each of these groups.
    /// A group within another one is told with that. The groups that ran into their limit come first, should there be too many.
    #[must_use]
    pub fn lists(&self, host: &Host) -> BTreeMap<&str, String> {
        let worth = self.worth_reporting();
        let topmost = |member: &str| worth.iter().copied().find(|group| is_within(member, group));
        let mut wanted: Vec<(bool, &str, &str)> = Vec::new();
        for member in self.members.keys() {
            let Some(group) = topmost(member) else { continue };
            let is_calm = self.weights.get(group).is_none_or(|weight| weight.is_finite());
            wanted.push((is_calm, group, member));
        }
        wanted.sort_unstable();
        let mut lists: BTreeMap<&str, String> = BTreeMap::new();
        let mut count = 0;
        for (_, group, member) in wanted.into_iter().take(MAX_LISTED) {
            let pids = self.pids_of(host, member);
            count += pids.len();
            if count > MAX_PROCESSES {
                break;
            }
            if !pids.is_empty() {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                let list = lists.entry(group).or_default();
                list.push_str(&format!("{} {member}\n", pids.join(" ")));
            }
        }
        lists
    }

    /// The processes in a group itself, but for those of other namespaces, which the kernel shows as 0.
    fn pids_of(&self, host: &Host, group: &str) -> Vec<u32> {
        let text = host.read(&self.hierarchy.file(group, "cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
    }

    fn processes_of(&self, host: &Host, group: &str) -> Option<String> {
        let groups = self.members.keys().filter(|member| is_within(member, group));
        let pids = groups.flat_map(|member| self.pids_of(host, member));
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for pid in pids.take(200) {
            if let Ok(name) = host.read_line(&format!("proc/{pid}/comm")) {
                *counts.entry(name).or_default() += 1;
            }
        }
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by(|(_, a), (_, b)| b.cmp(a));
        let shown = counts.into_iter().take(5).map(|(name, n)| if n > 1 { format!("{name} ×{n}") } else { name });
        Some(shown.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
    }

    /// Breadth first, so that what is cut are the deepest groups, and parents are known before their children.
    fn walk(&mut self, host: &Host, limited: impl Fn(&Hierarchy, &str) -> bool) {
        self.members.clear();
        self.seen = 0;
        self.cut = false;
        let first = self.hierarchy.first_group().to_owned();
        let mut queue: VecDeque<(String, usize, Option<String>)> = VecDeque::from([(first, 0, None)]);
        while let Some((group, depth, above)) = queue.pop_front() {
            self.seen += 1;
            let limited_by = if limited(&self.hierarchy, &group) { Some(group.clone()) } else { above };
            let below = host.subdirectories(&self.hierarchy.directory(&group)).unwrap_or_default();
            if depth >= MAX_DEPTH && !below.is_empty() {
                self.cut = true;
            } else {
                for name in below {
                    if self.seen + queue.len() >= MAX_GROUPS {
                        self.cut = true;
                        break;
                    }
                    let path = format!("{}/{name}", group.trim_end_matches('/'));
                    queue.push_back((path, depth + 1, limited_by.clone()));
                }
            }
            if let Some(limited_by) = limited_by {
                self.members.insert(group, limited_by);
            }
        }
    }
}

/// Sums up a counter that each group keeps for itself alone, for the limited groups: what happens in a group counts for
/// the nearest limit. The sum does not fall when a group is removed.
#[derive(Debug, Default)]
pub struct Tally {
    last: BTreeMap<String, u64>,
    totals: BTreeMap<String, u64>,
}

impl Tally {
    /// A group's counter stands at `now`.
    pub fn add(&mut self, group: &str, limited_by: &str, now: u64) {
        let before = self.last.insert(group.to_owned(), now).unwrap_or(0);
        let total = self.totals.entry(limited_by.to_owned()).or_default();
        *total = total.saturating_add(now.saturating_sub(before));
    }

    /// The sum for a limited group.
    #[must_use]
    pub fn total(&self, limited: &str) -> u64 {
        self.totals.get(limited).copied().unwrap_or(0)
    }
}

/// The short id of a container, if a group's last name has one: `docker-ID.scope`, `cri-containerd-ID.scope`, or `ID`.
#[must_use]
pub fn container(group: &str) -> Option<&str> {
    let name = group.rsplit('/').next()?;
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit('-').next()?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { id.get(..12) } else { None }
}

/// Whether a group is another one, or below it.
fn is_within(group: &str, other: &str) -> bool {
    group.strip_prefix(other.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_group_leaves_its_count_and_a_new_one_of_its_name_starts_anew() {
        let mut tally = Tally::default();
        tally.add("/a", "/a", 1);
        tally.add("/a/b", "/a", 2);
        assert_eq!(tally.total("/a"), 3);
        tally.add("/a/b", "/a", 0);
        tally.add("/a/b", "/a", 1);
        assert_eq!(tally.total("/a"), 4);
        assert_eq!(tally.total("/other"), 0);
    }

    #[test]
    fn a_container_is_known_by_its_short_id() {
        let id = "0123456789abcdef".repeat(4);
        for name in
            [format!("/docker/{id}"), format!("/a.slice/docker-{id}.scope"), format!("/cri-containerd-{id}.scope")]
        {
            assert_eq!(container(&name), Some("0123456789ab"), "{name}");
        }
        assert_eq!(container("/system.slice/cron.service"), None);
        assert_eq!(container("/"), None);
    }

    #[test]
    fn a_group_is_within_another_by_whole_names_only() {
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/") && is_within("/", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/", "/a"));
    }
}
