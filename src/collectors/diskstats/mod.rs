//! /proc/diskstats: requests, bytes and times of each whole block device.

mod catalogue;
mod device;
mod row;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use device::Device;
use row::Row;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "diskstats",
    help: "Requests, bytes, times and queue of each block device that was ever used, from /proc/diskstats.",
    cadence: Cadence::Interval,
    series: catalogue::SERIES,
    metrics: catalogue::METRICS,
    overhead: "one read per interval, its length grows with the devices (about 40 µs for 10); once per window five \
               short files of each device in /sys/block",
    start: |_| Box::new(DiskStats::default()),
};

/// The counters, by their field in the file.
const COUNTERS: [(usize, &str); 13] = [
    (1, "diskstats.reads"),
    (3, "diskstats.read_sectors"),
    (4, "diskstats.read_ms"),
    (5, "diskstats.writes"),
    (7, "diskstats.write_sectors"),
    (8, "diskstats.write_ms"),
    (10, "diskstats.busy_ms"),
    (11, "diskstats.weighted_ms"),
    (12, "diskstats.discards"),
    (14, "diskstats.discard_sectors"),
    (15, "diskstats.discard_ms"),
    (16, "diskstats.flushes"),
    (17, "diskstats.flush_ms"),
];

#[derive(Debug, Default)]
struct DiskStats {
    devices: HashMap<String, Device>,
}

impl Collect for DiskStats {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/diskstats")?;
        let rows: Vec<Row> = text.lines().filter_map(Row::parse).collect();
        if rows.is_empty() {
            let (reason, why) = match text.trim().is_empty() {
                true => (Reason::NotApplicable, "this host shows no block device"),
                false => (Reason::Malformed, "/proc/diskstats holds no line that can be understood"),
            };
            return Err(Unavailable::new(reason, why));
        }
        for row in &rows {
            self.record(host, out, row, &rows);
        }
        Ok(())
    }
}

impl DiskStats {
    fn record(&mut self, host: &Host, out: &Sink, row: &Row, rows: &[Row]) {
        let now = out.current();
        let requests = row.field(1).unwrap_or(0).saturating_add(row.field(5).unwrap_or(0));
        let known = self.devices.get_mut(row.name()).filter(|device| device.used || device.requests == requests);
        let device = match known {
            Some(device) => {
                // diskseq is a file of its own for each device: it is read again only where there is a suspicion.
                let suspicious = requests < device.requests || device.seen + 1 < now;
                if device.recorded && suspicious {
                    device.identity = device::identity(host, row);
                }
                device
            }
            None => {
                let device = device::look(host, out, row, is_whole(host, row.name(), rows));
                self.devices.entry(row.name().to_owned()).insert_entry(device).into_mut()
            }
        };
        device.seen = now;
        device.requests = requests;
        if !device.recorded {
            return;
        }
        for (number, series) in COUNTERS {
            if let Some(value) = row.field(number) {
                out.count(series, row.name(), value);
            }
        }
        if let Some(level) = row.field(9) {
            out.level("diskstats.in_flight", row.name(), level as f64);
        }
        out.count("diskstats.identity", row.name(), device.identity);
    }
}

/// Whole devices have a directory in /sys/block, partitions have theirs below it.
fn is_whole(host: &Host, name: &str, rows: &[Row]) -> bool {
    if host.exists("sys/block") {
        return host.exists(&device::sysfs(name));
    }
    !row::looks_like_partition(name, rows)
}
