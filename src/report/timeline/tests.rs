use super::*;
use crate::sample::{levels, metrics, recording, saturated};
use crate::{causes, order};
use rdiag_model::{CollectorRecord, Number, RawUnit, Reason, Series, SeriesKind};

/// A counter of /proc/stat.
fn ticks(name: &str, values: &[u64]) -> Series {
    Series {
        name: format!("cpu_stat.{name}"),
        instance: None,
        kind: SeriesKind::Counter,
        unit: RawUnit::Ticks,
        values: values.iter().map(|value| Some(Number::Whole(*value))).collect(),
    }
}

/// The sample with counters at the beginning and after each of two seconds; the last step back is one of iowait.
fn two_seconds() -> Recording {
    let mut recording = recording();
    recording.windows[0].seconds = 2.0;
    recording.windows[0].begins = 0.5;
    let fields = [
        ("user", [100, 140, 160]),
        ("nice", [0, 10, 10]),
        ("system", [50, 60, 70]),
        ("irq", [0, 5, 5]),
        ("softirq", [0, 5, 15]),
        ("iowait", [7, 17, 16]),
        ("steal", [0, 0, 20]),
        ("idle", [1000, 1020, 1060]),
    ];
    let record = CollectorRecord {
        times: vec![0.01, 1.0, 1.99],
        series: fields.iter().map(|(name, values)| ticks(name, values)).collect(),
        ..CollectorRecord::default()
    };
    recording.windows[0].collectors.insert("cpu_stat".into(), record);
    recording
}

fn of(recording: &Recording, metrics: &[Metrics]) -> Timeline {
    let mut findings = saturated();
    order::sort(&mut findings, &levels());
    let problems = causes::of(&findings).problems;
    timeline(recording, metrics, &findings, &problems, &levels()).unwrap()
}

#[test]
fn the_cpu_is_split_into_parts_of_one_whole() {
    let timeline = of(&two_seconds(), &[metrics()]);
    assert_eq!((timeline.seconds, timeline.windows[0].from), (2.0, 0.0), "the axis begins with the first window");
    let lane = &timeline.lanes[0];
    let percent = |at: usize| -> Vec<f64> {
        let value = |curve: &Curve| (curve.values[0][at].unwrap() * 1000.0).round() / 10.0;
        lane.curves.iter().map(value).collect()
    };
    // Of 100 ticks: 40 + 10 user and nice, 10 + 5 + 5 system and interrupts, 10 iowait; then 20, 10 + 10, 0 and 20.
    assert_eq!(percent(0), [50.0, 20.0, 10.0, 0.0]);
    assert_eq!(percent(1), [20.0, 20.0, 0.0, 20.0]);
    assert!(lane.stacked && lane.top == 1.0 && (lane.curves[0].mean - 0.35).abs() < 1e-9);
}

#[test]
fn what_two_windows_know_of_the_same_seconds_is_drawn_once() {
    let mut recording = two_seconds();
    let mut drill = recording.windows[0].clone();
    drill.begins = 1.5;
    drill.seconds = 1.0;
    recording.windows.push(drill);
    let timeline = of(&recording, &[metrics(), metrics()]);
    let own = |from: f64, until: f64| Span { from, until };
    assert_eq!(timeline.windows, [own(0.0, 2.0), own(1.0, 2.0)]);
    assert!((timeline.lanes[0].curves[0].mean - 0.35).abs() < 1e-9 && timeline.lanes[0].curves[0].values[1].is_empty());
    // What only the later one knows is drawn there, and so is what follows the first.
    recording.windows[0].collectors.remove("cpu_stat");
    assert!(!of(&recording, &[metrics(), metrics()]).lanes[0].curves[0].values[1].is_empty());
    recording.windows[1].begins = 2.5;
    recording.windows[0].collectors = recording.windows[1].collectors.clone();
    assert!(!of(&recording, &[metrics(), metrics()]).lanes[0].curves[0].values[1].is_empty());
}

