//! inotify instances and watches of each user against their limits, and who holds pseudo-terminals.
//!
//! The kernel counts both by user and exports neither count: at the limit inotify_init (EMFILE) and inotify_add_watch (ENOSPC) fail, and
//! programs that watch files stop noticing changes or do not start. Instances are among the descriptors of processes, watches in their
//! fdinfo.

mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::search::{Found, Holder, User};
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "held_descriptors",
    help: "inotify instances and watches of each user against their limits, and pseudo-terminals by process, from /proc/PID/fd and fdinfo.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "once, at the beginning of a window: 1 µs per process, and 2 µs per descriptor of those with more than three (together at \
               most 0.03 s); 1 µs per inotify watch, at most 0.25 s",
    start: |_| Box::new(HeldDescriptors),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge(
        "held_descriptors.inotify",
        RawUnit::Count,
        "/proc/PID/fd, anon_inode:inotify, over the processes of a user",
    ),
    SeriesDef::gauge("held_descriptors.inotify_limit", RawUnit::Count, "/proc/sys/fs/inotify/max_user_instances"),
    SeriesDef::gauge(
        "held_descriptors.watches",
        RawUnit::Count,
        "/proc/PID/fdinfo, lines `inotify wd:`, over the processes of a user",
    ),
    SeriesDef::gauge("held_descriptors.watches_limit", RawUnit::Count, "/proc/sys/fs/inotify/max_user_watches"),
    SeriesDef::gauge("held_descriptors.ptys", RawUnit::Count, "/proc/PID/fd, /dev/ptmx"),
];

const CAVEAT: &str = "An instance is charged to the user who made it; the user of the process stands for it here. In a user namespace it \
    is \
                      charged to the owner of the namespace as well. One that was inherited counts once.";
const INSTANCES: &str = "find /proc/[0-9]*/fd -lname anon_inode:inotify | cut -d/ -f3 | sort | uniq -c | sort -n";
const WATCHES: &str = "grep -c '^inotify wd' /proc/[0-9]*/fdinfo/* | grep -v ':0$' | sort -t: -k2 -n";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "fd.inotify.ratio",
        unit: Unit::Ratio,
        dimension: Some("inotify_user"),
        help: "inotify instances of a user, as a share of fs.inotify.max_user_instances.",
        sources: &[Formula::level_ratio(
            &[term("held_descriptors.inotify")],
            &[term("held_descriptors.inotify_limit")],
        )],
        caveat: CAVEAT,
        manual: INSTANCES,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.inotify.count",
        unit: Unit::Count,
        dimension: Some("inotify_user"),
        help: "inotify instances of a user.",
        sources: &[Formula::level(&[term("held_descriptors.inotify")])],
        caveat: CAVEAT,
        manual: INSTANCES,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.inotify_limit.count",
        unit: Unit::Count,
        dimension: Some("inotify_user"),
        help: "How many inotify instances a user may have.",
        sources: &[Formula::level(&[term("held_descriptors.inotify_limit")])],
        caveat: "A user namespace may allow less (user.max_inotify_instances).",
        manual: "sysctl fs.inotify.max_user_instances",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.inotify_watches.ratio",
        unit: Unit::Ratio,
        dimension: Some("inotify_user"),
        help: "inotify watches of a user, as a share of fs.inotify.max_user_watches.",
        sources: &[Formula::level_ratio(
            &[term("held_descriptors.watches")],
            &[term("held_descriptors.watches_limit")],
        )],
        caveat: CAVEAT,
        manual: WATCHES,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.inotify_watches.count",
        unit: Unit::Count,
        dimension: Some("inotify_user"),
        help: "inotify watches of a user.",
        sources: &[Formula::level(&[term("held_descriptors.watches")])],
        caveat: CAVEAT,
        manual: WATCHES,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.inotify_watches_limit.count",
        unit: Unit::Count,
        dimension: Some("inotify_user"),
        help: "How many inotify watches a user may have.",
        sources: &[Formula::level(&[term("held_descriptors.watches_limit")])],
        caveat: "A user namespace may allow less (user.max_inotify_watches).",
        manual: "sysctl fs.inotify.max_user_watches",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.ptys_process.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Pseudo-terminals that a process is the master of.",
        sources: &[Formula::level(&[term("held_descriptors.ptys")])],
        caveat: "The five processes with the most.",
        manual: "find /proc/[0-9]*/fd -lname '/dev/*ptmx' | cut -d/ -f3 | sort | uniq -c | sort -n",
        deed: Some(Deed { verb: "held", of: "the pseudo-terminals", ..Deed::USUAL }),
    },
];

