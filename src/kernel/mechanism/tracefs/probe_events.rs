//! Events at functions of the kernel (kprobe events). They belong to no instance: they are defined for all of them, in a group that is
//! rdiag's own, and go with this value. What a killed rdiag leaves behind is removed by the next start, by the process and its start time
//! in the group's name.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error_log::latest_error;
use super::undo::{self, Debt, Owed};
use super::{place, stale};
use crate::host::{Control, Host};
use rdiag_model::{Reason, Unavailable};

/// Where they are defined.
const FILE: &str = "kprobe_events";
/// How often each was passed, and how often that was missed.
const PROFILE: &str = "kprobe_profile";
/// Its columns after the name.
const PASSED: usize = 0;
const MISSED: usize = 1;
/// Calls of one function under way whose return can be awaited; the kernel's own limit, 10 or twice the CPUs, is soon reached by
/// functions that wait.
const MOST_CALLS: u32 = 1024;

/// Numbers the groups of this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Whether an event happens when its function is entered, or when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// When it is entered.
    Entry,
    /// When it returns.
    Return,
}

/// Events that this process has defined. Drop what uses them before.
#[derive(Debug)]
pub struct ProbeEvents {
    control: Control,
    place: &'static str,
    group: String,
    names: Vec<String>,
    /// Who removes them if rdiag is killed.
    debt: Debt,
}

impl ProbeEvents {
    /// None yet. Kernels without kprobes have no file for them.
    pub fn new(host: &Host) -> Result<Self, Unavailable> {
        place::obstacle(host)?;
        let place = place::find(host)?;
        let nobody = || Unavailable::new(Reason::NotVisible, "a recorded tree has no running kernel to trace");
        let control = host.control().ok_or_else(nobody)?;
        if !host.exists(&format!("{place}/{FILE}")) {
            let why = "this kernel has no events at its functions (it was built without CONFIG_KPROBE_EVENTS)";
            return Err(Unavailable::new(Reason::Absent, why).with_remedy("count tracepoints instead"));
        }
        sweep(host, &control, place);
        // Groups are words of C.
        let group = stale::name(host, stale::PREFIX, NUMBER.fetch_add(1, Ordering::Relaxed)).replace('-', "_");
        let debt = undo::owe(Owed::Events { place: place.to_owned(), group: group.clone() });
        Ok(Self { control, place, group, names: Vec::new(), debt })
    }

    /// The group of all of them.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Defines one at a function, with these fields in the kernel's words (`size=$arg3:u64`). Returns its name.
    pub fn define(&mut self, function: &str, moment: Moment, fields: &[String]) -> Result<String, Unavailable> {
        let name = format!("{}_{}", self.group, self.names.len());
        let order = order(&self.group, &name, function, moment, fields);
        match self.control.write(&format!("{}/{FILE}", self.place), &order) {
            Ok(()) => {
                self.names.push(name.clone());
                Ok(name)
            }
            Err(error) => {
                let log = self.control.read(&format!("{}/error_log", self.place)).unwrap_or_default();
                // The log holds errors of other users, too.
                let said = latest_error(&log).filter(|said| said.contains(&name)).unwrap_or_else(|| error.to_string());
                let reason = match error.kind() {
                    io::ErrorKind::PermissionDenied => Reason::Denied,
                    io::ErrorKind::NotFound => Reason::Absent,
                    _ => Reason::Malformed,
                };
                Err(Unavailable::new(reason, format!("the kernel makes no event of {function}: {said}")))
            }
        }
    }

    /// How often functions were called without the events, all together: too many calls were under way, or the kernel was in
    /// another probe.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.profile(MISSED)
    }

    /// How often functions were called with them, whatever a filter let through.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.profile(PASSED)
    }

    fn profile(&self, column: usize) -> u64 {
        let profile = self.control.read(&format!("{}/{PROFILE}", self.place)).unwrap_or_default();
        sum_of(column, &profile, &self.names)
    }
}

