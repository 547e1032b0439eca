//! Profiles of programs whose split is known, against that split and against `perf record`.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::splitter::*;
use crate::support::{Load, Need, alone, finding, has, rdiag, wait_until};

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_known_split_of_a_c_program_is_found_with_its_lines() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let result = profiled(&load, "4s");
    assert_split(&result, &PARTS);
    let first = &rows(&result, "lines")[0];
    assert_eq!(cell(&result, "lines", first, "function"), "part_seventy");
    assert!(cell(&result, "lines", first, "line").as_str().unwrap().contains("split.c:"), "{first}");
    let process = &rows(&result, "processes")[0];
    assert_eq!(cell(&result, "processes", process, "function"), "part_seventy", "{process}");
    assert_eq!(cell(&result, "processes", process, "name"), "splitter", "{process}");
    let stacks = result["outputs"].as_array().unwrap().iter().find_map(|output| output.get("stacks")).unwrap();
    let largest = stacks["stacks"][0]["frames"].as_array().unwrap();
    let names: Vec<&str> =
        largest.iter().map(|at| stacks["frames"][at.as_u64().unwrap() as usize]["name"].as_str().unwrap()).collect();
    // A function that calls nothing has no frame of its own, so its caller may be missing.
    assert!(names.contains(&"main") && names.last() == Some(&"part_seventy"), "{names:?}");
    let whole = cell(&result, "host", &rows(&result, "host")[0], "value").as_f64().unwrap();
    assert!(whole <= result["seconds"].as_f64().unwrap() * 1.02, "one thread uses one CPU at most: {whole}");
}

#[test]
#[ignore = "needs: root, eBPF, c++, rustc"]
fn known_splits_of_cplusplus_and_rust_programs_are_found() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("c++"), Need::Tool("rustc")]) {
        return;
    }
    let (_folder, binary) = compiled(CPLUSPLUS, "split.cc", &["c++", "-O1", "-g", "-fno-omit-frame-pointer"]);
    let load = Load::start(1, &text_of(&binary), &[]);
    let result = profiled(&load, "3s");
    assert_split(&result, &[("7000>", 0.7), ("2000>", 0.2), ("1000>", 0.1)]);
    drop(load);
    let (_folder, binary) = compiled(RUST, "split.rs", &["rustc", "-O", "-g", "-Cforce-frame-pointers=yes"]);
    let load = Load::start(1, &text_of(&binary), &[]);
    assert_split(&profiled(&load, "3s"), &PARTS);
}

#[test]
#[ignore = "needs: root, eBPF, node"]
fn a_known_split_of_compiled_javascript_is_found_by_the_map_that_it_writes_and_its_want_is_told() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("node")]) {
        return;
    }
    let run = |args: &[&str]| {
        let load = Load::start(1, "node", args);
        std::thread::sleep(Duration::from_millis(1500));
        let result = profiled(&load, "3s");
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", load.pids()[0]));
        result
    };
    let named = run(&[
        "--perf-basic-prof",
        "--no-logfile-per-isolate",
        "--logfile=/dev/null",
        "--no-turbo-inlining",
        "-e",
        NODE,
    ]);
    assert_split(&named, &PARTS);
    let nameless = run(&["-e", NODE]);
    assert!(notes(&nameless).contains("was compiled at run time and has no names"), "{}", notes(&nameless));
}

#[test]
#[ignore = "needs: root, eBPF, cc, perf"]
fn a_profile_equals_that_of_perf_record_of_the_same_load() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("perf")]) {
        return;
    }
    let (folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let (pid, data) = (load.pids()[0].to_string(), text_of(&folder.path().join("perf.data")));
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-o", &data, "-p", &pid, "--", "sleep", "4"]);
    let mut record = record.spawn().unwrap();
    let result = profiled(&load, "4s");
    assert!(record.wait().unwrap().success());
    let report = ["report", "-i", &data, "--no-children", "-g", "none", "--stdio", "-F", "overhead,sym", "-t", "|"];
    let report = Command::new("perf").args(report).output().unwrap();
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    for (name, _) in PARTS {
        let line = report.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {report}"));
        let theirs: f64 = line.split('%').next().unwrap().trim().parse::<f64>().unwrap() / 100.0;
        let ours = share(&result, name);
        assert!((theirs - ours).abs() < 0.04, "{name}: {ours} here, {theirs} by perf");
    }
}

#[test]
#[ignore = "needs: root, eBPF, dd"]
fn a_load_in_the_kernel_shows_the_kernels_functions_and_its_share() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("dd")]) {
        return;
    }
    let load = Load::start(1, "dd", &["if=/dev/zero", "of=/dev/null", "bs=1M"]);
    let result = profiled(&load, "2s");
    let host = &rows(&result, "host")[0];
    assert!(cell(&result, "host", host, "kernel").as_f64().unwrap() > 0.8, "{host}");
    let first = &rows(&result, "functions")[0];
    assert_eq!(
        (cell(&result, "functions", first, "mode"), cell(&result, "functions", first, "object")),
        (&"kernel".into(), &"[kernel]".into())
    );
    let stacks = result["outputs"].as_array().unwrap().iter().find_map(|output| output.get("stacks")).unwrap();
    let named = |text: &str| {
        stacks["frames"].as_array().unwrap().iter().any(|frame| frame["name"].as_str().unwrap().contains(text))
    };
    assert!(named("read") && named("_zero"), "{}", stacks["frames"]);
}

