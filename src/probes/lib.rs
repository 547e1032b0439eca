//! Measurements inside the kernel: one folder for each probe, with the program (`ID.bpf.c`), its committed object and the
//! Rust that reads it. A probe counts and reads; it never judges.
//!
//! To add one: write `ID/mod.rs` with a `pub(super) static PROBE: ProbeDef`, and add its line to [`ALL`]. Ids are those of
//! bcc's tools where bcc has the tool.

mod biolatency;
mod biosnoop;
mod biotop;
mod block;
mod cachestat;
mod calls;
mod count;
mod cpudist;
mod dbslower;
mod dcsnoop;
mod deadlock;
mod drops;
mod events;
mod execsnoop;
mod file_ops;
mod fileslower;
mod filetop;
mod fsdist;
mod functions;
mod futexctn;
mod grammar;
mod graph;
mod hardirqs;
mod kept;
mod killsnoop;
mod klockstat;
mod kvmexit;
pub mod listing;
mod llcstat;
mod log;
mod memleak;
mod memstall;
mod migrations;
mod netqtop;
mod offcputime;
mod oomkill;
mod opensnoop;
mod owners;
mod params;
mod plans;
mod profile;
mod read;
mod readahead;
mod reads;
mod response;
mod runqlat;
mod runqlen;
mod runqslower;
mod sockets;
mod softirqs;
mod stack_table;
mod stat;
mod stream;
mod swapin;
mod syncsnoop;
mod syscount;
mod tcplife;
mod tcpretrans;
mod tcptop;
mod timeline;
mod totals;
mod traced;

pub use grammar::kernel_functions as check_function_list;
use params::MARKER;
pub use params::{FOR, ParamDef, ParamKind, Params};
pub use plans::check_point;
pub use response::check_marks;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Filter, Kernel, Object};
use rdiag_kernel::mechanism::tracefs::toll::Spent;
use rdiag_model::ledger::Level;
use rdiag_model::probe::{Attachment, Output};
use rdiag_model::{Ledger, MetricDef, Unavailable};

/// All probes, sorted by id.
pub static ALL: &[&ProbeDef] = &[
    &biolatency::PROBE,
    &biolatency::BIOLATPCTS,
    &biosnoop::PROBE,
    &biotop::PROBE,
    &cachestat::PROBE,
    &cachestat::CACHETOP,
    &count::PROBE,
    &cpudist::PROBE,
    &dbslower::PROBE,
    &dcsnoop::PROBE,
    &deadlock::PROBE,
    &filetop::DIRTOP,
    &drops::PROBE,
    &events::PROBE,
    &execsnoop::PROBE,
    &fileslower::PROBE,
    &filetop::PROBE,
    &fsdist::PROBE,
    &functions::PROBE,
    &futexctn::PROBE,
    &graph::PROBE,
    &hardirqs::PROBE,
    &count::HIST,
    &killsnoop::PROBE,
    &klockstat::PROBE,
    &kvmexit::PROBE,
    &llcstat::PROBE,
    &log::PROBE,
    &memleak::PROBE,
    &memstall::PROBE,
    &migrations::PROBE,
    &netqtop::PROBE,
    &offcputime::PROBE,
    &offcputime::OFFWAKETIME,
    &oomkill::PROBE,
    &opensnoop::PROBE,
    &profile::PROBE,
    &readahead::PROBE,
    &response::PROBE,
    &runqlat::PROBE,
    &runqlen::PROBE,
    &runqslower::PROBE,
    &softirqs::PROBE,
    &stat::PROBE,
    &swapin::PROBE,
    &syncsnoop::PROBE,
    &syscount::PROBE,
    &tcplife::TCPACCEPT,
    &tcplife::TCPCONNECT,
    &tcplife::PROBE,
    &tcpretrans::PROBE,
    &tcptop::PROBE,
    &timeline::PROBE,
    &offcputime::WAKEUPTIME,
];

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

    /// Does without something from now on, to cost less, and says so as the end of a sentence; none where nothing is left to do without.
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

/// The probe with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static ProbeDef> {
    ALL.iter().copied().find(|def| def.id == id)
}

/// Ids of the probes that give stacks, sorted.
pub fn with_stacks() -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(|def| def.stacks != GivesStacks::Never).map(|def| def.id)
}

/// All metrics of probes, each with its probe.
pub fn metrics() -> impl Iterator<Item = (&'static ProbeDef, &'static MetricDef)> {
    ALL.iter().copied().flat_map(|def| def.metrics.iter().map(move |metric| (def, metric)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::Per;

    #[test]
    fn every_folder_is_registered_and_holds_program_and_object() {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
        let entries = std::fs::read_dir(here).unwrap();
        for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(find(&name).is_some(), "probes/{name} is not in ALL, or its id differs from its folder's name");
            let has = |kind: &str| here.join(format!("{name}/{name}.bpf.{kind}")).exists();
            assert_eq!(has("c"), has("o"), "{name}: program and object belong together");
        }
        assert!(ALL.is_sorted_by_key(|def| def.id), "keep ALL sorted by id");
    }

    #[test]
    fn every_probe_is_explained_and_its_metrics_come_from_its_outputs() {
        for def in ALL {
            for text in [def.question, def.attach, def.output, def.caveats, def.overhead] {
                assert!(text.ends_with(['.', '?']), "{}: {text:?} is no sentence", def.id);
            }
            if let GivesStacks::IfAsked(name) = def.stacks {
                let flag = |param: &&ParamDef| param.name == name && param.kind == ParamKind::Flag;
                assert_eq!(def.params.iter().filter(flag).count(), 1, "{}: {name}", def.id);
            }
            for metric in def.metrics {
                assert!(metric.sources.iter().all(|formula| matches!(formula.per, Per::Probe(_))), "{}", metric.id);
            }
        }
    }
}
