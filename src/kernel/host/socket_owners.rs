//! Who holds a socket: the descriptors of processes name sockets by inode.

use std::collections::{BTreeSet, HashMap};

use super::Host;
use rdiag_model::Reason;

/// More processes and descriptors than these are not looked at, nor is the search longer than this.
const MAX_PROCESSES: usize = 20_000;
const MAX_DESCRIPTORS: usize = 200_000;
const MAX_SEARCH_SECONDS: f64 = 0.5;
/// Descriptors of a process after which the clock is looked at.
const LOOK_EVERY: usize = 256;

/// What a search found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SocketOwners {
    /// The first process, by id, that holds each socket, with its name.
    pub owners: HashMap<u64, (u32, String)>,
    /// Whether some processes could not be looked at.
    pub refused: bool,
    /// Whether it ended before all were looked at.
    pub cut: bool,
}

/// The first process, by id, that holds each socket, with its name; and whether every process could be looked at.
pub fn socket_owners(host: &Host, wanted: &BTreeSet<u64>) -> (HashMap<u64, (u32, String)>, bool) {
    let found = socket_owners_beside(host, wanted, &BTreeSet::new(), &[]);
    (found.owners, !found.refused && !found.cut)
}

/// The same, where some processes are not asked for, nor those of some names: any user may give a process any name, so that there may be
/// many of them.
pub fn socket_owners_beside(
    host: &Host,
    wanted: &BTreeSet<u64>,
    beside: &BTreeSet<u32>,
    names: &[&str],
) -> SocketOwners {
    let mut found = SocketOwners::default();
    let Ok(listed) = host.list("proc") else { return SocketOwners { cut: true, ..found } };
    let mut pids: Vec<u32> =
        listed.iter().filter_map(|name| name.parse().ok()).filter(|pid| !beside.contains(pid)).collect();
    pids.sort_unstable();
    found.cut = pids.len() > MAX_PROCESSES;
    let deadline = host.now() + MAX_SEARCH_SECONDS;
    let mut left = MAX_DESCRIPTORS;
    for pid in pids.into_iter().take(MAX_PROCESSES) {
        if found.owners.len() == wanted.len() {
            found.cut = false;
            break;
        }
        let descriptors = match host.list(&format!("proc/{pid}/fd")) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                found.refused |= error.reason == Reason::Denied;
                continue;
            }
        };
        let mut name = None;
        for (at, descriptor) in descriptors.into_iter().enumerate() {
            if left == 0 || at.is_multiple_of(LOOK_EVERY) && host.now() > deadline {
                return SocketOwners { cut: true, ..found };
            }
            left -= 1;
            let Ok(target) = host.link(&format!("proc/{pid}/fd/{descriptor}")) else { continue };
            let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')?.parse::<u64>().ok());
            let Some(inode) = inode.filter(|inode| wanted.contains(inode)) else { continue };
            let read = || host.read_line(&format!("proc/{pid}/comm")).unwrap_or_else(|_| "?".into());
            let name: &String = name.get_or_insert_with(read);
            if names.contains(&name.as_str()) {
                break;
            }
            found.owners.entry(inode).or_insert_with(|| (pid, name.clone()));
        }
    }
    found
}
