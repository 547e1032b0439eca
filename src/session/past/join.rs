//! Blocks, one after the other, as one window: each series goes on, and a process is the same as long as it lives.

use std::collections::{BTreeMap, BTreeSet};

use super::pick::{Part, Picked, slept};
use rdiag_collectors::{self as collectors, Cadence};
use rdiag_history::{Block, Header, is_mean, of_samples};
use rdiag_model::recording::{CollectorRecord, LogLine, Number, Process, ProcessPoint, Series};
use rdiag_model::{Facts, Window};
use rdiag_playbook::Plan;

/// The kernel log has a clock of its own, which runs like the monotonic one and may be off by less.
const LOG_CLOCK: f64 = 1.0;
/// The recorder reads capacities so many seconds apart.
const CAPACITIES: f64 = 60.0;

/// The window, and what is known of its beginning.
pub(super) struct Joined {
    pub(super) window: Window,
    pub(super) host: Facts,
    /// Microseconds since 1970.
    pub(super) started: i64,
}

/// The window, with the steps that a plan begins with.
pub(super) fn join(picked: &Picked<'_>, plan: &Plan) -> Joined {
    let header = &picked.newest.header;
    let first = picked.parts.first();
    let begin = first.map_or(0.0, |part| part.piece.block.header.monotonic + part.from);
    let mut collectors: BTreeMap<String, Joining> = BTreeMap::new();
    for part in &picked.parts {
        for (id, record) in &part.piece.block.collectors {
            let joining = collectors.entry(id.clone()).or_default();
            joining.add(id, (part, record, begin), if id == Block::PROCESSES { &part.piece.block.idle } else { &[] });
        }
    }
    let end = picked.parts.last().map_or(0.0, |part| part.piece.block.header.monotonic + part.to);
    let mut window = Window {
        steps: plan.windows.iter().take(1).flatten().map(|planned| planned.step.id.clone()).collect(),
        begins: 0.0,
        seconds: (end - begin).max(0.0),
        interval_seconds: header.interval_seconds,
        suspended_seconds: suspended(picked),
        collectors: collectors.into_iter().map(|(id, joining)| (id, joining.finish())).collect(),
        probes: BTreeMap::new(),
        ledgers: BTreeMap::new(),
    };
    let boottime = begin + header.boottime - header.monotonic;
    for record in window.collectors.values_mut() {
        record.log.retain(|line| line.seconds_since_boot <= end + LOG_CLOCK);
        record.log.iter_mut().for_each(|line| line.in_window |= line.seconds_since_boot >= begin);
    }
    let since = first.map_or(0.0, |part| part.from);
    let started = first.map_or(0, |part| part.piece.block.header.wall_micros.saturating_add((since * 1e6) as i64));
    Joined { window, host: Facts { uptime_seconds: boottime, ..header.host.clone() }, started }
}

fn suspended(picked: &Picked<'_>) -> f64 {
    let headers = || picked.parts.iter().map(|part| &part.piece.block.header);
    headers().zip(headers().skip(1)).filter_map(|(before, next)| slept(before, next)).sum()
}

/// What one collector saw, as far as it is joined.
#[derive(Default)]
struct Joining {
    record: CollectorRecord,
    series: BTreeMap<(String, Option<String>), Series>,
    processes: BTreeMap<(u32, u64), Process>,
    lines: BTreeSet<(u64, String)>,
}

