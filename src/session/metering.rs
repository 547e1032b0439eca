//! Looks at what a probe costs: the run time of its programs as the kernel counts it, or the events of the kernel's own tracing at
//! what one of them takes.

use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{CostMeter, Object};
use rdiag_kernel::mechanism::tracefs::event_cost::Spent;
use rdiag_model::probe::{CostOf, ProbeCost};
use rdiag_model::quantity;
use rdiag_probes::Probe;

/// The kernel's statistics are kept on for this long at a time: they cost every program on the host.
const METERED_SECONDS: f64 = 0.25;
/// Events are counted for this long at a time: the start of a command is no flood.
const COUNTED_SECONDS: f64 = 1.0;
/// The cost is looked at anew after so many seconds, since what happens on the host changes.
const METER_EVERY: f64 = 5.0;

/// What a probe costs, looked at now and then.
pub(super) struct Meter {
    look: Option<Measurement>,
    next: f64,
    /// The latest look, and all of them together.
    latest: ProbeCost,
    all: ProbeCost,
    /// What an event takes in seconds, and whether that was measured on this host.
    event: (f64, bool),
    /// Whether the cost of programs has that of stopping where they run.
    has_stops: bool,
}

/// A look that has begun.
struct Measurement {
    /// On for as long as they are looked at.
    statistics: Option<CostMeter>,
    since: f64,
    runs: u64,
    cpu_seconds: f64,
}

impl Measurement {
    /// Begins; none where there are neither events nor programs, the kernel keeps no statistics of these, or this user may not ask for
    /// them.
    fn begin(probe: &dyn Probe, host: &Host) -> Option<Self> {
        let since = host.now();
        if let Some(spent) = probe.spent(host).filter(|_| probe.objects().is_empty()) {
            return Some(Self { statistics: None, since, runs: spent.events, cpu_seconds: spent.cpu_seconds });
        }
        if probe.objects().is_empty() {
            return None;
        }
        let meter = CostMeter::start();
        let (runs, cpu_seconds) = run_time(probe, host);
        meter.is_on().then_some(Self { statistics: Some(meter), since, runs, cpu_seconds })
    }

    fn seconds(&self) -> f64 {
        if self.statistics.is_some() { METERED_SECONDS } else { COUNTED_SECONDS }
    }
}

/// Runs of all programs of a probe that the statistics saw, and their CPU seconds, with what it takes to come there.
fn run_time(probe: &dyn Probe, host: &Host) -> (u64, f64) {
    let beside = probe.spent(host).map_or(0.0, |spent| spent.cpu_seconds);
    let each = probe.objects().into_iter().map(Object::run_time);
    each.fold((0, beside), |(runs, seconds), (more, longer)| (runs + more, seconds + longer))
}

impl Meter {
    /// Begins with the first look.
    pub(super) fn start(probe: &dyn Probe, host: &Host) -> Self {
        Self {
            look: Measurement::begin(probe, host),
            next: host.now() + METER_EVERY,
            latest: ProbeCost::default(),
            all: ProbeCost::default(),
            event: (0.0, false),
            has_stops: false,
        }
    }

    /// Ends a look whose time is over, or begins the next one. When nothing follows, a look at events need not be long.
    pub(super) fn settle(&mut self, probe: &dyn Probe, host: &Host, is_last: bool) {
        let now = host.now();
        let Some(look) = &self.look else {
            if now >= self.next && !is_last {
                self.look = Measurement::begin(probe, host);
                self.next = now + METER_EVERY;
            }
            return;
        };
        let elapsed = now - look.since;
        if elapsed < look.seconds() && !(is_last && look.statistics.is_none()) {
            return;
        }
        let (of, (runs, cpu_seconds)) = match probe.spent(host).filter(|_| probe.objects().is_empty()) {
            Some(Spent { events, cpu_seconds, each, is_measured }) => {
                self.event = (each, is_measured);
                (CostOf::Events, (events, cpu_seconds))
            }
            None => {
                self.has_stops = probe.spent(host).is_some();
                (CostOf::Programs, run_time(probe, host))
            }
        };
        self.latest = ProbeCost {
            of,
            sampled_seconds: elapsed,
            runs: runs.saturating_sub(look.runs),
            cpu_seconds: (cpu_seconds - look.cpu_seconds).max(0.0),
            attach_seconds: 0.0,
        };
        self.all.of = of;
        self.all.sampled_seconds += self.latest.sampled_seconds;
        self.all.runs += self.latest.runs;
        self.all.cpu_seconds += self.latest.cpu_seconds;
        self.look = None;
    }

