//! Tables of the kernel that are files: keys of users, System V IPC, mounts.

use std::collections::BTreeMap;

use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Unavailable};
use rdiag_proc::MountLine;

/// The keys of a user: their number and size against their limits (/proc/sys/kernel/keys).
#[derive(Debug, PartialEq)]
pub(super) struct KeyUser {
    pub(super) uid: u32,
    pub(super) keys: f64,
    pub(super) most_keys: f64,
    pub(super) bytes: f64,
    pub(super) most_bytes: f64,
}

impl KeyUser {
    pub(super) fn share(&self) -> f64 {
        (self.keys / self.most_keys).max(self.bytes / self.most_bytes)
    }
}

/// ` 1000:     4 4/4 3/200 68/20000`: how often it is used, keys, those that count, and their bytes.
pub(super) fn key_users(text: &str) -> Vec<KeyUser> {
    let user = |line: &str| {
        let (uid, rest) = line.split_once(':')?;
        let mut quotas = rest.split_whitespace().skip(2).map(|word| {
            let (used, most) = word.split_once('/')?;
            Some((f64::from(used.parse::<u32>().ok()?), f64::from(most.parse::<u32>().ok()?)))
        });
        let ((keys, most_keys), (bytes, most_bytes)) = (quotas.next()??, quotas.next()??);
        let uid = uid.trim().parse().ok()?;
        (most_keys > 0.0 && most_bytes > 0.0).then_some(KeyUser { uid, keys, most_keys, bytes, most_bytes })
    };
    text.lines().filter_map(user).collect()
}

/// Mounts by the type of their file system, from mountinfo.
pub(super) fn mounts_by_kind(text: &str) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for line in text.lines() {
        let kind = MountLine::parse(line.as_bytes())
            .map_or_else(Default::default, |line| String::from_utf8_lossy(line.kind()));
        // What follows `fuse.` is a user's, and may hold white space that the kernel does not escape.
        let kind = kind.split_whitespace().next().unwrap_or("?");
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

/// What one limit is on, how much of it is used, and its users.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) parameter: &'static str,
    pub(super) count: f64,
    pub(super) limit: f64,
    pub(super) by_user: BTreeMap<u32, f64>,
    pub(super) by_creator: BTreeMap<u32, f64>,
}

/// A kind of System V IPC, with the limits on it.
#[derive(Debug)]
pub(super) struct Kind {
    file: &'static str,
    limits: &'static [Limit],
}

/// A limit: what counts towards it, the column with its size (none: each row is one), and where the limit stands.
#[derive(Debug)]
struct Limit {
    name: &'static str,
    size: Option<&'static str>,
    in_pages: bool,
    parameter: &'static str,
    path: &'static str,
    field: usize,
}

pub(super) const KINDS: &[Kind] = &[
    Kind {
        file: "shm",
        limits: &[
            limit("shared memory segments", None, "kernel.shmmni", "proc/sys/kernel/shmmni", 0),
            Limit {
                in_pages: true,
                ..limit("shared memory pages", Some("size"), "kernel.shmall", "proc/sys/kernel/shmall", 0)
            },
        ],
    },
    Kind {
        file: "sem",
        limits: &[
            limit("semaphore sets", None, "kernel.sem, field 4", "proc/sys/kernel/sem", 3),
            limit("semaphores", Some("nsems"), "kernel.sem, field 2", "proc/sys/kernel/sem", 1),
        ],
    },
    Kind { file: "msg", limits: &[limit("message queues", None, "kernel.msgmni", "proc/sys/kernel/msgmni", 0)] },
];

const fn limit(
    name: &'static str,
    size: Option<&'static str>,
    parameter: &'static str,
    path: &'static str,
    field: usize,
) -> Limit {
    Limit { name, size, in_pages: false, parameter, path, field }
}

impl Kind {
    pub(super) fn instances(&self) -> impl Iterator<Item = &'static str> {
        self.limits.iter().map(|limit| limit.name)
    }

    /// The objects of this kind against each limit on them.
    pub(super) fn read(&self, host: &Host) -> Result<Vec<Table>, Unavailable> {
        let path = format!("proc/sysvipc/{}", self.file);
        let text = host.read(&path)?;
        let page = host.facts().page_size.max(1) as f64;
        let table = |limit: &Limit| {
            let most = host.read(limit.path)?;
            // The limit on pages is as large as a number can be.
            let most = most.split_whitespace().nth(limit.field).and_then(|word| word.parse::<u64>().ok());
            let malformed = |path: &str| Unavailable::new(Reason::Malformed, format!("/{path} is not as expected"));
            let mut table = Table {
                name: limit.name,
                parameter: limit.parameter,
                limit: most.ok_or_else(|| malformed(limit.path))? as f64,
                ..Table::default()
            };
            add(&mut table, &text, limit, page).ok_or_else(|| malformed(&path))?;
            Ok(table)
        };
        self.limits.iter().map(table).collect()
    }
}

/// Adds up the rows by the names in the first line; a row that is cut short is left out.
fn add(table: &mut Table, text: &str, limit: &Limit, page: f64) -> Option<()> {
    let header: Vec<&str> = text.lines().next()?.split_whitespace().collect();
    let column = |name: &str| header.iter().position(|own| *own == name);
    let (user, creator) = (column("uid")?, column("cpid"));
    let size = match limit.size {
        Some(name) => Some(column(name)?),
        None => None,
    };
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let of_row = match size.map(number) {
            None => Some(1.0),
            Some(size) => size.map(|size| if limit.in_pages { (size as f64 / page).ceil() } else { size as f64 }),
        };
        let (Some(amount), Some(uid)) = (of_row, number(user).and_then(|uid| u32::try_from(uid).ok())) else {
            continue;
        };
        table.count += amount;
        *table.by_user.entry(uid).or_default() += amount;
        if let Some(pid) = creator.and_then(number).and_then(|pid| u32::try_from(pid).ok()) {
            *table.by_creator.entry(pid).or_default() += amount;
        }
    }
    Some(())
}