impl Joining {
    fn add(&mut self, id: &str, (part, record, begin): (&Part<'_>, &CollectorRecord, f64), idle: &[(u32, u64)]) {
        let before = self.record.times.len();
        let is_within = |time: &f64| part.holds(*time);
        let Some(low) = record.times.iter().position(is_within) else {
            self.words(record, 0, false);
            return;
        };
        let high = record.times.iter().rposition(is_within).map_or(low, |at| at + 1);
        let shift = part.piece.block.header.monotonic - begin;
        self.record.times.extend(record.times.get(low..high).unwrap_or_default().iter().map(|time| time + shift));
        let goes_beyond = high < record.times.len() && is_of_means(id, &part.piece.block.header);
        for series in &record.series {
            let mut values = series.values.get(low..high).unwrap_or_default().to_vec();
            if goes_beyond && is_mean(series) {
                leave_out_last(&mut values);
            }
            if values.iter().all(Option::is_none) {
                continue;
            }
            let joined = self
                .series
                .entry((series.name.clone(), series.instance.clone()))
                .or_insert_with(|| Series { values: Vec::new(), ..head(series) });
            joined.values.resize(before, None);
            joined.values.extend(values);
        }
        self.words(record, high.saturating_sub(low), part.from == 0.0);
        let cut = Cut { low, high, before, started_before: started_before(part, begin) };
        for process in &record.processes {
            self.process(process, &cut);
        }
        let newest = u16::try_from(self.record.times.len().saturating_sub(1)).unwrap_or(u16::MAX);
        for key in idle {
            if let Some(process) = self.processes.get_mut(key) {
                process.last = newest;
            }
        }
    }

    /// Labels, gaps and log lines, and how many of the samples that are within were slow; what the later block says holds. Of a block
    /// that is within from its beginning, lines that came while it was recorded are within, whatever their clock says.
    fn words(&mut self, record: &CollectorRecord, samples: usize, is_whole: bool) {
        let own = &mut self.record;
        own.jittered = own.jittered.saturating_add(of_samples(record.jittered, samples, record.times.len()));
        own.missed = own.missed.saturating_add(record.missed);
        own.unavailable.clone_from(&record.unavailable);
        own.gaps.extend(record.gaps.iter().map(|(key, gap)| (key.clone(), gap.clone())));
        for (instance, labels) in &record.labels {
            let known = own.labels.entry(instance.clone()).or_default();
            known.extend(labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        for line in &record.log {
            // Each block begins with what the kernel still has of the time before.
            if self.lines.insert((line.seconds_since_boot.to_bits(), line.text.clone())) {
                own.log.push(LogLine { in_window: line.in_window && is_whole, ..line.clone() });
            }
        }
    }

    fn process(&mut self, process: &Process, cut: &Cut) {
        let (first, last) = (usize::from(process.first), usize::from(process.last));
        if first >= cut.high || last < cut.low {
            return;
        }
        let key = (process.pid, process.start_ticks);
        let is_known = self.processes.contains_key(&key);
        let joined = self.processes.entry(key).or_insert_with(|| {
            // Who was there before and did nothing is in no earlier block.
            let was_there =
                first < cut.low || first == 0 && (cut.before == 0 || process.start_ticks < cut.started_before);
            let first = if was_there { 0 } else { cut.index(first.max(cut.low)) };
            Process { first, points: Vec::new(), ..process.clone() }
        });
        joined.comm.clone_from(&process.comm);
        for (known, new) in [(&mut joined.cgroup, &process.cgroup), (&mut joined.command, &process.command)] {
            if new.is_some() {
                known.clone_from(new);
            }
        }
        joined.last = cut.index(last.min(cut.high.saturating_sub(1)));
        let within = |point: &&ProcessPoint| (cut.low..cut.high).contains(&usize::from(point.at));
        let mut points: Vec<ProcessPoint> = Vec::new();
        // What it was when the time begins: its last point before that.
        let base = process.points.iter().rev().find(|point| usize::from(point.at) < cut.low);
        points.extend(base.map(|point| ProcessPoint { at: cut.index(cut.low), ..point.clone() }));
        points.extend(
            process
                .points
                .iter()
                .filter(within)
                .map(|point| ProcessPoint { at: cut.index(usize::from(point.at)), ..point.clone() }),
        );
        if base.is_some() && points.get(1).is_some_and(|next| Some(next.at) == points.first().map(|first| first.at)) {
            points.remove(0);
        }
        if !is_known && joined.first == 0 {
            // It did nothing until then.
            let still =
                points.first().filter(|point| point.at > 0).map(|point| ProcessPoint { at: 0, ..point.clone() });
            joined.points.extend(still);
        }
        let same = |a: &ProcessPoint, b: &ProcessPoint| ProcessPoint { at: b.at, ..a.clone() } == *b;
        for point in points {
            if joined.points.last().is_none_or(|last| !same(last, &point)) {
                joined.points.push(point);
            }
        }
    }

    fn finish(mut self) -> CollectorRecord {
        let samples = self.record.times.len();
        let resized = |mut series: Series| {
            series.values.resize(samples, None);
            series
        };
        self.record.series = self.series.into_values().map(resized).collect();
        self.record.processes = self.processes.into_values().collect();
        self.record
    }
}

/// Whether levels of a collector are means of the time after their sample: in a thinned block, but for what was read once in that time.
pub(super) fn is_of_means(id: &str, header: &Header) -> bool {
    let is_read_once = header.stretched.contains_key(id)
        || collectors::find(id).is_some_and(|def| def.cadence == Cadence::Ends)
            && header.interval_seconds <= CAPACITIES;
    header.recorded_every.is_some() && !is_read_once
}

/// The last level holds what came after the time that was asked for. One that stood still, such as a limit, says nothing new there, and the
/// growth of counters is measured by it.
fn leave_out_last(values: &mut [Option<Number>]) {
    if let Some((last, before)) = values.split_last_mut()
        && before.last() != Some(&*last)
    {
        *last = None;
    }
}

fn head(series: &Series) -> Series {
    Series {
        name: series.name.clone(),
        instance: series.instance.clone(),
        kind: series.kind,
        unit: series.unit,
        values: Vec::new(),
    }
}

/// Processes with an earlier start, in ticks since boot, were there when the time began.
fn started_before(part: &Part<'_>, begin: f64) -> u64 {
    let header = &part.piece.block.header;
    let since_boot = begin + header.boottime - header.monotonic;
    (since_boot * header.host.ticks_per_second as f64).max(0.0) as u64
}

/// The samples of a block that are within, and where they go.
struct Cut {
    low: usize,
    high: usize,
    before: usize,
    started_before: u64,
}

impl Cut {
    fn index(&self, at: usize) -> u16 {
        u16::try_from(self.before + at.saturating_sub(self.low)).unwrap_or(u16::MAX)
    }
}
