//! The series of NFS mounts and the metrics derived from them.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Unit};

const fn number(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

const fn milliseconds(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Milliseconds, source)
}

pub(super) const SERIES: &[SeriesDef] = &[
    number("nfs.reads", "/proc/self/mountstats, READ, field 1"),
    milliseconds("nfs.read_round_trip_ms", "/proc/self/mountstats, READ, field 7"),
    milliseconds("nfs.read_execute_ms", "/proc/self/mountstats, READ, field 8"),
    number("nfs.writes", "/proc/self/mountstats, WRITE, field 1"),
    milliseconds("nfs.write_round_trip_ms", "/proc/self/mountstats, WRITE, field 7"),
    milliseconds("nfs.write_execute_ms", "/proc/self/mountstats, WRITE, field 8"),
    number("nfs.lookups", "/proc/self/mountstats, GETATTR, LOOKUP and ACCESS, field 1"),
    milliseconds("nfs.lookup_round_trip_ms", "/proc/self/mountstats, GETATTR, LOOKUP and ACCESS, field 7"),
    milliseconds("nfs.lookup_execute_ms", "/proc/self/mountstats, GETATTR, LOOKUP and ACCESS, field 8"),
    number("nfs.awaited", "/proc/self/mountstats, READ, GETATTR, LOOKUP and ACCESS, field 1"),
    milliseconds("nfs.awaited_queue_ms", "/proc/self/mountstats, READ, GETATTR, LOOKUP and ACCESS, field 6"),
    number("nfs.requests", "/proc/self/mountstats, all operations, field 1"),
    number("nfs.retransmits", "/proc/self/mountstats, all operations, field 2 without field 1"),
    number("nfs.timeouts", "/proc/self/mountstats, all operations, field 3"),
    number("nfs.sends", "/proc/self/mountstats, xprt, sends"),
    number("nfs.backlog", "/proc/self/mountstats, xprt, bklog_u"),
];

/// A mean of fewer requests than this is an accident.
const FEWEST: f64 = 20.0;

const MANUAL: &str = "nfsiostat 1 10; mountstats MOUNT";

const ROUND_TRIP: &str = "The network and the server together. Counted when a request ends: one that is never answered does \
    not show (see filesystem.hung.count).";
const EXECUTE: &str = "With the wait for a free slot before it is sent, and with all its retries.";
const OUTSTANDING: &str = "Counted when requests end.";

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "filesystem.nfs.requests.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Requests to the server that were answered.",
        sources: &[Formula::change(&[term("nfs.requests")])],
        caveat: "What the page cache and the cache of attributes answer needs none.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.reads.per_second",
        unit: Unit::PerSecond,
        dimension: Some("mount"),
        help: "Reads answered by the server per second.",
        sources: &[Formula::rate(&[term("nfs.reads")])],
        caveat: "What the page cache answers needs none.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.read_round_trip.seconds",
        unit: Unit::Seconds,
        dimension: Some("mount"),
        help: "Mean time from sending a read to its answer.",
        sources: &[Formula::ratio(&[term("nfs.read_round_trip_ms")], &[term("nfs.reads")]).floor(FEWEST)],
        caveat: ROUND_TRIP,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.read_execute.seconds",
        unit: Unit::Seconds,
        dimension: Some("mount"),
        help: "Mean time of a read from its beginning to its end.",
        sources: &[Formula::ratio(&[term("nfs.read_execute_ms")], &[term("nfs.reads")]).floor(FEWEST)],
        caveat: EXECUTE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.reads_outstanding.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Reads outstanding on average.",
        sources: &[Formula::rate(&[term("nfs.read_execute_ms")])],
        caveat: OUTSTANDING,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.writes.per_second",
        unit: Unit::PerSecond,
        dimension: Some("mount"),
        help: "Writes answered by the server per second.",
        sources: &[Formula::rate(&[term("nfs.writes")])],
        caveat: "Mostly written back in the background, later than the program wrote it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.write_round_trip.seconds",
        unit: Unit::Seconds,
        dimension: Some("mount"),
        help: "Mean time from sending a write to its answer.",
        sources: &[Formula::ratio(&[term("nfs.write_round_trip_ms")], &[term("nfs.writes")]).floor(FEWEST)],
        caveat: ROUND_TRIP,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.write_execute.seconds",
        unit: Unit::Seconds,
        dimension: Some("mount"),
        help: "Mean time of a write from its beginning to its end.",
        sources: &[Formula::ratio(&[term("nfs.write_execute_ms")], &[term("nfs.writes")]).floor(FEWEST)],
        caveat: EXECUTE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.writes_outstanding.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Writes outstanding on average.",
        sources: &[Formula::rate(&[term("nfs.write_execute_ms")])],
        caveat: OUTSTANDING,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.lookups.per_second",
        unit: Unit::PerSecond,
        dimension: Some("mount"),
        help: "Questions for names and attributes answered by the server per second.",
        sources: &[Formula::rate(&[term("nfs.lookups")])],
        caveat: "GETATTR, LOOKUP and ACCESS; what the client remembers needs none.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.lookup_round_trip.seconds",
        unit: Unit::Seconds,
        dimension: Some("mount"),
        help: "Mean time from sending a question for names or attributes to its answer.",
        sources: &[Formula::ratio(&[term("nfs.lookup_round_trip_ms")], &[term("nfs.lookups")]).floor(FEWEST)],
        caveat: ROUND_TRIP,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.lookup_execute.seconds",
        unit: Unit::Seconds,
        dimension: Some("mount"),
        help: "Mean time of a question for names or attributes from its beginning to its end.",
        sources: &[Formula::ratio(&[term("nfs.lookup_execute_ms")], &[term("nfs.lookups")]).floor(FEWEST)],
        caveat: EXECUTE,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.lookups_outstanding.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Questions for names and attributes outstanding on average.",
        sources: &[Formula::rate(&[term("nfs.lookup_execute_ms")])],
        caveat: OUTSTANDING,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.queue.seconds",
        unit: Unit::Seconds,
        dimension: Some("mount"),
        help: "Mean time that reads and questions for names and attributes waited on this host before they were sent.",
        sources: &[Formula::ratio(&[term("nfs.awaited_queue_ms")], &[term("nfs.awaited")]).floor(FEWEST)],
        caveat: "Writes are left out: background write-back queues many, and no task waits for them.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.queued.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Reads and questions for names and attributes that waited on this host to be sent, on average.",
        sources: &[Formula::rate(&[term("nfs.awaited_queue_ms")])],
        caveat: OUTSTANDING,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.backlog.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Requests that waited for a slot of the connection, on average at each transmission.",
        sources: &[Formula::ratio(&[term("nfs.backlog")], &[term("nfs.sends")]).floor(FEWEST)],
        caveat: "Mounts of one server share its connections. The wait for a slot of an NFS 4.1 session is not in it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.retransmits.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Requests retransmitted because no reply came.",
        sources: &[Formula::change(&[term("nfs.retransmits")])],
        caveat: "Lost packets on TCP do not count: the network's own retransmission comes first.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.nfs.timeouts.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Times that a request had used up its retries and was begun anew, or given up on a soft mount.",
        sources: &[Formula::change(&[term("nfs.timeouts")])],
        caveat: "Counted when the request ends at last.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];
