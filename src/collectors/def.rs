//! What a collector is made of: its definition, and what it does at work. The list of all collectors is `registry.rs`.

use rdiag_kernel::host::Host;
use rdiag_model::{Facts, MetricDef, Reason, SeriesDef, Unavailable};

pub(crate) use crate::sink::Sink;

/// How often a collector is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cadence {
    /// Once per interval: counters.
    Interval,
    /// Four times per interval, at jittered times: levels that change quickly (queue lengths).
    Gauge,
    /// At the beginning and at the end of the window: capacities that change slowly, or are expensive to read.
    Ends,
}

/// A collector: what it reads, and what follows from it.
#[derive(Debug)]
pub struct CollectorDef {
    /// Name in playbooks.
    pub id: &'static str,
    /// What it reads, in one sentence.
    pub help: &'static str,
    /// How often.
    pub cadence: Cadence,
    /// The raw series that it records.
    pub series: &'static [SeriesDef],
    /// The metrics that are derived from them.
    pub metrics: &'static [MetricDef],
    /// Measured cost, and on what it depends.
    pub overhead: &'static str,
    /// Begins a window.
    pub start: fn(&Host) -> Box<dyn Collect>,
}

/// A collector at work in one window.
pub trait Collect: Send {
    /// Called once before the window begins, for what takes time to set up.
    fn prepare(&mut self, host: &Host, out: &Sink) {
        let _ = (host, out);
    }

    /// Reads its source once and puts what it sees into `out`.
    /// An error means that this source gives nothing at this time; it becomes the gap in the report.
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable>;

    /// Puts into `out`, a copy of what was recorded, what is known between two samples and otherwise given at the end: what metrics are
    /// made of, for the conditions of steps that may begin within the window. Without it a condition on such a metric holds at the end
    /// only.
    fn so_far(&mut self, host: &Host, out: &Sink) {
        let _ = (host, out);
    }

    /// Called once after the last sample: names, owners and the like, worth reading for few things only.
    fn finish(&mut self, host: &Host, out: &Sink) {
        let _ = (host, out);
    }
}

/// The gap where files of some processes may be read by those only who may trace them. `what` is what was not read.
///
/// Being root is not enough: the kernel wants every capability that the process holds, which a container may withhold.
pub(crate) fn untraceable(facts: &Facts, what: &str) -> Unavailable {
    let (why, remedy) = match facts.uid {
        0 => (
            "may not be read by this root, who lacks a right that they have",
            "run rdiag with every capability, outside of the container",
        ),
        _ => ("may be read by their owners only", "run rdiag as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"),
    };
    Unavailable::new(Reason::Denied, format!("{what} {why}")).with_remedy(remedy)
}

/// The gap where there is no hardware to ask. That of a virtual machine is seen by its host alone, so there nothing is missing; on
/// any other machine it is `gap`.
pub(crate) fn unless_virtual(facts: &Facts, why: &str, gap: Unavailable) -> Unavailable {
    if facts.virtual_machine { Unavailable::new(Reason::NotApplicable, format!("virtual machine: {why}")) } else { gap }
}
