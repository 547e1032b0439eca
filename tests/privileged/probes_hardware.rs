//! What needs the hardware: caches. Where it is missing, the reason must be told.

use super::probing::{Script, ready, rows, watched};
use crate::support::{alone, rdiag};

/// A shared mapping whose pages come into being one by one, each by a fault that the kernel counts as small.
const FAULTS: &str = "
import mmap
memory = mmap.mmap(-1, 5000 * 4096)
for i in range(5000): memory[i * 4096] = 1
";

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn samples_of_two_events_by_process_stand_for_their_periods() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let mut script = Script::start(FAULTS);
    let params = ["uses=page-faults", "period=10", "misses=minor-faults", "miss_period=50"];
    let args = params.iter().fold(vec!["llcstat"], |mut args, param| {
        args.extend(["--param", param]);
        args
    });
    let (readings, _) = watched(&mut script, &args);
    let all = rows(&readings, "table", "processes");
    let [row] = &all[..] else { panic!("one row: {all:#?}") };
    // Each CPU has a part of a period left, and the interpreter has some pages of its own.
    for column in ["uses", "misses"] {
        let count = row[column].as_f64().unwrap();
        assert!((4800.0..=5400.0).contains(&count), "{column}: {row:#?}");
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn the_last_cache_is_counted_or_the_reason_is_told() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let output = rdiag().args(["probe", "llcstat", "--duration", "1s", "--format", "json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let readings = [serde_json::from_slice(&output.stdout).unwrap()];
        assert!(rows(&readings, "table", "processes").iter().any(|row| row["uses"].as_f64().unwrap() > 0.0));
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("cache-references") && told.contains("hardware counters"), "{told}");
}
