//! What was measured, what was not, why, and what would change that.

use std::collections::{BTreeMap, BTreeSet};

use super::rows;
use rdiag_model::metric::ProcessField;
use rdiag_model::report::{Checks, Coverage, Gap, GapGroup, MetricNote};
use rdiag_model::{Finding, Formula, MetricDef, Metrics, Per, Reading, Reason, Recording, Source, Status, Unavailable};

/// Instances of one metric that are listed as gaps of their own.
const MAX_INSTANCES: usize = 20;

/// The outcome of one metric over all windows.
#[derive(Default)]
struct Outcome {
    measured: bool,
    gap: Option<Unavailable>,
    instances: BTreeMap<String, Unavailable>,
}

/// The coverage of a run; a metric that any window measured is measured.
pub(super) fn coverage(recording: &Recording, metrics: &[Metrics], findings: &[Finding]) -> Coverage {
    let mut outcomes: BTreeMap<&str, Outcome> = BTreeMap::new();
    for (id, reading) in metrics.iter().flat_map(|window| &window.readings) {
        let outcome = outcomes.entry(id).or_default();
        match reading {
            Reading::Unavailable(gap) => {
                outcome.gap.get_or_insert_with(|| gap.clone());
            }
            Reading::Measured { instances, .. } => {
                for (instance, stats) in instances {
                    match stats {
                        Ok(_) => outcome.measured = true,
                        Err(gap) => {
                            outcome.instances.entry(instance.clone()).or_insert_with(|| gap.clone());
                        }
                    }
                }
            }
        }
    }
    let mut coverage = Coverage {
        measured: Vec::new(),
        unavailable: Vec::new(),
        not_applicable: Vec::new(),
        probes: Vec::new(),
        groups: Vec::new(),
        checks: checks(findings),
        rows: rows::unmeasured(recording),
    };
    for (id, gap) in silent_probes(recording) {
        let list =
            if gap.reason == Reason::NotApplicable { &mut coverage.not_applicable } else { &mut coverage.probes };
        list.push(Gap::new(id, gap));
    }
    for (id, outcome) in outcomes {
        sort_in(&mut coverage, id, outcome);
    }
    coverage.groups = groups(&coverage.unavailable, &coverage.probes, findings);
    coverage
}

fn sort_in(coverage: &mut Coverage, id: &str, outcome: Outcome) {
    if outcome.measured {
        coverage.measured.push(id.to_owned());
        let real = outcome.instances.into_iter().filter(|(_, gap)| gap.reason != Reason::NotApplicable);
        for (instance, gap) in real.take(MAX_INSTANCES) {
            coverage.unavailable.push(Gap { id: id.to_owned(), instance: Some(instance), gap });
        }
        return;
    }
    let gap = outcome.gap.or_else(|| outcome.instances.into_values().next());
    let gap = gap.unwrap_or_else(|| Unavailable::new(Reason::NotApplicable, "there is nothing of this kind here"));
    let list =
        if gap.reason == Reason::NotApplicable { &mut coverage.not_applicable } else { &mut coverage.unavailable };
    list.push(Gap::new(id, &gap));
}

fn checks(findings: &[Finding]) -> Checks {
    let count = |wanted: fn(Status) -> bool| findings.iter().filter(|finding| wanted(finding.status)).count();
    Checks {
        all: findings.len(),
        judged: count(|status| status == Status::Ok || status.fired()),
        unknown: count(|status| status == Status::Unknown),
        skipped: count(|status| status == Status::Skipped),
    }
}

/// The probes that gave something in no window, each with its first reason.
fn silent_probes(recording: &Recording) -> BTreeMap<&str, &Unavailable> {
    let ran = |id: &str| recording.windows.iter().any(|window| matches!(window.probes.get(id), Some(Ok(_))));
    let mut silent = BTreeMap::new();
    for (id, result) in recording.windows.iter().flat_map(|window| &window.probes) {
        if let (Err(gap), false) = (result, ran(id)) {
            silent.entry(id.as_str()).or_insert(gap);
        }
    }
    silent
}

