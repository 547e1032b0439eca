//! What tests of the recorder and of the past begin with: captured recordings, and the header of a block.

use std::collections::BTreeMap;
use std::path::Path;

use crate::store::read_recording;
use rdiag_history::{Cost, FORMAT_VERSION, Header};
use rdiag_model::recording::Tool;
use rdiag_model::{Facts, Recording};

/// 2025-10-09 08:53:20 UTC, in microseconds since 1970: when the first block of a test begins.
pub(super) const WALL: i64 = 1_760_000_000_000_000;

/// What was recorded while faults were induced, with the names of the files, in their order.
pub(super) fn captured() -> Vec<(String, Recording)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/host");
    #[expect(clippy::disallowed_methods, reason = "captures of the source tree")]
    let read = |path: &Path| std::fs::read(path).unwrap();
    #[expect(clippy::disallowed_methods, reason = "captures of the source tree")]
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = all.filter(|path| path.extension().is_some_and(|ending| ending == "gz")).collect();
    all.sort();
    all.iter().map(|path| (path.display().to_string(), read_recording(&read(path)).unwrap())).collect()
}

/// The header of a block of ten minutes, a sample every 5 s, of a host of which nothing is known.
pub(super) fn header() -> Header {
    Header {
        format_version: FORMAT_VERSION,
        tool: Tool { name: String::new(), version: String::new() },
        host: Facts::default(),
        boot: "a".into(),
        wall_micros: WALL,
        monotonic: 0.0,
        boottime: 0.0,
        seconds: 600.0,
        interval_seconds: 5.0,
        recorded_every: None,
        stretched: BTreeMap::new(),
        settings: BTreeMap::new(),
        cost: Cost::default(),
    }
}

/// The header of a block of so many seconds of a recording, from so many seconds after its beginning on.
pub(super) fn header_of(recording: &Recording, from: f64, seconds: f64) -> Header {
    // Its processes began before that.
    let up = recording.host.uptime_seconds.max(1.0) + from;
    Header {
        tool: recording.tool.clone(),
        host: recording.host.clone(),
        wall_micros: WALL + (from * 1e6).round() as i64,
        monotonic: up,
        boottime: up,
        seconds,
        interval_seconds: recording.windows[0].interval_seconds,
        ..header()
    }
}
