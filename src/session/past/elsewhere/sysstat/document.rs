//! What sadf prints of a file of sysstat: a host, and what was measured in each interval. It is the same as JSON and as XML (`xml.rs`).

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::intervals::Interval;
use rdiag_kernel::host::Zone;

#[derive(Debug, Deserialize)]
struct Document {
    sysstat: Hosts,
}

#[derive(Debug, Deserialize)]
struct Hosts {
    hosts: Vec<HostPart>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct HostPart {
    pub(super) nodename: String,
    #[serde(default)]
    pub(super) release: String,
    #[serde(default)]
    pub(super) machine: String,
    #[serde(rename = "number-of-cpus")]
    pub(super) cpus: u32,
    #[serde(default)]
    pub(super) statistics: Vec<Sample>,
}

/// One interval, with those of its figures that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Sample {
    pub(super) timestamp: Option<Stamp>,
    pub(super) cpu_load: Vec<Map<String, Value>>,
    /// What older versions call it with `-u ALL`, which is part of `-A`.
    pub(super) cpu_load_all: Vec<Map<String, Value>>,
    pub(super) process_and_context_switch: Map<String, Value>,
    pub(super) swap_pages: Map<String, Value>,
    pub(super) paging: Map<String, Value>,
    pub(super) memory: Map<String, Value>,
    pub(super) queue: Map<String, Value>,
    pub(super) disk: Vec<Map<String, Value>>,
    pub(super) network: Map<String, Value>,
    pub(super) psi: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Stamp {
    pub(super) date: String,
    pub(super) time: String,
    /// 1 if the time is UTC.
    #[serde(default)]
    pub(super) utc: u8,
    /// Its zone, which newer versions (12.7.5) print instead.
    #[serde(default)]
    pub(super) tz: String,
    pub(super) interval: f64,
}

impl HostPart {
    /// The host of what `sadf -j` printed.
    pub(super) fn of_json(text: &[u8]) -> Result<Self, String> {
        let foreign = |error| format!("it is nothing that `sadf -j FILE -- -A` prints: {error}");
        let document: Document = serde_json::from_slice(text).map_err(foreign)?;
        document.sysstat.hosts.into_iter().next().ok_or_else(|| "it names no host".to_owned())
    }
}

impl Sample {
    /// A line for all CPUs, and one for each.
    pub(super) fn cpus(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.cpu_load.iter().chain(&self.cpu_load_all)
    }

    /// When it was.
    pub(super) fn interval(&self, zone: &Zone) -> Option<Interval<&Self>> {
        let stamp = self.timestamp.as_ref()?;
        Interval::new(stamp.instant(zone)?, stamp.interval, self)
    }
}

impl Stamp {
    pub(super) fn is_utc(&self) -> bool {
        self.utc == 1 || self.tz == "UTC"
    }

    /// In microseconds since 1970. What is not UTC is the time of the host that printed it; here, that of the reader.
    pub(super) fn instant(&self, zone: &Zone) -> Option<i64> {
        let zone = if self.is_utc() { &Zone::utc() } else { zone };
        let end = zone.end_of(&format!("{}T{}", self.date, self.time), Zone::LATEST).ok()?;
        // What was typed lasts a second.
        Some(end - 1_000_000)
    }
}