    /// Looks at the cost anew, since it is another one from now on.
    pub(super) fn anew(&mut self, host: &Host) {
        (self.look, self.latest, self.next) = (None, ProbeCost::default(), host.now());
    }

    /// All looks together.
    pub(super) fn all(&self) -> &ProbeCost {
        &self.all
    }

    /// The share of all CPUs' time that it took lately; none before the first look.
    pub(super) fn share(&self, cpus: u32) -> Option<f64> {
        let seconds = self.latest.sampled_seconds;
        (seconds > 0.0).then(|| self.latest.cpu_seconds / (seconds * f64::from(cpus.max(1))).max(1e-9))
    }

    /// What took that share: `its programs took 12 % of the CPUs`, and how often what ran.
    pub(super) fn told(&self, cpus: u32) -> (String, String) {
        let share = quantity::percent(self.share(cpus).unwrap_or(0.0));
        let rate = quantity::number(self.latest.runs as f64 / self.latest.sampled_seconds.max(1e-9));
        match self.latest.of {
            CostOf::Programs => {
                let what = if self.has_stops { "its programs and the stops that run them" } else { "its programs" };
                (format!("{what} took {share} of the CPUs"), format!("{rate} runs per second"))
            }
            CostOf::Events => {
                let (each, is_measured) = self.event;
                let source = if is_measured { "as tried at the start" } else { "which could not be tried here" };
                let each = quantity::seconds(each);
                let often = format!("{rate} events per second at {each}, {source}, and reading them");
                (format!("tracing took {share} of the CPUs"), often)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use rdiag_model::Unavailable;
    use rdiag_probes::Taken;

    /// Has the kernel's tracing do the work, at a microsecond for each event.
    struct Tracing(AtomicU64);

    impl Probe for Tracing {
        fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
            Ok(Taken::default())
        }

        fn spent(&self, _: &Host) -> Option<Spent> {
            let events = self.0.load(Ordering::Relaxed);
            Some(Spent { events, cpu_seconds: events as f64 * 1e-6, each: 1e-6, is_measured: false })
        }
    }

    #[test]
    fn events_are_counted_from_the_start_and_at_the_end_however_soon_that_is() {
        let (host, tracing) = (Host::live("/".as_ref()), Tracing(AtomicU64::new(500)));
        let mut meter = Meter::start(&tracing, &host);
        tracing.0.store(2500, Ordering::Relaxed);
        meter.settle(&tracing, &host, false);
        assert_eq!(meter.share(2), None, "a look takes its time");
        meter.settle(&tracing, &host, true);
        let cost = meter.all();
        assert_eq!((cost.of, cost.runs), (CostOf::Events, 2000));
        assert!((cost.cpu_seconds - 0.002).abs() < 1e-9, "{cost:?}");
        let share = 0.002 / cost.sampled_seconds / 2.0;
        assert!((meter.share(2).unwrap() - share).abs() < 1e-9 * share);
        let (what, often) = meter.told(2);
        assert!(what.starts_with("tracing took ") && what.ends_with(" of the CPUs"), "{what}");
        assert!(often.contains("events per second at 1.00 µs, which could not be tried here"), "{often}");
    }
}
