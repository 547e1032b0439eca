//! The headline of a run: what is saturated and who is behind it, or what can be said where nothing fired.

use std::collections::BTreeSet;

use super::sentence::{first_sentence, listed};
use super::{causes, words};
use rdiag_model::headline::{BOTTLENECK, Headline, Link};
use rdiag_model::quantity::seconds;
use rdiag_model::{Confidence, Culprit, Finding, Kind, Resource, Status};

/// Without a look at the queues of these four, no report may say that there is no bottleneck.
pub(super) const CORE: [Resource; 4] = [Resource::Cpu, Resource::Memory, Resource::Disk, Resource::Network];
/// Errors that stop a CPU: what waits meanwhile waits for that, and no queue that was seen beside them proves a bottleneck of its own.
const STOPS_A_CPU: &[&str] = &["cpu.errors.lockup"];
/// Resources whose utilization is that of a server, for which work queues. Of the others it is space, or a number of things that has a
/// limit.
const SERVERS: [Resource; 3] = [Resource::Cpu, Resource::Disk, Resource::Interrupts];
/// Rules about the utilization of servers among those of other resources.
const OF_SERVERS: &[&str] = &[
    "cgroup.utilization.cpu",
    "cgroup.utilization.io",
    "memory.utilization.bandwidth",
    "network.utilization",
    "network.utilization.traffic",
];
/// Queues that a program does not empty, here or at the other end, or makes itself, and those of the dead: nothing of this host is slow.
const NOT_EMPTIED: &[&str] = &[
    "cgroup.saturation.dying",
    "kernel.saturation.log",
    "network.saturation.listen_overflow",
    "network.saturation.receive_buffer",
    "network.saturation.slow_peer",
    "network.saturation.slow_reader",
    "network.saturation.syn_queue",
    "network.saturation.udp_receive_buffer",
    "tasks.saturation.lock_code",
    "tasks.saturation.locks",
    "tasks.saturation.stopped",
];

/// The status and the headline from findings that are in order.
pub(super) fn of(findings: &[Finding]) -> (Status, Headline) {
    let fired: Vec<&Finding> = findings.iter().filter(|finding| finding.status >= Status::Warning).collect();
    match fired.first() {
        // The one to look at first need not be the worst: a kill of minutes ago comes behind what is slow now.
        Some(lead) => {
            (fired.iter().map(|finding| finding.status).fold(lead.status, Ord::max), of_fired(lead, &fired, findings))
        }
        None => quiet(findings),
    }
}

/// Names the first finding, who is behind it, in which code, and what else fired.
fn of_fired(lead: &Finding, fired: &[&Finding], findings: &[Finding]) -> Headline {
    let mut named = BTreeSet::from([(lead.resource, lead.kind)]);
    let at = place_in_title(lead) + &only_disk(lead, fired);
    let title = match (lead.kind, lead.confidence) {
        (Kind::Errors, Confidence::Low) => format!("Likely errors{}: {at}", when(lead)),
        (Kind::Errors, _) => format!("Errors{}: {at}", when(lead)),
        (_, Confidence::Low) if is_bottleneck(lead) => format!("Likely bottleneck: {at}"),
        (_, Confidence::Low) => format!("Likely: {at}"),
        _ => named_place(lead, &at),
    };
    let sentence = first_sentence(&lead.summary, true);
    let mut rest = behind(lead, &[&at, &sentence]);
    // Errors come first because they are quickly understood; what is slow is said all the same.
    let queue = fired.iter().find(|finding| finding.kind != Kind::Errors);
    let queue = queue.filter(|_| !STOPS_A_CPU.contains(&lead.id.as_str()));
    if let (Kind::Errors, Some(queue)) = (lead.kind, queue) {
        named.insert((queue.resource, queue.kind));
        let heading = if is_bottleneck(queue) { "Bottleneck" } else { "Also" };
        rest.push_str(&format!(". {heading}: {}", place(queue)));
        rest.push_str(&behind(queue, &[&place(queue)]));
    }
    rest.push_str(&hottest_code(lead.resource, findings));
    // What else is wrong: the same from another side is no news.
    let mut also: Vec<(Status, String)> = Vec::new();
    for problem in causes::of(findings).problems.iter().filter(|problem| !problem.leads().any(|own| own.id == lead.id))
    {
        let other = problem.lead.lead;
        // Of two control groups that lost work, the second one is news. Mounts and disks may be the same thing by another name.
        let is_group = |finding: &Finding| finding.resource == Resource::Cgroup && finding.kind == Kind::Errors;
        let own =
            words::instance_of(lead).filter(|_| is_group(lead) && is_group(other) && other.status == Status::Critical);
        if named.insert((other.resource, other.kind)) || other.status > lead.status {
            also.push((other.status.max(lead.status), words::cell(other.resource, other.kind) + &when(other)));
        } else if own.is_some_and(|own| words::instance_of(other).is_some_and(|instance| instance != own)) {
            also.push((other.status.max(lead.status), place(other) + &when(other)));
        }
    }
    // What is worse than the first is among those that are named.
    also.sort_by_key(|(status, _)| std::cmp::Reverse(*status));
    let also: Vec<String> = also.into_iter().map(|(_, said)| said).collect();
    if !also.is_empty() {
        rest.push_str(&format!(" (also: {})", listed(&also, 3)));
    }
    if sentence.is_empty() {
        return Headline::from(title + &rest);
    }
    Headline { title, link: Link::Dash, detail: sentence + &rest }
}

