//! Fleets with planted faults, and fleets without.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rdiag_model::{Confidence, Kind, Resource, Status, Unit};

use super::*;

#[path = "random_tests.rs"]
mod random;

fn host(name: &str) -> Host {
    Host {
        name: name.to_owned(),
        file: format!("{name}.json.gz"),
        report: None,
        group: String::new(),
        started: "2026-11-24T00:00:00Z".to_owned(),
        seconds: 10.0,
        playbook: "use-method".to_owned(),
        verdict: Status::Ok,
        headline: "No bottleneck found".to_owned(),
        findings: Vec::new(),
        readings: Vec::new(),
        facts: BTreeMap::from([("kernel".to_owned(), "6.8.0-49".to_owned())]),
    }
}

fn judgement(rule: &str, role: &str, status: Status) -> Judgement {
    let (resource, kind) = rdiag_model::status::parse_rule_id(rule).unwrap();
    Judgement {
        rule: rule.to_owned(),
        title: format!("Title of {rule}"),
        resource,
        kind,
        role: role.to_owned(),
        status,
        confidence: Confidence::High,
        summary: format!("seen at {role}"),
        culprit: None,
    }
}

fn reading(metric: &str, unit: Unit, value: f64) -> Measure {
    Measure { metric: metric.to_owned(), role: String::new(), unit, value, is_error: false }
}

/// So many hosts with one quiet rule.
fn quiet(count: usize) -> Vec<Host> {
    let one = |n| {
        let mut host = host(&format!("web-{n:02}"));
        host.findings.push(judgement("cpu.saturation", "", Status::Ok));
        host.findings.push(judgement("disk.saturation", "vda", Status::Ok));
        host
    };
    (0..count).map(one).collect()
}

fn rolled(hosts: Vec<Host>) -> Fleet {
    let mut all = Gathering::default();
    hosts.into_iter().for_each(|host| all.add(host));
    all.conclude()
}

fn odd_names(fleet: &Fleet) -> Vec<&str> {
    fleet.odd.iter().map(|odd| odd.host.as_str()).collect()
}

#[test]
fn a_fault_of_37_hosts_is_one_finding_and_the_odd_host_is_named_with_what_sets_it_apart() {
    let mut hosts = quiet(40);
    for host in &mut hosts[..37] {
        host.findings[1].status = Status::Warning;
        host.findings[1].culprit = Some("backup-agent".to_owned());
        host.verdict = Status::Warning;
    }
    hosts.iter_mut().for_each(|host| host.findings.push(judgement("memory.errors.oom", "", Status::Ok)));
    hosts[17].findings[2].status = Status::Critical;
    hosts[17].facts.insert("kernel".to_owned(), "6.8.0-51".to_owned());
    let fleet = rolled(hosts);
    assert_eq!(
        fleet.headline,
        "37 of 40 hosts: disk saturation (vda), by backup-agent on 37; web-17 alone: memory errors, Title of memory.errors.oom"
    );
    assert_eq!((fleet.status, fleet.judged, fleet.common.len(), fleet.some.len()), (Status::Critical, 40, 1, 0));
    let common = &fleet.common[0];
    assert_eq!((common.reach.hosts, common.reach.judged, &*common.roles), (37, 40, &[("vda".to_owned(), 37)][..]));
    assert_eq!(common.hosts.len(), 20, "the others are folded");
    assert_eq!(odd_names(&fleet), ["web-17"]);
    let contrast = &fleet.odd[0].contrast;
    assert_eq!((contrast.len(), &*contrast[0].value, &*contrast[0].others), (1, "6.8.0-51", "6.8.0-49"));
}

#[test]
fn a_rule_by_which_only_one_host_was_judged_makes_it_not_odd() {
    let mut hosts = quiet(40);
    hosts[17].findings.push(judgement("memory.errors.oom", "", Status::Critical));
    let fleet = rolled(hosts);
    assert!(fleet.odd.is_empty() && fleet.some.len() == 1, "{:?}", fleet.odd);
    assert_eq!(fleet.headline, "40 hosts: no common fault; memory errors on 1 of 1");
}

