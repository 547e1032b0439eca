//! Measuring a host, and the load on it, over one stretch of time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::census::{self, Census};
use super::limit::Group;
use super::load::elf::odd_entry;
use super::reading::{LabMetric, Readings};
use rdiag_kernel::host::{Host, files};
use rdiag_own as own;
use rdiag_proc::protocols::column;
use rdiag_proc::{LoadAverage, Pressure, counters, cpu_line, field, host_cpu};

/// How long a thread of the meter sleeps at a time, in seconds.
const NAP_SECONDS: f64 = 0.005;
/// From one look at the tasks to the next, in seconds.
const LOOK_SECONDS: f64 = 0.1;
/// Every so many looks the threads of all others are looked at too: there can be thousands of them.
const LOOKS_AT_ALL: usize = 5;
/// No program that a load writes is larger.
const MOST_PROGRAM_BYTES: u64 = 1 << 20;
/// CPUs on which wake-ups are timed.
const MOST_CPUS: usize = 16;

/// The load, as far as it is measured by itself.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// Process group of each program, by role.
    pub groups: BTreeMap<String, u32>,
    /// Where programs count their pieces of work, by role.
    pub counts: BTreeMap<String, PathBuf>,
    /// Numbers that the seed gave its programs, by role.
    pub figures: BTreeMap<String, f64>,
    /// Control groups with a quota of CPU time, by role.
    pub quotas: BTreeMap<String, Group>,
    /// The file system that was mounted for the load.
    pub room: Option<PathBuf>,
    /// A program of the load that does not start.
    pub program: Option<PathBuf>,
    /// The device of the state folder, or the disk that was made for the exercise: major and minor.
    pub disk: Option<(u32, u32)>,
}

/// What is read at both ends.
struct Ends {
    at: f64,
    cpu: Vec<u64>,
    /// Ticks in soft interrupts and all ticks, of each CPU.
    soft: Vec<[u64; 2]>,
    started: Option<u64>,
    pressure: [Option<u64>; 2],
    /// The fields of the disk's `stat`.
    disk: Vec<u64>,
    huge_pages: Option<u64>,
    lost_datagrams: Option<u64>,
    segments_again: Option<u64>,
    census: Census,
    counts: BTreeMap<String, u64>,
    /// Periods of a quota and those in which the group was stopped, by role.
    periods: BTreeMap<String, [u64; 2]>,
    refused: Option<u64>,
    /// CPU ticks of rdiag itself.
    measuring: Option<u64>,
    /// Open files, by role.
    files: BTreeMap<String, usize>,
    /// Bytes read from and written to disks, and calls that read or write, by role.
    io: BTreeMap<String, [u64; 3]>,
}

/// Measures for so many seconds.
pub(super) fn measure(host: &Host, subject: &Subject, seconds: f64) -> Readings {
    let groups: Vec<u32> = subject.groups.values().copied().collect();
    let stop = AtomicBool::new(false);
    let before = ends(host, subject, &groups);
    let (mut looks, mut others_blocked) = (0, Vec::new());
    let mut own_states: BTreeMap<u32, [f64; 3]> = BTreeMap::new();
    let until = before.at + seconds;
    let mut delays = std::thread::scope(|scope| {
        let cpus = own::usable_cpus().into_iter().take(MOST_CPUS);
        let threads: Vec<_> = cpus.map(|cpu| scope.spawn(move || wakeup_delays(host, cpu, until))).collect();
        while host.wait((host.now() + LOOK_SECONDS).min(until), 0, &stop) && host.now() < until {
            let census = census::look(host, &groups, looks % LOOKS_AT_ALL == 0);
            looks += 1;
            others_blocked.extend(census.others_blocked.map(|count| count as f64));
            for (group, found) in &census.groups {
                let states = own_states.entry(*group).or_default();
                for (sum, count) in states.iter_mut().zip([found.blocked, found.runnable, found.asleep]) {
                    *sum += count as f64;
                }
            }
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect::<Vec<f64>>()
    });
    let after = ends(host, subject, &groups);
    let mut readings = between(host, subject, &before, &after);
    delays.sort_by(f64::total_cmp);
    if let (Some(median), Some(longest)) = (delays.get(delays.len() / 2), delays.last()) {
        readings.put(LabMetric::WakeupDelayMedian, None, *median);
        readings.put(LabMetric::WakeupDelayLongest, None, *longest);
    }
    let others_blocked = others_blocked.iter().sum::<f64>() / others_blocked.len() as f64;
    let own_blocked: f64 = own_states.values().map(|sums| sums[0]).sum::<f64>() / looks as f64;
    // The whole is never less than its part, although others were looked at less often.
    readings.put(LabMetric::BlockedTasks, None, others_blocked + own_blocked);
    let used = subject.room.as_ref().and_then(|room| files::used_share(room).ok());
    readings.put(LabMetric::SpaceUsed, None, used.unwrap_or(f64::NAN));
    for (at, reading) in [LabMetric::OwnBlocked, LabMetric::OwnRunnable, LabMetric::OwnAsleep].into_iter().enumerate() {
        let mean = |group: &u32| {
            own_states.get(group).and_then(|sums| sums.get(at)).map_or(f64::NAN, |sum| sum / looks as f64)
        };
        for (role, group) in &subject.groups {
            readings.put(reading, Some(role), mean(group));
        }
        if !groups.is_empty() {
            readings.put(reading, None, groups.iter().map(mean).sum());
        }
    }
    if let Some(program) = &subject.program {
        let odd = files::read_named(program, MOST_PROGRAM_BYTES).ok().and_then(|file| odd_entry(&file));
        readings.put(LabMetric::OddEntry, None, odd.map_or(f64::NAN, |entry| entry as f64));
    }
    readings
}

/// How much later than asked a thread on this CPU runs again, each time. At least once: where no CPU was free, the thread may begin to run
/// when the time is over, and then delays are at their largest.
fn wakeup_delays(host: &Host, cpu: usize, until: f64) -> Vec<f64> {
    let mut delays = Vec::new();
    if own::use_only(cpu).is_err() {
        return delays;
    }
    let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: (NAP_SECONDS * 1e9) as i64 };
    loop {
        let before = host.now();
        let _ = rustix::thread::nanosleep(&nap);
        let after = host.now();
        delays.push((after - before - NAP_SECONDS).max(0.0));
        if after >= until {
            return delays;
        }
    }
}

