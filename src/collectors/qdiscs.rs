//! Queueing disciplines of network devices: packets sent, dropped and queued, from rtnetlink. No file shows them, and no counter of the
//! device includes a packet that is dropped there.
//!
//! Recorded is the root qdisc of each device, because the kernel adds the drops of its children to it. The child or class with the most
//! drops is a label. Ingress qdiscs (ingress, clsact) are left out: filters drop packets there on purpose.

use std::collections::{BTreeSet, HashMap};

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::traffic_control::{Queue, TrafficControl};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "qdiscs",
    help: "Packets sent, dropped and queued by the queueing discipline of each network device, from rtnetlink.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "one request per interval (about 20 µs, and 1 µs for each queueing discipline); the classes of at most 16 devices at both \
        ends",
    start: |_| Box::new(Qdiscs::default()),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter("qdiscs.bytes", RawUnit::Bytes, "rtnetlink RTM_GETQDISC, TCA_STATS2: bytes"),
    SeriesDef::counter("qdiscs.packets", RawUnit::Count, "rtnetlink RTM_GETQDISC, TCA_STATS2: packets"),
    SeriesDef::counter32("qdiscs.drops", RawUnit::Count, "rtnetlink RTM_GETQDISC, TCA_STATS2: drops"),
    SeriesDef::counter32("qdiscs.overlimits", RawUnit::Count, "rtnetlink RTM_GETQDISC, TCA_STATS2: overlimits"),
    SeriesDef::gauge("qdiscs.waiting", RawUnit::Count, "rtnetlink RTM_GETQDISC, TCA_STATS2: qlen"),
    SeriesDef::gauge("qdiscs.waiting_bytes", RawUnit::Bytes, "rtnetlink RTM_GETQDISC, TCA_STATS2: backlog"),
];

