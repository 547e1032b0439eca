//! Threads of each user against the limit that the user's processes run under (RLIMIT_NPROC).

use std::collections::HashMap;

use super::reader::Reader;
use super::table::Entry;
use crate::sink::Sink;
use rdiag_kernel::host::Host;
use rdiag_proc::process;

/// Users with fewer threads are left out: their limits are not worth a read.
const MIN_THREADS: u64 = 64;
/// Users that are recorded: those with the most threads.
const LARGEST: usize = 5;

/// What is remembered of users over the window: their soft limit, from their process with the most threads.
#[derive(Default)]
pub(super) struct Users {
    limits: HashMap<u32, Option<u64>>,
}

impl Users {
    /// Records the users with the most threads at this sample. Root is bound by no limit.
    pub(super) fn record(&mut self, entries: &[Entry], at: u16, reader: &mut Reader, out: &Sink) {
        // Threads, and the process with the most of them.
        let mut users: HashMap<u32, (u64, u32, u32)> = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.process.last == at) {
            let (Some(uid @ 1..), Some(shown)) = (entry.real_uid, entry.shown) else { continue };
            let (threads, most, pid) = users.entry(uid).or_default();
            *threads += u64::from(shown.threads.max(1));
            if shown.threads >= *most {
                (*most, *pid) = (shown.threads, entry.process.pid);
            }
        }
        let mut large: Vec<(u64, u32, u32)> = users
            .into_iter()
            .filter(|(_, (threads, _, _))| *threads >= MIN_THREADS)
            .map(|(uid, (threads, _, pid))| (threads, uid, pid))
            .collect();
        large.sort_unstable_by(|a, b| b.cmp(a));
        for (threads, uid, pid) in large.into_iter().take(LARGEST) {
            let read = || process::soft_limit(reader.file(pid, "limits").ok()?, "Max processes");
            let limit = *self.limits.entry(uid).or_insert_with(read);
            if let Some(limit) = limit.filter(|limit| *limit < u64::MAX) {
                let instance = uid.to_string();
                out.level("processes.of_user", &instance, threads as f64);
                out.level("processes.user_limit", &instance, limit as f64);
            }
        }
    }

    /// Names of the recorded users, from /etc/passwd.
    pub(super) fn name(&self, host: &Host, out: &Sink) {
        if self.limits.is_empty() {
            return;
        }
        let passwd = host.read("etc/passwd").unwrap_or_default();
        for line in passwd.lines() {
            let mut fields = line.split(':');
            let (Some(name), Some(uid)) = (fields.next(), fields.nth(1).and_then(|uid| uid.parse::<u32>().ok())) else {
                continue;
            };
            if self.limits.contains_key(&uid) {
                out.label(&uid.to_string(), "name", name);
            }
        }
    }

    /// Whether no user was worth a look.
    pub(super) fn is_empty(&self) -> bool {
        self.limits.values().all(|limit| limit.is_none_or(|limit| limit == u64::MAX))
    }
}
