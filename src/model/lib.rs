//! The words of rdiag as plain data. Nothing here reads the machine, judges or prints.

pub mod call_trace;
pub mod chain;
pub mod comparison;
pub mod component;
pub mod exercise;
pub mod facts;
pub mod finding;
pub mod hot;
pub mod ledger;
pub mod metric;
pub mod probe;
pub mod probed;
pub mod profile;
pub mod quantity;
pub mod reading;
pub mod recording;
pub mod report;
pub mod runs;
pub mod schedule;
pub mod stacks;
pub mod status;
pub mod unit;

pub use component::Component;
pub use exercise::Exercise;
pub use facts::Facts;
pub use finding::{Culprit, Evidence, Finding, NextStep};
pub use ledger::{Ledger, Target};
pub use metric::{Formula, MetricDef, Per, SeriesDef, SeriesKind, Term};
pub use probe::ProbeResult;
pub use probed::Probed;
pub use profile::Profile;
pub use reading::{Metrics, Reading, Stats};
pub use recording::{CollectorRecord, LogLine, Number, Process, ProcessPoint, Recording, Series, Window};
pub use report::Report;
pub use status::{Confidence, Kind, Reason, Resource, Status, Unavailable};
pub use unit::{RawUnit, Unit};
