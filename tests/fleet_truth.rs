//! Fleets of recorded hosts in which faults were planted: what was planted is named, and nothing else. `tests/sql/large.py` does the same with
//! 30,000, `src/fleet/random_tests.rs` with figures alone.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use serde_json::{Value, json};

use crate::fleet::{names, put, recording, rolled};

/// Counters that differ from host to host, by a few per cent.
const VARIED: [&str; 4] = ["cpu_stat.user", "cpu_stat.system", "vmstat.pgfault", "diskstats.read_bytes"];

/// Fleets of so many hosts; one more in a long run: `RDIAG_HOSTS=500`.
fn sizes() -> Vec<usize> {
    let more = std::env::var("RDIAG_HOSTS").ok().and_then(|text| text.parse().ok());
    [5, 12, 40].into_iter().chain(more).collect()
}

/// All series of a recording that have a name.
fn series<'r>(recording: &'r mut Value, name: &str) -> Vec<&'r mut Value> {
    let windows = recording["windows"].as_array_mut().unwrap().iter_mut();
    let collectors = windows.flat_map(|window| window["collectors"].as_object_mut().unwrap().values_mut());
    let all = collectors.filter_map(|record| record.get_mut("series")?.as_array_mut());
    all.flatten().filter(|series| series["name"] == name).collect()
}

/// The same host as it could have been in another minute: what counters grew by is a little more or less.
fn varied(recording: &Value, n: usize) -> Value {
    let mut own = recording.clone();
    for (at, name) in VARIED.iter().enumerate() {
        // From -5 % to 5 %, each figure in a way of its own.
        let factor = 1.0 + ((n * (at + 3)) % 11) as f64 / 100.0 - 0.05;
        for series in series(&mut own, name) {
            let values = series["values"].as_array_mut().unwrap();
            let Some(first) = values.iter().find_map(Value::as_u64) else { continue };
            for value in values {
                if let Some(whole) = value.as_u64().filter(|whole| *whole >= first) {
                    *value = json!(first + ((whole - first) as f64 * factor) as u64);
                }
            }
        }
    }
    own["setup"]["facts"]["governor"] = json!("performance");
    own
}

/// Some errors, and a fact that no other host has.
fn with_errors(mut recording: Value) -> Value {
    for series in series(&mut recording, "interfaces.device_receive_errors") {
        let last = series["values"].as_array_mut().unwrap().last_mut().unwrap();
        *last = json!(last.as_u64().unwrap_or(0) + 3);
    }
    recording["setup"]["facts"]["governor"] = json!("powersave");
    recording
}

#[test]
fn what_was_planted_in_recorded_hosts_is_named_and_nothing_else() {
    let [busy, thrashing] = ["whole-host-short-of-cpu", "memory-thrashing-5.4"].map(recording);
    for size in sizes() {
        let place = tempfile::tempdir().unwrap();
        // In a hundred hosts one with another fault, and one with errors; in twenty one that sent nothing.
        let kind = |n: usize| match n % 100 {
            3 => "other",
            17 => "errors",
            _ if n % 20 == 9 => "silent",
            _ => "usual",
        };
        let (mut odd, mut silent) = (Vec::new(), Vec::new());
        for n in 0..size {
            let name = format!("web-{n:03}");
            match kind(n) {
                "silent" => std::fs::write(place.path().join(format!("{name}.json")), b"").unwrap(),
                "other" => put(place.path(), &varied(&thrashing, n), &name),
                "errors" => put(place.path(), &with_errors(varied(&busy, n)), &name),
                _ => put(place.path(), &varied(&busy, n), &name),
            }
            match kind(n) {
                "silent" => silent.push(name),
                "usual" => {}
                _ => odd.push(name),
            }
        }
        let (fleet, code) = rolled(place.path(), &[]);
        assert_eq!(code, Some(0));
        let mut named = names(&fleet["odd"]);
        named.sort_unstable();
        assert_eq!(named, odd, "{size} hosts: {:#}", fleet["odd"]);
        assert_eq!(names(&fleet["not_judged"]), silent, "{size} hosts");
        // The fault that all others share is one finding. The host with another fault does not know whether it has this one, so it does not count.
        let others = (0..size).filter(|n| ["usual", "errors"].contains(&kind(*n))).count();
        let common = fleet["common"].as_array().unwrap();
        let of = |rule: &str| common.iter().find(|fault| fault["rule"] == rule);
        let shared = of("cpu.saturation").unwrap_or_else(|| panic!("{size} hosts: {common:#?}"));
        assert_eq!((&shared["reach"]["hosts"], &shared["reach"]["judged"]), (&others.into(), &others.into()), "{size}");
        assert!(of("memory.saturation").is_none(), "{size} hosts: {common:#?}");
        let by_errors =
            fleet["odd"].as_array().unwrap().iter().filter(|host| !host["errors"].as_array().unwrap().is_empty());
        let by_errors: Vec<&Value> = by_errors.collect();
        assert_eq!(by_errors.len(), (0..size).filter(|n| kind(*n) == "errors").count(), "{size} hosts");
        for host in by_errors {
            let facts = host["contrast"].as_array().unwrap();
            assert!(facts.iter().any(|fact| fact["fact"] == "governor" && fact["value"] == "powersave"), "{host:#}");
        }
    }
}
