//! Who holds the sockets that a program names by inode.

use std::collections::{BTreeSet, HashMap};

use rdiag_kernel::host::{Host, socket_owners};

/// Sockets that are remembered; then all are forgotten.
const MOST: usize = 10_000;
/// The search goes through the descriptors of all processes, so it may take this share of the time, and this much at once.
const SHARE: f64 = 0.02;
const HEAD_START: f64 = 0.5;

/// Sockets and who holds them, as far as they were looked for.
#[derive(Debug, Default)]
pub(super) struct Owners {
    known: HashMap<u64, Option<(u32, String)>>,
    began: f64,
    spent: f64,
}

impl Owners {
    pub(super) fn new(began: f64) -> Self {
        Self { began, ..Self::default() }
    }

    /// Looks for those that are new, while their processes live.
    pub(super) fn learn(&mut self, host: &Host, inodes: impl IntoIterator<Item = u64>) {
        if self.known.len() > MOST {
            self.known.clear();
        }
        let new = |inode: &u64| *inode != 0 && !self.known.contains_key(inode);
        let wanted: BTreeSet<u64> = inodes.into_iter().filter(new).take(MOST).collect();
        let now = host.now();
        if wanted.is_empty() || self.spent > SHARE * (now - self.began) + HEAD_START {
            return;
        }
        let (mut found, _) = socket_owners(host, &wanted);
        self.known.extend(wanted.into_iter().map(|inode| (inode, found.remove(&inode))));
        self.spent += host.now() - now;
    }

    /// Name and process id. A socket without an inode has no process: it is closed, not accepted yet, or the kernel's.
    pub(super) fn of(&self, inode: u64) -> [Option<String>; 2] {
        match self.known.get(&inode) {
            Some(Some((pid, name))) => [Some(name.clone()), Some(pid.to_string())],
            _ if inode == 0 => [Some("(no process)".to_owned()), None],
            _ => [None, None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_kernel::host::HostSpec;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a made-up tree, not the host")]
    fn holders_are_named_and_a_socket_without_one_is_told_from_one_whose_holder_is_not_known() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("t0/proc/30/fd");
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("socket:[77]", folder.join("3")).unwrap();
        std::fs::write(tree.path().join("t0/proc/30/comm"), "web\n").unwrap();
        let host = Host::recorded(tree.path(), HostSpec::default());
        let mut owners = Owners::new(host.now());
        owners.learn(&host, [77, 78, 0]);
        assert_eq!(owners.of(77), ["web", "30"].map(|text| Some(text.to_owned())));
        assert_eq!(owners.of(78), [None, None]);
        assert_eq!(owners.of(0), [Some("(no process)".to_owned()), None]);
    }
}
