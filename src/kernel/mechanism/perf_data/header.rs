//! The beginning of a file: what was sampled, where the records are, which files had which build id.

use std::io::{self, Read, Seek, SeekFrom};

use super::attributes::{self, Event, MAX_EVENTS, MAX_IDS};
use super::bytes::Bytes;
use super::{Known, PerfDataError};

const FILE_HEADER: u64 = 104;
/// Larger descriptions are none.
const MAX_SECTION: u64 = 16 << 20;
/// Numbers of the descriptions that are read.
const BUILD_ID: u32 = 2;
const EVENT_DESC: u32 = 12;

/// A part of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Section {
    offset: u64,
    size: u64,
}

fn section(bytes: &mut Bytes<'_>) -> Option<Section> {
    Some(Section { offset: bytes.u64()?, size: bytes.u64()? })
}

/// How the records follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// As a stream, descriptions among them (`perf record -o -`).
    Stream,
    /// In one part of so many bytes; none if perf was killed before it wrote how many.
    File(Option<u64>),
}

/// Reads the beginning, and goes to the first record.
pub(super) fn read<R: Read + Seek>(input: &mut R, known: &mut Known) -> Result<Layout, PerfDataError> {
    let mut magic = [0; 8];
    read_or_foreign(input, &mut magic)?;
    match &magic {
        b"PERFILE2" => {}
        b"2ELIFREP" => return Err(PerfDataError::Foreign("it was made on a machine of the other byte order".into())),
        b"PERFFILE" => return Err(PerfDataError::Foreign("it is of the format before Linux 3.0".into())),
        _ => return Err(PerfDataError::Foreign("it does not begin as perf.data does".into())),
    }
    let mut size = [0; 8];
    read_or_foreign(input, &mut size)?;
    match u64::from_le_bytes(size) {
        16 => return Ok(Layout::Stream),
        FILE_HEADER => {}
        other => return Err(PerfDataError::Foreign(format!("its header has {other} bytes"))),
    }
    let mut header = [0; 88];
    read_or_foreign(input, &mut header)?;
    let mut bytes = Bytes(&header);
    let foreign = || PerfDataError::Foreign("its header is damaged".into());
    let attr_size = bytes.u64().ok_or_else(foreign)?;
    let attrs = section(&mut bytes).ok_or_else(foreign)?;
    let data = section(&mut bytes).ok_or_else(foreign)?;
    let _event_types = section(&mut bytes).ok_or_else(foreign)?;
    let features: Vec<u64> = bytes.words().collect();
    events(input, known, attr_size, attrs)?;
    if data.size > 0 && data.offset.checked_add(data.size).is_some() {
        // A file that was cut has none of them.
        let read = descriptions(input, known, data.offset + data.size, &features);
        known.has_end = matches!(read, Ok(true));
    }
    input.seek(SeekFrom::Start(data.offset))?;
    Ok(Layout::File(Some(data.size).filter(|size| *size > 0)))
}

fn read_or_foreign<R: Read>(input: &mut R, into: &mut [u8]) -> Result<(), PerfDataError> {
    input.read_exact(into).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => PerfDataError::Foreign("it ends within its header".into()),
        _ => PerfDataError::Io(error),
    })
}

/// What was sampled: `struct perf_event_attr`, and where the ids are.
fn events<R: Read + Seek>(input: &mut R, known: &mut Known, size: u64, attrs: Section) -> Result<(), PerfDataError> {
    let damaged = || PerfDataError::Foreign("its list of events is damaged".into());
    if !(64 + 16..=4096).contains(&size) || attrs.size / size > MAX_EVENTS as u64 {
        return Err(damaged());
    }
    let table = part(input, attrs)?.ok_or_else(damaged)?;
    let mut many = 0_u64;
    for entry in table.chunks_exact(size as usize) {
        let (attr, mut ids) =
            entry.split_at_checked(size as usize - 16).map(|(attr, ids)| (attr, Bytes(ids))).ok_or_else(damaged)?;
        let mut event = Event::parse(attr).ok_or_else(damaged)?;
        let ids = section(&mut ids).ok_or_else(damaged)?;
        many += if ids.size > MAX_SECTION { 0 } else { ids.size / 8 };
        if many > MAX_IDS as u64 {
            return Err(PerfDataError::TooLarge(format!("its events have more than {MAX_IDS} ids")));
        }
        event.ids = part(input, ids)?.map(|ids| Bytes(&ids).words().collect()).unwrap_or_default();
        known.events.push(event);
    }
    Ok(())
}

/// The descriptions behind the records, in order of their numbers. Whether all that are wanted were there.
fn descriptions<R: Read + Seek>(input: &mut R, known: &mut Known, at: u64, features: &[u64]) -> io::Result<bool> {
    let present = |number: &u32| features.get(*number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1);
    let numbers: Vec<u32> = (0..features.len() as u32 * 64).filter(present).collect();
    let table = Section { offset: at, size: numbers.len() as u64 * 16 };
    let Some(table) = part(input, table)? else { return Ok(false) };
    let mut table = Bytes(&table);
    let mut complete = true;
    for number in numbers {
        let Some(place) = section(&mut table) else { return Ok(false) };
        if number != BUILD_ID && number != EVENT_DESC {
            continue;
        }
        match part(input, place)? {
            Some(content) => description(known, number, &content),
            None => complete = false,
        }
    }
    Ok(complete)
}

/// Takes a description over, from the end of a file or out of a stream.
pub(super) fn description(known: &mut Known, number: u32, content: &[u8]) {
    match number {
        EVENT_DESC => drop(attributes::describe(&mut known.events, content)),
        BUILD_ID => {
            let mut bytes = Bytes(content);
            while let (Some(_kind), Some(_misc), Some(size)) = (bytes.u32(), bytes.u16(), bytes.u16())
                && let Some(record) = usize::from(size).checked_sub(8).and_then(|size| bytes.take(size))
            {
                known.build_ids.extend(attributes::build_id(record));
            }
        }
        _ => {}
    }
}

/// A part of the file; none if it is not there, or absurd.
fn part<R: Read + Seek>(input: &mut R, at: Section) -> io::Result<Option<Vec<u8>>> {
    if at.size > MAX_SECTION {
        return Ok(None);
    }
    input.seek(SeekFrom::Start(at.offset))?;
    let mut content = Vec::new();
    input.by_ref().take(at.size).read_to_end(&mut content)?;
    Ok((content.len() as u64 == at.size).then_some(content))
}
