//! The report as one HTML file: no network, nothing from outside, and nothing that needs a script; one copies the verdict, and flame
//! graphs have one for search and zoom.

mod anchors;
mod around;
mod comparison;
mod finding;
mod host;
mod hot;
mod lists;
mod probes;
mod profile;
mod runs;
mod schedule;
mod table;
mod timeline;
mod view;
mod waits;

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::shown::{Html, Pages, Shown};
use super::{flame, probed};
use crate::error::ReportError;
use rdiag_model::comparison::Comparison;
use rdiag_model::{ProbeResult, Report};
use view::{Limits, View};

pub(super) const STYLE: &str =
    concat!(include_str!("../../reports/templates/style.css"), include_str!("../../reports/templates/flame.css"));
/// SHA-256 of `STYLE`, by which the page's policy admits it and no other; a test says what it has to be.
pub(super) const STYLE_HASH: &str = "sha256-cYzb+VHwVM5Z+neTdPdcHjQJ4Zu7kJqp6+ZNw9elWso=";
/// SHA-256 of the script for flame graphs, likewise.
pub(super) const SCRIPT_HASH: &str = "sha256-aj2HjXgQPjrJAR72Hj/As2zyWE7roHBBMKHZUxHVP6U=";
/// The script that copies the verdict, and its SHA-256.
pub(super) const COPY: &str = include_str!("../../reports/templates/copy.js");
pub(super) const COPY_HASH: &str = "sha256-5foFSmwuCzqTCZ9rENbt4VOGeA1RqKhzgCLAJ6GnBro=";
const TEMPLATES: [(&str, &str); 14] = [
    ("report.html", include_str!("../../reports/templates/report.html")),
    ("timeline.html", include_str!("../../reports/templates/timeline.html")),
    ("around.html", include_str!("../../reports/templates/around.html")),
    ("facts.html", include_str!("../../reports/templates/facts.html")),
    ("used.html", include_str!("../../reports/templates/used.html")),
    ("finding.html", include_str!("../../reports/templates/finding.html")),
    ("probe.html", include_str!("../../reports/templates/probe.html")),
    ("calls.html", include_str!("../../reports/templates/calls.html")),
    ("hot.html", include_str!("../../reports/templates/hot.html")),
    ("diff.html", include_str!("../../reports/templates/diff.html")),
    ("profile.html", include_str!("../../reports/templates/profile.html")),
    ("runs.html", include_str!("../../reports/templates/runs.html")),
    ("task.html", include_str!("../../reports/templates/task.html")),
    ("table.html", include_str!("../../reports/templates/table.html")),
];
/// Who wrote a page.
const TOOL: &str = concat!("rdiag ", env!("CARGO_PKG_VERSION"));
/// No report is larger, whatever the host did; flame graphs come on top, and have a bound of their own.
const MAX_BYTES: usize = 300_000;

/// The report as one HTML file of at most 300 kB, flame graphs not counted.
///
/// # Errors
///
/// When a template fails or a plot cannot be drawn.
pub fn html(report: &Report) -> Result<Shown<Html>, ReportError> {
    let mut pages = Pages::of(&TEMPLATES)?;
    let mut page = Shown::new();
    let drawn = probes::flames(report);
    for limits in Limits::ALL {
        let view = View::of(report, &drawn, &limits);
        let flames = view.flames();
        let own = own(flames > 0);
        page = pages.page("report.html", limits.characters, context! { ..own, ..Value::from(Serde(view)) })?;
        if page.len() <= MAX_BYTES + flames {
            break;
        }
    }
    Ok(page)
}

/// One result as a page of its own: a profile that was made elsewhere.
///
/// # Errors
///
/// When a template fails.
pub fn profile(result: &ProbeResult, title: &str) -> Result<Shown<Html>, ReportError> {
    let [limits, ..] = Limits::ALL;
    let probed = probed::alone(result, title);
    let view = probes::alone(&probed, &limits);
    let content = context! {
        tool => TOOL,
        title => title,
        probe => Value::from(Serde(&view)),
        ..own(view.flames() > 0)
    };
    Ok(Pages::of(&TEMPLATES)?.page("profile.html", limits.characters, content)?)
}

/// A comparison as one page, with a differential flame graph for each pair of stacks that has one.
///
/// # Errors
///
/// When a template fails.
pub fn comparison(comparison: &Comparison, flames: &[Option<Shown<Html>>]) -> Result<Shown<Html>, ReportError> {
    let [limits, ..] = Limits::ALL;
    let view = comparison::ComparisonView::of(comparison, flames, &limits);
    let own = own(flames.iter().any(Option::is_some));
    let content = context! { ..own, ..context! { tool => TOOL }, ..Value::from(Serde(view)) };
    Ok(Pages::of(&TEMPLATES)?.page("diff.html", limits.characters, content)?)
}

/// What every page has of rdiag's own: its style, and the script of flame graphs where there is one.
fn own(has_flames: bool) -> Value {
    let markup = |words| Shown::<Html>::of(words).value();
    context! {
        style => markup(STYLE),
        style_hash => markup(STYLE_HASH),
        script => has_flames.then(|| markup(flame::SCRIPT)),
        script_hash => markup(SCRIPT_HASH),
        copy => markup(COPY),
        copy_hash => markup(COPY_HASH),
    }
}
