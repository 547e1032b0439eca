//! What can be measured of a host with a load on it, by name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use rdiag_model::Unit;
use rdiag_model::quantity::with_unit;

/// A measured quantity. Those that begin with `own` are of the load, the others of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabMetric {
    /// How much later than requested a sleeping thread ran again: median over all CPUs. Seconds.
    WakeupDelayMedian,
    /// The same, maximum. Seconds.
    WakeupDelayLongest,
    /// Processes and threads created (`processes` in /proc/stat). Per second.
    TasksStarted,
    /// Tasks in uninterruptible sleep, mean of the samples (state D in /proc/PID/task/TID/stat). Count.
    BlockedTasks,
    /// Share of all CPUs' time that was not idle (/proc/stat; iowait counts as idle). Ratio.
    CpuBusy,
    /// Share of all CPUs' time that was idle while a task waited for I/O (`iowait` in /proc/stat). Ratio.
    IoWait,
    /// Softirq time of the CPU with most of it, as a share of its time (`softirq` of each CPU in /proc/stat). Ratio.
    SoftInterrupts,
    /// Share of the time that some task waited for a CPU (`some` in /proc/pressure/cpu). Ratio.
    CpuPressure,
    /// Share of the time that some task was stalled on I/O (`some` in /proc/pressure/io). Ratio.
    IoPressure,
    /// Share of the time that the disk of rdiag's state folder, or the one made for the exercise, had requests (field 10 of its `stat`).
    /// Ratio.
    DiskBusy,
    /// IOPS of the same disk (fields 1 and 5 of its `stat`). Per second.
    DiskRequests,
    /// Mean latency of a request there, queue and device (fields 4 and 8 divided by fields 1 and 5). Seconds.
    DiskWait,
    /// Mean number of requests in flight there (field 11 divided by the time). Count.
    DiskInFlight,
    /// Page faults served by a transparent huge page (`thp_fault_alloc` in /proc/vmstat). Per second.
    HugePages,
    /// Datagrams dropped at full sockets of this network namespace (`RcvbufErrors` of Udp in /proc/net/snmp). Per second.
    LostDatagrams,
    /// Used space of the file system of the exercise (statvfs(3)). Ratio.
    SpaceUsed,
    /// TCP segments retransmitted in this network namespace (`RetransSegs` of Tcp in /proc/net/snmp). Per second.
    SegmentsAgain,
    /// The 1-minute load average. Count.
    LoadAverage,
    /// CPU time of the load, children that have ended included, in CPUs (`utime`, `stime`, `cutime`, `cstime`). Ratio of one CPU.
    OwnCpu,
    /// Tasks of the load in uninterruptible sleep. Count.
    OwnBlocked,
    /// Tasks of the load that are running or runnable (state R), mean of the samples. Count.
    OwnRunnable,
    /// Tasks of the load in interruptible sleep (state S), mean of the samples. Count.
    OwnAsleep,
    /// CPU time of everything else, rdiag not counted, in CPUs (/proc/stat less the load and rdiag; time that the host of a virtual
    /// machine took away is of others too). Ratio of one CPU.
    OthersCpu,
    /// Bytes that the load wrote to a disk (`write_bytes` in /proc/PID/io of its programs). Bytes per second.
    OwnWritten,
    /// Bytes that the load read from a disk (`read_bytes` in /proc/PID/io of its programs). Bytes per second.
    OwnRead,
    /// Minor page faults of the load, children that were waited for included (`minflt` and `cminflt` in /proc/PID/stat). Per second.
    OwnFaults,
    /// Major page faults of the load, children that were waited for included: a page had to come from a disk (`majflt` and `cmajflt` in
    /// /proc/PID/stat). Per second.
    OwnMajorFaults,
    /// A number that the seed gave a program of the load: bytes of its usual message, pieces of memory for a request, milliseconds
    /// of rest, requests served at a time. Count.
    OwnFigure,
    /// Pieces of work that the load did (it counts them itself: workers, MiB, tries). Per second.
    OwnUnits,
    /// Minor page faults of the load, children included, for each piece of work. Count.
    OwnFaultsPerUnit,
    /// System calls of the load that read or write (`syscr` and `syscw` in /proc/PID/io of its programs), for each piece of work. Count.
    OwnCallsPerUnit,
    /// System calls of the load that read or write, see above. Per second.
    OwnCalls,
    /// The same for each second of CPU time that it used, so that it makes no difference who else wants the CPU. Per second.
    OwnCallsPerCpu,
    /// Share of its CPU quota periods in which the load was throttled (`nr_throttled` per `nr_periods` in cpu.stat of its group).
    /// Ratio.
    OwnStopped,
    /// Open files of the load (/proc/PID/fd of its programs). Count.
    OwnFiles,
    /// Zombie processes of the load. Count.
    OwnZombies,
    /// How many times fewer units of work it did while each of its malloc calls was counted from outside (uprobe). Count.
    WatchedCost,
    /// How many times less CPU time a unit of work took while all its threads were restricted to one CPU (sched_setaffinity(2)). Count.
    OneCpuGain,
    /// Connection attempts dropped at a full accept queue (`ListenOverflows` in /proc/net/netstat). Per second.
    RefusedConnections,
    /// Program header that the kernel rejects, counted from 0, read from the file. Count.
    OddEntry,
    /// CPU time to copy one MiB from a file to another by read(2) and write(2), with the cheapest block size. Seconds.
    CopyByCalls,
    /// The same in mapped memory, with the same block. Seconds.
    CopyInMemory,
}

