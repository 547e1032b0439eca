//! Recordings on disk: JSON under gzip.

use std::borrow::Cow;
use std::io::{self, Read as _, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use thiserror::Error;

mod bounds;
mod numbers;
mod weight;

use super::armor::{ArmorError, bare};
use bounds::{Head, bounded};
use rdiag_model::recording::FORMAT_VERSION;
use rdiag_model::{Recording, Report};
use rdiag_report::deeds;

/// A recording is never larger unpacked, since it has ten bytes of text for each of its values; a gzip bomb is.
pub const LARGEST: u64 = 256 << 20;

/// A recording that cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It ends too early.
    #[error("it is cut off: the file is incomplete, so copy it again")]
    Truncated,
    /// It came as text, and not whole.
    #[error(transparent)]
    Armor(#[from] ArmorError),
    /// It is something else.
    #[error("it is no recording of rdiag: {0}")]
    Foreign(String),
    /// It comes from another format version.
    #[error("it has format version {found}, and this rdiag reads {FORMAT_VERSION}; use a newer rdiag")]
    Version {
        /// What it says.
        found: u64,
    },
    /// It would fill the memory.
    #[error("it is larger than {} MiB unpacked", LARGEST >> 20)]
    TooLarge,
    /// So would what it is made of.
    #[error("it consists of more than {0}: more than a recording has")]
    TooMany(String),
    /// So would all of it together.
    #[error("it would take more than {mib} MiB of memory: more than a recording of a very large host")]
    TooHeavy {
        /// That many.
        mib: usize,
    },
    /// The disk or the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes a recording.
pub fn write_recording(recording: &Recording, to: &mut dyn Write) -> io::Result<()> {
    // JSON comes in pieces of a few bytes, and each one that the encoder is handed costs it a sweep of its own buffer.
    let mut pieces = io::BufWriter::with_capacity(32 * 1024, GzEncoder::new(to, Compression::fast()));
    serde_json::to_writer(&mut pieces, recording)?;
    pieces.into_inner()?.finish()?;
    Ok(())
}

/// Reads a recording, packed or plain, also as the text that [`write_armored`](super::write_armored) makes of it.
pub fn read_recording(bytes: &[u8]) -> Result<Recording, StoreError> {
    let bytes = &*bare(bytes)?;
    let text = if bytes.starts_with(&[0x1f, 0x8b]) { Cow::Owned(unpacked(bytes)?) } else { Cow::Borrowed(bytes) };
    if text.len() as u64 > LARGEST {
        return Err(StoreError::TooLarge);
    }
    bounded(&text)?;
    let head = serde_json::from_slice(&text).or_else(|error| Head::of_other_version(&text).ok_or(error));
    let head: Head = head.map_err(|error| judge(&error))?;
    match (head.format_version, &head.windows) {
        (Some(found), Some(_)) if found != u64::from(FORMAT_VERSION) => return Err(StoreError::Version { found }),
        (Some(_), Some(_)) => head.bounded()?,
        _ => return Err(StoreError::Foreign("it has no format_version and windows".into())),
    }
    weight::bounded(&text)?;
    numbers::bounded(&text, numbers::OF_RECORDING)?;
    serde_json::from_slice(&text).map_err(|error| judge(&error))
}

/// What was packed, or so much of it that it is too large.
fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut text = Vec::new();
    match GzDecoder::new(bytes).take(LARGEST + 1).read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(StoreError::Truncated),
        Err(error) => Err(StoreError::Foreign(error.to_string())),
    }
}

/// Reads a report.json.
pub fn read_report(bytes: &[u8]) -> Result<Report, StoreError> {
    bounded(bytes)?;
    weight::bounded(bytes)?;
    numbers::bounded(bytes, numbers::OF_REPORT)?;
    let mut report: Report = serde_json::from_slice(bytes).map_err(|error| {
        let foreign = format!("it is no report.json ({error}); a recording is judged with `rdiag analyze`");
        if error.is_eof() { StoreError::Truncated } else { StoreError::Foreign(foreign) }
    })?;
    deeds::look_up(&mut report, &super::catalogue::metric);
    match report.format_version {
        rdiag_model::report::FORMAT_VERSION => Ok(report),
        found => Err(StoreError::Version { found: found.into() }),
    }
}

fn judge(error: &serde_json::Error) -> StoreError {
    if error.is_eof() { StoreError::Truncated } else { StoreError::Foreign(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_and_truncated_files_are_told_apart() {
        assert!(matches!(read_recording(b"{}"), Err(StoreError::Foreign(_))));
        assert!(matches!(read_recording(b"PK\x03\x04"), Err(StoreError::Foreign(_))));
        assert!(matches!(read_recording(b"{\"format_version\": 1, \"win"), Err(StoreError::Truncated)));
        for windows in ["[]", "[{\"collectors\": []}]", "{}"] {
            let future = format!("{{\"format_version\": 99, \"windows\": {windows}}}");
            assert!(matches!(read_recording(future.as_bytes()), Err(StoreError::Version { found: 99 })), "{windows}");
            let own = future.replace("99", "1");
            assert!(matches!(read_recording(own.as_bytes()), Err(StoreError::Foreign(_))) || windows == "[]");
        }
        assert!(matches!(read_recording(&[0x1f, 0x8b, 8, 0]), Err(StoreError::Truncated)));
        let endless = read_recording(b"{\"format_version\": 1, \"windows\": [{\"seconds\": 1.7e+308}]}");
        assert!(endless.unwrap_err().to_string().contains("a number that no measurement gives"));
    }
}
