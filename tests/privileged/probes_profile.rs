//! Profiles of programs whose split is known, against that split and against `perf record`.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Load, Need, alone, finding, has, path, rdiag, wait_until};

/// Seven, two and one parts of the time in three functions. Each step needs the result of the last, so that no trick of a CPU
/// makes one loop faster than another; they are short, so that no multiple of their time is that between two samples.
const C: &str = r#"
unsigned long sink;
#define PART(name, times) \
	__attribute__((noinline)) void name(void) { unsigned long x = sink; \
	for (long i = 0; i < times; i++) x = x * 6364136223846793005UL + i; sink = x; }
PART(part_seventy, 7000)
PART(part_twenty, 2000)
PART(part_ten, 1000)
__attribute__((noinline)) void all_parts(void) { part_seventy(); part_twenty(); part_ten(); __asm__ volatile(""); }
int main(void) { for (;;) all_parts(); }
"#;

const CPLUSPLUS: &str = r#"
unsigned long sink;
template <long N> struct Part {
	__attribute__((noinline)) static void work() {
		unsigned long x = sink;
		for (long i = 0; i < N; i++) x = x * 6364136223846793005UL + i;
		sink = x;
	}
};
int main() { for (;;) { Part<7000>::work(); Part<2000>::work(); Part<1000>::work(); } }
"#;

const RUST: &str = r#"
fn step(x: u64, at: u64) -> u64 { x.wrapping_mul(6364136223846793005).wrapping_add(at) }
#[inline(never)] fn part_seventy(x: u64) -> u64 { (0..7000).fold(x, step) }
#[inline(never)] fn part_twenty(x: u64) -> u64 { (0..2000).fold(x, step) }
#[inline(never)] fn part_ten(x: u64) -> u64 { (0..1000).fold(x, step) }
fn main() { let mut x = 1; loop { x = std::hint::black_box(part_ten(part_twenty(part_seventy(x)))); } }
"#;

const NODE: &str = "
function part_seventy(x) { for (let i = 0; i < 70000; i++) x = (Math.imul(x, 1664525) + i) | 0; return x; }
function part_twenty(x) { for (let i = 0; i < 20000; i++) x = (Math.imul(x, 1664525) + i) | 0; return x; }
function part_ten(x) { for (let i = 0; i < 10000; i++) x = (Math.imul(x, 1664525) + i) | 0; return x; }
let x = 1;
for (;;) { x = part_ten(part_twenty(part_seventy(x))); }
";

const PARTS: [(&str, f64); 3] = [("part_seventy", 0.7), ("part_twenty", 0.2), ("part_ten", 0.1)];
const CC: [Need; 2] = [Need::Root, Need::Tool("cc")];

/// A compiled program, in a folder that others may enter.
fn compiled(source: &str, file: &str, compiler: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (source_file, binary) = (folder.path().join(file), folder.path().join("splitter"));
    std::fs::write(&source_file, source).unwrap();
    let (program, flags) = compiler.split_first().unwrap();
    let output = Command::new(program).args(flags).arg("-o").arg(&binary).arg(&source_file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, binary)
}

fn c_program() -> (tempfile::TempDir, PathBuf) {
    compiled(C, "split.c", &["cc", "-O1", "-g", "-fno-omit-frame-pointer"])
}

fn text_of(path: &Path) -> String {
    path.display().to_string()
}

fn profile(args: &[&str]) -> Value {
    let output = rdiag().args(["probe", "profile", "--format", "json"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn table<'r>(result: &'r Value, id: &str) -> &'r Value {
    let tables = result["outputs"].as_array().unwrap().iter().filter_map(|output| output.get("table"));
    tables.into_iter().find(|table| table["id"] == id).unwrap_or_else(|| panic!("no table {id}: {result:#}"))
}

fn rows<'r>(result: &'r Value, id: &str) -> &'r Vec<Value> {
    table(result, id)["rows"].as_array().unwrap()
}

/// A cell of a row, by its column's id.
fn cell<'r>(result: &'r Value, id: &str, row: &'r Value, column: &str) -> &'r Value {
    let columns = table(result, id)["columns"].as_array().unwrap();
    let at = columns.iter().position(|known| known["id"] == column).unwrap();
    &row["cells"][at]
}

