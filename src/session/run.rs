//! A whole run: the first window with the drill-downs that begin within it, then those whose conditions ask for what a drill-down found.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::allotted;
use super::analyze::{Analysis, Analyst};
use super::drill;
use super::group::judges_groups;
use super::probing::ProbeOrder;
use super::setup;
use rdiag_collectors as collectors;
use rdiag_kernel::host::rights::{self, Phase, Work};
use rdiag_kernel::host::{BeginAt, Host, SharedHost, own_usage};
use rdiag_kernel::mechanism::ebpf::Filter;
use rdiag_model::recording::{FORMAT_VERSION, Overhead, Tool};
use rdiag_model::{Finding, Recording, Setup, Target};
use rdiag_playbook::{Plan, PlannedStep};
use rdiag_probes::{self as probes, FilterKind, Params, ProbeDef};

/// What a run gives.
pub struct Run {
    /// Everything that was seen.
    pub recording: Recording,
    /// What follows from it.
    pub analysis: Analysis,
}

/// Follows the progress of a run.
pub trait Observer {
    /// A window begins: which steps it serves, how long it takes, and whether it is a drill-down. A drill-down may begin while another
    /// window runs, and ends with it.
    fn window(&mut self, steps: &[&PlannedStep], seconds: f64, drill_down: bool);
    /// Everything is attached and has been read once: what was to wait for that may begin.
    fn begun(&mut self);
    /// This share of the window has passed.
    fn progress(&mut self, share: f64);
    /// Whether it wants to know what would follow if the first window ended now. That costs something, so it is rarely called.
    fn wants_findings(&self) -> bool {
        false
    }
    /// What would follow if the first window ended here, after so many seconds.
    fn findings(&mut self, _seconds: f64, _findings: Vec<Finding>) {}
    /// The window has ended, and all that ran within it.
    fn window_ended(&mut self);
    /// When the first window is to begin, if not at once.
    fn begin_at(&self) -> Option<BeginAt> {
        None
    }
    /// Whether the calling thread is to give up what it may do as soon as that is no longer needed, for good.
    fn gives_up_rights(&self) -> bool {
        false
    }
    /// All that is known so far, before it is named, judged or shown: what is saved now survives whatever happens to rdiag there.
    /// Called for each window, once more for one with probes before they are read; the last call is given what the run returns.
    fn keep(&mut self, _recording: &Recording) {}
}

/// Requests and limits of the one control group that is judged.
fn asked_for(host: &Host, plan: &Plan, target: &Target) -> BTreeMap<String, String> {
    target.cgroup.as_ref().filter(|_| judges_groups(plan)).map(|typed| allotted::of(host, typed)).unwrap_or_default()
}

