//! What atop recorded, as `atop -r FILE -J ALL` prints it: an object of JSON on each line, of one interval. Counters are what came within
//! it, levels are those of its end. atop has the processes, so who is behind something is known as well.
//!
//! atop escapes nothing: it takes quotation marks out of names, and puts everything else into its strings as it is.

mod tasks;

use serde::Deserialize;
use serde_json::{Map, Value};

use self::tasks::{Tasks, tasks};
use super::building::Building;
use super::figures::figure;
use super::intervals::{Interval, Source, Time, unknown_host};
use crate::past::time::Past;
use rdiag_model::{Facts, RawUnit};

const SOURCE: Source = Source {
    name: "atop",
    lacks: "atop records no latencies of disks, no file systems and no kernel log: what rests on them is unknown",
    gap: "atop does not record it",
};

/// Without others to compare with, an interval that is longer is taken for the time since boot.
const LONGEST_ALONE: f64 = 3600.0;
/// Characters of a name.
const MAX_NAME: usize = 64;
/// Bytes of an interval: 40,000 processes.
const MAX_BYTES: usize = 32 << 20;

/// What every line begins with.
#[derive(Deserialize)]
struct Head {
    timestamp: i64,
    elapsed: f64,
    #[serde(default, rename = "PAG")]
    paging: Paging,
}

#[derive(Default, Deserialize)]
struct Paging {
    #[serde(default)]
    oomkills: Option<f64>,
}

/// A line, and the OOM kills from boot to its beginning, where the file has them.
struct Line<'b> {
    bytes: &'b [u8],
    kills: Option<f64>,
}

type Row = Map<String, Value>;

/// The recording of a time, from what atop printed.
pub(super) fn past(bytes: &[u8], time: &Time<'_>) -> Result<Past, String> {
    let (mut unread, mut first_unread) = (0_usize, String::new());
    let mut lines: Vec<(Head, &[u8])> = Vec::new();
    let all = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    for (number, line) in all {
        let head = match line.len() {
            0..=MAX_BYTES => serde_json::from_str::<Head>(&readable(line)).map_err(|error| error.to_string()),
            _ => Err("it is longer than 32 MB".to_owned()),
        };
        match head {
            Ok(head) => lines.push((head, line)),
            Err(why) => {
                unread += 1;
                if unread == 1 {
                    first_unread = format!("line {}: {why}", number + 1);
                }
            }
        }
    }
    if lines.is_empty() {
        return Err(format!("it is nothing that `atop -r FILE -J ALL` prints: {first_unread}"));
    }
    let picked = time.pick(without_boot(lines).into_iter(), &SOURCE)?;
    let newest: Row = picked
        .iter()
        .rev()
        .find_map(|interval| serde_json::from_str(&readable(interval.sample.bytes)).ok())
        .ok_or_else(|| format!("no line of that time can be read ({first_unread})"))?;
    let host = host(&newest);
    let boot = boot(&newest);
    let mut past = time.past(&SOURCE, &picked, host.clone(), |building, interval| {
        // Its head was read, so all of it can be.
        let Ok(sample) = serde_json::from_str::<Row>(&readable(interval.sample.bytes)) else { return };
        system(&sample, building);
        if let Some(kills) = interval.sample.kills {
            building.begins_at("vmstat.oom_kill", RawUnit::Count, kills);
            building.grow(
                "vmstat.oom_kill",
                "",
                RawUnit::Count,
                map(&sample, "PAG").and_then(|of| figure(of, "oomkills")),
            );
        }
        devices(&sample, building);
        tasks(&sample, &Tasks { hertz: host.ticks_per_second, page: host.page_size, boot }, building);
    })?;
    if unread > 0 {
        past.notes.push(format!("{unread} of its lines cannot be read and are left out ({first_unread})"));
    }
    if !newest.contains_key("PRG") || !newest.contains_key("PRC") {
        past.notes.push(
            "It was printed without the labels PRG and PRC, so who is behind it is not known: atop -J ALL".into(),
        );
    }
    Ok(past)
}

