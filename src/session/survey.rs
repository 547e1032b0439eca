//! Asking every source once: what answers here, and what does not.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::worker::{Job, Task, Worker};
use rdiag_collectors::{self as collectors, Sink};
use rdiag_kernel::host::SharedHost;
use rdiag_kernel::mechanism::ebpf::{Filter, Kernel};
use rdiag_model::{Reason, Unavailable};
use rdiag_probes::{self as probes, Context, Params, ProbeDef};

/// What one collector found.
pub struct Surveyed {
    /// Collector id.
    pub collector: &'static str,
    /// What it cannot give: which series, and why.
    pub gaps: Vec<(String, Unavailable)>,
}

/// Takes one sample of every collector. Probing by doing: the listed is not the usable.
pub fn survey(host: &SharedHost) -> io::Result<Vec<Surveyed>> {
    let mut found = Vec::new();
    for def in collectors::ALL {
        let sink = Sink::new(def.series);
        let worker = Worker::start(host)?;
        worker.submit([Job { slot: 0, state: (def.start)(host), sink: sink.clone(), task: Task::Sample }]);
        let mut gaps = Vec::new();
        match worker.next(Duration::from_secs(3)) {
            Some(done) => gaps.extend(done.result.err().map(|gap| (def.id.to_owned(), gap))),
            None => gaps.push((def.id.to_owned(), Unavailable::new(Reason::Hung, "it did not answer within 3 s"))),
        }
        let told: BTreeMap<String, Unavailable> = sink.with_record(|record| record.gaps.clone());
        gaps.extend(told);
        found.push(Surveyed { collector: def.id, gaps });
    }
    Ok(found)
}

/// Probes that are tried at the same time: most of the time goes into waiting for the kernel to let go of a program.
const SIDE_BY_SIDE: usize = 4;

/// Probes of the C library's functions. Of all processes, each on the host would be stopped at each `malloc` for that moment; so they are
/// tried on rdiag alone, when it does nothing else.
const OF_THE_C_LIBRARY: [&str; 2] = ["deadlock", "memleak"];

/// Attaches every probe for a moment. Each comes with the reason why it cannot run here, if it cannot; one that has to be
/// told what to look at comes with [`Reason::NotApplicable`]. It takes some seconds; `progress` is given how many were tried, after each.
pub fn survey_probes(
    host: &SharedHost,
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<(&'static ProbeDef, Option<Unavailable>)> {
    // Kept for all of them, so that the kernel's types are read once.
    let _kernel = Kernel::shared(host);
    let (last, first): (Vec<&ProbeDef>, Vec<&ProbeDef>) =
        probes::ALL.iter().copied().partition(|def| OF_THE_C_LIBRARY.contains(&def.id));
    let waiting = Mutex::new(first.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let tried = Mutex::new(Vec::new());
    let all = Filter::default();
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(def) = next() {
                    let outcome = attach(host, def, &all);
                    let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
                    tried.push((def, outcome.err()));
                    progress(tried.len());
                }
            });
        }
    });
    let mut tried = tried.into_inner().unwrap_or_else(PoisonError::into_inner);
    let itself = Filter { pids: vec![host.facts().pid], ..Filter::default() };
    tried.extend(last.into_iter().map(|def| (def, attach(host, def, &itself).err())));
    tried.sort_by_key(|(def, _)| def.id);
    tried
}

/// Attaches a probe as it is without parameters, and detaches it at once.
fn attach(host: &SharedHost, def: &'static ProbeDef, of: &Filter) -> Result<(), Unavailable> {
    let params = Params::new(def.id, def.params, &BTreeMap::new())
        .map_err(|what| Unavailable::new(Reason::NotApplicable, what.to_string()))?;
    (def.start)(&Context::new(host, &params, of)).map(drop)
}
