//! Requests and limits of the control group that was asked for, as a sentence.
//!
//! The kernel knows no requests of Kubernetes, only what the kubelet makes of them: a share of the CPUs where they are short, and, if
//! memory QoS is on, memory that is not reclaimed. Millicores become shares (1000m are 1024), and the runtime makes a weight of those, by a
//! formula that changed with runc 1.3.2 and crun 1.23. Which one it was cannot be seen, so that both answers are given.

use std::collections::BTreeMap;

use super::sentence::listed;
use rdiag_model::quantity;

/// Shares of version 1 for one CPU that is requested.
const OF_ONE_CPU: f64 = 1024.0;
/// What no request becomes.
const LEAST_SHARES: u64 = 2;
const LEAST_WEIGHT: u64 = 1;
/// Shares for each step of the weight by the first formula: weight = 1 + (shares - 2) * 9999 / 262142, rounded down.
const STEP: f64 = 262_142.0 / 9999.0;
/// Version 1 shows "no limit" as the largest number of whole pages; nothing near it is a limit.
const NO_LIMIT: u64 = 1 << 60;

/// What the files say, by their name; none where they say nothing.
pub(super) fn words(files: &BTreeMap<String, String>, group: &str) -> Option<String> {
    let text = |file: &str| files.get(file).map(String::as_str);
    let number = |file: &str| text(file)?.parse::<u64>().ok();
    // All of Kubernetes lies below a group of this name.
    let is_pod = group.contains("kubepods");
    let mut requests = Vec::new();
    if let Some(weight) = number("cpu.weight") {
        requests.push(format!("cpu.weight {weight}{}", of_kubernetes(is_pod, of_weight(weight))));
    }
    if let Some(shares) = number("cpu.shares") {
        requests.push(format!("cpu.shares {shares}{}", of_kubernetes(is_pod, of_shares(shares))));
    }
    let held = ["memory.min", "memory.low"].map(|file| (file, text(file).map(memory)));
    if held.iter().all(|(_, held)| *held == Some(Memory::Bytes(0))) {
        requests.push("no memory".to_owned());
    } else {
        requests.extend(held.iter().filter_map(|(file, held)| match held.as_ref()? {
            Memory::Bytes(0) | Memory::Unreadable => None,
            Memory::Bytes(bytes) => Some(format!("{file} {}", quantity::bytes(*bytes as f64))),
            Memory::All => Some(format!("{file} max")),
        }));
    }
    let mut limits = Vec::new();
    let quota = text("cpu.max")
        .and_then(|text| text.split_once(' '))
        .or_else(|| Some((text("cpu.cfs_quota_us")?, text("cpu.cfs_period_us")?)));
    if let Some((quota, period)) = quota {
        match (quota.parse::<f64>(), period.parse::<f64>()) {
            (Ok(quota), Ok(period)) if quota > 0.0 && period > 0.0 => {
                limits.push(format!("{} CPUs", cpus(quota / period)))
            }
            (Ok(_), _) => limits.push("no CPU limit".to_owned()),
            (Err(_), _) if quota == "max" => limits.push("no CPU limit".to_owned()),
            (Err(_), _) => {}
        }
    }
    if let Some(Memory::Bytes(high)) = text("memory.high").map(memory) {
        limits.push(format!("memory.high {}", quantity::bytes(high as f64)));
    }
    match text("memory.max").or_else(|| text("memory.limit_in_bytes")).map(memory) {
        Some(Memory::Bytes(most)) => limits.push(format!("{} of memory", quantity::bytes(most as f64))),
        Some(Memory::All) => limits.push("no memory limit".to_owned()),
        Some(Memory::Unreadable) | None => {}
    }
    let part = |name: &str, of: &[String]| (!of.is_empty()).then(|| format!("{name}: {}", listed(of, of.len())));
    let parts: Vec<String> = [part("requests", &requests), part("limits", &limits)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// An amount of memory.
#[derive(Debug, PartialEq)]
enum Memory {
    Bytes(u64),
    All,
    Unreadable,
}

fn memory(text: &str) -> Memory {
    match text.parse::<u64>() {
        Ok(bytes) if bytes < NO_LIMIT => Memory::Bytes(bytes),
        Ok(_) => Memory::All,
        Err(_) if text == "max" => Memory::All,
        Err(_) => Memory::Unreadable,
    }
}

fn of_kubernetes(is_pod: bool, request: String) -> String {
    if is_pod { format!(" ({request})") } else { String::new() }
}

fn of_shares(shares: u64) -> String {
    if shares <= LEAST_SHARES {
        return "no CPU request".to_owned();
    }
    format!("a request of {} CPUs", cpus(shares as f64 / OF_ONE_CPU))
}

/// The middle of what becomes this weight, by either formula.
fn of_weight(weight: u64) -> String {
    if weight <= LEAST_WEIGHT {
        return "no CPU request".to_owned();
    }
    let first = LEAST_SHARES as f64 + (weight as f64 - 0.5) * STEP;
    // weight = 10 ^ ((L² + 125 L) / 612 - 7 / 34), rounded up, where L is the binary logarithm of the shares.
    let exponent = (weight as f64 - 0.5).log10() + 7.0 / 34.0;
    let second = ((-125.0 + (125.0_f64.powi(2) + 4.0 * 612.0 * exponent).sqrt()) / 2.0).exp2();
    format!(
        "a request of about {} CPUs, or {} by runc from 1.3.2 and crun from 1.23 on",
        cpus(first / OF_ONE_CPU),
        cpus(second / OF_ONE_CPU)
    )
}

/// Two digits, as requests are written.
fn cpus(number: f64) -> String {
    let text = if number < 0.1 { format!("{number:.3}") } else { format!("{number:.2}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &[(&str, &str)], group: &str) -> Option<String> {
        words(&files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect(), group)
    }

    #[test]
    fn requests_stand_beside_limits() {
        let files = [("cpu.weight", "10"), ("cpu.max", "50000 100000"), ("memory.min", "0"), ("memory.low", "0")];
        assert_eq!(said(&files, "/shop").unwrap(), "requests: cpu.weight 10 and no memory; limits: 0.5 CPUs");
        let files =
            [("memory.min", "134217728"), ("memory.low", "0"), ("memory.high", "max"), ("memory.max", "268435456")];
        assert_eq!(said(&files, "/shop").unwrap(), "requests: memory.min 128.0 MiB; limits: 256.0 MiB of memory");
        let files = [("cpu.max", "max 100000"), ("memory.max", "max")];
        assert_eq!(said(&files, "/shop").unwrap(), "limits: no CPU limit and no memory limit");
        let files = [
            ("cpu.shares", "256"),
            ("cpu.cfs_quota_us", "-1"),
            ("cpu.cfs_period_us", "100000"),
            ("memory.limit_in_bytes", "9223372036854771712"),
        ];
        let expected = "requests: cpu.shares 256 (a request of 0.25 CPUs); limits: no CPU limit and no memory limit";
        assert_eq!(said(&files, "/kubepods/burstable/pod1").unwrap(), expected);
    }

    #[test]
    fn what_is_no_number_is_not_repeated() {
        let files = [("cpu.weight", "<b>"), ("cpu.max", "x y"), ("memory.min", "-1"), ("memory.max", "\u{1b}[2J")];
        assert_eq!(said(&files, "/kubepods"), None);
        assert_eq!(said(&[("cpu.max", "1 0"), ("cpu.weight", "")], "/x").as_deref(), Some("limits: no CPU limit"));
        assert_eq!(said(&[], "/x"), None);
    }

    /// What runtimes make of shares, by both formulas.
    #[test]
    fn weights_lead_back_to_the_requests_that_they_come_from() {
        for millicores in [100_u64, 250, 500, 1000, 2000, 8000, 64_000] {
            let shares = millicores * 1024 / 1000;
            let first = 1 + (shares - 2) * 9999 / 262_142;
            let log = (shares as f64).log2();
            let second = 10_f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil() as u64;
            let wanted = millicores as f64 / 1000.0;
            let number = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
            let told = of_weight(first);
            let about = number(told.split("about ").nth(1).unwrap());
            assert!((about - wanted).abs() <= 0.02 + wanted * 0.01, "{millicores}m: {told}");
            let told = of_weight(second);
            let or = number(told.split("or ").nth(1).unwrap());
            assert!((or - wanted).abs() <= 0.006 + wanted * 0.05, "{millicores}m: {told}");
        }
        assert_eq!(of_weight(1), "no CPU request");
        assert_eq!(of_shares(2), "no CPU request");
    }
}
