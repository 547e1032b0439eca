//! Figures of known series.

use std::collections::BTreeMap;

use super::formula::{Part, Quotient, describe, statistics};
use rdiag_model::metric::{Formula, term};
use rdiag_model::recording::{CollectorRecord, Number, Series, Window};
use rdiag_model::{Facts, MetricDef, RawUnit, Reason, SeriesKind, Unavailable, Unit};

#[test]
fn of_twenty_intervals_with_one_peak_the_95th_percentile_is_not_the_peak() {
    // 1 to 19, and 100: by nearest rank the nineteenth of twenty.
    let values: Vec<f64> = (1..=19).map(f64::from).chain([100.0]).rev().collect();
    let stats = describe(14.5, 290.0, &values, Vec::new());
    assert_eq!((stats.min, stats.p95, stats.max), (1.0, 19.0, 100.0));
    assert_eq!((stats.mean, stats.total, stats.last), (14.5, 290.0, 1.0));
}

#[test]
fn of_few_intervals_the_95th_percentile_is_the_largest() {
    for count in [1, 2, 5, 19] {
        let values: Vec<f64> = (1..=count).map(f64::from).collect();
        assert_eq!(describe(1.0, 1.0, &values, Vec::new()).p95, f64::from(count), "{count} values");
    }
}

#[test]
fn a_rate_is_total_by_total_and_its_largest_interval_is_its_own() {
    // 10 within one second, then 10 within three.
    let part = |from, to, over| Part { from, to, over, under: to - from };
    let parts = [part(0.0, 1.0, 10.0), part(1.0, 4.0, 10.0)];
    let stats = statistics(&parts, Quotient::Rate, 4, 1.0, 0.0).unwrap();
    assert_eq!((stats.mean, stats.max, stats.total), (5.0, 10.0, 20.0));
    assert!((stats.min - 10.0 / 3.0).abs() < 1e-9);
    let spread: Vec<f64> = stats.intervals.into_iter().flatten().map(f64::round).collect();
    assert_eq!(spread, [10.0, 3.0, 3.0, 3.0]);
}

const READS: MetricDef = MetricDef {
    id: "disk.reads.count",
    unit: Unit::Count,
    dimension: Some("device"),
    help: "Reads.",
    sources: &[Formula::change(&[term("disks.reads")])],
    ..MetricDef::EMPTY
};
const TOTAL: MetricDef = MetricDef {
    id: "disk.total.count",
    unit: Unit::Count,
    help: "Reads of all.",
    sources: &[Formula::change(&[term("disks.total")])],
    ..MetricDef::EMPTY
};

/// Why there are no reads, by device and of all, where a collector recorded a series with these instances and said this of another one.
fn gaps_of(instances: &[&str], told: &[(&str, Unavailable)]) -> [Unavailable; 2] {
    let series = |instance: &&str| Series {
        name: "disks.writes".into(),
        instance: (!instance.is_empty()).then(|| (*instance).to_owned()),
        kind: SeriesKind::Counter,
        unit: RawUnit::Count,
        values: vec![Some(Number::Whole(1)); 2],
    };
    let record = CollectorRecord {
        times: vec![0.0, 1.0],
        series: instances.iter().map(series).collect(),
        gaps: told.iter().map(|(key, gap)| ((*key).to_owned(), gap.clone())).collect(),
        ..CollectorRecord::default()
    };
    let window = Window {
        steps: Vec::new(),
        begins: 0.0,
        seconds: 1.0,
        interval_seconds: 1.0,
        suspended_seconds: 0.0,
        collectors: [("disks".to_owned(), record)].into(),
        probes: BTreeMap::new(),
        ledgers: BTreeMap::new(),
    };
    let metrics = super::evaluate(&window, &Facts::default(), &[("disks", &READS), ("disks", &TOTAL)]);
    [READS, TOTAL].map(|def| metrics.stats(def.id, "").unwrap_err())
}

#[test]
fn a_collector_that_found_no_device_says_nothing_of_the_kernel() {
    for instances in [&[][..], &[""]] {
        let [by_device, of_all] = gaps_of(instances, &[]);
        assert_eq!(
            (by_device.reason, by_device.why.as_str()),
            (Reason::NotApplicable, "no device here has any of this")
        );
        assert_eq!(of_all.reason, Reason::Absent, "of the host there is always one");
    }
    let [by_device, _] = gaps_of(&["vda"], &[]);
    let why = "this kernel does not report disks.reads, or the rdiag that made the recording did not read it yet";
    assert_eq!((by_device.reason, by_device.why.as_str()), (Reason::Absent, why));
}

#[test]
fn what_a_collector_said_of_another_series_holds_where_it_found_nothing() {
    let denied = || Unavailable::new(Reason::Denied, "they may not be read");
    let told = ("disks.writes", denied());
    assert_eq!(gaps_of(&[], std::slice::from_ref(&told))[0], denied());
    assert_eq!(gaps_of(&["vda"], std::slice::from_ref(&told))[0].reason, Reason::Absent);
    let other = ("disks.discards", Unavailable::new(Reason::Absent, "another"));
    assert!(gaps_of(&[], &[told, other])[0].why.starts_with("this kernel does not report disks.reads, or"));
}

/// What is noted of a counter that was read at these seconds, in a window of ten.
fn noted(times: &[f64]) -> Option<Vec<String>> {
    let series = Series {
        name: "disks.reads".into(),
        instance: Some("vda".into()),
        kind: SeriesKind::Counter,
        unit: RawUnit::Count,
        values: vec![Some(Number::Whole(1)); times.len()],
    };
    let record = CollectorRecord { times: times.to_vec(), series: vec![series], ..CollectorRecord::default() };
    let window = Window {
        steps: Vec::new(),
        begins: 0.0,
        seconds: 10.0,
        interval_seconds: 1.0,
        suspended_seconds: 0.0,
        collectors: [("disks".to_owned(), record)].into(),
        probes: BTreeMap::new(),
        ledgers: BTreeMap::new(),
    };
    const LEVEL: MetricDef = MetricDef {
        id: "disk.reads.level",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Reads.",
        sources: &[Formula::level(&[term("disks.reads")])],
        ..MetricDef::EMPTY
    };
    let notes = super::evaluate(&window, &Facts::default(), &[("disks", &LEVEL)]).notes.remove("disk.reads.level")?;
    Some(notes.into_iter().map(String::from).collect())
}

#[test]
fn what_was_read_beside_the_window_says_how_far_from_it() {
    assert_eq!(noted(&[0.0, 5.0, 10.0]), None);
    // The first reading of a host that suffers, and the last one.
    assert_eq!(noted(&[-0.4, 10.4]), None);
    assert_eq!(noted(&[-42.0]).unwrap(), ["read 42.0 s before the window"]);
    assert_eq!(noted(&[-42.0, 18.0]).unwrap(), ["counted from 42.0 s before the window to 8.00 s after it"]);
    assert_eq!(noted(&[-42.0, 5.0]).unwrap(), ["counted from 42.0 s before the window on"]);
    assert_eq!(noted(&[5.0, 18.0]).unwrap(), ["counted until 8.00 s after the window"]);
}
