//! Definitions: the raw series that collectors record, and the metrics derived from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::deed::Deed;
use crate::unit::RawUnit;
use crate::unit::Unit;

/// How a raw series behaves between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesKind {
    /// A total that only grows; a step back is a reset.
    Counter,
    /// A total kept in 32 bits: a step back may be a wrap.
    Counter32,
    /// A total that may step back a little (idle and iowait in /proc/stat); such a step counts as 0.
    CounterStepsBack,
    /// A level at one instant.
    Gauge,
}

/// A raw series as read from the kernel.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SeriesDef {
    /// `collector.field`; unique over all collectors.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: SeriesKind,
    /// What the file counts in.
    pub unit: RawUnit,
    /// Which file, which field.
    pub source: &'static str,
}

impl SeriesDef {
    /// A 64-bit counter.
    #[must_use]
    pub const fn counter(name: &'static str, unit: RawUnit, source: &'static str) -> Self {
        Self { name, kind: SeriesKind::Counter, unit, source }
    }

    /// A counter that the kernel keeps in 32 bits.
    #[must_use]
    pub const fn counter32(name: &'static str, unit: RawUnit, source: &'static str) -> Self {
        Self { name, kind: SeriesKind::Counter32, unit, source }
    }

    /// A level.
    #[must_use]
    pub const fn gauge(name: &'static str, unit: RawUnit, source: &'static str) -> Self {
        Self { name, kind: SeriesKind::Gauge, unit, source }
    }
}

/// One series in a sum, with its weight.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Term {
    /// Name of the series.
    pub series: &'static str,
    /// Factor; -1 subtracts.
    pub weight: f64,
    /// A series that kernels may lack: absent counts as 0, as long as another term of the sum exists.
    pub optional: bool,
}

/// A term of weight 1.
#[must_use]
pub const fn term(series: &'static str) -> Term {
    Term { series, weight: 1.0, optional: false }
}

/// A term that is subtracted.
#[must_use]
pub const fn minus(series: &'static str) -> Term {
    Term { series, weight: -1.0, optional: false }
}

/// A term that is multiplied by a constant.
#[must_use]
pub const fn times(weight: f64, series: &'static str) -> Term {
    Term { series, weight, optional: false }
}

/// A term that not every kernel has.
#[must_use]
pub const fn optional(series: &'static str) -> Term {
    Term { series, weight: 1.0, optional: true }
}

