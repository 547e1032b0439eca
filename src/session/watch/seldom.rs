//! Collectors that are made for a window of some seconds, in a block of minutes.
//!
//! File systems are asked once in a window, beside its samples, and each later sample has the answers to that: here they are asked anew
//! each time, and one sample later is read what they answered.

use super::super::record::{Recorder, Slot};
use super::governor::Governor;
use rdiag_collectors::{Cadence, CollectorDef};
use rdiag_model::CollectorRecord;

/// Asked at one sample, and read at the next one.
const ASKED: &str = "filesystems";
/// 1 where a file system did not answer.
const HUNG: &str = "filesystems.hung";

/// What a sample is for file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Ask,
    Answer,
    Neither,
}

fn turn(governor: &Governor, number: usize) -> Turn {
    let every = governor.every(ASKED, Cadence::Ends).max(2);
    match number.checked_rem(every) {
        Some(0) => Turn::Ask,
        Some(1) => Turn::Answer,
        _ => Turn::Neither,
    }
}

/// Whether one did not answer in this block. To ask again leaves another process and another thread behind; the next block does so.
fn any_hangs(record: &CollectorRecord) -> bool {
    let told = record.series.iter().filter(|series| series.name == HUNG);
    told.flat_map(|series| series.values.iter().flatten()).any(|value| value.as_f64() > 0.0)
}

/// Has file systems asked anew, if it is time.
pub(super) fn ask_anew(
    recorder: &mut Recorder<'_>,
    collectors: &[&'static CollectorDef],
    governor: &Governor,
    number: usize,
) {
    let is_time = number > 0 && turn(governor, number) == Turn::Ask;
    let Some(def) = collectors.iter().find(|def| is_time && def.id == ASKED) else { return };
    let hangs = |slot: &Slot| slot.id == ASKED && slot.sink.with_record(|record| any_hangs(record));
    if !recorder.slots.iter().any(hangs) {
        recorder.renew(def);
    }
}

/// Whether a collector is to be asked at a sample.
pub(super) fn is_due(slot: &Slot, governor: &Governor, number: usize) -> bool {
    if slot.id != ASKED {
        return governor.is_due(slot.id, slot.cadence, number);
    }
    let is_turn = turn(governor, number) != Turn::Neither;
    is_turn && (number < 2 || !slot.sink.with_record(|record| any_hangs(record)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::{Number, RawUnit, Series, SeriesKind};

    fn series(name: &str, values: Vec<Option<Number>>) -> Series {
        Series { name: name.into(), instance: None, kind: SeriesKind::Gauge, unit: RawUnit::Count, values }
    }

    #[test]
    fn file_systems_are_asked_each_minute_and_read_one_sample_later() {
        let governor = Governor::new(0.005, 5.0, 60.0);
        let turns: Vec<(usize, Turn)> =
            (0..30).map(|at| (at, turn(&governor, at))).filter(|(_, turn)| *turn != Turn::Neither).collect();
        let wanted = [0, 12, 24].map(|at| [(at, Turn::Ask), (at + 1, Turn::Answer)]).concat();
        assert_eq!(turns, wanted);
        // Samples that are a minute apart or more: every second one asks.
        let slow = Governor::new(0.005, 120.0, 120.0);
        assert_eq!([0, 1, 2, 3].map(|at| turn(&slow, at)), [Turn::Ask, Turn::Answer, Turn::Ask, Turn::Answer]);
    }

    #[test]
    fn a_file_system_that_hangs_is_not_asked_again_in_the_same_block() {
        let hung = |value: f64| CollectorRecord {
            times: vec![0.0, 5.0],
            series: vec![series(HUNG, vec![None, Some(Number::Real(value))])],
            ..CollectorRecord::default()
        };
        assert!(any_hangs(&hung(1.0)) && !any_hangs(&hung(0.0)) && !any_hangs(&CollectorRecord::default()));
    }
}
