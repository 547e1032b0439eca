//! /sys/block/mdN/md: software RAID arrays and the members that they lack.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "md",
    help: "Missing members of software RAID arrays, from /sys/block/mdN/md.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window: one directory, and for each array four short files and a directory",
    start: |_| Box::new(Md),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("md.missing", RawUnit::Count, "/sys/block/mdN/md/degraded"),
    SeriesDef::gauge("md.members", RawUnit::Count, "/sys/block/mdN/md/raid_disks"),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "disk.array.missing.count",
        unit: Unit::Count,
        dimension: Some("array"),
        help: "Members that a redundant array lacks, because they failed or were never there.",
        sources: &[Formula::level(&[term("md.missing")])],
        caveat: "Arrays without redundancy (linear, RAID 0) have no such number: they fail as a whole.",
        manual: "cat /proc/mdstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.array.members.count",
        unit: Unit::Count,
        dimension: Some("array"),
        help: "Members that an array should have.",
        sources: &[Formula::level(&[term("md.members")])],
        caveat: "Spares do not count.",
        manual: "cat /proc/mdstat",
        ..MetricDef::EMPTY
    },
];

struct Md;

impl Collect for Md {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut seen = false;
        for name in host.list("sys/block")?.iter().filter(|name| name.starts_with("md")) {
            let directory = format!("sys/block/{name}/md");
            if let Ok(state) = host.read_line(&format!("{directory}/array_state"))
                && state != "clear"
            {
                seen = true;
                record(host, out, name, &directory, &state);
            }
        }
        if seen { Ok(()) } else { Err(Unavailable::new(Reason::NotApplicable, "this host has no software RAID array")) }
    }
}

fn record(host: &Host, out: &Sink, name: &str, directory: &str, state: &str) {
    let level = host.read_line(&format!("{directory}/level")).unwrap_or_default();
    match host.read_u64(&format!("{directory}/degraded")) {
        Ok(missing) => out.level("md.missing", name, missing as f64),
        Err(error) if error.reason == Reason::Absent => {
            let why = format!("{name} ({level}) has no redundancy that it could lose");
            out.gap("md.missing", name, Unavailable::new(Reason::NotApplicable, why));
        }
        Err(error) => out.gap("md.missing", name, error.gap()),
    }
    // While an array is being reshaped, the file shows two numbers: the new one first.
    let members = host.read_line(&format!("{directory}/raid_disks")).unwrap_or_default();
    if let Some(members) = members.split_whitespace().next().and_then(|first| first.parse::<u32>().ok()) {
        out.level("md.members", name, f64::from(members));
    }
    let action = host.read_line(&format!("{directory}/sync_action")).unwrap_or_else(|_| "none".into());
    out.label(name, "level", level);
    out.label(name, "state", state);
    out.label(name, "action", action);
    let entries = host.list(directory).unwrap_or_default();
    let members = entries.iter().filter_map(|entry| entry.strip_prefix("dev-"));
    let is_faulty = |member: &&str| {
        let state = host.read_line(&format!("{directory}/dev-{member}/state")).unwrap_or_default();
        state.split(',').any(|word| word == "faulty")
    };
    let faulty: Vec<&str> = members.filter(is_faulty).collect();
    if !faulty.is_empty() {
        out.label(name, "faulty", faulty.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::COLLECTOR;
    use crate::testing::{Story, gap, stats};
    use rdiag_model::Reason;

    #[test]
    fn an_array_that_lost_a_member_names_it() {
        let story = Story::of_seconds(2)
            .file(0, "sys/block/md0/md/array_state", "active\n")
            .file(0, "sys/block/md0/md/level", "raid1\n")
            .file(0, "sys/block/md0/md/degraded", "1\n")
            .file(0, "sys/block/md0/md/raid_disks", "2\n")
            .file(0, "sys/block/md0/md/sync_action", "recover\n")
            .file(0, "sys/block/md0/md/dev-sda1/state", "in_sync\n")
            .file(0, "sys/block/md0/md/dev-sdb1/state", "faulty,write_error\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "disk.array.missing.count", "md0").last, 1.0);
        assert_eq!(stats(&metrics, "disk.array.members.count", "md0").last, 2.0);
        let labels = &metrics.labels["array"]["md0"];
        assert_eq!((labels["level"].as_str(), labels["action"].as_str()), ("raid1", "recover"));
        assert_eq!(labels["faulty"], "sdb1");
    }

    #[test]
    fn an_array_without_redundancy_is_not_judged_by_it() {
        let story = Story::of_seconds(2)
            .file(0, "sys/block/md0/md/array_state", "clean\n")
            .file(0, "sys/block/md0/md/level", "raid0\n")
            .file(0, "sys/block/md0/md/raid_disks", "3 (2)\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(gap(&metrics, "disk.array.missing.count", "md0").reason, Reason::NotApplicable);
        assert_eq!(stats(&metrics, "disk.array.members.count", "md0").last, 3.0);
    }

    #[test]
    fn a_host_without_arrays_has_nothing_to_judge() {
        let none = Story::of_seconds(2).file(0, "sys/block/sda/size", "1").record(&COLLECTOR);
        assert_eq!(none.unavailable.unwrap().reason, Reason::NotApplicable);
        let cleared = Story::of_seconds(2).file(0, "sys/block/md0/md/array_state", "clear").record(&COLLECTOR);
        assert_eq!(cleared.unavailable.unwrap().reason, Reason::NotApplicable);
        let no_sysfs = Story::of_seconds(2).file(0, "proc/stat", "").record(&COLLECTOR);
        assert_eq!(no_sysfs.unavailable.unwrap().reason, Reason::Absent);
    }

    #[test]
    fn a_broken_number_is_malformed_and_no_healthy_array() {
        let story = Story::of_seconds(2).file(0, "sys/block/md0/md/array_state", "clean\n").file(
            0,
            "sys/block/md0/md/degraded",
            "-1\n",
        );
        assert_eq!(gap(&story.metrics(&COLLECTOR), "disk.array.missing.count", "md0").reason, Reason::Malformed);
    }
}