/// The share of all functions whose names hold a text.
fn share(result: &Value, name: &str) -> f64 {
    let fitting = rows(result, "functions")
        .iter()
        .filter(|row| cell(result, "functions", row, "name").as_str().unwrap().contains(name));
    fitting.map(|row| cell(result, "functions", row, "share").as_f64().unwrap()).sum()
}

fn samples(result: &Value) -> f64 {
    cell(result, "host", &rows(result, "host")[0], "samples").as_f64().unwrap()
}

fn notes(result: &Value) -> String {
    result["notes"].to_string()
}

/// That the split is found, within what so many samples allow, and never worse than three points from a thousand on. Time
/// that interrupts take on a busy machine is nobody's part.
fn assert_split(result: &Value, parts: &[(&str, f64)]) {
    let samples = samples(result);
    assert!(samples >= 100.0, "{samples} samples are too few to say anything");
    let whole: f64 = parts.iter().map(|(name, _)| share(result, name)).sum();
    assert!(whole > 0.7, "{whole}: {:#?}", rows(result, "functions"));
    for (name, expected) in parts {
        let error = (expected * (1.0 - expected) / samples).sqrt();
        let found = share(result, name) / whole;
        let allowed = (4.0 * error).max(0.03);
        assert!((found - expected).abs() < allowed, "{name}: {found} of {samples}: {:#?}", rows(result, "functions"));
    }
}

fn profiled(load: &Load, seconds: &str) -> Value {
    profile(&["--pid", &load.pids()[0].to_string(), "--param", "hz=997", "--duration", seconds])
}

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
#[ignore = "needs: root, eBPF, cc"]
fn a_filter_leaves_others_out_and_a_command_takes_what_it_starts_along() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let loads = Load::start(2, &text_of(&binary), &[]);
    let one = loads.pids()[0];
    let result = profile(&["--pid", &one.to_string(), "--duration", "1s"]);
    let pids: Vec<&Value> =
        rows(&result, "processes").iter().map(|row| cell(&result, "processes", row, "pid")).collect();
    assert_eq!(pids, [&Value::from(one.to_string())]);
    let both = profile(&["--comm", "splitter", "--duration", "1s"]);
    assert_eq!(rows(&both, "processes").len(), 2);
    let all = profile(&["--duration", "1s"]);
    assert!(rows(&all, "processes").len() >= 2 && !all["outputs"].to_string().contains("\"rdiag\""), "its own samples");
    drop(loads);
    let script = format!("timeout 1 {} & wait", text_of(&binary));
    let command = profile(&["--param", "hz=499", "--", "sh", "-c", &script]);
    assert!(share(&command, "part_seventy") > 0.4, "{:#?}", rows(&command, "functions"));
}

/// Touches 2000 pages for the first time, and lives long enough to be asked for names.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) void touches_pages(volatile char *pages) { for (int i = 0; i < 2000; i++) pages[i * 4096L] = 1; }
int main(void)
{
	char *pages = mmap(0, 2000 * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(pages, 2000 * 4096L, MADV_NOHUGEPAGE);
	touches_pages(pages);
	usleep(800000);
	return 0;
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn every_event_is_a_sample_where_the_period_is_one_and_its_number_is_right() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = compiled(FAULTS, "faults.c", &["cc", "-O1", "-g", "-fno-omit-frame-pointer"]);
    let result = profile(&["--param", "event=page-faults", "--param", "period=1", "--", &text_of(&binary)]);
    let first = &rows(&result, "functions")[0];
    assert_eq!(cell(&result, "functions", first, "name"), "touches_pages", "{:#?}", rows(&result, "functions"));
    assert_eq!(cell(&result, "functions", first, "value"), 2000.0, "{first}");
    assert_eq!(table(&result, "functions")["columns"][1]["unit"], "count");
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

/// The same program, copied to where anybody may start it.
fn as_nobody() -> Option<(tempfile::TempDir, Vec<String>)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let built = std::env::var_os("RDIAG_BINARY")
        .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
    std::fs::copy(built, folder.path().join("rdiag")).ok()?;
    let words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"].map(str::to_owned);
    Some((folder, words.into()))
}

#[test]
#[ignore = "needs: root, eBPF, cc, a quiet machine"]
fn the_playbook_for_hot_cpus_and_the_drill_down_name_process_function_and_line() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Quiet]) {
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
        assert!(
            said.contains("splitter used ") && said.contains("hottest function was part_seventy at split.c:"),
            "{said}"
        );
        assert_eq!((&code["status"], &code["culprit"]["name"]), (&"info".into(), &"part_seventy".into()), "{code:#}");
        assert!((code["value"].as_f64().unwrap() - 0.7).abs() < 0.1, "{code:#}");
        assert!(code["evidence"][0]["metric"].as_str().unwrap().starts_with("profile."), "{code:#}");
        let kernel = finding(&report, "cpu.utilization.kernel_code", None);
        assert_eq!(kernel["status"], "ok", "{kernel:#}");
    }
}

