//! Times that other programs recorded (sysstat, atop, PCP, below), judged by the shipped binary.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

mod atop;
mod below;
mod journal;
mod pcp;

use serde_json::Value;

use crate::support::rdiag;

/// What sadf prints of some intervals of ten minutes: how busy both CPUs were, and the pressure.
pub(crate) fn sadf(intervals: &[(&str, f64, f64)]) -> String {
    let statistics: Vec<Value> = intervals
        .iter()
        .map(|(time, busy, pressure)| {
            let cpu = |name: &str| serde_json::json!({"cpu": name, "usr": busy, "sys": 0.0, "iowait": 0.0, "idle": 100.0 - busy});
            serde_json::json!({
                "timestamp": {"date": "2026-03-10", "time": time, "utc": 1, "interval": 600},
                "cpu-load": [cpu("all"), cpu("0"), cpu("1")],
                "queue": {"runq-sz": 9, "plist-sz": 200, "ldavg-1": 9.1, "ldavg-5": 8.0, "ldavg-15": 7.0},
                "memory": {"memfree": 1_000_000, "avail": 3_000_000, "memused": 1_000_000, "memused-percent": 25.0,
                    "buffers": 0, "cached": 2_000_000, "slab": 0, "swpfree": 0, "swpused": 0},
                "psi": {"psi-cpu": {"some_avg": pressure}},
            })
        })
        .collect();
    let host = serde_json::json!({"nodename": "db-1", "release": "6.1.0", "machine": "x86_64", "number-of-cpus": 2, "statistics": statistics});
    serde_json::json!({"sysstat": {"hosts": [host]}}).to_string()
}

fn of_sysstat(text: &[u8], at: &str) -> (Option<i32>, Value, String) {
    told_elsewhere("--sysstat", "10m", text, at)
}

