//! A window while it is recorded: what has been read so far, and the observer that gets it.

use std::collections::BTreeMap;
use std::io;

use super::{Recorder, WindowSpec, part};
use rdiag_kernel::host::rights::Phase;
use rdiag_kernel::host::{BeginAt, SharedHost};
use rdiag_model::Window;
use rdiag_model::setup::Begin;

/// What each collector took, in wall-clock seconds.
pub(crate) type Costs = BTreeMap<String, f64>;

/// The instant that a window waited for: the run begins there.
#[derive(Debug, Clone)]
pub(crate) struct Awaited {
    /// By the host's clock on the wall.
    pub(crate) started: String,
    pub(crate) begin: Begin,
}

impl Awaited {
    pub(super) fn now(at: BeginAt, host: &SharedHost) -> Self {
        let begin = Begin { at: at.to_string(), late_seconds: at.late_seconds(host) };
        Self { started: host.wall_clock(), begin }
    }
}

/// Observes a window while it is recorded.
pub(crate) trait Follow {
    /// Everything is attached and has been read once.
    fn begun(&mut self, _: &SoFar<'_, '_>) -> io::Result<()> {
        Ok(())
    }
    /// Whether a collector that reads at the ends of the window only is to read now, too.
    fn asks(&self, _collector: &str) -> bool {
        false
    }
    /// One more interval is over and has been read. What comes back is all that is needed from here on.
    fn sampled(&mut self, _: &mut SoFar<'_, '_>) -> io::Result<Option<Phase>> {
        Ok(None)
    }
    /// All is measured, and probes are yet to be read: `known` is what is known until then.
    fn measured(&mut self, known: &dyn Fn() -> Window);
}

/// A window that is under way, after a sample.
pub(crate) struct SoFar<'r, 'h> {
    recorder: &'r mut Recorder<'h>,
    spec: &'r WindowSpec,
    /// Intervals that are over, and all.
    pub(crate) ticks: (usize, usize),
}

impl SoFar<'_, '_> {
    /// When it began, on the host's clock, and the instant that it waited for.
    pub(crate) fn began(&self) -> (f64, Option<&Awaited>) {
        (self.recorder.began, self.recorder.awaited.as_ref())
    }

    /// When it ends, on the host's clock.
    pub(crate) fn ends(&self) -> f64 {
        self.recorder.began + self.ticks.1 as f64 * self.recorder.interval
    }

    /// Seconds from its start to this sample, and to its end.
    pub(crate) fn seconds(&self) -> (f64, f64) {
        (self.ticks.0 as f64 * self.recorder.interval, self.ticks.1 as f64 * self.recorder.interval)
    }

    /// What some collectors have read, as a window that ends here.
    pub(crate) fn window(&self, wanted: impl Fn(&str) -> bool) -> Window {
        Window {
            steps: self.spec.steps.clone(),
            begins: 0.0,
            seconds: self.seconds().0,
            interval_seconds: self.recorder.interval,
            suspended_seconds: 0.0,
            collectors: self.recorder.read_so_far(wanted),
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        }
    }

    /// The same from one time to now, in seconds since its start by the clock, with what its collectors otherwise give at the end.
    pub(crate) fn part(&mut self, (from, now): (f64, f64), wanted: impl Fn(&str) -> bool) -> io::Result<Window> {
        let collectors = part::since(from, self.recorder.known_so_far(wanted)?);
        let seconds = now - from;
        // Its parts are too short for rules that want several intervals in a row.
        Ok(Window { seconds, interval_seconds: seconds, collectors, ..self.window(|_| false) })
    }
}

/// A window that is over.
pub(crate) struct Recorded {
    pub(crate) window: Window,
    /// Whether it was not ended early.
    pub(crate) completed: bool,
    pub(crate) costs: Costs,
}

impl<'r, 'h> SoFar<'r, 'h> {
    pub(super) fn of(recorder: &'r mut Recorder<'h>, spec: &'r WindowSpec, ticks: (usize, usize)) -> Self {
        Self { recorder, spec, ticks }
    }
}
