//! What was sampled, and what each sample holds: `struct perf_event_attr` and the descriptions of events.

use super::bytes::Bytes;

pub(super) const IP: u64 = 1;
pub(super) const TID: u64 = 1 << 1;
pub(super) const TIME: u64 = 1 << 2;
pub(super) const ADDR: u64 = 1 << 3;
pub(super) const READ: u64 = 1 << 4;
pub(super) const CALLCHAIN: u64 = 1 << 5;
pub(super) const ID: u64 = 1 << 6;
pub(super) const CPU: u64 = 1 << 7;
pub(super) const PERIOD: u64 = 1 << 8;
pub(super) const STREAM_ID: u64 = 1 << 9;
pub(super) const IDENTIFIER: u64 = 1 << 16;

/// Bits of `flags`.
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Events that are taken from one file, and their ids.
pub(super) const MAX_EVENTS: usize = 1024;
/// Ids of all events together: one for each event, CPU and thread.
pub(super) const MAX_IDS: usize = 1 << 20;
/// Longest name of an event, path of a file and name of a task that is kept, in characters; the kernel's own are not longer.
pub(super) const MAX_NAME: usize = 200;
pub(super) const MAX_PATH: usize = 4096;
pub(super) const MAX_COMM: usize = 64;

/// Text within these bounds.
pub(super) fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// An event that was sampled.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Event {
    pub(super) kind: u32,
    pub(super) config: u64,
    /// Events for each sample, where that is fixed.
    pub(super) period: Option<u64>,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    /// Whether records that are no samples end with the time.
    pub(super) sample_id_all: bool,
    pub(super) ids: Vec<u64>,
    pub(super) name: Option<String>,
}

impl Event {
    /// From `struct perf_event_attr`.
    pub(super) fn parse(attr: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(attr);
        let kind = bytes.u32()?;
        let _size = bytes.u32()?;
        let config = bytes.u64()?;
        let period = bytes.u64()?;
        let sample_type = bytes.u64()?;
        let read_format = bytes.u64()?;
        let flags = bytes.u64()?;
        Some(Self {
            kind,
            config,
            period: (flags & FREQUENCY == 0).then_some(period),
            sample_type,
            read_format,
            sample_id_all: flags & SAMPLE_ID_ALL != 0,
            ..Self::default()
        })
    }

    /// Whether its periods are nanoseconds of a CPU: cpu-clock and task-clock.
    pub(super) fn is_clock(&self) -> bool {
        self.kind == 1 && self.config < 2
    }

    /// Whether a sample means that something ran: clocks, cycles and instructions.
    pub(super) fn is_running(&self) -> bool {
        self.is_clock() || (self.kind == 0 && matches!(self.config, 0 | 1 | 9))
    }

    /// Its name, as it was asked for, or as the kernel counts.
    pub(super) fn title(&self) -> String {
        let known = match (self.kind, self.config) {
            (1, 0) => "cpu-clock",
            (1, 1) => "task-clock",
            (1, 2) => "page-faults",
            (1, 3) => "context-switches",
            (0, 0) => "cycles",
            (0, 1) => "instructions",
            _ => "",
        };
        match &self.name {
            Some(name) => name.clone(),
            None if known.is_empty() => format!("event {}:{:#x}", self.kind, self.config),
            None => known.to_owned(),
        }
    }
}

/// The names and ids in a description of all events (HEADER_EVENT_DESC).
pub(super) fn describe(events: &mut [Event], section: &[u8]) -> Option<()> {
    let mut bytes = Bytes(section);
    let many = bytes.u32()? as usize;
    let attr_size = bytes.u32()? as usize;
    let mut known: usize = events.iter().map(|event| event.ids.len()).sum();
    for at in 0..many.min(MAX_EVENTS) {
        let _attr = bytes.take(attr_size)?;
        let ids = bytes.u32()? as usize;
        let length = bytes.u32()? as usize;
        let name = short(&Bytes(bytes.take(length)?).text(), MAX_NAME);
        let ids: Vec<u64> = Bytes(bytes.take(ids.checked_mul(8)?)?).words().take(MAX_IDS).collect();
        // In a stream their order is not promised; their ids tell.
        let same = |event: &Event| !ids.is_empty() && event.ids.first() == ids.first();
        let place = events.iter().position(same).unwrap_or(at);
        if let Some(event) = events.get_mut(place) {
            event.name = Some(name).filter(|name| !name.is_empty());
            if event.ids.is_empty() && known + ids.len() <= MAX_IDS {
                known += ids.len();
                event.ids = ids;
            }
        }
    }
    Some(())
}

/// Build ids by path (HEADER_BUILD_ID, or the body of one such record).
pub(super) fn build_id(record: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut bytes = Bytes(record);
    let _pid = bytes.u32()?;
    let id = bytes.take(24)?;
    // Its size stands behind it since Linux 5.12; before, it was twenty.
    let size = id.get(20).copied().filter(|size| (1..=20).contains(size)).unwrap_or(20);
    Some((short(&bytes.text(), MAX_PATH), id.get(..usize::from(size))?.to_vec()))
}
