//! How the CPUs' time was split, from the counters of /proc/stat: the parts of one whole, which the metrics of the rules are not.

use rdiag_model::recording::{CollectorRecord, Window};
use rdiag_model::report::{Curve, Lane, Span};
use rdiag_model::{Recording, Unit};

use super::{MAX_VALUES, apart};

/// The parts that are drawn, from below, and the fields of /proc/stat in each. Guest time is inside user and nice.
const PARTS: [(&str, &[&str]); 4] = [
    ("user", &["cpu_stat.user", "cpu_stat.nice"]),
    ("system", &["cpu_stat.system", "cpu_stat.irq", "cpu_stat.softirq"]),
    ("iowait", &["cpu_stat.iowait"]),
    ("steal", &["cpu_stat.steal"]),
];
const IDLE: &str = "cpu_stat.idle";
/// These step back on some kernels; then nothing of them passed.
const STEP_BACK: [&str; 2] = ["cpu_stat.idle", "cpu_stat.iowait"];
const COLLECTOR: &str = "cpu_stat";

/// The shares of one slot, in the order of the parts.
type Shares = [f64; PARTS.len()];

pub(super) fn lane(recording: &Recording, spans: &[Span]) -> Lane {
    let mut windows: Vec<Option<Vec<Option<Shares>>>> = recording.windows.iter().map(window).collect();
    apart(spans, &mut windows);
    let known = || windows.iter().flatten().flatten().flatten();
    let lane = Lane { title: "CPU".into(), unit: Unit::Ratio, top: 1.0, stacked: true, ..Lane::default() };
    let count = known().count() as f64;
    if count == 0.0 {
        let gap = recording.windows.iter().filter_map(|window| window.collectors.get(COLLECTOR)).find_map(gap);
        return Lane { missing: Some(gap.unwrap_or_else(|| "not measured by this playbook".into())), ..lane };
    }
    let curve = |(at, (name, fields)): (usize, &(&str, &[&str]))| {
        let of = |shares: &Shares| shares.get(at).copied().unwrap_or(0.0);
        Curve {
            name: (*name).to_owned(),
            source: fields.join(", "),
            mean: known().map(of).sum::<f64>() / count,
            max: known().map(of).fold(0.0, f64::max),
            values: windows
                .iter()
                .map(|slots| slots.iter().flatten().map(|slot| slot.as_ref().map(of)).collect())
                .collect(),
        }
    };
    Lane { curves: PARTS.iter().enumerate().map(curve).collect(), ..lane }
}

fn gap(record: &CollectorRecord) -> Option<String> {
    record.unavailable.as_ref().or_else(|| record.gaps.values().next()).map(|gap| gap.why.clone())
}

/// The shares of each slot of a window; between two samples they are taken to be even.
fn window(window: &Window) -> Option<Vec<Option<Shares>>> {
    let record = window.collectors.get(COLLECTOR).filter(|_| window.interval_seconds > 0.0)?;
    let count = ((window.seconds / window.interval_seconds).round() as usize).clamp(1, MAX_VALUES);
    let width = window.seconds / count as f64;
    let mut sums: Vec<(Shares, f64)> = vec![([0.0; PARTS.len()], 0.0); count];
    for (at, ends) in record.times.windows(2).enumerate() {
        let (&[from, until], Some((parts, whole))) = (ends, grown(record, at)) else { continue };
        if until <= from {
            continue;
        }
        for (slot, (sum, all)) in sums.iter_mut().enumerate() {
            let begin = slot as f64 * width;
            // The first sample is taken a little after a window begins, the last a little before it ends.
            let end = if slot + 1 == count { f64::INFINITY } else { begin + width };
            let share = (until.min(end) - from.max(begin)).max(0.0) / (until - from);
            sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part * share);
            *all += whole * share;
        }
    }
    Some(sums.into_iter().map(|(sum, all)| (all > 0.0).then(|| sum.map(|part| part / all))).collect())
}

/// How much each part, and the whole, grew from one sample to the next; none where a counter was reset or is missing.
fn grown(record: &CollectorRecord, at: usize) -> Option<(Shares, f64)> {
    let of = |field: &str| -> Option<f64> {
        let is_it = |series: &&rdiag_model::Series| series.name == field && series.instance.is_none();
        let values = &record.series.iter().find(is_it)?.values;
        let [before, now] = [at, at + 1].map(|at| values.get(at).copied().flatten());
        let change = now?.as_f64() - before?.as_f64();
        (change >= 0.0 || STEP_BACK.contains(&field)).then_some(change.max(0.0))
    };
    let mut parts = Shares::default();
    for (part, (_, fields)) in parts.iter_mut().zip(PARTS) {
        *part = fields.iter().map(|field| of(field)).sum::<Option<f64>>()?;
    }
    let whole = parts.iter().sum::<f64>() + of(IDLE)?;
    Some((parts, whole))
}
