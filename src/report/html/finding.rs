//! A finding as the page shows it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::anchors::FindingAnchors;
use super::probes::{Cited, cited};
use super::view::{Limits, Named, more};
use crate::causes::Problem;
use crate::escape::visible_within as short;
use crate::groups::Group;
use crate::shown::{Html, Shown};
use crate::{next, past, svg, words};
use rdiag_model::quantity::{seconds, with_unit};
use rdiag_model::report::Plot;
use rdiag_model::{Finding, Report};

#[derive(Serialize)]
pub(super) struct FindingView {
    /// Folded until clicked.
    is_compact: bool,
    /// The same problem from other sides.
    also: Vec<FindingView>,
    class: &'static str,
    anchor: String,
    id: String,
    title: String,
    summary: String,
    who: String,
    deed: String,
    pids: String,
    labels: Vec<Named>,
    plots: Vec<PlotView>,
    probes: Vec<Cited>,
    log: Vec<String>,
    next: Vec<rdiag_model::NextStep>,
    others_name: String,
    others: Vec<OtherInstance>,
    more_others: String,
    value: String,
    held: String,
    window: String,
    threshold: String,
    origin: String,
    why: String,
    confidence: &'static str,
    reasons: Vec<String>,
    verify: Vec<String>,
    lab: String,
    evidence: Vec<EvidenceView>,
}

#[derive(Serialize)]
pub(super) struct PlotView {
    metric: String,
    instance: String,
    title: String,
    svg: Shown<Html>,
}

#[derive(Serialize)]
pub(super) struct OtherInstance {
    instance: String,
    value: String,
    summary: String,
}

#[derive(Serialize)]
pub(super) struct EvidenceView {
    metric: String,
    instance: String,
    help: String,
    mean: String,
    max: String,
    total: String,
    source: String,
}

/// A problem: its first finding, with the others inside.
pub(super) fn problem(page: &mut Page<'_>, problem: &Problem<'_>) -> Option<FindingView> {
    let lead = finding(page, &problem.lead, false)?;
    let also = problem.also.iter().filter_map(|group| finding(page, group, true)).collect();
    let next = next::steps(page.report, problem).into_iter().take(page.limits.rows).collect();
    Some(FindingView { also, next, ..lead })
}

/// What the findings of a page share.
pub(super) struct Page<'r> {
    pub(super) report: &'r Report,
    pub(super) anchors: &'r FindingAnchors,
    /// A curve that several findings cite is drawn once.
    pub(super) plots: Vec<&'r Plot>,
    pub(super) limits: &'r Limits,
}

/// One finding with its further instances; none where the page has no room for it.
pub(super) fn finding(page: &mut Page<'_>, group: &Group<'_>, is_compact: bool) -> Option<FindingView> {
    let Page { report, anchors, plots, limits } = page;
    let finding = group.lead;
    let anchor = anchors.of_finding(report, finding)?;
    let culprit = finding.culprit.as_ref();
    let mut drawn = Vec::new();
    for plot in plots.extract_if(.., |plot| cites(finding, plot)) {
        drawn.push(PlotView {
            metric: plot.metric.clone(),
            instance: plot.instance.clone().unwrap_or_default(),
            title: plot.title.clone(),
            svg: svg::curve(plot),
        });
    }
    Some(FindingView {
        is_compact,
        also: Vec::new(),
        class: finding.status.word(),
        anchor,
        id: words::full_id(finding),
        // What is over stands below a heading that says so.
        title: past::below_heading(&finding.title).to_owned(),
        summary: finding.summary.clone(),
        who: culprit.map(words::who).unwrap_or_default(),
        deed: culprit.map(words::deed).unwrap_or_default(),
        pids: culprit
            .filter(|culprit| culprit.pids.len() > 1)
            .map(|culprit| culprit.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
            .unwrap_or_default(),
        labels: culprit.map(|culprit| labels(&culprit.labels)).unwrap_or_default(),
        plots: drawn,
        probes: cited(report, finding, limits),
        log: finding.log.iter().take(limits.rows).cloned().collect(),
        next: finding.next.iter().take(limits.rows).cloned().collect(),
        others_name: format!("{} of the same", words::plural(group.others.len(), "more", "more")),
        others: group
            .others
            .iter()
            .take(limits.rows)
            .map(|other| OtherInstance {
                instance: other.instance.as_deref().map(words::instance).unwrap_or_default(),
                value: words::value(other),
                summary: other.summary.clone(),
            })
            .collect(),
        more_others: more(group.others.len(), limits.rows, "more are in the JSON report."),
        value: words::value(finding),
        held: words::held(finding).unwrap_or_default(),
        window: seconds(finding.window_seconds),
        threshold: words::threshold(finding),
        origin: finding.threshold.origin.clone(),
        why: finding.why.clone(),
        confidence: words::confidence(finding.confidence),
        reasons: finding.confidence_reasons.iter().take(limits.rows).map(|reason| reason.why().to_owned()).collect(),
        verify: finding.verify.lines().take(limits.rows).map(str::to_owned).collect(),
        lab: finding.lab.as_deref().map(words::exercise).unwrap_or_default(),
        evidence: evidence(report, finding, limits),
    })
}

fn cites(finding: &Finding, plot: &Plot) -> bool {
    finding.evidence.iter().any(|evidence| {
        evidence.metric == plot.metric && evidence.instance == plot.instance && evidence.window == plot.window
    })
}

fn labels(labels: &BTreeMap<String, String>) -> Vec<Named> {
    let named = labels.iter().take(6);
    let shown = |name: &str| match name {
        "command" => "Command".to_owned(),
        "cgroup" => "Control group".to_owned(),
        "uid" => "User id".to_owned(),
        other => other.to_owned(),
    };
    named.map(|(name, value)| Named { name: shown(name), value: short(value, 300).into_owned() }).collect()
}

fn evidence(report: &Report, finding: &Finding, limits: &Limits) -> Vec<EvidenceView> {
    let view = |evidence: &rdiag_model::Evidence| {
        let note = report.metrics.get(&evidence.metric);
        let figure = |value: Option<f64>| value.map(|value| with_unit(value, evidence.unit)).unwrap_or_default();
        EvidenceView {
            metric: evidence.metric.clone(),
            instance: evidence.instance.clone().unwrap_or_default(),
            help: note.map(|note| note.help.clone()).unwrap_or_default(),
            mean: figure(evidence.mean),
            max: figure(evidence.max),
            total: if note.is_some_and(|note| note.sums) { figure(evidence.total) } else { String::new() },
            source: evidence.source.clone(),
        }
    };
    finding.evidence.iter().take(limits.rows).map(view).collect()
}
