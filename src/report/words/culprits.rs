//! Who is behind a finding, and what it did.

use super::visible;
use rdiag_model::quantity::{percent, with_unit};
use rdiag_model::{Culprit, Deed};

/// Kinds of culprits that are places, and no process, user or group.
const PLACES: [&str; 11] =
    ["mount", "filesystem", "device", "array", "interface", "qdisc", "zone", "cpu", "softirq", "interrupt", "clock"];

/// The label of a culprit in a list.
pub(crate) fn who_or_where(culprit: &Culprit) -> &'static str {
    if PLACES.contains(&culprit.kind.as_str()) { "where" } else { "who" }
}

/// `stress-ng (8 processes)`, `sda`, `mysqld (pid 4711)`.
pub(crate) fn who(culprit: &Culprit) -> String {
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
        ("inotify_user" | "cpu_set" | "real_time_cpu" | "program_lock" | "lock", _, [pid, ..]) => {
            format!("{name} (pid {pid})")
        }
        ("key_user", ..) => format!("user {name}"),
        ("process" | "log" | "ipc_table", ..) => name.into_owned(),
        // The process was gone before its mappings were read.
        ("function", ..) if name == "[no symbols: unknown]" => "code of unknown origin".to_owned(),
        ("function", ..) if name == "[no symbols: compiled at run time]" => "code compiled at run time".to_owned(),
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
        (kind, count, _) if count > 1 => format!("{name} ({count} × {})", spelled(&visible(kind))),
        (kind, ..) => format!("{} {name}", spelled(&visible(kind))),
    }
}

/// What the culprit did, with its share: `used 98.0% of the busy CPU time`. Empty where no share is known.
pub(crate) fn deed(culprit: &Culprit) -> String {
    if culprit.kind == "log" {
        return match culprit.count {
            0 | 1 => "is named by the kernel log".into(),
            count => format!("is named {count} times by the kernel log"),
        };
    }
    let metric = culprit.metric.as_deref().unwrap_or_default();
    let deed = culprit.deed.get();
    if let Some(state) = deed.state {
        return state.to_owned();
    }
    let amount = match (culprit.share, culprit.value, culprit.unit) {
        (Some(share), ..) => format!("{} of", percent(share)),
        (None, Some(value), Some(unit)) => with_unit(value, unit),
        _ => return String::new(),
    };
    let is_shared = culprit.count > 1 && deed.is_shared;
    let amount = if is_shared { format!("at most {amount}") } else { amount };
    let verb = deed.verb;
    let noun = if deed.of.is_empty() { thing(metric) } else { deed.of.to_owned() };
    let label = |label: &str| culprit.labels.get(label).map(|text| visible(text));
    // Of several processes it is the file of the first.
    let by_file = culprit.count == 1 && deed.is_by_file;
    let place = label("file").filter(|_| by_file);
    let place = place.map(|file| format!(", mostly for the file {file}")).unwrap_or_default();
    // A share of what a control group did is none of the whole host's.
    let place = match label(Culprit::SHARE_OF).filter(|_| culprit.share.is_some()) {
        Some(group) => format!(" of {group}{place}"),
        None => place,
    };
    match (culprit.share.is_some(), metric.is_empty()) {
        (true, false) => format!("{verb} {amount} {noun}{place}"),
        (true, true) => format!("had {amount} it"),
        (false, false) => match deed.alone {
            Some((verb, what)) => format!("{verb} {amount} {what}"),
            None => format!("{verb} {amount} ({noun})"),
        },
        (false, true) => format!("had {amount}"),
    }
}

/// What was used and is charged to no process that was seen.
pub(crate) fn unattributed(deed: &Deed) -> String {
    format!("Unattributed ({})", deed.unattributed)
}

/// What a metric counts, from its id: `network.udp.queue_drops.count` → `the UDP queue drops`.
fn thing(metric: &str) -> String {
    let mut parts: Vec<&str> = metric.split('.').collect();
    if parts.len() > 2 {
        parts.remove(0);
        parts.pop();
    }
    format!("the {}", spelled(&parts.join("_")))
}