/// A line as JSON would have it.
fn readable(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    for c in String::from_utf8_lossy(line).chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

/// The intervals, without the lines that tell of all the time since boot, with which each start of atop begins.
fn without_boot<'b>(lines: Vec<(Head, &'b [u8])>) -> Vec<Interval<Line<'b>>> {
    let longest = lines.iter().skip(1).map(|(head, _)| head.elapsed).filter(|elapsed| *elapsed <= LONGEST_ALONE);
    let longest = longest.fold(0.0, f64::max);
    let longest = if longest > 0.0 { longest * 1.5 + 1.0 } else { LONGEST_ALONE };
    let mut known_to = i64::MIN;
    let mut kills: Option<f64> = None;
    let mut kept = Vec::new();
    for (head, bytes) in lines {
        // Where the kernel does not count them, it is -1.
        let killed = head.paging.oomkills.filter(|kills| kills.is_finite() && *kills >= 0.0);
        let end = head.timestamp.saturating_mul(1_000_000);
        let interval = Interval::new(end, head.elapsed, Line { bytes, kills });
        // After a start it overlaps what was recorded before.
        let overlaps = |interval: &Interval<_>| interval.begin() < known_to.saturating_sub(2_000_000);
        match interval.filter(|interval| head.elapsed <= longest && !overlaps(interval)) {
            Some(interval) => {
                kills = kills.zip(killed).map(|(so_far, more)| so_far + more);
                kept.push(interval);
            }
            None => kills = killed,
        }
        known_to = end;
    }
    kept
}

/// Whether it begins with a line of atop, whatever the order of its keys.
pub(super) fn prints(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.len() <= MAX_BYTES && serde_json::from_str::<Head>(&readable(line)).is_ok()
}

fn map<'s>(sample: &'s Row, label: &str) -> Option<&'s Row> {
    sample.get(label)?.as_object()
}

fn rows<'s>(sample: &'s Row, label: &str) -> impl Iterator<Item = &'s Row> {
    sample.get(label).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn text<'r>(row: &'r Row, key: &str) -> Option<&'r str> {
    row.get(key)?.as_str()
}

fn whole(row: &Row, key: &str) -> Option<u64> {
    figure(row, key).map(|value| value as u64)
}

/// The host, as the newest line has it.
fn host(sample: &Row) -> Facts {
    let cpu = map(sample, "CPU");
    let cpus =
        cpu.and_then(|cpu| whole(cpu, "nrcpu")).map_or(1, |cpus| u32::try_from(cpus).unwrap_or(1).clamp(1, 65_536));
    let hertz = cpu.and_then(|cpu| whole(cpu, "hertz")).filter(|hertz| (1..=10_000).contains(hertz)).unwrap_or(100);
    Facts {
        hostname: text(sample, "host").unwrap_or("unknown").chars().take(MAX_NAME).collect(),
        cpus,
        cpus_present: cpus,
        ticks_per_second: hertz,
        memory_bytes: map(sample, "MEM").and_then(|memory| whole(memory, "physmem")).unwrap_or(0),
        ..unknown_host()
    }
}

/// When it was booted, in seconds since 1970: when its first process began.
fn boot(sample: &Row) -> u64 {
    rows(sample, "PRG").filter_map(|row| whole(row, "btime")).filter(|began| *began > 0).min().unwrap_or(0)
}

