//! /proc/diskstats: requests, bytes and times of each whole block device.

mod catalogue;
mod device;
mod row;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use device::Device;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Unavailable};
use rdiag_proc::{DiskStat, disk_stat};

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

/// A counter of a line; none where the kernel is too old for it.
type Counter = fn(&DiskStat) -> Option<u64>;

const COUNTERS: [(&str, Counter); 13] = [
    ("diskstats.reads", |row| Some(row.reads)),
    ("diskstats.read_sectors", |row| Some(row.sectors_read)),
    ("diskstats.read_ms", |row| Some(row.time_reading)),
    ("diskstats.writes", |row| Some(row.writes)),
    ("diskstats.write_sectors", |row| Some(row.sectors_written)),
    ("diskstats.write_ms", |row| Some(row.time_writing)),
    ("diskstats.busy_ms", |row| Some(row.time_in_progress)),
    ("diskstats.weighted_ms", |row| Some(row.weighted_time_in_progress)),
    ("diskstats.discards", |row| row.discards),
    ("diskstats.discard_sectors", |row| row.sectors_discarded),
    ("diskstats.discard_ms", |row| row.time_discarding),
    ("diskstats.flushes", |row| row.flushes),
    ("diskstats.flush_ms", |row| row.time_flushing),
];

#[derive(Debug, Default)]
struct DiskStats {
    devices: HashMap<String, Device>,
}

impl Collect for DiskStats {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/diskstats")?;
        let rows: Vec<DiskStat> = text.lines().filter_map(disk_stat).collect();
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
    fn record(&mut self, host: &Host, out: &Sink, row: &DiskStat, rows: &[DiskStat]) {
        let now = out.current();
        let requests = row.reads.saturating_add(row.writes);
        let known = self.devices.get_mut(&row.name).filter(|device| device.used || device.requests == requests);
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
                let device = device::look(host, out, row, is_whole(host, &row.name, rows));
                self.devices.entry(row.name.clone()).insert_entry(device).into_mut()
            }
        };
        device.seen = now;
        device.requests = requests;
        if !device.recorded {
            return;
        }
        for (series, counter) in COUNTERS {
            if let Some(value) = counter(row) {
                out.count(series, &row.name, value);
            }
        }
        out.level("diskstats.in_flight", &row.name, row.in_progress as f64);
        out.count("diskstats.identity", &row.name, device.identity);
    }
}

/// Whole devices have a directory in /sys/block, partitions have theirs below it.
fn is_whole(host: &Host, name: &str, rows: &[DiskStat]) -> bool {
    if host.exists("sys/block") {
        return host.exists(&device::sysfs(name));
    }
    !row::looks_like_partition(name, rows)
}