#[test]
#[ignore = "needs: root, eBPF, cc, strip"]
fn a_stripped_binary_is_told_and_a_process_that_has_ended_keeps_its_names() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("strip")]) {
        return;
    }
    let (folder, binary) = c_program();
    let load = Load::start(1, "timeout", &["3", &text_of(&binary)]);
    let result = profile(&["--comm", "splitter", "--param", "hz=499", "--duration", "5s"]);
    assert!(share(&result, "part_seventy") > 0.5, "{:#?}", rows(&result, "functions"));
    drop(load);
    let bare = folder.path().join("bare");
    assert!(Command::new("strip").arg("-o").arg(&bare).arg(&binary).status().unwrap().success());
    let load = Load::start(1, &text_of(&bare), &[]);
    let result = profiled(&load, "1s");
    let first = &rows(&result, "functions")[0];
    assert_eq!(cell(&result, "functions", first, "name"), "[no symbols: bare]");
    assert_eq!(cell(&result, "functions", first, "object"), "bare");
    assert!(notes(&result).contains("has no function names (bare "), "{}", notes(&result));
}

#[test]
#[ignore = "needs: root, eBPF, cc, a quiet machine"]
fn the_playbook_for_hot_cpus_and_the_drill_down_name_process_function_and_line() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc")]) {
        return;
    }
    let (_folder, binary) = c_program();
    let _load = Load::start(6, &text_of(&binary), &[]);
    for playbook in ["cpu-hot", "use-method"] {
        let args = ["run", playbook, "--duration", "5s", "--format", "json", "--out", "-", "--no-guided"];
        let output = rdiag().args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let headline = report["verdict"]["headline"].as_str().unwrap();
        assert!(
            headline.contains("splitter") && headline.contains("function part_seventy of splitter took"),
            "{headline}"
        );
        let code = finding(&report, "cpu.utilization.hottest_code", None);
        let said = code["summary"].as_str().unwrap();
        assert!(said.contains("splitter used ") && said.contains("above all in part_seventy at split.c:"), "{said}");
        assert_eq!((&code["status"], &code["culprit"]["name"]), (&"info".into(), &"part_seventy".into()), "{code:#}");
        assert!((code["value"].as_f64().unwrap() - 0.7).abs() < 0.1, "{code:#}");
        assert!(code["evidence"][0]["metric"].as_str().unwrap().starts_with("profile."), "{code:#}");
        let kernel = finding(&report, "cpu.utilization.kernel_code", None);
        assert_eq!(kernel["status"], "ok", "{kernel:#}");
    }
}

/// The kernel's own list of its functions: address, name, module.
fn kallsyms() -> Vec<(u64, String, String)> {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let symbol = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let module = fields.get(3).unwrap_or(&"").to_string();
        (u64::from_str_radix(fields[0], 16).unwrap(), fields[2].to_owned(), module)
    };
    text.lines().map(symbol).collect()
}

#[test]
#[ignore = "needs: root, eBPF"]
fn vm_functions_of_the_kernel_have_the_names_that_its_own_list_has() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let script = "while :; do for i in 1 2 3 4 5 6 7 8; do cat /proc/self/maps /proc/stat; done; done >/dev/null";
    let _load = Load::start(1, "sh", &["-c", script]);
    let result = profile(&["--param", "hz=499", "--param", "top=1000", "--duration", "4s"]);
    let known = kallsyms();
    let mut found = 0;
    for row in rows(&result, "functions") {
        let of = |column| cell(&result, "functions", row, column).as_str().unwrap();
        let (name, object) = (of("name"), of("object"));
        if of("mode") != "kernel" || name.starts_with('[') || name.starts_with("bpf_") {
            continue;
        }
        let module = if object == "[kernel]" { "" } else { object };
        assert!(known.iter().any(|(_, own, of)| own == name && of == module), "{name} in {object}");
        found += 1;
    }
    assert!(found >= 10, "{:#?}", rows(&result, "functions"));
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_program_that_was_replaced_on_disk_or_ends_meanwhile_keeps_the_names_of_what_ran() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let comm = format!("/proc/{}/comm", load.pids()[0]);
    assert!(wait_until(10, || std::fs::read_to_string(&comm).is_ok_and(|name| name == "splitter\n")));
    // As an update does it: another file takes the name.
    let update = folder.path().join("update");
    std::fs::copy("/bin/true", &update).unwrap();
    std::fs::rename(&update, &binary).unwrap();
    assert_split(&profiled(&load, "2s"), &PARTS);
    drop(load);
    let (_folder, binary) = c_program();
    let load = Load::start(1, "sh", &["-c", &format!("ulimit -t 2; exec {}", text_of(&binary))]);
    let result = profile(&["--pid", &load.pids()[0].to_string(), "--param", "hz=499", "--duration", "8s"]);
    assert_split(&result, &PARTS);
    assert!(samples(&result) < 1500.0, "it has ended: {}", samples(&result));
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_a_known_split_is_found_on_every_kernel() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let result = profile(&["--pid", &load.pids()[0].to_string(), "--param", "hz=199", "--duration", "8s"]);
    assert_split(&result, &PARTS);
    assert_eq!(result["attached"][0]["back_end"], "perf event");
    assert!(result["lost"].is_null(), "{}", result["lost"]);
}