impl LabMetric {
    /// All of them.
    pub const ALL: [Self; 42] = [
        Self::WakeupDelayMedian,
        Self::WakeupDelayLongest,
        Self::TasksStarted,
        Self::BlockedTasks,
        Self::CpuBusy,
        Self::IoWait,
        Self::SoftInterrupts,
        Self::CpuPressure,
        Self::IoPressure,
        Self::DiskBusy,
        Self::DiskRequests,
        Self::DiskWait,
        Self::DiskInFlight,
        Self::HugePages,
        Self::LostDatagrams,
        Self::SpaceUsed,
        Self::SegmentsAgain,
        Self::LoadAverage,
        Self::OwnCpu,
        Self::OwnBlocked,
        Self::OwnRunnable,
        Self::OwnAsleep,
        Self::OthersCpu,
        Self::OwnWritten,
        Self::OwnRead,
        Self::OwnFaults,
        Self::OwnMajorFaults,
        Self::OwnFigure,
        Self::OwnUnits,
        Self::OwnFaultsPerUnit,
        Self::OwnCallsPerUnit,
        Self::OwnCalls,
        Self::OwnCallsPerCpu,
        Self::OwnStopped,
        Self::OwnFiles,
        Self::OwnZombies,
        Self::WatchedCost,
        Self::OneCpuGain,
        Self::RefusedConnections,
        Self::OddEntry,
        Self::CopyByCalls,
        Self::CopyInMemory,
    ];

