//! Recording → Metrics: deltas, rates, ratios and their statistics. Pure: the same recording gives the same metrics.

mod delta;
mod formula;
mod gaps;
mod members;
mod probe;
mod process;
mod table;
#[cfg(test)]
mod tests;
mod throttled;
mod uncharged;
mod unloaded;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::table::{Table, intervals};
use rdiag_model::finding::Doubt;
use rdiag_model::recording::{CollectorRecord, Number, Window};
use rdiag_model::{Facts, Formula, MetricDef, Metrics, Per, Reading, Reason, Source, Unavailable, quantity};

/// What was read so many seconds beside the window is as good as read within it.
const BESIDE: f64 = 0.5;

/// Computes every metric of the catalogue over one window. `catalogue` pairs each metric with its collector's id.
#[must_use]
pub fn evaluate(window: &Window, facts: &Facts, catalogue: &[(&str, &MetricDef)]) -> Metrics {
    let mut table = Table { series: BTreeMap::new(), places: HashMap::new(), window, facts };
    for record in window.collectors.values() {
        for series in &record.series {
            table.series.entry(series.name.as_str()).or_default().push((record, series));
            let place = (series.name.as_str(), series.instance.as_deref().unwrap_or(""));
            table.places.entry(place).or_insert((record, series));
        }
    }
    let mut metrics = Metrics { intervals: intervals(window), seconds: window.seconds, ..Metrics::default() };
    // Many metrics of one collector are about the same things, which may be very many.
    let mut labelled = BTreeSet::new();
    for (collector, def) in catalogue {
        let reading = reading(&table, collector, def);
        let mut notes: Vec<Doubt> = disturbances(window, collector).into_iter().map(Doubt::from).collect();
        notes.extend(beside(&table, def, &reading).map(Doubt::from));
        notes.extend(unread(&table, def, &reading));
        if let Reading::Measured { instances, .. } = &reading
            && let Some(Err(gap)) = instances.get("(others)")
        {
            notes.push(format!("not all could be seen: {}", gap.why).into());
        }
        if let Some(span) = span(&table, collector, def, &reading) {
            metrics.spans.insert(def.id.to_owned(), span);
        }
        metrics.readings.insert(def.id.to_owned(), reading);
        if !notes.is_empty() {
            metrics.notes.insert(def.id.to_owned(), notes);
        }
        if let (Some(dimension), Some(record)) = (def.dimension, window.collectors.get(*collector))
            && labelled.insert((dimension, *collector))
        {
            let names = metrics.labels.entry(dimension.to_owned()).or_default();
            for (instance, labels) in &record.labels {
                let known = names.entry(instance.clone()).or_default();
                let labels = labels.iter().filter(|(key, _)| *key != CollectorRecord::MEMBERS);
                known.extend(labels.map(|(key, value)| (key.clone(), value.clone())));
            }
        }
    }
    probe::add_labels(window, &mut metrics);
    process::add_labels(window, &mut metrics);
    uncharged::add_labels(window, &table, &mut metrics);
    metrics
}

/// The intervals between the first and the last sample of a metric's source, if these are not all: on a host that
/// suffers, the first sample comes late, and a source that fails gives no more.
fn span(table: &Table<'_>, collector: &str, def: &MetricDef, reading: &Reading) -> Option<(usize, usize)> {
    let Reading::Measured { rank, .. } = reading else { return None };
    let owner = match def.sources.get(*rank)? {
        Formula::Series(of) if matches!(of.per, Per::Level | Per::LevelOf(_)) => return None,
        Formula::Series(_) => collector,
        Formula::Taken(Source::Probe(_) | Source::OneRequest) => return None,
        Formula::Taken(_) => process::COLLECTOR,
    };
    let record = table.window.collectors.get(owner)?;
    let seen = |at: usize| record.series.iter().any(|series| series.values.get(at).is_some_and(Option::is_some));
    let first = (0..record.times.len()).find(|at| seen(*at))?;
    let last = (0..record.times.len()).rev().find(|at| seen(*at))?;
    let part = formula::Part { from: *record.times.get(first)?, to: *record.times.get(last)?, over: 0.0, under: 0.0 };
    let all = intervals(table.window);
    let covered = formula::covered_intervals(&part, all, table.window.interval_seconds);
    (covered != (0..all)).then_some((covered.start, covered.end))
}