/// What the host as a whole did, and what it has.
fn system(sample: &Row, building: &mut Building) {
    const TICKS: [(&str, &str, &str); 8] = [
        ("cpu_stat.user", "cpu_stat.core_user", "utime"),
        ("cpu_stat.nice", "cpu_stat.core_nice", "ntime"),
        ("cpu_stat.system", "cpu_stat.core_system", "stime"),
        ("cpu_stat.idle", "cpu_stat.core_idle", "itime"),
        ("cpu_stat.iowait", "cpu_stat.core_iowait", "wtime"),
        ("cpu_stat.irq", "cpu_stat.core_irq", "Itime"),
        ("cpu_stat.softirq", "cpu_stat.core_softirq", "Stime"),
        ("cpu_stat.steal", "cpu_stat.core_steal", "steal"),
    ];
    const COUNTERS: [(&str, &str, RawUnit, &str); 11] = [
        ("CPL", "cpu_stat.switches", RawUnit::Count, "csw"),
        ("CPL", "cpu_stat.interrupts", RawUnit::Count, "devint"),
        ("PAG", "vmstat.allocstall", RawUnit::Count, "allocstall"),
        ("PAG", "vmstat.compact_stall", RawUnit::Count, "compacts"),
        ("PAG", "vmstat.pswpin", RawUnit::Pages, "swins"),
        ("PAG", "vmstat.pswpout", RawUnit::Pages, "swouts"),
        ("NET_GENERAL", "tcp_udp.segments_received", RawUnit::Count, "rpacketsTCP"),
        ("NET_GENERAL", "tcp_udp.segments_sent", RawUnit::Count, "spacketsTCP"),
        ("NET_GENERAL", "tcp_udp.active_opens", RawUnit::Count, "activeOpensTCP"),
        ("NET_GENERAL", "tcp_udp.passive_opens", RawUnit::Count, "passiveOpensTCP"),
        ("NET_GENERAL", "tcp_udp.retransmits", RawUnit::Count, "retransSegsTCP"),
    ];
    /// In microseconds.
    const PRESSURE: [(&str, &str); 5] = [
        ("psi.cpu_some", "cstot"),
        ("psi.memory_some", "mstot"),
        ("psi.memory_full", "mftot"),
        ("psi.io_some", "iostot"),
        ("psi.io_full", "ioftot"),
    ];
    /// In bytes.
    const MEMORY: [(&str, &str, &str); 14] = [
        ("MEM", "meminfo.total", "physmem"),
        ("MEM", "meminfo.free", "freemem"),
        ("MEM", "meminfo.available", "availablemem"),
        ("MEM", "meminfo.buffers", "buffermem"),
        ("MEM", "meminfo.cached", "cachemem"),
        ("MEM", "meminfo.slab", "slabmem"),
        ("MEM", "meminfo.slab_reclaimable", "slabreclaim"),
        ("MEM", "meminfo.shared", "shmem"),
        ("MEM", "meminfo.dirty", "cachedrt"),
        ("SWP", "meminfo.swap_total", "totswap"),
        ("SWP", "meminfo.swap_free", "freeswap"),
        ("SWP", "meminfo.swap_cached", "swcac"),
        ("SWP", "meminfo.committed", "committed"),
        ("SWP", "meminfo.commit_limit", "commitlim"),
    ];
    let of = |label: &str, key: &str| figure(map(sample, label)?, key);
    for (all, core, key) in TICKS {
        building.grow(all, "", RawUnit::Ticks, of("CPU", key));
        for cpu in rows(sample, "cpu") {
            let Some(number) = whole(cpu, "cpuid") else { continue };
            building.grow(core, &number.to_string(), RawUnit::Ticks, figure(cpu, key));
        }
    }
    for (label, name, unit, key) in COUNTERS {
        building.grow(name, "", unit, of(label, key));
    }
    if map(sample, "PSI").is_some_and(|pressure| text(pressure, "psi") == Some("y")) {
        for (name, key) in PRESSURE {
            building.grow(name, "", RawUnit::Microseconds, of("PSI", key));
        }
    }
    for (label, name, key) in MEMORY {
        building.level(name, "", RawUnit::Kibibytes, of(label, key).map(|bytes| bytes / 1024.0));
    }
    for (name, key) in [("loadavg.one", "lavg1"), ("loadavg.five", "lavg5"), ("loadavg.fifteen", "lavg15")] {
        building.level(name, "", RawUnit::Count, of("CPL", key));
    }
}

/// Disks and interfaces.
fn devices(sample: &Row, building: &mut Building) {
    // As in /proc/diskstats: `avque` is the time of all requests together.
    const DISK: [(&str, RawUnit, &str); 7] = [
        ("diskstats.busy_ms", RawUnit::Milliseconds, "io_ms"),
        ("diskstats.weighted_ms", RawUnit::Milliseconds, "avque"),
        ("diskstats.reads", RawUnit::Count, "nread"),
        ("diskstats.read_sectors", RawUnit::Sectors, "nrsect"),
        ("diskstats.writes", RawUnit::Count, "nwrite"),
        ("diskstats.write_sectors", RawUnit::Sectors, "nwsect"),
        ("diskstats.discards", RawUnit::Count, "ndiscrd"),
    ];
    const INTERFACE: [(&str, RawUnit, &str); 9] = [
        ("interfaces.receive_bytes", RawUnit::Bytes, "rbyte"),
        ("interfaces.transmit_bytes", RawUnit::Bytes, "sbyte"),
        ("interfaces.receive_packets", RawUnit::Count, "rpack"),
        ("interfaces.transmit_packets", RawUnit::Count, "spack"),
        ("interfaces.device_receive_errors", RawUnit::Count, "rerrs"),
        ("interfaces.device_transmit_errors", RawUnit::Count, "serrs"),
        ("interfaces.device_receive_drops", RawUnit::Count, "rdrop"),
        ("interfaces.device_transmit_drops", RawUnit::Count, "sdrop"),
        ("interfaces.device_fifo", RawUnit::Count, "rfifo"),
    ];
    for disk in rows(sample, "DSK") {
        let Some(name) = text(disk, "dskname") else { continue };
        for (series, unit, key) in DISK {
            building.grow(series, name, unit, figure(disk, key));
        }
        building.level("diskstats.in_flight", name, RawUnit::Count, figure(disk, "inflight"));
    }
    for interface in rows(sample, "NET") {
        let Some(name) = text(interface, "name").filter(|name| *name != "lo") else { continue };
        for (series, unit, key) in INTERFACE {
            building.grow(series, name, unit, figure(interface, key));
        }
    }
}
