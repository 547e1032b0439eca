//! What a probe is made of: its definition, what it is started with, and what it does at work. The list of all probes is `registry.rs`.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Filter, Kernel, Object};
use rdiag_kernel::mechanism::tracefs::event_cost::Spent;
use rdiag_model::ledger::Level;
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Ledger, MetricDef, Unavailable};

pub use crate::params::{FOR, ParamDef, ParamKind, Params};

/// A probe: the question, and how it is answered.
#[derive(Debug)]
pub struct ProbeDef {
    /// Name on the command line and in playbooks.
    pub id: &'static str,
    /// The question it answers, in one sentence.
    pub question: &'static str,
    /// The events it attaches to.
    pub attach: &'static str,
    /// What comes out.
    pub output: &'static str,
    /// What the figures do not mean.
    pub caveats: &'static str,
    /// Measured cost.
    pub overhead: &'static str,
    /// What can be set.
    pub params: &'static [ParamDef],
    /// What it can be limited to.
    pub filters: &'static [FilterKind],
    /// Whether it gives single events, which are printed as they come.
    pub streams: bool,
    /// Whether it gives stacks, which can be drawn as flame graphs.
    pub stacks: GivesStacks,
    /// Metrics derived from its outputs.
    pub metrics: &'static [MetricDef],
    /// Loads and attaches it.
    pub start: fn(&Context<'_>) -> Result<Box<dyn Probe>, Unavailable>,
}

/// Whether a probe gives stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivesStacks {
    /// It has none.
    Never,
    /// Always.
    Always,
    /// When this parameter, a flag, is set.
    IfAsked(&'static str),
}

/// What a probe can be limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterKind {
    /// Process ids.
    Pid,
    /// Exact name of the task.
    Comm,
    /// Control group.
    Cgroup,
}

/// What a probe is started with.
#[derive(Debug)]
pub struct Context<'c> {
    /// The machine.
    pub host: &'c Host,
    /// Parameters, checked.
    pub params: &'c Params,
    /// Which tasks to look at.
    pub filter: &'c Filter,
    kernel: OnceCell<Arc<Kernel>>,
}

impl<'c> Context<'c> {
    /// What a probe is started with on this machine.
    #[must_use]
    pub fn new(host: &'c Host, params: &'c Params, filter: &'c Filter) -> Self {
        Self { host, params, filter, kernel: OnceCell::new() }
    }

    /// The kernel's types and the loader, for probes with programs in the kernel: others do not pay for them.
    pub fn kernel(&self) -> Result<&Kernel, Unavailable> {
        if let Some(kernel) = self.kernel.get() {
            return Ok(kernel);
        }
        let kernel = Kernel::shared(self.host)?;
        Ok(self.kernel.get_or_init(|| kernel))
    }
}

/// A probe at work.
pub trait Probe: Send {
    /// Its programs in the kernel; none for a probe that only asks for counters or samples.
    fn object(&self) -> Option<&Object> {
        None
    }

    /// All its objects, where there are several.
    fn objects(&self) -> Vec<&Object> {
        self.object().into_iter().collect()
    }

    /// What its events have cost since it began, for a probe that has the kernel's own tracing do the work: of that the kernel keeps no
    /// statistics.
    fn spent(&self, host: &Host) -> Option<Spent> {
        let _ = host;
        None
    }

    /// Does without something from now on, to cost less, and says so as the end of a sentence, which is empty if it has done so before it
    /// was asked; none where nothing is left to do without.
    fn relieve(&mut self, host: &Host) -> Option<String> {
        let _ = host;
        None
    }

    /// The events that it is attached to.
    fn attachments(&self) -> Vec<Attachment> {
        self.objects().into_iter().flat_map(Object::attachments).cloned().collect()
    }

    /// Takes over what the kernel has streamed, so that its buffers do not fill up. Called about once per interval.
    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let _ = host;
        Ok(())
    }

    /// The next reading will be the last one.
    fn close(&mut self) {}

    /// Whether it has all that it was asked for, and may end.
    fn is_over(&self) -> bool {
        false
    }

    /// What was measured since the last reading, or since the start.
    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable>;

    /// The level of the account of the observed task's time that this probe makes, if it makes one.
    fn level(&self) -> Option<Level> {
        None
    }

    /// What could not be measured in the last reading, by the key of the row that it would have been.
    fn gaps(&self) -> BTreeMap<String, Unavailable> {
        BTreeMap::new()
    }

    /// The account of the observed task's time, for probes that make one; asked for once, after the last `read`.
    fn ledger(&mut self) -> Option<Ledger> {
        None
    }
}

/// What a probe has measured.
#[derive(Debug, Default)]
pub struct Taken {
    /// The measurements.
    pub outputs: Vec<Output>,
    /// Events that happened and are not in the outputs, by reason; reasons with 0 may stand here.
    pub lost: Vec<(&'static str, u64)>,
    /// What the reader must know.
    pub notes: Vec<String>,
}
