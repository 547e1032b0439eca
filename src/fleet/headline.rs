//! The first line: what is common, who is odd, who was not judged.

use rdiag_model::{Kind, Resource, Status};

use super::document::{Fault, Fleet, OddHost};

/// Hosts not judged that are named in the first line.
const NAMED: usize = 3;

/// Status and sentence of a fleet whose parts are known.
pub(crate) fn of(fleet: &Fleet) -> (Status, String) {
    if fleet.hosts_total() == 0 {
        return (Status::Unknown, "No host to judge".to_owned());
    }
    let mut clauses = Vec::new();
    clauses.extend(fleet.common.first().map(|fault| common(fault, &fleet.common, fleet.groups.len() > 1)));
    clauses.extend(odd(&fleet.odd));
    if clauses.is_empty() && fleet.judged > 0 {
        clauses.push(quiet(fleet));
    }
    clauses.extend(not_judged(fleet));
    let faults = fleet.common.iter().chain(&fleet.some).map(|fault| fault.status);
    let worst = faults.chain(fleet.odd.iter().map(|odd| odd.status)).max();
    let status = if fleet.judged == 0 { Status::Unknown } else { worst.unwrap_or(Status::Ok) };
    (status, clauses.join("; "))
}

impl Fleet {
    /// Hosts that were judged, and those that were not.
    #[must_use]
    pub fn hosts_total(&self) -> usize {
        self.judged + self.not_judged.len()
    }
}

fn common(first: &Fault, all: &[Fault], has_groups: bool) -> String {
    let of = if has_groups { format!(" of group {}", first.group) } else { String::new() };
    let more: Vec<&Fault> = all.iter().filter(|fault| cell(fault) != cell(first)).collect();
    let also = match more.as_slice() {
        [] => String::new(),
        [one] => format!(" (also: {} on {})", place(one.resource, one.kind, ""), one.reach.hosts),
        [one, rest @ ..] => {
            let (what, hosts) = (place(one.resource, one.kind, ""), one.reach.hosts);
            format!(" (also: {what} on {hosts}, and {} more)", rest.len())
        }
    };
    // The instance is named if it is the same on all of them.
    let role = first.roles.first().filter(|(_, hosts)| *hosts == first.reach.hosts && first.roles.len() == 1);
    let role = role.map_or("", |(role, _)| role.as_str());
    let likely = if first.is_likely { "likely " } else { "" };
    let culprit = first.culprit.as_ref().filter(|(_, hosts)| *hosts >= 3 && 2 * hosts >= first.reach.hosts);
    let culprit = culprit.map(|(name, hosts)| format!(", by {name} on {hosts}")).unwrap_or_default();
    let (hosts, judged) = (first.reach.hosts, first.reach.judged);
    format!("{hosts} of {judged} hosts{of}: {likely}{}{culprit}{also}", place(first.resource, first.kind, role))
}

fn cell(fault: &Fault) -> (Resource, Kind) {
    (fault.resource, fault.kind)
}

/// `CPU saturation`, `disk errors (vda)`.
fn place(resource: Resource, kind: Kind, role: &str) -> String {
    let resource = if resource == Resource::Cpu { "CPU" } else { resource.word() };
    let role = if role.is_empty() { String::new() } else { format!(" ({role})") };
    format!("{resource} {}{role}", kind.word())
}

fn odd(odd: &[OddHost]) -> Option<String> {
    let (first, rest) = odd.split_first()?;
    let what = match (first.findings.first(), first.errors.first(), first.readings.first()) {
        (Some(finding), ..) => {
            let alone = match finding.reach.hosts {
                1 => format!("{} alone", first.host),
                hosts => format!("{} and {} more", first.host, hosts - 1),
            };
            format!("{alone}: {}, {}", place(finding.resource, finding.kind, &finding.role), finding.title)
        }
        (None, Some(error), _) => format!("{} alone counts errors: {}", first.host, error.metric),
        (None, None, Some(reading)) => {
            let times = if reading.z > 0.0 { "higher" } else { "lower" };
            format!("{} is unlike the others: {} is {times}", first.host, reading.metric)
        }
        (None, None, None) => return None,
    };
    // Those that share its finding are named already.
    let told = first.findings.first().map_or(1, |finding| finding.reach.hosts);
    Some(match rest.len().saturating_sub(told.saturating_sub(1)) {
        0 => what,
        1 => format!("{what}; 1 more odd host"),
        more => format!("{what}; {more} more odd hosts"),
    })
}

fn quiet(fleet: &Fleet) -> String {
    let hosts = if fleet.judged == 1 { "1 host".to_owned() } else { format!("{} hosts", fleet.judged) };
    match fleet.some.first() {
        Some(fault) => {
            let what = place(fault.resource, fault.kind, "");
            let more = match fleet.some.len() - 1 {
                0 => String::new(),
                1 => ", and 1 more rule".to_owned(),
                more => format!(", and {more} more rules"),
            };
            format!("{hosts}: no common fault; {what} on {} of {}{more}", fault.reach.hosts, fault.reach.judged)
        }
        None => format!("{hosts}: no common fault, and no host unlike the others"),
    }
}

fn not_judged(fleet: &Fleet) -> Option<String> {
    let hosts = &fleet.not_judged;
    if hosts.is_empty() {
        return None;
    }
    let named: Vec<&str> = hosts.iter().take(NAMED).map(|host| host.host.as_str()).collect();
    let more = hosts.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("{} of {} not judged: {}{more}", hosts.len(), fleet.hosts_total(), named.join(", ")))
}
