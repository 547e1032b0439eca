//! Limits of control groups on I/O to single devices, and how much of them is used. A group at such a limit waits while
//! the device idles.

use super::block_devices::name_of;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Version, Watch};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cgroup_io",
    help: "I/O limits of control groups and what they let through, by device, v1 (blkio.throttle) and v2 (io.max).",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "two small reads per interval and group with a limit on I/O (six on v1); every fifth time a walk over at \
               most 2000 groups",
    start: |host| Box::new(CgroupIo::new(host)),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("cgroup_io.limit", RawUnit::Count, "io.max; v1: blkio.throttle.*_device"),
    SeriesDef::counter(
        "cgroup_io.done",
        RawUnit::Count,
        "io.stat, rbytes, wbytes, rios, wios; v1: blkio.throttle.io_service_bytes, blkio.throttle.io_serviced",
    ),
    SeriesDef::counter("cgroup_io.identity", RawUnit::Count, "inode of the group's directory"),
];

const METRICS: &[MetricDef] = &[MetricDef {
    id: "cgroup.io.used_of_limit.ratio",
    unit: Unit::Ratio,
    dimension: Some("cgroup_io"),
    help: "Share of one of the group's limits on I/O to a device that was used.",
    sources: &[Formula::of_capacity(&[term("cgroup_io.done")], &[term("cgroup_io.limit")])],
    caveat: "Writes to page cache are limited on v2 only, when they reach the device.",
    manual: "cat /sys/fs/cgroup/GROUP/io.max; cat /sys/fs/cgroup/GROUP/io.stat; sleep 1; cat \
             /sys/fs/cgroup/GROUP/io.stat",
    ..MetricDef::EMPTY
}];

/// A limit that can be set: how v2 names it, what counts against it (v2, then v1), the v1 file, and words for it.
struct Kind {
    limit: &'static str,
    counter: &'static str,
    v1_limit: &'static str,
    v1_counter: (&'static str, &'static str),
    words: &'static str,
}

const BYTES: &str = "blkio.throttle.io_service_bytes";
const OPERATIONS: &str = "blkio.throttle.io_serviced";
const KINDS: [Kind; 4] = [
    Kind {
        limit: "rbps",
        counter: "rbytes",
        v1_limit: "blkio.throttle.read_bps_device",
        v1_counter: (BYTES, "Read"),
        words: "bytes read per second",
    },
    Kind {
        limit: "wbps",
        counter: "wbytes",
        v1_limit: "blkio.throttle.write_bps_device",
        v1_counter: (BYTES, "Write"),
        words: "bytes written per second",
    },
    Kind {
        limit: "riops",
        counter: "rios",
        v1_limit: "blkio.throttle.read_iops_device",
        v1_counter: (OPERATIONS, "Read"),
        words: "reads per second",
    },
    Kind {
        limit: "wiops",
        counter: "wios",
        v1_limit: "blkio.throttle.write_iops_device",
        v1_counter: (OPERATIONS, "Write"),
        words: "writes per second",
    },
];

/// A limit on a device: number of the device (`253:0`), kind, value.
type Limit<'t> = (&'t str, &'static Kind, u64);

struct CgroupIo {
    watch: Result<Watch, Unavailable>,
    any: bool,
}

impl CgroupIo {
    fn new(host: &Host) -> Self {
        let watch = match Hierarchy::find(host, "blkio") {
            Ok(hierarchy) => Ok(Watch::new(host, hierarchy, "blkio")),
            Err(_) => Hierarchy::find(host, "io").map(|hierarchy| Watch::new(host, hierarchy, "io")),
        };
        Self { watch, any: false }
    }
}

