//! Programs whose CPU time is split as we know, and profiles of them.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Load, Need, rdiag};

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

pub(super) const CPLUSPLUS: &str = r#"
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

pub(super) const RUST: &str = r#"
fn step(x: u64, at: u64) -> u64 { x.wrapping_mul(6364136223846793005).wrapping_add(at) }
#[inline(never)] fn part_seventy(x: u64) -> u64 { (0..7000).fold(x, step) }
#[inline(never)] fn part_twenty(x: u64) -> u64 { (0..2000).fold(x, step) }
#[inline(never)] fn part_ten(x: u64) -> u64 { (0..1000).fold(x, step) }
fn main() { let mut x = 1; loop { x = std::hint::black_box(part_ten(part_twenty(part_seventy(x)))); } }
"#;

pub(super) const NODE: &str = "
function part_seventy(x) { for (let i = 0; i < 70000; i++) x = (Math.imul(x, 1664525) + i) | 0; return x; }
function part_twenty(x) { for (let i = 0; i < 20000; i++) x = (Math.imul(x, 1664525) + i) | 0; return x; }
function part_ten(x) { for (let i = 0; i < 10000; i++) x = (Math.imul(x, 1664525) + i) | 0; return x; }
let x = 1;
for (;;) { x = part_ten(part_twenty(part_seventy(x))); }
";

pub(super) const PARTS: [(&str, f64); 3] = [("part_seventy", 0.7), ("part_twenty", 0.2), ("part_ten", 0.1)];
pub(super) const CC: [Need; 2] = [Need::Root, Need::Tool("cc")];

/// A compiled program, in a folder that others may enter.
pub(super) fn compiled(source: &str, file: &str, compiler: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (source_file, binary) = (folder.path().join(file), folder.path().join("splitter"));
    std::fs::write(&source_file, source).unwrap();
    let (program, flags) = compiler.split_first().unwrap();
    let output = Command::new(program).args(flags).arg("-o").arg(&binary).arg(&source_file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, binary)
}

pub(super) fn c_program() -> (tempfile::TempDir, PathBuf) {
    compiled(C, "split.c", &["cc", "-O1", "-g", "-fno-omit-frame-pointer"])
}

pub(super) fn text_of(path: &Path) -> String {
    path.display().to_string()
}

pub(super) fn profile(args: &[&str]) -> Value {
    let output = rdiag().args(["probe", "profile", "--format", "json"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

pub(super) fn table<'r>(result: &'r Value, id: &str) -> &'r Value {
    let tables = result["outputs"].as_array().unwrap().iter().filter_map(|output| output.get("table"));
    tables.into_iter().find(|table| table["id"] == id).unwrap_or_else(|| panic!("no table {id}: {result:#}"))
}

pub(super) fn rows<'r>(result: &'r Value, id: &str) -> &'r Vec<Value> {
    table(result, id)["rows"].as_array().unwrap()
}

/// A cell of a row, by its column's id.
pub(super) fn cell<'r>(result: &'r Value, id: &str, row: &'r Value, column: &str) -> &'r Value {
    let columns = table(result, id)["columns"].as_array().unwrap();
    let at = columns.iter().position(|known| known["id"] == column).unwrap();
    &row["cells"][at]
}

/// The share of all functions whose names hold a text.
pub(super) fn share(result: &Value, name: &str) -> f64 {
    let fitting = rows(result, "functions")
        .iter()
        .filter(|row| cell(result, "functions", row, "name").as_str().unwrap().contains(name));
    fitting.map(|row| cell(result, "functions", row, "share").as_f64().unwrap()).sum()
}

pub(super) fn samples(result: &Value) -> f64 {
    cell(result, "host", &rows(result, "host")[0], "samples").as_f64().unwrap()
}

pub(super) fn notes(result: &Value) -> String {
    result["notes"].to_string()
}

/// That the split is found, within what so many samples allow, and never worse than three points from a thousand on. Time
/// that interrupts take on a busy machine is nobody's part.
pub(super) fn assert_split(result: &Value, parts: &[(&str, f64)]) {
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

pub(super) fn profiled(load: &Load, seconds: &str) -> Value {
    profile(&["--pid", &load.pids()[0].to_string(), "--param", "hz=997", "--duration", seconds])
}
