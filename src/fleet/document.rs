//! The roll-up of a fleet: the document that every renderer draws and none computes.

use std::collections::BTreeMap;

use rdiag_model::{Kind, Resource, Status, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the format.
pub const FORMAT_VERSION: u32 = 1;

/// What many hosts have in common, and which of them is unlike the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// One sentence: the common fault, the odd host, what was not judged.
    pub headline: String,
    /// The worst status of a reported fault; `unknown` if no host was judged.
    pub status: Status,
    /// Hosts that were judged.
    pub judged: usize,
    /// Hosts that were not: never to be read as fine.
    pub not_judged: Vec<NotJudged>,
    /// What makes the hosts hard to compare.
    pub notes: Vec<String>,
    /// The groups within which hosts are compared.
    pub groups: Vec<Group>,
    /// Rules that fire on at least half of a group's judged hosts, and on three: one fault with many hosts. The worst first.
    pub common: Vec<Fault>,
    /// Hosts that are unlike the others of their group, the worst first.
    pub odd: Vec<OddHost>,
    /// Rules that fire on too many hosts to be odd and too few to be common, or in a group of fewer than five.
    pub some: Vec<Fault>,
    /// Names that are behind findings on several hosts, the most frequent first.
    pub culprits: Vec<CommonCulprit>,
    /// Hosts on which the same rules fire, the worst and largest first.
    pub clusters: Vec<Clustered>,
    /// How much was compared: the more, the more is unusual by chance.
    pub compared: Compared,
    /// All judged hosts, the worst first.
    pub hosts: Vec<HostRow>,
}

/// A host that was not judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct NotJudged {
    /// Its name, or the file where nothing tells the name.
    pub host: String,
    /// The kind of gap.
    pub why: Why,
    /// The gap in a sentence.
    pub detail: String,
}

/// Why a host was not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was expected, and there is no recording.
    Unreachable,
    /// There is a file, and it is no recording that can be used.
    Unreadable,
    /// There is a recording, and what matters could not be measured.
    Unknown,
}

impl Why {
    /// The word used in JSON and on screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unreadable => "unreadable",
            Self::Unknown => "unknown",
        }
    }
}

/// Hosts that are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Its name; "" where no groups were named.
    pub name: String,
    /// Its judged hosts.
    pub hosts: usize,
}

/// A rule that fires on several hosts of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Group; "" where no groups were named.
    pub group: String,
    /// Rule id.
    pub rule: String,
    /// What it looks at.
    pub title: String,
    /// Row of the matrix.
    pub resource: Resource,
    /// Column of the matrix.
    pub kind: Kind,
    /// The worst on any host.
    pub status: Status,
    /// On how many hosts of how many.
    pub reach: Reach,
    /// Whether no host's finding is more than a guess.
    pub is_likely: bool,
    /// On how many hosts for each instance, the most frequent first.
    pub roles: Vec<(String, usize)>,
    /// Who is behind it on most hosts, and on how many.
    pub culprit: Option<(String, usize)>,
    /// Hosts, the worst first; at most 20.
    pub hosts: Vec<String>,
    /// What was seen on the first of them.
    pub summary: String,
}

/// A count of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reach {
    /// Hosts on which it fires.
    pub hosts: usize,
    /// Hosts on which it was judged.
    pub judged: usize,
    /// Hosts on which it could not be judged; they are not in `judged`.
    pub unknown: usize,
    /// Bounds of the share of hosts (95 %, Wilson), as if these were a sample of many.
    pub share: (f64, f64),
}

/// A host that is unlike the others of its group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OddHost {
    /// Its name.
    pub host: String,
    /// Group; "" where no groups were named.
    pub group: String,
    /// The worst of `findings`; `ok` if only its figures are unusual.
    pub status: Status,
    /// Rules that fire on it and on at most a tenth of the others.
    pub findings: Vec<OddFinding>,
    /// Counts of errors that are 0 on nearly all others.
    pub errors: Vec<ErrorCount>,
    /// Readings far from those of the others, the farthest first.
    pub readings: Vec<Outlier>,
    /// Readings as far that were left out for their number.
    pub readings_others: usize,
    /// What is constant on it and different on nearly all others.
    pub contrast: Vec<Contrast>,
}

/// A rule that fires on few hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OddFinding {
    /// Rule id.
    pub rule: String,
    /// What it looks at.
    pub title: String,
    /// Row of the matrix.
    pub resource: Resource,
    /// Column of the matrix.
    pub kind: Kind,
    /// The instance; "" for the whole host.
    pub role: String,
    /// The verdict.
    pub status: Status,
    /// What was seen.
    pub summary: String,
    /// Who is behind it.
    pub culprit: Option<String>,
    /// On how many hosts of how many.
    pub reach: Reach,
}

/// A count of errors where nearly all others have none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// Metric id.
    pub metric: String,
    /// The instance; "" for the whole host.
    pub role: String,
    /// Base unit.
    pub unit: Unit,
    /// The count.
    pub value: f64,
}

/// A reading far from those of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    /// Metric id.
    pub metric: String,
    /// The instance; "" for the whole host.
    pub role: String,
    /// Base unit.
    pub unit: Unit,
    /// The value.
    pub value: f64,
    /// The median of the group.
    pub median: f64,
    /// The distance in robust standard deviations.
    pub z: f64,
    /// Further readings of the same thing that are as far, of which this is the farthest.
    #[serde(default)]
    pub also: usize,
}

/// A fact that distinguishes hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// What: `kernel`.
    pub fact: String,
    /// Here.
    pub value: String,
    /// On most others.
    pub others: String,
    /// How many others have the value of here.
    pub shared: usize,
}

/// A name that is behind findings on several hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommonCulprit {
    /// The name.
    pub name: String,
    /// On how many hosts.
    pub hosts: usize,
    /// Behind which rules, and on how many hosts each.
    pub rules: BTreeMap<String, usize>,
}

/// Hosts on which the same rules fire, or nearly the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clustered {
    /// Group; "" where no groups were named.
    pub group: String,
    /// The worst status.
    pub status: Status,
    /// How many hosts.
    pub size: usize,
    /// Rules, with their instance, of most of these hosts.
    pub rules: Vec<String>,
    /// Hosts; at most 20.
    pub hosts: Vec<String>,
    /// What is constant on all of them and different on nearly all others.
    pub contrast: Vec<Contrast>,
}

/// How much was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Verdicts of rules.
    pub verdicts: usize,
    /// Readings with the median of their group.
    pub readings: usize,
    /// Metrics in which a group falls into two parts, so that no host of it is called odd.
    pub split: usize,
}

/// A judged host, for lists and the heat map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostRow {
    /// Its name.
    pub host: String,
    /// The file that its recording came in.
    pub file: String,
    /// Its own report, relative to the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// Group; "" where no groups were named.
    pub group: String,
    /// The verdict on it by itself.
    pub verdict: Status,
    /// The same as a sentence.
    pub headline: String,
    /// The worst status for each resource that a rule looked at.
    pub resources: BTreeMap<Resource, Status>,
    /// Whether it is among `odd`.
    pub is_odd: bool,
    /// Readings more than 3.5 robust standard deviations from the median: a rank, no verdict.
    pub unusual: usize,
}
