//! The report as one HTML file: no network, no script, nothing from outside.

use minijinja::{AutoEscape, Environment, context};

use super::{ReportError, words};
use crate::model::Report;

const PAGE: &str = include_str!("../../reports/templates/report.html");

/// The report as one HTML file.
///
/// # Errors
///
/// When a template fails or a plot cannot be drawn.
pub fn html(report: &Report) -> Result<String, ReportError> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.add_template("report.html", PAGE)?;
    let text = super::terminal(report, &super::Style { width: 110, color: false, unicode: true });
    Ok(env.get_template("report.html")?.render(context! { title => words::occasion(report), text })?)
}
