//! The report as one HTML file: no network, nothing from outside, and nothing that needs a script; flame graphs have one, for
//! search and zoom.

mod comparison;
mod finding;
mod hot;
mod lists;
mod probes;
mod profile;
mod runs;
mod schedule;
mod timeline;
mod view;
mod waits;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Output, State, Value, context, escape_formatter};

use super::ReportError;
use super::escape::{self, visible_within};
use super::{flame, probed};
use rdiag_model::comparison::Comparison;
use rdiag_model::{ProbeResult, Report};
use view::{Limits, View};

pub(super) const STYLE: &str =
    concat!(include_str!("../../reports/templates/style.css"), include_str!("../../reports/templates/flame.css"));
/// SHA-256 of `STYLE`, by which the page's policy admits it and no other; a test says what it has to be.
pub(super) const STYLE_HASH: &str = "sha256-ynwTaFdKZjCzwIpSNBoaetCjkCxSOPuGIfTfJmtVfnE=";
/// SHA-256 of the script for flame graphs, likewise.
pub(super) const SCRIPT_HASH: &str = "sha256-aj2HjXgQPjrJAR72Hj/As2zyWE7roHBBMKHZUxHVP6U=";
const TEMPLATES: [(&str, &str); 10] = [
    ("report.html", include_str!("../../reports/templates/report.html")),
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
/// No report is larger, whatever the host did; flame graphs come on top, and have a bound of their own.
const MAX_BYTES: usize = 500_000;

/// The report as one HTML file of at most 500 kB, flame graphs not counted.
///
/// # Errors
///
/// When a template fails or a plot cannot be drawn.
pub fn html(report: &Report) -> Result<String, ReportError> {
    let mut env = environment()?;
    let mut page = String::new();
    let drawn = probes::flames(report);
    for limits in Limits::ALL {
        let view = View::of(report, &drawn, &limits)?;
        let flames = view.flames();
        env.set_formatter(move |out, state, value| write_visible(out, state, value, limits.characters));
        page = env.get_template("report.html")?.render(context! {
            style => STYLE,
            style_hash => STYLE_HASH,
            script => (flames > 0).then_some(flame::SCRIPT),
            script_hash => SCRIPT_HASH,
            ..Value::from(Serde(view))
        })?;
        if page.len() <= MAX_BYTES + flames {
            break;
        }
    }
    page.push('\n');
    Ok(page)
}

/// One result as a page of its own: a profile that was made elsewhere.
///
/// # Errors
///
/// When a template fails.
pub fn profile(result: &ProbeResult, title: &str) -> Result<String, ReportError> {
    let mut env = environment()?;
    let [limits, ..] = Limits::ALL;
    let probed = probed::alone(result, title);
    let view = probes::alone(&probed, &limits)?;
    env.set_formatter(move |out, state, value| write_visible(out, state, value, limits.characters));
    let page = env.get_template("profile.html")?.render(context! {
        style => STYLE,
        style_hash => STYLE_HASH,
        script => (view.flames() > 0).then_some(flame::SCRIPT),
        script_hash => SCRIPT_HASH,
        tool => concat!("rdiag ", env!("CARGO_PKG_VERSION")),
        title => title,
        probe => Value::from(Serde(view)),
    })?;
    Ok(page + "\n")
}

/// A comparison as one page, with a differential flame graph for each pair of stacks that has one.
///
/// # Errors
///
/// When a template fails.
pub fn comparison(comparison: &Comparison, flames: &[Option<String>]) -> Result<String, ReportError> {
    let mut env = environment()?;
    let [limits, ..] = Limits::ALL;
    let view = comparison::ComparisonView::of(comparison, flames, &limits);
    env.set_formatter(move |out, state, value| write_visible(out, state, value, limits.characters));
    let page = env.get_template("diff.html")?.render(context! {
        style => STYLE,
        style_hash => STYLE_HASH,
        script => flames.iter().any(Option::is_some).then_some(flame::SCRIPT),
        script_hash => SCRIPT_HASH,
        tool => concat!("rdiag ", env!("CARGO_PKG_VERSION")),
        ..Value::from(Serde(view))
    })?;
    Ok(page + "\n")
}

fn environment() -> Result<Environment<'static>, ReportError> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    for (name, source) in TEMPLATES {
        env.add_template(name, source)?;
    }
    Ok(env)
}

/// Everything that a template writes passes here: first what has no shape is spelled out, then HTML is escaped.
fn write_visible(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
    most: usize,
) -> Result<(), minijinja::Error> {
    match value.as_str() {
        Some(text) if !value.is_safe() => Ok(out.write_str(&escape::html(&visible_within(text, most)))?),
        _ => escape_formatter(out, state, value),
    }
}
