//! The series of /proc/diskstats and the metrics derived from them.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Unit};

const fn number(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

const fn sectors(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Sectors, source)
}

/// All times are printed as 32-bit numbers; the weighted one wraps within the hour at a depth of a thousand.
const fn milliseconds(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter32(name, RawUnit::Milliseconds, source)
}

pub(super) const SERIES: &[SeriesDef] = &[
    number("diskstats.reads", "/proc/diskstats, field 1 after the name"),
    sectors("diskstats.read_sectors", "/proc/diskstats, field 3 after the name"),
    milliseconds("diskstats.read_ms", "/proc/diskstats, field 4 after the name"),
    number("diskstats.writes", "/proc/diskstats, field 5 after the name"),
    sectors("diskstats.write_sectors", "/proc/diskstats, field 7 after the name"),
    milliseconds("diskstats.write_ms", "/proc/diskstats, field 8 after the name"),
    SeriesDef::gauge("diskstats.in_flight", RawUnit::Count, "/proc/diskstats, field 9 after the name"),
    milliseconds("diskstats.busy_ms", "/proc/diskstats, field 10 after the name"),
    milliseconds("diskstats.weighted_ms", "/proc/diskstats, field 11 after the name"),
    number("diskstats.discards", "/proc/diskstats, field 12 after the name (Linux 4.18)"),
    sectors("diskstats.discard_sectors", "/proc/diskstats, field 14 after the name (Linux 4.18)"),
    milliseconds("diskstats.discard_ms", "/proc/diskstats, field 15 after the name (Linux 4.18)"),
    number("diskstats.flushes", "/proc/diskstats, field 16 after the name (Linux 5.5)"),
    milliseconds("diskstats.flush_ms", "/proc/diskstats, field 17 after the name (Linux 5.5)"),
    number("diskstats.identity", "/sys/block/DEVICE/diskseq (Linux 5.15), or major and minor number"),
];

/// A mean of fewer requests than this is an accident.
const FEWEST: f64 = 20.0;

const MANUAL: &str = "iostat -dx 1 10";

const LATENCY_CAVEAT: &str = "Includes the wait in the I/O scheduler, but not the wait for a free request or for a \
    cgroup's I/O limit; a mean hides a slow few.";

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "disk.busy.ratio",
        unit: Unit::Ratio,
        dimension: Some("device"),
        help: "Share of time in which the device had at least one request outstanding.",
        sources: &[Formula::rate(&[term("diskstats.busy_ms")])],
        caveat: "Not how full it is: a device that serves many requests at once may be busy all the time and take ten \
                 times the work. Kernels before 6.10 sample it by the tick.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.reads.per_second",
        unit: Unit::PerSecond,
        dimension: Some("device"),
        help: "Read requests completed per second.",
        sources: &[Formula::rate(&[term("diskstats.reads")])],
        caveat: "Requests as the device saw them, after merging.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.writes.per_second",
        unit: Unit::PerSecond,
        dimension: Some("device"),
        help: "Write requests completed per second.",
        sources: &[Formula::rate(&[term("diskstats.writes")])],
        caveat: "Mostly written back in the background, later than the program wrote it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.flushes.per_second",
        unit: Unit::PerSecond,
        dimension: Some("device"),
        help: "Cache flushes completed per second.",
        sources: &[Formula::rate(&[term("diskstats.flushes")])],
        caveat: "Devices without a write cache need none.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.read.bytes_per_second",
        unit: Unit::BytesPerSecond,
        dimension: Some("device"),
        help: "Bytes read per second.",
        sources: &[Formula::rate(&[term("diskstats.read_sectors")])],
        caveat: "Counted when a request completes.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.write.bytes_per_second",
        unit: Unit::BytesPerSecond,
        dimension: Some("device"),
        help: "Bytes written per second.",
        sources: &[Formula::rate(&[term("diskstats.write_sectors")])],
        caveat: "Counted when a request completes.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.discard.bytes_per_second",
        unit: Unit::BytesPerSecond,
        dimension: Some("device"),
        help: "Bytes discarded (trimmed) per second.",
        sources: &[Formula::rate(&[term("diskstats.discard_sectors")])],
        caveat: "Nothing is transferred for them.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.queue.count",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Requests outstanding on average: queued, or being served.",
        sources: &[Formula::rate(&[term("diskstats.weighted_ms")])],
        caveat: "Counted when requests complete: a request that never completes does not show (see \
                 disk.in_flight.count).",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.read_queue.count",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Reads outstanding on average.",
        sources: &[Formula::rate(&[term("diskstats.read_ms")])],
        caveat: "Read-ahead is in it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.write_queue.count",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Writes outstanding on average.",
        sources: &[Formula::rate(&[term("diskstats.write_ms")])],
        caveat: "A long queue of background writes delays no task by itself.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.in_flight.count",
        unit: Unit::Count,
        dimension: Some("device"),
        help: "Requests issued to the device and not yet completed, at the instant of the reading.",
        sources: &[Formula::level(&[term("diskstats.in_flight")])],
        caveat: "One instant per interval; disk.queue.count is the average.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.read_await.seconds",
        unit: Unit::Seconds,
        dimension: Some("device"),
        help: "Mean time of a read, from its request to its completion.",
        sources: &[Formula::ratio(&[term("diskstats.read_ms")], &[term("diskstats.reads")]).floor(FEWEST)],
        caveat: LATENCY_CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.write_await.seconds",
        unit: Unit::Seconds,
        dimension: Some("device"),
        help: "Mean time of a write, from its request to its completion.",
        sources: &[Formula::ratio(&[term("diskstats.write_ms")], &[term("diskstats.writes")]).floor(FEWEST)],
        caveat: LATENCY_CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.discard_await.seconds",
        unit: Unit::Seconds,
        dimension: Some("device"),
        help: "Mean time of a discard.",
        sources: &[Formula::ratio(&[term("diskstats.discard_ms")], &[term("diskstats.discards")]).floor(FEWEST)],
        caveat: LATENCY_CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.flush_await.seconds",
        unit: Unit::Seconds,
        dimension: Some("device"),
        help: "Mean time of a cache flush, which is the better part of a fsync.",
        sources: &[Formula::ratio(&[term("diskstats.flush_ms")], &[term("diskstats.flushes")]).floor(FEWEST)],
        caveat: LATENCY_CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.await.seconds",
        unit: Unit::Seconds,
        dimension: Some("device"),
        help: "Mean time of a read or a write, from its request to its completion.",
        sources: &[Formula::ratio(
            &[term("diskstats.read_ms"), term("diskstats.write_ms")],
            &[term("diskstats.reads"), term("diskstats.writes")],
        )
        .floor(FEWEST)],
        caveat: LATENCY_CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.read_size.bytes",
        unit: Unit::Bytes,
        dimension: Some("device"),
        help: "Mean size of a read request.",
        sources: &[Formula::ratio(&[term("diskstats.read_sectors")], &[term("diskstats.reads")]).floor(FEWEST)],
        caveat: "Small requests suggest random access; it is no proof.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.write_size.bytes",
        unit: Unit::Bytes,
        dimension: Some("device"),
        help: "Mean size of a write request.",
        sources: &[Formula::ratio(&[term("diskstats.write_sectors")], &[term("diskstats.writes")]).floor(FEWEST)],
        caveat: "Small requests suggest random access; it is no proof.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];