/// Runs a plan on a host; probes and whatever observes single tasks look at `target`. `stop` ends the current window early; what was read
/// until then is kept.
pub fn run(
    host: &SharedHost,
    plan: &Plan,
    target: &Target,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> io::Result<Run> {
    let (cpu_before, _) = own_usage();
    let mut context = drill::RunContext { host, plan, target, began: host.now(), stop };
    let mut recording = Recording {
        format_version: FORMAT_VERSION,
        tool: Tool { name: "rdiag".into(), version: env!("CARGO_PKG_VERSION").into() },
        playbook: plan.playbook.name.clone(),
        params: plan.params.clone(),
        target: target.clone(),
        host: host.facts().clone(),
        setup: Setup { group: asked_for(host, plan, target), ..setup::of(host) },
        started: host.wall_clock(),
        exercise: None,
        windows: Vec::new(),
        interrupted: false,
        overhead: Overhead::default(),
    };
    let mut analyst = Analyst::new(host.facts(), plan, target);
    let mut costs: BTreeMap<String, f64> = BTreeMap::new();
    // On a recorded tree all windows see the same instants, one after the other.
    let within = !host.is_recorded() && plan.windows.len() > 1;
    for (level, steps) in plan.windows.iter().enumerate() {
        let steps = if level == 0 { steps.iter().collect() } else { analyst.wanted(steps) };
        if steps.is_empty() || within && level == 1 {
            continue;
        }
        let last_level = if within && level == 0 { 1 } else { level };
        let gives_up = last_level + 1 == plan.windows.len() && observer.gives_up_rights();
        let mut spec = context.spec(&steps, recording.windows.len());
        spec.begin_at = observer.begin_at().filter(|_| level == 0);
        observer.window(&steps, plan.duration, level > 0);
        let drills = if within && level == 0 { plan.windows.get(1) } else { None };
        let before = recording.windows.len();
        let (completed, took) = drill::windows(&mut context, spec, drills, gives_up, &mut recording, observer)?;
        observer.window_ended();
        for (collector, seconds) in took {
            *costs.entry(collector).or_default() += seconds;
        }
        recording.interrupted = !completed || stop.load(Ordering::Relaxed);
        // Reading a recorded tree costs something here and now, and tells nothing about the host that it came from.
        if !host.is_recorded() {
            recording.overhead = overhead(&recording, cpu_before, &costs);
        }
        if gives_up || recording.interrupted && observer.gives_up_rights() {
            rights::narrow(Phase::Writing);
        }
        observer.keep(&recording);
        recording.windows.iter().skip(before).for_each(|window| analyst.add(window));
        if recording.interrupted {
            break;
        }
    }
    if observer.gives_up_rights() {
        rights::narrow(Phase::Writing);
    }
    let analysis = analyst.conclude(&recording);
    Ok(Run { recording, analysis })
}

/// What measuring has cost so far; what is made of it later is not in it.
fn overhead(recording: &Recording, cpu_before: f64, costs: &BTreeMap<String, f64>) -> Overhead {
    let (cpu_after, peak) = own_usage();
    let elapsed = recording.seconds().max(1e-9);
    Overhead {
        cpu_seconds: cpu_after - cpu_before,
        cpu_ratio: (cpu_after - cpu_before) / elapsed,
        max_resident_bytes: peak,
        collectors: costs.clone(),
    }
}

/// What the windows of a plan take, be they wanted or not.
#[must_use]
pub fn work_of(plan: &Plan) -> Work {
    let measures = || plan.windows.iter().flatten().flat_map(|planned| &planned.step.collect);
    Work {
        probes: measures().any(|measure| probes::find(measure.id()).is_some()),
        task_states: measures().any(|measure| measure.id() == "task_states"),
    }
}

/// The collectors of some steps, each once.
pub(super) fn collectors_for(steps: &[&PlannedStep]) -> Vec<&'static collectors::CollectorDef> {
    let wanted = |id: &str| steps.iter().any(|planned| planned.step.collect.iter().any(|measure| measure.id() == id));
    let mut all: Vec<_> = collectors::ALL.iter().copied().filter(|def| wanted(def.id)).collect();
    // What the table of processes has asked serves it in the same sample.
    all.sort_by_key(|def| def.id == "lock_waits");
    all
}

/// The probes of some steps, each once: the first step's parameters hold.
pub(super) fn probes_for(steps: &[&PlannedStep], target: &Target, budget: f64, window: usize) -> Vec<ProbeOrder> {
    let mut orders: Vec<ProbeOrder> = Vec::new();
    for measure in steps.iter().flat_map(|planned| &planned.step.collect) {
        let Some(def) = probes::find(measure.id()) else { continue };
        // The playbook was checked, so these parameters are right.
        let Ok(params) = Params::new(def.id, def.params, &measure.params()) else { continue };
        if orders.iter().all(|order| order.def.id != def.id) {
            orders.push(ProbeOrder { def, params, filter: filter_for(def, target), budget, window });
        }
    }
    orders
}

/// As much of the target as a probe can be limited to.
fn filter_for(def: &ProbeDef, target: &Target) -> Filter {
    let can = |kind| def.filters.contains(&kind);
    Filter {
        pids: if can(FilterKind::Pid) { target.pids.clone() } else { Vec::new() },
        comm: target.comm.clone().filter(|_| can(FilterKind::Comm)),
        command: target.command.clone().filter(|_| can(FilterKind::Pid)),
        watch: None,
        cgroup: target.cgroup.clone().filter(|_| can(FilterKind::Cgroup)),
        each: target.each,
        marks: target.marks.clone(),
        starter: target.starter(),
    }
}