fn ends(host: &Host, subject: &Subject, groups: &[u32]) -> Ends {
    let stat = host.read("proc/stat").unwrap_or_default();
    let total = |resource: &str| {
        let text = host.read(&format!("proc/pressure/{resource}")).ok()?;
        Pressure::parse(text.as_bytes(), "some")?.total()
    };
    let disk = subject.disk.and_then(|(major, minor)| host.read(&format!("sys/dev/block/{major}:{minor}/stat")).ok());
    let vmstat = host.read("proc/vmstat").unwrap_or_default();
    let count = |path: &PathBuf| String::from_utf8(files::read_named(path, 64).ok()?).ok()?.trim().parse().ok();
    Ends {
        at: host.now(),
        cpu: host_cpu(&stat).map(|times| times.all().to_vec()).unwrap_or_default(),
        soft: stat.lines().skip(1).map_while(cpu_line).map(|(_, times)| [times.softirq, times.sum()]).collect(),
        started: stat
            .lines()
            .find(|line| line.starts_with("processes "))
            .and_then(|line| numbers(line).first().copied()),
        pressure: ["cpu", "io"].map(total),
        disk: disk.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect(),
        huge_pages: counters(&vmstat).find(|(name, _)| *name == "thp_fault_alloc").map(|(_, count)| count),
        segments_again: protocol_count(host, "proc/net/snmp", "Tcp", "RetransSegs"),
        lost_datagrams: protocol_count(host, "proc/net/snmp", "Udp", "RcvbufErrors"),
        census: census::look(host, groups, false),
        measuring: census::ticks(host, host.facts().pid),
        periods: subject.quotas.iter().filter_map(|(role, group)| Some((role.clone(), group.periods(host)?))).collect(),
        refused: protocol_count(host, "proc/net/netstat", "TcpExt", "ListenOverflows"),
        files: subject
            .groups
            .iter()
            .filter_map(|(role, pid)| Some((role.clone(), host.list(&format!("proc/{pid}/fd")).ok()?.len())))
            .collect(),
        io: subject.groups.iter().filter_map(|(role, pid)| Some((role.clone(), io_of(host, *pid)?))).collect(),
        counts: subject.counts.iter().filter_map(|(role, path)| Some((role.clone(), count(path)?))).collect(),
    }
}

/// A counter of a protocol in the network namespace.
fn protocol_count(host: &Host, file: &str, protocol: &str, counter: &str) -> Option<u64> {
    column(&host.read(file).ok()?, protocol, counter)
}

/// What a process had read from and written to disks, and its calls. That it is denied where another user's are, does not matter: it is
/// our own.
fn io_of(host: &Host, pid: u32) -> Option<[u64; 3]> {
    let text = host.read(&format!("proc/{pid}/io")).ok()?;
    let field = |name: &str| field(&text, name)?.parse::<u64>().ok();
    Some([field("read_bytes:")?, field("write_bytes:")?, field("syscr:")? + field("syscw:")?])
}

fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect()
}

