//! The conclusion: one sentence, what limits it, and what was ruled out.

use std::collections::BTreeSet;

use super::words;
use rdiag_model::report::{Coverage, RuledOut, Verdict};
use rdiag_model::{Confidence, Finding, Kind, Recording, Resource, Status};

/// Without a look at the queues of these four, nobody may say that there is no bottleneck.
const CORE: [Resource; 4] = [Resource::Cpu, Resource::Memory, Resource::Disk, Resource::Network];
/// Shorter windows are dominated by ticks and bursts.
const SHORT_WINDOW_SECONDS: f64 = 4.5;
/// Length of the finding's own sentence within the headline.
const MAX_SENTENCE: usize = 180;
/// A sentence this long is cut at its semicolon, if it has one.
const LONG_SENTENCE: usize = 150;
/// What stands before the semicolon is the news if it is this long.
const ENOUGH: usize = 80;
/// Limits that are listed; the coverage has all of them.
const MAX_LIMITS: usize = 8;
/// Sentences per resource that are listed as ruled out.
const MAX_SENTENCES: usize = 12;

/// The conclusion from findings that are in order.
pub(super) fn verdict(findings: &[Finding], coverage: &Coverage, recording: &Recording) -> Verdict {
    let fired: Vec<&Finding> = findings.iter().filter(|finding| finding.status >= Status::Warning).collect();
    let (status, headline) = match fired.first() {
        Some(lead) => (lead.status, bottleneck(lead, &fired, findings)),
        None => quiet(findings),
    };
    Verdict { status, headline, limits: limits(findings, coverage, recording) }
}

/// Names the first finding, who is behind it, in which code, and what else fired.
fn bottleneck(lead: &Finding, fired: &[&Finding], findings: &[Finding]) -> String {
    let mut named = BTreeSet::from([(lead.resource, lead.kind)]);
    let mut headline = match (lead.kind, lead.confidence) {
        (Kind::Errors, Confidence::Low) => format!("Likely errors: {}", in_full(lead)),
        (Kind::Errors, _) => format!("Errors: {}", in_full(lead)),
        (_, Confidence::Low) => format!("Likely bottleneck: {}", in_full(lead)),
        _ => format!("Bottleneck: {}", in_full(lead)),
    };
    // Errors come first because they are quickly understood; what is slow is said all the same.
    let queue = fired.iter().find(|finding| finding.kind != Kind::Errors);
    if let (Kind::Errors, Some(queue)) = (lead.kind, queue) {
        named.insert((queue.resource, queue.kind));
        headline.push_str(&format!(". Bottleneck: {}", place(queue)));
        headline.push_str(&behind(queue, &place(queue)));
    }
    headline.push_str(&hottest_code(lead.resource, findings));
    let mut also: Vec<String> = Vec::new();
    for finding in fired {
        if named.insert((finding.resource, finding.kind)) {
            also.push(words::cell(finding.resource, finding.kind));
        }
    }
    if !also.is_empty() {
        headline.push_str(&format!(" (also: {})", listed(&also, 3)));
    }
    headline
}

/// `CPU saturation — threads waited 71% …; stress-ng (8 processes) used 98% of the CPU time`.
fn in_full(finding: &Finding) -> String {
    let sentence = first_sentence(&finding.summary);
    // After "Errors:", the resource is enough.
    let mut text = match (finding.kind, &finding.instance) {
        (Kind::Errors, None) => words::resource_inline(finding.resource),
        (Kind::Errors, Some(instance)) => {
            format!("{} ({})", words::resource_inline(finding.resource), words::instance(instance))
        }
        _ => place(finding),
    };
    if !sentence.is_empty() {
        text.push_str(&format!(" — {sentence}"));
    }
    let behind = behind(finding, &text);
    text.push_str(&behind);
    text
}

/// Who is behind it, unless that is a device that `said` names already.
fn behind(finding: &Finding, said: &str) -> String {
    match &finding.culprit {
        Some(culprit) if culprit.share.is_some() || !said.contains(&culprit.name) => {
            format!("; {}", words::culprit(culprit))
        }
        _ => String::new(),
    }
}

/// The function that a finding about the same resource names, whatever its status: code is no fault, and yet where to look.
fn hottest_code(resource: Resource, findings: &[Finding]) -> String {
    let of = |finding: &Finding| {
        let culprit = finding.culprit.as_ref().filter(|culprit| culprit.kind == "function")?;
        (finding.resource == resource && finding.status.fired()).then(|| culprit.clone())
    };
    findings.iter().find_map(of).map(|culprit| format!("; {}", words::culprit(&culprit))).unwrap_or_default()
}