#[test]
fn a_rule_is_odd_on_a_tenth_of_the_hosts_and_common_on_half_and_three() {
    for (firing, of, common, odd) in [
        (1, 5, false, true),
        (2, 5, false, false),
        (3, 5, true, false),
        (3, 6, true, false),
        (2, 4, false, false),
        (1, 4, false, false),
        (4, 40, false, true),
        (5, 40, false, false),
        (19, 40, false, false),
        (20, 40, true, false),
        (2, 2, false, false),
        (1, 1, false, false),
    ] {
        let mut hosts = quiet(of);
        hosts[..firing].iter_mut().for_each(|host| host.findings[0].status = Status::Critical);
        let fleet = rolled(hosts);
        assert_eq!(fleet.common.len() == 1, common, "{firing} of {of}");
        assert_eq!(fleet.odd.len(), if odd { firing } else { 0 }, "{firing} of {of}");
        assert_eq!(fleet.some.len() == 1, !common && !odd, "{firing} of {of}");
        assert_eq!(fleet.status, Status::Critical);
    }
}

#[test]
fn what_was_not_judged_counts_as_nothing() {
    let mut hosts = quiet(8);
    hosts[..3].iter_mut().for_each(|host| host.findings[0].status = Status::Warning);
    hosts[3..6].iter_mut().for_each(|host| host.findings[0].status = Status::Unknown);
    hosts[5].verdict = Status::Unknown;
    let mut all = Gathering::default();
    hosts.into_iter().for_each(|host| all.add(host));
    all.absent(NotJudged { host: "db-1".into(), why: Why::Unreachable, detail: "no recording".into() });
    let fleet = all.conclude();
    let reach = fleet.common[0].reach;
    assert_eq!((reach.hosts, reach.judged, reach.unknown), (3, 5, 3));
    let gaps: Vec<(&str, Why)> = fleet.not_judged.iter().map(|gap| (&*gap.host, gap.why)).collect();
    assert_eq!(gaps, [("db-1", Why::Unreachable), ("web-05", Why::Unknown)]);
    assert_eq!((fleet.judged, fleet.hosts_total()), (7, 9));
    assert_eq!(fleet.headline, "3 of 5 hosts: CPU saturation; 2 of 9 not judged: db-1, web-05");
    assert_eq!(rolled(Vec::new()).status, Status::Unknown);
    let mut all = Gathering::default();
    all.absent(NotJudged { host: "a".into(), why: Why::Unreadable, detail: String::new() });
    let fleet = all.conclude();
    assert_eq!((fleet.status, &*fleet.headline), (Status::Unknown, "1 of 1 not judged: a"));
}

#[test]
fn a_reading_is_odd_if_it_is_far_and_the_difference_matters() {
    let of = |values: &[f64], unit| {
        let mut hosts = quiet(values.len());
        for (host, value) in hosts.iter_mut().zip(values) {
            host.readings.push(reading("x.y", unit, *value));
        }
        rolled(hosts)
    };
    // Ties and a deviation of zero.
    let mut equal = [0.2; 20];
    assert!(of(&equal, Unit::Ratio).odd.is_empty());
    equal[7] = 0.24;
    assert!(of(&equal, Unit::Ratio).odd.is_empty(), "four points do not matter");
    equal[7] = 0.9;
    let fleet = of(&equal, Unit::Ratio);
    assert_eq!(odd_names(&fleet), ["web-07"]);
    let far = &fleet.odd[0].readings[0];
    assert!(far.z > 7.0 && (far.median - 0.2).abs() < 1e-6 && (far.value - 0.9).abs() < 1e-6);
    assert_eq!(fleet.headline, "web-07 is unlike the others: x.y is higher");
    assert_eq!(fleet.status, Status::Ok, "to be unlike is no fault");
    // Four hosts are no group.
    assert!(of(&[0.2, 0.2, 0.2, 0.9], Unit::Ratio).odd.is_empty());
    assert_eq!(of(&[0.2, 0.2, 0.2, 0.2, 0.9], Unit::Ratio).odd.len(), 1);
    // No number is no value, and takes none of the others.
    let fleet = of(&[0.2, 0.2, f64::NAN, f64::INFINITY, 0.2, 0.2, 0.9], Unit::Ratio);
    assert_eq!((odd_names(&fleet), fleet.compared.readings), (vec!["web-06"], 5));
    assert!(of(&[f64::NAN; 9], Unit::Ratio).odd.is_empty());
    // One that does what no other does.
    let only: Vec<f64> = (0..20).map(|n| if n == 3 { 5e8 } else { 0.0 }).collect();
    assert_eq!(odd_names(&of(&only, Unit::BytesPerSecond)), ["web-03"]);
    // A group of two halves has no odd host.
    let halves: Vec<f64> = (0..20).map(|n| if n < 12 { 0.0 } else { 5e8 }).collect();
    let fleet = of(&halves, Unit::BytesPerSecond);
    assert!(fleet.odd.is_empty() && fleet.compared.split == 1 && fleet.notes.iter().any(|n| n.contains("two parts")));
}

