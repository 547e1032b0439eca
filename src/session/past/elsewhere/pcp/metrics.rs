//! Which metrics of PCP are read, what they become, and the units that pcp2json prints.

use self::Kind::{Counter, Fact, Level, Task, TaskText, Text};
use rdiag_model::RawUnit;
use rdiag_model::RawUnit::{
    Bytes, Count, Kibibytes, Microseconds, Milliseconds, Nanoseconds, Pages, Seconds, Sectors, Ticks,
};

/// What a metric becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// A series that grows.
    Counter(&'static str, RawUnit),
    /// A series of levels.
    Level(&'static str, RawUnit),
    /// What the host is, which is logged once.
    Fact(RawUnit),
    /// The same in words.
    Text,
    /// What a process is or did.
    Task(RawUnit),
    /// The same in words.
    TaskText,
}

/// Metrics by their names in PCP (pmdalinux, pmdaproc). The first counter that a file has twice says how often it was sampled, and that the
/// host was booted where it is smaller than before: it is none that steps back. Of two that become one series the first stands.
pub(super) const METRICS: &[(&str, Kind)] = &[
    ("kernel.all.cpu.user", Counter("cpu_stat.user", Ticks)),
    ("kernel.all.cpu.idle", Counter("cpu_stat.idle", Ticks)),
    ("kernel.all.cpu.nice", Counter("cpu_stat.nice", Ticks)),
    ("kernel.all.cpu.sys", Counter("cpu_stat.system", Ticks)),
    ("kernel.all.cpu.wait.total", Counter("cpu_stat.iowait", Ticks)),
    ("kernel.all.cpu.irq.hard", Counter("cpu_stat.irq", Ticks)),
    ("kernel.all.cpu.irq.soft", Counter("cpu_stat.softirq", Ticks)),
    ("kernel.all.cpu.steal", Counter("cpu_stat.steal", Ticks)),
    ("kernel.percpu.cpu.user", Counter("cpu_stat.core_user", Ticks)),
    ("kernel.percpu.cpu.idle", Counter("cpu_stat.core_idle", Ticks)),
    ("kernel.percpu.cpu.nice", Counter("cpu_stat.core_nice", Ticks)),
    ("kernel.percpu.cpu.sys", Counter("cpu_stat.core_system", Ticks)),
    ("kernel.percpu.cpu.wait.total", Counter("cpu_stat.core_iowait", Ticks)),
    ("kernel.percpu.cpu.irq.hard", Counter("cpu_stat.core_irq", Ticks)),
    ("kernel.percpu.cpu.irq.soft", Counter("cpu_stat.core_softirq", Ticks)),
    ("kernel.percpu.cpu.steal", Counter("cpu_stat.core_steal", Ticks)),
    ("kernel.all.sysfork", Counter("cpu_stat.forks", Count)),
    ("kernel.all.pswitch", Counter("cpu_stat.switches", Count)),
    ("kernel.all.intr", Counter("cpu_stat.interrupts", Count)),
    ("kernel.all.load", Level("loadavg.", Count)),
    ("kernel.all.runnable", Level("loadavg.runnable", Count)),
    ("kernel.all.nprocs", Level("loadavg.entities", Count)),
    ("kernel.all.pressure.cpu.some.total", Counter("psi.cpu_some", Microseconds)),
    ("kernel.all.pressure.memory.some.total", Counter("psi.memory_some", Microseconds)),
    ("kernel.all.pressure.memory.full.total", Counter("psi.memory_full", Microseconds)),
    ("kernel.all.pressure.io.some.total", Counter("psi.io_some", Microseconds)),
    ("kernel.all.pressure.io.full.total", Counter("psi.io_full", Microseconds)),
    ("kernel.all.pressure.irq.full.total", Counter("psi.irq_full", Microseconds)),
    ("mem.util.free", Level("meminfo.free", Kibibytes)),
    ("mem.freemem", Level("meminfo.free", Kibibytes)),
    ("mem.util.available", Level("meminfo.available", Kibibytes)),
    ("mem.util.bufmem", Level("meminfo.buffers", Kibibytes)),
    ("mem.util.cached", Level("meminfo.cached", Kibibytes)),
    ("mem.util.swapCached", Level("meminfo.swap_cached", Kibibytes)),
    ("mem.util.anonpages", Level("meminfo.anonymous", Kibibytes)),
    ("mem.util.shmem", Level("meminfo.shared", Kibibytes)),
    ("mem.util.mlocked", Level("meminfo.locked", Kibibytes)),
    ("mem.util.slab", Level("meminfo.slab", Kibibytes)),
    ("mem.util.slabReclaimable", Level("meminfo.slab_reclaimable", Kibibytes)),
    ("mem.util.slabUnreclaimable", Level("meminfo.slab_unreclaimable", Kibibytes)),
    ("mem.util.kernelStack", Level("meminfo.kernel_stack", Kibibytes)),
    ("mem.util.pageTables", Level("meminfo.page_tables", Kibibytes)),
    ("mem.util.dirty", Level("meminfo.dirty", Kibibytes)),
    ("mem.util.writeback", Level("meminfo.writeback", Kibibytes)),
    ("mem.util.swapTotal", Level("meminfo.swap_total", Kibibytes)),
    ("mem.util.swapFree", Level("meminfo.swap_free", Kibibytes)),
    ("mem.util.commitLimit", Level("meminfo.commit_limit", Kibibytes)),
    ("mem.util.committed_AS", Level("meminfo.committed", Kibibytes)),
    ("swap.length", Level("meminfo.swap_total", Kibibytes)),
    ("swap.free", Level("meminfo.swap_free", Kibibytes)),
    ("mem.vmstat.pswpin", Counter("vmstat.pswpin", Pages)),
    ("mem.vmstat.pswpout", Counter("vmstat.pswpout", Pages)),
    ("swap.pagesin", Counter("vmstat.pswpin", Pages)),
    ("swap.pagesout", Counter("vmstat.pswpout", Pages)),
    ("mem.vmstat.pgmajfault", Counter("vmstat.pgmajfault", Count)),
    ("mem.vmstat.pgscan_direct", Counter("vmstat.pgscan_direct", Count)),
    ("mem.vmstat.pgscan_kswapd", Counter("vmstat.pgscan_kswapd", Count)),
    ("mem.vmstat.pgscan_direct_total", Counter("vmstat.pgscan_direct", Count)),
    ("mem.vmstat.pgscan_kswapd_total", Counter("vmstat.pgscan_kswapd", Count)),
    ("mem.vmstat.pgsteal_direct", Counter("vmstat.pgsteal_direct", Count)),
    ("mem.vmstat.pgsteal_kswapd", Counter("vmstat.pgsteal_kswapd", Count)),
    ("mem.vmstat.allocstall", Counter("vmstat.allocstall", Count)),
    ("mem.vmstat.allocstall_dma", Counter("vmstat.allocstall_dma", Count)),
    ("mem.vmstat.allocstall_dma32", Counter("vmstat.allocstall_dma32", Count)),
    ("mem.vmstat.allocstall_normal", Counter("vmstat.allocstall_normal", Count)),
    ("mem.vmstat.allocstall_movable", Counter("vmstat.allocstall_movable", Count)),
    ("mem.vmstat.compact_stall", Counter("vmstat.compact_stall", Count)),
    ("mem.vmstat.oom_kill", Counter("vmstat.oom_kill", Count)),
    ("disk.dev.read", Counter("diskstats.reads", Count)),
    ("disk.dev.write", Counter("diskstats.writes", Count)),
    ("disk.dev.read_bytes", Counter("diskstats.read_sectors", Sectors)),
    ("disk.dev.write_bytes", Counter("diskstats.write_sectors", Sectors)),
    ("disk.dev.read_rawactive", Counter("diskstats.read_ms", Milliseconds)),
    ("disk.dev.write_rawactive", Counter("diskstats.write_ms", Milliseconds)),
    ("disk.dev.avactive", Counter("diskstats.busy_ms", Milliseconds)),
    ("disk.dev.aveq", Counter("diskstats.weighted_ms", Milliseconds)),
    ("disk.dev.discard", Counter("diskstats.discards", Count)),
    ("disk.dev.discard_bytes", Counter("diskstats.discard_sectors", Sectors)),
    ("disk.dev.discard_rawactive", Counter("diskstats.discard_ms", Milliseconds)),
    ("disk.dev.flush", Counter("diskstats.flushes", Count)),
    ("disk.dev.flush_rawactive", Counter("diskstats.flush_ms", Milliseconds)),
    ("network.interface.in.bytes", Counter("interfaces.receive_bytes", Bytes)),
    ("network.interface.out.bytes", Counter("interfaces.transmit_bytes", Bytes)),
    ("network.interface.in.packets", Counter("interfaces.receive_packets", Count)),
    ("network.interface.out.packets", Counter("interfaces.transmit_packets", Count)),
    ("network.interface.in.errors", Counter("interfaces.device_receive_errors", Count)),
    ("network.interface.out.errors", Counter("interfaces.device_transmit_errors", Count)),
    ("network.interface.in.drops", Counter("interfaces.device_receive_drops", Count)),
    ("network.interface.out.drops", Counter("interfaces.device_transmit_drops", Count)),
    ("network.interface.in.fifo", Counter("interfaces.device_fifo", Count)),
    ("network.tcp.activeopens", Counter("tcp_udp.active_opens", Count)),
    ("network.tcp.passiveopens", Counter("tcp_udp.passive_opens", Count)),
    ("network.tcp.attemptfails", Counter("tcp_udp.attempt_fails", Count)),
    ("network.tcp.estabresets", Counter("tcp_udp.established_resets", Count)),
    ("network.tcp.insegs", Counter("tcp_udp.segments_received", Count)),
    ("network.tcp.outsegs", Counter("tcp_udp.segments_sent", Count)),
    ("network.tcp.retranssegs", Counter("tcp_udp.retransmits", Count)),
    ("hinv.ncpu", Fact(Count)),
    ("hinv.pagesize", Fact(Bytes)),
    ("mem.physmem", Fact(Kibibytes)),
    ("mem.util.used", Fact(Kibibytes)),
    ("kernel.all.uptime", Fact(Seconds)),
    ("kernel.uname.release", Text),
    ("kernel.uname.machine", Text),
    ("proc.psinfo.utime", Task(Ticks)),
    ("proc.psinfo.stime", Task(Ticks)),
    ("proc.psinfo.minflt", Task(Count)),
    ("proc.psinfo.maj_flt", Task(Count)),
    ("proc.psinfo.vctxsw", Task(Count)),
    ("proc.psinfo.nvctxsw", Task(Count)),
    ("proc.psinfo.ppid", Task(Count)),
    ("proc.psinfo.threads", Task(Count)),
    ("proc.psinfo.rss", Task(Kibibytes)),
    ("proc.psinfo.start_time", Task(Ticks)),
    ("proc.psinfo.sname", TaskText),
    ("proc.psinfo.cmd", TaskText),
    ("proc.psinfo.psargs", TaskText),
    ("proc.schedstat.cpu_time", Task(Nanoseconds)),
    ("proc.schedstat.run_delay", Task(Nanoseconds)),
    ("proc.io.read_bytes", Task(Bytes)),
    ("proc.io.write_bytes", Task(Bytes)),
    ("proc.memory.vmswap", Task(Kibibytes)),
    ("proc.id.euid", Task(Count)),
];

/// Where a name stands.
pub(super) enum Place {
    /// It is a metric.
    Metric(usize),
    /// Metrics that are read are below it.
    Branch,
    /// Nothing below it is read.
    Elsewhere,
}

pub(super) fn place(name: &str) -> Place {
    let is_above = |metric: &&str| metric.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    match METRICS.iter().position(|(metric, _)| *metric == name) {
        Some(metric) => Place::Metric(metric),
        None if METRICS.iter().any(|(metric, _)| is_above(metric)) => Place::Branch,
        None => Place::Elsewhere,
    }
}

/// Units of time in microseconds, and of space in bytes, as pcp2json names them.
const TIME: [(&str, f64); 6] =
    [("nanosec", 1e-3), ("microsec", 1.0), ("millisec", 1e3), ("sec", 1e6), ("min", 60e6), ("hour", 3600e6)];
const SPACE: [(&str, f64); 5] = [
    ("byte", 1.0),
    ("Kbyte", 1024.0),
    ("Mbyte", 1024.0 * 1024.0),
    ("Gbyte", 1024.0 * 1024.0 * 1024.0),
    ("Tbyte", 1024.0 * 1024.0 * 1024.0 * 1024.0),
];
const COUNT: [(&str, f64); 2] = [("", 1.0), ("count", 1.0)];

/// How many of these a printed unit is; none where it is a unit of something else.
pub(super) fn factor(unit: RawUnit, printed: &str) -> Option<f64> {
    let (units, one): (&[(&str, f64)], f64) = match unit {
        Ticks => (&TIME[..], 1e4),
        Seconds => (&TIME[..], 1e6),
        Milliseconds => (&TIME[..], 1e3),
        Microseconds => (&TIME[..], 1.0),
        Nanoseconds => (&TIME[..], 1e-3),
        Bytes => (&SPACE[..], 1.0),
        Sectors => (&SPACE[..], 512.0),
        Kibibytes => (&SPACE[..], 1024.0),
        Count | Pages | RawUnit::Ratio => (&COUNT[..], 1.0),
    };
    units.iter().find(|(name, _)| *name == printed).map(|(_, worth)| worth / one)
}
