//! The roll-up of many hosts as text, Markdown, one page, or JSON.

mod html;
mod markdown;
#[cfg(test)]
mod tests;
mod text;

use rdiag_fleet::{Contrast, FAR, Fault, Fleet, OddFinding, OddHost, Outlier};

use super::shown::{self, Json, Shown};
use crate::error::ReportError;
use rdiag_model::quantity::with_unit;

pub use html::html;
pub use markdown::markdown;
pub use text::text;

/// The roll-up as JSON, indented, ending with a newline.
///
/// # Errors
///
/// When it cannot be serialised.
pub fn json(fleet: &Fleet) -> Result<Shown<Json>, ReportError> {
    Ok(shown::json(fleet)?)
}

/// `37 of 40`; of a few hosts, with what that says of more of them.
fn reach(fault: &Fault) -> String {
    let (hosts, judged, unknown) = (fault.reach.hosts, fault.reach.judged, fault.reach.unknown);
    let bounds = match judged {
        5..20 => {
            let (low, high) = fault.reach.share;
            format!(" (95 % CI {:.0}–{:.0} %)", low * 100.0, high * 100.0)
        }
        _ => String::new(),
    };
    let unknown = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
    format!("{hosts} of {judged}{bounds}{unknown}")
}

/// `web: 37 of 40`, where there are groups.
fn whose(group: &str, text: String) -> String {
    if group.is_empty() { text } else { format!("{group}: {text}") }
}

/// `vda on 37, vdb on 2`; nothing where the rule is about the whole host.
fn roles(fault: &Fault) -> String {
    let all: Vec<String> = fault.roles.iter().take(3).map(|(role, hosts)| format!("{role} on {hosts}")).collect();
    all.join(", ")
}

/// `web-01, web-02 and 35 more`.
fn names(fault: &Fault, most: usize) -> String {
    some_of(&fault.hosts, most, fault.reach.hosts)
}

/// The first names of so many.
fn some_of(names: &[String], most: usize, all: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(String::as_str).collect();
    match all.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `disk.saturation (vda)`.
fn place(finding: &OddFinding) -> String {
    let role = if finding.role.is_empty() { String::new() } else { format!(" ({})", finding.role) };
    format!("{}{role}", finding.rule)
}

/// `only here`, or on how many hosts.
fn how_rare(finding: &OddFinding) -> String {
    match (finding.reach.hosts, finding.reach.judged) {
        (1, judged) => format!("1 of {judged}"),
        (hosts, judged) => format!("{hosts} of {judged}"),
    }
}

/// `cpu.busy.ratio 92.1%, median 20.0% (z 55)`.
fn reading(outlier: &Outlier) -> String {
    let role = if outlier.role.is_empty() { String::new() } else { format!(" {}", outlier.role) };
    let [value, median] = [outlier.value, outlier.median].map(|value| with_unit(value, outlier.unit));
    let also = match outlier.also {
        0 => String::new(),
        1 => "; and 1 more reading of the same thing".to_owned(),
        also => format!("; and {also} more readings of the same thing"),
    };
    format!("{}{role} {value}, median {median} (z {:.0}){also}", outlier.metric, outlier.z)
}

/// All that is unusual about a host beside its findings, a line each.
fn figures(odd: &OddHost) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for error in &odd.errors {
        let role = if error.role.is_empty() { String::new() } else { format!(" {}", error.role) };
        all.push(format!("{}{role} {}, none on the others", error.metric, with_unit(error.value, error.unit)));
    }
    all.extend(odd.readings.iter().map(reading));
    if odd.readings_others > 0 {
        all.push(format!("and {} more readings as far", odd.readings_others));
    }
    all
}

/// `the only one with governor=powersave (most others: performance)`.
fn contrast(contrast: &Contrast, hosts: usize) -> String {
    let Contrast { fact, value, others, shared } = contrast;
    let who = match (hosts, *shared) {
        (1, 0) => "the only one with ".to_owned(),
        (_, 0) => "the only ones with ".to_owned(),
        (_, shared) => format!("as {shared} of the others, with "),
    };
    format!("{who}{fact}={value} (most others: {others})")
}

/// How much was compared, and what follows from that.
fn compared(fleet: &Fleet) -> String {
    let compared = &fleet.compared;
    format!(
        "Compared: {} verdicts and {} readings of {} hosts. A reading is called odd from z {FAR} on (more in groups below 30), if it \
            stands \
         apart and the difference matters: less than 1 reading in 7 million of generated healthy hosts is.",
        compared.verdicts,
        compared.readings,
        fleet.hosts.len()
    )
}
