//! What other programs recorded of a host, where rdiag's recorder did not run: what sysstat, atop, PCP and below print of their files, and
//! what journalctl prints of the kernel's lines in the journal.
//!
//! What happened in an interval becomes the counter that would have given it, so that metrics and rules are those of any recording. An
//! interval of a minute or more is a mean in which a burst may hide: it is cut into equal parts, since a rule that asks for three in a row
//! can only be judged on the mean. That is said, and what follows from it is of low confidence ([`temper`]). A shorter one is a sample like
//! the recorder's own, and stays whole: three in a row are three that were measured.

mod archive;
mod atop;
mod below;
mod building;
mod devices;
mod figures;
mod foreign;
mod intervals;
mod journal;
mod packed;
mod pcp;
mod processes;
pub mod sosreport;
mod sysstat;
#[cfg(test)]
mod tests;
mod texts;

use std::io::Read;

use self::intervals::Time;
pub use self::journal::Journal;
use self::packed::{LIMITS, Limits};
use super::time::{Origin, Past, Span, interval};
use crate::analyze::Analysis;
use rdiag_kernel::host::Zone;
use rdiag_model::{Confidence, Finding, Status};
use rdiag_playbook::Plan;

/// What was given.
#[derive(Debug)]
pub enum Given {
    /// What a program recorded of the time.
    Recorded(Box<Past>),
    /// The kernel's lines of any time.
    Journal(Box<Journal>),
}

/// What another program printed of a time; which one, its first bytes say. It may be packed with gzip or xz, or be an archive (an
/// sosreport) that has it: what is of that time is found in it.
///
/// # Errors
/// When it is nothing that is read here, or tells nothing of that time, in words.
pub fn given(from: impl Read, span: Span, plan: &Plan, zone: &Zone) -> Result<Given, String> {
    within(from, &Time { span, plan, zone }, &LIMITS)
}

/// The recording of a time, from what was given of it: figures of one program, and the kernel's lines.
///
/// # Errors
/// When there are figures of two programs, nothing at all, or no line of that time or before it, in words.
pub fn joined(given: Vec<Given>, span: Span, plan: &Plan, zone: &Zone) -> Result<Past, String> {
    let time = Time { span, plan, zone };
    let (mut recorded, mut journals): (Option<Past>, Vec<Journal>) = (None, Vec::new());
    for one in given {
        match one {
            Given::Journal(journal) => journals.push(*journal),
            Given::Recorded(past) => match &recorded {
                Some(first) => {
                    let (first, second) = (first.origin.name, past.origin.name);
                    return Err(format!("figures of {first} and of {second} were given: one of them can be judged"));
                }
                None => recorded = Some(*past),
            },
        }
    }
    let journal = journals.pop();
    if !journals.is_empty() {
        return Err("more than one journal was given: print both times into one file".to_owned());
    }
    match (recorded, journal) {
        (Some(mut past), Some(journal)) => journal.beside(&mut past, &time).map(|()| past),
        (Some(past), None) => Ok(past),
        (None, Some(journal)) => journal.past(&time),
        (None, None) => Err("nothing was given".to_owned()),
    }
}

/// The recording of a time, from what one program printed.
///
/// # Errors
/// As [`given`] and [`joined`].
pub fn elsewhere(from: impl Read, span: Span, plan: &Plan, zone: &Zone) -> Result<Past, String> {
    joined(vec![given(from, span, plan, zone)?], span, plan, zone)
}

fn within(from: impl Read, time: &Time<'_>, limits: &Limits) -> Result<Given, String> {
    let given = packed::open(from)?;
    if given.is_archive {
        return archive::past(given, time, limits).map(|past| Given::Recorded(Box::new(past)));
    }
    let bytes = given.bytes(limits.file)?;
    match journal::prints(&bytes) {
        true => journal::read(&bytes).map(|journal| Given::Journal(Box::new(journal))),
        false => printed(&bytes, time).map(|past| Given::Recorded(Box::new(past))),
    }
}

/// The same from a file that is all of it.
fn printed(bytes: &[u8], time: &Time<'_>) -> Result<Past, String> {
    match foreign::first_key(pcp::json(bytes)).as_deref() {
        Some("@pcp") => pcp::past(bytes, time),
        Some("sysstat") => sysstat::past(bytes, time),
        Some("host") => atop::past(bytes, time),
        Some(_) if atop::prints(bytes) => atop::past(bytes, time),
        None if sysstat::is_xml(bytes) => sysstat::past_of_xml(bytes, time),
        _ if below::prints(bytes) => below::past(bytes, time),
        _ => Err(foreign::what(bytes)),
    }
}

/// What is said of findings that rest on means over minutes, and of those that rest on a log that may be incomplete.
pub fn temper(analysis: &mut Analysis, origin: &Origin) {
    for finding in &mut analysis.findings {
        let reason = match (origin.logged && rests_on_log(finding), origin.means_over) {
            (true, _) => origin.doubt.clone().filter(|_| finding.status == Status::Ok),
            (false, Some(seconds)) => Some(format!(
                "it is judged on means of {} over {}, in which a burst may hide",
                origin.name,
                interval(seconds)
            )),
            (false, None) => None,
        };
        if let Some(reason) = reason {
            finding.confidence = Confidence::Low;
            finding.confidence_reasons.push(reason.into());
        }
    }
}

/// Whether a finding rests on the kernel log alone.
fn rests_on_log(finding: &Finding) -> bool {
    let is_of_log = |metric: &str| metric.starts_with("kernel.log.") || metric.starts_with("memory.oom_kills");
    !finding.evidence.is_empty() && finding.evidence.iter().all(|evidence| is_of_log(&evidence.metric))
}
