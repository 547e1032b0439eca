//! Every program for the kernel is accepted by the kernel: `rdiag doctor` starts each probe, so its verifier reads them all.

use std::collections::BTreeSet;

use crate::support::{alone, path, rdiag};

/// The probes that cannot run, as `doctor` lists them; what they lack is said there.
fn missing(told: &str) -> BTreeSet<String> {
    let section = told.split_once("Probes that cannot run\n").map_or("", |(_, rest)| rest);
    let lines = section.lines().take_while(|line| line.starts_with("  "));
    let named = lines.filter(|line| !line.trim_start().starts_with('→'));
    let names = named.filter_map(|line| line.split_once(" (")).flat_map(|(names, _)| names.split(", "));
    names.map(|name| name.trim().to_owned()).collect()
}

/// The probes that a kernel is known to lack something for: a line `SERIES: probe …` of `tests/vm/lacking`.
fn known(series: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path("tests/vm/lacking")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(": "));
    let names = line.unwrap_or_else(|| panic!("tests/vm/lacking says nothing of {series}"));
    names.split(' ').map(str::to_owned).collect()
}

#[test]
#[ignore = "needs: a kernel of the matrix"]
fn vm_every_probe_starts_on_this_kernel_but_those_it_is_known_to_lack_something_for() {
    let _alone = alone();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let series = release.split('.').take(2).collect::<Vec<_>>().join(".");
    // An emulated CPU reads the programs of all probes for minutes, and for longer where the emulator waits for a CPU. A guest does not see
    // that: `tests/vm/run` measures it, and ends a guest that says nothing for too long. So this is as long as a guest may live.
    let output = rdiag().arg("doctor").timeout(std::time::Duration::from_secs(3000)).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("probes inside the kernel can run here"), "{told}");
    assert_eq!(missing(&told), known(&series), "{told}");
}