const MANUAL: &str = "tc -s qdisc show; tc -s class show dev IF";
const CAVEAT: &str = "Of the network namespace of rdiag only. Segments sent as one (GSO) count as one packet.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "network.qdisc.drops.count",
        unit: Unit::Count,
        dimension: Some("qdisc"),
        help: "Outgoing packets that the queueing discipline of the device dropped.",
        sources: &[Formula::change(&[term("qdiscs.drops")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.qdisc.packets.count",
        unit: Unit::Count,
        dimension: Some("qdisc"),
        help: "Packets that the queueing discipline of the device sent.",
        sources: &[Formula::change(&[term("qdiscs.packets")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.qdisc.sent.bytes_per_second",
        unit: Unit::BytesPerSecond,
        dimension: Some("qdisc"),
        help: "Bytes per second that the queueing discipline of the device sent.",
        sources: &[Formula::rate(&[term("qdiscs.bytes")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.qdisc.overlimits.count",
        unit: Unit::Count,
        dimension: Some("qdisc"),
        help: "Times that a configured rate made the queueing discipline delay a packet.",
        sources: &[Formula::change(&[term("qdiscs.overlimits")])],
        caveat: "One packet may be counted several times.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.qdisc.backlog.count",
        unit: Unit::Count,
        dimension: Some("qdisc"),
        help: "Packets waiting in the queueing discipline when it is read.",
        sources: &[Formula::level(&[term("qdiscs.waiting")])],
        caveat: "One reading per interval; the ring buffer of the device is not included.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "network.qdisc.backlog.bytes",
        unit: Unit::Bytes,
        dimension: Some("qdisc"),
        help: "Bytes waiting in the queueing discipline when it is read.",
        sources: &[Formula::level(&[term("qdiscs.waiting_bytes")])],
        caveat: "One reading per interval; the ring buffer of the device is not included.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

/// At most so many devices have their classes read, and so many root qdiscs are recorded.
const MAX_CLASSFUL: usize = 16;
const MAX_ROOTS: usize = 1024;
/// Kinds whose classes an administrator configures. Classes of other kinds are device queues or flows.
const CLASSFUL: [&str; 7] = ["htb", "hfsc", "drr", "qfq", "ets", "prio", "cbq"];

/// Device, number, and whether it is a class.
type Key = (u32, u32, bool);

#[derive(Default)]
struct Qdiscs {
    kernel: Option<TrafficControl>,
    names: HashMap<u32, Option<String>>,
    /// Drops of each queue when the window began.
    before: Option<HashMap<Key, u32>>,
}

impl Collect for Qdiscs {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        if host.is_recorded() {
            return Err(Unavailable::new(Reason::NotApplicable, "a recorded tree has no answers of rtnetlink"));
        }
        if host.is_seen_from_outside() {
            let why = "rtnetlink answers for the network namespace that rdiag runs in only";
            return Err(Unavailable::new(Reason::NotVisible, why).with_remedy("run rdiag on the host itself"));
        }
        let kernel = match &mut self.kernel {
            Some(kernel) => kernel,
            None => self.kernel.insert(TrafficControl::open()?),
        };
        let all = kernel.qdiscs()?;
        if self.before.is_none() {
            self.before = Some(drops(&with_classes(kernel, &all)));
        }
        if roots(&all).next().is_none() {
            // A device that is down has none, and a virtual one (lo) sends at once.
            let why = "no network device has a qdisc that queues (down, or noqueue)";
            out.gap("qdiscs.", "", Unavailable::new(Reason::NotApplicable, why));
        }
        for queue in roots(&all).take(MAX_ROOTS) {
            let name = self.names.entry(queue.device).or_insert_with(|| kernel.name(queue.device));
            if let Some(name) = name {
                record(out, name, queue);
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Host, out: &Sink) {
        let (Some(kernel), Some(before)) = (&mut self.kernel, &self.before) else { return };
        let Ok(all) = kernel.qdiscs() else { return };
        let whole = with_classes(kernel, &all);
        for root in roots(&all).take(MAX_ROOTS) {
            let Some(Some(name)) = self.names.get(&root.device) else { continue };
            if let Some(place) = worst_below(root, &whole, before) {
                out.label(&instance(name, root), "where", place);
            }
        }
    }
}

/// The root qdiscs of devices that have a queue.
fn roots(all: &[Queue]) -> impl Iterator<Item = &Queue> {
    all.iter().filter(|queue| queue.parent == Queue::ROOT && queue.kind != "noqueue")
}

fn instance(name: &str, queue: &Queue) -> String {
    format!("{name} {}", queue.kind)
}

fn record(out: &Sink, name: &str, queue: &Queue) {
    let instance = instance(name, queue);
    out.count("qdiscs.bytes", &instance, queue.bytes);
    out.count("qdiscs.packets", &instance, queue.packets);
    out.count("qdiscs.drops", &instance, queue.drops.into());
    out.count("qdiscs.overlimits", &instance, queue.overlimits.into());
    out.level("qdiscs.waiting", &instance, queue.waiting.into());
    out.level("qdiscs.waiting_bytes", &instance, queue.waiting_bytes.into());
    out.label(&instance, "interface", name);
    out.label(&instance, "kind", queue.kind.as_str());
}

/// All qdiscs, and the classes of classful ones; each with whether it is a class.
fn with_classes(kernel: &mut TrafficControl, all: &[Queue]) -> Vec<(bool, Queue)> {
    let classful = all.iter().filter(|queue| CLASSFUL.contains(&queue.kind.as_str()));
    let devices: BTreeSet<u32> = classful.map(|queue| queue.device).collect();
    let mut whole: Vec<(bool, Queue)> = all.iter().map(|queue| (false, queue.clone())).collect();
    for device in devices.into_iter().take(MAX_CLASSFUL) {
        let classes = kernel.classes(device).unwrap_or_default();
        whole.extend(classes.into_iter().map(|class| (true, class)));
    }
    whole
}

fn drops(whole: &[(bool, Queue)]) -> HashMap<Key, u32> {
    whole.iter().map(|(is_class, queue)| ((queue.device, queue.handle, *is_class), queue.drops)).collect()
}

/// The class or qdisc below the root with the most drops since the window began: `htb class 1:20`, `fq_codel 8002:0`.
/// Among equals the class, because an administrator configured it.
fn worst_below(root: &Queue, whole: &[(bool, Queue)], before: &HashMap<Key, u32>) -> Option<String> {
    let below = whole.iter().filter(|(is_class, queue)| {
        queue.device == root.device && (*is_class || (queue.parent != Queue::ROOT && queue.handle != 0))
    });
    let change = |(is_class, queue): &(bool, Queue)| {
        let then = before.get(&(queue.device, queue.handle, *is_class)).copied().unwrap_or(0);
        queue.drops.wrapping_sub(then)
    };
    let worst = below.filter(|one| change(one) > 0).max_by_key(|one| (change(one), one.0))?;
    let (is_class, queue) = worst;
    let class = if *is_class { " class" } else { "" };
    Some(format!("{}{class} {}", queue.kind, queue.number()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, gap};

    fn queue(kind: &str, handle: u32, parent: u32, drops: u32) -> Queue {
        Queue { device: 3, handle, parent, kind: kind.to_owned(), drops, ..Queue::default() }
    }

    #[test]
    fn the_class_that_dropped_the_most_within_the_window_is_named() {
        let root = queue("htb", 0x1_0000, Queue::ROOT, 0);
        let then = [
            (false, root.clone()),
            (true, queue("htb", 0x1_0010, 0x1_0000, 900)),
            (true, queue("htb", 0x1_0020, 0x1_0000, 0)),
            (false, queue("fq_codel", 0x8002_0000, 0x1_0020, 0)),
        ];
        let mut now = then.clone();
        assert_eq!(worst_below(&root, &now, &drops(&then)), None, "old drops are none of this window");
        now[1].1.drops += 5;
        now[2].1.drops += 70;
        now[3].1.drops += 70;
        assert_eq!(worst_below(&root, &now, &drops(&then)).as_deref(), Some("htb class 1:20"));
        now[3].1.drops += 1;
        assert_eq!(worst_below(&root, &now, &drops(&then)).as_deref(), Some("fq_codel 8002:0"));
    }

    #[test]
    fn devices_without_a_queue_and_what_comes_in_are_left_out() {
        let all = [
            queue("noqueue", 0, Queue::ROOT, 0),
            queue("clsact", 0xffff_0000, 0xffff_fff1, 8),
            queue("tbf", 1, Queue::ROOT, 0),
        ];
        let kinds: Vec<&str> = roots(&all).map(|queue| queue.kind.as_str()).collect();
        assert_eq!(kinds, ["tbf"]);
    }

    #[test]
    fn a_recorded_tree_has_none() {
        let tree = Story::of_seconds(1);
        tree.put("proc/net/dev", "");
        assert_eq!(gap(&tree.metrics(&COLLECTOR), "network.qdisc.drops.count", "").reason, Reason::NotApplicable);
    }
}
