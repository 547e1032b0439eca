//! Reports for other programs: traces for Perfetto, and OTLP. They say what the JSON report of the same recording says.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{path, rdiag};

/// Recordings of hosts and of tasks, one with a drill-down, one of an old kernel.
const EXPORTED: [&str; 5] = [
    "lab-scenarios/recordings/short-of-cpu.json.gz",
    "tests/captures/host/cpu.one_loop_for_each_cpu_is_utilization_and_no_critical_saturation.1.json.gz",
    "tests/captures/5.10/kernels.vm_a_throttled_group_is_named.1.json.gz",
    "tests/captures/host/disk.a_fast_disk_busy_with_many_reads_at_once_is_not_saturated.1.json.gz",
    "tests/fixtures/recordings/orders-dsync.json.gz",
];

/// A recording in a format, as it is printed.
fn exported(recording: &Path, format: &str) -> String {
    let output = rdiag().arg("report").arg(recording).args(["--format", format]).output().unwrap();
    assert!(output.status.success(), "{}: {}", recording.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn exported_json(recording: &Path, format: &str) -> Value {
    serde_json::from_str(&exported(recording, format)).unwrap()
}

/// The lines of OTLP: what the one line of a kind holds, if there is one.
fn otlp_records(lines: &str, kind: &str, scope: &str, records: &str) -> Vec<Value> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_kind: Vec<Value> = lines.filter(|line| line.get(kind).is_some()).collect();
    assert!(of_kind.len() <= 1);
    of_kind.first().map(|line| line[kind][0][scope][0][records].as_array().unwrap().clone()).unwrap_or_default()
}

fn otlp_attribute(of: &Value, key: &str) -> Value {
    let all = of["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(Value::Null, |attribute| attribute["value"].as_object().unwrap().values().next().unwrap().clone())
}

/// Events of a trace by their letter and, of slices, category.
fn trace_events<'t>(trace: &'t Value, ph: &str, cat: &str) -> Vec<&'t Value> {
    let all = trace["traceEvents"].as_array().unwrap();
    all.iter().filter(|event| event["ph"] == ph && (cat.is_empty() || event["cat"] == cat)).collect()
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-3
}

/// From and until, in seconds.
fn stretch(event: &Value) -> (f64, f64) {
    let (from, long) = (event["ts"].as_f64().unwrap() / 1e6, event["dur"].as_f64().unwrap() / 1e6);
    (from, from + long)
}

#[test]
fn a_trace_has_the_curves_and_findings_of_the_report_at_their_times() {
    for recording in EXPORTED {
        let recording = path(recording);
        let (report, trace) = (exported_json(&recording, "json"), exported_json(&recording, "perfetto"));
        assert_eq!(trace["otherData"]["started"], report["window"]["started"]);
        assert_eq!(trace["otherData"]["verdict"], report["verdict"]["headline"]);
        let spans = report["window"]["spans"].as_array().unwrap();
        assert_eq!(trace_events(&trace, "X", "window").len(), spans.len());
        let counters = trace_events(&trace, "C", "");
        let drawn: usize = counters.iter().map(|event| event["args"].as_object().unwrap().len()).sum();
        let mut values = 0;
        for lane in report["timeline"]["lanes"].as_array().unwrap() {
            let title = lane["title"].as_str().unwrap();
            for curve in lane["curves"].as_array().unwrap() {
                for (span, slots) in spans.iter().zip(curve["values"].as_array().unwrap()) {
                    let slots = slots.as_array().unwrap();
                    let (from, until) = (span["from"].as_f64().unwrap(), span["until"].as_f64().unwrap());
                    for (at, value) in slots.iter().enumerate().filter(|(_, value)| !value.is_null()) {
                        let begins = from + (until - from) / slots.len() as f64 * at as f64;
                        let is_it = |event: &&&Value| {
                            let is_curve = event["args"].get(curve["name"].as_str().unwrap()) == Some(value);
                            is_curve
                                && event["name"].as_str().unwrap().starts_with(title)
                                && is_near(event["ts"].as_f64().unwrap() / 1e6, begins)
                        };
                        assert!(counters.iter().any(|event| is_it(&event)), "{title} {curve} {at}");
                        values += 1;
                    }
                }
            }
        }
        assert!(drawn == values && values > 3, "{drawn} of {values}: {}", recording.display());
        let bands = report["timeline"]["bands"].as_array().unwrap();
        let slices = trace_events(&trace, "X", "finding");
        for band in bands {
            let finding = &report["findings"][band["finding"].as_u64().unwrap() as usize];
            let own: Vec<_> = slices.iter().filter(|slice| slice["args"]["summary"] == finding["summary"]).collect();
            for span in band["spans"].as_array().unwrap() {
                let (from, until) = (span["from"].as_f64().unwrap(), span["until"].as_f64().unwrap());
                let is_it = |(a, b): (f64, f64)| is_near(a, from) && is_near(b, until);
                assert!(own.iter().any(|slice| is_it(stretch(slice))), "{finding}");
            }
        }
        // No slice lies partly within another of its track.
        let all = trace_events(&trace, "X", "");
        for one in &all {
            let (from, until) = stretch(one);
            let crosses = |other: &&&Value| {
                let (begins, ends) = stretch(other);
                other["tid"] == one["tid"] && begins > from + 1e-8 && begins < until - 1e-8 && ends > until + 1e-8
            };
            assert_eq!(all.iter().find(crosses), None, "{one}");
        }
    }
}

