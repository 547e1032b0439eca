//! The same time of an earlier day: which figures differ from it by more than they varied then. It ranks and explains; no rule asks it.

use super::time::interval;
use rdiag_model::report::{Unlike, Usual};
use rdiag_model::{Facts, Metrics, Reading, Unit, Window, quantity};

/// Figures that are compared, and what they tell in a few words.
const COMPARED: [(&str, &str); 21] = [
    ("cpu.busy.ratio", "CPU busy"),
    ("cpu.runnable.count", "run queue"),
    ("cpu.runqueue.wait.ratio", "run-queue wait"),
    ("psi.cpu.some.ratio", "PSI cpu some"),
    ("psi.memory.some.ratio", "PSI memory some"),
    ("psi.io.some.ratio", "PSI io some"),
    ("psi.io.full.ratio", "PSI io full"),
    ("memory.available.bytes", "available memory"),
    ("memory.major_faults.per_second", "major faults"),
    ("memory.swap_in.bytes_per_second", "swap-in"),
    ("tasks.blocked.count", "tasks in D state"),
    ("disk.busy.ratio", "disk busy"),
    ("disk.await.seconds", "disk await"),
    ("disk.queue.count", "disk queue (aqu-sz)"),
    ("disk.read.bytes_per_second", "disk reads"),
    ("disk.write.bytes_per_second", "disk writes"),
    ("network.interface.receive.bytes_per_second", "received"),
    ("network.interface.transmit.bytes_per_second", "sent"),
    ("network.tcp.passive_opens.per_second", "TCP connections accepted"),
    ("network.tcp.active_opens.per_second", "TCP connections opened"),
    ("network.tcp.retransmitted.ratio", "TCP retransmits"),
];

/// Intervals from which the spread can be told.
pub const SAMPLES: usize = 24;
/// The part of the time that must have been recorded.
const COVERED: f64 = 0.8;
/// Turns the median of absolute differences into a standard deviation, where figures scatter normally.
const OF_NORMAL: f64 = 1.4826;
/// A spread is at least this part of the figure: what hardly varied then may differ a little today.
const SHARE: f64 = 0.1;
/// So many spreads are no chance.
const SPREADS: f64 = 4.0;
/// Figures that are reported, and instances that are compared of one metric.
const MOST: usize = 6;
const INSTANCES: usize = 200;

/// One of the two times.
#[derive(Debug, Clone, Copy)]
pub struct Side<'s> {
    /// The host.
    pub facts: &'s Facts,
    /// Its window.
    pub window: &'s Window,
    /// The readings of that.
    pub metrics: &'s Metrics,
}

/// How a time compares with an earlier one.
///
/// # Errors
/// Why both cannot be compared, in words: another host, kernel or interval, or too few samples.
pub fn usual(name: &str, span: String, now: Side<'_>, then: Side<'_>) -> Result<Usual, String> {
    let of = |facts: &Facts| (facts.hostname.clone(), facts.kernel.clone(), facts.cpus);
    let ((host, kernel, cpus), (old_host, old_kernel, old_cpus)) = (of(now.facts), of(then.facts));
    if host != old_host {
        return Err(format!("that was another host, {old_host}"));
    }
    if kernel != old_kernel {
        return Err(format!("another kernel ran then, {old_kernel}"));
    }
    if cpus != old_cpus {
        return Err(format!("the host had {old_cpus} CPUs then"));
    }
    let [every, old_every] = [now, then].map(|side| interval(side.window.interval_seconds));
    if every != old_every {
        return Err(format!("a sample every {old_every} was recorded then, and every {every} now"));
    }
    if then.window.seconds < COVERED * now.window.seconds {
        let [then, now] = [then, now].map(|side| quantity::seconds(side.window.seconds));
        return Err(format!("{then} of it were recorded then, and {now} now"));
    }
    let (compared, unlike) = unlike(now.metrics, &[then.metrics], SAMPLES, MOST);
    if compared == 0 {
        return Err(format!("{SAMPLES} samples of both are needed, one every {every}; --last takes a longer time"));
    }
    Ok(Usual { name: name.to_owned(), span, compared, unlike })
}

/// How many figures of a window were compared with those of earlier ones, taken together, and at most `most` that differ by more than they
/// varied then, the furthest first. Fewer than `least` intervals now, or [`SAMPLES`] then, are not compared.
#[must_use]
pub fn unlike(now: &Metrics, then: &[&Metrics], least: usize, most: usize) -> (usize, Vec<Unlike>) {
    let (mut compared, mut unlike) = (0, Vec::new());
    for (metric, title) in COMPARED {
        let Some(Reading::Measured { unit, instances, .. }) = now.readings.get(metric) else { continue };
        for (instance, stats) in instances.iter().take(INSTANCES) {
            let Ok(stats) = stats else { continue };
            let before = then.iter().filter_map(|metrics| metrics.measured(metric, instance));
            let before: Vec<Option<f64>> = before.flat_map(|stats| stats.intervals.iter().copied()).collect();
            let Some((spread, medians)) = spread(&stats.intervals, least, &before, *unit) else { continue };
            compared += 1;
            let [then, now] = medians;
            let spreads = (now - then) / spread;
            if spreads.abs() >= SPREADS {
                let (metric, title, instance) = (metric.to_owned(), title.to_owned(), instance.clone());
                unlike.push(Unlike { metric, title, instance, unit: *unit, then, spread, now, spreads });
            }
        }
    }
    unlike.sort_by(|a, b| b.spreads.abs().total_cmp(&a.spreads.abs()));
    unlike.truncate(most);
    (compared, unlike)
}

