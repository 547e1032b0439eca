//! /proc/loadavg: how many tasks could run now, how many there are, and the load averages.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::LoadAverage;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "loadavg",
    help: "Runnable tasks, all tasks, and the load averages, from /proc/loadavg.",
    cadence: Cadence::Gauge,
    series: SERIES,
    metrics: METRICS,
    overhead: "one short read, four times per interval (about 10 µs; it grows a little with CPUs)",
    start: |_| Box::new(LoadAvg),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("loadavg.runnable", RawUnit::Count, "/proc/loadavg, field 4 before the slash, less rdiag itself"),
    SeriesDef::gauge("loadavg.entities", RawUnit::Count, "/proc/loadavg, field 4 after the slash"),
    SeriesDef::gauge("loadavg.one", RawUnit::Count, "/proc/loadavg, field 1"),
    SeriesDef::gauge("loadavg.five", RawUnit::Count, "/proc/loadavg, field 2"),
    SeriesDef::gauge("loadavg.fifteen", RawUnit::Count, "/proc/loadavg, field 3"),
];

const LOAD_CAVEAT: &str =
    "No queue length: it is damped over minutes, and it counts tasks in uninterruptible sleep, which need no CPU.";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cpu.runnable.count",
        unit: Unit::Count,
        help: "Tasks that run or could run, rdiag left out, at some instants.",
        sources: &[Formula::level(&[term("loadavg.runnable")])],
        caveat: "A handful of samples: bursts between them are not seen. Tasks throttled by a quota are not in it.",
        manual: "vmstat 1 10 (column r)",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.entities.count",
        unit: Unit::Count,
        help: "Processes and threads that exist, of all namespaces.",
        sources: &[Formula::level(&[term("loadavg.entities")])],
        caveat: "Most of them sleep.",
        manual: "cut -d' ' -f4 /proc/loadavg",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.load.one_minute.count",
        unit: Unit::Count,
        help: "Load average over about one minute.",
        sources: &[Formula::level(&[term("loadavg.one")])],
        caveat: LOAD_CAVEAT,
        manual: "uptime",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.load.five_minutes.count",
        unit: Unit::Count,
        help: "Load average over about five minutes.",
        sources: &[Formula::level(&[term("loadavg.five")])],
        caveat: LOAD_CAVEAT,
        manual: "uptime",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.load.fifteen_minutes.count",
        unit: Unit::Count,
        help: "Load average over about fifteen minutes.",
        sources: &[Formula::level(&[term("loadavg.fifteen")])],
        caveat: LOAD_CAVEAT,
        manual: "uptime",
        ..MetricDef::EMPTY
    },
];

struct LoadAvg;

impl Collect for LoadAvg {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/loadavg")?;
        let malformed = || Unavailable::new(Reason::Malformed, "/proc/loadavg does not hold what it should");
        let parsed = LoadAverage::parse(text.as_bytes()).ok_or_else(malformed)?;
        for (series, load) in ["loadavg.one", "loadavg.five", "loadavg.fifteen"].into_iter().zip(parsed.loads) {
            out.level(series, "", load);
        }
        // The reader of the file is itself running.
        out.level("loadavg.runnable", "", f64::from(parsed.runnable.saturating_sub(1)));
        out.level("loadavg.entities", "", f64::from(parsed.tasks));
        Ok(())
    }
}