/// kernel.perf_event_paranoid at another value, for as long as it lives.
struct Paranoid(String);

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

impl Paranoid {
    fn set(value: &str) -> Self {
        let before = std::fs::read_to_string(PARANOID).unwrap();
        std::fs::write(PARANOID, value).unwrap();
        Self(before)
    }
}

impl Drop for Paranoid {
    fn drop(&mut self) {
        let _ = std::fs::write(PARANOID, self.0.trim());
    }
}

/// Paranoia beyond what the kernel knows is a patch of distributions, and everywhere else the same as 2.
fn nobody_measures_its_own(paranoid: &str) {
    let (_program, binary) = c_program();
    let (folder, user) = as_nobody().unwrap();
    let _set = Paranoid::set(paranoid);
    let words: Vec<&str> = user.iter().map(String::as_str).collect();
    let load = Load::start(1, words[0], &[&words[1..], &[&text_of(&binary)]].concat());
    std::thread::sleep(Duration::from_millis(500));
    let pid = load.pids()[0].to_string();
    let measured = |args: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(folder.path().join("rdiag")).arg("probe").args(args);
        let output = command.args(["--format", "json", "--pid", &pid]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(serde_json::from_slice::<Value>(&output.stdout).unwrap());
        }
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(paranoid != "2", "{said}");
        Err(said)
    };
    match measured(&["profile", "--param", "hz=997", "--duration", "3s"]) {
        Ok(result) => {
            assert_split(&result, &PARTS);
            assert_eq!(result["attached"][0]["back_end"], "sampling ring");
            assert!(notes(&result).contains("what the kernel did was not sampled"), "{}", notes(&result));
            assert!(cell(&result, "host", &rows(&result, "host")[0], "kernel").is_null());
        }
        Err(said) => {
            assert!(said.contains(&format!("kernel.perf_event_paranoid = {paranoid}")), "{said}");
            assert!(said.contains("sysctl kernel.perf_event_paranoid=2"), "{said}");
        }
    }
    match measured(&["stat", "--param", "events=task-clock", "--duration", "2s"]) {
        Ok(result) => {
            let clock = cell(&result, "events", &rows(&result, "events")[0], "value").as_f64().unwrap();
            assert!(clock > 0.0, "{result:#}");
        }
        Err(said) => {
            assert!(said.contains(&format!("kernel.perf_event_paranoid is {paranoid}")), "{said}");
            assert!(said.contains("CAP_PERFMON") && said.contains("kernel.perf_event_paranoid to "), "{said}");
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc, setpriv"]
fn vm_a_user_without_rights_measures_own_processes_or_is_told_what_forbids_it() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("setpriv")]) {
        return;
    }
    for paranoid in ["2", "3", "4"] {
        nobody_measures_its_own(paranoid);
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_whoever_holds_the_right_is_not_held_up_by_any_paranoia() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let _set = Paranoid::set("4");
    assert_split(&profile(&["--pid", &load.pids()[0].to_string(), "--param", "hz=499", "--duration", "3s"]), &PARTS);
    let output = rdiag().args(["probe", "stat", "--duration", "1s"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
fn a_lack_of_descriptors_is_told_and_not_put_down_to_the_programs() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let rdiag = assert_cmd::cargo::cargo_bin!("rdiag").display();
    let limited = |limit: &str| {
        let pid = load.pids()[0];
        let line = format!("ulimit {limit}; exec {rdiag} probe profile --format json -d 4s --param hz=997 --pid {pid}");
        Command::new("sh").args(["-c", &line]).output().unwrap()
    };
    // What the soft limit lacks, the hard one gives.
    let output = limited("-S -n 12");
    assert_split(&serde_json::from_slice(&output.stdout).unwrap(), &PARTS);
    let output = limited("-n 9");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(share(&result, "part_seventy") > 0.5 || notes(&result).contains("ulimit -n"), "{}", notes(&result));
    } else {
        assert!(output.status.code() == Some(3) && said.contains("ulimit -n"), "{said}");
    }
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

#[test]
#[ignore = "needs: root, eBPF, cc, setpriv"]
fn vm_without_the_right_to_load_programs_the_whole_host_is_sampled_through_rings() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("setpriv")]) {
        return;
    }
    let (_folder, binary) = c_program();
    let _load = Load::start(1, &text_of(&binary), &[]);
    let (folder, _) = as_nobody().unwrap();
    let _set = Paranoid::set("-1");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_admin,-bpf"]).arg(folder.path().join("rdiag"));
    command.args(["probe", "profile", "--format", "json", "--param", "hz=499", "--duration", "4s"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["attached"][0]["back_end"], "sampling ring", "{}", result["attached"]);
    let process =
        rows(&result, "processes").iter().find(|row| cell(&result, "processes", row, "name") == "splitter").unwrap();
    assert_eq!(cell(&result, "processes", process, "function"), "part_seventy", "{process}");
    let idle = cell(&result, "host", &rows(&result, "host")[0], "idle").as_f64().unwrap();
    assert!((0.0..1.0).contains(&idle), "{idle}");
}