impl Collect for CgroupIo {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let watch = self.watch.as_mut().map_err(|gap| gap.clone())?;
        watch.refresh(host, |hierarchy, group| !limits(&limit_texts(host, hierarchy, group)).is_empty());
        for (rest, gap) in watch.not_seen().into_iter().chain(watch.hidden()) {
            out.gap("cgroup_io.done", rest, gap);
        }
        for group in watch.limited() {
            let texts = limit_texts(host, &watch.hierarchy, &group);
            let counters = counter_texts(host, &watch.hierarchy, &group);
            for (device, kind, limit) in limits(&texts) {
                let instance = format!("{group} {device} {}", kind.limit);
                self.any = true;
                out.level("cgroup_io.limit", &instance, limit as f64);
                // A device without a line has seen no I/O of the group yet.
                out.count("cgroup_io.done", &instance, done(&counters, device, kind).unwrap_or(0));
                if let Some(inode) = watch.hierarchy.inode(host, &group) {
                    out.count("cgroup_io.identity", &instance, inode);
                }
                watch.label(&group, &mut |key, value| out.label(&instance, key, value));
                out.label(&instance, "name", group.as_str());
                out.label(&instance, "group", group.as_str());
                out.label(&instance, "device", name_of(host, device));
                out.label(&instance, "what", kind.words);
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Host, out: &Sink) {
        if let (Ok(watch), false) = (&self.watch, self.any) {
            let why = format!("none of the control groups here ({}) has a limit on I/O", watch.seen);
            out.gap("cgroup_io.", "", Unavailable::new(Reason::NotApplicable, why));
        }
    }
}

/// The files with a group's limits, each with the kind that it is about: none where all kinds share one.
fn limit_texts(host: &Host, hierarchy: &Hierarchy, group: &str) -> Vec<(Option<&'static Kind>, String)> {
    let read = |name: &str| host.read(&hierarchy.file(group, name)).unwrap_or_default();
    match hierarchy.version {
        Version::V2 => vec![(None, read("io.max"))],
        Version::V1 => KINDS.iter().map(|kind| (Some(kind), read(kind.v1_limit))).collect(),
    }
}

/// The limits in these files. On v2 a line is `8:16 rbps=2097152 wbps=max riops=max wiops=120`, on v1 `8:16 2097152`.
fn limits<'t>(texts: &'t [(Option<&'static Kind>, String)]) -> Vec<Limit<'t>> {
    let mut found = Vec::new();
    for (kind, text) in texts {
        for (device, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            match kind {
                Some(kind) => found.extend(rest.trim().parse().ok().map(|limit| (device, *kind, limit))),
                None => found.extend(rest.split(' ').filter_map(|word| {
                    let (name, limit) = word.split_once('=')?;
                    let kind = KINDS.iter().find(|kind| kind.limit == name)?;
                    // `max` is no number.
                    Some((device, kind, limit.trim().parse().ok()?))
                })),
            }
        }
    }
    found
}

/// The files that count a group's I/O, with their names.
fn counter_texts(host: &Host, hierarchy: &Hierarchy, group: &str) -> Vec<(&'static str, String)> {
    let files: &[&str] = match hierarchy.version {
        Version::V2 => &["io.stat"],
        Version::V1 => &[BYTES, OPERATIONS],
    };
    files.iter().map(|name| (*name, host.read(&hierarchy.file(group, name)).unwrap_or_default())).collect()
}

/// What counts against a limit. On v2 a line is `8:16 rbytes=1 wbytes=2 rios=3 wios=4 …`, on v1 `8:16 Read 1`.
fn done(texts: &[(&'static str, String)], device: &str, kind: &Kind) -> Option<u64> {
    texts.iter().find_map(|(file, text)| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' ')).filter(|(of, _)| *of == device);
        if *file == "io.stat" {
            let word = |rest: &str| {
                rest.split(' ').find_map(|word| word.strip_prefix(kind.counter)?.strip_prefix('=')?.parse().ok())
            };
            return lines.find_map(|(_, rest)| word(rest));
        }
        let (wanted, direction) = kind.v1_counter;
        let count = |rest: &str| rest.strip_prefix(direction)?.trim().parse().ok();
        if *file == wanted { lines.find_map(|(_, rest)| count(rest)) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Story, gap, stats};
    use super::*;

    #[test]
    fn v2_limits_are_read_by_device_and_kind() {
        let group = "sys/fs/cgroup/a";
        let metrics = Story::of_seconds(3)
            .file(0, "sys/fs/cgroup/cgroup.controllers", "io\n")
            .file(0, &format!("{group}/io.max"), "8:16 rbps=1000 wbps=max riops=max wiops=10\n")
            .file(
                0,
                &format!("{group}/io.stat"),
                "8:0 rbytes=9 wbytes=9 rios=9 wios=9\n8:16 rbytes=0 wbytes=0 rios=0 wios=0\n",
            )
            .file(2, &format!("{group}/io.stat"), "8:16 rbytes=1900 wbytes=50 rios=3 wios=4 dbytes=0 dios=0\n")
            .metrics(&COLLECTOR);
        let mean = |instance: &str| stats(&metrics, "cgroup.io.used_of_limit.ratio", instance).mean;
        assert!((mean("/a 8:16 rbps") - 0.95).abs() < 1e-9);
        assert!((mean("/a 8:16 wiops") - 0.2).abs() < 1e-9);
        let labels = &metrics.labels["cgroup_io"]["/a 8:16 rbps"];
        assert_eq!((labels["group"].as_str(), labels["what"].as_str()), ("/a", "bytes read per second"));
    }

    #[test]
    fn v1_has_a_file_for_each_kind() {
        let tree = "sys/fs/cgroup/blkio";
        let metrics = Story::of_seconds(3)
            .file(0, "proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n")
            .file(0, &format!("{tree}/release_agent"), "")
            .file(0, &format!("{tree}/a/blkio.throttle.read_iops_device"), "253:0 100\n")
            .file(2, &format!("{tree}/a/blkio.throttle.io_serviced"), "253:0 Read 100\n253:0 Write 7\nTotal 107\n")
            .metrics(&COLLECTOR);
        let found = stats(&metrics, "cgroup.io.used_of_limit.ratio", "/a 253:0 riops");
        assert!((found.mean - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_limits_there_is_nothing_to_measure() {
        let story = Story::of_seconds(2).file(0, "sys/fs/cgroup/cgroup.controllers", "io\n");
        let found = gap(&story.metrics(&COLLECTOR), "cgroup.io.used_of_limit.ratio", "");
        assert_eq!(found.reason, Reason::NotApplicable);
    }

    proptest! {
        #[test]
        fn no_text_can_stop_the_parsers(text in "([0-9:]{0,5}[ =]?(rbps|wiops|Read|max|[0-9]{0,21})[ \n]?){0,9}") {
            let v2 = [(None, text.clone())];
            let v1 = [(KINDS.first(), text.clone())];
            let _ = (limits(&v2).len(), limits(&v1).len());
            for kind in &KINDS {
                let _ = (done(&[("io.stat", text.clone())], "8:0", kind), done(&[(BYTES, text.clone())], "8:0", kind));
            }
        }
    }
}
