//! What sysstat recorded, as `sadf -j FILE -- -A` or `sadf -x` prints it: means over its interval, ten minutes on most hosts.

mod document;
#[cfg(test)]
mod tests;
mod xml;

use serde_json::{Map, Value};

use self::document::{HostPart, Sample};
use super::building::Building;
use super::figures::figure;
use super::intervals::{Source, Time, unknown_host};
use crate::past::time::Past;
use rdiag_kernel::host::Zone;
use rdiag_model::{Facts, RawUnit};

const SOURCE: Source = Source {
    name: "sysstat",
    lacks: "sysstat records no processes, file systems and kernel log: who is behind it is not known",
    gap: "sysstat does not record it",
};

/// Ticks are a hundredth of a second wherever sysstat runs.
const HERTZ: f64 = 100.0;
/// Characters of a name, and CPUs of a host.
const MAX_NAME: usize = 64;
const MAX_CPUS: u32 = 65_536;

/// The recording of a time, from what `sadf -j` printed.
pub(super) fn past(text: &[u8], time: &Time<'_>) -> Result<Past, String> {
    let host = HostPart::of_json(text)?;
    let mut recorded = Recorded::default();
    let intervals = host.statistics.iter().filter_map(|sample| sample.interval(time.zone));
    intervals.for_each(|interval| recorded.has(interval.end));
    of_host(&host, time).map_err(|why| recorded.besides(why, time.zone))
}

/// Whether it is XML of sysstat, or the end of such.
pub(super) fn is_xml(bytes: &[u8]) -> bool {
    xml::is(bytes)
}

/// The same from what `sadf -x` printed.
pub(super) fn past_of_xml(bytes: &[u8], time: &Time<'_>) -> Result<Past, String> {
    let mut recorded = Recorded::default();
    let is_wanted = |sample: &Sample| {
        let interval = sample.interval(time.zone);
        interval.iter().for_each(|interval| recorded.has(interval.end));
        interval.is_some_and(|interval| time.is_told_by(&interval))
    };
    let read = xml::host(&String::from_utf8_lossy(bytes), is_wanted)?;
    let mut past = of_host(&read.host, time).map_err(|why| recorded.besides(why, time.zone))?;
    past.notes.extend(read.notes);
    Ok(past)
}

/// When a file has something, in microseconds since 1970.
#[derive(Debug, Default)]
struct Recorded(Option<(i64, i64)>);

impl Recorded {
    fn has(&mut self, end: i64) {
        let (first, last) = self.0.unwrap_or((end, end));
        self.0 = Some((first.min(end), last.max(end)));
    }

    /// What the file has instead: a day of another month is named like this one.
    fn besides(&self, why: String, zone: &Zone) -> String {
        match self.0 {
            Some((first, last)) => format!("{why}; the file is of {} to {}", zone.shown(first), zone.shown(last)),
            None => why,
        }
    }
}

fn of_host(host: &HostPart, time: &Time<'_>) -> Result<Past, String> {
    let read = host.statistics.iter().filter_map(|sample| sample.interval(time.zone));
    let intervals = time.pick(read, &SOURCE)?;
    let memory = intervals.iter().rev().find_map(|interval| total_memory(&interval.sample.memory));
    let (cpus, name) = (host.cpus.clamp(1, MAX_CPUS), |text: &str| text.chars().take(MAX_NAME).collect());
    let facts = Facts {
        hostname: name(&host.nodename),
        kernel: name(&host.release),
        arch: name(&host.machine),
        cpus,
        cpus_present: cpus,
        memory_bytes: memory.map_or(0, |kibibytes| (kibibytes * 1024.0) as u64),
        ..unknown_host()
    };
    time.past(&SOURCE, &intervals, facts, |building, interval| {
        let telling = Telling { sample: interval.sample, seconds: interval.seconds, cpus };
        telling.cpu(building);
        telling.memory(building);
        telling.disks(building);
        telling.network(building);
        telling.pressure(building);
    })
}

/// An interval that is told.
struct Telling<'s> {
    sample: &'s Sample,
    seconds: f64,
    cpus: u32,
}

