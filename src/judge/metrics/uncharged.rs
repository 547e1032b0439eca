//! CPU time that is in the totals of the host and in no process of the table: of processes that came and went between two samples, of
//! those that cannot be seen, and of interrupts. Without it a share would be one of what happened to be seen.

use std::collections::BTreeMap;

use super::delta::{Delta, delta};
use super::formula::describe;
use super::process;
use super::table::{Table, intervals};
use rdiag_model::recording::{CollectorRecord, Series, Window};
use rdiag_model::{Metrics, Reading, Reason, Stats, Unavailable};

/// The instance for the time of processes that are in no sample.
const UNSEEN: &str = "(not seen)";
/// The instance for the time of interrupts that no process was charged with.
const INTERRUPTS: &str = "(interrupts)";
/// A smaller part of the CPU time used is the inaccuracy of ticks and of the moments at which the files are read.
const LEAST_PART: f64 = 0.03;
/// As little as so many ticks for each CPU is inaccuracy, too.
const LEAST_TICKS: f64 = 4.0;

/// What the processes in the table do not account for, in seconds.
struct Uncharged {
    used: f64,
    unseen: f64,
    interrupts: f64,
    forks_per_second: f64,
}

fn uncharged(table: &Table<'_>, charged: f64) -> Option<Uncharged> {
    let record = table.window.collectors.get(process::COLLECTOR)?;
    let (first, last) = (*record.times.first()?, *record.times.last()?);
    let grew = |fields: &[&str]| -> Option<f64> { fields.iter().map(|field| between(table, field, first, last)).sum() };
    let tick = 1.0 / table.facts.ticks_per_second.max(1) as f64;
    let used = grew(&["user", "nice", "system", "irq", "softirq"])? * tick;
    let rest = used - charged;
    let least = (used * LEAST_PART).max(LEAST_TICKS * tick * f64::from(table.facts.cpus.max(1)));
    let rest = if rest < least { 0.0 } else { rest };
    // Where the scheduler does not account for interrupts separately, some of their time is that of the interrupted process.
    let interrupts = (grew(&["irq", "softirq"])? * tick).min(rest);
    let forks = grew(&["forks"]).unwrap_or(0.0);
    let forks_per_second = if last > first { forks / (last - first) } else { 0.0 };
    Some(Uncharged { used, unseen: rest - interrupts, interrupts, forks_per_second })
}

/// How much a counter of /proc/stat grew between two instants; between its samples it grows evenly.
fn between(table: &Table<'_>, field: &str, first: f64, last: f64) -> Option<f64> {
    let of_host = |(_, series): &&(&CollectorRecord, &Series)| series.instance.as_deref().unwrap_or("").is_empty();
    let (record, series) = table.series.get(format!("cpu_stat.{field}").as_str())?.iter().find(of_host)?;
    let known = record.times.iter().zip(&series.values).filter_map(|(time, value)| Some((*time, (*value)?)));
    let known: Vec<_> = known.collect();
    let mut sum = None;
    for ((from, before), (to, now)) in known.iter().zip(known.iter().skip(1)) {
        let Delta::Grew(change) = delta(series.kind, *before, *now) else { return None };
        let shared = (to.min(last) - from.max(first)).max(0.0);
        if to > from {
            *sum.get_or_insert(0.0) += change * shared / (to - from);
        }
    }
    sum
}

/// Adds to the processes' CPU time what none of them can be charged with.
pub(super) fn add(table: &Table<'_>, instances: &mut BTreeMap<String, Result<Stats, Unavailable>>) {
    let Some(rest) = uncharged(table, sum(instances)) else { return };
    let count = intervals(table.window);
    for (name, seconds) in [(UNSEEN, rest.unseen), (INTERRUPTS, rest.interrupts)] {
        if seconds > 0.0 {
            let each = seconds / count as f64;
            instances.insert(name.to_owned(), Ok(describe(each, seconds, &[each], vec![Some(each); count])));
        }
    }
}

fn sum(instances: &BTreeMap<String, Result<Stats, Unavailable>>) -> f64 {
    instances.values().filter_map(|stats| stats.as_ref().ok()).map(|stats| stats.total).sum()
}

/// The share of the CPU time used that is of processes in no sample.
pub(super) fn share(table: &Table<'_>) -> super::formula::Outcome {
    let (instances, source) = process::field(table, rdiag_model::metric::ProcessField::Cpu, false)?;
    let own = |name: &str| [UNSEEN, INTERRUPTS].contains(&name);
    let charged = sum(&instances.into_iter().filter(|(name, _)| !own(name)).collect());
    let gap = || Unavailable::new(Reason::Absent, "the CPU time of the host is not known beside that of processes");
    let rest = uncharged(table, charged).ok_or_else(gap)?;
    let share = if rest.used > 0.0 { rest.unseen / rest.used } else { 0.0 };
    let stats = describe(share, share, &[share], vec![Some(share); intervals(table.window)]);
    Ok((BTreeMap::from([(String::new(), Ok(stats))]), format!("/proc/stat, cpu, less the sum of {source}")))
}

