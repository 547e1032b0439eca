//! What sysstat recorded, as `sadf -j FILE -- -A` prints it: means over its interval, ten minutes on most hosts.
//!
//! A mean becomes the counter that would have given it, so that metrics and rules are those of any recording. Each interval is cut into
//! equal parts, since a rule that asks for three in a row can only be judged on the mean. That is said, and what follows from it is of low
//! confidence ([`temper`]).

mod building;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use self::building::Building;
use super::{Past, Span, interval, params};
use crate::playbook::Plan;
use crate::session::Analysis;
use rdiag_collectors as collectors;
use rdiag_kernel::host::Zone;
use rdiag_model::recording::{CollectorRecord, FORMAT_VERSION, Overhead, Tool};
use rdiag_model::{Confidence, Facts, Reason, Recording, Setup, Target, Unavailable, Window};

/// Parts of an interval.
const PARTS: usize = 4;
/// Samples of a day, a second apart, are more than sysstat keeps.
const MAX_SAMPLES: usize = 20_000;

#[derive(Debug, Deserialize)]
struct Document {
    sysstat: Hosts,
}

#[derive(Debug, Deserialize)]
struct Hosts {
    hosts: Vec<HostPart>,
}

#[derive(Debug, Deserialize)]
struct HostPart {
    nodename: String,
    #[serde(default)]
    release: String,
    #[serde(default)]
    machine: String,
    #[serde(rename = "number-of-cpus")]
    cpus: u32,
    #[serde(default)]
    statistics: Vec<Sample>,
}

/// One interval, with those of its figures that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Sample {
    timestamp: Option<Stamp>,
    cpu_load: Vec<Map<String, Value>>,
    process_and_context_switch: Map<String, Value>,
    swap_pages: Map<String, Value>,
    paging: Map<String, Value>,
    memory: Map<String, Value>,
    queue: Map<String, Value>,
    disk: Vec<Map<String, Value>>,
    network: Map<String, Value>,
    psi: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Stamp {
    date: String,
    time: String,
    /// 1 if the time is UTC.
    #[serde(default)]
    utc: u8,
    interval: f64,
}

/// An interval: when it ended, in microseconds since 1970, how long it was, and its figures.
struct Interval<'s> {
    end: i64,
    seconds: f64,
    sample: &'s Sample,
}

/// The recording of a time, from what `sadf -j` printed.
///
/// # Errors
/// When it is something else, or tells nothing of that time, in words.
pub fn sysstat(text: &[u8], span: Span, plan: &Plan, zone: &Zone) -> Result<Past, String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| foreign(text, &error))?;
    let host = document.sysstat.hosts.first().ok_or("it names no host")?;
    let mut intervals = Vec::new();
    for sample in host.statistics.iter().take(MAX_SAMPLES) {
        let Some(stamp) = sample.timestamp.as_ref().filter(|stamp| stamp.interval > 0.0) else { continue };
        let Some(end) = stamp.instant(zone) else { continue };
        let begin = end.saturating_sub((stamp.interval * 1e6) as i64);
        // An interval of which little is meant would tell more of the time around it.
        let within = end.min(span.to).saturating_sub(begin.max(span.from)) as f64;
        let shorter = (end.saturating_sub(begin)).min(span.to.saturating_sub(span.from)) as f64;
        if within > 0.0 && within * 2.0 >= shorter {
            intervals.push(Interval { end, seconds: stamp.interval, sample });
        }
    }
    intervals.sort_by_key(|interval| interval.end);
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else {
        return Err(format!("sysstat has nothing between {} and {}", zone.shown(span.from), zone.shown(span.to)));
    };
    let begin = first.end.saturating_sub((first.seconds * 1e6) as i64);
    let seconds = (last.end.saturating_sub(begin)) as f64 * 1e-6;
    let typical = intervals.iter().map(|part| part.seconds).fold(0.0, f64::max);
    let notes = vec![
        format!("Source: sysstat, means over {}: a burst of a minute may hide in them", interval(typical)),
        "sysstat records no processes, file systems and kernel log: who is behind it is not known".to_owned(),
    ];
    let window = Window {
        steps: plan.windows.iter().take(1).flatten().map(|planned| planned.step.id.clone()).collect(),
        begins: 0.0,
        seconds,
        interval_seconds: typical / PARTS as f64,
        suspended_seconds: 0.0,
        collectors: records(&intervals, begin, host.cpus, plan),
        probes: BTreeMap::new(),
        ledgers: BTreeMap::new(),
    };
    let memory = intervals.iter().rev().find_map(|interval| total_memory(&interval.sample.memory));
    let facts = Facts {
        hostname: host.nodename.clone(),
        kernel: host.release.clone(),
        arch: host.machine.clone(),
        cpus: host.cpus.max(1),
        cpus_present: host.cpus.max(1),
        memory_bytes: memory.map_or(0, |kibibytes| (kibibytes * 1024.0) as u64),
        ..Facts::default()
    };
    let recording = Recording {
        format_version: FORMAT_VERSION,
        tool: Tool { name: env!("CARGO_PKG_NAME").into(), version: env!("CARGO_PKG_VERSION").into() },
        playbook: plan.playbook.name.clone(),
        params: params(plan, &window),
        target: Target::default(),
        host: facts,
        // How the host was set up is not kept with its history.
        setup: Setup::default(),
        started: zone.instant(begin),
        exercise: None,
        windows: vec![window],
        interrupted: false,
        overhead: Overhead::default(),
    };
    Ok(Past { recording, began: begin, notes })
}

