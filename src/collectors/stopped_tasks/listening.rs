//! The sockets that stopped processes listen on, and nothing else does.

use std::collections::{BTreeMap, BTreeSet};

use crate::socket_table::{each_line, listeners};
use rdiag_kernel::host::{Host, SocketOwners, socket_owners_beside};

/// Descriptors of a process that are looked at.
const MAX_DESCRIPTORS: usize = 4096;
/// Lines of the table of Unix sockets that are read.
const MAX_UNIX: usize = 20_000;
/// The flag of a Unix socket that listens (`__SO_ACCEPTCON`).
const ACCEPTS: u32 = 0x0001_0000;
/// Programs that hold the sockets of services that they start, and accept nothing on them meanwhile.
const ACTIVATORS: [&str; 2] = ["systemd", "init"];

/// What stopped processes listen on.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// Names of the sockets on which each of them listens alone.
    pub(super) alone: BTreeMap<u32, BTreeSet<String>>,
    /// Those of which a running process may have a socket open as well: the search for one ended early.
    pub(super) unknown: BTreeSet<u32>,
}

/// Names of the sockets on which each of these stopped processes listens, without those that a running process has open as well: workers
/// that share the socket of a stopped parent go on serving. `stopped` are all that are stopped.
pub(super) fn alone(host: &Host, pids: &[u32], stopped: &BTreeSet<u32>) -> Listening {
    let mut held: BTreeMap<u32, BTreeMap<u64, String>> = BTreeMap::new();
    for pid in pids.iter().copied() {
        let sockets = sockets(host, pid);
        if !sockets.is_empty() {
            held.insert(pid, listened(host, pid, &sockets));
        }
    }
    let wanted: BTreeSet<u64> = held.values().flat_map(BTreeMap::keys).copied().collect();
    let found = match wanted.is_empty() {
        true => SocketOwners::default(),
        false => socket_owners_beside(host, &wanted, stopped, &ACTIVATORS),
    };
    let mut told = Listening::default();
    for (pid, sockets) in held {
        let alone: BTreeSet<String> =
            sockets.into_iter().filter(|(inode, _)| !found.owners.contains_key(inode)).map(|(_, name)| name).collect();
        if found.cut && !alone.is_empty() {
            told.unknown.insert(pid);
        } else {
            told.alone.insert(pid, alone);
        }
    }
    told
}

/// Inodes of the sockets that a process has open.
fn sockets(host: &Host, pid: u32) -> BTreeSet<u64> {
    let Ok(descriptors) = host.list(&format!("proc/{pid}/fd")) else { return BTreeSet::new() };
    let inode = |descriptor: &String| {
        let target = host.link(&format!("proc/{pid}/fd/{descriptor}")).ok()?;
        target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    descriptors.iter().take(MAX_DESCRIPTORS).filter_map(inode).collect()
}

/// The sockets among these that listen, in the network namespace of the process, with their addresses.
fn listened(host: &Host, pid: u32, held: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let table = |name: &str| format!("proc/{pid}/net/{name}");
    let rows = ["tcp", "tcp6"].into_iter().flat_map(|name| listeners(host, &table(name)).unwrap_or_default());
    let mut found: BTreeMap<u64, String> =
        rows.filter(|row| held.contains(&row.inode)).map(|row| (row.inode, row.local)).collect();
    let mut left = MAX_UNIX;
    // What is not read is not known to listen.
    let _ = each_line(host, &table("unix"), |line| {
        found.extend(unix(line).filter(|(inode, _)| held.contains(inode)));
        left -= 1;
        left > 0
    });
    found
}

/// Inode and path of a Unix socket that listens: `Num RefCount Protocol Flags Type St Inode Path`.
fn unix(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_whitespace().skip(3);
    let flags = u32::from_str_radix(words.next()?, 16).ok()?;
    let inode = words.nth(2)?.parse().ok()?;
    (flags & ACCEPTS != 0).then(|| (inode, words.next().unwrap_or("a Unix socket without a name").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::unix;

    #[test]
    fn unix_sockets_that_listen_are_told_from_those_that_talk() {
        let listens = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/app.sock";
        assert_eq!(unix(listens), Some((12_345, "/run/app.sock".to_owned())));
        assert_eq!(unix("0000000000000000: 00000003 00000000 00000000 0001 03 12346 /run/app.sock"), None);
        assert!(unix("0: 2 0 00010000 0001 01 7").is_some_and(|(inode, _)| inode == 7));
        for line in ["", "Num RefCount Protocol Flags Type St Inode Path", "0: 2 0 00010000 0001 01", "0: 2 0 xx 1 1 7"]
        {
            assert_eq!(unix(line), None, "{line:?}");
        }
    }
}
