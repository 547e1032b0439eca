//! What a recording may consist of, asked of its text before anything is made of it that takes memory.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::StoreError;
use rdiag_model::recording::FORMAT_VERSION;

/// What a recording consists of at most. An hour of a host with 1000 disks has two million values, seven or more for each mapping. A value
/// may take three bytes of text and 100 of memory, a mapping ten and 200: text alone bounds nothing, nor does the number of values.
const MOST: Parts = Parts { values: 10_000_000, texts: 11_000_000, mappings: 1_400_000 };
/// A run has one, and one for each drill-down; each has maps of its own, of some kilobytes.
const MAX_WINDOWS: usize = 1000;
/// Instances with labels in all windows, and their labels. Those of one instance are a map, of half a kilobyte at least, and what is made
/// of a recording has it once more.
const MAX_LABELLED: usize = 300_000;
const MAX_LABELS: usize = 2_000_000;

/// As much of a recording as tells whether it is one, and how much memory the rest will take. What is counted takes none.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    pub(super) format_version: Option<u64>,
    pub(super) windows: Option<Vec<Window>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Window {
    #[serde(default)]
    collectors: Counted<Collector>,
}

#[derive(Debug, Deserialize)]
struct Collector {
    #[serde(default)]
    labels: Counted<Counted<IgnoredAny>>,
}

/// Instances and labels.
type Count = [usize; 2];

/// What has labels to be counted.
trait Labelled {
    /// As an entry of a map.
    fn count(&self) -> Count;
}

impl Labelled for IgnoredAny {
    fn count(&self) -> Count {
        [0, 1]
    }
}

impl Labelled for Counted<IgnoredAny> {
    fn count(&self) -> Count {
        [1, self.count[1]]
    }
}

impl Labelled for Collector {
    fn count(&self) -> Count {
        self.labels.count
    }
}

/// A map of which nothing is kept but the sum over its entries.
#[derive(Debug)]
struct Counted<V> {
    count: Count,
    entries: PhantomData<V>,
}

impl<V> Default for Counted<V> {
    fn default() -> Self {
        Self { count: Count::default(), entries: PhantomData }
    }
}

impl<'de, V: Deserialize<'de> + Labelled> Deserialize<'de> for Counted<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self::default())
    }
}

impl<'de, V: Deserialize<'de> + Labelled> Visitor<'de> for Counted<V> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((IgnoredAny, value)) = map.next_entry::<_, V>()? {
            self.count = sum(self.count, value.count());
        }
        Ok(self)
    }
}

fn sum([instances, labels]: Count, [more, others]: Count) -> Count {
    [instances.saturating_add(more), labels.saturating_add(others)]
}

impl Head {
    /// That of another version, whose windows may be anything.
    pub(super) fn of_other_version(text: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Version {
            format_version: u64,
            #[serde(rename = "windows")]
            _windows: IgnoredAny,
        }
        let Version { format_version, .. } = serde_json::from_slice(text).ok()?;
        let is_other = format_version != u64::from(FORMAT_VERSION);
        is_other.then(|| Self { format_version: Some(format_version), windows: Some(Vec::new()) })
    }

    /// Refuses what has more of something than a recording.
    pub(super) fn bounded(&self) -> Result<(), StoreError> {
        let windows = self.windows.as_deref().unwrap_or_default();
        let [instances, labels] = windows.iter().map(|window| window.collectors.count).fold([0, 0], sum);
        within(&[
            (windows.len(), MAX_WINDOWS, "windows"),
            (instances, MAX_LABELLED, "instances with labels"),
            (labels, MAX_LABELS, "labels"),
        ])
    }
}

/// What JSON consists of at most, from its signs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Parts {
    /// Values, lists and mappings.
    values: usize,
    /// Texts, names included.
    texts: usize,
    mappings: usize,
}

impl Parts {
    fn of(json: &[u8]) -> Self {
        let (mut all, mut in_text, mut escaped) = (Self::default(), false, false);
        for byte in json {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = in_text,
                b'"' => {
                    all.texts += usize::from(!in_text);
                    in_text = !in_text;
                }
                b',' | b'[' | b'{' if !in_text => {
                    all.values += 1;
                    all.mappings += usize::from(*byte == b'{');
                }
                _ => {}
            }
        }
        all
    }
}

/// Refuses JSON that consists of more than a recording does.
pub(super) fn bounded(json: &[u8]) -> Result<(), StoreError> {
    let found = Parts::of(json);
    within(&[
        (found.values, MOST.values, "values"),
        (found.texts, MOST.texts, "texts"),
        (found.mappings, MOST.mappings, "mappings"),
    ])
}

fn within(all: &[(usize, usize, &str)]) -> Result<(), StoreError> {
    match all.iter().find(|(found, most, _)| found > most) {
        Some((_, most, what)) => Err(StoreError::TooMany(format!("{most} {what}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_recording;

    /// What a recording is refused for whose windows are these.
    fn refused(windows: &str) -> String {
        let text = format!("{{\"format_version\": 1, \"windows\": [{windows}]}}");
        read_recording(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_made_of_more_than_a_recording_has_is_refused_before_it_takes_memory() {
        let of = |part: &str, times: usize| refused(&[&part.repeat(times), "{}"].concat());
        assert!(of("0,", MOST.values).contains("10000000 values"));
        assert!(of("{},", MOST.mappings).contains("1400000 mappings"));
        let map = format!("{{{}\"a\":\"\"}},", "\"a\":\"\",".repeat(MOST.texts / 2));
        assert!(of(&map, 1).contains("11000000 texts"));
        assert!(of("{},", MAX_WINDOWS).contains("1000 windows"));
        assert!(!of("{},", MAX_WINDOWS - 1).contains("consists"));
    }

    #[test]
    fn labels_of_all_windows_are_bounded_together() {
        let window = |instances: usize, labels: usize| {
            let labels = vec!["\"a\":\"\""; labels].join(",");
            let instances = vec![format!("\"b\":{{{labels}}}"); instances].join(",");
            format!("{{\"collectors\":{{\"c\":{{\"times\":[0],\"labels\":{{{instances}}}}}}}}}")
        };
        let twice = |one: String| refused(&format!("{one},{one}"));
        assert!(twice(window(MAX_LABELLED / 2 + 1, 0)).contains("300000 instances with labels"));
        assert!(!twice(window(MAX_LABELLED / 2, 0)).contains("consists"));
        assert!(twice(window(10, MAX_LABELS / 20 + 1)).contains("2000000 labels"));
        assert!(!twice(window(10, MAX_LABELS / 20)).contains("consists"));
    }

    #[test]
    fn signs_within_texts_are_no_parts() {
        let parts = Parts::of(br#"{"a,[": [1, "x\"{,", {}], "b": 2}"#);
        assert_eq!(parts, Parts { values: 6, texts: 3, mappings: 2 });
        assert_eq!(Parts::of(b""), Parts::default());
    }
}
