//! Where collectors put what they read. The session keeps a second handle, so that what was read before a source
//! hung is not lost with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdiag_model::ledger::Level;
use rdiag_model::{
    CollectorRecord, Ledger, LogLine, Number, ProbeResult, Process, RawUnit, Series, SeriesDef, SeriesKind, Target,
    Unavailable,
};

/// More series than this from one collector are not recorded, whatever the host shows (10 000 interfaces …).
const MAX_SERIES: usize = 40_000;
/// More recognised log lines than this are only counted.
const MAX_LOG_LINES: usize = 200;

/// A handle to one collector's record of the current window.
#[derive(Debug, Clone)]
pub struct Sink {
    inner: Arc<Mutex<Inner>>,
    shared: Arc<Shared>,
}

/// What the collectors of one window tell each other, so that nothing is read twice.
#[derive(Debug, Default)]
pub struct Shared {
    target: Target,
    sizes: Mutex<Vec<Size>>,
    /// The best level at which the observed task's time is being accounted for.
    level: Mutex<Option<Level>>,
}

impl Shared {
    /// For a window that observes these tasks.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, ..Self::default() }
    }
}

/// A process and its memory, from /proc/PID/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Process id.
    pub pid: u32,
    /// Virtual memory in pages.
    pub all: u64,
    /// Resident memory in pages.
    pub resident: u64,
}

#[derive(Debug)]
struct Inner {
    record: CollectorRecord,
    defs: &'static [SeriesDef],
    index: HashMap<&'static str, HashMap<String, usize>>,
    probe: Option<Result<ProbeResult, Unavailable>>,
    ledger: Option<Result<Ledger, Unavailable>>,
}

impl Sink {
    /// An empty record for a collector with these series.
    pub fn new(defs: &'static [SeriesDef]) -> Self {
        Self::beside(defs, &Arc::default())
    }

    /// The same, in a window with others.
    pub fn beside(defs: &'static [SeriesDef], shared: &Arc<Shared>) -> Self {
        let inner =
            Inner { record: CollectorRecord::default(), defs, index: HashMap::new(), probe: None, ledger: None };
        Self { inner: Arc::new(Mutex::new(inner)), shared: Arc::clone(shared) }
    }

    /// The tasks that the window observes.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    /// Tells that the observed task's time is being accounted for at this level. Probes do so before collectors are
    /// prepared, so that a collector of a lower level can leave it at that.
    pub fn claim(&self, level: Level) {
        let mut claimed = self.shared.level.lock().unwrap_or_else(PoisonError::into_inner);
        *claimed = (*claimed).max(Some(level));
    }

