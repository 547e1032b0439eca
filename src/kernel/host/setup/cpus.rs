//! CPUs: model, microcode, mitigations, frequency governors, idle states, SMT.

use std::collections::BTreeSet;

use rdiag_model::Setup;

use super::{Host, note, note_file};

const CPUS: &str = "sys/devices/system/cpu";
/// Frequency policies that are asked: hosts of hundreds of CPUs have one for each.
const POLICIES: usize = 64;
const FILES: [(&str, &str); 7] = [
    ("smt", "smt/control"),
    ("cpu idle driver", "cpuidle/current_driver"),
    ("cpu idle governor", "cpuidle/current_governor"),
    ("cpu boost", "cpufreq/boost"),
    ("intel_pstate status", "intel_pstate/status"),
    ("intel_pstate no_turbo", "intel_pstate/no_turbo"),
    ("isolated cpus", "isolated"),
];
const OF_POLICIES: [(&str, &str); 4] = [
    ("governor", "scaling_governor"),
    ("cpu frequency driver", "scaling_driver"),
    ("cpu frequency limit (kHz)", "scaling_max_freq"),
    ("cpu energy preference", "energy_performance_preference"),
];

pub(super) fn read(host: &Host, setup: &mut Setup) {
    let facts = &mut setup.facts;
    let cpuinfo = host.read("proc/cpuinfo").unwrap_or_default();
    for (name, key) in [("cpu model", "model name"), ("microcode", "microcode")] {
        note(facts, name, rdiag_proc::cpuinfo(&cpuinfo, key).unwrap_or_default());
    }
    for (name, file) in FILES {
        note_file(host, facts, name, &format!("{CPUS}/{file}"));
    }
    let policies = host.list(&format!("{CPUS}/cpufreq")).unwrap_or_default();
    let policies: Vec<&String> = policies.iter().filter(|name| name.starts_with("policy")).take(POLICIES).collect();
    for (name, file) in OF_POLICIES {
        let values: BTreeSet<String> = policies
            .iter()
            .filter_map(|policy| host.read_line(&format!("{CPUS}/cpufreq/{policy}/{file}")).ok())
            .collect();
        note(facts, name, &values.into_iter().collect::<Vec<_>>().join(", "));
    }
    for name in host.list(&format!("{CPUS}/vulnerabilities")).unwrap_or_default().iter().take(POLICIES) {
        note_file(host, facts, format!("mitigation {name}"), &format!("{CPUS}/vulnerabilities/{name}"));
    }
}
