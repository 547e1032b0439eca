//! What a thinned block keeps of the course within a minute: the largest and the smallest value of the figures that say how full a resource
//! is, by the samples that were left out. Each is a series of its own beside the one that it is of, with its name and an ending. Of a
//! counter it is the rate between two samples, per second.
//!
//! A percentile is not kept: the 95th of the twelve samples of a minute is their largest.

use rdiag_model::SeriesKind;
use rdiag_model::recording::{Number, Series};

/// Endings of the names.
const LARGEST: &str = ".largest";
const SMALLEST: &str = ".smallest";
/// The figures of which it is kept. A host has some dozen of these series, where all have some hundreds.
const KEPT: [&str; 12] = [
    "psi.cpu_some",
    "psi.memory_some",
    "psi.memory_full",
    "psi.io_some",
    "psi.io_full",
    "schedstat.run",
    "loadavg.runnable",
    "meminfo.available",
    "diskstats.busy_ms",
    "diskstats.weighted_ms",
    "interfaces.receive_bytes",
    "interfaces.transmit_bytes",
];

/// One end of the values within a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}

impl Extreme {
    const ALL: [Self; 2] = [Self::Largest, Self::Smallest];

    /// The series with it, of the series of some name.
    #[must_use]
    pub fn of(self, name: &str) -> String {
        format!("{name}{}", self.ending())
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Largest => LARGEST,
            Self::Smallest => SMALLEST,
        }
    }

    /// Which one a series holds, if it is such a series.
    pub(super) fn held(series: &Series) -> Option<Self> {
        let is_of =
            |extreme: &Self| series.name.strip_suffix(extreme.ending()).is_some_and(|name| KEPT.contains(&name));
        Self::ALL.into_iter().find(is_of)
    }

    /// Of some values.
    pub(super) fn among(self, values: impl Iterator<Item = f64>) -> Option<Number> {
        let extreme = match self {
            Self::Largest => values.reduce(f64::max),
            Self::Smallest => values.reduce(f64::min),
        };
        // Whole numbers take a fifth of the space.
        extreme.filter(|value| value.is_finite() && *value >= 0.0).map(|value| Number::Whole(value.round() as u64))
    }
}

/// The extremes between the samples that stay, as series. None of what has them already, since it was thinned before.
pub(super) fn of(times: &[f64], all: &[Series], stay: &[usize]) -> Vec<Series> {
    if all.iter().any(|series| Extreme::held(series).is_some()) {
        return Vec::new();
    }
    let kept = all.iter().filter(|series| KEPT.contains(&series.name.as_str()));
    let both = kept.flat_map(|series| Extreme::ALL.map(|extreme| (series, extreme)));
    let extremes = both.map(|(series, extreme)| Series {
        name: extreme.of(&series.name),
        instance: series.instance.clone(),
        kind: SeriesKind::Gauge,
        unit: series.unit,
        values: ranges(stay, times.len()).map(|range| extreme.among(within(times, series, range))).collect(),
    });
    extremes.filter(|series| series.values.iter().any(Option::is_some)).collect()
}

/// From each sample that stays to the next one.
pub(super) fn ranges(stay: &[usize], samples: usize) -> impl Iterator<Item = (usize, usize)> {
    stay.iter().copied().zip(stay.iter().skip(1).copied().chain([samples]))
}

/// The values between two samples that stay, if one was left out there: those of a level, or the rates of a counter where it grew.
fn within(times: &[f64], series: &Series, (from, to): (usize, usize)) -> impl Iterator<Item = f64> {
    let is_level = series.kind == SeriesKind::Gauge;
    let value = |at: usize| series.values.get(at).copied().flatten().map(Number::as_f64);
    let rate = move |at: usize| {
        let (grown, seconds) = (value(at + 1)? - value(at)?, times.get(at + 1)? - times.get(at)?);
        (grown >= 0.0 && seconds > 0.0).then(|| grown / seconds)
    };
    let places = if to - from > 1 { from..to } else { from..from };
    places.filter_map(move |at| if is_level { value(at) } else { rate(at) })
}
