//! Series as the collectors of rdiag would have recorded them, from means and levels.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Interval, PARTS, figure, total_memory};
use rdiag_model::recording::{CollectorRecord, Number, Series};
use rdiag_model::{RawUnit, SeriesKind};

/// Ticks are a hundredth of a second wherever sysstat runs.
const HERTZ: f64 = 100.0;

/// Series in the making, by collector.
#[derive(Default)]
pub(super) struct Building {
    times: Vec<f64>,
    series: BTreeMap<(&'static str, &'static str, String), Growing>,
}

/// A series: its kind and unit, its total so far, its values.
struct Growing {
    kind: SeriesKind,
    unit: RawUnit,
    total: f64,
    values: Vec<Option<Number>>,
}

impl Building {
    /// One interval, as [`PARTS`] samples after the one at its beginning.
    pub(super) fn sample(&mut self, interval: &Interval<'_>, start: f64, cpus: u32) {
        if self.times.last().is_none_or(|last| (start - last).abs() > 1.0) {
            self.times.push(start);
            self.series.values_mut().for_each(|series| series.values.push(Some(Number::Real(series.total))));
        }
        let begin = self.times.len();
        let part = interval.seconds / PARTS as f64;
        self.times.extend((1..=PARTS).map(|at| start + part * at as f64));
        self.cpu(interval, begin, cpus);
        self.memory(interval, begin);
        self.disks(interval, begin);
        self.network(interval, begin);
        self.pressure(interval, begin);
    }

    fn series(&mut self, name: &'static str, instance: &str, kind: SeriesKind, unit: RawUnit) -> &mut Growing {
        let collector = name.split_once('.').map_or(name, |(collector, _)| collector);
        let make = || Growing { kind, unit, total: 0.0, values: Vec::new() };
        self.series.entry((collector, name, instance.to_owned())).or_insert_with(make)
    }

    /// So much more at the end of the interval.
    fn grow(&mut self, name: &'static str, instance: &str, unit: RawUnit, begin: usize, more: Option<f64>) {
        let Some(more) = more else { return };
        let series = self.series(name, instance, SeriesKind::Counter, unit);
        series.values.resize(begin.saturating_sub(1), None);
        if series.values.len() < begin {
            series.values.push(Some(Number::Real(series.total)));
        }
        for at in 1..=PARTS {
            series.values.push(Some(Number::Real(series.total + more * at as f64 / PARTS as f64)));
        }
        series.total += more;
    }

    /// A level, which sysstat reads at the end of the interval.
    fn level(&mut self, name: &'static str, unit: RawUnit, begin: usize, level: Option<f64>) {
        let Some(level) = level else { return };
        let series = self.series(name, "", SeriesKind::Gauge, unit);
        series.values.resize(begin, None);
        series.values.extend([Some(Number::Real(level)); PARTS]);
    }

