//! Why the kernel refused to count, in words, and the least that would change its mind.

use super::pmc::Subject;
use super::select::{Event, Family};
use crate::host::Host;
use crate::mechanism::descriptors;
use rdiag_model::{Reason, Unavailable};

const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;

/// The setting that says who may count what.
const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

/// The setting's value, where it can be read.
pub(super) fn paranoid(host: &Host) -> Option<i64> {
    host.read_line(PARANOID).ok()?.parse().ok()
}

/// Whether this error means that the machine cannot count the event at all.
pub(super) fn is_unsupported(errno: i32) -> bool {
    [libc::ENOENT, libc::EOPNOTSUPP, libc::ENODEV, libc::ENXIO, libc::ENOSYS].contains(&errno)
}

/// Whether this error is one of missing rights.
pub(super) fn is_denied(errno: i32) -> bool {
    [libc::EACCES, libc::EPERM].contains(&errno)
}

/// The gap that an error leaves.
pub(super) fn gap(host: &Host, event: &Event, subject: Subject, errno: i32) -> Unavailable {
    let name = event.shown();
    match errno {
        _ if is_denied(errno) => denied(host, event, subject),
        libc::EMFILE | libc::ENFILE => {
            let limit = descriptors::limit()
                .map_or_else(|| "the kernel's limit".to_owned(), |limit| format!("the limit is {limit}"));
            let why = format!("too many files are open for a counter of each event and CPU or thread ({limit})");
            Unavailable::new(Reason::Denied, why).with_remedy("count fewer events, or raise the limit with `ulimit -n`")
        }
        libc::ESRCH => Unavailable::new(Reason::Absent, "the process has ended"),
        libc::EINVAL if !event.modifiers.is_plain() => Unavailable::new(
            Reason::Absent,
            format!("this machine cannot distinguish the modes that the modifiers of {name} ask for"),
        )
        .with_remedy("leave the modifiers out"),
        libc::EBUSY | libc::ENOSPC => Unavailable::new(
            Reason::Absent,
            format!("{name}: the counters that it needs are in use by another process"),
        ),
        _ if is_unsupported(errno) || errno == libc::EINVAL => unsupported(host, event),
        other => {
            let error = std::io::Error::from_raw_os_error(other);
            Unavailable::new(Reason::Malformed, format!("{name} cannot be counted: {error}"))
        }
    }
}

fn unsupported(host: &Host, event: &Event) -> Unavailable {
    let name = event.shown();
    let why = match event.family {
        Family::Hardware | Family::Cache | Family::Raw if host.facts().virtual_machine => {
            let why = format!("{name}: this virtual machine has no hardware counters, or none for this event");
            return Unavailable::new(Reason::Absent, why)
                .with_remedy("measure on the host, or have it pass the counters on (a virtual PMU)");
        }
        Family::Hardware | Family::Cache | Family::Raw => format!("{name}: this CPU does not count it"),
        _ => format!("{name}: this kernel does not count it"),
    };
    Unavailable::new(Reason::Absent, why)
}

/// Missing rights: what the setting would have to be, or which capability is enough.
fn denied(host: &Host, event: &Event, subject: Subject) -> Unavailable {
    let now = paranoid(host);
    let held = host.facts().capabilities;
    if held & (CAP_PERFMON | CAP_SYS_ADMIN) != 0 {
        let why = format!(
            "{} is refused although rdiag holds the right: a container's filter or a security module forbids it",
            event.shown()
        );
        return Unavailable::new(Reason::Denied, why)
            .with_remedy("let the container call perf_event_open (its seccomp profile)");
    }
    let needed = match subject {
        Subject::Everybody | Subject::Group(_) => 0,
        Subject::Task(_) if !event.modifiers.excludes_kernel() => 1,
        Subject::Task(_) => 2,
    };
    let setting = now.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let scope = match (subject, needed) {
        (Subject::Everybody, _) => "counting on whole CPUs",
        (Subject::Group(_), _) => "counting a control group",
        (_, 1) => "counting what happens inside the kernel",
        _ => "counting",
    };
    let why =
        format!("{}: {scope} is not allowed to this user (kernel.perf_event_paranoid is {setting})", event.shown());
    let others = if matches!(subject, Subject::Task(_)) { " and count own processes only" } else { "" };
    let setting_helps = now.is_none_or(|now| now > needed);
    let sysctl =
        if setting_helps { format!(", or set kernel.perf_event_paranoid to {needed}{others}") } else { String::new() };
    Unavailable::new(Reason::Denied, why)
        .with_remedy(format!("run rdiag as root or with CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8){sysctl}"))
}