/// A name of ours in words: `udp_socket` → `UDP socket`.
fn spelled(name: &str) -> String {
    let words = name.split('_').map(|word| match word {
        "udp" | "tcp" | "cpu" | "ip" => word.to_uppercase(),
        "io" => "I/O".to_owned(),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Who and what in one phrase: `stress-ng (8 processes) used 98.0% of the busy CPU time`.
pub(crate) fn culprit(culprit: &Culprit) -> String {
    format!("{} {}", who(culprit), deed(culprit)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{culprit, unattributed};
    use crate::sample::{deed_of, stress};
    use rdiag_model::Culprit;

    fn phrase(kind: &str, name: &str, metric: &str) -> String {
        let (kind, name, deed) = (kind.to_owned(), name.to_owned(), deed_of(metric));
        let metric = Some(metric.to_owned());
        culprit(&Culprit { kind, name, metric, deed, count: 1, share: Some(0.619), pids: Vec::new(), ..stress() })
    }

    #[test]
    fn a_process_that_is_stopped_has_no_share_of_it() {
        let phrase = phrase("process", "nginx", "tasks.stopped_listener.count");
        assert_eq!(phrase, "nginx is stopped");
    }

    #[test]
    fn what_no_process_is_charged_with_is_told_by_what_it_may_be() {
        let left = |metric| (unattributed(deed_of(metric).get()), deed_of(metric).get().unused);
        let of = |what: &str| format!("Unattributed ({what})");
        let cpu = (of("interrupts, short-lived or hidden processes"), "Not used (idle, iowait, steal)");
        assert_eq!(left("process.cpu.seconds"), cpu);
        assert_eq!(left("process.resident.bytes"), (of("kernel, cache that cannot be freed"), "Available"));
        assert_eq!(left("process.read.bytes"), (of("kernel, processes that ended"), "Available"));
        assert_eq!(left("gone.since"), (of("kernel, processes that ended"), "Available"));
    }

    #[test]
    fn the_file_of_one_culprit_stands_behind_the_metric_that_is_by_file_alone() {
        let phrase = |metric: &str, count| {
            let labels = [("file".to_owned(), "/var/lib/data".to_owned())].into();
            let (metric, deed) = (Some(metric.to_owned()), deed_of(metric));
            culprit(&Culprit { metric, deed, count, labels, pids: Vec::new(), ..stress() })
        };
        let is_told = |metric, count| phrase(metric, count).ends_with(", mostly for the file /var/lib/data");
        assert!(is_told("biotop.io_time.seconds", 1) && !is_told("biotop.io_time.seconds", 2));
        assert!(!is_told("process.read.bytes", 1));
    }

    #[test]
    fn what_several_processes_share_may_be_counted_for_each_and_what_one_holds_is_its_own() {
        let held = |count| {
            let deed = deed_of("process.resident.bytes");
            culprit(&Culprit {
                metric: Some("process.resident.bytes".into()),
                deed,
                count,
                pids: Vec::new(),
                ..stress()
            })
        };
        assert!(held(8).contains(" held at most "), "{}", held(8));
        assert!(!held(1).contains("at most"), "{}", held(1));
    }

    #[test]
    fn what_is_no_process_is_said_to_have_a_share_of_something_that_has_a_name() {
        assert_eq!(
            phrase("cpu", "0", "cpu.core.interrupt.ratio"),
            "CPU 0 took 61.9% of the interrupt time of all CPUs"
        );
        assert_eq!(
            phrase("udp_socket", "syslogd 0.0.0.0:514", "network.udp.socket_drops.count"),
            "UDP socket syslogd 0.0.0.0:514 lost 61.9% of the dropped UDP datagrams"
        );
        assert_eq!(
            phrase("queue", "tx-0", "network.udp.queue_drops.count"),
            "queue tx-0 had 61.9% of the UDP queue drops"
        );
    }
}