/// How long before the window, for what was over when it began.
pub(super) fn when(finding: &Finding) -> String {
    finding.seconds_before.map_or_else(String::new, |before| format!(" {} before the window", seconds(before)))
}

/// Where it is: the resource and what is the matter with it; after "Errors:", the resource is enough.
fn place_in_title(finding: &Finding) -> String {
    match (finding.kind, words::instance_of(finding)) {
        (Kind::Errors, None) => words::resource_inline(finding.resource),
        (Kind::Errors, Some(instance)) => {
            format!("{} ({instance})", words::resource_inline(finding.resource))
        }
        _ => place(finding),
    }
}

/// `Bottleneck: CPU saturation`, and where nothing queues for a server `File system utilization (/srv)`.
fn named_place(finding: &Finding, place: &str) -> String {
    if is_bottleneck(finding) {
        return format!("{BOTTLENECK}{place}");
    }
    let mut chars = place.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Whether a finding is about a server that work waits for. A full disk is none, and a queue that grows because a program does not read is
/// no lack of the host.
fn is_bottleneck(finding: &Finding) -> bool {
    let id = finding.id.as_str();
    match finding.kind {
        Kind::Errors => false,
        Kind::Saturation => !NOT_EMPTIED.contains(&id),
        Kind::Utilization => SERVERS.contains(&finding.resource) || OF_SERVERS.contains(&id),
    }
}

/// Pressure is of the whole host, and yet that of the one disk that fired: its name is what is asked for first.
fn only_disk(lead: &Finding, fired: &[&Finding]) -> String {
    let is_of_all = lead.resource == Resource::Disk && lead.kind == Kind::Saturation && lead.instance.is_none();
    let disks = fired.iter().filter(|finding| is_of_all && finding.resource == Resource::Disk);
    let disks: BTreeSet<String> = disks.filter_map(|finding| words::instance_of(finding)).collect();
    match (disks.first(), disks.len()) {
        (Some(disk), 1) => format!(" ({disk})"),
        _ => String::new(),
    }
}

/// Who is behind it, unless that is a device that `said` names already.
pub(super) fn behind(finding: &Finding, said: &[&str]) -> String {
    match &finding.culprit {
        Some(culprit) if culprit.share.is_some() || !said.iter().any(|text| text.contains(&culprit.name)) => {
            format!("; {}", words::culprit(culprit))
        }
        _ => String::new(),
    }
}

/// Where a stretch without interrupts ends: the clock that samples puts the time of the whole stretch down to it, as the profile's note
/// says.
const ENDS_OF_STRETCHES: [&str; 6] = [
    "_raw_spin_unlock_irq",
    "_raw_read_unlock_irq",
    "_raw_write_unlock_irq",
    "finish_task_switch",
    "handle_softirqs",
    "__do_softirq",
];

/// The function that a finding about the same resource names, whatever its status: code is no fault, and yet where to look.
fn hottest_code(resource: Resource, findings: &[Finding]) -> String {
    let of = |finding: &Finding| {
        // Such a function's name hides whose work it is.
        let hides = |name: &str| ENDS_OF_STRETCHES.iter().any(|end| name.starts_with(end));
        let is_told = |culprit: &&Culprit| culprit.kind == "function" && !hides(&culprit.name);
        let culprit = finding.culprit.as_ref().filter(is_told)?;
        (finding.resource == resource && finding.status.fired()).then(|| culprit.clone())
    };
    findings.iter().find_map(of).map(|culprit| format!("; {}", words::culprit(&culprit))).unwrap_or_default()
}

fn place(finding: &Finding) -> String {
    let cell = words::cell(finding.resource, finding.kind);
    match words::instance_of(finding) {
        Some(instance) => format!("{cell} ({instance})"),
        None => cell,
    }
}

/// The headline when nothing is a bottleneck: silence counts only as far as one could hear.
fn quiet(findings: &[Finding]) -> (Status, Headline) {
    let judged = findings.iter().filter(|f| f.status == Status::Ok || f.status.fired()).count();
    let unknown = findings.iter().filter(|f| f.status == Status::Unknown).count();
    if judged == 0 {
        let why = findings.iter().find_map(|f| Some(f.unavailable.as_ref()?.why.clone()));
        let why = why.map(|why| format!(" ({})", why.trim_end_matches('.'))).unwrap_or_default();
        return (Status::Unknown, Headline::from(format!("Inconclusive: nothing could be measured{why}")));
    }
    let mut cells: Vec<String> = Vec::new();
    for finding in findings.iter().filter(|f| f.status == Status::Info && !f.is_past()) {
        let cell = words::cell(finding.resource, finding.kind);
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    let notes = if cells.is_empty() { String::new() } else { format!("worth knowing: {}", listed(&cells, 3)) };
    let unseen: Vec<Resource> = CORE.into_iter().filter(|resource| unseen_saturation(findings, *resource)).collect();
    if !unseen.is_empty() {
        let cells: Vec<String> = unseen.iter().map(|r| words::cell(*r, Kind::Saturation)).collect();
        let title = format!("Inconclusive: {} could not be measured", listed(&cells, 4));
        let others = if notes.is_empty() { "no check that could be made fired" } else { &notes };
        return (Status::Unknown, clauses(title, &[others]));
    }
    let status = if cells.is_empty() { Status::Ok } else { Status::Info };
    let headline = if unknown == 0 {
        let made = words::plural(judged, "check", "checks");
        clauses(format!("No bottleneck found: {made} made, none fired"), &[&notes])
    } else {
        let missing = format!("{unknown} of {} checks could not be made", judged.saturating_add(unknown));
        clauses("No bottleneck found in what could be measured".to_owned(), &[&missing, &notes])
    };
    (status, headline)
}

/// A headline whose detail are those of these clauses that are not empty.
fn clauses(title: String, clauses: &[&str]) -> Headline {
    let said: Vec<&str> = clauses.iter().copied().filter(|clause| !clause.is_empty()).collect();
    Headline { title, link: Link::Semicolon, detail: said.join("; ") }
}

/// Whether rules asked for the saturation of a resource, and none could be judged.
fn unseen_saturation(findings: &[Finding], resource: Resource) -> bool {
    let of = || findings.iter().filter(|f| f.resource == resource && f.kind == Kind::Saturation);
    let judged = of().any(|f| f.status == Status::Ok || f.status.fired());
    !judged && of().any(|f| f.status == Status::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::finding;

    fn headline(findings: &[Finding]) -> String {
        of(findings).1.to_string()
    }

    #[test]
    fn errors_shortly_before_the_window_come_after_those_within_and_say_when_they_were() {
        let error = |id: &str, before: Option<f64>| Finding { seconds_before: before, ..finding(id, Status::Critical) };
        let mut findings = [error("memory.errors.oom", Some(240.0)), error("disk.errors", None)];
        assert!(headline(&findings).starts_with("Errors 4.0 min before the window: memory"));
        crate::order::sort(&mut findings, &std::collections::BTreeMap::new());
        let said = headline(&findings);
        assert!(
            said.starts_with("Errors: disk") && said.ends_with("(also: memory errors 4.0 min before the window)"),
            "{said}"
        );
    }

    #[test]
    fn a_kill_of_minutes_ago_does_not_lead_what_is_slow_now_and_a_fresh_one_does() {
        let told = |before: Option<f64>, status: Status| {
            let error = Finding { seconds_before: before, ..finding("memory.errors.oom", Status::Critical) };
            let mut findings = [error, finding("disk.saturation", status)];
            crate::order::sort(&mut findings, &std::collections::BTreeMap::new());
            let (worst, headline) = of(&findings);
            (worst, headline.to_string())
        };
        for status in [Status::Warning, Status::Critical] {
            let (worst, said) = told(Some(61.0), status);
            assert_eq!(worst, Status::Critical);
            assert!(said.starts_with("Bottleneck: disk saturation") && said.contains("also: memory errors"), "{said}");
        }
        for before in [Some(60.0), Some(3.0), None] {
            let (worst, said) = told(before, Status::Warning);
            assert!(worst == Status::Critical && said.starts_with("Errors"), "{said}");
        }
        // A disk that failed goes on failing.
        let error = Finding { seconds_before: Some(240.0), ..finding("disk.errors", Status::Critical) };
        let mut findings = [finding("cpu.saturation", Status::Warning), error];
        crate::order::sort(&mut findings, &std::collections::BTreeMap::new());
        assert!(
            of(&findings).1.to_string().starts_with("Errors 4.0 min before the window: disk"),
            "{}",
            of(&findings).1
        );
        // Where nothing is slow they are what there is to say, and before what is only worth knowing.
        let (worst, said) = told(Some(240.0), Status::Info);
        assert!(worst == Status::Critical && said.starts_with("Errors 4.0 min before the window: memory"), "{said}");
    }

    #[test]
    fn only_what_work_waits_for_is_called_a_bottleneck() {
        let title = |id: &str, instance: Option<&str>, confidence: Confidence| {
            let mut fired = finding(id, Status::Warning);
            fired.instance = instance.map(str::to_owned);
            fired.confidence = confidence;
            of(&[fired]).1.title
        };
        let sure = |id: &str| title(id, None, Confidence::High);
        for id in ["disk.utilization", "cpu.utilization", "cgroup.utilization.cpu", "network.utilization"] {
            assert!(sure(id).starts_with("Bottleneck: "), "{id}");
        }
        assert_eq!(sure("network.saturation.ring"), "Bottleneck: network saturation");
        assert_eq!(sure("network.saturation.udp_receive_buffer"), "Network saturation");
        assert_eq!(title("filesystem.utilization", Some("/srv"), Confidence::Medium), "File system utilization (/srv)");
        assert_eq!(title("fd.utilization", None, Confidence::Low), "Likely: file descriptors utilization");
        assert_eq!(title("cpu.saturation", None, Confidence::Low), "Likely bottleneck: CPU saturation");
    }

    #[test]
    fn beside_errors_a_full_table_is_named_without_calling_it_a_bottleneck() {
        let mut full = finding("cgroup.utilization.pids", Status::Critical);
        full.instance = Some("/web".into());
        let told = headline(&[finding("cgroup.errors.pids", Status::Critical), full]);
        assert!(told.ends_with("the summary of cgroup.errors.pids. Also: control group utilization (/web)"), "{told}");
    }

    #[test]
    fn errors_of_a_second_instance_are_named_and_a_warning_about_it_is_none() {
        let of = |id: &str, instance: &str, status| Finding { instance: Some(instance.into()), ..finding(id, status) };
        let oom = of("cgroup.errors.oom", "/web", Status::Critical);
        let recorded = of("filesystem.errors.recorded", "sda1", Status::Critical);
        let told_of_all = headline(&[finding("filesystem.errors", Status::Critical), recorded]);
        assert!(told_of_all.ends_with("the summary of filesystem.errors"), "those may be the same: {told_of_all}");
        let told = |status| headline(&[oom.clone(), of("cgroup.errors.pids", "/jobs", status)]);
        assert!(told(Status::Critical).ends_with("(also: control group errors (/jobs))"), "{}", told(Status::Critical));
        assert!(told(Status::Warning).ends_with("the summary of cgroup.errors.oom"), "{}", told(Status::Warning));
    }

    #[test]
    fn what_could_not_be_seen_hides_nothing_of_what_is_worth_knowing() {
        let unseen = finding("disk.saturation", Status::Unknown);
        let told = headline(&[unseen.clone(), finding("cpu.saturation", Status::Ok)]);
        assert!(told.ends_with("no check that could be made fired"), "{told}");
        let told = headline(&[unseen, finding("cpu.utilization", Status::Info)]);
        assert!(told.ends_with("disk saturation could not be measured; worth knowing: CPU utilization"), "{told}");
    }

    #[test]
    fn what_waits_while_a_cpu_stands_still_is_no_second_cause() {
        let pressure = finding("interrupts.saturation.pressure", Status::Warning);
        let told = headline(&[finding("cpu.errors.lockup", Status::Critical), pressure.clone()]);
        assert!(told.ends_with("the summary of cpu.errors.lockup (also: interrupts saturation)"), "{told}");
        // Errors that stop nothing leave the queue what it is.
        let told = headline(&[finding("cpu.errors.real_time", Status::Critical), pressure]);
        assert!(told.ends_with(". Bottleneck: interrupts saturation"), "{told}");
    }

    #[test]
    fn every_rule_that_is_named_is_shipped() {
        let rules = concat!(
            include_str!("../../playbooks/rules/cgroup.yaml"),
            include_str!("../../playbooks/rules/cpu.yaml"),
            include_str!("../../playbooks/rules/kernel.yaml"),
            include_str!("../../playbooks/rules/memory.yaml"),
            include_str!("../../playbooks/rules/network.yaml"),
            include_str!("../../playbooks/rules/tasks.yaml"),
        );
        for id in [STOPS_A_CPU, OF_SERVERS, NOT_EMPTIED].concat() {
            assert!(rules.contains(&format!("- id: {id}\n")), "{id} is no rule");
        }
    }
}
