//! What a thinned time hides in its minutes: rules judge the means, so the report names the figures that were much larger for some seconds.

use std::collections::BTreeSet;

use super::time::interval;
use rdiag_history::Extreme;
use rdiag_kernel::host::Zone;
use rdiag_model::recording::{CollectorRecord, Number, Series};
use rdiag_model::{Facts, SeriesKind, Window, quantity};

/// A burst is so many times its minute's mean; of available memory, the mean so many times the least.
const TIMES: f64 = 1.5;
/// Less of the time is no burst, nor are fewer requests, nor fewer bytes per second.
const SHARE: f64 = 0.1;
const REQUESTS: f64 = 1.0;
const TRAFFIC: f64 = 1e6;

/// What a figure is, as one reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// A share of the time.
    Share,
    /// CPU seconds in a second, as a share of all CPUs.
    OfCpus,
    /// Tasks, more than there are CPUs.
    Tasks,
    /// Requests at a time.
    Requests,
    /// Bytes per second.
    Traffic,
    /// Bytes, of which few are bad.
    Memory,
}

/// What collectors look at.
const LOOKED_AT: [(&str, &str); 6] = [
    ("psi", "PSI"),
    ("schedstat", "CPUs"),
    ("loadavg", "run queue"),
    ("meminfo", "available memory"),
    ("diskstats", "disks"),
    ("interfaces", "interfaces"),
];

/// Collector, series, name, and what it is. `{}` is the device or interface.
const FIGURES: [(&str, &str, &str, Figure); 12] = [
    ("psi", "psi.cpu_some", "PSI cpu some", Figure::Share),
    ("psi", "psi.memory_full", "PSI memory full", Figure::Share),
    ("psi", "psi.memory_some", "PSI memory some", Figure::Share),
    ("psi", "psi.io_full", "PSI io full", Figure::Share),
    ("psi", "psi.io_some", "PSI io some", Figure::Share),
    ("schedstat", "schedstat.run", "CPUs busy", Figure::OfCpus),
    ("loadavg", "loadavg.runnable", "run queue", Figure::Tasks),
    ("meminfo", "meminfo.available", "available memory down to", Figure::Memory),
    ("diskstats", "diskstats.busy_ms", "{} busy", Figure::Share),
    ("diskstats", "diskstats.weighted_ms", "{} aqu-sz", Figure::Requests),
    ("interfaces", "interfaces.receive_bytes", "{} received", Figure::Traffic),
    ("interfaces", "interfaces.transmit_bytes", "{} sent", Figure::Traffic),
];

/// The bursts of a window, in words; none where nothing is known of them, because no part of it was thinned or an older rdiag did it.
pub(super) fn told(
    window: &Window,
    (host, recorded_every): (&Facts, f64),
    (started, zone): (i64, &Zone),
) -> Option<String> {
    let (mut known, mut bursts) = (BTreeSet::new(), Vec::new());
    for (collector, name, words, figure) in FIGURES {
        let Some(record) = window.collectors.get(collector) else { continue };
        let extreme = if figure == Figure::Memory { Extreme::Smallest } else { Extreme::Largest };
        let kept = extreme.of(name);
        let mut worst: Option<Burst<'_>> = None;
        for series in record.series.iter().filter(|series| series.name == kept) {
            known.insert(collector);
            let is_base = |base: &&Series| base.name == name && base.instance == series.instance;
            let Some(base) = record.series.iter().find(is_base) else { continue };
            for burst in bursts_of(record, (series, base), (figure, host)) {
                if worst.as_ref().is_none_or(|worst| burst.times_the_mean(figure) > worst.times_the_mean(figure)) {
                    worst = Some(burst);
                }
            }
        }
        bursts.extend(worst.map(|burst| burst.told((words, figure), (started, zone))));
    }
    let samples = interval(recorded_every);
    let known: Vec<&str> = LOOKED_AT.iter().filter(|(id, _)| known.contains(id)).map(|(_, words)| *words).collect();
    match bursts.as_slice() {
        _ if known.is_empty() => None,
        [] => Some(format!("Within the minutes, samples every {samples} saw no burst ({})", known.join(", "))),
        all => Some(format!(
            "Bursts within the minutes, by samples every {samples}; rules judge the means: {}",
            all.join("; ")
        )),
    }
}