/// What the sum of a formula is divided by.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// Change per second of measured time.
    Second,
    /// Change of one sum per change of another.
    Change(&'static [Term]),
    /// Change per what a level, itself a rate (bytes per second of a link), allows in the same time.
    Capacity(&'static [Term]),
    /// Change of time spent waiting per that and the change of time spent running, without the waits of tasks that a CPU
    /// quota stopped.
    Waiting(&'static [Term]),
    /// The change itself; the window's figure is the total.
    Nothing,
    /// The level itself: no change is taken.
    Level,
    /// One level per another.
    LevelOf(&'static [Term]),
    /// Change of a level per second, which may be negative.
    Slope,
}

impl Per {
    /// The terms that the sum is divided by.
    #[must_use]
    pub const fn terms(&self) -> &'static [Term] {
        match self {
            Self::Change(terms) | Self::Capacity(terms) | Self::LevelOf(terms) | Self::Waiting(terms) => terms,
            Self::Second | Self::Nothing | Self::Level | Self::Slope => &[],
        }
    }
}

/// A figure among the outputs of a probe, by the output's id.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// A percentile (0–1) of a histogram, for each of its rows.
    Percentile(&'static str, f64),
    /// The mean of a histogram, for each of its rows.
    Mean(&'static str),
    /// The largest value of a histogram, for each of its rows.
    Max(&'static str),
    /// The sum of a histogram's values, for each of its rows.
    Sum(&'static str),
    /// The number of values of a histogram, for each of its rows.
    Count(&'static str),
    /// A column of a table, for each of its rows.
    Column(&'static str, &'static str),
    /// One cell of a table: row and column.
    Cell(&'static str, &'static str, &'static str),
    /// The sum of a column, rows that were left out included.
    ColumnSum(&'static str, &'static str),
    /// The number of rows, those that were left out included.
    Rows(&'static str),
}

impl Pick {
    /// Where the figure comes from: `99th percentile of its distribution “wait”`.
    #[must_use]
    pub fn words(self) -> String {
        let distribution = |figure: &str, id: &str| format!("{figure} of its distribution “{id}”");
        match self {
            Self::Percentile(id, 0.5) => distribution("median", id),
            Self::Percentile(id, share) => distribution(&format!("{}th percentile", (share * 1e4).round() / 1e2), id),
            Self::Mean(id) => distribution("mean", id),
            Self::Max(id) => distribution("largest value", id),
            Self::Sum(id) => distribution("sum", id),
            Self::Count(id) => distribution("number of values", id),
            Self::Column(id, column) => format!("column “{column}” of its table “{id}”, for each row"),
            Self::Cell(id, row, column) => format!("column “{column}” of the row “{row}” of its table “{id}”"),
            Self::ColumnSum(id, column) => format!("sum of the column “{column}” of its table “{id}”"),
            Self::Rows(id) => format!("number of rows of its table “{id}”"),
        }
    }
}

/// A column of the table of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessField {
    /// CPU time: utime + stime.
    Cpu,
    /// Time in the run queue: schedstat field 2 (of the main thread, or summed over the threads that were read).
    RunDelay,
    /// Major faults.
    MajorFaults,
    /// Minor faults.
    MinorFaults,
    /// Resident memory.
    Resident,
    /// Swapped-out memory.
    Swap,
    /// Bytes read from storage.
    ReadBytes,
    /// Bytes written towards storage.
    WriteBytes,
    /// Voluntary context switches.
    VoluntarySwitches,
    /// Involuntary context switches.
    InvoluntarySwitches,
    /// Threads.
    Threads,
    /// Growth of the resident memory.
    ResidentGrowth,
}

/// How a metric is computed.
#[derive(Debug, Clone, Copy)]
pub enum Formula {
    /// From series: a sum, divided by something.
    Series(OfSeries),
    /// From a table or a probe, without any series.
    Taken(Source),
}

/// A sum of terms, divided by something.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OfSeries {
    /// The sum. All terms belong to one collector, so that their times agree.
    pub sum: &'static [Term],
    /// The divisor.
    pub per: Per,
    /// The least change of the divisor, in base units, below which the quotient says nothing.
    pub floor: f64,
}

/// What is no series, and gives a metric all the same.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The table of processes: the named field's change, or the level where it has no change.
    Process(ProcessField),
    /// As `Process`, per second.
    ProcessRate(ProcessField),
    /// Over the whole table of processes: time waiting for a CPU per time wanting one.
    WaitOfTasks,
    /// Over the whole table of processes: CPU time of the host that is in none of them, per CPU time used.
    UnseenCpu,
    /// Per block device: mean time of a request in the least-loaded interval of the window.
    OneRequest,
    /// The kernel threads whose name begins with the prefix, per second; the instance is the rest of the name.
    KernelThreads(&'static str, ProcessField),
    /// What a probe measured.
    Probe(Pick),
}

/// `rdiag list metrics --json` writes both kinds with the same keys.
impl Serialize for Formula {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Taken {
            sum: [(); 0],
            per: Source,
            floor: f64,
        }
        match self {
            Self::Series(of) => of.serialize(serializer),
            Self::Taken(source) => Taken { sum: [], per: *source, floor: 0.0 }.serialize(serializer),
        }
    }
}

impl Formula {
    /// Change per second.
    #[must_use]
    pub const fn rate(sum: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum, per: Per::Second, floor: 0.0 })
    }

    /// Total change.
    #[must_use]
    pub const fn change(sum: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum, per: Per::Nothing, floor: 0.0 })
    }

    /// Change of one sum per change of another.
    #[must_use]
    pub const fn ratio(sum: &'static [Term], per: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum, per: Per::Change(per), floor: 0.0 })
    }

    /// Change per second, per a level that is itself a rate: the share of a link's or quota's speed.
    #[must_use]
    pub const fn of_capacity(sum: &'static [Term], capacity: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum, per: Per::Capacity(capacity), floor: 0.0 })
    }

    /// Time spent waiting, per time spent waiting or running.
    #[must_use]
    pub const fn waiting(waited: &'static [Term], ran: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum: waited, per: Per::Waiting(ran), floor: 0.0 })
    }

    /// A level.
    #[must_use]
    pub const fn level(sum: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum, per: Per::Level, floor: 0.0 })
    }

    /// One level per another.
    #[must_use]
    pub const fn level_ratio(sum: &'static [Term], per: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum, per: Per::LevelOf(per), floor: 0.0 })
    }

    /// Change of a level per second, which may be negative.
    #[must_use]
    pub const fn slope(sum: &'static [Term]) -> Self {
        Self::Series(OfSeries { sum, per: Per::Slope, floor: 0.0 })
    }

    /// A column of the table of processes.
    #[must_use]
    pub const fn process(field: ProcessField) -> Self {
        Self::Taken(Source::Process(field))
    }

    /// A column of the table of processes, per second.
    #[must_use]
    pub const fn process_rate(field: ProcessField) -> Self {
        Self::Taken(Source::ProcessRate(field))
    }

    /// A column of the table of processes per second, for the kernel threads whose name begins with `prefix`; the
    /// instance is the rest of the name.
    #[must_use]
    pub const fn kernel_threads(prefix: &'static str, field: ProcessField) -> Self {
        Self::Taken(Source::KernelThreads(prefix, field))
    }

    /// A figure of a probe.
    #[must_use]
    pub const fn probe(pick: Pick) -> Self {
        Self::Taken(Source::Probe(pick))
    }

    /// The same formula, silent while the divisor moved less than `floor` base units.
    #[must_use]
    pub const fn floor(self, floor: f64) -> Self {
        match self {
            Self::Series(of) => Self::Series(OfSeries { floor, ..of }),
            Self::Taken(_) => self,
        }
    }

    /// The terms of its sum, and those that the sum is divided by.
    #[must_use]
    pub const fn terms(&self) -> (&'static [Term], &'static [Term]) {
        match self {
            Self::Series(of) => (of.sum, of.per.terms()),
            Self::Taken(_) => (&[], &[]),
        }
    }
}

/// A metric: a named quantity in a base unit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MetricDef {
    /// `resource.thing.unit`.
    pub id: &'static str,
    /// Base unit.
    pub unit: Unit,
    /// What one instance of it is (`device`, `interface`, `process` …); none for the whole host.
    pub dimension: Option<&'static str>,
    /// What it tells, in one sentence.
    pub help: &'static str,
    /// Ways to compute it, best first: the first whose series exist is taken.
    pub sources: &'static [Formula],
    /// What it does not mean.
    pub caveat: &'static str,
    /// The command with which a person reads the same.
    pub manual: &'static str,
    /// What reports say of a culprit that it names; words of reports alone, and in no listing.
    #[serde(skip)]
    pub deed: Option<Deed>,
}

impl MetricDef {
    /// What a definition leaves out, and so has not: it has no instances, for one. For `..MetricDef::EMPTY` behind the fields that it has.
    pub const EMPTY: Self =
        Self { id: "", unit: Unit::Count, dimension: None, help: "", sources: &[], caveat: "", manual: "", deed: None };
}
