//! Rows: the four tables that engines join over many hosts, and recordings that come on stdin.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rdiag_model::rows::Row;
use serde_json::{Value, json};

use crate::schema::validate;
use crate::support::{path, rdiag};

/// A packed recording of a recorded tree.
fn packed(story: &str) -> Vec<u8> {
    let root = path("tests/fixtures/hosts").join(story);
    let output = rdiag().args(["record", "use-method", "-o", "-", "--root"]).arg(root).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// The same as another host, with something changed.
fn as_host(packed: &[u8], host: &str, change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut value = serde_json::to_value(rdiag_session::read_recording(packed).unwrap()).unwrap();
    value["host"]["hostname"] = json!(host);
    change(&mut value);
    let mut bytes = Vec::new();
    rdiag_session::write_recording(&serde_json::from_value(value).unwrap(), &mut bytes).unwrap();
    bytes
}

fn lines(output: &std::process::Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn of<'r>(rows: &'r [Value], table: &str) -> Vec<&'r Value> {
    rows.iter().filter(|row| row["tbl"] == table).collect()
}

#[test]
fn the_rows_of_a_recording_follow_their_schema_and_name_what_hosts_have_in_common() {
    let input = packed("whole-host-short-of-cpu");
    let output = rdiag().args(["analyze", "-", "--format", "rows"]).write_stdin(input.clone()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = lines(&output);
    rows.iter().for_each(|row| validate("rows", row));
    assert_eq!(of(&rows, "runs").len(), 1);
    assert_eq!(rows.iter().map(|row| row["run"].as_str().unwrap()).collect::<BTreeSet<_>>().len(), 1);
    let readings = of(&rows, "readings");
    let disk = readings.iter().find(|row| row["dimension"] == "device").unwrap();
    assert_eq!((disk["instance"].as_str(), disk["role"].as_str()), (Some("vda"), Some("disk:root")));
    // Processes by name, added up: the six loops are one row.
    let cpu: Vec<&&Value> = readings.iter().filter(|row| row["metric"] == "process.cpu.seconds").collect();
    let roles: BTreeSet<&str> = cpu.iter().map(|row| row["role"].as_str().unwrap()).collect();
    assert_eq!(roles.len(), cpu.len(), "each name once");
    let loops = cpu.iter().find(|row| row["role"] == "process:stress-ng-cpu").unwrap();
    let metrics = rdiag().args(["analyze", "-", "--print", "metrics"]).write_stdin(input).output().unwrap();
    let metrics: Value = serde_json::from_slice(&metrics.stdout).unwrap();
    let names = &metrics[0]["labels"]["process"];
    let single = metrics[0]["readings"]["process.cpu.seconds"]["measured"]["instances"].as_object().unwrap();
    let own = single.iter().filter(|(pid, _)| names[pid.as_str()]["name"] == "stress-ng-cpu");
    let own: Vec<f64> = own.map(|(_, stats)| stats["Ok"]["total"].as_f64().unwrap()).collect();
    assert!(own.len() > 1 && loops["instances"].as_u64() == Some(own.len() as u64), "{own:?} {loops}");
    assert!((loops["total"].as_f64().unwrap() - own.iter().sum::<f64>()).abs() < 1e-6);
    assert!(loops["max"].is_null() && loops["value"].is_null(), "the largest of each is no largest of all");
    // Findings hold what is unknown as well, and facts how the host is set up.
    let findings = of(&rows, "findings");
    let fired = findings.iter().find(|row| row["rule"] == "cpu.saturation").unwrap();
    assert_eq!((fired["status"].as_str(), fired["culprit"].as_str()), (Some("critical"), Some("stress-ng-cpu")));
    let facts: BTreeMap<&str, &str> =
        of(&rows, "facts").iter().map(|row| (row["fact"].as_str().unwrap(), row["text"].as_str().unwrap())).collect();
    assert_eq!((facts["cpus"], facts["sysctl vm.overcommit_memory"]), ("2", "0"), "{facts:?}");
}

#[test]
fn rows_go_beside_reports_into_a_folder_and_into_a_file_of_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web-1.json.gz");
    std::fs::write(&file, packed("whole-host-quiet")).unwrap();
    let run = |out: &Path, more: &[&str]| rdiag().arg("analyze").arg(&file).arg("--out").arg(out).args(more).assert();
    run(&folder.path().join("own.ndjson"), &[]).success();
    run(&folder.path().join("all"), &["--format", "json,rows"]).success();
    let [one, other] =
        ["own.ndjson", "all/rows.ndjson"].map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap());
    assert_eq!(one, other);
    let row: Row = serde_json::from_str(one.lines().next().unwrap()).unwrap();
    assert!(matches!(row, Row::Runs(_)));
    let refused = rdiag().args(["fleet", "-", "--out"]).arg(folder.path().join("x.ndjson")).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn rows_of_a_fleet_have_its_groups_and_a_row_for_each_host_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = packed("whole-host-quiet");
    for host in ["web-1", "web-2", "db-1"] {
        std::fs::write(folder.path().join(format!("{host}.json.gz")), as_host(&quiet, host, |_| {})).unwrap();
    }
    std::fs::write(folder.path().join("web-3.json.gz"), b"").unwrap();
    std::fs::write(folder.path().join("hosts"), "web-1\nweb-4\tno route to\thost\n").unwrap();
    let mut run = rdiag();
    run.arg("fleet").arg(folder.path()).args(["--group", "web=web-*", "--format", "rows", "--expect"]);
    let output = run.arg(folder.path().join("hosts")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = lines(&output);
    rows.iter().for_each(|row| validate("rows", row));
    let runs: BTreeMap<&str, (&str, Option<&str>)> = of(&rows, "runs")
        .iter()
        .map(|row| (row["host"].as_str().unwrap(), (row["grp"].as_str().unwrap(), row["not_judged"].as_str())))
        .collect();
    let expected = [
        ("db-1", ("", None)),
        ("web-1", ("web", None)),
        ("web-2", ("web", None)),
        ("web-3", ("", Some("unreachable"))),
        ("web-4", ("", Some("unreachable"))),
    ];
    assert_eq!(runs, expected.into());
    let gone = of(&rows, "runs").into_iter().find(|row| row["host"] == "web-4").unwrap();
    assert_eq!((gone["headline"].as_str(), gone["verdict"].as_str()), (Some("no route to\thost"), Some("unknown")));
    let runs: BTreeSet<&str> = rows.iter().map(|row| row["run"].as_str().unwrap()).collect();
    assert_eq!(runs.len(), 5, "the same recording under three names is three runs");
}

