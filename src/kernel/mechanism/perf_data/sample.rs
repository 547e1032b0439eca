//! Records as the kernel writes them.

use super::attributes::{ADDR, CALLCHAIN, CPU, Event, ID, IDENTIFIER, IP, PERIOD, READ, STREAM_ID, TID, TIME};
use super::bytes::Bytes;

/// Where a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Kernel,
    User,
    /// A guest, or a hypervisor: nothing here knows its addresses.
    Other,
}

impl Mode {
    pub(super) fn of(misc: u16) -> Self {
        match misc & 7 {
            1 => Self::Kernel,
            2 => Self::User,
            _ => Self::Other,
        }
    }

    /// What a mark in a call chain announces.
    pub(super) fn of_mark(mark: u64) -> Option<Self> {
        match mark.wrapping_neg() {
            128 => Some(Self::Kernel),
            512 => Some(Self::User),
            1..=4095 => Some(Self::Other),
            _ => None,
        }
    }
}

/// A sample. The chain is empty where none was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'r> {
    pub(super) ip: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time: u64,
    pub(super) period: Option<u64>,
    pub(super) chain: Bytes<'r>,
}

pub(super) fn sample<'r>(event: &Event, body: &'r [u8]) -> Option<Sample<'r>> {
    let has = |bit| event.sample_type & bit != 0;
    let mut bytes = Bytes(body);
    let mut sample = Sample { ip: 0, pid: 0, tid: 0, time: 0, period: None, chain: Bytes(&[]) };
    if has(IDENTIFIER) {
        bytes.u64()?;
    }
    if has(IP) {
        sample.ip = bytes.u64()?;
    }
    if has(TID) {
        (sample.pid, sample.tid) = (bytes.u32()?, bytes.u32()?);
    }
    if has(TIME) {
        sample.time = bytes.u64()?;
    }
    for bit in [ADDR, ID, STREAM_ID, CPU] {
        if has(bit) {
            bytes.u64()?;
        }
    }
    if has(PERIOD) {
        sample.period = Some(bytes.u64()?);
    }
    if has(READ) {
        skip_counts(event.read_format, &mut bytes)?;
    }
    if has(CALLCHAIN) {
        let many = usize::try_from(bytes.u64()?).ok()?;
        sample.chain = Bytes(bytes.take(many.checked_mul(8)?)?);
    }
    Some(sample)
}

/// Counts that a sample carries along, by `read_format`.
fn skip_counts(format: u64, bytes: &mut Bytes<'_>) -> Option<()> {
    let has = |bit: u64| usize::from(format & bit != 0);
    let (times, each) = (has(1) + has(2), 1 + has(4) + has(16));
    let words = if format & 8 == 0 {
        times + each
    } else {
        usize::try_from(bytes.u64()?).ok()?.checked_mul(each)?.checked_add(times)?
    };
    bytes.take(words.checked_mul(8)?).map(drop)
}

/// The id of the event that a sample belongs to, where it stands in the same place in all samples.
pub(super) fn event_id(event: &Event, body: &[u8]) -> Option<u64> {
    let has = |bit: u64| usize::from(event.sample_type & bit != 0);
    if has(IDENTIFIER) == 1 {
        return Bytes(body).u64();
    }
    let before = has(IP) + has(TID) + has(TIME) + has(ADDR);
    let mut bytes = Bytes(body);
    bytes.take(before * 8)?;
    (has(ID) == 1).then(|| bytes.u64()).flatten()
}

/// When a sample was taken; 0 if it does not say.
pub(super) fn sample_time(event: &Event, body: &[u8]) -> u64 {
    let has = |bit: u64| usize::from(event.sample_type & bit != 0);
    let before = has(IDENTIFIER) + has(IP) + has(TID);
    let mut bytes = Bytes(body);
    (has(TIME) == 1).then(|| bytes.take(before * 8).and_then(|_| bytes.u64())).flatten().unwrap_or(0)
}

/// When any other record was written: it stands in its trailer. 0 if it does not say.
pub(super) fn other_time(event: &Event, body: &[u8]) -> u64 {
    let has = |bit: u64| usize::from(event.sample_type & bit != 0);
    if !event.sample_id_all || has(TIME) == 0 {
        return 0;
    }
    let behind = has(ID) + has(STREAM_ID) + has(CPU) + has(IDENTIFIER) + 1;
    let trailer = body.len().checked_sub(behind * 8).and_then(|at| body.get(at..));
    trailer.and_then(|trailer| Bytes(trailer).u64()).unwrap_or(0)
}
