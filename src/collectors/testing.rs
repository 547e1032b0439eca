//! Recorded trees in a temporary directory, for the tests of collectors.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::def::{Cadence, CollectorDef, Sink};
use rdiag_kernel::host::{Fault, Host, HostSpec};
use rdiag_model::{CollectorRecord, Metrics, Reading, Reason, Stats, Unavailable, Window};

/// A recorded tree that a test writes file by file.
pub(super) struct Story {
    root: tempfile::TempDir,
    /// What the files do not show.
    pub(super) spec: HostSpec,
}

impl Story {
    /// A tree whose instants lie one second apart.
    pub(super) fn of_seconds(instants: usize) -> Self {
        let times = (0..instants).map(|second| second as f64).collect();
        Self { root: tempfile::tempdir().unwrap(), spec: HostSpec { times, ..HostSpec::default() } }
    }

    /// Writes a file as it stands from this instant on.
    pub(super) fn file(self, instant: usize, path: &str, text: impl AsRef<[u8]>) -> Self {
        let place = self.root.path().join(format!("t{instant}")).join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        write(&place, text.as_ref());
        self
    }

    /// Begins another instant, one second after the latest.
    pub(super) fn next(&mut self) -> &Self {
        let next = self.spec.times.last().map_or(0.0, |time| time + 1.0);
        self.spec.times.push(next);
        self
    }

    /// Writes a file as it stands from the latest instant on.
    pub(super) fn put(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        write(&self.place(path), text.as_ref());
        self
    }

    /// Makes a symbolic link as it stands from the latest instant on.
    pub(super) fn link(&self, path: &str, target: &str) -> &Self {
        std::os::unix::fs::symlink(target, self.place(path)).unwrap();
        self
    }

    /// Lets a file fail from the latest instant on.
    pub(super) fn fault(&mut self, path: &str, fails: Reason) -> &Self {
        let from = self.spec.times.len().saturating_sub(1);
        self.spec.faults.push(Fault { path: path.to_owned(), fails, from });
        self
    }

    fn place(&self, path: &str) -> PathBuf {
        let instant = self.spec.times.len().saturating_sub(1);
        let place = self.root.path().join(format!("t{instant}")).join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    }

    /// The host that this tree shows.
    pub(super) fn host(&self) -> Host {
        Host::recorded(self.root.path(), self.spec.clone())
    }

    /// What a collector records of it, one sample at each instant (or at the first and the last).
    pub(super) fn record(&self, collector: &CollectorDef) -> CollectorRecord {
        self.sink(collector).into_record()
    }

    fn sink(&self, collector: &CollectorDef) -> Sink {
        let host = self.host();
        let out = Sink::new(collector.series);
        let mut work = (collector.start)(&host);
        let last = self.spec.times.len() - 1;
        for (instant, time) in self.spec.times.iter().enumerate() {
            if collector.cadence == Cadence::Ends && instant != 0 && instant != last {
                continue;
            }
            host.wait(*time, instant, &AtomicBool::new(false));
            if let Err(gap) = work.sample(&host, &out) {
                out.with_record(|record| record.unavailable = Some(gap));
                break;
            }
            out.end_sample(*time, false);
        }
        work.finish(&host, &out);
        out
    }

    /// The metrics of a collector over the whole tree.
    pub(super) fn metrics(&self, collector: &CollectorDef) -> Metrics {
        let seconds = self.spec.times.last().copied().unwrap_or(0.0);
        let sink = self.sink(collector);
        let probes = sink.take_probe().map(|result| (collector.id.to_owned(), result));
        let ledgers = sink.take_ledger().map(|ledger| (collector.id.to_owned(), ledger));
        let window = Window {
            steps: Vec::new(),
            begins: 0.0,
            seconds,
            interval_seconds: 1.0,
            suspended_seconds: 0.0,
            collectors: [(collector.id.to_owned(), sink.into_record())].into(),
            probes: probes.into_iter().collect(),
            ledgers: ledgers.into_iter().collect(),
        };
        let catalogue: Vec<_> = collector.metrics.iter().map(|metric| (collector.id, metric)).collect();
        rdiag_judge::metrics::evaluate(&window, self.host().facts(), &catalogue)
    }
}

/// The names of a metric's instances; none if it was not measured at all.
pub(super) fn instances(metrics: &Metrics, metric: &str) -> Vec<String> {
    match metrics.readings.get(metric) {
        Some(Reading::Measured { instances, .. }) => instances.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// The figures of an instance.
pub(super) fn stats(metrics: &Metrics, metric: &str, instance: &str) -> Stats {
    metrics.stats(metric, instance).unwrap_or_else(|gap| panic!("{metric} of {instance:?}: {gap}")).clone()
}

/// Why an instance has no figures.
pub(super) fn gap(metrics: &Metrics, metric: &str, instance: &str) -> Unavailable {
    metrics.stats(metric, instance).expect_err("there should be no figures")
}

#[expect(clippy::disallowed_methods, reason = "the test's own tree")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
