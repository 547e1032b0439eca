//! Recordings on disk: JSON under gzip.

use std::io::{self, Read as _, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use thiserror::Error;

use super::armor::{ArmorError, bare};
use rdiag_model::recording::FORMAT_VERSION;
use rdiag_model::{Recording, Report};

/// A recording is never larger unpacked; a gzip bomb is.
const MAX_BYTES: u64 = 512 << 20;
/// Values, lists and mappings in a recording. An hour of a host with 1000 disks has two million; each takes some 100 bytes of memory and
/// may take three of text, so that text alone bounds nothing.
const MAX_ELEMENTS: usize = 10_000_000;

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
    #[error("it is larger than 512 MiB unpacked")]
    TooLarge,
    /// So would what it is made of.
    #[error("it consists of more than {MAX_ELEMENTS} values: more than a recording has")]
    TooMany,
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
    let mut text = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let read = GzDecoder::new(bytes).take(MAX_BYTES + 1).read_to_end(&mut text);
        match read {
            Ok(size) if size as u64 > MAX_BYTES => return Err(StoreError::TooLarge),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(StoreError::Truncated),
            Err(error) => return Err(StoreError::Foreign(error.to_string())),
        }
    } else {
        text.extend_from_slice(bytes);
    }
    if elements(&text) > MAX_ELEMENTS {
        return Err(StoreError::TooMany);
    }
    #[derive(Deserialize)]
    struct Version {
        format_version: Option<u64>,
        windows: Option<serde::de::IgnoredAny>,
    }
    let head: Version = serde_json::from_slice(&text).map_err(|error| judge(&error))?;
    match (head.format_version, head.windows) {
        (Some(found), Some(_)) if found != u64::from(FORMAT_VERSION) => return Err(StoreError::Version { found }),
        (Some(_), Some(_)) => {}
        _ => return Err(StoreError::Foreign("it has no format_version and windows".into())),
    }
    serde_json::from_slice(&text).map_err(|error| judge(&error))
}

/// Reads a report.json.
pub fn read_report(bytes: &[u8]) -> Result<Report, StoreError> {
    if elements(bytes) > MAX_ELEMENTS {
        return Err(StoreError::TooMany);
    }
    let report: Report = serde_json::from_slice(bytes).map_err(|error| {
        let foreign = format!("it is no report.json ({error}); a recording is judged with `rdiag analyze`");
        if error.is_eof() { StoreError::Truncated } else { StoreError::Foreign(foreign) }
    })?;
    match report.format_version {
        rdiag_model::report::FORMAT_VERSION => Ok(report),
        found => Err(StoreError::Version { found: found.into() }),
    }
}

/// How many values, lists and mappings JSON consists of at most, from its signs outside of texts.
fn elements(json: &[u8]) -> usize {
    let (mut count, mut in_text, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

fn judge(error: &serde_json::Error) -> StoreError {
    if error.is_eof() { StoreError::Truncated } else { StoreError::Foreign(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_more_values_than_a_recording_has_is_refused_before_it_takes_memory() {
        let many = format!("{{\"format_version\": 1, \"windows\": [{}{{}}]}}", "{},".repeat(MAX_ELEMENTS / 2));
        assert!(matches!(read_recording(many.as_bytes()), Err(StoreError::TooMany)));
        assert_eq!(elements(br#"{"a,[": [1, "x\"{,", {}], "b": 2}"#), 6);
        assert_eq!(elements(b""), 0);
    }

    #[test]
    fn foreign_and_truncated_files_are_told_apart() {
        assert!(matches!(read_recording(b"{}"), Err(StoreError::Foreign(_))));
        assert!(matches!(read_recording(b"PK\x03\x04"), Err(StoreError::Foreign(_))));
        assert!(matches!(read_recording(b"{\"format_version\": 1, \"win"), Err(StoreError::Truncated)));
        let future = br#"{"format_version": 99, "windows": []}"#;
        assert!(matches!(read_recording(future), Err(StoreError::Version { found: 99 })));
        assert!(matches!(read_recording(&[0x1f, 0x8b, 8, 0]), Err(StoreError::Truncated)));
    }
}
