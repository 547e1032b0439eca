//! Who is behind a finding, and what it did.

use super::visible;
use rdiag_model::Culprit;
use rdiag_model::quantity::{percent, with_unit};

/// Kinds of culprits that are places, and no process, user or group.
const PLACES: [&str; 11] =
    ["mount", "filesystem", "device", "array", "interface", "qdisc", "zone", "cpu", "softirq", "interrupt", "clock"];

/// The label of a culprit in a list.
pub(in crate::report) fn who_or_where(culprit: &Culprit) -> &'static str {
    if PLACES.contains(&culprit.kind.as_str()) { "where" } else { "who" }
}

/// `stress-ng (8 processes)`, `sda`, `mysqld (pid 4711)`.
pub(in crate::report) fn who(culprit: &Culprit) -> String {
    let name = visible(&culprit.name);
    match (culprit.kind.as_str(), culprit.count, culprit.pids.as_slice()) {
        ("process", 0 | 1, [pid, ..]) => format!("{name} (pid {pid})"),
        ("process", _, []) if culprit.labels.contains_key("forks") => {
            format!("{name} ({})", visible(culprit.labels.get("forks").map_or("", String::as_str)))
        }
        ("process", count, _) if count > 1 => format!("{name} ({count} processes)"),
        ("task", 0 | 1, [pid, ..]) => format!("{name} (a task of pid {pid})"),
        ("task", count, _) if count > 1 => format!("{name} ({count} tasks)"),
        // Whose limit or which CPUs it is about, is in the sentence; who is behind it is a process.
        ("inotify_user" | "cpu_set" | "real_time_cpu", _, [pid, ..]) => format!("{name} (pid {pid})"),
        ("key_user", ..) => format!("user {name}"),
        ("process" | "log" | "ipc_table", ..) => name.into_owned(),
        ("function", ..) if name.starts_with("[no symbols: ") => {
            format!("code without symbols of {}", name.trim_start_matches("[no symbols: ").trim_end_matches(']'))
        }
        // Whose function it is: the process that used the most may be another.
        ("function", ..) => match culprit.labels.get("object").map(String::as_str) {
            Some("[kernel]") => format!("function {name} of the kernel"),
            Some(object) if !object.is_empty() && !name.starts_with('[') => {
                format!("function {name} of {}", visible(object))
            }
            _ => format!("function {name}"),
        },
        (kind, count, _) if count > 1 => format!("{name} ({count} × {})", visible(kind).replace('_', " ")),
        (kind, ..) => format!("{} {name}", visible(kind).replace('_', " ")),
    }
}

/// What the culprit did, with its share: `used 98.0% of the busy CPU time`. Empty where no share is known.
pub(in crate::report) fn deed(culprit: &Culprit) -> String {
    if culprit.kind == "log" {
        return match culprit.count {
            0 | 1 => "is named by the kernel log".into(),
            count => format!("is named {count} times by the kernel log"),
        };
    }
    let amount = match (culprit.share, culprit.value, culprit.unit) {
        (Some(share), ..) => format!("{} of", percent(share)),
        (None, Some(value), Some(unit)) => with_unit(value, unit),
        _ => return String::new(),
    };
    let metric = culprit.metric.as_deref().unwrap_or_default();
    let (verb, noun) = match metric {
        "process.cpu.seconds" | "process.cpu.ratio" => ("used", "the busy CPU time"),
        "process.run_delay.seconds" => ("did", "the waiting for a CPU"),
        "process.read.bytes" => ("did", "the reading from storage"),
        "process.write.bytes" => ("did", "the writing to storage"),
        "process.resident.bytes" => ("held", "the resident memory"),
        "process.resident_growth.bytes" => ("made", "the growth of resident memory"),
        "process.swap.bytes" => ("had", "the swapped-out memory"),
        "process.major_faults.count" => ("took", "the major page faults"),
        "process.minor_faults.count" => ("took", "the minor page faults"),
        "process.threads.count" => ("had", "the threads"),
        "process.switches.voluntary.count" => ("made", "the voluntary context switches"),
        "process.switches.involuntary.count" => ("made", "the involuntary context switches"),
        "profile.function.ratio" => ("took", "the sampled CPU time"),
        "profile.process_cpu.seconds" => ("used", "the sampled CPU time"),
        "tcptop.task.bytes_per_second" => ("carried", "the traffic of TCP"),
        "tcpretrans.segments_by_peer.count" => ("had", "the retransmitted segments"),
        "biotop.io_time.seconds" => ("had", "the time of requests in the device"),
        "execsnoop.short_lived_by_parent.per_second" => ("started", "the short-lived processes"),
        "syscount.process.per_second" => ("made", "the system calls"),
        "filesystem.deleted_held.bytes" => ("held", "the space of deleted files"),
        "filesystem.mounts_by.count" => ("had", "the mounts"),
        "fd.process.count" => ("had", "the open files"),
        "fd.aio_process.bytes" => ("had", "the rings for asynchronous I/O"),
        "tasks.ptys_process.count" => ("had", "the pseudo-terminals"),
        "cpu.core.interrupt.ratio" => ("had", "the time in interrupts"),
        "interrupts.ksoftirqd.ratio" => ("had", "the CPU time of ksoftirqd"),
        "interrupts.line.per_second" => ("raised", "the interrupts"),
        "network.interface.virtual_transmit_drops.count" => ("made", "the drops of virtual interfaces"),
        "network.listener.waiting.seconds" => ("had", "the waiting in accept queues"),
        "network.ports.towards.count" => ("had", "the local ports in use"),
        "network.softnet.core_drops.count" => ("had", "the drops at full backlogs"),
        "network.softnet.core_squeezed.per_second" => ("had", "the receive rounds that were cut off"),
        "network.tcp.unanswered_by.count" => ("had", "the unanswered connection attempts"),
        other => ("had", other),
    };
    let own = thing(metric);
    let noun = if noun == metric { own.as_str() } else { noun };
    let of = |label: &str| culprit.labels.get(label).map(|text| visible(text));
    // Of several processes it is the file of the first.
    let by_file = metric == "biotop.io_time.seconds" && culprit.count == 1;
    let place = of("file").filter(|_| by_file).map(|file| format!(", mostly for the file {file}")).unwrap_or_default();
    // A share of what a control group did is none of the whole host's.
    let place = match of(Culprit::SHARE_OF).filter(|_| culprit.share.is_some()) {
        Some(group) => format!(" of {group}{place}"),
        None => place,
    };
    match (culprit.share.is_some(), metric.is_empty()) {
        (true, false) => format!("{verb} {amount} {noun}{place}"),
        (true, true) => format!("had {amount} it"),
        (false, false) => format!("{verb} {amount} ({noun})"),
        (false, true) => format!("had {amount}"),
    }
}

/// What a metric counts, from its id: `network.udp.socket_drops.count` → `the UDP socket drops`.
fn thing(metric: &str) -> String {
    let mut parts: Vec<&str> = metric.split('.').collect();
    if parts.len() > 2 {
        parts.remove(0);
        parts.pop();
    }
    let words = parts.iter().flat_map(|part| part.split('_')).map(|word| match word {
        "udp" | "tcp" | "cpu" | "ip" => word.to_uppercase(),
        "io" => "I/O".to_owned(),
        word => word.to_owned(),
    });
    format!("the {}", words.collect::<Vec<_>>().join(" "))
}

/// Who and what in one phrase: `stress-ng (8 processes) used 98.0% of the busy CPU time`.
pub(in crate::report) fn culprit(culprit: &Culprit) -> String {
    format!("{} {}", who(culprit), deed(culprit)).trim_end().to_owned()
}
