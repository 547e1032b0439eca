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
mod foreign;
mod journal;
mod packed;
mod pcp;
mod processes;
pub mod sosreport;
mod sysstat;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::{Map, Value};

use self::building::Building;
pub use self::journal::Journal;
use self::packed::{LIMITS, Limits};
use super::time::{Origin, Past, Span, interval, params};
use crate::playbook::Plan;
use crate::session::analyze::Analysis;
use rdiag_collectors as collectors;
use rdiag_kernel::host::Zone;
use rdiag_model::recording::{CollectorRecord, FORMAT_VERSION, Overhead, Tool};
use rdiag_model::{Confidence, Facts, Finding, Reason, Recording, Setup, Status, Target, Unavailable, Window};

/// Parts of an interval that is a mean.
const PARTS: usize = 4;
/// From so many seconds on, an interval is a mean in which a burst may hide.
const MEAN: f64 = 60.0;
/// An interval is no longer, in seconds, and no shorter.
const LONGEST: f64 = 86_400.0;
const SHORTEST: f64 = 0.1;
/// No figure of a host is larger; sums of them stay finite.
const LARGEST: f64 = 1e18;
/// Intervals of one time: 6 hours, a second apart, with nothing left out of them.
const MAX_INTERVALS: usize = 22_000;

/// A program that records.
struct Source {
    name: &'static str,
    /// What it does not record, and what that costs.
    lacks: &'static str,
    /// Why there is nothing of a collector.
    gap: &'static str,
}

/// An interval: when it ended, in microseconds since 1970, how long it was, and what is known of it.
#[derive(Debug)]
struct Interval<S> {
    end: i64,
    seconds: f64,
    sample: S,
}

impl<S> Interval<S> {
    /// None where that is no interval.
    fn new(end: i64, seconds: f64, sample: S) -> Option<Self> {
        (SHORTEST..=LONGEST).contains(&seconds).then_some(Self { end, seconds, sample })
    }

    fn begin(&self) -> i64 {
        self.end.saturating_sub((self.seconds * 1e6) as i64)
    }
}

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

/// Whether a text has another one in it.
fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
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
            finding.confidence_reasons.push(reason);
        }
    }
}

/// Whether a finding rests on the kernel log alone.
fn rests_on_log(finding: &Finding) -> bool {
    let is_of_log = |metric: &str| metric.starts_with("kernel.log.") || metric.starts_with("memory.oom_kills");
    !finding.evidence.is_empty() && finding.evidence.iter().all(|evidence| is_of_log(&evidence.metric))
}

/// What is asked for.
struct Time<'a> {
    span: Span,
    plan: &'a Plan,
    zone: &'a Zone,
}

/// The host, as far as the source knows it. What it does not know is not that of this machine.
fn unknown_host() -> Facts {
    Facts { arch: "unknown".into(), ..Facts::default() }
}