/// What one minute hides.
struct Burst<'r> {
    instance: &'r str,
    seconds: f64,
    extreme: f64,
    mean: f64,
}

/// Those of a series; the times of the record begin with the window.
fn bursts_of<'r>(
    record: &'r CollectorRecord,
    (series, base): (&'r Series, &'r Series),
    (figure, host): (Figure, &'r Facts),
) -> impl Iterator<Item = Burst<'r>> {
    let parts = if figure == Figure::OfCpus { f64::from(host.cpus.max(1)) } else { 1.0 };
    let unit = series.unit.in_base_units(host) / parts;
    let value = |series: &Series, at: usize| series.values.get(at).copied().flatten().map(Number::as_f64);
    let mean = move |at: usize| {
        if base.kind == SeriesKind::Gauge {
            return value(base, at);
        }
        let seconds = record.times.get(at + 1)? - record.times.get(at)?;
        Some((value(base, at + 1)? - value(base, at)?) / seconds).filter(|rate| rate.is_finite() && *rate >= 0.0)
    };
    let burst = move |(at, seconds): (usize, &f64)| {
        let (extreme, mean) = (value(series, at)? * unit, mean(at)? * unit);
        let burst = Burst { instance: series.instance.as_deref().unwrap_or(""), seconds: *seconds, extreme, mean };
        figure.is_notable(&burst, host).then_some(burst)
    };
    record.times.iter().enumerate().filter_map(burst)
}

impl Figure {
    fn is_notable(self, burst: &Burst<'_>, host: &Facts) -> bool {
        let is_enough = match self {
            Self::Share | Self::OfCpus => burst.extreme >= SHARE,
            Self::Tasks => burst.extreme > f64::from(host.cpus),
            Self::Requests => burst.extreme >= REQUESTS,
            Self::Traffic => burst.extreme >= TRAFFIC,
            Self::Memory => true,
        };
        is_enough && burst.times_the_mean(self) >= TIMES
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Share | Self::OfCpus => quantity::percent(value.min(1.0)),
            Self::Tasks | Self::Requests => quantity::number(value),
            Self::Traffic => format!("{}/s", quantity::bytes(value)),
            Self::Memory => quantity::bytes(value),
        }
    }
}

