//! Which tasks there are, in what state, and what they used: one look at /proc.

use std::collections::BTreeMap;

use rdiag_kernel::host::Host;
use rdiag_proc::{Field, TaskStat};

/// Threads of one process that are looked at.
const MOST_THREADS: usize = 256;

/// What one group of processes (or the whole host) does and has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Processes that have not ended.
    pub processes: u64,
    /// Processes that have ended and were not collected.
    pub zombies: u64,
    /// Tasks in uninterruptible sleep.
    pub blocked: u64,
    /// Tasks that run or could run.
    pub runnable: u64,
    /// Tasks that sleep until something wakes them up.
    pub asleep: u64,
    /// CPU ticks, of children that were waited for too.
    pub ticks: u64,
    /// Minor page faults, of children that were waited for too.
    pub faults: u64,
    /// Major page faults, of children that were waited for too.
    pub major_faults: u64,
}

/// One look.
#[derive(Debug, Clone, Default)]
pub(super) struct Census {
    /// Tasks in uninterruptible sleep outside of the groups; none if only the groups were looked at.
    pub others_blocked: Option<u64>,
    /// Of the groups that were asked for, by their number.
    pub groups: BTreeMap<u32, Group>,
}

/// The fields of /proc/PID/stat that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    group: u32,
    faults: u64,
    major_faults: u64,
    ticks: u64,
    threads: usize,
}

/// Looks at all processes, and at the threads of some: those of the groups, or all. What ends meanwhile is left out.
#[must_use]
pub(super) fn look(host: &Host, groups: &[u32], all_threads: bool) -> Census {
    let mut census =
        Census { others_blocked: None, groups: groups.iter().map(|group| (*group, Group::default())).collect() };
    let mut others = 0;
    for pid in
        host.list("proc").unwrap_or_default().iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let Some(stat) = host.read(&format!("proc/{pid}/stat")).ok().and_then(|text| parse(&text)) else { continue };
        let group = census.groups.get_mut(&stat.group);
        if group.is_none() && !all_threads {
            continue;
        }
        let states = if stat.threads > 1 { states_of_threads(host, pid) } else { vec![stat.state] };
        let tasks_in = |state: char| states.iter().filter(|known| **known == state).count() as u64;
        if let Some(group) = group {
            group.processes += u64::from(!matches!(stat.state, 'Z' | 'X'));
            group.zombies += u64::from(stat.state == 'Z');
            group.blocked += tasks_in('D');
            group.runnable += tasks_in('R');
            group.asleep += tasks_in('S');
            group.ticks += stat.ticks;
            group.faults += stat.faults;
            group.major_faults += stat.major_faults;
        } else {
            others += tasks_in('D');
        }
    }
    census.others_blocked = all_threads.then_some(others);
    census
}

/// CPU ticks of a process, of its children that were waited for too.
#[must_use]
pub(super) fn ticks(host: &Host, pid: u32) -> Option<u64> {
    Some(parse(&host.read(&format!("proc/{pid}/stat")).ok()?)?.ticks)
}

/// The same without its children.
#[must_use]
pub(super) fn ticks_alone(host: &Host, pid: u32) -> Option<u64> {
    alone(&host.read(&format!("proc/{pid}/stat")).ok()?)
}

fn alone(text: &str) -> Option<u64> {
    TaskStat::parse(text.as_bytes())?.ticks()
}

fn states_of_threads(host: &Host, pid: &str) -> Vec<char> {
    let threads = host.list(&format!("proc/{pid}/task")).unwrap_or_default();
    let state = |tid: &String| parse(&host.read(&format!("proc/{pid}/task/{tid}/stat")).ok()?).map(|stat| stat.state);
    threads.iter().take(MOST_THREADS).filter_map(state).collect()
}

fn parse(text: &str) -> Option<Stat> {
    let stat = TaskStat::parse(text.as_bytes())?;
    let mut fields = stat.fields();
    let mut sum = |all: &[Field]| all.iter().map(|field| fields.number(*field)).sum::<Option<u64>>();
    Some(Stat {
        state: stat.state,
        group: sum(&[Field::Group])?.try_into().ok()?,
        faults: sum(&[Field::MinorFaults, Field::ChildrenMinorFaults])?,
        major_faults: sum(&[Field::MajorFaults, Field::ChildrenMajorFaults])?,
        ticks: sum(&[Field::User, Field::System, Field::ChildrenUser, Field::ChildrenSystem])?,
        threads: sum(&[Field::Threads])?.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_counted_behind_the_name_whatever_it_holds() {
        let text = "77 (a) b (c) D 1 70 70 0 -1 4194304 500 41 7 2 3 4 5 6 20 0 24 0 999 1 2";
        let fields = Stat { state: 'D', group: 70, faults: 541, major_faults: 9, ticks: 18, threads: 24 };
        assert_eq!(parse(text), Some(fields));
        assert_eq!(alone(text), Some(7), "fields 14 and 15");
        for broken in ["", "77 (a", "77 (a) ", "77 (a) R 1 x", "77 (a) R 1 70 70 0 -1 0 1 2 3 4 5 6 7"] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn this_process_is_found_in_its_group() {
        let host = Host::live(std::path::Path::new("/"));
        let group = rustix::process::getpgrp().as_raw_nonzero().get().cast_unsigned();
        let found = look(&host, &[group], false);
        assert_eq!(found.others_blocked, None, "other threads were not looked at");
        let found = found.groups[&group];
        // The thread that reads this is running.
        assert!(found.processes >= 1 && found.faults > 0 && found.runnable >= 1, "{found:?}");
        assert!(look(&host, &[], true).others_blocked.is_some());
    }
}
