//! The roll-up as one page: the sentence, the faults, and a heat map of hosts and resources that sorts without a script.

use minijinja::value::Serde;
use minijinja::{Value, context};
use rdiag_fleet::{Fault, Fleet, HostRow, OddHost};
use serde::Serialize;

use super::{compared, contrast, figures, how_rare, names, place, reach, roles, some_of, whose};
use crate::error::ReportError;
use crate::shown::{Html, Pages, Shown};
use crate::words;
use rdiag_model::{Resource, Status};

pub(super) const STYLE: &str =
    concat!(include_str!("../../../reports/templates/style.css"), include_str!("../../../reports/templates/fleet.css"));
/// SHA-256 of `STYLE`, by which the page's policy admits it and no other; a test says what it has to be.
pub(super) const STYLE_HASH: &str = "sha256-KXas2JHQKvVl5VRsXlusdVmWmvg1ore2BWgOgRdqyZE=";
const TEMPLATES: [(&str, &str); 1] = [("fleet.html", include_str!("../../../reports/templates/fleet.html"))];
const TOOL: &str = concat!("rdiag ", env!("CARGO_PKG_VERSION"));
/// Longest text.
const CHARACTERS: usize = 400;
/// Hosts in the heat map, and entries of each list.
const HOSTS: usize = 2000;
const ROWS: usize = 200;

#[derive(Serialize)]
struct FaultView {
    class: &'static str,
    word: String,
    reach: String,
    rule: String,
    title: String,
    roles: String,
    culprit: String,
    hosts: String,
    first: String,
    summary: String,
}