/// What use-method says of a time that another program recorded.
pub(crate) fn told_elsewhere(option: &str, last: &str, text: &[u8], at: &str) -> (Option<i32>, Value, String) {
    let mut command = rdiag();
    command.args(["run", "use-method", "--at", at, "--last", last, option, "-", "--format", "json", "--out", "-"]);
    let output = command.write_stdin(text).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

#[test]
fn sysstat_alone_gives_a_verdict_on_its_means_with_low_confidence_and_no_culprit() {
    let text = sadf(&[("03:00:01", 5.0, 1.0), ("03:10:01", 99.0, 85.0), ("03:20:01", 5.0, 1.0)]);
    let (code, report, said) = of_sysstat(text.as_bytes(), "2026-03-10T03:09:00Z");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Source: sysstat, means over 10 min: a burst of a minute may hide in them"), "{said}");
    assert_eq!(report["host"]["hostname"], "db-1");
    let of = |rule: &str| crate::support::finding(&report, rule, None).clone();
    let queue = of("cpu.saturation.runnable");
    assert!(["warning", "critical"].contains(&queue["status"].as_str().unwrap()), "{queue:#}");
    assert_eq!((&queue["confidence"], &queue["culprit"]), (&"low".into(), &Value::Null), "{queue:#}");
    assert_eq!(report["window"]["seconds"], 600.0);
    assert_eq!(of("cpu.utilization")["status"], "warning", "{:#}", of("cpu.utilization"));
    assert_eq!(of("kernel.errors.bug")["status"], "unknown");
    // Ten minutes later it was quiet.
    let (_, report, _) = of_sysstat(text.as_bytes(), "2026-03-10T03:19:00Z");
    let of = |rule: &str| crate::support::finding(&report, rule, None)["status"].as_str().unwrap().to_owned();
    assert_eq!(of("cpu.utilization"), "ok");
}

#[test]
fn the_hour_around_a_time_is_shown_from_what_sysstat_has_of_it_and_a_gap_is_none_of_idleness() {
    let times = ["02:40:01", "02:50:01", "03:00:01", "03:10:01", "03:30:01", "03:40:01", "05:00:01"];
    let busy = [10.0, 20.0, 5.0, 99.0, 30.0, 40.0, 80.0];
    let intervals: Vec<(&str, f64, f64)> =
        times.into_iter().zip(busy).map(|(time, busy)| (time, busy, busy / 2.0)).collect();
    let text = sadf(&intervals);
    let (code, report, said) = of_sysstat(text.as_bytes(), "2026-03-10T03:09:00Z");
    assert_eq!(code, Some(0), "{said}");
    crate::schema::validate("report", &report);
    let around = &report["around"];
    assert_eq!(around["source"], "sysstat, means over 10 min", "{around:#}");
    let slices = around["slices"].as_array().unwrap();
    let at =
        |seconds: f64| slices.iter().find(|slice| slice["seconds"] == seconds).unwrap_or_else(|| panic!("{around:#}"));
    // Between 03:00:01 and 03:10:01 is what was judged.
    for (seconds, busy) in
        [(-1800.0, 0.1), (-1200.0, 0.2), (-30.0, 0.05), (0.0, 0.99), (570.0, 0.99), (1200.0, 0.3), (1800.0, 0.4)]
    {
        let slice = at(seconds);
        let is_near = |value: &Value, wanted: f64| value.as_f64().is_some_and(|value| (value - wanted).abs() < 1e-6);
        assert!(is_near(&slice["cpu"], busy), "{seconds}: {slice:#}");
        assert!(is_near(&slice["pressure"]["cpu_some"], busy / 2.0), "{seconds}: {slice:#}");
        assert_eq!((&slice["pressure"]["io_some"], &slice["top_cpu"]), (&Value::Null, &Value::Null));
    }
    assert_eq!((&at(600.0)["cpu"], &at(1170.0)["pressure"]), (&Value::Null, &Value::Null), "nothing was recorded then");
    assert_eq!(around["unrecorded"][0]["span"], serde_json::json!({"from": 600.0, "until": 1200.0}), "{around:#}");
    // Of a file that has nothing beside the time, there is none.
    let (_, report, _) = of_sysstat(sadf(&[("03:10:01", 99.0, 85.0)]).as_bytes(), "2026-03-10T03:09:00Z");
    assert_eq!((&report["around"], &report["window"]["seconds"]), (&Value::Null, &600.0.into()));
}

#[test]
fn what_is_no_output_of_sadf_says_what_to_type() {
    let file_of_sysstat = [0x96, 0xd5, 0x75, 0x21, 12, 6, 1, 0, 0, 0];
    let mut archive = vec![0; 257];
    archive.extend(b"ustar");
    let cases: [(&[u8], &str); 19] = [
        (&file_of_sysstat[..4], "it is a file of sysstat (cut off before its version), which"),
        (&file_of_sysstat, "it is a file of sysstat 12.6.1, which sysstat's own sadf reads: sadf -j FILE"),
        (b"{\"sysstat\": {\"hosts\": [{\"nodename\": \"a\", ", "nothing that `sadf -j FILE -- -A` prints"),
        (
            b"hello",
            "nothing that `sadf -j FILE -- -A`, `sadf -x`, `atop -r FILE -J ALL`, `pcp2json` or `below dump TABLE",
        ),
        (b"{\"sysstat\": {\"hosts\": []}}", "it names no host"),
        (b"", "it is empty"),
        (b"\xef\xbe\xed\xfe\x08\x82", "it is a raw log of atop, which atop itself reads: atop -r FILE -J ALL"),
        (
            b"\0\0\0\x84\x50\x05\x26\x02",
            "its own pcp2json takes: `pcp2json -a ARCHIVE -Z UTC -f %s.%f -r -H -5 -I hinv.ncpu",
        ),
        (
            b"{ \"//\": \"Writing 5 archived metrics to stdout...\" }\n{\"@pcp\": 1}",
            "nothing that pcp2json prints of an archive",
        ),
        (b"\xfd7zXZ\0", "it is cut off: the file is incomplete, so copy it again"),
        (b"\x1f\x8b\x08", "it is cut off: the file is incomplete"),
        (b"\x1f\x8b\x08 what is no deflate stream", "it is damaged and cannot be unpacked: "),
        (b"BZh91AY&SY", "it is packed with bzip2: unpack it (an archive with `tar xf FILE`"),
        (b"\x28\xb5\x2f\xfd\x04", "a single file with `zstd -dk FILE`"),
        (
            b"[{\"Datetime\":\"2026-03-10 03:00:00\",\"Usage\":\"9.5\"",
            "table 1 of it is nothing that `below dump -O json` prints: EOF",
        ),
        (&archive, "it is cut off: the archive is incomplete"),
        (b"<?xml version=\"1.0\"?>", "it is XML, and nothing that `sadf -x FILE -- -A` prints"),
        (b"<?xml version=\"1.0\"?><sysstat><host", "nothing that `sadf -x FILE -- -A` prints: syntax error"),
        (b"{\"host\": \"web-03\", \"timestamp\": 17", "nothing that `atop -r FILE -J ALL` prints: line 1"),
    ];
    for (text, wanted) in cases {
        let (code, _, said) = of_sysstat(text, "2026-03-10T03:09:00Z");
        assert!(code == Some(2) && said.contains(wanted), "{said}");
    }
    let (code, _, said) = of_sysstat(sadf(&[("03:00:01", 5.0, 1.0)]).as_bytes(), "2026-03-11T03:09:00Z");
    assert!(code == Some(2) && said.contains("sysstat has nothing between"), "{said}");
}

#[test]
fn two_times_of_sysstat_are_compared_from_one_file_or_from_one_of_each_day() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (quiet, busy) = (("03:00:01", 5.0, 1.0), ("03:10:01", 99.0, 85.0));
    let compared = |files: &[&String]| {
        let mut command = rdiag();
        command.args(["diff", "--at", "2026-03-10T03:09:00Z", "--at", "2026-03-10T02:59:00Z", "--last", "9m"]);
        for file in files {
            command.args(["--from", file]);
        }
        let output = command.args(["--format", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let both = compared(&[&file("both.json", sadf(&[quiet, busy]))]);
    let worse = both["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "cpu.utilization");
    let worse = worse.unwrap_or_else(|| panic!("{both:#}"));
    assert_eq!(worse["after"], "warning", "{worse:#}");
    let name = both["before"]["file"].as_str().unwrap();
    assert!(name.starts_with("sysstat, "), "{name}");
    let notes = both["notes"].to_string();
    assert!(notes.contains("both: Source: sysstat, means over 10 min"), "{notes}");
    let (early, late) = (file("early.json", sadf(&[quiet])), file("late.json", sadf(&[busy])));
    assert_eq!(compared(&[&early, &late])["findings"], both["findings"], "the first file is that of the earlier time");
}

/// A finding names the four processes that compute in the recordings of atop, PCP and below, and no burst can hide between their samples.
fn assert_names_the_job(finding: &Value) {
    assert!(["warning", "critical"].contains(&finding["status"].as_str().unwrap()), "{finding:#}");
    let culprit = &finding["culprit"];
    assert_eq!((&culprit["name"], &culprit["count"]), (&"report-job".into(), &4.into()), "{finding:#}");
    assert!(!finding.to_string().contains("a burst may hide"), "{finding:#}");
}

/// What a rule says of a device.
fn of_device(report: &Value, rule: &str, device: &str) -> (String, String) {
    let found = crate::support::finding(report, rule, Some(device));
    let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (word("status"), word("summary"))
}

#[test]
fn a_disk_of_which_nothing_but_its_name_is_known_is_judged_as_far_as_that_goes() {
    let mut recorded: Value = serde_json::from_str(&sadf(&[("03:10:01", 5.0, 1.0)])).unwrap();
    let disk = |name: &str, busy: f64| serde_json::json!({"disk-device": name, "tps": 90.0, "rkB": 4000.0, "wkB": 100.0, "aqu-sz": 0.9, "util-percent": busy});
    recorded["sysstat"]["hosts"][0]["statistics"][0]["disk"] =
        serde_json::json!([disk("sda", 95.0), disk("sdb", 20.0), disk("vda", 95.0)]);
    let (_, report, said) = of_sysstat(recorded.to_string().as_bytes(), "2026-03-10T03:09:00Z");
    let of = |device: &str| of_device(&report, "disk.utilization", device);
    let why = "whether that is much depends on the class of the device, which is not known";
    assert_eq!(of("sda"), ("unknown".to_owned(), why.to_owned()), "{said}");
    assert_eq!(of("sdb"), ("ok".to_owned(), "sdb was 20.0% busy (%util).".to_owned()));
    let (status, summary) = of("vda");
    assert!(status == "ok" && summary.contains("it serves many requests at once"), "{summary}");
    for finding in report["findings"].as_array().unwrap() {
        assert!(!finding["summary"].as_str().unwrap().contains('`'), "code of a rule in a sentence: {finding:#}");
    }
}

/// Three seconds of `sadc -S XALL 1`, as sadf 12 prints them with `-A`.
#[test]
fn what_sadf_prints_of_a_real_host_is_judged() {
    let text = std::fs::read(crate::support::path("tests/fixtures/sysstat/sadf.json")).unwrap();
    let (code, report, said) = of_sysstat(&text, "2026-11-25T16:45:19Z");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((&report["host"]["cpus"], &report["host"]["hostname"]), (&2.into(), &"host".into()));
    let of = |rule: &str| crate::support::finding(&report, rule, None)["status"].as_str().unwrap().to_owned();
    assert_eq!(of("cpu.utilization"), "warning", "both CPUs were busy");
    assert_eq!(of("memory.saturation"), "ok");
}

#[test]
fn the_documentation_has_the_command_that_errors_give() {
    let docs = std::fs::read_to_string(crate::support::path("docs/history.md")).unwrap();
    let docs = docs.replace('\\', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, _, said) = of_sysstat(b"\0\0\0\x84\x50\x05\x26\x02", "2026-03-10T03:09:00Z");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, options) = said.split_once("ARCHIVE ").unwrap();
    let (options, _) = options.split_once('`').unwrap();
    assert!(options.ends_with("proc.io") && docs.contains(options), "{options}");
    let (_, _, said) = of_sysstat(b"[[{\"Pid\":\"1\",\"Timestamp\":\"1773111600\"}]]", "2026-03-10T03:09:00Z");
    let (_, command) = said
        .split_once('`')
        .and_then(|(_, rest)| rest.split_once('`'))
        .and_then(|(_, rest)| rest.split_once('`'))
        .unwrap();
    let (command, _) = command.split_once(" -b").unwrap();
    assert!(command.ends_with("--raw -O json") && docs.contains(command), "{command}");
}

#[test]
fn a_time_that_is_over_is_exported_like_any_other() {
    let text = sadf(&[("03:00:01", 5.0, 1.0), ("03:10:01", 99.0, 85.0), ("03:20:01", 5.0, 1.0)]);
    for (format, begins) in
        [("rows", "{\"tbl\":\"runs\""), ("otlp", "{\"resourceMetrics\""), ("perfetto", "{\"displayTimeUnit\"")]
    {
        let mut command = rdiag();
        command.args(["report", "--at", "2026-03-10T03:09:00Z", "--last", "10m", "--from", "-", "--format", format]);
        let output = command.write_stdin(text.clone()).output().unwrap();
        let (printed, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && printed.starts_with(begins), "{format}: {said}");
    }
}