#[test]
fn a_counter_that_was_reset_leaves_a_gap_and_no_counter_a_reason() {
    let mut recording = two_seconds();
    recording.windows[0].collectors.get_mut("cpu_stat").unwrap().series[0].values[2] = Some(Number::Whole(3));
    let lane = &of(&recording, &[metrics()]).lanes[0];
    assert!(lane.curves.iter().all(|curve| curve.values[0][0].is_some() && curve.values[0][1].is_none()));
    let lanes = of(&super::super::sample::recording(), &[metrics()]).lanes;
    assert_eq!(lanes.iter().filter(|lane| lane.missing.is_none()).count(), 0, "the sample has none of these metrics");
    assert_eq!(lanes[0].missing.as_deref(), Some("not measured by this playbook"));
}

/// Readings of two disks or interfaces in one window.
fn measured(ids: &[&str], instances: &[(&str, &[f64])]) -> Metrics {
    let stats = |values: &[f64]| Stats {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        max: values.iter().copied().fold(0.0, f64::max),
        intervals: values.iter().copied().map(Some).collect(),
        ..Stats::default()
    };
    let reading = || Reading::Measured {
        unit: Unit::PerSecond,
        dimension: Some("device".into()),
        source: String::new(),
        rank: 0,
        instances: instances.iter().map(|(name, values)| ((*name).to_owned(), Ok(stats(values)))).collect(),
    };
    let readings = ids.iter().map(|id| ((*id).to_owned(), reading())).collect();
    Metrics { readings, seconds: 2.0, intervals: 2, ..Metrics::default() }
}

#[test]
fn the_busiest_device_is_drawn_unless_a_problem_names_another_and_loopback_only_where_there_is_no_other() {
    let disks = ["disk.reads.per_second", "disk.writes.per_second", "disk.queue.count"];
    let two: [(&str, &[f64]); 2] = [("vda", &[90.0, 110.0]), ("vdb", &[1.0, 2.0])];
    let metrics = measured(&disks, &two);
    let lane = of(&two_seconds(), std::slice::from_ref(&metrics)).lanes.remove(2);
    assert_eq!((lane.instance.as_deref(), lane.top), (Some("vda"), 500.0), "220 on a scale of 500");
    let mut finding = super::super::sample::finding("disk.saturation.read_latency", rdiag_model::Status::Critical);
    finding.instance = Some("vdb".into());
    let findings = [finding];
    let timeline = timeline(&two_seconds(), &[metrics], &findings, &causes::of(&findings).problems, &levels()).unwrap();
    assert_eq!(timeline.lanes[2].instance.as_deref(), Some("vdb"));
    assert!(timeline.lanes[4].missing.is_some(), "no interface");

    let traffic = ["network.interface.receive.bytes_per_second"];
    let lane = of(&two_seconds(), &[measured(&traffic, &[("lo", &[9e9]), ("eth0", &[1.0])])]).lanes.remove(4);
    assert_eq!(lane.instance.as_deref(), Some("eth0"));
    let lane = of(&two_seconds(), &[measured(&traffic, &[("lo", &[9e9])])]).lanes.remove(4);
    assert_eq!(lane.instance.as_deref(), Some("lo"));
}

#[test]
fn a_lane_without_a_curve_says_why() {
    let gap = Unavailable::new(Reason::Disabled, "PSI is switched off.");
    let mut metrics = metrics();
    for id in ["psi.cpu.some.ratio", "psi.memory.some.ratio", "psi.io.some.ratio"] {
        metrics.readings.insert(id.into(), Reading::Unavailable(gap.clone()));
    }
    assert_eq!(of(&two_seconds(), &[metrics]).lanes[1].missing.as_deref(), Some("PSI is switched off"));
}

#[test]
fn scales_are_round_and_peaks_survive_thinning() {
    let tops = [(Unit::PerSecond, 0.0, 1.0), (Unit::PerSecond, 3.2, 5.0), (Unit::PerSecond, 119_000.0, 200_000.0)];
    for (unit, highest, expected) in tops {
        assert_eq!(top(unit, highest), expected);
    }
    assert!((top(Unit::Seconds, 0.0021) - 0.005).abs() < 1e-9);
    assert_eq!(top(Unit::BytesPerSecond, 700.0 * 1024.0), 1024.0 * 1024.0);
    let mut values = vec![Some(0.0); 1000];
    values[777] = Some(9.0);
    let thin = thinned(&values);
    assert!(thin.len() == MAX_VALUES && thin.iter().flatten().any(|value| *value == 9.0));
}
