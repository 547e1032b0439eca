//! Instances that a killed rdiag has left behind: the kernel keeps them, with their events switched on.

use super::{global, probe_events};
use crate::host::{Control, Host};
use rdiag_proc::{Field, TaskStat};

/// The instances of rdiag begin with it.
pub(super) const PREFIX: &str = "rdiag-";
/// Those that stand beside one of them.
pub(super) const BESIDE: &str = "rdiag.names-";

/// The name of an instance of this process: its id and start time tell whether its owner lives.
pub(super) fn name(host: &Host, prefix: &str, number: u64) -> String {
    let pid = host.facts().pid;
    let started = started(host, pid).unwrap_or(0);
    format!("{prefix}{pid}-{started}-{number}")
}

/// Removes the instances of rdiag whose process is gone, and gives the global tracing back where one of them tells that it was taken.
/// An instance that is still being read cannot be removed, and stays. Events that those instances used go after them.
pub(super) fn sweep(host: &Host, control: &Control, instances: &str) {
    for name in host.subdirectories(instances).unwrap_or_default() {
        if !is_gone(host, &name) {
            continue;
        }
        let directory = format!("{instances}/{name}");
        match (name.ends_with(global::SUFFIX), instances.strip_suffix("/instances")) {
            (true, Some(place)) => {
                // Two that give it back at once would take it from a third one.
                let _alone = control.lock(instances);
                global::repair(control, place, &directory);
            }
            _ => drop(control.remove_directory(&directory)),
        }
    }
    if let Some(place) = instances.strip_suffix("/instances") {
        probe_events::sweep(host, control, place);
    }
}

/// Whether a name is one that rdiag gives, and the process that it names is gone.
pub(super) fn is_gone(host: &Host, name: &str) -> bool {
    owner(name).is_some_and(|(pid, since)| started(host, pid) != Some(since))
}

/// PID and start time from an instance's name; none if it is not rdiag's.
pub(super) fn owner(name: &str) -> Option<(u32, u64)> {
    let name = name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(BESIDE))?;
    let mut parts = name.strip_suffix(global::SUFFIX).unwrap_or(name).split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.parse::<u64>().ok()?;
    parts.next().is_none().then_some(owner)
}

/// When a process was started, in ticks since boot; none if there is none, or only what is
/// left of one that ended.
fn started(host: &Host, pid: u32) -> Option<u64> {
    let text = host.read(&format!("proc/{pid}/stat")).ok()?;
    let stat = TaskStat::parse(text.as_bytes()).filter(|stat| !stat.has_ended())?;
    stat.field(Field::Start)
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn only_names_that_rdiag_gives_have_an_owner() {
        assert_eq!(owner("rdiag-12-345-0"), Some((12, 345)));
        assert_eq!(owner("rdiag-12-345-0-global"), Some((12, 345)));
        assert_eq!(owner("rdiag.names-12-345-1"), Some((12, 345)));
        for other in [
            "rdiag",
            "rdiag-",
            "rdiag-12",
            "rdiag-12-345",
            "rdiag-x-1-0",
            "rdiag-1-2-3-4",
            "rdiag-1-2-global",
            "mine-12-345-0",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