fn between(host: &Host, subject: &Subject, before: &Ends, after: &Ends) -> Readings {
    let mut readings = Readings::default();
    let seconds = after.at - before.at;
    let grown = |from: Option<u64>, to: Option<u64>| match (from, to) {
        (Some(from), Some(to)) => to.saturating_sub(from) as f64,
        _ => f64::NAN,
    };
    // user nice system idle iowait irq softirq steal; guest time is in user time already.
    let cpu: Vec<f64> = (0..8).map(|at| grown(before.cpu.get(at).copied(), after.cpu.get(at).copied())).collect();
    let all: f64 = cpu.iter().sum();
    let part = |at: usize| cpu.get(at).copied().unwrap_or(f64::NAN) / all;
    readings.put(LabMetric::CpuBusy, None, 1.0 - part(3) - part(4));
    readings.put(LabMetric::IoWait, None, part(4));
    // A CPU that went away or came meanwhile moves the others in the list.
    if before.soft.len() == after.soft.len() {
        let shares = before.soft.iter().zip(&after.soft).map(|([soft, all], [soft_then, all_then])| {
            soft_then.saturating_sub(*soft) as f64 / all_then.saturating_sub(*all).max(1) as f64
        });
        readings.put(LabMetric::SoftInterrupts, None, shares.fold(f64::NAN, f64::max));
    }
    readings.put(LabMetric::TasksStarted, None, grown(before.started, after.started) / seconds);
    let [cpu_before, io_before] = before.pressure;
    let [cpu_after, io_after] = after.pressure;
    readings.put(LabMetric::CpuPressure, None, grown(cpu_before, cpu_after) * 1e-6 / seconds);
    readings.put(LabMetric::IoPressure, None, grown(io_before, io_after) * 1e-6 / seconds);
    put_disk(&mut readings, seconds, |field| grown(before.disk.get(field).copied(), after.disk.get(field).copied()));
    readings.put(LabMetric::HugePages, None, grown(before.huge_pages, after.huge_pages) / seconds);
    readings.put(LabMetric::LostDatagrams, None, grown(before.lost_datagrams, after.lost_datagrams) / seconds);
    readings.put(LabMetric::SegmentsAgain, None, grown(before.segments_again, after.segments_again) / seconds);
    readings.put(LabMetric::RefusedConnections, None, grown(before.refused, after.refused) / seconds);
    let load = host.read("proc/loadavg").ok().and_then(|text| LoadAverage::parse(text.as_bytes()));
    readings.put(LabMetric::LoadAverage, None, load.map_or(f64::NAN, |load| load.loads[0]));
    let ticks = host.facts().ticks_per_second.max(1) as f64;
    let (mut own_cpu, mut own_bytes, mut own_units) = (0.0, [0.0; 2], 0.0);
    for (role, group) in &subject.groups {
        let (Some(from), Some(to)) = (before.census.groups.get(group), after.census.groups.get(group)) else {
            continue;
        };
        let used = to.ticks.saturating_sub(from.ticks) as f64 / ticks / seconds;
        own_cpu += used;
        readings.put(LabMetric::OwnCpu, Some(role), used);
        let io = match (before.io.get(role), after.io.get(role)) {
            (Some(from), Some(to)) => std::array::from_fn(|at| {
                let [from, to] = [from, to].map(|all| all.get(at).copied());
                grown(from, to)
            }),
            _ => [f64::NAN; 3],
        };
        let [read, written, calls] = io;
        readings.put(LabMetric::OwnCalls, Some(role), calls / seconds);
        readings.put(LabMetric::OwnCallsPerCpu, Some(role), calls / seconds / used);
        readings.put(LabMetric::OwnZombies, Some(role), to.zombies as f64);
        readings.put(LabMetric::OwnFiles, Some(role), after.files.get(role).map_or(f64::NAN, |count| *count as f64));
        if let (Some([periods, stopped]), Some([periods_then, stopped_then])) =
            (before.periods.get(role), after.periods.get(role))
        {
            let periods = grown(Some(*periods), Some(*periods_then));
            readings.put(LabMetric::OwnStopped, Some(role), grown(Some(*stopped), Some(*stopped_then)) / periods);
        }
        for ((sum, one), reading) in
            own_bytes.iter_mut().zip([read, written]).zip([LabMetric::OwnRead, LabMetric::OwnWritten])
        {
            *sum += one / seconds;
            readings.put(reading, Some(role), one / seconds);
        }
        let faults = to.faults.saturating_sub(from.faults) as f64;
        readings.put(LabMetric::OwnFaults, Some(role), faults / seconds);
        let major = to.major_faults.saturating_sub(from.major_faults) as f64;
        readings.put(LabMetric::OwnMajorFaults, Some(role), major / seconds);
        let made = grown(before.counts.get(role).copied(), after.counts.get(role).copied());
        if made > 0.0 {
            own_units += made / seconds;
            readings.put(LabMetric::OwnUnits, Some(role), made / seconds);
            readings.put(LabMetric::OwnFaultsPerUnit, Some(role), faults / made);
            readings.put(LabMetric::OwnCallsPerUnit, Some(role), calls / made);
        }
    }
    let busy = (1.0 - part(3) - part(4)) * f64::from(host.facts().cpus);
    let measuring = grown(before.measuring, after.measuring) / ticks / seconds;
    readings.put(LabMetric::OthersCpu, None, (busy - own_cpu - measuring).max(0.0));
    for (role, figure) in &subject.figures {
        readings.put(LabMetric::OwnFigure, Some(role), *figure);
    }
    for reading in [
        LabMetric::OwnCalls,
        LabMetric::OwnCallsPerCpu,
        LabMetric::OwnFaults,
        LabMetric::OwnMajorFaults,
        LabMetric::OwnStopped,
        LabMetric::OwnFiles,
        LabMetric::OwnZombies,
    ] {
        let each: Vec<f64> = subject.groups.keys().filter_map(|role| readings.get(reading, Some(role))).collect();
        if !each.is_empty() {
            // Parts and rates of two groups do not add up.
            let is_part = matches!(reading, LabMetric::OwnStopped | LabMetric::OwnCallsPerCpu);
            let all = if is_part { each.iter().copied().fold(0.0, f64::max) } else { each.iter().sum() };
            readings.put(reading, None, all);
        }
    }
    if !subject.groups.is_empty() {
        let [read, written] = own_bytes;
        readings.put(LabMetric::OwnCpu, None, own_cpu);
        readings.put(LabMetric::OwnUnits, None, own_units);
        readings.put(LabMetric::OwnRead, None, read);
        readings.put(LabMetric::OwnWritten, None, written);
    }
    readings
}

