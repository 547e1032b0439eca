//! Series as the collectors of rdiag would have recorded them, from what happened in intervals and from levels.

use std::collections::BTreeMap;

use super::devices;
use super::processes::Table;
use rdiag_model::recording::{CollectorRecord, Number, Series};
use rdiag_model::{RawUnit, SeriesKind};

/// Values of all series together: 128 MB, more than 6 hours of 200 disks each 10 s.
const MAX_VALUES: usize = 8_000_000;
/// A name of a device or interface is no longer.
const MAX_NAME: usize = 128;

/// Series in the making, by collector.
pub(super) struct Building {
    parts: usize,
    times: Vec<f64>,
    /// The first sample of this interval.
    begin: usize,
    series: BTreeMap<(&'static str, &'static str, String), Growing>,
    max_series: usize,
    is_crowded: bool,
    /// Its processes.
    pub(super) table: Table,
}

/// A series: its kind and unit, its total so far, its values.
struct Growing {
    kind: SeriesKind,
    unit: RawUnit,
    total: f64,
    values: Vec<Option<Number>>,
}

impl Building {
    /// Of so many intervals, each of which becomes so many samples.
    pub(super) fn new(parts: usize, intervals: usize) -> Self {
        // Before each interval may be a time of which nothing was recorded.
        let samples = intervals.saturating_mul(parts + 1).max(1);
        Self {
            parts,
            times: Vec::new(),
            begin: 0,
            series: BTreeMap::new(),
            max_series: MAX_VALUES / samples,
            is_crowded: false,
            table: Table::default(),
        }
    }

    /// The next interval, in seconds since the beginning: its samples come after the one at its start.
    pub(super) fn interval(&mut self, start: f64, seconds: f64) {
        let from = match self.times.last() {
            Some(last) if start - last <= 1.0 => *last,
            _ => {
                let before = self.times.len();
                self.times.push(start);
                // A counter that was known stands still; of a level, and of what was not known, nothing is known then.
                let is_known =
                    |series: &&mut Growing| series.kind != SeriesKind::Gauge && series.values.len() == before;
                let known = self.series.values_mut().filter(is_known);
                known.for_each(|series| series.values.push(Some(Number::Real(series.total))));
                start
            }
        };
        self.begin = self.times.len();
        let part = (start + seconds - from) / self.parts as f64;
        self.times.extend((1..=self.parts).map(|at| from + part * at as f64));
        self.table.interval(self.begin, self.parts);
    }

    fn series(&mut self, name: &'static str, instance: &str, kind: SeriesKind, unit: RawUnit) -> Option<&mut Growing> {
        let collector = name.split_once('.').map_or(name, |(collector, _)| collector);
        let key = (collector, name, instance.to_owned());
        if !self.series.contains_key(&key) && (self.series.len() >= self.max_series || instance.len() > MAX_NAME) {
            self.is_crowded = true;
            return None;
        }
        Some(self.series.entry(key).or_insert_with(|| Growing { kind, unit, total: 0.0, values: Vec::new() }))
    }

    /// So much more at the end of the interval.
    pub(super) fn grow(&mut self, name: &'static str, instance: &str, unit: RawUnit, more: Option<f64>) {
        let (begin, parts) = (self.begin, self.parts);
        let Some(more) = more.filter(|more| more.is_finite() && *more >= 0.0) else { return };
        let Some(series) = self.series(name, instance, SeriesKind::Counter, unit) else { return };
        // A second row of one name is no other device.
        if series.values.len() > begin {
            return;
        }
        series.values.resize(begin.saturating_sub(1), None);
        if series.values.len() < begin {
            series.values.push(Some(Number::Real(series.total)));
        }
        for at in 1..=parts {
            series.values.push(Some(Number::Real(series.total + more * at as f64 / parts as f64)));
        }
        series.total += more;
    }

    /// A counter that the kernel began at boot had this value before the first interval.
    pub(super) fn begins_at(&mut self, name: &'static str, unit: RawUnit, value: f64) {
        let is_first = self.begin <= 1;
        if let Some(series) =
            self.series(name, "", SeriesKind::Counter, unit).filter(|series| is_first && series.values.is_empty())
        {
            series.total = value;
        }
    }

    /// A level, which was read at the end of the interval.
    pub(super) fn level(&mut self, name: &'static str, instance: &str, unit: RawUnit, level: Option<f64>) {
        let (begin, parts) = (self.begin, self.parts);
        let Some(level) = level.filter(|level| level.is_finite() && *level >= 0.0) else { return };
        let Some(series) = self.series(name, instance, SeriesKind::Gauge, unit) else { return };
        if series.values.len() > begin {
            return;
        }
        series.values.resize(begin, None);
        series.values.extend(vec![Some(Number::Real(level)); parts]);
    }

    /// What is in the file and not in the recording, in words.
    pub(super) fn left_out(&self) -> Vec<String> {
        let devices = "It has more devices and interfaces than are read: some were left out".to_owned();
        let processes = "It has more processes than are read: some were left out".to_owned();
        let all = [(self.is_crowded, devices), (self.table.is_crowded, processes)];
        all.into_iter().filter_map(|(is_so, note)| is_so.then_some(note)).collect()
    }

    pub(super) fn finish(self) -> BTreeMap<String, CollectorRecord> {
        let mut records: BTreeMap<String, CollectorRecord> = BTreeMap::new();
        for ((collector, name, instance), mut series) in self.series {
            series.values.resize(self.times.len(), None);
            let record = records.entry(collector.to_owned()).or_default();
            record.times.clone_from(&self.times);
            if let ("diskstats", Some(class)) = (collector, devices::class(&instance)) {
                record.labels.entry(instance.clone()).or_default().insert("class".to_owned(), class.to_owned());
            }
            let instance = Some(instance).filter(|instance| !instance.is_empty());
            let (kind, unit, values) = (series.kind, series.unit, series.values);
            record.series.push(Series { name: name.to_owned(), instance, kind, unit, values });
        }
        let processes = self.table.finish();
        if !processes.is_empty() {
            let record = records.entry("processes".to_owned()).or_default();
            record.times.clone_from(&self.times);
            record.processes = processes;
        }
        records
    }
}