    /// Its name in YAML and in the holes of texts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::WakeupDelayMedian => "wakeup_delay_median",
            Self::WakeupDelayLongest => "wakeup_delay_longest",
            Self::TasksStarted => "tasks_started",
            Self::BlockedTasks => "blocked_tasks",
            Self::CpuBusy => "cpu_busy",
            Self::IoWait => "io_wait",
            Self::SoftInterrupts => "soft_interrupts",
            Self::CpuPressure => "cpu_pressure",
            Self::IoPressure => "io_pressure",
            Self::DiskBusy => "disk_busy",
            Self::DiskRequests => "disk_requests",
            Self::DiskWait => "disk_wait",
            Self::DiskInFlight => "disk_in_flight",
            Self::HugePages => "huge_pages",
            Self::LostDatagrams => "lost_datagrams",
            Self::SpaceUsed => "space_used",
            Self::SegmentsAgain => "segments_again",
            Self::LoadAverage => "load_average",
            Self::OwnCpu => "own_cpu",
            Self::OwnBlocked => "own_blocked",
            Self::OwnRunnable => "own_runnable",
            Self::OwnAsleep => "own_asleep",
            Self::OthersCpu => "others_cpu",
            Self::OwnWritten => "own_written",
            Self::OwnRead => "own_read",
            Self::OwnFaults => "own_faults",
            Self::OwnMajorFaults => "own_major_faults",
            Self::OwnFigure => "own_figure",
            Self::OwnUnits => "own_units",
            Self::OwnFaultsPerUnit => "own_faults_per_unit",
            Self::OwnCallsPerUnit => "own_calls_per_unit",
            Self::OwnCalls => "own_calls",
            Self::OwnCallsPerCpu => "own_calls_per_cpu",
            Self::OwnStopped => "own_stopped",
            Self::OwnFiles => "own_files",
            Self::OwnZombies => "own_zombies",
            Self::WatchedCost => "watched_cost",
            Self::OneCpuGain => "one_cpu_gain",
            Self::RefusedConnections => "refused_connections",
            Self::OddEntry => "odd_entry",
            Self::CopyByCalls => "copy_by_calls",
            Self::CopyInMemory => "copy_in_memory",
        }
    }

    /// For people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::WakeupDelayMedian => "wakeup delay, median",
            Self::WakeupDelayLongest => "wakeup delay, maximum",
            Self::TasksStarted => "processes and threads created",
            Self::BlockedTasks => "tasks in uninterruptible sleep",
            Self::CpuBusy => "CPUs busy",
            Self::IoWait => "iowait: CPUs idle with I/O in flight",
            Self::SoftInterrupts => "softirq time of the CPU with most of it",
            Self::CpuPressure => "time some task waited for a CPU (PSI cpu some)",
            Self::IoPressure => "time some task was stalled on I/O (PSI io some)",
            Self::DiskBusy => "disk busy",
            Self::DiskRequests => "disk requests completed (IOPS)",
            Self::DiskWait => "disk latency per request",
            Self::DiskInFlight => "disk requests in flight",
            Self::HugePages => "page faults served by a huge page",
            Self::LostDatagrams => "datagrams dropped at full sockets",
            Self::SpaceUsed => "used space of the file system",
            Self::SegmentsAgain => "TCP retransmits",
            Self::LoadAverage => "1-minute load average",
            Self::OwnCpu => "CPU time of the load",
            Self::OwnBlocked => "tasks of the load in uninterruptible sleep",
            Self::OwnRunnable => "tasks of the load running or runnable",
            Self::OwnAsleep => "tasks of the load in interruptible sleep",
            Self::OthersCpu => "CPU time of everything else",
            Self::OwnWritten => "bytes the load writes to a disk",
            Self::OwnRead => "bytes the load reads from a disk",
            Self::OwnMajorFaults => "major page faults of the load",
            Self::OwnFaults => "minor page faults of the load",
            Self::OwnFigure => "number assigned to the load",
            Self::OwnUnits => "units of work completed by the load",
            Self::OwnFaultsPerUnit => "minor page faults per unit of work",
            Self::OwnCallsPerUnit => "read and write calls per unit of work",
            Self::OwnCalls => "read and write calls of the load",
            Self::OwnCallsPerCpu => "read and write calls of the load per second of its CPU time",
            Self::OwnStopped => "throttled periods of the load",
            Self::OwnFiles => "open files of the load",
            Self::OwnZombies => "exited children of the load that were not reaped",
            Self::OneCpuGain => "CPU time saved when restricted to one CPU, as a factor",
            Self::WatchedCost => "slowdown while its malloc calls are counted, as a factor",
            Self::RefusedConnections => "connection attempts dropped at a full queue",
            Self::OddEntry => "program header that the kernel rejects",
            Self::CopyByCalls => "CPU time to copy one MiB by system calls with the best block size",
            Self::CopyInMemory => "CPU time to copy one MiB in mapped memory",
        }
    }

    /// Whether it is of the load, and so of each of its programs too.
    #[must_use]
    pub fn is_own(self) -> bool {
        !matches!(
            self,
            Self::WakeupDelayMedian
                | Self::WakeupDelayLongest
                | Self::TasksStarted
                | Self::BlockedTasks
                | Self::CpuBusy
                | Self::IoWait
                | Self::SoftInterrupts
                | Self::CpuPressure
                | Self::IoPressure
                | Self::DiskBusy
                | Self::DiskRequests
                | Self::DiskWait
                | Self::DiskInFlight
                | Self::HugePages
                | Self::LostDatagrams
                | Self::SpaceUsed
                | Self::SegmentsAgain
                | Self::LoadAverage
                | Self::OthersCpu
                | Self::WatchedCost
                | Self::OneCpuGain
                | Self::RefusedConnections
                | Self::OddEntry
                | Self::CopyByCalls
                | Self::CopyInMemory
        )
    }

    /// Its base unit.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::WakeupDelayMedian
            | Self::WakeupDelayLongest
            | Self::DiskWait
            | Self::CopyByCalls
            | Self::CopyInMemory => Unit::Seconds,
            Self::TasksStarted
            | Self::OwnFaults
            | Self::OwnMajorFaults
            | Self::OwnUnits
            | Self::OwnCalls
            | Self::OwnCallsPerCpu
            | Self::DiskRequests
            | Self::HugePages
            | Self::LostDatagrams
            | Self::SegmentsAgain
            | Self::RefusedConnections => Unit::PerSecond,
            Self::OwnWritten | Self::OwnRead => Unit::BytesPerSecond,
            Self::CpuBusy
            | Self::IoWait
            | Self::SoftInterrupts
            | Self::CpuPressure
            | Self::IoPressure
            | Self::DiskBusy
            | Self::OwnCpu
            | Self::OthersCpu
            | Self::SpaceUsed
            | Self::OwnStopped => Unit::Ratio,
            Self::BlockedTasks
            | Self::LoadAverage
            | Self::DiskInFlight
            | Self::OwnFigure
            | Self::WatchedCost
            | Self::OneCpuGain
            | Self::OwnBlocked
            | Self::OwnRunnable
            | Self::OwnAsleep
            | Self::OwnFaultsPerUnit
            | Self::OwnCallsPerUnit
            | Self::OwnFiles
            | Self::OwnZombies
            | Self::OddEntry => Unit::Count,
        }
    }
}