/// How far from the window a metric was read, if that was not within it: of a time that is over, what was read seldom may lie beside it.
fn beside(table: &Table<'_>, def: &MetricDef, reading: &Reading) -> Option<String> {
    let Reading::Measured { rank, .. } = reading else { return None };
    let seconds = table.window.seconds;
    let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
    for term in def.sources.get(*rank)?.terms().0 {
        for (record, series) in table.series.get(term.series).into_iter().flatten() {
            let is_beside = |time: &f64| *time < -BESIDE || *time > seconds + BESIDE;
            if !record.times.first().is_some_and(is_beside) && !record.times.last().is_some_and(is_beside) {
                continue;
            }
            let known = record.times.iter().zip(&series.values).filter(|(_, value)| value.is_some());
            for (time, _) in known {
                (first, last) = (first.min(*time), last.max(*time));
            }
        }
    }
    let before = || quantity::seconds(-first);
    let after = || quantity::seconds(last - seconds);
    match (first < -BESIDE, last > seconds + BESIDE) {
        (true, true) => Some(format!("counted from {} before the window to {} after it", before(), after())),
        (true, false) if last < 0.0 => Some(format!("read {} before the window", quantity::seconds(-last))),
        (true, false) => Some(format!("counted from {} before the window on", before())),
        (false, true) => Some(format!("counted until {} after the window", after())),
        (false, false) => None,
    }
}

/// How many records of the kernel log were overwritten within the window, where none of a kind was seen among the others.
fn unread(table: &Table<'_>, def: &MetricDef, reading: &Reading) -> Option<Doubt> {
    let Reading::Measured { instances, .. } = reading else { return None };
    let is_of_records = def.id.starts_with("kernel.log.")
        && !["missed", "overwritten", "records"].iter().any(|own| def.id.contains(own));
    if !is_of_records || instances.values().flatten().any(|stats| stats.max > 0.0) {
        return None;
    }
    let (_, series) = table.series.get("kernel_log.missed")?.first()?;
    let mut known = series.values.iter().flatten().map(|count| Number::as_f64(*count));
    let first = known.next()?;
    let lost = known.next_back()? - first;
    (lost > 0.0).then(|| Doubt::unread_records(lost))
}

/// What speaks against trusting the readings of a collector in this window.
fn disturbances(window: &Window, collector: &str) -> Vec<String> {
    let mut notes = Vec::new();
    if window.suspended_seconds > 0.5 {
        notes.push(format!(
            "the machine was suspended or paused for {:.1} s within the window",
            window.suspended_seconds
        ));
    }
    notes.extend(probe::disturbances(window, collector));
    let Some(record) = window.collectors.get(collector) else { return notes };
    if record.jittered > 0 {
        let (slow, all) = (record.jittered, record.times.len());
        notes.push(match slow {
            1 => format!("1 of {all} readings was slow, so its time is uncertain"),
            _ => format!("{slow} of {all} readings were slow, so their time is uncertain"),
        });
    }
    if record.missed > 0 {
        notes.push(match record.missed {
            1 => "1 reading came too late and was left out".into(),
            missed => format!("{missed} readings came too late and were left out"),
        });
    }
    // A source that never gave anything is the gap of its readings; what they fell back on is not disturbed by it.
    if let (Some(gap), false) = (&record.unavailable, record.series.is_empty()) {
        notes.push(format!("the source failed within the window: {}", gap.why));
    }
    notes
}

/// The best source that gives anything; otherwise the gap of the best source.
fn reading(table: &Table<'_>, collector: &str, def: &MetricDef) -> Reading {
    let mut gap: Option<Unavailable> = None;
    let mut all_failed: Option<Reading> = None;
    for (rank, formula) in def.sources.iter().enumerate() {
        let outcome = match formula {
            Formula::Series(of) => formula::evaluate(table, collector, def.dimension, of),
            Formula::Taken(source) => match *source {
                Source::Process(field) => process::field(table, field, false),
                Source::ProcessRate(field) => process::field(table, field, true),
                Source::WaitOfTasks => process::wait_of_tasks(table),
                Source::UnseenCpu => uncharged::share(table),
                Source::OneRequest => unloaded::of_devices(table),
                Source::KernelThreads(prefix, field) => process::kernel_threads(table, prefix, field),
                Source::Probe(pick) => probe::figure(table, collector, pick),
            },
        };
        match outcome {
            Ok((instances, source)) => {
                let any = instances.values().any(Result::is_ok);
                let reading = Reading::Measured {
                    unit: def.unit,
                    dimension: def.dimension.map(str::to_owned),
                    source,
                    rank,
                    instances,
                };
                if any {
                    return reading;
                }
                all_failed.get_or_insert(reading);
            }
            Err(found) => {
                gap.get_or_insert(found);
            }
        }
    }
    all_failed.unwrap_or_else(|| {
        Reading::Unavailable(gap.unwrap_or_else(|| Unavailable::new(Reason::Absent, "the metric has no source")))
    })
}