#[test]
fn otlp_has_the_readings_and_findings_of_the_report_at_their_times() {
    for recording in EXPORTED {
        let recording = path(recording);
        let (report, lines) = (exported_json(&recording, "json"), exported(&recording, "otlp"));
        assert_eq!(lines, exported(&recording, "otlp"), "the same file gives the same lines");
        let records = otlp_records(&lines, "resourceLogs", "scopeLogs", "logRecords");
        assert_eq!(records[0]["body"]["stringValue"], report["verdict"]["headline"]);
        let told: Vec<&Value> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| !["ok", "skipped"].contains(&finding["status"].as_str().unwrap()))
            .collect();
        assert_eq!(records.len() - 1, told.len());
        for (record, finding) in records[1..].iter().zip(told) {
            assert_eq!(record["body"]["stringValue"], finding["summary"]);
            assert_eq!(record["severityText"], finding["status"]);
            assert_eq!(otlp_attribute(record, "rdiag.rule"), finding["id"]);
            assert_eq!(otlp_attribute(record, "rdiag.instance"), finding["instance"]);
            assert_eq!(otlp_attribute(record, "rdiag.culprit"), finding["culprit"]["name"]);
            let severity = match finding["status"].as_str().unwrap() {
                "critical" => 17,
                "warning" => 13,
                _ => 9,
            };
            assert_eq!(record["severityNumber"], severity);
        }
        let metrics = otlp_records(&lines, "resourceMetrics", "scopeMetrics", "metrics");
        let readings = report["findings"].as_array().unwrap().iter().flat_map(|it| it["evidence"].as_array().unwrap());
        let mut compared = 0;
        for reading in readings {
            let sums = report["metrics"][reading["metric"].as_str().unwrap()]["sums"] == true;
            let figure = &reading[if sums { "total" } else { "mean" }];
            if figure.is_null() {
                continue;
            }
            let metric = metrics.iter().find(|metric| metric["name"] == reading["metric"]);
            let points = metric.unwrap_or_else(|| panic!("{reading}"))["gauge"]["dataPoints"].as_array().unwrap();
            let window = reading["window"].as_u64().unwrap();
            let told = window.to_string();
            let own = points.iter().find(|point| {
                otlp_attribute(point, "rdiag.over") == "window"
                    && otlp_attribute(point, "rdiag.window") == told
                    && otlp_attribute(point, "rdiag.instance") == reading["instance"]
            });
            let own = own.unwrap_or_else(|| panic!("{reading}"));
            assert_eq!(own["asDouble"].as_f64(), figure.as_f64(), "{reading}");
            let nanos = |key: &str| own[key].as_str().unwrap().parse::<u64>().unwrap() as f64 / 1e9;
            let span = &report["window"]["spans"][window as usize];
            let long = span["until"].as_f64().unwrap() - span["from"].as_f64().unwrap();
            assert!(is_near(nanos("timeUnixNano") - nanos("startTimeUnixNano"), long), "{own}");
            compared += 1;
        }
        let is_task = report["profile"].is_object();
        assert!(compared > 10 || is_task, "{compared}");
        for row in report["profile"]["components"].as_array().unwrap_or(&Vec::new()) {
            let times = metrics.iter().find(|metric| metric["name"] == "task.component.seconds").unwrap();
            let own = times["gauge"]["dataPoints"].as_array().unwrap().iter();
            let own = own.clone().find(|point| otlp_attribute(point, "rdiag.component") == row["id"]).unwrap();
            assert_eq!(own["asDouble"].as_f64(), row["seconds"].as_f64());
        }
        assert!(otlp_records(&lines, "resourceSpans", "scopeSpans", "spans").is_empty(), "no runs were asked for");
    }
}

