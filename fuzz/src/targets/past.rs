//! Blocks of the recorder whose headers and figures may be anything, as a time that is over: `rdiag run --at`.
//!
//! An input is JSON: `to` and `last` in microseconds, and `blocks`, each with its `header` and its `collectors` as in a recording. What
//! bytes of a column may be is the target `history`.

use std::collections::BTreeMap;

use rdiag_history::{Block, Header, thin_block, write_block};
use rdiag_kernel::host::Zone;
use rdiag_model::recording::{CollectorRecord, Process};
use rdiag_session as session;
use rdiag_session::{HistoryFile, Span};
use serde_json::Value;

use super::elsewhere::PLAN;
use super::recorded;

/// What `--last` takes, and times of four digits of a year, in microseconds.
const LAST: (i64, i64) = (1_000_000, 21_600_000_000);
const LATEST: i64 = 253_402_300_799_000_000;

/// Blocks, judged and drawn with the time around them.
pub fn blocks(data: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return false };
    let number = |key: &str| value.get(key).and_then(Value::as_i64).unwrap_or(0);
    let to = number("to").clamp(-LATEST, LATEST);
    let span = Span { from: to - number("last").clamp(LAST.0, LAST.1), to };
    let blocks = value.get("blocks").and_then(Value::as_array).into_iter().flatten().filter_map(block);
    let named =
        |(at, block): (usize, Block)| HistoryFile { name: format!("{at:010}-0.rdh"), bytes: write_block(&block) };
    let files: Vec<HistoryFile> = blocks.enumerate().map(named).collect();
    let utc = Zone::utc();
    for every in [0.0, 60.0] {
        let Ok(past) = session::past_every(&files, span, &PLAN, &utc, every) else { continue };
        for record in past.recording.windows.iter().flat_map(|window| window.collectors.values()) {
            assert!(record.series.iter().all(|series| series.values.len() == record.times.len()), "{record:?}");
        }
        let mut written = Vec::new();
        session::write_recording(&past.recording, &mut written).expect("what was read can be written");
        let again = session::read_recording(&written).expect("what was written can be read");
        assert!(again == past.recording, "a recording that is written and read is another one");
        recorded::judged(&past.recording);
    }
    let more = 1_800_000_000;
    let around = Span { from: span.from - more, to: span.to + more };
    let _ = session::around(files.iter(), (around, span), &utc);
    for file in &files {
        let _ = thin_block(&file.bytes, 60.0);
    }
    !files.is_empty()
}

/// A block as a recorder could have written it, but for its figures: as many values as times, and processes within them.
fn block(value: &Value) -> Option<Block> {
    let of = |key: &str| value.get(key).cloned().unwrap_or_default();
    let header: Header = serde_json::from_value(of("header")).ok()?;
    let records = of("collectors").as_object().cloned().unwrap_or_default().into_iter();
    let records =
        records.filter_map(|(id, record)| Some((id, serde_json::from_value::<CollectorRecord>(record).ok()?)));
    let collectors: BTreeMap<String, CollectorRecord> = records.map(|(id, record)| (id, sound(record))).collect();
    Some(Block { header, collectors, idle: Vec::new() })
}

fn sound(mut record: CollectorRecord) -> CollectorRecord {
    let samples = record.times.len();
    record.series.iter_mut().for_each(|series| series.values.resize(samples, None));
    let is_within = |process: &Process| {
        let points = &process.points;
        process.first <= process.last
            && usize::from(process.last) < samples
            && points.is_sorted_by(|one, next| one.at < next.at)
            && points.iter().all(|point| (process.first..=process.last).contains(&point.at))
    };
    record.processes.retain(is_within);
    record
}