/// What follows from the fields of a disk's `stat`, counted from 0, by how much they grew.
fn put_disk(readings: &mut Readings, seconds: f64, grown: impl Fn(usize) -> f64) {
    let requests = grown(0) + grown(4);
    readings.put(LabMetric::DiskRequests, None, requests / seconds);
    readings.put(LabMetric::DiskWait, None, (grown(3) + grown(7)) * 1e-3 / requests);
    // The kernel settles its sum now and then, so a disk that never rests may seem to have worked for longer than there was.
    readings.put(LabMetric::DiskBusy, None, (grown(9) * 1e-3 / seconds).min(1.0));
    readings.put(LabMetric::DiskInFlight, None, grown(10) * 1e-3 / seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_read_by_its_fields() {
        let mut readings = Readings::default();
        // 400 reads and 100 writes took 2 s together, in 4 s of which it was busy for 1 s.
        let fields = [400.0, 0.0, 0.0, 1500.0, 100.0, 0.0, 0.0, 500.0, 0.0, 1000.0, 2000.0];
        put_disk(&mut readings, 4.0, |field| fields[field]);
        let read = [LabMetric::DiskRequests, LabMetric::DiskWait, LabMetric::DiskBusy, LabMetric::DiskInFlight]
            .map(|reading| readings.get(reading, None).unwrap());
        assert_eq!(read, [125.0, 0.004, 0.25, 0.5]);
        put_disk(&mut readings, 0.999, |field| fields[field]);
        assert_eq!(readings.get(LabMetric::DiskBusy, None), Some(1.0));
    }

    #[test]
    fn a_thread_that_runs_when_the_time_is_over_measures_one_delay() {
        let host = Host::live(std::path::Path::new("/"));
        let cpu = own::usable_cpus()[0];
        let delays = std::thread::spawn(move || wakeup_delays(&host, cpu, host.now() - 1.0)).join().unwrap();
        assert!(matches!(delays[..], [delay] if delay >= 0.0), "{delays:?}");
    }

    #[test]
    fn a_host_is_measured_with_plausible_figures_and_no_load() {
        let host = Host::live(std::path::Path::new("/"));
        let readings = measure(&host, &Subject::default(), 0.3);
        let busy = readings.get(LabMetric::CpuBusy, None).unwrap();
        assert!((0.0..=1.0).contains(&busy), "{busy}");
        let (median, longest) = (
            readings.get(LabMetric::WakeupDelayMedian, None).unwrap(),
            readings.get(LabMetric::WakeupDelayLongest, None).unwrap(),
        );
        assert!(median >= 0.0 && median <= longest && longest < 60.0, "{median} {longest}");
        assert_eq!(readings.get(LabMetric::OwnCpu, None), None, "there is no load");
    }
}
