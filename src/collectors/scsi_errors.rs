//! /sys/block/DEVICE/device: commands that failed or timed out, as the SCSI layer counts them (SATA and USB disks too). `ioerr_cnt` also
//! counts commands that the disk does not know, so a change is only worth knowing.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, optional, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "scsi_errors",
    help: "Failed and timed-out commands of SCSI, SATA and USB disks, from /sys/block/DEVICE/device.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window: one directory and two short files per disk",
    start: |_| Box::new(ScsiErrors),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter32("scsi_errors.failed", RawUnit::Count, "/sys/block/DEVICE/device/ioerr_cnt"),
    SeriesDef::counter32("scsi_errors.timed_out", RawUnit::Count, "/sys/block/DEVICE/device/iotmo_cnt (newer kernels)"),
];

const CAVEAT: &str = "A command that the device does not know counts like a lost sector, so monitoring tools (smartctl) \
    raise it too; the kernel log distinguishes them.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "disk.scsi_errors.count",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Commands of a SCSI, SATA or USB disk that failed or timed out within the window.",
        sources: &[Formula::change(&[term("scsi_errors.failed"), optional("scsi_errors.timed_out")])],
        caveat: CAVEAT,
        manual: "grep . /sys/block/sd*/device/io*_cnt",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.scsi_errors_since_boot.count",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Commands of a SCSI, SATA or USB disk that failed or timed out since it appeared.",
        sources: &[Formula::level(&[term("scsi_errors.failed"), optional("scsi_errors.timed_out")])],
        caveat: CAVEAT,
        manual: "grep . /sys/block/sd*/device/io*_cnt",
        ..MetricDef::EMPTY
    },
];

struct ScsiErrors;

impl Collect for ScsiErrors {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut seen = false;
        // An optical drive fails a command each time a program checks whether there is a disc in it.
        for entry in host.list("sys/block")?.iter().filter(|entry| !entry.starts_with("sr")) {
            // In /proc/diskstats, which gives the other figures of the device, the name has its slash.
            let name = entry.replace('!', "/");
            let counter =
                |file: &str| -> Option<u64> { hex(&host.read_line(&format!("sys/block/{entry}/device/{file}")).ok()?) };
            if let Some(failed) = counter("ioerr_cnt") {
                seen = true;
                out.count("scsi_errors.failed", &name, failed);
            }
            if let Some(timed_out) = counter("iotmo_cnt") {
                out.count("scsi_errors.timed_out", &name, timed_out);
            }
        }
        if seen { Ok(()) } else { Err(Unavailable::new(Reason::NotApplicable, "this host has no SCSI or SATA disk")) }
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{COLLECTOR, hex};
    use crate::testing::{Story, instances, stats};
    use rdiag_model::Reason;

    #[test]
    fn the_counters_are_hexadecimal() {
        assert_eq!(hex("0x1f"), Some(31));
        assert_eq!(hex("31"), None);
        assert_eq!(hex("0x"), None);
        assert_eq!(hex("0xfffffffffffffffff"), None);
    }

    #[test]
    fn failures_of_the_window_are_told_from_those_since_boot() {
        let story = Story::of_seconds(3)
            .file(0, "sys/block/sda/device/ioerr_cnt", "0x2\n")
            .file(0, "sys/block/sdb/device/ioerr_cnt", "0xa\n")
            .file(0, "sys/block/sdb/device/iotmo_cnt", "0x0\n")
            .file(0, "sys/block/sr0/device/ioerr_cnt", "0xff\n")
            .file(0, "sys/block/vda/size", "8\n")
            .file(2, "sys/block/sda/device/ioerr_cnt", "0x2\n")
            .file(2, "sys/block/sdb/device/ioerr_cnt", "0xb\n")
            .file(2, "sys/block/sdb/device/iotmo_cnt", "0x2\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "disk.scsi_errors.count"), ["sda", "sdb"]);
        assert_eq!(stats(&metrics, "disk.scsi_errors.count", "sda").total, 0.0);
        assert_eq!(stats(&metrics, "disk.scsi_errors.count", "sdb").total, 3.0);
        assert_eq!(stats(&metrics, "disk.scsi_errors_since_boot.count", "sda").last, 2.0);
    }

    #[test]
    fn a_host_without_such_disks_has_nothing_to_judge() {
        let none = Story::of_seconds(2).file(0, "sys/block/vda/size", "1").record(&COLLECTOR);
        assert_eq!(none.unavailable.unwrap().reason, Reason::NotApplicable);
    }
}