impl Time<'_> {
    /// Whether an interval is of it. One of which little is meant would tell more of the time around it.
    fn is_told_by<S>(&self, interval: &Interval<S>) -> bool {
        let Span { from, to } = self.span;
        let (begin, end) = (interval.begin(), interval.end);
        let within = end.min(to).saturating_sub(begin.max(from)) as f64;
        let shorter = end.saturating_sub(begin).min(to.saturating_sub(from)) as f64;
        within > 0.0 && within * 2.0 >= shorter
    }

    /// Those intervals that tell of it, in order, none of which overlaps another one.
    fn pick<S>(
        &self,
        intervals: impl Iterator<Item = Interval<S>>,
        source: &Source,
    ) -> Result<Vec<Interval<S>>, String> {
        let mut picked: Vec<Interval<S>> =
            intervals.filter(|interval| self.is_told_by(interval)).take(MAX_INTERVALS).collect();
        picked.sort_by_key(|interval| interval.end);
        let mut known_to = i64::MIN;
        picked.retain(|interval| {
            // Ends are whole seconds, so intervals that follow one another may seem to share one.
            let follows = interval.begin() >= known_to.saturating_sub(1_000_000) && interval.end > known_to;
            known_to = if follows { interval.end } else { known_to };
            follows
        });
        if picked.is_empty() {
            let Self { span, zone, .. } = self;
            return Err(format!(
                "{} has nothing between {} and {}",
                source.name,
                zone.shown(span.from),
                zone.shown(span.to)
            ));
        }
        Ok(picked)
    }

    /// The recording of it. `tell` adds one interval.
    fn past<S>(
        &self,
        source: &Source,
        intervals: &[Interval<S>],
        host: Facts,
        mut tell: impl FnMut(&mut Building, &Interval<S>),
    ) -> Result<Past, String> {
        let (first, last) = intervals.first().zip(intervals.last()).ok_or("it has no interval")?;
        let begin = first.begin();
        let mut lengths: Vec<f64> = intervals.iter().map(|part| part.seconds).collect();
        lengths.sort_by(f64::total_cmp);
        let longest = lengths.last().copied().unwrap_or(0.0);
        // On a host that is short of CPU one of 2 s may take 3. Of means, the longest says what may hide.
        let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(longest);
        let typical = rounded(if rounded(longest) >= MEAN { longest } else { middle });
        let is_of_means = typical >= MEAN;
        let parts = if is_of_means { PARTS } else { 1 };
        let mut building = Building::new(parts, intervals.len());
        for interval in intervals {
            // Where nothing was recorded, counters stand still and time goes on.
            building.interval((interval.begin().saturating_sub(begin)) as f64 * 1e-6, interval.seconds);
            tell(&mut building, interval);
        }
        let mut notes = vec![source_in_words(source.name, typical), source.lacks.to_owned()];
        notes.extend(building.left_out());
        let window = Window {
            steps: self.plan.windows.iter().take(1).flatten().map(|planned| planned.step.id.clone()).collect(),
            begins: 0.0,
            seconds: (last.end.saturating_sub(begin)) as f64 * 1e-6,
            interval_seconds: typical / parts as f64,
            suspended_seconds: 0.0,
            collectors: self.with_gaps(building.finish(), source),
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        };
        let recording = Recording {
            format_version: FORMAT_VERSION,
            tool: Tool { name: env!("CARGO_PKG_NAME").into(), version: env!("CARGO_PKG_VERSION").into() },
            playbook: self.plan.playbook.name.clone(),
            params: params(self.plan, &window),
            target: Target::default(),
            host,
            // How the host was set up is not kept with its history.
            setup: Setup::default(),
            started: self.zone.instant(begin),
            exercise: None,
            windows: vec![window],
            interrupted: false,
            overhead: Overhead::default(),
        };
        let origin = Origin::of(source.name, is_of_means.then_some(typical));
        Ok(Past { recording, began: begin, notes, origin, holes: holes(intervals, begin) })
    }

    /// With a gap for each collector that the plan begins with, for what the source has nothing of.
    fn with_gaps(
        &self,
        mut records: BTreeMap<String, CollectorRecord>,
        source: &Source,
    ) -> BTreeMap<String, CollectorRecord> {
        let wanted = self.plan.windows.iter().take(1).flatten().flat_map(|planned| &planned.step.collect);
        for id in wanted.map(crate::playbook::Measure::id).filter(|id| collectors::find(id).is_some()) {
            let gap = || {
                Unavailable::new(Reason::Absent, source.gap).with_remedy("run `rdiag watch`, which does from now on")
            };
            let missing = || CollectorRecord { unavailable: Some(gap()), ..CollectorRecord::default() };
            let record = records.entry(id.to_owned()).or_insert_with(missing);
            record.gaps.insert(format!("{id}."), gap());
        }
        records
    }
}

/// Times between intervals, in seconds since the first began.
fn holes<S>(intervals: &[Interval<S>], begin: i64) -> Vec<(f64, f64)> {
    let seconds = |at: i64| at.saturating_sub(begin) as f64 * 1e-6;
    let between = intervals.iter().zip(intervals.iter().skip(1));
    between.map(|(one, next)| (seconds(one.end), seconds(next.begin()))).filter(|(from, to)| to > from).collect()
}

/// Seconds as one would say them: a sample that is some milliseconds late is none of another length.
fn rounded(seconds: f64) -> f64 {
    if seconds >= 10.0 { seconds.round() } else { (seconds * 10.0).round() / 10.0 }
}

fn source_in_words(name: &str, seconds: f64) -> String {
    let every = interval(seconds);
    match seconds {
        s if s >= 2.0 * MEAN => format!("Source: {name}, means over {every}: a burst of a minute may hide in them"),
        s if s >= MEAN => format!("Source: {name}, means over {every}: a shorter burst may hide in them"),
        _ => format!("Source: {name}, a sample every {every}"),
    }
}

/// A figure of theirs; some are printed as text. What is negative stands for none.
fn figure(map: &Map<String, Value>, key: &str) -> Option<f64> {
    signed(map, key).filter(|value| *value >= 0.0)
}

/// A figure that may be below zero.
fn signed(map: &Map<String, Value>, key: &str) -> Option<f64> {
    let value = match map.get(key)? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    value.filter(|value: &f64| value.abs() <= LARGEST)
}