/// What was measured over one stretch of time. What this host does not tell is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings(BTreeMap<String, f64>);

impl Readings {
    /// Puts one down; of one program of the load, or of all of it.
    pub fn put(&mut self, reading: LabMetric, of: Option<&str>, value: f64) {
        if value.is_finite() {
            self.0.insert(name(reading, of), value);
        }
    }

    /// What was measured, in the base unit.
    #[must_use]
    pub fn get(&self, reading: LabMetric, of: Option<&str>) -> Option<f64> {
        self.0.get(&name(reading, of)).copied()
    }

    /// The mean of two measurements; what only one of them has is left out.
    #[must_use]
    pub fn mean(first: &Self, second: &Self) -> Self {
        let both = first.0.iter().filter_map(|(key, one)| Some((key.clone(), (one + second.0.get(key)?) / 2.0)));
        Self(both.collect())
    }

    /// For the holes of texts: name and value with its unit.
    pub fn words(&self) -> impl Iterator<Item = (String, String)> {
        let unit = |key: &str| {
            let word = key.rsplit('.').next().unwrap_or(key);
            LabMetric::ALL.into_iter().find(|reading| reading.word() == word).map_or(Unit::Count, LabMetric::unit)
        };
        self.0.iter().map(move |(key, value)| (key.clone(), with_unit(*value, unit(key))))
    }
}

/// `own_cpu`, or `client.own_cpu` of one program.
fn name(reading: LabMetric, of: Option<&str>) -> String {
    of.map_or_else(|| reading.word().to_owned(), |role| format!("{role}.{}", reading.word()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reading_has_one_name_in_yaml_and_in_texts() {
        for reading in LabMetric::ALL {
            assert_eq!(serde_json::to_value(reading).unwrap(), reading.word());
        }
    }

    #[test]
    fn what_could_not_be_measured_is_left_out() {
        let mut readings = Readings::default();
        readings.put(LabMetric::CpuBusy, None, f64::NAN);
        readings.put(LabMetric::OwnCpu, Some("client"), 0.5);
        assert_eq!(readings.get(LabMetric::CpuBusy, None), None);
        assert_eq!(readings.words().collect::<Vec<_>>(), [("client.own_cpu".to_owned(), "50.0%".to_owned())]);
    }
}
