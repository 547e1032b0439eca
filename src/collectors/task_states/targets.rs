//! Which processes are observed: those that were named, what they give birth to, and what a name or a group picks out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::parse;
use rdiag_kernel::host::{ProcessDir, SourceError};
use rdiag_model::Target;

/// Processes that are looked at when a name or a group picks them out; of a host with more, the rest is not seen.
const MAX_SEARCHED: usize = 20_000;
/// A name or a group is looked for again after so many seconds; children that no file lists too.
const SEARCH_SECONDS: f64 = 0.5;

/// The observed processes.
pub(super) struct Targets {
    target: Target,
    /// rdiag itself, which is never observed unless it was named.
    own: u32,
    pids: BTreeSet<u32>,
    searched: f64,
    newest: Option<Vec<u8>>,
    without_children_file: bool,
    buffer: Vec<u8>,
    name: String,
}

impl Targets {
    pub(super) fn new(target: Target, own: u32) -> Self {
        Self {
            pids: target.pids.iter().copied().collect(),
            target,
            own,
            searched: f64::NEG_INFINITY,
            newest: None,
            without_children_file: false,
            buffer: Vec::new(),
            name: String::new(),
        }
    }

    /// The name that a thread must have; none if any will do.
    pub(super) fn comm(&self) -> Option<&str> {
        self.target.comm.as_deref()
    }

    /// The processes, as of now.
    pub(super) fn now(&mut self, dir: &ProcessDir, now: f64) -> Result<Vec<u32>, SourceError> {
        let due = now - self.searched >= SEARCH_SECONDS;
        if self.target.pids.is_empty() {
            if due {
                self.searched = now;
                self.search(dir)?;
            }
        } else if self.target.children && (self.somebody_was_born(dir) || (due && self.without_children_file)) {
            if due {
                self.searched = now;
            }
            self.children(dir, due);
        }
        Ok(self.pids.iter().copied().collect())
    }

    /// A process has ended.
    pub(super) fn gone(&mut self, pid: u32) {
        self.pids.remove(&pid);
    }

    /// Whether any task was born on the host since the last time, as far as its newest number tells.
    fn somebody_was_born(&mut self, dir: &ProcessDir) -> bool {
        if !dir.loadavg_is_its_own() {
            return true;
        }
        let newest = dir.read("loadavg", &mut self.buffer).ok();
        let newest = newest.and_then(|bytes| bytes.split(|byte| *byte == b' ').nth(4)).map(<[u8]>::to_vec);
        let changed = newest.is_none() || newest != self.newest;
        self.newest = newest;
        changed
    }

    /// Takes in the children of all observed processes, and theirs.
    fn children(&mut self, dir: &ProcessDir, due: bool) {
        let mut todo: Vec<u32> = self.pids.iter().copied().collect();
        let mut tids = Vec::new();
        while let Some(pid) = todo.pop() {
            self.name.clear();
            let _ = write!(self.name, "{pid}/task");
            if dir.list(&self.name, &mut tids).is_err() {
                continue;
            }
            for tid in &tids {
                self.name.clear();
                let _ = write!(self.name, "{pid}/task/{tid}/children");
                let Ok(bytes) = dir.read(&self.name, &mut self.buffer) else {
                    self.without_children_file |= !tids.is_empty();
                    break;
                };
                let words = bytes.split(|byte| *byte == b' ');
                let found = words.filter_map(|word| std::str::from_utf8(word).ok()?.trim().parse::<u32>().ok());
                todo.extend(found.filter(|child| *child != self.own && self.pids.insert(*child)));
            }
        }
        if self.without_children_file && due {
            self.children_by_parent(dir);
        }
    }

    /// The same for kernels without lists of children: all processes with an observed parent.
    fn children_by_parent(&mut self, dir: &ProcessDir) {
        let mut all = Vec::new();
        if dir.list("", &mut all).is_err() {
            return;
        }
        for pid in all.into_iter().take(MAX_SEARCHED).filter(|pid| *pid != self.own) {
            self.name.clear();
            let _ = write!(self.name, "{pid}/stat");
            let stat = dir.read(&self.name, &mut self.buffer).ok().and_then(parse::stat);
            if stat.is_some_and(|stat| self.pids.contains(&stat.parent)) {
                self.pids.insert(pid);
            }
        }
    }

    /// Looks for the processes that a name or a group picks out.
    fn search(&mut self, dir: &ProcessDir) -> Result<(), SourceError> {
        let mut all = Vec::new();
        let mut tids = Vec::new();
        dir.list("", &mut all)?;
        for pid in all.into_iter().take(MAX_SEARCHED).filter(|pid| *pid != self.own) {
            if let Some(group) = &self.target.cgroup {
                self.name.clear();
                let _ = write!(self.name, "{pid}/cgroup");
                let Ok(bytes) = dir.read(&self.name, &mut self.buffer) else { continue };
                if !is_in(&String::from_utf8_lossy(bytes), group) {
                    self.pids.remove(&pid);
                    continue;
                }
            }
            if let Some(comm) = &self.target.comm {
                self.name.clear();
                let _ = write!(self.name, "{pid}/task");
                let _ = dir.list(&self.name, &mut tids);
                let has = tids.iter().any(|tid| {
                    self.name.clear();
                    let _ = write!(self.name, "{pid}/task/{tid}/comm");
                    dir.read(&self.name, &mut self.buffer).is_ok_and(|name| name.trim_ascii_end() == comm.as_bytes())
                });
                if !has {
                    continue;
                }
            }
            self.pids.insert(pid);
        }
        Ok(())
    }
}

/// Whether /proc/PID/cgroup names this group, or one below it, in any hierarchy.
fn is_in(text: &str, group: &str) -> bool {
    let wanted = group.trim_start_matches("/sys/fs/cgroup").trim_matches('/');
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.map(|path| path.trim_matches('/')).any(|path| {
        path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || wanted.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn a_group_holds_what_is_below_it_and_nothing_that_only_begins_the_same() {
        let text = "4:memory:/a\n1:cpu,cpuacct:/web/one\n0::/user.slice\n";
        for (group, expected) in [
            ("/web", true),
            ("web/one", true),
            ("/sys/fs/cgroup/web", true),
            ("/we", false),
            ("/web/one/two", false),
            ("/user.slice", true),
        ] {
            assert_eq!(is_in(text, group), expected, "{group}");
        }
        assert!(!is_in("garbage", "/a"));
    }
}
