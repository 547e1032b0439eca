//! The events of a trace, and the tracks that they stand on.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::escape::visible_within;

/// Arguments of an event.
pub(super) type Args = Map<String, Value>;

/// Longest text, in characters.
const MAX_TEXT: usize = 400;
/// Tracks for what overlaps; beyond that it is drawn over one another.
const MAX_ROWS: usize = 64;
/// Tracks have these numbers and higher ones: none may be that of a group, which would be its main thread.
const FIRST_TRACK: u32 = 1000;
/// Nanoseconds of 30 years: whatever claims to be later is nonsense.
const LATEST: f64 = 1e18;

/// One event. What it is and when stands before all texts.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    ph: &'static str,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    name: String,
    args: Args,
}

/// A group of tracks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group(u32);

/// A stretch of time on a track; times are seconds.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) from: f64,
    pub(super) until: f64,
    pub(super) name: String,
    pub(super) args: Args,
}

/// The events so far.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) events: Vec<Event>,
    groups: u32,
    tracks: u32,
}

impl Trace {
    /// A group of tracks, below those before.
    pub(super) fn group(&mut self, name: &str) -> Group {
        self.groups += 1;
        let group = Group(self.groups);
        self.about("process", group, None, name, self.groups);
        group
    }

    /// A name, and the place in the order of its like.
    fn about(&mut self, what: &'static str, group: Group, tid: Option<u32>, name: &str, place: u32) {
        for (of, key, value) in [("name", "name", text(name)), ("sort_index", "sort_index", place.into())] {
            self.events.push(Event {
                ph: "M",
                ts: None,
                dur: None,
                pid: group.0,
                tid,
                cat: None,
                name: format!("{what}_{of}"),
                args: Args::from_iter([(key.to_owned(), value)]),
            });
        }
    }

    /// A value of each curve of a group, from this second on.
    pub(super) fn counter(&mut self, group: Group, name: &str, at: f64, values: Args) {
        let Some(ts) = nanos(at) else { return };
        let (name, ts) = (shown(name), Some(ts / 1e3));
        self.events.push(Event { ph: "C", ts, dur: None, pid: group.0, tid: None, cat: None, name, args: values });
    }

    /// Slices on a track of this name; those that overlap with others on further tracks, since slices of one track must lie within one
    /// another or apart.
    pub(super) fn slices(&mut self, group: Group, name: &str, cat: &'static str, mut slices: Vec<Slice>) {
        slices.sort_by(|a, b| a.from.total_cmp(&b.from));
        // Where each row ends, and its track.
        let mut rows: Vec<(f64, u32)> = Vec::new();
        for slice in slices {
            let (Some(from), Some(until)) = (nanos(slice.from), nanos(slice.until.max(slice.from))) else { continue };
            let free = rows.iter().position(|(end, _)| *end <= from);
            let row = match free {
                None if rows.len() < MAX_ROWS => {
                    let track = FIRST_TRACK + self.tracks;
                    self.tracks += 1;
                    rows.push((from, track));
                    let name = if rows.len() == 1 { name.to_owned() } else { format!("{name} ({})", rows.len()) };
                    self.about("thread", group, Some(track), &name, track);
                    rows.last_mut()
                }
                free => rows.get_mut(free.unwrap_or(MAX_ROWS - 1)),
            };
            let Some((end, track)) = row else { continue };
            *end = end.max(until);
            let (ts, dur, tid) = (Some(from / 1e3), Some((until - from) / 1e3), Some(*track));
            let (name, args) = (shown(&slice.name), slice.args);
            self.events.push(Event { ph: "X", ts, dur, pid: group.0, tid, cat: Some(cat), name, args });
        }
    }
}

/// Whole nanoseconds, so that what ends and begins at one instant does so after rounding, too.
fn nanos(seconds: f64) -> Option<f64> {
    let nanos = (seconds * 1e9).round();
    (0.0..=LATEST).contains(&nanos).then_some(nanos)
}

/// A text as people see it.
pub(super) fn shown(text: &str) -> String {
    visible_within(text, MAX_TEXT).into_owned()
}

/// The same as an argument.
pub(super) fn text(text: &str) -> Value {
    Value::String(shown(text))
}

/// Arguments; those without a value are left out.
pub(super) fn args<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Args {
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