fn place(finding: &Finding) -> String {
    let cell = words::cell(finding.resource, finding.kind);
    match &finding.instance {
        Some(instance) => format!("{cell} ({})", words::instance(instance)),
        None => cell,
    }
}

fn first_sentence(summary: &str) -> String {
    let summary = summary.trim();
    let end = summary.find(". ").unwrap_or(summary.len());
    let mut sentence = summary.get(..end).unwrap_or(summary).trim_end_matches('.');
    // Of a long sentence, the first half is the news.
    if sentence.chars().count() > LONG_SENTENCE
        && let Some((news, _)) = sentence.split_once("; ")
        && news.chars().count() > ENOUGH
    {
        sentence = news;
    }
    let mut words = String::new();
    for word in sentence.split(' ') {
        if words.chars().count() + word.chars().count() > MAX_SENTENCE {
            // Rather a whole clause than half of the next one.
            match words.rfind([',', ';']).filter(|at| *at > ENOUGH) {
                Some(at) => words.truncate(at),
                None => words.push_str(" …"),
            }
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().take(MAX_SENTENCE));
    }
    lower_first(&words)
}

/// "Threads waited" goes on as "threads waited", but "TCP" and "OOM" stay.
fn lower_first(sentence: &str) -> String {
    let mut chars = sentence.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain([second]).chain(chars).collect()
        }
        _ => sentence.to_owned(),
    }
}

/// `a, b and c`; what is too much becomes `and 2 more`.
fn listed(items: &[String], most: usize) -> String {
    let shown: Vec<&str> = items.iter().take(most).map(String::as_str).collect();
    match (shown.as_slice(), items.len().saturating_sub(most)) {
        ([], _) => String::new(),
        ([only], 0) => (*only).to_owned(),
        ([init @ .., last], 0) => format!("{} and {last}", init.join(", ")),
        (all, more) => format!("{} and {more} more", all.join(", ")),
    }
}

/// The headline when nothing is a bottleneck: silence counts only as far as one could hear.
fn quiet(findings: &[Finding]) -> (Status, String) {
    let judged = findings.iter().filter(|f| f.status == Status::Ok || f.status.fired()).count();
    let unknown = findings.iter().filter(|f| f.status == Status::Unknown).count();
    if judged == 0 {
        let why = findings.iter().find_map(|f| Some(f.unavailable.as_ref()?.why.clone()));
        let why = why.map(|why| format!(" ({})", why.trim_end_matches('.'))).unwrap_or_default();
        return (Status::Unknown, format!("Inconclusive: nothing could be measured{why}"));
    }
    let unseen: Vec<Resource> = CORE.into_iter().filter(|resource| unseen_saturation(findings, *resource)).collect();
    if !unseen.is_empty() {
        let cells: Vec<String> = unseen.iter().map(|r| words::cell(*r, Kind::Saturation)).collect();
        let rest = "; no check that could be made fired";
        return (Status::Unknown, format!("Inconclusive: {} could not be measured{rest}", listed(&cells, 4)));
    }
    let mut cells: Vec<String> = Vec::new();
    for finding in findings.iter().filter(|f| f.status == Status::Info) {
        let cell = words::cell(finding.resource, finding.kind);
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    let status = if cells.is_empty() { Status::Ok } else { Status::Info };
    let notes = if cells.is_empty() { String::new() } else { format!("; worth knowing: {}", listed(&cells, 3)) };
    let headline = if unknown == 0 {
        format!("No bottleneck found: {} made, none fired{notes}", words::plural(judged, "check", "checks"))
    } else {
        let all = judged + unknown;
        format!("No bottleneck found in what could be measured; {unknown} of {all} checks could not be made{notes}")
    };
    (status, headline)
}

/// Whether rules asked for the saturation of a resource, and none could be judged.
fn unseen_saturation(findings: &[Finding], resource: Resource) -> bool {
    let of = || findings.iter().filter(|f| f.resource == resource && f.kind == Kind::Saturation);
    let judged = of().any(|f| f.status == Status::Ok || f.status.fired());
    !judged && of().any(|f| f.status == Status::Unknown)
}

fn limits(findings: &[Finding], coverage: &Coverage, recording: &Recording) -> Vec<String> {
    let mut limits = Vec::new();
    let seconds: f64 = recording.windows.iter().map(|window| window.seconds).sum();
    if recording.interrupted {
        limits.push(format!("The run was interrupted after {seconds:.1} s."));
    } else if seconds < SHORT_WINDOW_SECONDS {
        limits.push(format!("The run was only {seconds:.1} s long: short bursts weigh much in it."));
    }
    let short = !limits.is_empty();
    let suspended: f64 = recording.windows.iter().map(|window| window.suspended_seconds).sum();
    if suspended > 0.5 {
        limits.push(format!("The machine was suspended or paused for {suspended:.1} s during the run."));
    }
    if let Some(container) = &recording.host.container {
        limits.push(format!("rdiag ran inside a container ({container}) and saw what the container may see."));
    }
    let unlooked: Vec<String> = CORE
        .into_iter()
        .filter(|resource| !findings.iter().any(|finding| finding.resource == *resource))
        .map(words::resource_inline)
        .collect();
    if !unlooked.is_empty() && !findings.is_empty() {
        limits.push(format!("This playbook does not look at {}.", listed(&unlooked, 4)));
    }
    limits.extend(doubts(findings, short));
    for group in coverage.groups.iter().filter(|group| !group.rules.is_empty()) {
        let why = group.gap.why.trim_end_matches('.');
        let remedy = group.gap.remedy.as_ref().map(|remedy| format!(" To see it: {}.", remedy.trim_end_matches('.')));
        limits.push(format!("{} not judged: {why}.{}", listed(&group.rules, 3), remedy.unwrap_or_default()));
    }
    if limits.len() > MAX_LIMITS {
        let more = limits.len() - MAX_LIMITS;
        limits.truncate(MAX_LIMITS);
        limits.push(format!("{more} more limits are listed under what could not be measured."));
    }
    limits
}

/// What speaks against trusting what fired, each reason once.
fn doubts(findings: &[Finding], short: bool) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for finding in findings.iter().filter(|f| f.status >= Status::Warning) {
        // That the window was short has been said for all of them.
        let reasons_here =
            finding.confidence_reasons.iter().filter(|r| !(short && r.starts_with("the window was only")));
        for reason in reasons_here {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, ids)) => ids.push(words::full_id(finding)),
                None => reasons.push((reason, vec![words::full_id(finding)])),
            }
        }
    }
    let text = |(reason, ids): (&str, Vec<String>)| format!("Less confidence in {}: {reason}.", listed(&ids, 3));
    reasons.into_iter().take(3).map(text).collect()
}