impl Burst<'_> {
    /// How far it is from the mean: a burst out of nothing is the furthest.
    fn times_the_mean(&self, figure: Figure) -> f64 {
        let (more, less) = if figure == Figure::Memory { (self.mean, self.extreme) } else { (self.extreme, self.mean) };
        if more > 0.0 { more / less } else { 0.0 }
    }

    fn told(&self, (words, figure): (&str, Figure), (started, zone): (i64, &Zone)) -> String {
        let at = started.saturating_add((self.seconds * 1e6) as i64);
        let [extreme, mean] = [self.extreme, self.mean].map(|value| figure.shown(value));
        let name = words.replace("{}", &super::changes::short(self.instance));
        format!("{name} {extreme} (mean {mean}) in the minute from {}", zone.time_of_day(at))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use rdiag_history::{Block, framed, read_block};
    use rdiag_model::RawUnit;

    /// 2025-10-09 08:53:20 UTC.
    const STARTED: i64 = 1_760_000_000_000_000;

    fn unit(figure: Figure) -> (SeriesKind, RawUnit) {
        match figure {
            Figure::Share => (SeriesKind::Counter, RawUnit::Microseconds),
            Figure::Requests => (SeriesKind::Counter32, RawUnit::Milliseconds),
            Figure::OfCpus => (SeriesKind::Counter, RawUnit::Nanoseconds),
            Figure::Traffic => (SeriesKind::Counter, RawUnit::Bytes),
            Figure::Tasks => (SeriesKind::Gauge, RawUnit::Count),
            Figure::Memory => (SeriesKind::Gauge, RawUnit::Kibibytes),
        }
    }

    /// Each figure, 120 samples in ten minutes: so much all the time, and so much at or from one sample.
    fn thinned(host: &Facts, usual: f64, burst: impl Fn(Figure) -> f64) -> Window {
        let (mut block, _): (Block, _) = read_block(&framed(0, b"")).unwrap();
        block.header.host = host.clone();
        let times: Vec<f64> = (0..120).map(|at| f64::from(at) * 5.0).collect();
        for (collector, name, words, figure) in FIGURES {
            let (kind, unit) = unit(figure);
            let much = if figure == Figure::Memory { 1e10 } else { 1.0 };
            let raw = much / unit.in_base_units(host);
            let at = |at: u64| if at == 30 { burst(figure) } else { usual };
            let level = |sample: u64| Number::Real(at(sample) * raw);
            let total =
                |sample: u64| Number::Whole((0..sample).map(|before| at(before) * 5.0 * raw).sum::<f64>() as u64);
            let values =
                (0..120).map(|sample| Some(if kind == SeriesKind::Gauge { level(sample) } else { total(sample) }));
            let instance = words.contains("{}").then(|| "x0".to_owned());
            let series = Series { name: name.into(), instance, kind, unit, values: values.collect() };
            let record = block.collectors.entry(collector.to_owned()).or_default();
            record.times.clone_from(&times);
            record.series.push(series);
        }
        block.thin(60.0);
        window(block.collectors)
    }

    fn window(collectors: BTreeMap<String, CollectorRecord>) -> Window {
        Window {
            steps: Vec::new(),
            begins: 0.0,
            seconds: 595.0,
            interval_seconds: 60.0,
            suspended_seconds: 0.0,
            collectors,
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        }
    }

    fn said(window: &Window, host: &Facts) -> Option<String> {
        told(window, (host, 5.0), (STARTED, &Zone::utc()))
    }

    #[test]
    fn five_seconds_in_an_old_minute_are_named_with_its_mean_for_each_figure_that_is_kept() {
        let host = Facts { cpus: 2, ..Facts::default() };
        let window = thinned(&host, 0.02, |figure| match figure {
            Figure::Share => 0.9,
            Figure::OfCpus => 1.8,
            Figure::Tasks | Figure::Requests => 12.0,
            Figure::Traffic => 6e6,
            Figure::Memory => 0.0,
        });
        let said = said(&window, &host).unwrap();
        assert!(
            said.starts_with("Bursts within the minutes, by samples every 5 s; rules judge the means: PSI cpu some "),
            "{said}"
        );
        for (_, _, words, _) in FIGURES {
            assert!(said.contains(&words.replace("{}", "x0")), "{words}: {said}");
        }
        for part in [
            "PSI io full 90.0% (mean 9.3%) in the minute from 08:55:20; ",
            "CPUs busy 90.0% (mean 8.4%) in",
            "run queue 12 (mean 1.0) in",
            "x0 aqu-sz 12 (mean 1.0) in",
            "x0 sent 5.7 MiB/s (mean 488.3 KiB/s) in the minute from 08:55:20",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn no_burst_is_said_where_that_is_known_and_nothing_where_it_is_not() {
        let host = Facts { cpus: 2, ..Facts::default() };
        let calm = thinned(&host, 0.4, |_| 0.42);
        let wanted = "Within the minutes, samples every 5 s saw no burst (PSI, CPUs, run queue, available memory, disks, interfaces)";
        assert_eq!(said(&calm, &host).unwrap(), wanted);
        // As an older rdiag thinned it.
        let mut older = calm;
        for record in older.collectors.values_mut() {
            record.series.retain(|series| FIGURES.iter().any(|(_, name, ..)| *name == series.name));
        }
        assert_eq!(said(&older, &host), None);
    }
}
