//! What a collector said in words: labels, gaps, log lines; JSON, since it is little and changes with the model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::numbers::is_measured;
use rdiag_model::Unavailable;
use rdiag_model::recording::{CollectorRecord, LogLine};

/// The words of one collector.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Words {
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) jittered: u32,
    #[serde(skip_serializing_if = "is_zero")]
    missed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<Unavailable>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    gaps: BTreeMap<String, Unavailable>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log: Vec<LogLine>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// JSON larger than this is no list of names.
const MAX_JSON: usize = 8 << 20;

impl Words {
    pub(super) fn of(record: &CollectorRecord) -> Self {
        Self {
            jittered: record.jittered,
            missed: record.missed,
            unavailable: record.unavailable.clone(),
            gaps: record.gaps.clone(),
            labels: record.labels.clone(),
            log: record.log.clone(),
        }
    }

    /// Whether nothing is new. How often readings came late is told when the block ends.
    pub(super) fn are_those_of(&self, record: &CollectorRecord) -> bool {
        self.unavailable == record.unavailable
            && self.gaps == record.gaps
            && self.labels == record.labels
            && self.log == record.log
    }

    pub(super) fn enter(self, record: &mut CollectorRecord) {
        (record.jittered, record.missed, record.unavailable) = (self.jittered, self.missed, self.unavailable);
        (record.gaps, record.labels, record.log) = (self.gaps, self.labels, self.log);
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn read(content: &[u8]) -> Option<Self> {
        if content.len() > MAX_JSON {
            return None;
        }
        let words: Self = serde_json::from_slice(content).ok()?;
        words.log.iter().all(|line| is_measured(line.seconds_since_boot)).then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_of_a_time_that_no_clock_shows_are_none() {
        let read = |seconds: &str| {
            let line = r#"{"class": "oom", "in_window": true, "text": "Out of memory", "seconds_since_boot": "#;
            Words::read(format!(r#"{{"log": [{line}{seconds}}}]}}"#).as_bytes()).is_some()
        };
        assert!(["0", "0.000001", "3.5", "1e30"].into_iter().all(read));
        assert!(!["5e-324", "1e31", "-1e300"].into_iter().any(read));
    }
}