    fn cpu(&mut self, interval: &Interval<'_>, begin: usize, cpus: u32) {
        const FIELDS: [(&str, &str, &[&str]); 8] = [
            ("cpu_stat.user", "cpu_stat.core_user", &["usr", "user", "guest"]),
            ("cpu_stat.nice", "cpu_stat.core_nice", &["nice", "gnice"]),
            ("cpu_stat.system", "cpu_stat.core_system", &["sys", "system"]),
            ("cpu_stat.idle", "cpu_stat.core_idle", &["idle"]),
            ("cpu_stat.iowait", "cpu_stat.core_iowait", &["iowait"]),
            ("cpu_stat.irq", "cpu_stat.core_irq", &["irq"]),
            ("cpu_stat.softirq", "cpu_stat.core_softirq", &["soft"]),
            ("cpu_stat.steal", "cpu_stat.core_steal", &["steal"]),
        ];
        for row in &interval.sample.cpu_load {
            let Some(cpu) = row.get("cpu").and_then(Value::as_str) else { continue };
            let is_all = cpu == "all";
            let ticks = interval.seconds * HERTZ * if is_all { f64::from(cpus.max(1)) } else { 1.0 };
            for (all, core, keys) in FIELDS {
                // A field that this version or call does not print is none of this machine.
                let share: f64 = keys.iter().filter_map(|key| figure(row, key)).sum::<f64>() / 100.0;
                let (name, instance) = if is_all { (all, "") } else { (core, cpu) };
                self.grow(name, instance, RawUnit::Ticks, begin, Some(share * ticks));
            }
        }
        let switches = &interval.sample.process_and_context_switch;
        for (name, key) in [("cpu_stat.forks", "proc"), ("cpu_stat.switches", "cswch")] {
            self.grow(name, "", RawUnit::Count, begin, figure(switches, key).map(|rate| rate * interval.seconds));
        }
        let queue = &interval.sample.queue;
        for (name, key) in [
            ("loadavg.runnable", "runq-sz"),
            ("loadavg.entities", "plist-sz"),
            ("loadavg.one", "ldavg-1"),
            ("loadavg.five", "ldavg-5"),
            ("loadavg.fifteen", "ldavg-15"),
        ] {
            self.level(name, RawUnit::Count, begin, figure(queue, key));
        }
    }

    fn memory(&mut self, interval: &Interval<'_>, begin: usize) {
        let memory = &interval.sample.memory;
        self.level("meminfo.total", RawUnit::Kibibytes, begin, total_memory(memory));
        for (name, key) in [
            ("meminfo.free", "memfree"),
            ("meminfo.available", "avail"),
            ("meminfo.buffers", "buffers"),
            ("meminfo.cached", "cached"),
            ("meminfo.committed", "commit"),
            ("meminfo.dirty", "dirty"),
            ("meminfo.anonymous", "anonpg"),
            ("meminfo.slab", "slab"),
            ("meminfo.kernel_stack", "kstack"),
            ("meminfo.page_tables", "pgtbl"),
            ("meminfo.swap_free", "swpfree"),
        ] {
            self.level(name, RawUnit::Kibibytes, begin, figure(memory, key));
        }
        let swap = figure(memory, "swpfree").zip(figure(memory, "swpused")).map(|(free, used)| free + used);
        self.level("meminfo.swap_total", RawUnit::Kibibytes, begin, swap);
        let (paging, swapping) = (&interval.sample.paging, &interval.sample.swap_pages);
        for (name, map, key, unit) in [
            ("vmstat.pgmajfault", paging, "majflt", RawUnit::Count),
            ("vmstat.pgscan_kswapd", paging, "pgscank", RawUnit::Count),
            ("vmstat.pgscan_direct", paging, "pgscand", RawUnit::Count),
            ("vmstat.pswpin", swapping, "pswpin", RawUnit::Pages),
            ("vmstat.pswpout", swapping, "pswpout", RawUnit::Pages),
        ] {
            self.grow(name, "", unit, begin, figure(map, key).map(|rate| rate * interval.seconds));
        }
    }

    fn disks(&mut self, interval: &Interval<'_>, begin: usize) {
        for disk in &interval.sample.disk {
            let Some(device) = disk.get("disk-device").and_then(Value::as_str) else { continue };
            let of = |key: &str| figure(disk, key);
            let busy = of("util-percent").map(|percent| percent / 100.0 * interval.seconds * 1000.0);
            let queue = of("aqu-sz").or_else(|| of("avgqu-sz")).map(|queue| queue * interval.seconds * 1000.0);
            let sectors = |key: &str, old: &str| {
                of(key).map(|kilobytes| kilobytes * 2.0).or_else(|| of(old)).map(|rate| rate * interval.seconds)
            };
            for (name, unit, more) in [
                ("diskstats.busy_ms", RawUnit::Milliseconds, busy),
                ("diskstats.weighted_ms", RawUnit::Milliseconds, queue),
                ("diskstats.read_sectors", RawUnit::Sectors, sectors("rkB", "rd_sec")),
                ("diskstats.write_sectors", RawUnit::Sectors, sectors("wkB", "wr_sec")),
            ] {
                self.grow(name, device, unit, begin, more);
            }
        }
    }