/// By resource, what the checks that did not fire saw. A rule that fired for one instance rules nothing out.
pub(super) fn ruled_out(findings: &[Finding]) -> Vec<RuledOut> {
    let mut all = Vec::new();
    for resource in Resource::ALL {
        let of = || findings.iter().filter(move |finding| finding.resource == resource);
        let fired: BTreeSet<&str> = of().filter(|f| f.status.fired()).map(|f| f.id.as_str()).collect();
        let mut seen = BTreeSet::new();
        let mut sentences = Vec::new();
        let mut left = 0;
        let mut quiet: Vec<&Finding> =
            of().filter(|f| f.status == Status::Ok && !fired.contains(f.id.as_str())).collect();
        // What is asked about a bottleneck first: does work wait? General rules say more than special ones.
        quiet.sort_by_key(|f| (f.kind == Kind::Errors, f.kind != Kind::Saturation, f.id.matches('.').count()));
        for finding in quiet {
            if !seen.insert(finding.id.as_str()) {
                continue;
            }
            if sentences.len() == MAX_SENTENCES {
                left += 1;
                continue;
            }
            let same = of().filter(|f| f.id == finding.id && f.status == Status::Ok).count();
            sentences.push(sentence(finding, same));
        }
        if left > 0 {
            sentences.push(format!("{} more found nothing.", words::plural(left, "check", "checks")));
        }
        if !sentences.is_empty() {
            let complete = of().all(|f| matches!(f.status, Status::Ok | Status::Skipped | Status::Info));
            all.push(RuledOut { resource, complete, sentences });
        }
    }
    all
}

/// The sentence of the instance that comes closest to firing stands for all of them.
fn sentence(finding: &Finding, same: usize) -> String {
    let text = finding.summary.trim().trim_end_matches('.');
    let worst = if same > 1 { format!(" (the worst of {same})") } else { String::new() };
    match finding.instance.as_deref().map(words::instance) {
        Some(name) if !names(text, &name) => format!("{name}: {text}{worst}."),
        _ => format!("{text}{worst}."),
    }
}

/// Whether a sentence says which instance it is about; of a process, its pid is enough.
fn names(text: &str, instance: &str) -> bool {
    text.contains(instance) || instance.strip_prefix("pid ").is_some_and(|pid| text.contains(pid))
}