/// The task of a recording as twenty runs of a command.
fn of_twenty_runs(folder: &Path) -> std::path::PathBuf {
    let bytes = std::fs::read(path("tests/fixtures/recordings/orders-dsync.json.gz")).unwrap();
    let mut recording = serde_json::to_value(rdiag_session::read_recording(&bytes).unwrap()).unwrap();
    recording["target"]["pids"] = json!([27219]);
    recording["target"]["each"] = json!(true);
    let ledger = &mut recording["windows"][0]["ledgers"]["response"]["Ok"];
    let one = ledger["threads"][0].clone();
    let run = |at: u32| {
        let mut run = one.clone();
        (run["tid"], run["pid"]) = (json!(1000 + at), json!(1000 + at));
        let (began, long) = (f64::from(at) * 0.1, 0.01 * f64::from(at + 1));
        (run["began"], run["ended"], run["seconds"]) = (json!(began), json!(began + long), json!(long));
        run["parts"] =
            json!([{"component": "io.block.write", "key": "a\u{202e}b", "seconds": long, "accuracy": "exact"}]);
        run
    };
    ledger["threads"] = (0..20).map(run).collect();
    let file = folder.join("runs.json");
    std::fs::write(&file, recording.to_string()).unwrap();
    file
}

#[test]
fn each_run_of_a_command_is_a_span_and_a_slice() {
    let folder = tempfile::tempdir().unwrap();
    let file = of_twenty_runs(folder.path());
    let report = exported_json(&file, "json");
    assert_eq!(report["profile"]["runs"]["count"], 20);
    let spans = otlp_records(&exported(&file, "otlp"), "resourceSpans", "scopeSpans", "spans");
    let trace = exported_json(&file, "perfetto");
    let slices = trace_events(&trace, "X", "run");
    assert_eq!((spans.len(), slices.len()), (20, 20));
    for run in report["profile"]["runs"]["slowest"].as_array().unwrap() {
        let (number, seconds) = (run["number"].as_u64().unwrap(), run["seconds"].as_f64().unwrap());
        let told = number.to_string();
        let span = spans.iter().find(|span| otlp_attribute(span, "rdiag.run") == told).unwrap();
        let slice = slices.iter().find(|slice| slice["name"] == format!("run {number}")).unwrap();
        let nanos = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(is_near((nanos("endTimeUnixNano") - nanos("startTimeUnixNano")) as f64 / 1e9, seconds), "{span}");
        assert!(is_near(stretch(slice).0, run["at"].as_f64().unwrap()), "{slice}");
        for part in run["parts"].as_array().unwrap() {
            let id = part[0].as_str().unwrap();
            assert_eq!(otlp_attribute(span, &format!("rdiag.seconds.{id}")), part[1]);
            assert_eq!(slice["args"]["parts (s)"][id], part[1]);
        }
    }
    // Of the report alone there are the slowest, under the same ids.
    let alone = folder.path().join("report.json");
    std::fs::write(&alone, report.to_string()).unwrap();
    let fewer = otlp_records(&exported(&alone, "otlp"), "resourceSpans", "scopeSpans", "spans");
    assert!(fewer.len() == 16 && fewer.iter().all(|one| spans.iter().any(|all| all["traceId"] == one["traceId"])));
}

#[test]
fn exports_go_into_folders_and_files_and_what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let recording = path(EXPORTED[1]);
    let out = |name: &str| folder.path().join(name);
    let export = |from: &Path, format: &str, to: &Path| {
        rdiag().arg("report").arg(from).args(["--format", format, "--out"]).arg(to).output().unwrap()
    };
    assert!(export(&recording, "perfetto,otlp,json", &out("all")).status.success());
    for (format, in_folder, alone) in
        [("perfetto", "report.perfetto.json", "trace.json"), ("otlp", "report.otlp.jsonl", "x.jsonl")]
    {
        assert!(export(&recording, format, &out(alone)).status.success());
        let [one, other] = [out("all").join(in_folder), out(alone)].map(|file| std::fs::read_to_string(file).unwrap());
        assert_eq!(one, other);
        let by_name = rdiag().arg("analyze").arg(&recording).arg("--out").arg(out(in_folder)).output().unwrap();
        assert!(by_name.status.success() && std::fs::read_to_string(out(in_folder)).unwrap() == one, "{format}");
        std::fs::write(out("profile.folded"), "main;work 7\n").unwrap();
        let profile = rdiag().arg("analyze").arg(out("profile.folded")).args(["--format", format]).output().unwrap();
        let said = String::from_utf8_lossy(&profile.stderr).into_owned();
        assert!(profile.status.code() == Some(2) && said.contains("is for recordings"), "{said}");
    }
    assert_eq!(export(&recording, "html", &out("y.jsonl")).status.code(), Some(2));
    // Rows are made of a recording; a report does not hold them.
    let rows = exported(&recording, "rows");
    assert!(rows.lines().count() > 100 && rows.starts_with("{\"tbl\":\"runs\""), "{}", rows.lines().count());
    let refused = export(&out("all").join("report.json"), "rows", &out("z.ndjson"));
    assert!(
        refused.status.code() == Some(2) && String::from_utf8_lossy(&refused.stderr).contains("made of a recording")
    );
}
