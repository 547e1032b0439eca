//! Some minutes of everything that was collected, in one immutable file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Damage;
use super::column;
use super::frame::{self, Kind};
use super::numbers::is_measured;
use super::table;
use super::text::Words;
use rdiag_model::Facts;
use rdiag_model::recording::{CollectorRecord, Tool};

/// Version of blocks and tails; raised when an old reader could misunderstand a new file.
pub const FORMAT_VERSION: u32 = 1;

/// Where and when a block was recorded, and what that cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// What wrote it.
    pub tool: Tool,
    /// The host.
    pub host: Facts,
    /// The kernel's id of this boot: times of the monotonic clock mean something within one alone.
    pub boot: String,
    /// Microseconds since 1970 at the block's time 0.
    pub wall_micros: i64,
    /// CLOCK_MONOTONIC at the block's time 0, in seconds.
    pub monotonic: f64,
    /// CLOCK_BOOTTIME at the block's time 0, in seconds.
    pub boottime: f64,
    /// Seconds from time 0 to the last sample.
    pub seconds: f64,
    /// Nominal distance of two samples in seconds.
    pub interval_seconds: f64,
    /// The distance when it was recorded, if samples were left out since (`tier.rs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_every: Option<f64>,
    /// Collectors that are asked less often than others to keep within the budget: every so many samples.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stretched: BTreeMap<String, u32>,
    /// Settings of the kernel and of mounts, by name: what tells a host that was changed from one that was not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// What recording the block cost.
    #[serde(default)]
    pub cost: Cost,
}

/// What recording cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU seconds of the recorder.
    pub cpu_seconds: f64,
    /// Its largest resident memory so far, in bytes.
    pub resident_bytes: u64,
    /// Wall-clock seconds within each collector.
    pub collectors: BTreeMap<String, f64>,
}

/// A block.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Where and when.
    pub header: Header,
    /// By collector id.
    pub collectors: BTreeMap<String, CollectorRecord>,
    /// Processes that lived to the end of the block and did nothing in it: id and start in ticks.
    pub idle: Vec<(u32, u64)>,
}

impl Block {
    /// The collector whose record holds the table of processes.
    pub const PROCESSES: &'static str = "processes";
}

/// A file that was read: what is whole of it, and what is not.
pub type Readable = Result<(Block, Vec<Damage>), Damage>;

/// The bytes of a block.
#[must_use]
pub fn write_block(block: &Block) -> Vec<u8> {
    let mut out = Vec::new();
    let header = serde_json::to_vec(&block.header).unwrap_or_default();
    frame::write(&mut out, Kind::Header, "", &header);
    for (id, record) in &block.collectors {
        frame::write(&mut out, Kind::Series, id, &column::write(&record.times, &record.series));
        if Words::of(record) != Words::default() {
            frame::write(&mut out, Kind::Text, id, &Words::of(record).to_json());
        }
        let idle: &[(u32, u64)] = if id == Block::PROCESSES { &block.idle } else { &[] };
        if !record.processes.is_empty() || !idle.is_empty() {
            frame::write(&mut out, Kind::Processes, id, &table::write(&record.processes, idle));
        }
    }
    // Without it nothing else would mean anything.
    frame::write(&mut out, Kind::Header, "", &header);
    out
}

/// A file with a right header and one piece more: what it holds may be anything. Fuzzing begins with it.
#[must_use]
pub fn framed(kind: u8, content: &[u8]) -> Vec<u8> {
    let header = Header {
        format_version: FORMAT_VERSION,
        tool: Tool { name: String::new(), version: String::new() },
        host: Facts::default(),
        boot: String::new(),
        wall_micros: 0,
        monotonic: 0.0,
        boottime: 0.0,
        seconds: 0.0,
        interval_seconds: 5.0,
        recorded_every: None,
        stretched: BTreeMap::new(),
        settings: BTreeMap::new(),
        cost: Cost::default(),
    };
    let header = serde_json::to_vec(&header).unwrap_or_default();
    let mut out = Vec::new();
    frame::write(&mut out, Kind::Header, "", &header);
    frame::write(&mut out, Kind::of(kind), Block::PROCESSES, content);
    frame::write(&mut out, Kind::Header, "", &header);
    out
}

/// Reads a block: what is damaged is left out and named.
///
/// # Errors
/// When it is no block, or one of another version.
pub fn read_block(bytes: &[u8]) -> Readable {
    let mut damage = Vec::new();
    let frames = frame::read(bytes, &mut damage);
    let header = frames.iter().find(|frame| frame.kind == Kind::Header).map(|frame| header(&frame.content));
    let header = header.ok_or("it has no header that can be read, so it is no block of the recorder")??;
    // The header stands at the end as well. Cut off between two parts, all that is there would be whole.
    let ends = frames.iter().skip(1).next_back().is_some_and(|frame| frame.kind == Kind::Header);
    if damage.is_empty() && !ends {
        damage.push("it is cut off: its end is missing".to_owned());
    }
    let mut block = Block { header, collectors: BTreeMap::new(), idle: Vec::new() };
    for frame in frames {
        let record = || CollectorRecord::default();
        let entered = match frame.kind {
            Kind::Header => Some(()),
            Kind::Series => column::read(&frame.content).map(|(times, series)| {
                let record = block.collectors.entry(frame.name.clone()).or_insert_with(record);
                (record.times, record.series) = (times, series);
            }),
            Kind::Text => Words::read(&frame.content)
                .map(|words| words.enter(block.collectors.entry(frame.name.clone()).or_insert_with(record))),
            Kind::Processes => table::read(&frame.content).map(|(processes, idle)| {
                block.collectors.entry(frame.name.clone()).or_insert_with(record).processes = processes;
                block.idle = idle;
            }),
            Kind::Sample => None,
        };
        if entered.is_none() {
            damage.push(format!("what it holds of {} is no column of the recorder", frame.name));
        }
    }
    Ok((block, damage))
}

/// Where and when a block or tail was recorded; its first kilobytes are enough.
///
/// # Errors
/// When it does not begin with a header, or is one of another version.
pub fn header_of(bytes: &[u8]) -> Result<Header, Damage> {
    let found = frame::first(bytes).filter(|frame| frame.kind == Kind::Header);
    header(&found.ok_or("it does not begin with a header that can be read")?.content)
}

/// Reads a header.
pub(super) fn header(content: &[u8]) -> Result<Header, Damage> {
    #[derive(Deserialize)]
    struct Version {
        format_version: u64,
    }
    let wrong = |error: serde_json::Error| format!("its header is none of the recorder's: {error}");
    let version: Version = serde_json::from_slice(content).map_err(wrong)?;
    if version.format_version != u64::from(FORMAT_VERSION) {
        let found = version.format_version;
        return Err(format!("it has format version {found}, and this rdiag reads {FORMAT_VERSION}; use a newer rdiag"));
    }
    let header: Header = serde_json::from_slice(content).map_err(wrong)?;
    let is_sane =
        [header.monotonic, header.boottime, header.seconds, header.interval_seconds, header.recorded_interval()]
            .iter()
            .all(|number| (0.0..1e10).contains(number) && is_measured(*number))
            && is_measured(header.host.uptime_seconds)
            && header.wall_micros.unsigned_abs() < 1 << 58;
    if is_sane { Ok(header) } else { Err("its header has times that no clock shows".to_owned()) }
}