    fn network(&mut self, interval: &Interval<'_>, begin: usize) {
        const TRAFFIC: [(&str, &str, f64, RawUnit); 4] = [
            ("interfaces.receive_bytes", "rxkB", 1024.0, RawUnit::Bytes),
            ("interfaces.transmit_bytes", "txkB", 1024.0, RawUnit::Bytes),
            ("interfaces.receive_packets", "rxpck", 1.0, RawUnit::Count),
            ("interfaces.transmit_packets", "txpck", 1.0, RawUnit::Count),
        ];
        const ERRORS: [(&str, &str, f64, RawUnit); 4] = [
            ("interfaces.device_receive_errors", "rxerr", 1.0, RawUnit::Count),
            ("interfaces.device_transmit_errors", "txerr", 1.0, RawUnit::Count),
            ("interfaces.device_receive_drops", "rxdrop", 1.0, RawUnit::Count),
            ("interfaces.device_transmit_drops", "txdrop", 1.0, RawUnit::Count),
        ];
        let network = &interval.sample.network;
        for (table, fields) in [("net-dev", TRAFFIC), ("net-edev", ERRORS)] {
            let rows = network.get(table).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
            for row in rows {
                let Some(interface) = row.get("iface").and_then(Value::as_str).filter(|name| *name != "lo") else {
                    continue;
                };
                for (name, key, factor, unit) in fields {
                    self.grow(
                        name,
                        interface,
                        unit,
                        begin,
                        figure(row, key).map(|rate| rate * factor * interval.seconds),
                    );
                }
            }
        }
        for (table, name, key) in [
            ("net-tcp", "tcp_udp.segments_sent", "oseg"),
            ("net-tcp", "tcp_udp.segments_received", "iseg"),
            ("net-tcp", "tcp_udp.active_opens", "active"),
            ("net-tcp", "tcp_udp.passive_opens", "passive"),
            ("net-etcp", "tcp_udp.retransmits", "retrans"),
            ("net-etcp", "tcp_udp.attempt_fails", "atmptf"),
        ] {
            let row = network.get(table).and_then(Value::as_object);
            let rate = row.and_then(|row| figure(row, key));
            self.grow(name, "", RawUnit::Count, begin, rate.map(|rate| rate * interval.seconds));
        }
    }

    fn pressure(&mut self, interval: &Interval<'_>, begin: usize) {
        for (resource, name, key) in [
            ("psi-cpu", "psi.cpu_some", "some_avg"),
            ("psi-io", "psi.io_some", "some_avg"),
            ("psi-io", "psi.io_full", "full_avg"),
            ("psi-mem", "psi.memory_some", "some_avg"),
            ("psi-mem", "psi.memory_full", "full_avg"),
        ] {
            let share = interval.sample.psi.get(resource).and_then(Value::as_object).and_then(|row| figure(row, key));
            let stalled = share.map(|percent| percent / 100.0 * interval.seconds * 1e6);
            self.grow(name, "", RawUnit::Microseconds, begin, stalled);
        }
    }

    pub(super) fn finish(self) -> BTreeMap<String, CollectorRecord> {
        let mut records: BTreeMap<String, CollectorRecord> = BTreeMap::new();
        for ((collector, name, instance), mut series) in self.series {
            series.values.resize(self.times.len(), None);
            let record = records.entry(collector.to_owned()).or_default();
            record.times.clone_from(&self.times);
            let instance = Some(instance).filter(|instance| !instance.is_empty());
            let (kind, unit, values) = (series.kind, series.unit, series.values);
            record.series.push(Series { name: name.to_owned(), instance, kind, unit, values });
        }
        records
    }
}