/// Users that are recorded: those nearest to a limit.
const NEAREST: usize = 10;
/// Processes that are recorded because they hold pseudo-terminals.
const LARGEST: usize = 5;

struct HeldDescriptors;

impl Collect for HeldDescriptors {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        // A limit that is near at the end of a window was not far at its beginning.
        if out.current() > 0 {
            return Ok(());
        }
        let found = search::search(host, &host.processes()?)?;
        masters(&found, out);
        let limits =
            ["instances", "watches"].map(|what| host.read_u64(&format!("proc/sys/fs/inotify/max_user_{what}")));
        match limits {
            [Ok(instances), Ok(watches)] => inotify(&found, [instances as f64, watches as f64], host, out),
            [Err(error), _] | [_, Err(error)] => {
                let gap = Unavailable::from(error);
                ["inotify", "watches"]
                    .iter()
                    .for_each(|of| out.gap(&format!("held_descriptors.{of}"), "", gap.clone()));
            }
        }
        Ok(())
    }
}

fn inotify(found: &Found, [instances, watches]: [f64; 2], host: &Host, out: &Sink) {
    let mut users: Vec<(u32, User)> = found.users().into_iter().collect();
    let share = |user: &User| (user.instances / instances).max(user.watches / watches);
    users.sort_by(|a, b| share(&b.1).total_cmp(&share(&a.1)));
    users.truncate(NEAREST);
    let instance = if users.is_empty() { "" } else { "(others)" };
    let gap = found.gap(host).or_else(|| {
        users.is_empty().then(|| Unavailable::new(Reason::NotApplicable, "no process has an inotify instance"))
    });
    if let Some(gap) = gap {
        ["inotify", "watches"].iter().for_each(|of| out.gap(&format!("held_descriptors.{of}"), instance, gap.clone()));
    }
    let names = user_names(host, &users);
    for (uid, user) in &users {
        let instance = uid.to_string();
        out.level("held_descriptors.inotify", &instance, user.instances);
        out.level("held_descriptors.inotify_limit", &instance, instances);
        out.level("held_descriptors.watches", &instance, user.watches);
        out.level("held_descriptors.watches_limit", &instance, watches);
        if let Some(name) = names.get(uid) {
            out.label(&instance, "user", name.as_str());
        }
        // The one that makes the user short: an editor with thousands of watches has one instance.
        let is_watches = user.watches / watches > user.instances / instances;
        let (pid, name, _) = if is_watches { &user.most_watches } else { &user.most };
        out.label(&instance, "name", name.as_str());
        out.label(&instance, "pid", pid.to_string());
        if user.watches > 0.0 {
            out.label(&instance, "watcher", user.most_watches.1.as_str());
        }
        out.label(&instance, "processes", user.kinds());
    }
}

fn masters(found: &Found, out: &Sink) {
    let mut holders: Vec<&Holder> = found.holders.iter().filter(|holder| holder.masters > 0).collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.masters));
    if holders.is_empty() {
        let why = "no process that is visible here holds a pseudo-terminal";
        out.gap("held_descriptors.ptys", "", Unavailable::new(Reason::NotApplicable, why));
    }
    for holder in holders.into_iter().take(LARGEST) {
        let instance = format!("{}:{}", holder.pid, holder.start_ticks);
        out.level("held_descriptors.ptys", &instance, holder.masters as f64);
        out.label(&instance, "name", holder.name.as_str());
        out.label(&instance, "pid", holder.pid.to_string());
    }
}

/// Names of these users, from /etc/passwd.
fn user_names(host: &Host, users: &[(u32, User)]) -> BTreeMap<u32, String> {
    let passwd = if users.is_empty() { String::new() } else { host.read("etc/passwd").unwrap_or_default() };
    let named = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse::<u32>().ok()?;
        users.iter().any(|(wanted, _)| *wanted == uid).then(|| (uid, name.to_owned()))
    });
    named.collect()
}
