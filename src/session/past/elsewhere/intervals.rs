//! Intervals that a program recorded, those of them that tell of a time, and the recording that is made of them.

use std::collections::BTreeMap;

use super::building::Building;
use crate::past::time::{Origin, Past, Span, interval, params};
use rdiag_collectors as collectors;
use rdiag_kernel::host::Zone;
use rdiag_model::recording::{CollectorRecord, FORMAT_VERSION, Overhead, Tool};
use rdiag_model::{Facts, Reason, Recording, Setup, Target, Unavailable, Window};
use rdiag_playbook::{Measure, Plan};

/// Parts of an interval that is a mean.
const PARTS: usize = 4;
/// From so many seconds on, an interval is a mean in which a burst may hide.
const MEAN: f64 = 60.0;
/// An interval is no longer, in seconds, and no shorter.
const LONGEST: f64 = 86_400.0;
const SHORTEST: f64 = 0.1;
/// Intervals of one time: 6 hours, a second apart, with nothing left out of them.
pub(super) const MAX_INTERVALS: usize = 22_000;

/// A program that records.
pub(super) struct Source {
    pub(super) name: &'static str,
    /// What it does not record, and what that costs.
    pub(super) lacks: &'static str,
    /// Why there is nothing of a collector.
    pub(super) gap: &'static str,
}

/// An interval: when it ended, in microseconds since 1970, how long it was, and what is known of it.
#[derive(Debug)]
pub(super) struct Interval<S> {
    pub(super) end: i64,
    pub(super) seconds: f64,
    pub(super) sample: S,
}

impl<S> Interval<S> {
    /// None where that is no interval.
    pub(super) fn new(end: i64, seconds: f64, sample: S) -> Option<Self> {
        (SHORTEST..=LONGEST).contains(&seconds).then_some(Self { end, seconds, sample })
    }

    pub(super) fn begin(&self) -> i64 {
        self.end.saturating_sub((self.seconds * 1e6) as i64)
    }
}

/// What is asked for.
pub(super) struct Time<'a> {
    pub(super) span: Span,
    pub(super) plan: &'a Plan,
    pub(super) zone: &'a Zone,
}

impl Time<'_> {
    /// Whether an interval is of it. One of which little is meant would tell more of the time around it.
    pub(super) fn is_told_by<S>(&self, interval: &Interval<S>) -> bool {
        let Span { from, to } = self.span;
        let (begin, end) = (interval.begin(), interval.end);
        let within = end.min(to).saturating_sub(begin.max(from)) as f64;
        let shorter = end.saturating_sub(begin).min(to.saturating_sub(from)) as f64;
        within > 0.0 && within * 2.0 >= shorter
    }

    /// Those intervals that tell of it, in order, none of which overlaps another one.
    pub(super) fn pick<S>(
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
    pub(super) fn past<S>(
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
            tool: Tool { name: "rdiag".into(), version: env!("CARGO_PKG_VERSION").into() },
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
        for id in wanted.map(Measure::id).filter(|id| collectors::find(id).is_some()) {
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
pub(super) fn rounded(seconds: f64) -> f64 {
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

/// The host, as far as the source knows it. What it does not know is not that of this machine.
pub(super) fn unknown_host() -> Facts {
    Facts { arch: "unknown".into(), ..Facts::default() }
}
