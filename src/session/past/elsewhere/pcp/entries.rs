//! What pcp2json prints, read as a stream: of each sample those values that are known here, whatever else stands beside them.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::figures::LARGEST;
use super::super::texts::{self, Texts};
use super::metrics::{Kind, METRICS, Place, factor, place};
use rdiag_model::RawUnit;

/// Values that are read: about 600 MB.
const MAX_VALUES: usize = 8_000_000;
/// Where there are no instances.
pub(super) const HOST: u32 = texts::NONE;
/// Seconds since 1970 from 1973 to 5138: what else a timestamp may be of digits is none.
const TIMES: std::ops::Range<f64> = 1e8..1e11;

#[derive(Deserialize)]
pub(super) struct Document {
    #[serde(rename = "@pcp")]
    pub(super) pcp: Hosts,
}

#[derive(Deserialize)]
pub(super) struct Hosts {
    #[serde(rename = "@hosts")]
    pub(super) hosts: Vec<HostPart>,
}

#[derive(Deserialize)]
pub(super) struct HostPart {
    #[serde(rename = "@host")]
    pub(super) name: String,
    #[serde(rename = "@metrics")]
    pub(super) entries: Entries,
}

/// A value, or the number of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Text(u32),
}

/// A value of a metric; the instance is that of a text, or a pid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logged {
    pub(super) metric: usize,
    pub(super) instance: u32,
    pub(super) value: Value,
}

/// What was logged at once.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// In microseconds since 1970.
    pub(super) at: i64,
    pub(super) readings: Vec<Logged>,
}

/// All of them, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) list: Vec<Entry>,
    pub(super) texts: Texts,
    /// A timestamp that does not tell which time it is.
    pub(super) wrong_time: Option<String>,
    /// Values so far.
    values: usize,
    /// A counter that was printed as a rate.
    pub(super) rate: Option<&'static str>,
    /// A metric with a unit that it cannot have.
    pub(super) wrong_unit: Option<(&'static str, String)>,
}

/// One value as it is printed, or those of all instances.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Leaf {
    #[serde(rename = "@unit")]
    unit: String,
    name: String,
    value: serde_json::Value,
    #[serde(rename = "@instances")]
    instances: Vec<Leaf>,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Samples;
        impl<'de> Visitor<'de> for Samples {
            type Value = Entries;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a list of samples")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut samples: A) -> Result<Entries, A::Error> {
                let mut entries = Entries::default();
                let mut entry = Entry::default();
                loop {
                    let mut path = String::new();
                    let node = Node { path: &mut path, entry: &mut entry, entries: &mut entries };
                    if samples.next_element_seed(node)?.is_none() {
                        return Ok(entries);
                    }
                    let entry = std::mem::take(&mut entry);
                    entries.list.extend((entry.at > 0).then_some(entry));
                }
            }
        }
        deserializer.deserialize_seq(Samples)
    }
}

/// An object in a sample: metrics whose names begin with the path.
struct Node<'n> {
    path: &'n mut String,
    entry: &'n mut Entry,
    entries: &'n mut Entries,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object of metrics")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { path, entry, entries } = self;
        let length = path.len();
        while let Some(key) = map.next_key::<String>()? {
            if length == 0 && key == "@timestamp" {
                let stamp: serde_json::Value = map.next_value()?;
                let stamp = stamp.as_str().map_or_else(|| stamp.to_string(), str::to_owned);
                match instant(&stamp) {
                    Some(at) => entry.at = at,
                    None => {
                        entries.wrong_time.get_or_insert_with(|| stamp.chars().take(40).collect());
                    }
                }
                continue;
            }
            if length > 0 {
                path.push('.');
            }
            path.push_str(&key);
            match place(path.as_str()) {
                Place::Metric(metric) => {
                    let leaf: Leaf = map.next_value()?;
                    entries.take(entry, metric, &leaf);
                }
                Place::Branch => {
                    map.next_value_seed(Node { path: &mut *path, entry: &mut *entry, entries: &mut *entries })?;
                }
                Place::Elsewhere => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            path.truncate(length);
        }
        Ok(())
    }
}

/// Seconds since 1970, with or without a fraction, in microseconds.
fn instant(stamp: &str) -> Option<i64> {
    let is_number = stamp.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds: f64 = stamp.parse().ok().filter(|_| is_number)?;
    TIMES.contains(&seconds).then(|| (seconds * 1e6).round() as i64)
}

impl Entries {
    /// Whether there were more values than are read.
    pub(super) fn is_crowded(&self) -> bool {
        self.values > MAX_VALUES
    }

    fn take(&mut self, entry: &mut Entry, metric: usize, leaf: &Leaf) {
        if leaf.instances.is_empty() {
            self.value(entry, metric, HOST, leaf);
        }
        for leaf in &leaf.instances {
            let of_task = METRICS.get(metric).is_some_and(|(_, kind)| matches!(kind, Kind::Task(_) | Kind::TaskText));
            // Of a process it is the pid and the beginning of its command line.
            let digits = leaf.name.split_once(' ').map_or(leaf.name.as_str(), |(pid, _)| pid);
            let instance = if of_task { digits.parse().ok() } else { Some(self.texts.number(&leaf.name)) };
            if let Some(instance) = instance.filter(|instance| *instance != HOST) {
                self.value(entry, metric, instance, leaf);
            }
        }
    }

    fn value(&mut self, entry: &mut Entry, metric: usize, instance: u32, leaf: &Leaf) {
        let Some((name, kind)) = METRICS.get(metric) else { return };
        let number = match &leaf.value {
            serde_json::Value::String(text) => text.trim().parse().ok(),
            value => value.as_f64(),
        };
        let number = number.filter(|number: &f64| (0.0..=LARGEST).contains(number));
        let mut measured = |unit: RawUnit, counts: bool| {
            // Of a rate the unit is per second.
            if counts && leaf.unit.contains('/') {
                self.rate.get_or_insert(*name);
                return None;
            }
            let factor = factor(unit, &leaf.unit);
            if factor.is_none() {
                self.wrong_unit.get_or_insert_with(|| (*name, leaf.unit.chars().take(40).collect()));
            }
            number.zip(factor).map(|(number, factor)| Value::Number(number * factor))
        };
        let value = match kind {
            Kind::Counter(_, unit) => measured(*unit, true),
            Kind::Level(_, unit) | Kind::Fact(unit) => measured(*unit, false),
            // Some of them count.
            Kind::Task(unit) => measured(*unit, true),
            Kind::Text | Kind::TaskText => leaf.value.as_str().map(|text| Value::Text(self.texts.number(text))),
        };
        if let Some(value) = value.filter(|_| self.values <= MAX_VALUES) {
            self.values += 1;
            entry.readings.push(Logged { metric, instance, value });
        }
    }
}
