//! /proc/self/mountstats: what each NFS mount asked of its server since it was mounted.

use std::collections::BTreeSet;

use rdiag_proc::unescape_octal;

/// More mounts than this are left out.
pub(super) const MAX_MOUNTS: usize = 200;

/// Requests of one kind; times in milliseconds, summed over the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Requests {
    pub(super) count: u64,
    /// From the beginning until it was first sent.
    pub(super) queue: u64,
    /// From sending until the answer.
    pub(super) round_trip: u64,
    /// From the beginning to the end.
    pub(super) execute: u64,
}

/// The requests of a mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Nfs {
    pub(super) point: String,
    /// `server:/export`.
    pub(super) source: String,
    /// `nfs` or `nfs4`.
    pub(super) kind: String,
    pub(super) reads: Requests,
    pub(super) writes: Requests,
    /// Questions for names and attributes.
    pub(super) lookups: Requests,
    pub(super) all: Requests,
    /// Transmissions beyond the first of each request.
    pub(super) retransmits: u64,
    /// Requests that were not answered within all their retries.
    pub(super) timeouts: u64,
    /// Over all connections: transmissions, and requests that waited for a slot at each of them. None where the
    /// transport does not tell.
    pub(super) backlog: Option<(u64, u64)>,
}

/// The NFS mounts, each file system once, and how many were left out.
pub(super) fn mounts(text: &str) -> (Vec<Nfs>, usize) {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut left_out = 0;
    for entry in text.split("\ndevice ") {
        let mut lines = entry.lines();
        let Some(nfs) = lines.next().and_then(head) else { continue };
        let options = entry.lines().map(str::trim_start).find(|line| line.starts_with("opts:")).unwrap_or_default();
        // Several mounts of one file system (bind mounts of containers) show the same numbers; of several on one point
        // only one can be named.
        if !seen.insert((nfs.source.clone(), options)) || found.iter().any(|other: &Nfs| other.point == nfs.point) {
            continue;
        }
        if found.len() >= MAX_MOUNTS {
            left_out += 1;
            continue;
        }
        found.push(numbers(nfs, lines));
    }
    (found, left_out)
}

/// `srv:/export mounted on /mnt with fstype nfs4 statvers=1.1`; none for other types.
fn head(line: &str) -> Option<Nfs> {
    // Only the first entry of the file still has the word that divides them.
    let words: Vec<&str> = line.strip_prefix("device ").unwrap_or(line).split(' ').collect();
    let &[source, "mounted", "on", point, "with", "fstype", kind, ..] = words.as_slice() else { return None };
    let plain = |word: &str| String::from_utf8_lossy(&unescape_octal(word.as_bytes())).into_owned();
    let is_nfs = matches!(kind, "nfs" | "nfs4");
    is_nfs.then(|| Nfs { point: plain(point), source: plain(source), kind: kind.to_owned(), ..Nfs::default() })
}

fn numbers<'t>(mut nfs: Nfs, lines: impl Iterator<Item = &'t str>) -> Nfs {
    let mut operations = false;
    for line in lines.map(str::trim) {
        if line == "per-op statistics" {
            operations = true;
        } else if let Some(transport) = line.strip_prefix("xprt:") {
            if let Some((sends, waiting)) = backlog(transport) {
                let (before, waited) = nfs.backlog.unwrap_or_default();
                nfs.backlog = Some((before.saturating_add(sends), waited.saturating_add(waiting)));
            }
        } else if operations {
            operation(&mut nfs, line);
        }
    }
    nfs
}

/// `READ: 5 6 0 700 800 1 20 22 0`: requests, transmissions, timeouts, bytes out and in, then the three times.
fn operation(nfs: &mut Nfs, line: &str) {
    let Some((name, rest)) = line.split_once(':') else { return };
    let fields: Option<Vec<u64>> = rest.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some(&[count, sent, timeouts, _, _, queue, round_trip, execute, ..]) = fields.as_deref() else { return };
    let requests = Requests { count, queue, round_trip, execute };
    nfs.all.add(requests);
    nfs.retransmits = nfs.retransmits.saturating_add(sent.saturating_sub(count));
    nfs.timeouts = nfs.timeouts.saturating_add(timeouts);
    match name {
        "READ" | "READ_PLUS" => nfs.reads.add(requests),
        "WRITE" => nfs.writes.add(requests),
        "GETATTR" | "LOOKUP" | "ACCESS" => nfs.lookups.add(requests),
        _ => {}
    }
}