#[test]
#[ignore = "needs: root, eBPF, a CPU that can go offline"]
fn vm_a_cpu_that_comes_back_is_sampled_again() {
    let _alone = alone();
    let switch = "/sys/devices/system/cpu/cpu1/online";
    if std::env::var_os("RDIAG_BINARY").is_none() {
        println!("SKIPPED vm_a_cpu_that_comes_back_is_sampled_again: needs a guest whose CPUs are its own");
        return;
    }
    if !has(&[Need::Root, Need::Path("/sys/devices/system/cpu/cpu1/online"), Need::Tool("taskset"), Need::Tool("cc")]) {
        return;
    }
    let (_folder, binary) = c_program();
    std::fs::write(switch, "0").unwrap();
    // An emulated machine needs seconds to attach.
    let script = format!("sleep 6; echo 1 >{switch}; sleep 1; exec taskset -c 1 {}", text_of(&binary));
    let load = Load::start(1, "sh", &["-c", &script]);
    let result = profile(&["--duration", "14s"]);
    drop(load);
    std::fs::write(switch, "1").unwrap();
    assert!(notes(&result).contains("CPU 1 came online meanwhile"), "{}", notes(&result));
    assert!(share(&result, "part_seventy") > 0.05, "{:#?}", rows(&result, "functions"));
}

#[test]
#[ignore = "needs: root, eBPF"]
fn events_and_parameters_that_do_not_exist_are_told() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    for (param, says) in [
        ("event=cpu-clok", "cpu-clok"),
        ("stacks=all", "user, kernel, both"),
        ("hz=0", "between 1 and"),
        ("event=a:b", "a"),
    ] {
        let output = rdiag().args(["probe", "profile", "--duration", "100ms", "--param", param]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says), "{param}: {said}");
    }
    if path("/sys/bus/event_source/devices/cpu").exists() {
        return;
    }
    let output = rdiag().args(["probe", "profile", "--duration", "100ms", "--param", "event=cycles"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(3)
            && said.matches("cannot count cycles").count() == 1
            && said.contains("cpu-clock"),
        "{said}"
    );
}
