//! The unloaded latency of a block device: the mean time of its requests while hardly any other is outstanding.
//!
//! Only intervals of the same run count. Means since boot, from /proc/diskstats, contain every load since then, and the kernel prints the
//! times as 32-bit numbers, which wrap.

use std::collections::BTreeMap;

use super::delta::{Delta, delta};
use super::formula::{Outcome, describe};
use super::table::{Table, intervals};
use rdiag_model::recording::Series;
use rdiag_model::{Reason, Unavailable, quantity};

/// With at most so many requests outstanding on average, most of them found the device idle.
const ALONE: f64 = 1.2;
/// The mean of fewer requests in an interval is noise.
const FEWEST: f64 = 50.0;

/// Requests and the time that they took, in one direction and one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Work {
    requests: f64,
    seconds: f64,
}

/// An interval of one device: how many requests were outstanding, and what was read and written.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Interval {
    queue: f64,
    reads: Work,
    writes: Work,
}

/// For each device, the mean time of a request in its least-loaded interval, in the direction that took more time in the window: writes
/// into a cache say nothing about reads.
pub(super) fn of_devices(table: &Table<'_>) -> Outcome {
    let Some(devices) = table.series.get("diskstats.weighted_ms") else {
        return Err(Unavailable::new(Reason::Absent, "no statistics of disks were collected in this window"));
    };
    let mut all = BTreeMap::new();
    for (record, weighted) in devices {
        let name = weighted.instance.as_deref().unwrap_or("");
        let of = |series: &str| table.one(series, name).map(|(_, one)| one);
        let at: Vec<Interval> = (1..record.times.len())
            .filter_map(|at| {
                let (from, to) = (record.times.get(at - 1)?, record.times.get(at)?);
                let same = of("diskstats.identity").is_none_or(|id| id.values.get(at - 1) == id.values.get(at));
                let change = |series: Option<&Series>| grown(series?, at).map(|by| by * series_unit(table, series));
                let work =
                    |requests, seconds| Some(Work { requests: change(of(requests))?, seconds: change(of(seconds))? });
                (same && to > from).then_some(())?;
                Some(Interval {
                    queue: change(Some(weighted))? / (to - from),
                    reads: work("diskstats.reads", "diskstats.read_ms")?,
                    writes: work("diskstats.writes", "diskstats.write_ms")?,
                })
            })
            .collect();
        let count = intervals(table.window);
        let stats = least(&at).map(|seconds| describe(seconds, seconds, &[seconds], vec![Some(seconds); count]));
        all.insert(name.to_owned(), stats.ok_or_else(|| unknown(&at)));
    }
    Ok((
        all,
        "diskstats.reads, diskstats.read_ms, diskstats.writes, diskstats.write_ms, diskstats.weighted_ms".to_owned(),
    ))
}

/// Why there is no unloaded latency, with what is known instead: a device that is never without a queue may serve that many at once as fast
/// as one alone, or not, and only its time with one says which.
fn unknown(all: &[Interval]) -> Unavailable {
    let least = "no interval of this run had 50 requests with at most 1.2 outstanding";
    let queued: Vec<&Interval> = all.iter().filter(|one| one.queue > ALONE).collect();
    let sum = |of: fn(&Interval) -> f64| queued.iter().map(|one| of(one)).sum::<f64>();
    let requests = sum(|one| one.reads.requests + one.writes.requests);
    if requests < FEWEST {
        let gap = Unavailable::new(Reason::ShortWindow, format!("unloaded latency: {least}"));
        return gap.with_remedy("measure the disk while it is less busy, or for longer");
    }
    let (queue, await_) =
        (sum(|one| one.queue) / queued.len() as f64, sum(|one| one.reads.seconds + one.writes.seconds) / requests);
    let why = format!(
        "{} requests were outstanding on average, {} each; whether one alone is faster is not known: {least}",
        quantity::number(queue),
        quantity::seconds(await_)
    );
    let remedy = "measure a time in which the disk also has little to do (of the past: rdiag watch, then run --at)";
    Unavailable::new(Reason::ShortWindow, why).with_remedy(remedy)
}

fn series_unit(table: &Table<'_>, series: Option<&Series>) -> f64 {
    series.map_or(1.0, |series| series.unit.in_base_units(table.facts))
}

/// The change up to this sample; none where a value is missing or the counter was reset.
fn grown(series: &Series, at: usize) -> Option<f64> {
    let value = |at: usize| series.values.get(at).copied().flatten();
    match delta(series.kind, value(at - 1)?, value(at)?) {
        Delta::Grew(change) => Some(change),
        Delta::Reset => None,
    }
}

/// The shortest mean time among the intervals with one request at a time.
fn least(all: &[Interval]) -> Option<f64> {
    let total = |of: fn(&Interval) -> Work| all.iter().map(|one| of(one).seconds).sum::<f64>();
    let of: fn(&Interval) -> Work =
        if total(|one| one.reads) >= total(|one| one.writes) { |one| one.reads } else { |one| one.writes };
    let alone = all.iter().filter(|one| one.queue <= ALONE).map(of);
    alone.filter(|work| work.requests >= FEWEST).map(|work| work.seconds / work.requests).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Work = Work { requests: 0.0, seconds: 0.0 };

    fn reading(queue: f64, requests: f64, seconds: f64) -> Interval {
        Interval { queue, reads: Work { requests, seconds }, writes: NOTHING }
    }

    #[test]
    fn the_least_loaded_interval_gives_the_figure_and_a_loaded_one_none() {
        let all = [reading(226.0, 130_000.0, 226.0), reading(0.2, 1000.0, 0.1), reading(0.9, 2000.0, 0.8)];
        assert_eq!(least(&all), Some(0.0001));
        assert_eq!(least(&all[..1]), None, "the queue was long all the time");
    }

    #[test]
    fn a_handful_of_requests_is_no_mean_and_writes_say_nothing_about_reads() {
        let write = Work { requests: 900.0, seconds: 0.02 };
        let all = [reading(100.0, 9000.0, 100.0), Interval { queue: 0.1, reads: NOTHING, writes: write }];
        assert_eq!(least(&all), None);
        assert_eq!(least(&[reading(100.0, 9000.0, 100.0), reading(0.1, 49.0, 0.01)]), None);
        assert_eq!(least(&[reading(100.0, 9000.0, 100.0), reading(0.1, 50.0, 0.01)]), Some(0.0002));
    }

    #[test]
    fn of_a_disk_with_a_queue_all_the_time_the_gap_says_how_long_it_was_and_that_one_alone_may_be_as_slow() {
        let gap = unknown(&[reading(226.0, 130_000.0, 226.0), reading(226.0, 130_000.0, 242.0)]);
        assert!(
            gap.why.starts_with("226 requests were outstanding on average, 1.80 ms each; whether one alone"),
            "{}",
            gap.why
        );
        assert!(gap.remedy.unwrap().contains("--at"));
        assert!(unknown(&[reading(0.1, 3.0, 0.01)]).why.starts_with("unloaded latency: no interval"));
    }

    #[test]
    fn at_rest_there_is_nothing_to_compare_with() {
        assert_eq!(least(&[]), None);
        assert_eq!(least(&[reading(0.0, 0.0, 0.0)]), None);
    }
}