/// As much of what was measured then as [`unlike`] asks for.
#[must_use]
pub fn comparable(then: Metrics, now: &Metrics) -> Metrics {
    let mut readings = then.readings;
    readings.retain(|metric, reading| {
        let Some(Reading::Measured { instances: of_now, .. }) = now.readings.get(metric) else { return false };
        let Reading::Measured { instances, .. } = reading else { return false };
        instances.retain(|instance, _| of_now.keys().take(INSTANCES).any(|own| own == instance));
        COMPARED.iter().any(|(compared, _)| compared == metric)
    });
    Metrics { readings, intervals: then.intervals, ..Metrics::default() }
}

/// The spread of the intervals then, and the medians then and now; none where there are too few.
fn spread(now: &[Option<f64>], least: usize, then: &[Option<f64>], unit: Unit) -> Option<(f64, [f64; 2])> {
    let [now, then] =
        [now, then].map(|all| all.iter().flatten().copied().filter(|x| x.is_finite()).collect::<Vec<_>>());
    if now.len() < least || then.len() < SAMPLES {
        return None;
    }
    let before = median(then.clone())?;
    let differences = then.iter().map(|value| (value - before).abs()).collect();
    let spread = (OF_NORMAL * median(differences)?).max(SHARE * before.abs()).max(floor(unit));
    Some((spread, [before, median(now)?]))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What is no difference on any host.
fn floor(unit: Unit) -> f64 {
    match unit {
        Unit::Ratio => 0.01,
        Unit::Seconds => 0.0005,
        Unit::Bytes => 16.0 * 1024.0 * 1024.0,
        Unit::Count => 0.5,
        Unit::PerSecond => 2.0,
        Unit::BytesPerSecond => 64.0 * 1024.0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use rdiag_model::Stats;

    fn window(seconds: f64, interval_seconds: f64) -> Window {
        Window {
            steps: Vec::new(),
            begins: 0.0,
            seconds,
            interval_seconds,
            suspended_seconds: 0.0,
            collectors: BTreeMap::new(),
            probes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
        }
    }

    /// Readings of the CPU and of a disk, whose intervals vary around these by a tenth of them.
    fn metrics(intervals: usize, busy: f64, wait: f64) -> Metrics {
        let reading = |unit, instance: &str, value: f64| {
            let of = |at: usize| Some(value * (0.9 + 0.1 * (at % 3) as f64));
            let stats = Stats { intervals: (0..intervals).map(of).collect(), ..Stats::constant(value) };
            let instances = BTreeMap::from([(instance.to_owned(), Ok(stats))]);
            Reading::Measured { unit, dimension: None, source: String::new(), rank: 0, instances }
        };
        let readings = [
            ("cpu.busy.ratio".to_owned(), reading(Unit::Ratio, "", busy)),
            ("disk.await.seconds".to_owned(), reading(Unit::Seconds, "vda", wait)),
        ];
        Metrics { readings: readings.into(), ..Metrics::default() }
    }

    fn compared(facts: [&Facts; 2], windows: [&Window; 2], metrics: [&Metrics; 2]) -> Result<Usual, String> {
        let side = |at: usize| Side { facts: facts[at], window: windows[at], metrics: metrics[at] };
        usual("the day before", "then".into(), side(0), side(1))
    }

    #[test]
    fn what_differs_by_more_than_it_varied_is_ranked_by_how_far_it_is() {
        let (facts, window) = (&Facts::default(), &window(600.0, 5.0));
        let told = |now: &Metrics| compared([facts; 2], [window; 2], [now, &metrics(120, 0.2, 0.002)]).unwrap();
        let slow = told(&metrics(120, 0.9, 0.1));
        let names: Vec<_> = slow.unlike.iter().map(|one| (one.title.as_str(), one.instance.as_str())).collect();
        assert_eq!((slow.compared, names), (2, vec![("disk await", "vda"), ("CPU busy", "")]));
        assert!((slow.unlike[0].spreads - 196.0).abs() < 1.0, "{:?}: no less than half a millisecond", slow.unlike);
        assert_eq!(told(&metrics(120, 0.21, 0.0025)).unlike, []);
        let idle = told(&metrics(120, 0.01, 0.002));
        assert!(idle.unlike[0].spreads < -4.0, "less than usual is unusual, too");
    }

    #[test]
    fn another_kernel_or_interval_a_short_time_and_few_samples_are_not_compared() {
        let (facts, whole) = (&Facts::default(), &window(600.0, 5.0));
        let same = &metrics(120, 0.2, 0.002);
        let other = &Facts { kernel: "6.1.9".into(), ..Facts::default() };
        assert!(compared([facts; 2], [whole; 2], [same; 2]).is_ok());
        let (by_minute, part) = (&window(600.0, 60.0), &window(400.0, 5.0));
        let why = |facts, windows, metrics| compared(facts, windows, metrics).unwrap_err();
        assert_eq!(why([facts, other], [whole; 2], [same; 2]), "another kernel ran then, 6.1.9");
        let by_minute = why([facts; 2], [whole, by_minute], [same; 2]);
        assert_eq!(by_minute, "a sample every 1 min was recorded then, and every 5 s now");
        let short = why([facts; 2], [whole, part], [same; 2]);
        assert_eq!(short, "6.7 min of it were recorded then, and 10.0 min now");
        let (fewer, none) = (&metrics(20, 0.2, 0.002), &Metrics::default());
        for then in [fewer, none] {
            let few = why([facts; 2], [whole; 2], [same, then]);
            assert_eq!(few, "24 samples of both are needed, one every 5 s; --last takes a longer time");
        }
    }
}
