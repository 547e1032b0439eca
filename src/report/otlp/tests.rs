//! Lines of composed reports.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::otlp;
use crate::accounts::ledger;
use crate::exported::Exported;
use crate::profile_testing::{goal, napping, profile_of, report_of};
use crate::sample;
use rdiag_model::{Finding, Recording, Report, Target};

fn lines(report: &Report, recording: Option<&Recording>) -> Vec<Value> {
    let text = otlp(&Exported { report, recording }).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The attributes of a record, by key.
fn attribute<'v>(of: &'v Value, key: &str) -> &'v Value {
    let all = of["attributes"].as_array().unwrap();
    all.iter().find(|attribute| attribute["key"] == key).map_or(&Value::Null, |attribute| &attribute["value"])
}

/// A report of twenty runs, and the recording that it is of.
fn of_runs() -> (Report, Recording) {
    let target = Target {
        pids: vec![10],
        command: Some("/bin/nap 1".into()),
        words: vec!["/bin/nap".into(), "1".into()],
        each: true,
        ..Target::default()
    };
    let ledger = ledger(42.0, napping("clock_nanosleep"));
    let report = report_of(Ok(profile_of(&ledger, &target, goal(0.2))), Vec::new());
    let mut recording = sample::recording();
    recording.windows[0].ledgers.insert("response".into(), Ok(ledger));
    recording.windows[0].begins = 0.25;
    recording.setup.machine = Some("0123456789abcdef".into());
    (report, recording)
}

#[test]
fn readings_are_gauges_of_their_window_and_findings_are_log_records() {
    let lines = lines(&sample::report(sample::saturated()), None);
    assert_eq!(lines.len(), 2, "no spans without runs");
    let resource = &lines[0]["resourceMetrics"][0]["resource"];
    let about = ["service.name", "host.name", "os.type", "host.id"].map(|key| attribute(resource, key));
    let text = |text: &str| json!({"stringValue": text});
    assert_eq!(about, [&text("rdiag"), &text("web-03"), &text("linux"), &Value::Null]);
    assert_eq!(&lines[1]["resourceLogs"][0]["resource"], resource);
    let id = attribute(&lines[0]["resourceMetrics"][0]["scopeMetrics"][0]["scope"], "rdiag.document");
    assert_eq!(id["stringValue"].as_str().map(str::len), Some(16));
    let metrics = lines[0]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let waits = metrics.iter().find(|metric| metric["name"] == "cpu.runqueue.wait.ratio").unwrap();
    let point = &waits["gauge"]["dataPoints"][0];
    assert_eq!((&waits["unit"], &point["asDouble"]), (&json!("1"), &json!(0.7)));
    // 2025-11-21 03:12:45 UTC, and ten seconds later.
    assert_eq!(point["startTimeUnixNano"], "1763694765000000000");
    assert_eq!(point["timeUnixNano"], "1763694775000000000");
    assert_eq!(attribute(point, "rdiag.window"), &json!({"intValue": "0"}));
    let records = lines[1]["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap();
    let seen: Vec<(&str, u64, &str)> = records
        .iter()
        .map(|record| {
            let word = |key: &str| record[key].as_str().unwrap();
            (word("eventName"), record["severityNumber"].as_u64().unwrap(), word("severityText"))
        })
        .collect();
    assert_eq!(seen[..2], [("rdiag.verdict", 17, "critical"), ("rdiag.finding", 17, "critical")]);
    let others: BTreeSet<(u64, &str)> = seen[2..].iter().map(|(_, number, word)| (*number, *word)).collect();
    assert_eq!(others, [(13, "warning"), (9, "unknown")].into(), "what is in order is no record");
    let fired = &records[1];
    assert_eq!(fired["timeUnixNano"], "1763694765000000000");
    assert_eq!(attribute(fired, "rdiag.rule"), &text("cpu.saturation"));
    assert_eq!(attribute(fired, "rdiag.culprit"), &text("stress-ng"));
    assert_eq!(
        attribute(fired, "rdiag.culprit.pids"),
        &json!({"arrayValue": {"values": [{"intValue": "4711"}, {"intValue": "4712"}]}})
    );
}

#[test]
fn each_run_is_a_span_with_its_parts_and_the_same_document_gives_the_same_ids() {
    let (report, recording) = of_runs();
    let all = lines(&report, Some(&recording));
    let spans = all.last().unwrap()["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 20);
    assert_eq!(attribute(&all[0]["resourceMetrics"][0]["resource"], "host.id")["stringValue"], "0123456789abcdef");
    for key in ["traceId", "spanId"] {
        let ids: BTreeSet<&str> = spans.iter().map(|span| span[key].as_str().unwrap()).collect();
        let digits = if key == "traceId" { 32 } else { 16 };
        assert!(
            ids.len() == 20 && ids.iter().all(|id| id.len() == digits && id.bytes().all(|b| b.is_ascii_hexdigit()))
        );
    }
    // The fifth run sleeps: it began 8 s after the window, which began 0.25 s after the run.
    let fifth = &spans[4];
    assert_eq!(
        (&fifth["name"], &fifth["kind"], &fifth["startTimeUnixNano"]),
        (&json!("nap"), &json!(1), &json!("1763694773250000000"))
    );
    let nanos = |key: &str| fifth[key].as_str().unwrap().parse::<u64>().unwrap();
    let slept = attribute(fifth, "rdiag.seconds.wait.sleep")["doubleValue"].as_f64().unwrap();
    assert!(slept == 1.0 && nanos("endTimeUnixNano") - nanos("startTimeUnixNano") > 1_000_000_000);
    let known = lines(&report, None);
    let slowest = known.last().unwrap()["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!((slowest.len(), lines(&report, Some(&recording)) == all), (16, true));
    assert!(slowest.iter().all(|span| spans.iter().any(|other| other["traceId"] == span["traceId"])));
}

#[test]
fn without_the_wall_clock_there_are_log_records_without_a_time() {
    let mut report = sample::report(sample::saturated());
    report.window.started = "yesterday".into();
    let lines = lines(&report, None);
    assert_eq!(lines.len(), 1);
    let records = lines[0]["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap();
    assert!(records.len() > 2 && records.iter().all(|record| record.get("timeUnixNano").is_none()), "{records:?}");
}

#[test]
fn records_that_are_too_long_for_one_line_stand_in_several() {
    let mut report = sample::report(sample::saturated());
    let fired = report.findings.iter().find(|finding| finding.status.fired()).unwrap().clone();
    report.findings = (0..30).map(|_| Finding { summary: "x".repeat(100_000), ..fired.clone() }).collect();
    let text = otlp(&Exported { report: &report, recording: None }).unwrap();
    assert!(text.lines().all(|line| line.len() <= 1_000_000));
    let lines = lines(&report, None);
    let logs: Vec<&Value> = lines.iter().filter(|line| line.get("resourceLogs").is_some()).collect();
    let records =
        logs.iter().map(|line| line["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().len());
    assert_eq!((logs.len() > 3, records.sum::<usize>()), (true, 31));
    assert!(logs.iter().all(|line| line["resourceLogs"][0]["scopeLogs"][0]["scope"]["name"] == "rdiag"));
}
