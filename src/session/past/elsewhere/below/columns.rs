//! Which columns of below's tables are read, and what they become. Rates (`/s`) and shares (`%`) below itself works out, since the sample
//! before; what it prints as the kernel counts it (requests, errors) is exact, and preferred.

use std::collections::HashMap;
use std::sync::LazyLock;

use self::Kind::{Level, Number, Rate, Share, Text, Total};
use self::Table::{Disk, Group, Interface, Process, System, Transport};
use rdiag_model::RawUnit;
use rdiag_model::RawUnit::{Bytes, Count, Kibibytes, Milliseconds, Pages, Sectors};

/// A subcommand of `below dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// The host as a whole, and each CPU.
    System,
    Process,
    /// Of the tree of control groups the root.
    Group,
    Disk,
    Interface,
    Transport,
}

/// What a column becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    /// A number that is asked for by its title.
    Number,
    /// Percent of the time of all CPUs: a series in ticks. With `CPU N` before the title of that one: another series.
    Share(&'static str, &'static str),
    /// So much per second.
    Rate(&'static str, RawUnit),
    /// A counter of the kernel.
    Total(&'static str, RawUnit),
    /// A level, of which so many are one of the series.
    Level(&'static str, RawUnit, f64),
}

const KIBI: f64 = 1024.0;

/// Rates of TCP and UDP are cut off to whole numbers, those of reclaimed pages rounded up: where one a second would matter, they are not
/// here.
pub(super) const COLUMNS: &[(Table, &str, Kind)] = &[
    // Of each table.
    (System, "Timestamp", Number),
    (System, "Hostname", Text),
    (System, "Kernel Version", Text),
    (System, "Boot Time Epoch", Number),
    (System, "Running Procs", Number),
    (System, "User", Share("cpu_stat.user", "cpu_stat.core_user")),
    (System, "Nice", Share("cpu_stat.nice", "cpu_stat.core_nice")),
    (System, "System", Share("cpu_stat.system", "cpu_stat.core_system")),
    (System, "Idle", Share("cpu_stat.idle", "cpu_stat.core_idle")),
    (System, "IOWait", Share("cpu_stat.iowait", "cpu_stat.core_iowait")),
    (System, "Irq", Share("cpu_stat.irq", "cpu_stat.core_irq")),
    (System, "SoftIrq", Share("cpu_stat.softirq", "cpu_stat.core_softirq")),
    (System, "Stolen", Share("cpu_stat.steal", "cpu_stat.core_steal")),
    (System, "Total Procs", Total("cpu_stat.forks", Count)),
    (System, "Context Switches", Total("cpu_stat.switches", Count)),
    (System, "Total Interrupts", Total("cpu_stat.interrupts", Count)),
    (System, "Total", Level("meminfo.total", Kibibytes, KIBI)),
    (System, "Free", Level("meminfo.free", Kibibytes, KIBI)),
    (System, "Available", Level("meminfo.available", Kibibytes, KIBI)),
    (System, "Buffers", Level("meminfo.buffers", Kibibytes, KIBI)),
    (System, "Cached", Level("meminfo.cached", Kibibytes, KIBI)),
    (System, "Swap Cached", Level("meminfo.swap_cached", Kibibytes, KIBI)),
    (System, "Anon Pages", Level("meminfo.anonymous", Kibibytes, KIBI)),
    (System, "Shmem", Level("meminfo.shared", Kibibytes, KIBI)),
    (System, "Mlocked", Level("meminfo.locked", Kibibytes, KIBI)),
    (System, "Slab", Level("meminfo.slab", Kibibytes, KIBI)),
    (System, "Slab Reclaimable", Level("meminfo.slab_reclaimable", Kibibytes, KIBI)),
    (System, "Slab Unreclaimable", Level("meminfo.slab_unreclaimable", Kibibytes, KIBI)),
    (System, "Kernel Stack", Level("meminfo.kernel_stack", Kibibytes, KIBI)),
    (System, "Page Tables", Level("meminfo.page_tables", Kibibytes, KIBI)),
    (System, "Hugetlb", Level("meminfo.huge_pages", Kibibytes, KIBI)),
    (System, "Dirty", Level("meminfo.dirty", Kibibytes, KIBI)),
    (System, "Writeback", Level("meminfo.writeback", Kibibytes, KIBI)),
    (System, "Swap Total", Level("meminfo.swap_total", Kibibytes, KIBI)),
    (System, "Swap Free", Level("meminfo.swap_free", Kibibytes, KIBI)),
    (System, "Swap In", Rate("vmstat.pswpin", Pages)),
    (System, "Swap Out", Rate("vmstat.pswpout", Pages)),
    (System, "Pgscan Kswapd", Rate("vmstat.pgscan_kswapd", Count)),
    (System, "Pgscan Direct", Rate("vmstat.pgscan_direct", Count)),
    (System, "Pgsteal Kswapd", Rate("vmstat.pgsteal_kswapd", Count)),
    (System, "Pgsteal Direct", Rate("vmstat.pgsteal_direct", Count)),
    (System, "OOM Kills", Total("vmstat.oom_kill", Count)),
    (Process, "Pid", Number),
    (Process, "Ppid", Number),
    (Process, "Comm", Text),
    (Process, "Cmdline", Text),
    (Process, "Cgroup", Text),
    (Process, "State", Text),
    (Process, "Uptime(sec)", Number),
    (Process, "User CPU", Number),
    (Process, "Sys CPU", Number),
    (Process, "Threads", Number),
    (Process, "Minflt", Number),
    (Process, "Majflt", Number),
    (Process, "RSS", Number),
    (Process, "Swap", Number),
    (Process, "Reads", Number),
    (Process, "Writes", Number),
    (Group, "CPU Some Pressure", Number),
    (Group, "Mem Some Pressure", Number),
    (Group, "Mem Pressure", Number),
    (Group, "I/O Some Pressure", Number),
    (Group, "I/O Pressure", Number),
    // Of control groups, too.
    (Disk, "Name", Text),
    (Disk, "Read Completed", Total("diskstats.reads", Count)),
    (Disk, "Read Sectors", Total("diskstats.read_sectors", Sectors)),
    (Disk, "Time Spend Read", Total("diskstats.read_ms", Milliseconds)),
    (Disk, "Write Completed", Total("diskstats.writes", Count)),
    (Disk, "Write Sectors", Total("diskstats.write_sectors", Sectors)),
    (Disk, "Time Spend Write", Total("diskstats.write_ms", Milliseconds)),
    (Disk, "Discard Completed", Total("diskstats.discards", Count)),
    (Disk, "Discard Sectors", Total("diskstats.discard_sectors", Sectors)),
    (Disk, "Time Spend Discard", Total("diskstats.discard_ms", Milliseconds)),
    (Interface, "Interface", Text),
    (Interface, "RX Bytes", Total("interfaces.receive_bytes", Bytes)),
    (Interface, "RX Packets", Total("interfaces.receive_packets", Count)),
    (Interface, "RX Errors", Total("interfaces.device_receive_errors", Count)),
    (Interface, "RX Dropped", Number),
    (Interface, "RX Missed Errors", Total("interfaces.device_missed", Count)),
    (Interface, "RX Over Errors", Total("interfaces.device_over", Count)),
    (Interface, "RX Fifo Errors", Total("interfaces.device_fifo", Count)),
    (Interface, "TX Bytes", Total("interfaces.transmit_bytes", Bytes)),
    (Interface, "TX Packets", Total("interfaces.transmit_packets", Count)),
    (Interface, "TX Errors", Total("interfaces.device_transmit_errors", Count)),
    (Interface, "TX Dropped", Total("interfaces.device_transmit_drops", Count)),
    (Transport, "CurEstabConn", Level("tcp_udp.established", Count, 1.0)),
    (Transport, "TcpInSegs/s", Rate("tcp_udp.segments_received", Count)),
    (Transport, "TcpOutSegs/s", Rate("tcp_udp.segments_sent", Count)),
    (Transport, "TcpRetransSegs", Total("tcp_udp.retransmits", Count)),
    (Transport, "UdpInPkts/s", Rate("tcp_udp.datagrams_received", Count)),
    (Transport, "UdpOutPkts/s", Rate("tcp_udp.datagrams_sent", Count)),
    (Transport, "UdpNoPorts", Total("tcp_udp.datagrams_without_port", Count)),
    (Transport, "UdpRcvbufErrs", Total("tcp_udp.udp_receive_buffer", Count)),
    (Transport, "UdpSndBufErrs", Total("tcp_udp.udp_send_buffer", Count)),
    (Transport, "Udp6InPkts/s", Rate("tcp_udp.datagrams6_received", Count)),
    (Transport, "Udp6OutPkts/s", Rate("tcp_udp.datagrams6_sent", Count)),
    (Transport, "Udp6RcvbufErrs", Total("tcp_udp.udp6_receive_buffer", Count)),
    (Transport, "Udp6SndBufErrs", Total("tcp_udp.udp6_send_buffer", Count)),
];

static BY_TITLE: LazyLock<HashMap<&'static str, u8>> = LazyLock::new(|| {
    let numbered = COLUMNS.iter().enumerate();
    numbered.filter_map(|(at, (_, title, _))| Some((*title, u8::try_from(at).ok()?))).collect()
});

/// The column of a title, if it is read.
pub(super) fn column(title: &str) -> Option<u8> {
    BY_TITLE.get(title).copied()
}

/// What a column is of, and becomes.
pub(super) fn of(column: u8) -> Option<&'static (Table, &'static str, Kind)> {
    COLUMNS.get(usize::from(column))
}
