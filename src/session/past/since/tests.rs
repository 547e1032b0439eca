//! Two collectors that count from the beginning of a block.

use super::super::tests::{Host, level, whole};
use super::*;

#[test]
fn how_long_tasks_waited_is_that_of_whole_blocks_one_after_the_other() {
    let host = Host::new();
    let block = |at: f64, waited: u64| {
        let series = whole("waiting_tasks.wait", Some("0"), &[Some(0), None, Some(waited)]);
        host.block(at, 595.0, [(COMPARED, vec![0.0, 60.0, 595.0], vec![series])])
    };
    let read = |from: f64, to: f64| {
        let (window, _) = host.past(vec![block(0.0, 70), block(600.0, 30)], from, to);
        let record = &window.collectors[COMPARED];
        let values: Vec<u64> = record.series[0].values.iter().flatten().map(|value| value.as_f64() as u64).collect();
        (record.times.iter().map(|time| time.round()).collect::<Vec<f64>>(), values)
    };
    assert_eq!(read(100.0, 110.0), (vec![-100.0, 495.0], vec![0, 70]));
    assert_eq!(read(590.0, 700.0), (vec![-590.0, 5.0, 10.0, 605.0], vec![0, 70, 70, 100]));
}

#[test]
fn a_block_that_has_not_ended_does_not_say_which_tasks_wait() {
    let host = Host::new();
    let (window, _) = host.past(vec![host.block(0.0, 175.0, [(COMPARED, vec![0.0, 60.0], Vec::new())])], 10.0, 20.0);
    let gap = window.collectors[COMPARED].unavailable.clone().expect("a reason");
    assert_eq!(gap.why, "which tasks wait is known when a block of the recorder has ended");
}

#[test]
fn datagrams_that_were_dropped_before_a_time_are_none_of_it() {
    let host = Host::new();
    // Eight in the first minute, none in the next two, and five after that.
    let values = [None, Some(8.0), Some(8.0), Some(8.0), Some(13.0)].map(|value| value.map(Number::Real)).to_vec();
    let block = || {
        let series = level(DROPS.1, Some("0.0.0.0:514"), values.clone());
        host.block(0.0, 295.0, [(DROPS.0, vec![0.0, 60.0, 120.0, 180.0, 240.0], vec![series])])
    };
    let dropped = |from: f64, to: f64| {
        let (window, _) = host.past(vec![block()], from, to);
        let record = &window.collectors[DROPS.0];
        let last = record.series.first().and_then(|series| series.values.last().copied().flatten()).map(Number::as_f64);
        (last, record.gaps.get(DROPS.1).map(|gap| gap.reason))
    };
    assert_eq!(dropped(-1.0, 70.0), (Some(8.0), None));
    assert_eq!(dropped(100.0, 190.0), (None, Some(Reason::NotApplicable)));
    assert_eq!(dropped(100.0, 250.0), (Some(5.0), None));
    // No sample lies in it: those on either side count.
    assert_eq!(dropped(10.0, 20.0), (Some(8.0), None));
    assert_eq!(dropped(130.0, 140.0), (None, Some(Reason::NotApplicable)));
    assert_eq!(dropped(200.0, 210.0), (Some(5.0), None));
    assert_eq!(dropped(250.0, 260.0), (None, Some(Reason::ShortWindow)));
}