    /// Tells that nothing accounts for it any more, before the window is over.
    pub fn give_back(&self) {
        *self.shared.level.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The best level at which it is being accounted for; none so far.
    #[must_use]
    pub fn claimed(&self) -> Option<Level> {
        *self.shared.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the sizes of all processes.
    pub fn tell_sizes(&self, sizes: Vec<Size>) {
        *self.shared.sizes.lock().unwrap_or_else(PoisonError::into_inner) = sizes;
    }

    /// The sizes of all processes, if another collector of the window gave them; they are given once.
    #[must_use]
    pub fn take_sizes(&self) -> Option<Vec<Size>> {
        let told = std::mem::take(&mut *self.shared.sizes.lock().unwrap_or_else(PoisonError::into_inner));
        (!told.is_empty()).then_some(told)
    }

    /// A counter's value, for the whole host (`instance` "") or one instance, at the current sample.
    pub fn count(&self, series: &'static str, instance: &str, value: u64) {
        self.put(series, instance, Number::Whole(value));
    }

    /// A level, for the whole host (`instance` "") or one instance, at the current sample.
    pub fn level(&self, series: &'static str, instance: &str, value: f64) {
        self.put(series, instance, Number::Real(value));
    }

    /// Says why a series, or all series that begin with `prefix`, are missing; for one instance if it is not "".
    pub fn gap(&self, prefix: &str, instance: &str, gap: Unavailable) {
        let key = if instance.is_empty() { prefix.to_owned() } else { format!("{prefix}|{instance}") };
        self.lock().record.gaps.entry(key).or_insert(gap);
    }

    /// A name for an instance (`process`, `cgroup`, `device` …).
    pub fn label(&self, instance: &str, key: &str, value: impl Into<String>) {
        let mut inner = self.lock();
        let labels = inner.record.labels.entry(instance.to_owned()).or_default();
        labels.insert(key.to_owned(), value.into());
    }

    /// A line of evidence.
    pub fn log(&self, line: LogLine) {
        let mut inner = self.lock();
        if inner.record.log.len() < MAX_LOG_LINES {
            inner.record.log.push(line);
        }
    }

    /// The table of processes, at the end of the window.
    pub fn processes(&self, table: Vec<Process>) {
        self.lock().record.processes = table;
    }

    /// What a probe measured, or why it did not.
    pub fn probe(&self, result: Result<ProbeResult, Unavailable>) {
        self.lock().probe = Some(result);
    }

    /// A copy of what was recorded until now; what is put into one is not in the other.
    #[must_use]
    pub fn copy(&self) -> Self {
        let inner = self.lock();
        let (record, defs) = (inner.record.clone(), inner.defs);
        let inner = Inner { record, defs, index: HashMap::new(), probe: None, ledger: None };
        Self { inner: Arc::new(Mutex::new(inner)), shared: Arc::clone(&self.shared) }
    }

    /// Takes out what a probe measured.
    #[must_use]
    pub fn take_probe(&self) -> Option<Result<ProbeResult, Unavailable>> {
        self.lock().probe.take()
    }

    /// The account of the observed task's time, or why there is none.
    pub fn ledger(&self, ledger: Result<Ledger, Unavailable>) {
        self.lock().ledger = Some(ledger);
    }

    /// Takes out the account of the observed task's time.
    #[must_use]
    pub fn take_ledger(&self) -> Option<Result<Ledger, Unavailable>> {
        self.lock().ledger.take()
    }

    /// Index of the sample that is being taken.
    #[must_use]
    pub fn current(&self) -> usize {
        self.lock().record.times.len()
    }

    /// Ends a sample: all of it was read at `time` (seconds since the window's start).
    pub fn end_sample(&self, time: f64, jittered: bool) {
        let mut inner = self.lock();
        inner.record.times.push(time);
        inner.record.jittered += u32::from(jittered);
    }

    /// Keeps only what belongs to the whole host or to an instance that `keep` says yes to; for `finish` only.
    pub fn retain_instances(&self, keep: impl Fn(&str) -> bool) {
        let mut inner = self.lock();
        inner.record.series.retain(|series| series.instance.as_deref().is_none_or(&keep));
        inner.record.labels.retain(|instance, _| keep(instance));
        inner.index.clear();
    }

    /// Changes the record directly: what the session knows and the collector does not.
    pub fn with_record<T>(&self, change: impl FnOnce(&mut CollectorRecord) -> T) -> T {
        change(&mut self.lock().record)
    }

    /// The finished record: every series has one value per sample time, and they are sorted by name and instance.
    #[must_use]
    pub fn into_record(self) -> CollectorRecord {
        let mut record = std::mem::take(&mut self.lock().record);
        let samples = record.times.len();
        for series in &mut record.series {
            series.values.resize(samples, None);
        }
        record.series.sort_by(|a, b| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)));
        record
    }

    fn put(&self, name: &'static str, instance: &str, value: Number) {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let current = inner.record.times.len();
        let known = inner.index.get(name).and_then(|of| of.get(instance)).copied();
        let at = match known {
            Some(at) => at,
            None => {
                if inner.record.series.len() >= MAX_SERIES {
                    return;
                }
                let (kind, unit) = inner
                    .defs
                    .iter()
                    .find(|def| def.name == name)
                    .map_or((SeriesKind::Gauge, RawUnit::Count), |def| (def.kind, def.unit));
                debug_assert!(inner.defs.iter().any(|def| def.name == name), "{name} is not declared");
                let instance_name = (!instance.is_empty()).then(|| instance.to_owned());
                inner.record.series.push(Series {
                    name: name.to_owned(),
                    instance: instance_name,
                    kind,
                    unit,
                    values: Vec::new(),
                });
                let at = inner.record.series.len() - 1;
                inner.index.entry(name).or_default().insert(instance.to_owned(), at);
                at
            }
        };
        if let Some(series) = inner.record.series.get_mut(at) {
            series.values.resize(current, None);
            series.values.push(Some(value));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
