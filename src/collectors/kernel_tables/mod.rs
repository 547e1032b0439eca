//! Tables of the kernel that are full at a limit: keys, System V IPC, mounts, pseudo-terminals, and who holds the contexts of
//! asynchronous I/O.
//!
//! Nothing slows down before one of these limits is reached, and no counter shows the calls that fail. The counts are in small files;
//! who holds asynchronous I/O is among the mappings of processes, and is looked for only near its limit.

mod metrics;
mod parse;
mod rings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::parse::Table;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "kernel_tables",
    help: "Keys, System V IPC, mounts and pseudo-terminals against their limits, and who holds asynchronous I/O, from /proc.",
    cadence: Cadence::Ends,
    series: metrics::SERIES,
    metrics: metrics::METRICS,
    overhead: "once, at the beginning of a window: a dozen small files and the list of mounts; near the limit of asynchronous I/O also the \
               mappings of all processes, at most 0.25 s",
    start: |_| Box::new(KernelTables),
};

/// Users that are recorded: those nearest to a limit.
const NEAREST: usize = 10;
/// Processes, users and kinds that are recorded or named: those with the most.
const LARGEST: usize = 5;
/// Holders of asynchronous I/O are looked for from this share of its limit on.
const NEAR: f64 = 0.7;

struct KernelTables;

impl Collect for KernelTables {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        // A limit that is near at the end of a window was not far at its beginning.
        if out.current() > 0 {
            return Ok(());
        }
        let users = UserNames::new(host);
        keys(host, &users, out);
        for kind in parse::KINDS {
            match kind.read(host) {
                Ok(tables) => tables.iter().for_each(|table| ipc(table, host, &users, out)),
                Err(gap) => kind.instances().for_each(|name| {
                    out.gap("kernel_tables.ipc", name, gap.clone());
                    out.gap("kernel_tables.ipc_limit", name, gap.clone());
                }),
            }
        }
        mounts(host, out);
        ptys(host, out);
        aio(host, out);
        Ok(())
    }
}

/// Two numbers, or why one of them is not there.
fn pair(host: &Host, value: &str, limit: &str) -> Result<(f64, f64), Unavailable> {
    Ok((host.read_u64(value)? as f64, host.read_u64(limit)? as f64))
}

fn keys(host: &Host, names: &UserNames, out: &Sink) {
    let mut users = match host.read("proc/key-users") {
        Ok(text) => parse::key_users(&text),
        Err(error) => return out.gap("kernel_tables.key", "", error.into()),
    };
    users.sort_by(|a, b| b.share().total_cmp(&a.share()));
    users.truncate(NEAREST);
    if users.is_empty() {
        let why = "no user has keys that count against a limit";
        out.gap("kernel_tables.key", "", Unavailable::new(Reason::NotApplicable, why));
    }
    for user in &users {
        let instance = user.uid.to_string();
        out.level("kernel_tables.keys", &instance, user.keys);
        out.level("kernel_tables.keys_limit", &instance, user.most_keys);
        out.level("kernel_tables.key_bytes", &instance, user.bytes);
        out.level("kernel_tables.key_bytes_limit", &instance, user.most_bytes);
        out.label(&instance, "name", names.of(user.uid));
    }
}

fn ipc(table: &Table, host: &Host, names: &UserNames, out: &Sink) {
    out.level("kernel_tables.ipc", table.name, table.count);
    out.level("kernel_tables.ipc_limit", table.name, table.limit);
    out.label(table.name, "limit", table.parameter);
    let mut users: Vec<(&u32, &f64)> = table.by_user.iter().collect();
    users.sort_by(|a, b| b.1.total_cmp(a.1));
    users.truncate(LARGEST);
    let Some((most, held)) = users.first() else { return };
    // One of several users with some each is not the one who fills it.
    if is_most(**held, table) {
        out.label(table.name, "name", format!("user {}", names.of(**most)));
    }
    let shares: Vec<String> = users.iter().map(|(uid, count)| format!("{count} of {}", names.of(**uid))).collect();
    out.label(table.name, "users", shares.join(", "));
    // Who made the most of them, if it is still there; of semaphores and queues the kernel does not tell.
    if let Some((pid, made)) = table.by_creator.iter().max_by(|a, b| a.1.total_cmp(b.1))
        && is_most(*made, table)
        && let Ok(process) = host.read_line(&format!("proc/{pid}/comm"))
    {
        out.label(table.name, "process", process);
        out.label(table.name, "pid", pid.to_string());
    }
}

/// Whether it is at least half of all that exist.
fn is_most(part: f64, table: &Table) -> bool {
    part * 2.0 >= table.count
}

fn mounts(host: &Host, out: &Sink) {
    let read = || -> Result<(String, u64), Unavailable> {
        Ok((host.read("proc/self/mountinfo")?, host.read_u64("proc/sys/fs/mount-max")?))
    };
    match read() {
        Ok((text, limit)) => {
            out.level("kernel_tables.mounts", "", text.lines().count() as f64);
            out.level("kernel_tables.mounts_limit", "", limit as f64);
            let mut kinds: Vec<(String, usize)> = parse::mounts_by_kind(&text).into_iter().collect();
            kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            for (kind, count) in kinds.into_iter().take(LARGEST) {
                out.level("kernel_tables.mounts_by", &kind, count as f64);
            }
        }
        Err(gap) => out.gap("kernel_tables.mounts", "", gap),
    }
}

fn ptys(host: &Host, out: &Sink) {
    match pair(host, "proc/sys/kernel/pty/nr", "proc/sys/kernel/pty/max") {
        Ok((count, limit)) => {
            out.level("kernel_tables.ptys", "", count);
            out.level("kernel_tables.ptys_limit", "", limit);
        }
        Err(gap) => out.gap("kernel_tables.ptys", "", gap),
    }
}

fn aio(host: &Host, out: &Sink) {
    let near = pair(host, "proc/sys/fs/aio-nr", "proc/sys/fs/aio-max-nr").map(|(used, limit)| used > NEAR * limit);
    let holders = match near {
        Ok(true) => rings::search(host),
        Ok(false) => Ok(Vec::new()),
        Err(gap) => return out.gap("kernel_tables.aio_by", "", gap),
    };
    match holders {
        Ok(holders) if holders.is_empty() => {
            let why = "asynchronous I/O is far from its limit, or no process that is visible here has a context of it";
            out.gap("kernel_tables.aio_by", "", Unavailable::new(Reason::NotApplicable, why));
        }
        Ok(holders) => {
            for holder in holders.iter().take(LARGEST) {
                let instance = format!("{}:{}", holder.pid, holder.start_ticks);
                out.level("kernel_tables.aio_by", &instance, holder.bytes as f64);
                out.label(&instance, "name", holder.name.as_str());
                out.label(&instance, "pid", holder.pid.to_string());
            }
        }
        Err(error) => out.gap("kernel_tables.aio_by", "", error.into()),
    }
}

/// Names of users, from /etc/passwd; a user without one is known by its id.
struct UserNames(BTreeMap<u32, String>);

impl UserNames {
    fn new(host: &Host) -> Self {
        let passwd = host.read("etc/passwd").unwrap_or_default();
        let named = passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
        });
        Self(named.collect())
    }

    fn of(&self, uid: u32) -> String {
        self.0.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}