#[test]
fn recordings_on_stdin_give_what_their_files_give_and_a_damaged_one_costs_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (quiet, sick) = (packed("whole-host-quiet"), packed("whole-host-short-of-cpu"));
    let mut stream = Vec::new();
    for n in 0..70 {
        let host = format!("web-{n:02}");
        let bytes = as_host(if n == 7 { &sick } else { &quiet }, &host, |_| {});
        std::fs::write(folder.path().join(format!("{host}.json.gz")), &bytes).unwrap();
        stream.extend(bytes);
        if n == 30 {
            stream.extend(&quiet[..3000]);
            stream.extend(b"ssh: connect to host web-99: no route\n");
        }
    }
    let json = |run: &mut assert_cmd::Command| {
        let output = run.args(["--format", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let files = json(rdiag().arg("fleet").arg(folder.path()));
    let piped = json(rdiag().args(["fleet", "-"]).write_stdin(stream));
    assert_eq!(files["odd"], piped["odd"]);
    assert_eq!((&files["judged"], &files["compared"]), (&piped["judged"], &piped["compared"]));
    let gaps: Vec<(&str, &str)> = piped["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| (gap["host"].as_str().unwrap(), gap["detail"].as_str().unwrap()))
        .collect();
    let [(host, why)] = gaps.as_slice() else { panic!("{gaps:?}") };
    assert!(*host == "stdin:32" && why.contains("cut off or damaged"), "{gaps:?}");
    let nothing = rdiag().args(["fleet", "-"]).write_stdin("").output().unwrap();
    assert_eq!(nothing.status.code(), Some(3), "no host could be judged");
    let both = rdiag().args(["fleet", "-"]).arg(folder.path()).write_stdin("").output().unwrap();
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_fact_that_sets_the_odd_host_apart_is_named_before_what_follows_from_its_hardware() {
    let (quiet, sick) = (packed("whole-host-quiet"), packed("whole-host-short-of-cpu"));
    let mut stream = Vec::new();
    for n in 0..12 {
        let is_odd = n == 7;
        stream.extend(as_host(if is_odd { &sick } else { &quiet }, &format!("web-{n}"), |recording| {
            let governor = if is_odd { "powersave" } else { "performance" };
            // Of the same machine otherwise, so that only what is planted differs.
            recording["host"]["kernel"] = json!("6.12.0");
            recording["setup"]["facts"] =
                json!({"governor": governor, "microcode": if is_odd { "0x1" } else { "0x2" }});
            recording["setup"]["clock"] = json!({"synchronized": n != 3, "max_error_seconds": 0.01});
        }));
    }
    let output = rdiag().args(["fleet", "-", "--format", "term"]).write_stdin(stream).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(
        at("the only one with governor=powersave (most others: performance)") < at("the only one with microcode=0x1")
    );
    assert!(text.contains("The clocks of 1 hosts are not synchronized"), "{text}");
}

#[test]
fn a_recording_as_text_says_what_must_come_through_and_comes_back_whole() {
    let root = path("tests/fixtures/hosts/whole-host-quiet");
    let output = rdiag().args(["record", "use-method", "--armor", "-o", "-", "--root"]).arg(&root).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let head: Vec<&str> = text.lines().next().unwrap().split(' ').collect();
    let mut run = std::process::Command::new("sh");
    // As one without rdiag would take it apart.
    run.args(["-c", "sed '/^RDIAG1/d' | base64 -d"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut run = run.spawn().unwrap();
    std::io::Write::write_all(&mut run.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let bytes = run.wait_with_output().unwrap().stdout;
    let sum: String = sha2::Digest::finalize(sha2::Digest::chain_update(<sha2::Sha256 as sha2::Digest>::new(), &bytes))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(head, ["RDIAG1", &bytes.len().to_string(), &sum]);
    assert!(text.ends_with("\nRDIAG1 END\n") && rdiag_session::read_recording(&bytes).is_ok());
    // A log that was saved: a file, which could as well be folded text.
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("pod.log");
    std::fs::write(&log, format!("{}\n{text}done 1\n", "starting;rdiag 12\n".repeat(200))).unwrap();
    let analyzed = rdiag().args(["analyze", "--format", "md", "--out", "-"]).arg(&log).output().unwrap();
    let report = String::from_utf8_lossy(&analyzed.stdout).into_owned();
    assert!(report.contains("use-method"), "{report:.300}{}", String::from_utf8_lossy(&analyzed.stderr));
    let refused = rdiag().args(["record", "use-method", "--armor", "--root"]).arg(&root).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_finding_about_a_control_group_names_pod_container_and_namespace() {
    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let throttled = packed("cgroup-v2-throttled");
    let before = rdiag().args(["analyze", "-", "--print", "findings"]).write_stdin(throttled.clone()).output().unwrap();
    let before: Value = serde_json::from_slice(&before.stdout).unwrap();
    let is_fired = |finding: &&Value| {
        finding["instance"].is_string() && finding["status"] == "warning" || finding["status"] == "critical"
    };
    let own = before
        .as_array()
        .unwrap()
        .iter()
        .filter(is_fired)
        .find(|it| it["id"].as_str().unwrap().contains("throttl"))
        .unwrap();
    let group = own["instance"].as_str().unwrap();
    let uid = "8e2a6bcb_5b49_4b71_9a9c_0d9a0f1f5d3e";
    // The recorded groups of each runtime and driver, by renaming the group that was throttled.
    for place in [
        format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{ID}.scope"),
        format!("/kubepods.slice/kubepods-pod{uid}.slice/crio-{ID}.scope"),
        format!("/kubepods/burstable/pod{}/{ID}", uid.replace('_', "-")),
        format!("/docker/{ID}"),
    ] {
        let recording = serde_json::to_string(&rdiag_session::read_recording(&throttled).unwrap()).unwrap();
        let mut recording: Value =
            serde_json::from_str(&recording.replace(&format!("\"{group}\""), &format!("\"{place}\""))).unwrap();
        recording["setup"]["containers"] = json!({ID: {"namespace": "shop", "pod": "web-1", "container": "app"}});
        let output =
            rdiag().args(["analyze", "-", "--format", "rows"]).write_stdin(recording.to_string()).output().unwrap();
        let rows = lines(&output);
        let found = of(&rows, "findings").into_iter().find(|row| row["instance"] == *place && row["rule"] == own["id"]);
        let found = found.unwrap_or_else(|| panic!("{place}: {}", String::from_utf8_lossy(&output.stderr)));
        assert!(found["summary"].as_str().unwrap().contains("pod shop/web-1, container app"), "{found}");
        assert_eq!(found["role"], "container:shop/app");
    }
}

/// `readings.value number,null`: all columns of the schema, each with its types.
fn columns() -> BTreeSet<String> {
    let schema = serde_json::to_value(schemars::schema_for!(Row)).unwrap();
    let mut all = BTreeSet::new();
    for table in schema["oneOf"].as_array().unwrap() {
        let name = table["properties"]["tbl"]["const"].as_str().unwrap();
        let reference = table["$ref"].as_str().unwrap().trim_start_matches('#');
        for (column, value) in schema.pointer(reference).unwrap()["properties"].as_object().unwrap() {
            let kind = match &value["type"] {
                Value::Null => value["$ref"].as_str().unwrap_or("any").rsplit('/').next().unwrap().to_owned(),
                Value::String(kind) => kind.clone(),
                kinds => {
                    kinds.as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect::<Vec<_>>().join(",")
                }
            };
            all.insert(format!("{name}.{column} {kind}"));
        }
    }
    all
}

/// `reports/schema/rows.columns` lists each column there ever was. `RDIAG_BLESS=1` adds to it and takes nothing away.
#[test]
fn columns_are_only_ever_added() {
    let file = path("reports/schema/rows.columns");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let known: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let now = columns();
    assert!(now.len() > 60, "{now:?}");
    let gone: Vec<&String> = known.difference(&now).collect();
    assert!(
        gone.is_empty(),
        "queries of users read these columns, which are no longer there or of another type: {gone:?}"
    );
    if std::env::var_os("RDIAG_BLESS").is_some() {
        let lines: String = now.iter().map(|column| format!("{column}\n")).collect();
        std::fs::write(&file, lines).unwrap();
    } else {
        assert!(known == now, "new columns: RDIAG_BLESS=1 cargo test columns lists them");
    }
}