/// What is to be said of findings that rest on means over minutes.
pub fn temper(analysis: &mut Analysis) {
    for finding in &mut analysis.findings {
        finding.confidence = Confidence::Low;
        finding
            .confidence_reasons
            .push("it is judged on a mean of sysstat over minutes, in which a burst may hide".to_owned());
    }
}

fn foreign(text: &[u8], error: &serde_json::Error) -> String {
    // The magic number of sysstat's own files, in either order of bytes.
    if text.starts_with(&[0x96, 0xd5]) || text.starts_with(&[0xd5, 0x96]) {
        let version: Vec<String> = text.get(4..8).unwrap_or_default().iter().map(u8::to_string).collect();
        return format!(
            "it is a file of sysstat {}, which sysstat's own sadf reads: sadf -j FILE -- -A > FILE.json",
            version.join(".").trim_end_matches(".0")
        );
    }
    format!("it is nothing that `sadf -j FILE -- -A` prints: {error}")
}

impl Stamp {
    /// In microseconds since 1970. What is not UTC is the time of the host that printed it; here, that of the reader.
    fn instant(&self, zone: &Zone) -> Option<i64> {
        let zone = if self.utc == 1 { &Zone::utc() } else { zone };
        let end = zone.end_of(&format!("{}T{}", self.date, self.time), Zone::LATEST).ok()?;
        // What was typed lasts a second.
        Some(end - 1_000_000)
    }
}

fn figure(map: &Map<String, Value>, key: &str) -> Option<f64> {
    map.get(key)?.as_f64().filter(|value| value.is_finite() && *value >= 0.0)
}

/// MemTotal in kB: sysstat gives it as a share only.
fn total_memory(memory: &Map<String, Value>) -> Option<f64> {
    let of = |key| figure(memory, key);
    let (used, percent) = (of("memused")?, of("memused-percent")?);
    let by_share = if percent > 0.0 { used * 100.0 / percent } else { return None };
    // Versions differ in what is part of what is used: the sum that comes nearest.
    let with = of("memfree")? + used;
    let without = with + of("buffers").unwrap_or(0.0) + of("cached").unwrap_or(0.0) + of("slab").unwrap_or(0.0);
    [with, without].into_iter().min_by(|a, b| (a - by_share).abs().total_cmp(&(b - by_share).abs()))
}

/// The records of all collectors that the plan begins with.
fn records(intervals: &[Interval<'_>], begin: i64, cpus: u32, plan: &Plan) -> BTreeMap<String, CollectorRecord> {
    let mut building = Building::default();
    for interval in intervals {
        // Where nothing was recorded, counters stand still and time goes on.
        let start = (interval.end.saturating_sub(begin)) as f64 * 1e-6 - interval.seconds;
        building.sample(interval, start, cpus);
    }
    let mut records = building.finish();
    let wanted = plan.windows.iter().take(1).flatten().flat_map(|planned| &planned.step.collect);
    for id in wanted.map(crate::playbook::Measure::id) {
        if collectors::find(id).is_none() {
            continue;
        }
        let gap = || {
            let why = "sysstat does not record it";
            Unavailable::new(Reason::Absent, why).with_remedy("run `rdiag watch`, which does from now on")
        };
        let record = records
            .entry(id.to_owned())
            .or_insert_with(|| CollectorRecord { unavailable: Some(gap()), ..CollectorRecord::default() });
        record.gaps.insert(format!("{id}."), gap());
    }
    records
}
