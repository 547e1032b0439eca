//! Traces of composed reports.

use serde_json::Value;

use super::perfetto;
use super::trace::{Args, Slice, Trace};
use crate::accounts::ledger;
use crate::exported::Exported;
use crate::profile_testing::{goal, napping, profile_of, report_of};
use crate::sample;
use crate::sample_probes::{result, schedule};
use rdiag_model::probe::Output;
use rdiag_model::report::{Curve, Lane};
use rdiag_model::{Recording, Report, Target};

/// The events with this letter.
fn events(report: &Report, recording: Option<&Recording>, ph: &str) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&perfetto(&Exported { report, recording }).unwrap()).unwrap();
    let all = trace["traceEvents"].as_array().unwrap();
    all.iter().filter(|event| event["ph"] == ph).cloned().collect()
}

/// Microseconds.
fn times(event: &Value) -> (f64, f64) {
    (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap())
}

fn of<'e>(events: &'e [Value], cat: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["cat"] == cat).collect()
}

#[test]
fn what_overlaps_stands_on_tracks_of_its_own_and_what_touches_on_one() {
    let slice = |from: f64, until: f64| Slice { from, until, name: String::new(), args: Args::new() };
    let mut trace = Trace::default();
    let group = trace.group("g");
    let slices = vec![
        slice(1.0, 2.0),
        slice(0.1, 1.0),
        slice(0.3, 0.6),
        slice(0.6, 1.1),
        slice(f64::NAN, 1.0),
        slice(1e30, 1e31),
    ];
    trace.slices(group, "t", "c", slices);
    let events = serde_json::to_value(&trace.events).unwrap();
    let places: Vec<(f64, u64)> = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| (event["ts"].as_f64().unwrap(), event["tid"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(1e5, 1000), (3e5, 1001), (6e5, 1001), (1e6, 1000)]);
}

#[test]
fn curves_are_those_of_the_page_and_their_gaps_are_said() {
    let mut report = sample::report(sample::saturated());
    let values = vec![vec![Some(0.5), None, None, Some(0.25), None]];
    let curve = Curve { name: "user".into(), source: "x".into(), mean: 0.4, max: 0.5, values };
    let lane = Lane { title: "CPU".into(), unit: rdiag_model::Unit::Ratio, curves: vec![curve], ..Lane::default() };
    report.timeline.as_mut().unwrap().lanes = vec![lane];
    let counters = events(&report, None, "C");
    let seen: Vec<(f64, f64)> =
        counters.iter().map(|event| (event["ts"].as_f64().unwrap(), event["args"]["user"].as_f64().unwrap())).collect();
    assert_eq!(seen, [(0.0, 0.5), (6e6, 0.25)]);
    assert_eq!(counters[0]["name"], "CPU (share, 0 to 1)");
    let slices = events(&report, None, "X");
    let gaps: Vec<(f64, f64)> = of(&slices, "gap").into_iter().map(times).collect();
    assert_eq!(gaps, [(2e6, 4e6), (8e6, 2e6)]);
}

#[test]
fn findings_are_drawn_where_they_held() {
    let mut report = sample::report(sample::saturated());
    let at = report.findings.iter().position(|finding| finding.id == "cpu.saturation").unwrap();
    let drawn = events(&report, None, "X");
    let [band] = of(&drawn, "finding")[..] else { panic!("{drawn:?}") };
    assert_eq!(times(band), (0.0, 1e7));
    assert_eq!(band["args"]["culprit"], "stress-ng");
    assert_eq!(band["args"]["drawn over"], "it held in just these stretches");
    // Without its band it is the window; of the time before the window there is nothing to draw.
    report.timeline.as_mut().unwrap().bands.clear();
    let drawn = events(&report, None, "X");
    assert_eq!(of(&drawn, "finding")[0]["args"]["drawn over"], "the window over which it was judged");
    let past = &mut report.findings[at];
    (past.status, past.value) = (rdiag_model::Status::Info, Some(0.0));
    past.threshold.conditions.insert("info".into(), "x.since_boot > 0".into());
    assert!(of(&events(&report, None, "X"), "finding").is_empty());
}

#[test]
fn runs_and_states_of_a_task_are_slices_after_its_window_began() {
    let target = Target { pids: vec![10], command: Some("nap".into()), each: true, ..Target::default() };
    let mut report = report_of(Ok(profile_of(&ledger(42.0, napping("x")), &target, goal(0.2))), Vec::new());
    report.window.spans[0] = rdiag_model::report::Span { from: 1.0, until: 43.0 };
    let slices = events(&report, None, "X");
    let runs = of(&slices, "run");
    assert_eq!(runs.len(), 16);
    let fifth = runs.iter().find(|run| run["name"] == "run 5").unwrap();
    let (from, long) = times(fifth);
    let parts = fifth["args"]["parts (s)"].as_object().unwrap();
    let sum: f64 = parts.values().map(|seconds| seconds.as_f64().unwrap()).sum();
    assert!((from, parts["wait.sleep"].as_f64()) == (9e6, Some(1.0)) && (long / 1e6 - sum).abs() < 1e-6, "{fifth}");
    assert_eq!((times(of(&slices, "task")[0]), &fifth["args"]["runs in all"]), ((1e6, 4.2e7), &20.into()));
}

#[test]
fn a_schedule_is_drawn_from_the_recording_and_its_clock_is_said() {
    let report = sample::report(sample::saturated());
    let mut recording = sample::recording();
    let mut own = result("timeline", vec![Output::Schedule(schedule("loop\u{202e}"))]);
    own.seconds = 10.3;
    recording.windows[0].probes.insert("timeline".into(), Ok(own));
    let slices = events(&report, Some(&recording), "X");
    let seen: Vec<(&str, (f64, f64))> =
        of(&slices, "schedule").into_iter().map(|slice| (slice["name"].as_str().unwrap(), times(slice))).collect();
    let expected =
        [("worker", (0.0, 6e5)), ("loop\\u{202e}", (6e5, 9e5)), ("worker", (7e5, 3e5)), ("not known", (1.6e6, 4e5))];
    assert_eq!(seen, expected);
    let names = events(&report, Some(&recording), "M");
    assert!(names.iter().any(|name| name["args"]["name"].as_str().unwrap_or("").contains("up to 300 ms too late")));
    assert!(of(&events(&report, None, "X"), "schedule").is_empty());
}