#[derive(Serialize)]
struct OddView {
    class: &'static str,
    host: String,
    report: Option<String>,
    findings: Vec<(&'static str, String, String)>,
    contrast: Vec<String>,
    figures: Vec<String>,
}

#[derive(Serialize)]
struct RowView {
    host: String,
    group: String,
    report: Option<String>,
    headline: String,
    odd: bool,
    /// What the row is sorted by: a class for the verdict, and one for each resource that is not in order.
    classes: String,
    /// Class and word.
    cells: Vec<(&'static str, &'static str)>,
}

/// The roll-up as one page.
///
/// # Errors
///
/// When the template fails.
pub fn html(fleet: &Fleet) -> Result<Shown<Html>, ReportError> {
    let columns: Vec<Resource> = Resource::ALL
        .into_iter()
        .filter(|resource| fleet.hosts.iter().any(|host| host.resources.contains_key(resource)))
        .collect();
    let mut rows: Vec<&HostRow> = fleet.hosts.iter().take(HOSTS).collect();
    // As they stand they are sorted by name; a style puts the worst first.
    rows.sort_by(|a, b| (&a.group, &a.host).cmp(&(&b.group, &b.host)));
    let heads: Vec<(&str, &str)> = columns.iter().map(|of| (of.word(), words::resource(*of))).collect();
    let markup = |words| Shown::<Html>::of(words).value();
    let gap = |gap: &rdiag_fleet::NotJudged| (gap.host.clone(), gap.why.word(), gap.detail.clone());
    let culprit = |culprit: &rdiag_fleet::CommonCulprit| {
        let rules: Vec<String> = culprit.rules.keys().cloned().collect();
        (culprit.name.clone(), culprit.hosts, rules.join(", "))
    };
    let cluster = |cluster: &rdiag_fleet::Clustered| {
        let hosts = whose(&cluster.group, some_of(&cluster.hosts, 8, cluster.size));
        (
            cluster.size,
            hosts,
            cluster.rules.join(", "),
            cluster.contrast.iter().map(|it| contrast(it, cluster.size)).collect::<Vec<_>>(),
        )
    };
    let content = context! {
        style => markup(STYLE),
        style_hash => markup(STYLE_HASH),
        tool => TOOL,
        class => fleet.status.word(),
        headline => fleet.headline.clone(),
        judged => fleet.judged,
        total => fleet.hosts_total(),
        notes => fleet.notes.clone(),
        groups => fleet.groups.len() > 1,
        common => fleet.common.iter().take(ROWS).map(fault).map(Serde).map(Value::from).collect::<Vec<_>>(),
        some => fleet.some.iter().take(ROWS).map(fault).map(Serde).map(Value::from).collect::<Vec<_>>(),
        odd => fleet.odd.iter().take(ROWS).map(|host| Value::from(Serde(odd(host, fleet)))).collect::<Vec<_>>(),
        not_judged => fleet.not_judged.iter().take(HOSTS).map(gap).map(Serde).map(Value::from).collect::<Vec<_>>(),
        culprits => fleet.culprits.iter().map(culprit).map(Serde).map(Value::from).collect::<Vec<_>>(),
        clusters => fleet.clusters.iter().map(cluster).map(Serde).map(Value::from).collect::<Vec<_>>(),
        heads => Value::from(Serde(heads)),
        rows => rows.iter().map(|host| Value::from(Serde(row(host, &columns)))).collect::<Vec<_>>(),
        hidden => fleet.hosts.len().saturating_sub(HOSTS),
        compared => compared(fleet),
    };
    Ok(Pages::of(&TEMPLATES)?.page("fleet.html", CHARACTERS, content)?)
}

fn fault(fault: &Fault) -> FaultView {
    let culprit = fault.culprit.as_ref().map(|(name, hosts)| format!("{name} on {hosts}"));
    FaultView {
        class: fault.status.word(),
        word: format!("{}{}", if fault.is_likely { "likely " } else { "" }, fault.status.word()),
        reach: whose(&fault.group, reach(fault)),
        rule: fault.rule.clone(),
        title: fault.title.clone(),
        roles: roles(fault),
        culprit: culprit.unwrap_or_default(),
        hosts: names(fault, 20),
        first: fault.hosts.first().cloned().unwrap_or_default(),
        summary: fault.summary.clone(),
    }
}

fn odd(odd: &OddHost, fleet: &Fleet) -> OddView {
    let finding = |finding: &rdiag_fleet::OddFinding| {
        let by = finding.culprit.as_ref().map(|name| format!("; by {name}")).unwrap_or_default();
        let head = format!("{}, on {}: {}{by}", place(finding), how_rare(finding), finding.title);
        (finding.status.word(), head, finding.summary.clone())
    };
    OddView {
        class: odd.status.word(),
        host: whose(&odd.group, odd.host.clone()),
        report: fleet.hosts.iter().find(|row| row.host == odd.host).and_then(|row| row.report.clone()),
        findings: odd.findings.iter().map(finding).collect(),
        contrast: odd.contrast.iter().map(|it| contrast(it, 1)).collect(),
        figures: figures(odd),
    }
}

fn row(host: &HostRow, columns: &[Resource]) -> RowView {
    let mut classes = format!("worst{}", level(host.verdict).max(if host.is_odd { 3 } else { 0 }));
    let mut cells = Vec::new();
    for resource in columns {
        let status = host.resources.get(resource).copied();
        if let Some(status) = status.filter(|status| level(*status) > 1) {
            classes.push_str(&format!(" {}{}", resource.word(), level(status)));
        }
        cells.push(status.map_or(("none", "–"), |status| (status.word(), word(status))));
    }
    RowView {
        host: host.host.clone(),
        group: host.group.clone(),
        report: host.report.clone(),
        headline: host.headline.clone(),
        odd: host.is_odd,
        classes,
        cells,
    }
}

/// How far up a row goes.
fn level(status: Status) -> u8 {
    match status {
        Status::Skipped => 0,
        Status::Ok => 1,
        Status::Unknown => 2,
        Status::Info => 3,
        Status::Warning => 4,
        Status::Critical => 5,
    }
}

/// A status where there is little room.
fn word(status: Status) -> &'static str {
    match status {
        Status::Skipped => "–",
        Status::Ok => "ok",
        Status::Unknown => "?",
        Status::Info => "info",
        Status::Warning => "warn",
        Status::Critical => "crit",
    }
}