/// Names for these rows.
pub(super) fn add_labels(window: &Window, table: &Table<'_>, metrics: &mut Metrics) {
    let Some(Reading::Measured { instances, .. }) = metrics.readings.get("process.cpu.seconds") else { return };
    let unseen = instances.get(UNSEEN).and_then(|stats| stats.as_ref().ok()).map_or(0.0, |stats| stats.total);
    let others = instances.iter().filter(|(name, _)| ![UNSEEN, INTERRUPTS].contains(&name.as_str()));
    let charged = sum(&others.map(|(name, stats)| (name.clone(), stats.clone())).collect());
    let forks = uncharged(table, charged).map_or(0.0, |rest| rest.forks_per_second);
    let mut rows = BTreeMap::from([(INTERRUPTS, BTreeMap::from([("name", "interrupts".to_owned())]))]);
    // A process that used more than a quarter of an interval lived so long that a sample would mostly have seen it.
    let born = forks * window.seconds;
    let hidden = window.collectors.get(process::COLLECTOR).is_some_and(|record| record.gaps.contains_key("stat"));
    let name = if born <= 0.0 || unseen / born > window.interval_seconds.max(0.1) / 4.0 {
        "processes that were not seen"
    } else if hidden || table.facts.container.is_some() {
        "short-lived or hidden processes"
    } else {
        "short-lived processes"
    };
    let mut labels = BTreeMap::from([("name", name.to_owned())]);
    if forks >= 1.0 {
        labels.insert("forks", format!("{forks:.0} forks/s"));
    }
    rows.insert(UNSEEN, labels);
    let names = metrics.labels.entry("process".to_owned()).or_default();
    for (row, labels) in rows {
        if instances.contains_key(row) {
            names.insert(row.to_owned(), labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::metric::{Formula, ProcessField, Source};
    use rdiag_model::recording::{Number, Process, ProcessPoint};
    use rdiag_model::{Facts, MetricDef, RawUnit, SeriesKind, Unit};

    const CPU: MetricDef = MetricDef {
        id: "process.cpu.seconds",
        unit: Unit::Seconds,
        dimension: Some("process"),
        help: "CPU time.",
        sources: &[Formula::process(ProcessField::Cpu)],
        ..MetricDef::EMPTY
    };
    const UNSEEN_SHARE: MetricDef = MetricDef {
        id: "process.unseen_cpu.ratio",
        unit: Unit::Ratio,
        help: "Share.",
        sources: &[Formula::Taken(Source::UnseenCpu)],
        ..MetricDef::EMPTY
    };

    /// Ten seconds of two CPUs in ticks of 10 ms: `user` and `softirq` were used, by one process `own`; so many were forked.
    fn metrics(user: u64, softirq: u64, own: u64, forks: u64) -> Metrics {
        let series = |name: &str, grew: u64| Series {
            name: format!("cpu_stat.{name}"),
            instance: None,
            kind: SeriesKind::Counter,
            unit: if name == "forks" { RawUnit::Count } else { RawUnit::Ticks },
            values: vec![Some(Number::Whole(500)), Some(Number::Whole(500 + grew))],
        };
        let grew = [("user", user), ("nice", 0), ("system", 0), ("irq", 0), ("softirq", softirq), ("forks", forks)];
        let stat = CollectorRecord {
            times: vec![0.0, 10.0],
            series: grew.map(|(name, grew)| series(name, grew)).into(),
            ..CollectorRecord::default()
        };
        let point = |at: u16, utime: u64| ProcessPoint { at, utime, state: 'R', ..ProcessPoint::default() };
        let sh = Process {
            pid: 7,
            comm: "sh".into(),
            last: 1,
            points: vec![point(0, 100), point(1, 100 + own)],
            ..Process::default()
        };
        let processes = CollectorRecord { times: vec![0.0, 10.0], processes: vec![sh], ..CollectorRecord::default() };
        let window = Window {
            steps: Vec::new(),
            begins: 0.0,
            seconds: 10.0,
            interval_seconds: 1.0,
            suspended_seconds: 0.0,
            collectors: [("cpu_stat".to_owned(), stat), ("processes".to_owned(), processes)].into(),
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        };
        let facts = Facts { cpus: 2, ticks_per_second: 100, ..Facts::default() };
        super::super::evaluate(&window, &facts, &[("processes", &CPU), ("processes", &UNSEEN_SHARE)])
    }

    fn total(metrics: &Metrics, instance: &str) -> Option<f64> {
        Some((metrics.stats("process.cpu.seconds", instance).ok()?.total * 1000.0).round() / 1000.0)
    }

    #[test]
    fn what_no_process_used_is_a_row_of_its_own_and_interrupts_are_another() {
        let storm = metrics(1400, 100, 59, 26_750);
        assert_eq!(total(&storm, UNSEEN), Some(13.41), "15 s less 0.59 s less 1 s");
        assert_eq!(total(&storm, INTERRUPTS), Some(1.0));
        let share = storm.stats("process.unseen_cpu.ratio", "").unwrap().mean;
        assert!((share - 13.41 / 15.0).abs() < 1e-9, "{share}");
        let labels = &storm.labels["process"][UNSEEN];
        assert_eq!((labels["name"].as_str(), labels["forks"].as_str()), ("short-lived processes", "2675 forks/s"));
    }

    #[test]
    fn what_ticks_cannot_tell_apart_is_nobody() {
        let quiet = metrics(1000, 0, 980, 10);
        assert_eq!(total(&quiet, UNSEEN), None);
        assert_eq!(quiet.stats("process.unseen_cpu.ratio", "").unwrap().mean, 0.0);
        assert_eq!(total(&metrics(1000, 0, 1100, 10), UNSEEN), None, "nor less than nothing");
    }

    #[test]
    fn time_that_no_number_of_short_lives_explains_is_called_so() {
        let hidden = metrics(1500, 0, 100, 3);
        assert_eq!(hidden.labels["process"][UNSEEN]["name"], "processes that were not seen");
    }
}