impl Drop for ProbeEvents {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = self.control.write(&format!("{}/{FILE}", self.place), &format!("-:{}/{name}", self.group));
        }
        if remove_group(&self.control, self.place, &self.group) {
            self.debt.settle();
        }
    }
}

fn order(group: &str, name: &str, function: &str, moment: Moment, fields: &[String]) -> String {
    let kind = match moment {
        Moment::Entry => "p".to_owned(),
        Moment::Return => format!("r{MOST_CALLS}"),
    };
    let words = [format!("{kind}:{group}/{name}"), function.to_owned()];
    words.into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// `  NAME    HITS    MISSED`, a line for each event of the host.
fn sum_of(column: usize, profile: &str, names: &[String]) -> u64 {
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        names.iter().any(|own| own == name).then(|| words.nth(column)?.parse::<u64>().ok())?
    };
    profile.lines().filter_map(number).fold(0, u64::saturating_add)
}

/// Removes what processes of rdiag that are gone have defined. An event that an instance still uses stays.
pub(super) fn sweep(host: &Host, control: &Control, place: &str) {
    let file = format!("{place}/{FILE}");
    for event in left_behind(&control.read(&file).unwrap_or_default(), |owner| stale::is_gone(host, owner)) {
        let _ = control.write(&file, &format!("-:{event}"));
    }
}

/// Removes the events of a group; whether there are none any more.
pub(super) fn remove_group(control: &Control, place: &str, group: &str) -> bool {
    let file = format!("{place}/{FILE}");
    let own = group.replace('_', "-");
    let left = || left_behind(&control.read(&file).unwrap_or_default(), |owner| owner == own);
    for event in left() {
        let _ = control.write(&file, &format!("-:{event}"));
    }
    left().is_empty()
}

/// The events, as `GROUP/NAME`, of groups of rdiag whose owner is gone.
fn left_behind(defined: &str, is_gone: impl Fn(&str) -> bool) -> Vec<String> {
    let event = |line: &str| {
        // `p:GROUP/NAME FUNCTION …`, `r1024:GROUP/NAME …`.
        let event = line.split_whitespace().next()?.split_once(':')?.1;
        let (group, _) = event.split_once('/')?;
        is_gone(&group.replace('_', "-")).then(|| event.to_owned())
    };
    defined.lines().filter_map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_defined_in_the_words_of_the_kernel() {
        let fields = ["f0=$arg3:u64".to_owned(), "f1=$arg1:u32".to_owned()];
        assert_eq!(
            order("rdiag_1_2_0", "rdiag_1_2_0_0", "vfs_read", Moment::Entry, &fields),
            "p:rdiag_1_2_0/rdiag_1_2_0_0 vfs_read f0=$arg3:u64 f1=$arg1:u32"
        );
        let returned = order("g", "n", "vfs_read", Moment::Return, &["f0=$retval:s64".to_owned()]);
        assert_eq!(returned, "r1024:g/n vfs_read f0=$retval:s64");
    }

    #[test]
    fn only_what_dead_processes_of_rdiag_have_defined_is_removed() {
        let defined = "p:kprobes/mine vfs_read\nr1024:rdiag_12_345_0/rdiag_12_345_0_0 vfs_read f0=$retval:s64\n\
             p:rdiag_13_345_0/rdiag_13_345_0_0 vfs_write\np:rdiag/x vfs_open\np:rdiag_1_2/y vfs_open\n\nx";
        let found = left_behind(defined, |owner| stale::owner(owner).is_some_and(|(pid, _)| pid == 12));
        assert_eq!(found, ["rdiag_12_345_0/rdiag_12_345_0_0"]);
    }

    #[test]
    fn calls_are_those_of_our_own_events() {
        let profile =
            "  rdiag_1_2_0_0       100      5\n  mine    7  9\n  rdiag_1_2_0_1  3 1\n  rdiag_1_2_0_1x  3 1\n  odd\n";
        let names = ["rdiag_1_2_0_0".into(), "rdiag_1_2_0_1".into()];
        assert_eq!((sum_of(PASSED, profile, &names), sum_of(MISSED, profile, &names)), (103, 6));
    }
}