/// What the kernel says to each probe that it refuses names the probe's own event; with one remedy it is one cause.
fn refusals(probes: &[Gap]) -> BTreeMap<Cause, Unavailable> {
    let mut by_remedy: BTreeMap<&String, Vec<&Unavailable>> = BTreeMap::new();
    for gap in probes.iter().map(|gap| &gap.gap).filter(|gap| gap.reason == Reason::Denied) {
        let Some(remedy) = &gap.remedy else { continue };
        let known = by_remedy.entry(remedy).or_default();
        if !known.contains(&gap) {
            known.push(gap);
        }
    }
    let mut merged = BTreeMap::new();
    for refused in by_remedy.into_values().filter(|refused| refused.len() > 1) {
        let Some((first, others)) = refused.split_first() else { continue };
        let why = format!("{}; and {} more of the kind", first.why, others.len());
        for gap in refused {
            merged.insert(cause(gap), Unavailable { why: why.clone(), ..gap.clone() });
        }
    }
    merged
}

type Cause = (Reason, String, Option<String>);

fn cause(gap: &Unavailable) -> Cause {
    (gap.reason, gap.why.clone(), gap.remedy.clone())
}

/// What is missing for one cause.
#[derive(Default)]
struct Members<'g> {
    metrics: BTreeMap<&'g str, usize>,
    rules: BTreeSet<&'g str>,
    probes: Vec<String>,
}

/// Gaps by cause. Those that cost a verdict come first.
fn groups(gaps: &[Gap], probes: &[Gap], findings: &[Finding]) -> Vec<GapGroup> {
    let merged = refusals(probes);
    let key = |gap: &Unavailable| merged.get(&cause(gap)).map_or_else(|| cause(gap), cause);
    let mut found: BTreeMap<Cause, Members<'_>> = BTreeMap::new();
    for gap in gaps {
        let instances = found.entry(key(&gap.gap)).or_default().metrics.entry(&gap.id).or_default();
        *instances += usize::from(gap.instance.is_some());
    }
    for gap in probes {
        found.entry(key(&gap.gap)).or_default().probes.push(gap.id.clone());
    }
    for finding in findings.iter().filter(|finding| finding.status == Status::Unknown) {
        if let Some(gap) = &finding.unavailable {
            found.entry(key(gap)).or_default().rules.insert(&finding.id);
        }
    }
    let mut groups: Vec<GapGroup> = found
        .into_iter()
        .map(|((reason, why, remedy), members)| GapGroup {
            gap: Unavailable { reason, why, remedy },
            metrics: members
                .metrics
                .into_iter()
                .map(|(id, instances)| match instances {
                    0 => id.to_owned(),
                    1 => format!("{id} (1 instance)"),
                    many => format!("{id} ({many} instances)"),
                })
                .collect(),
            rules: members.rules.into_iter().map(str::to_owned).collect(),
            probes: members.probes,
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse((group.rules.len(), group.metrics.len() + group.probes.len())));
    groups
}

/// What each measured metric is and how it was read.
pub(super) fn notes(
    metrics: &[Metrics],
    titles: &dyn Fn(&str) -> Option<&'static MetricDef>,
) -> BTreeMap<String, MetricNote> {
    let mut notes = BTreeMap::new();
    for (id, reading) in metrics.iter().flat_map(|window| &window.readings) {
        if let (Reading::Measured { unit, dimension, source, .. }, Some(def)) = (reading, titles(id)) {
            notes.entry(id.clone()).or_insert_with(|| MetricNote {
                help: def.help.to_owned(),
                unit: *unit,
                dimension: dimension.clone(),
                source: source.clone(),
                sums: sums(def),
                caveat: def.caveat.to_owned(),
                manual: def.manual.to_owned(),
            });
        }
    }
    notes
}

fn sums(def: &MetricDef) -> bool {
    match def.sources.first() {
        Some(Formula::Series(of)) => matches!(of.per, Per::Nothing),
        Some(Formula::Taken(Source::Process(field))) => {
            !matches!(field, ProcessField::Resident | ProcessField::Swap | ProcessField::Threads)
        }
        _ => false,
    }
}
