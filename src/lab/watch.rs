//! Trials with a program of the load, while something is measured: it is watched, or kept to one CPU.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use rdiag_kernel::host::Host;
use rdiag_model::{Reason, Target, Unavailable};
use rdiag_own as own;
use rdiag_playbook::{Measure, Plan, PlannedStep};
use rdiag_session as session;
use rdiag_session::Observer;

/// The probe that counts, and what.
const PROBE: &str = "count";
const FUNCTION: &str = "libc:malloc";
/// Nothing is watched for longer, in seconds.
const MOST_SECONDS: f64 = 30.0;

/// Does something while each call of malloc in a process is counted; not at all, and why, where that cannot be.
pub(super) fn while_watched<T: Send>(pid: u32, work: impl FnOnce() -> T + Send) -> Result<T, Unavailable> {
    let plan = plan().ok_or_else(|| Unavailable::new(Reason::Absent, "the plan for counting calls does not hold"))?;
    let host = Arc::new(Host::live(Path::new("/")));
    let target = Target { pids: vec![pid], ..Target::default() };
    let stop = AtomicBool::new(false);
    let (begun, begins) = channel();
    let halt = &stop;
    let (run, done) = std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            let done = begins.recv().ok().map(|()| work());
            halt.store(true, Ordering::Relaxed);
            done
        });
        let run = session::run(&host, &plan, &target, &stop, &mut Begins(begun));
        (run, work.join().ok().flatten())
    });
    let failed = |why: String| Unavailable::new(Reason::Absent, why);
    let run = run.map_err(|error| failed(format!("counting calls: {error}")))?;
    for window in &run.recording.windows {
        if let Some(Err(gap)) = window.probes.get(PROBE) {
            return Err(gap.clone());
        }
    }
    done.ok_or_else(|| failed("counting calls did not begin".into()))
}

/// Does something while all threads of a process of the load are kept to the CPU of its first one.
pub(super) fn while_kept_to_one_cpu<T>(host: &Host, pid: u32, work: impl FnOnce() -> T) -> io::Result<T> {
    let threads = host.list(&format!("proc/{pid}/task")).map_err(io::Error::other)?;
    let threads: Vec<u32> = threads.iter().filter_map(|name| name.parse().ok()).collect();
    let places = own::keep_to_one_cpu(&threads)?;
    let done = work();
    own::let_back(&places)?;
    Ok(done)
}

/// One window that counts and judges nothing.
fn plan() -> Option<Plan> {
    let named = session::resolve("use-method").ok()?;
    let mut plan = Plan::new(&named.loaded, &named.library, &BTreeMap::new()).ok()?;
    let first = plan.windows.first()?.first()?.clone();
    let function = BTreeMap::from([("function".to_owned(), FUNCTION.into())]);
    let mut step = PlannedStep { rules: Vec::new(), ..first };
    step.step.collect = vec![Measure::With(BTreeMap::from([(PROBE.to_owned(), function)]))];
    plan.windows = vec![vec![step]];
    plan.duration = MOST_SECONDS;
    // What it costs is the question.
    plan.budget = 1.0;
    Some(plan)
}

/// Tells that everything is attached.
struct Begins(Sender<()>);

impl Observer for Begins {
    fn window(&mut self, _: &[&PlannedStep], _: f64, _: bool) {}
    fn begun(&mut self) {
        let _ = self.0.send(());
    }
    fn progress(&mut self, _: f64) {}
    fn window_ended(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_counts_one_function_and_nothing_else() {
        let plan = plan().unwrap();
        assert_eq!((plan.windows.len(), plan.windows[0].len(), plan.windows[0][0].rules.len()), (1, 1, 0));
        assert_eq!(plan.windows[0][0].step.collect[0].id(), "count");
    }
}