impl Telling<'_> {
    fn cpu(&self, building: &mut Building) {
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
        for row in self.sample.cpus() {
            let Some(cpu) = row.get("cpu").and_then(Value::as_str) else { continue };
            let is_all = cpu == "all";
            let ticks = self.seconds * HERTZ * if is_all { f64::from(self.cpus) } else { 1.0 };
            for (all, core, keys) in FIELDS {
                // A field that this version or call does not print is none of this machine.
                let share: f64 = keys.iter().filter_map(|key| figure(row, key)).sum::<f64>() / 100.0;
                let (name, instance) = if is_all { (all, "") } else { (core, cpu) };
                building.grow(name, instance, RawUnit::Ticks, Some(share * ticks));
            }
        }
        let switches = &self.sample.process_and_context_switch;
        for (name, key) in [("cpu_stat.forks", "proc"), ("cpu_stat.switches", "cswch")] {
            building.grow(name, "", RawUnit::Count, figure(switches, key).map(|rate| rate * self.seconds));
        }
        let queue = &self.sample.queue;
        for (name, key) in [
            ("loadavg.runnable", "runq-sz"),
            ("loadavg.entities", "plist-sz"),
            ("loadavg.one", "ldavg-1"),
            ("loadavg.five", "ldavg-5"),
            ("loadavg.fifteen", "ldavg-15"),
        ] {
            building.level(name, "", RawUnit::Count, figure(queue, key));
        }
    }

    fn memory(&self, building: &mut Building) {
        let memory = &self.sample.memory;
        building.level("meminfo.total", "", RawUnit::Kibibytes, total_memory(memory));
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
            building.level(name, "", RawUnit::Kibibytes, figure(memory, key));
        }
        let swap = figure(memory, "swpfree").zip(figure(memory, "swpused")).map(|(free, used)| free + used);
        building.level("meminfo.swap_total", "", RawUnit::Kibibytes, swap);
        let (paging, swapping) = (&self.sample.paging, &self.sample.swap_pages);
        for (name, map, key, unit) in [
            ("vmstat.pgmajfault", paging, "majflt", RawUnit::Count),
            ("vmstat.pgscan_kswapd", paging, "pgscank", RawUnit::Count),
            ("vmstat.pgscan_direct", paging, "pgscand", RawUnit::Count),
            ("vmstat.pswpin", swapping, "pswpin", RawUnit::Pages),
            ("vmstat.pswpout", swapping, "pswpout", RawUnit::Pages),
        ] {
            building.grow(name, "", unit, figure(map, key).map(|rate| rate * self.seconds));
        }
    }

    fn disks(&self, building: &mut Building) {
        for disk in &self.sample.disk {
            let Some(device) = disk.get("disk-device").and_then(Value::as_str) else { continue };
            let of = |key: &str| figure(disk, key);
            let busy = of("util-percent").map(|percent| percent / 100.0 * self.seconds * 1000.0);
            let queue = of("aqu-sz").or_else(|| of("avgqu-sz")).map(|queue| queue * self.seconds * 1000.0);
            let sectors = |key: &str, old: &str| {
                of(key).map(|kilobytes| kilobytes * 2.0).or_else(|| of(old)).map(|rate| rate * self.seconds)
            };
            for (name, unit, more) in [
                ("diskstats.busy_ms", RawUnit::Milliseconds, busy),
                ("diskstats.weighted_ms", RawUnit::Milliseconds, queue),
                ("diskstats.read_sectors", RawUnit::Sectors, sectors("rkB", "rd_sec")),
                ("diskstats.write_sectors", RawUnit::Sectors, sectors("wkB", "wr_sec")),
            ] {
                building.grow(name, device, unit, more);
            }
        }
    }

    fn network(&self, building: &mut Building) {
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
        let network = &self.sample.network;
        for (table, fields) in [("net-dev", TRAFFIC), ("net-edev", ERRORS)] {
            let rows = network.get(table).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
            for row in rows {
                let Some(interface) = row.get("iface").and_then(Value::as_str).filter(|name| *name != "lo") else {
                    continue;
                };
                for (name, key, factor, unit) in fields {
                    building.grow(name, interface, unit, figure(row, key).map(|rate| rate * factor * self.seconds));
                }
            }
        }
        for (table, name, key) in [
            ("net-tcp", "tcp_udp.segments_sent", "oseg"),
            ("net-tcp", "tcp_udp.segments_received", "iseg"),
            ("net-tcp", "tcp_udp.active_opens", "active"),
            ("net-tcp", "tcp_udp.passive_opens", "passive"),
            ("net-etcp", "tcp_udp.retransmits", "retrans"),
            // As 12.7.6 prints it.
            ("net-etcp", "tcp_udp.retransmits", "retrseg"),
            ("net-etcp", "tcp_udp.attempt_fails", "atmptf"),
        ] {
            let row = network.get(table).and_then(Value::as_object);
            let rate = row.and_then(|row| figure(row, key));
            building.grow(name, "", RawUnit::Count, rate.map(|rate| rate * self.seconds));
        }
    }

    fn pressure(&self, building: &mut Building) {
        for (resource, name, key) in [
            ("psi-cpu", "psi.cpu_some", "some_avg"),
            ("psi-io", "psi.io_some", "some_avg"),
            ("psi-io", "psi.io_full", "full_avg"),
            ("psi-mem", "psi.memory_some", "some_avg"),
            ("psi-mem", "psi.memory_full", "full_avg"),
        ] {
            let share = self.sample.psi.get(resource).and_then(Value::as_object).and_then(|row| figure(row, key));
            let stalled = share.map(|percent| percent / 100.0 * self.seconds * 1e6);
            building.grow(name, "", RawUnit::Microseconds, stalled);
        }
    }
}

/// MemTotal in kB: sysstat gives it as a share only.
fn total_memory(memory: &Map<String, Value>) -> Option<f64> {
    let of = |key| figure(memory, key);
    let (used, percent) = (of("memused")?, of("memused-percent")?);
    let by_share = if percent > 0.0 { used * 100.0 / percent } else { return None };
    // Versions differ in what is part of what is used: the sum that comes nearest.
    let with = of("memfree")? + used;
    let without = with + of("buffers").unwrap_or(0.0) + of("cached").unwrap_or(0.0) + of("slab").unwrap_or(0.0);
    [with, without].into_iter().min_by(|a, b| (a - by_share).abs().total_cmp(&(b - by_share).abs()))
}
