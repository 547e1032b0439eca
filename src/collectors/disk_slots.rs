//! /sys/block/DEVICE/queue: how many requests a device may have outstanding before the next one waits for a slot.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, Source, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "disk_slots",
    help: "Request slots of each block device, from /sys/block/DEVICE/queue and mq.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window: one short file and one directory per device (about 10 µs each)",
    start: |_| Box::new(DiskSlots),
};

const SERIES: &[SeriesDef] = &[SeriesDef::gauge(
    "disk_slots.requests",
    RawUnit::Count,
    "/sys/block/DEVICE/queue/nr_requests, times the queues in /sys/block/DEVICE/mq",
)];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "disk.slots.count",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Requests that a device may have outstanding (nr_requests of each of its hardware queues).",
        sources: &[Formula::level(&[term("disk_slots.requests")])],
        caveat: "Programs on one CPU use one hardware queue, and devices of SCSI share one set of tags among all \
                 queues: the limit may be reached earlier.",
        manual: "grep . /sys/block/*/queue/nr_requests; ls /sys/block/*/mq",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.unloaded_await.seconds",
        unit: Unit::Seconds,
        dimension: Some("device"),
        help: "Mean time of a request in the device's least-loaded interval of the window (at most 1.2 outstanding).",
        sources: &[Formula::Taken(Source::OneRequest)],
        caveat: "Only where the device had such an interval, of reads if most time went to reads. Sizes of requests \
                 may differ.",
        manual: "iostat -dx 1 10 (r_await, w_await where aqu-sz is below 1)",
        ..MetricDef::EMPTY
    },
];

struct DiskSlots;

impl Collect for DiskSlots {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut seen = false;
        for entry in host.list("sys/block")? {
            let Ok(slots) = host.read_u64(&format!("sys/block/{entry}/queue/nr_requests")) else { continue };
            let queues = host.list(&format!("sys/block/{entry}/mq")).map_or(1, |queues| queues.len().max(1));
            seen = true;
            // In /proc/diskstats, which gives the other figures of the device, the name has its slash.
            out.level("disk_slots.requests", &entry.replace('!', "/"), slots as f64 * queues as f64);
        }
        if seen { Ok(()) } else { Err(Unavailable::new(Reason::NotApplicable, "no block device here has a queue")) }
    }
}

#[cfg(test)]
mod tests {
    use super::COLLECTOR;
    use crate::testing::{Story, gap, instances, stats};
    use rdiag_model::Reason;

    const SLOTS: &str = "disk.slots.count";

    #[test]
    fn the_slots_of_all_hardware_queues_are_counted() {
        let tree = Story::of_seconds(1);
        tree.put("sys/block/vda/queue/nr_requests", "256\n").put("sys/block/cciss!c0d0/queue/nr_requests", "128\n");
        for queue in 0..2 {
            tree.put(&format!("sys/block/cciss!c0d0/mq/{queue}/nr_tags"), "128\n");
        }
        tree.put("sys/block/zram0/size", "0\n");
        let metrics = tree.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, SLOTS), ["cciss/c0d0", "vda"]);
        assert_eq!((stats(&metrics, SLOTS, "vda").mean, stats(&metrics, SLOTS, "cciss/c0d0").mean), (256.0, 256.0));
    }

    #[test]
    fn garbage_is_left_out_and_without_a_queue_nothing_applies() {
        let tree = Story::of_seconds(1);
        tree.put("sys/block/vda/queue/nr_requests", "many\n");
        assert_eq!(gap(&tree.metrics(&COLLECTOR), SLOTS, "").reason, Reason::NotApplicable);
    }
}
