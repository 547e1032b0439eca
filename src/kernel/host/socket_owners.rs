//! Who holds a socket: the descriptors of processes name sockets by inode.

use std::collections::{BTreeSet, HashMap};

use super::Host;
use rdiag_model::Reason;

/// More processes and descriptors than these are not looked at, nor is the search longer than this.
const MAX_PROCESSES: usize = 20_000;
const MAX_DESCRIPTORS: usize = 200_000;
const MAX_SEARCH_SECONDS: f64 = 0.5;

/// The first process, by id, that holds each socket, with its name; and whether every process could be looked at.
pub fn socket_owners(host: &Host, wanted: &BTreeSet<u64>) -> (HashMap<u64, (u32, String)>, bool) {
    socket_owners_beside(host, wanted, &BTreeSet::new())
}

/// The same, where some processes are not asked for.
pub fn socket_owners_beside(
    host: &Host,
    wanted: &BTreeSet<u64>,
    beside: &BTreeSet<u32>,
) -> (HashMap<u64, (u32, String)>, bool) {
    let mut owners = HashMap::new();
    let mut all_seen = true;
    let Ok(names) = host.list("proc") else { return (owners, false) };
    let mut pids: Vec<u32> =
        names.iter().filter_map(|name| name.parse().ok()).filter(|pid| !beside.contains(pid)).collect();
    pids.sort_unstable();
    let deadline = host.now() + MAX_SEARCH_SECONDS;
    let mut left = MAX_DESCRIPTORS;
    for pid in pids.into_iter().take(MAX_PROCESSES) {
        if owners.len() == wanted.len() {
            break;
        }
        if left == 0 || host.now() > deadline {
            return (owners, false);
        }
        let descriptors = match host.list(&format!("proc/{pid}/fd")) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                all_seen &= error.reason != Reason::Denied;
                continue;
            }
        };
        for descriptor in descriptors {
            left = left.saturating_sub(1);
            let Ok(target) = host.link(&format!("proc/{pid}/fd/{descriptor}")) else { continue };
            let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')?.parse::<u64>().ok());
            if let Some(inode) = inode.filter(|inode| wanted.contains(inode)) {
                let process = || host.read_line(&format!("proc/{pid}/comm")).unwrap_or_else(|_| "?".into());
                owners.entry(inode).or_insert_with(|| (pid, process()));
            }
        }
    }
    (owners, all_seen)
}
