//! What the roll-up takes of a host that was judged.

use std::collections::BTreeMap;

use rdiag_model::{Confidence, Kind, Resource, Status, Unit};
use serde::{Deserialize, Serialize};

/// A host that was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// What it calls itself. Two hosts may have the same name.
    pub name: String,
    /// The file that its recording came in, which distinguishes hosts of one name.
    pub file: String,
    /// Its own report, if one stands beside: a path relative to the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// The group whose hosts it is compared with.
    pub group: String,
    /// When it was recorded, RFC 3339, UTC.
    pub started: String,
    /// Seconds that were recorded.
    pub seconds: f64,
    /// By which playbook it was judged.
    pub playbook: String,
    /// The verdict on this host by itself.
    pub verdict: Status,
    /// The same as a sentence.
    pub headline: String,
    /// What each rule said, by instance. `unknown` counts as not judged.
    pub findings: Vec<Judgement>,
    /// What was measured.
    pub readings: Vec<Measure>,
    /// What is constant on it: kernel, number of CPUs.
    pub facts: BTreeMap<String, String>,
}

/// What one rule said of one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Rule id.
    pub rule: String,
    /// What the rule looks at.
    pub title: String,
    /// Row of the matrix.
    pub resource: Resource,
    /// Column of the matrix.
    pub kind: Kind,
    /// The instance, by a name that other hosts use as well: `vda`, `/var`; "" for the whole host.
    pub role: String,
    /// The verdict.
    pub status: Status,
    /// How far to trust it.
    pub confidence: Confidence,
    /// The sentence for people; only of what fired.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Who is behind it, by a name that other hosts use as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Metric id.
    pub metric: String,
    /// The instance, as [`Judgement::role`].
    pub role: String,
    /// Base unit.
    pub unit: Unit,
    /// The figure; what is no number is left out.
    pub value: f64,
    /// Whether it counts errors: then 0 is normal, and distances say nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}