impl Requests {
    fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.queue = self.queue.saturating_add(more.queue);
        self.round_trip = self.round_trip.saturating_add(more.round_trip);
        self.execute = self.execute.saturating_add(more.execute);
    }
}

/// Transmissions of a connection, and the requests that waited, summed over them.
fn backlog(transport: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = transport.split_whitespace().collect();
    let (sends, waiting) = match fields.first()? {
        &"tcp" | &"rdma" => (fields.get(6)?, fields.get(10)?),
        &"udp" => (fields.get(3)?, fields.get(7)?),
        _ => return None,
    };
    Some((sends.parse().ok()?, waiting.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "device proc mounted on /proc with fstype proc\n\
        device filer:/home mounted on /mnt/my\\040home with fstype nfs4 statvers=1.1\n\
        \topts:\trw,vers=4.2\n\tage:\t60\n\tevents:\t1 2 3\n\
        \tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n\
        \txprt:\ttcp 823 0 1 0 9 100 90 0 500 40 7 0 0\n\
        \txprt:\ttcp 824 0 1 0 9 50 50 0 500 2 7 0 0\n\
        \tper-op statistics\n\
        \t        NULL: 1 1 0 44 24 0 1 1 0\n\
        \t        READ: 10 12 1 1000 90000 5 80 95 0\n\
        \t       WRITE: 4 4 0 90000 400 50 60 110 0\n\
        \t     GETATTR: 20 20 0 900 900 1 10 12 0\n\
        \t      LOOKUP: 2 2 0 90 90 0 1 1 2\n\n\
        device filer:/home mounted on /bound with fstype nfs4 statvers=1.1\n\topts:\trw,vers=4.2\n\tage:\t60\n\
        device old:/a mounted on /old with fstype nfs statvers=1.1\n\topts:\trw,vers=3,udp\n\
        \txprt:\tudp 700 1 30 29 0 60 6 2 0 0\n\tper-op statistics\n\t        READ: 1 1 0 1 1 0 3 3\n";

    #[test]
    fn the_requests_of_a_mount_are_summed_by_kind() {
        let (found, left_out) = mounts(TEXT);
        assert_eq!((found.len(), left_out), (2, 0));
        let home = &found[0];
        assert_eq!(
            (home.point.as_str(), home.source.as_str(), home.kind.as_str()),
            ("/mnt/my home", "filer:/home", "nfs4")
        );
        assert_eq!(home.reads, Requests { count: 10, queue: 5, round_trip: 80, execute: 95 });
        assert_eq!(home.writes, Requests { count: 4, queue: 50, round_trip: 60, execute: 110 });
        assert_eq!(home.lookups, Requests { count: 22, queue: 1, round_trip: 11, execute: 13 });
        assert_eq!((home.all.count, home.retransmits, home.timeouts), (37, 2, 1));
        assert_eq!(home.backlog, Some((150, 42)), "both connections");
        assert_eq!((found[1].reads.round_trip, found[1].backlog), (3, Some((30, 6))));
    }

    #[test]
    fn a_host_without_nfs_has_none() {
        assert_eq!(
            mounts("device proc mounted on /proc with fstype proc\nno device mounted on / with fstype rootfs\n").0,
            []
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        for line in ["READ 1 2 3", "READ: 1 2", "READ: 1 2 3 4 5 6 7 x", "READ:", "", ":"] {
            let mut nfs = Nfs::default();
            operation(&mut nfs, line);
            assert_eq!(nfs, Nfs::default(), "{line:?}");
        }
        for line in ["", " tcp 1 2", " local 1 2 3 4 5 6 7 8 9 10 11", " tcp 1 2 3 4 5 x 7 8 9 10"] {
            assert_eq!(backlog(line), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*") {
            let _ = mounts(&text);
        }

        #[test]
        fn any_numbers_are_survived(numbers in proptest::collection::vec(any::<u64>(), 0..12)) {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            let line = numbers.join(" ");
            let text = format!("{TEXT}\tREAD: {line}\n\tREAD: {line}\n\txprt:\ttcp {line}\n");
            let _ = mounts(&text);
        }
    }
}