#[test]
fn an_odd_host_stands_apart_from_those_that_are_not() {
    let of = |far: &[f64]| {
        let mut hosts = quiet(40);
        for (n, host) in hosts.iter_mut().enumerate() {
            let usual = 0.3 + 0.001 * (n % 21) as f64;
            host.readings.push(reading("x.y", Unit::Ratio, far.get(n).copied().unwrap_or(usual)));
        }
        rolled(hosts)
    };
    let far = |fleet: &Fleet| {
        let mut names: Vec<String> = odd_names(fleet).into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(far(&of(&[0.6])), ["web-00"]);
    // Two that are far, the second no end of a tail to the first.
    assert_eq!(far(&of(&[0.9, 0.6])), ["web-00", "web-01"]);
    // On the other side nothing is near it, whatever is far above.
    assert_eq!(far(&of(&[0.9, 0.6, 0.05])), ["web-00", "web-01", "web-02"]);
    // What is farther than a tail is odd, and the tail is not.
    let tail: Vec<f64> = (0..8).map(|n| 0.31 + 0.0085 * 1.35_f64.powi(n)).collect();
    let steps: Vec<f64> = [0.36, 0.38, 0.40].into_iter().chain(tail.clone()).collect();
    assert_eq!(far(&of(&steps)), Vec::<String>::new());
    let beyond: Vec<f64> = [0.95, 0.38, 0.40].into_iter().chain(tail).collect();
    assert_eq!(far(&of(&beyond)), ["web-00"]);
}

#[test]
fn errors_are_odd_where_nearly_all_others_have_none() {
    let of = |values: &[f64]| {
        let mut hosts = quiet(values.len());
        for (host, value) in hosts.iter_mut().zip(values) {
            host.readings.push(Measure { is_error: true, ..reading("net.drops", Unit::Count, *value) });
        }
        rolled(hosts)
    };
    let mut values = [0.0; 40];
    values[3] = 2.0;
    let fleet = of(&values);
    assert_eq!(odd_names(&fleet), ["web-03"]);
    assert_eq!(fleet.odd[0].errors[0].value, 2.0);
    values[4] = 1.0;
    values[5] = 1.0;
    assert!(of(&values[..20]).odd.is_empty(), "three of twenty have some: that is usual here");
    assert!(of(&[0.0, 0.0, 0.0, 9.0]).odd.is_empty());
}

#[test]
fn facts_that_set_a_host_apart_are_told_the_least_shared_first() {
    let mut hosts = quiet(20);
    for (n, host) in hosts.iter_mut().enumerate() {
        // What is different on each host distinguishes no group.
        host.facts.insert("serial".to_owned(), n.to_string());
        host.facts.insert("governor".to_owned(), if n == 4 { "powersave" } else { "performance" }.to_owned());
        host.facts.insert("kernel".to_owned(), if [4, 5].contains(&n) { "51" } else { "49" }.to_owned());
        host.facts.insert("half".to_owned(), (n % 2).to_string());
    }
    hosts[4].findings[0].status = Status::Warning;
    let fleet = rolled(hosts);
    let told: Vec<(&str, &str, &str, usize)> =
        fleet.odd[0].contrast.iter().map(|c| (&*c.fact, &*c.value, &*c.others, c.shared)).collect();
    assert_eq!(told, [("governor", "powersave", "performance", 0), ("kernel", "51", "49", 1)]);
}

#[test]
fn hosts_on_which_the_same_rules_fire_are_one_cluster() {
    let rules = ["cpu.saturation", "disk.saturation", "memory.saturation", "network.saturation"];
    let mut hosts: Vec<Host> = (0..9).map(|n| host(&format!("h{n}"))).collect();
    for (n, host) in hosts.iter_mut().enumerate() {
        let own: &[&str] = match n {
            0..=3 => &rules[..],
            // Three of four: alike.
            4 => &rules[..3],
            5..=6 => &rules[..1],
            _ => &[],
        };
        host.findings.extend(own.iter().map(|rule| judgement(rule, "", Status::Warning)));
    }
    let fleet = rolled(hosts);
    let told: Vec<(usize, usize)> = fleet.clusters.iter().map(|c| (c.size, c.rules.len())).collect();
    assert_eq!(told, [(5, 4), (2, 1)]);
}

#[test]
fn a_name_that_is_behind_findings_on_many_hosts_is_told_once() {
    let mut hosts = quiet(12);
    for host in &mut hosts[..7] {
        for finding in &mut host.findings {
            finding.status = Status::Warning;
            finding.culprit = Some("backup-agent".to_owned());
        }
    }
    hosts[8].findings[0] =
        Judgement { culprit: Some("nginx".to_owned()), ..judgement("cpu.saturation", "", Status::Warning) };
    let fleet = rolled(hosts);
    assert_eq!(fleet.culprits.len(), 1);
    let culprit = &fleet.culprits[0];
    assert_eq!((&*culprit.name, culprit.hosts, culprit.rules["cpu.saturation"]), ("backup-agent", 7, 7));
}

#[test]
fn hosts_of_one_name_all_count_and_are_told_apart_by_their_files() {
    let mut hosts = quiet(6);
    hosts[1].name = "web-00".to_owned();
    hosts[1].findings[0].status = Status::Critical;
    let fleet = rolled(hosts);
    assert_eq!(fleet.judged, 6);
    assert_eq!(odd_names(&fleet), ["web-00 (web-01.json.gz)"]);
    assert!(fleet.notes[0].starts_with("2 recordings are of a host called web-00"), "{:?}", fleet.notes);
}

#[test]
fn hosts_are_compared_with_those_of_their_group_only() {
    let mut hosts = quiet(12);
    for (n, host) in hosts.iter_mut().enumerate() {
        host.group = if n < 6 { "web" } else { "db" }.to_owned();
        host.readings.push(reading("x.y", Unit::Ratio, if n < 6 { 0.1 } else { 0.8 }));
    }
    hosts[2].findings[0].status = Status::Warning;
    let fleet = rolled(hosts);
    assert_eq!(odd_names(&fleet), ["web-02"]);
    assert_eq!(fleet.odd[0].findings[0].reach.judged, 6);
    assert!(fleet.odd[0].readings.is_empty());
    assert_eq!(fleet.groups.len(), 2);
}

#[test]
fn the_worst_of_a_hosts_instances_stands_for_it_and_a_host_votes_once() {
    let mut hosts = quiet(5);
    for host in &mut hosts {
        host.findings.push(judgement("disk.saturation", "vdb", Status::Critical));
        host.findings.push(judgement("disk.saturation", "vdc", Status::Warning));
    }
    let fleet = rolled(hosts);
    let common = &fleet.common[0];
    assert_eq!((common.reach.hosts, common.status, &*common.summary), (5, Status::Critical, "seen at vdb"));
    assert_eq!(common.roles.len(), 2);
    assert_eq!(fleet.hosts[0].resources[&Resource::Disk], Status::Critical);
    assert_eq!(fleet.hosts[0].resources[&Resource::Cpu], Status::Ok);
    assert_eq!(common.kind, Kind::Saturation);
}
