//! Performance counters: how many cycles, instructions, cache misses, faults and switches it took.

mod figures;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::launch::Watch;
use rdiag_kernel::mechanism::ebpf::Filter;
use rdiag_kernel::mechanism::perf::counters::{Counted, Counters, Scope};
use rdiag_kernel::mechanism::perf::select;
use rdiag_model::probe::Attachment;
use rdiag_model::{Reason, Unavailable};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "stat",
    question: "How many events of the CPUs, the kernel and the devices did it take, and how well were the CPUs used?",
    attach: "Performance counters (perf_event_open): on each CPU, or on the threads of processes and their children.",
    output: "For each event the count, the rate, the share of the time that it was counted, and what follows from it: \
             CPUs used, clock, instructions per cycle, shares of misses, memory bandwidth.",
    caveats: "A CPU counts few events at a time. If more are asked for they take turns, and the counts are scaled up: the \
              share that was counted tells how far to trust them. What the general names mean differs from CPU to CPU, \
              those of caches most. Virtual machines often have no counters of the CPU. A process is counted from the \
              moment at which rdiag looks; threads that it starts in just that moment may be left out.",
    overhead: "Nothing per event. About 0.7 µs per context switch of a process or command that is counted with four events \
               (perf stat takes the same), less on whole CPUs; a system call per event and CPU or thread for each reading.",
    params: &[
        ParamDef {
            name: "events",
            kind: ParamKind::Events,
            default: DEFAULT,
            help: "what to count (`rdiag list events`): names, rNNN, device/event/, group:tracepoint; :u user mode, :k kernel; \
                   {a,b} in the same moments",
        },
        ParamDef { name: "per_cpu", kind: ParamKind::Flag, default: "false", help: "show each CPU too" },
    ],
    filters: &[FilterKind::Pid, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: figures::METRICS,
    start,
};

/// What is counted unless something is asked for.
const DEFAULT: &str = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses,\
                       cache-references,cache-misses";

struct Stat {
    counters: Counters,
    scope: Scope,
    watch: Option<Watch>,
    since: f64,
    per_cpu: bool,
    gaps: BTreeMap<String, Unavailable>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let host = context.host;
    if host.is_recorded() || host.is_seen_from_outside() {
        return Err(Unavailable::new(Reason::NotVisible, "a recorded tree has no counters"));
    }
    let scope = scope(host, context.filter)?;
    let asked = context.params.text("events").unwrap_or(DEFAULT);
    // On whole CPUs time that is spent idle passes too, and only cpu-clock says so.
    let asked = if asked == DEFAULT && !is_of_tasks(&scope) {
        asked.replace("task-clock", "cpu-clock")
    } else {
        asked.to_owned()
    };
    let wrong = |error: select::EventError| Unavailable::new(Reason::Malformed, error.message);
    let groups = select::parse(host, &asked).map_err(wrong)?;
    let counters = Counters::open(host, groups, &scope)?;
    Ok(Box::new(Stat {
        counters,
        scope,
        watch: context.filter.watch.clone(),
        since: host.now(),
        per_cpu: context.params.flag("per_cpu"),
        gaps: BTreeMap::new(),
    }))
}

/// Whether tasks are counted, in place of CPUs.
fn is_of_tasks(scope: &Scope) -> bool {
    matches!(scope, Scope::Processes(_) | Scope::Command(_))
}

fn scope(host: &Host, filter: &Filter) -> Result<Scope, Unavailable> {
    match (filter.pids.as_slice(), &filter.cgroup, &filter.command) {
        ([pid, ..], None, Some(_)) => Ok(Scope::Command(*pid)),
        ([], None, _) => Ok(Scope::Host),
        ([], Some(path), _) => group(host, path).map(Scope::Group),
        (pids, None, None) => Ok(Scope::Processes(pids.to_vec())),
        _ => {
            let why = "counters are kept for processes or for a control group, not for both at once";
            Err(Unavailable::new(Reason::NotApplicable, why).with_remedy("leave --pid or --cgroup out"))
        }
    }
}

/// The directory of a control group in the tree that knows counters: that of v2, or of the controller `perf_event`.
fn group(host: &Host, path: &str) -> Result<String, Unavailable> {
    let path = path.trim_start_matches("/sys/fs/cgroup").trim_matches('/');
    let path = ["unified/", "perf_event/"].iter().find_map(|tree| path.strip_prefix(tree)).unwrap_or(path);
    let places =
        ["sys/fs/cgroup", "sys/fs/cgroup/perf_event", "sys/fs/cgroup/unified"].map(|tree| format!("{tree}/{path}"));
    let knows = |place: &&String| {
        let is_v2 = host.exists(&format!("{place}/cgroup.controllers"));
        is_v2 || place.starts_with("sys/fs/cgroup/perf_event/") && host.exists(place)
    };
    places.iter().find(knows).cloned().ok_or_else(|| {
        let why = format!("there is no control group {path:?} in a tree that knows counters");
        Unavailable::new(Reason::Absent, why)
            .with_remedy("give its path below the v2 tree, or mount the controller perf_event")
    })
}

impl Probe for Stat {
    fn attachments(&self) -> Vec<Attachment> {
        let event = |name: &str| Attachment { event: name.to_owned(), back_end: "counter".into(), refused: Vec::new() };
        self.counters.names().map(event).collect()
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let (counted, notes) = self.counters.read();
        let now = host.now().min(self.watch.as_ref().and_then(Watch::ended).unwrap_or(f64::INFINITY));
        let since = self.since.max(self.watch.as_ref().and_then(Watch::begun).unwrap_or(0.0)).min(now);
        self.since = now;
        let seconds = (now - since).max(1e-9);
        let figures = figures::derive(&counted, seconds, is_of_tasks(&self.scope));
        let mut outputs = vec![table::events(&counted, &figures, seconds)];
        outputs.extend(table::figures(&figures));
        if self.per_cpu {
            outputs.extend(table::cpus(&counted));
        }
        let mut all = self.counters.notes().to_vec();
        all.extend(notes);
        all.extend(figures.notes.iter().cloned());
        all.extend(table::why_not(&counted));
        self.gaps = figures.gaps;
        for Counted { name, outcome } in counted {
            if let Err(gap) = outcome {
                self.gaps.insert(name, gap);
            }
        }
        Ok(Taken { outputs, lost: Vec::new(), notes: all })
    }

    fn gaps(&self) -> BTreeMap<String, Unavailable> {
        self.gaps.clone()
    }
}
