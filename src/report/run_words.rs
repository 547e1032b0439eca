//! Repeated runs in figures and words that all formats share.

use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::{Difference, Growth, Run, Runs, Spread};

use super::escape::visible_within;
use super::profile_words::NOT_KNOWN;
use super::words::plural;
use super::worth;

/// What stands where runs do not differ enough, or are too few.
pub(super) const ALIKE: &str =
    "Slow and fast runs are not compared: there are too few, or they take about the same time.";

/// Longest name of a mark that is shown.
const SHOWN: usize = 120;

/// What the figures are about.
pub(super) fn lead(runs: &Runs) -> String {
    let open = match runs.open {
        0 => String::new(),
        open => format!(" Not in here: {}, under way at an edge of the window.", number(open)),
    };
    if let Some(between) = &runs.between {
        return format!(
            "{} from beginning to end: each is the time of one thread from {} to {}. What a thread does outside of that is in no \
             figure here.{open}",
            number(runs.count),
            visible_within(&between.from, SHOWN),
            visible_within(&between.to, SHOWN)
        );
    }
    format!(
        "{} from beginning to end. A run's time is that of its first thread; where it waited for a child, what the child did \
         stands in place of the wait.{open}",
        number(runs.count)
    )
}

fn number(runs: u64) -> String {
    plural(usize::try_from(runs).unwrap_or(usize::MAX), "run", "runs")
}

/// How many runs met the goal; none where there is no goal.
pub(super) fn goal(runs: &Runs) -> Option<String> {
    let within = runs.within_goal?;
    let share = if runs.count > 0 { within as f64 / runs.count as f64 } else { 0.0 };
    if let Some(wanted) = &runs.percentile {
        return Some(format!(
            "{within} of {} ({}) were within {}; the goal is {}.",
            number(runs.count),
            percent(share),
            seconds(wanted.seconds),
            percent(wanted.share)
        ));
    }
    Some(format!(
        "{within} of {} ({}) were within the goal; what is said of the goal elsewhere is about their mean.",
        number(runs.count),
        percent(share)
    ))
}

/// Heads of [`figures`].
pub(super) fn heads(of: &Spread) -> Vec<&'static str> {
    shown(of).into_iter().map(|(head, _)| head).collect()
}

/// Mean, least, median, percentiles, most; a percentile only where there are enough runs `of` all for it.
pub(super) fn figures(of: &Spread, spread: &Spread) -> Vec<String> {
    shown(of).into_iter().map(|(_, value)| value(spread).map_or_else(|| NOT_KNOWN.to_owned(), seconds)).collect()
}

type Figure = (&'static str, fn(&Spread) -> Option<f64>);

fn shown(of: &Spread) -> Vec<Figure> {
    let all: [Figure; 6] = [
        ("Mean", |spread| Some(spread.mean)),
        ("Least", |spread| Some(spread.min)),
        ("Median", |spread| Some(spread.p50)),
        ("p95", |spread| spread.p95),
        ("p99", |spread| spread.p99),
        ("Most", |spread| Some(spread.max)),
    ];
    all.into_iter().filter(|(_, value)| value(of).is_some()).collect()
}

/// Which runs are compared with which.
pub(super) fn against(difference: &Difference) -> String {
    format!(
        "The slowest {} took {} on average, the fastest {} {}: {} more.",
        difference.slow_runs,
        seconds(difference.slow_mean),
        difference.fast_runs,
        seconds(difference.fast_mean),
        seconds(difference.seconds)
    )
}

/// `voluntary sleep (timer) in clock_nanosleep`.
pub(super) fn grown(row: &Growth) -> String {
    if row.mostly.is_empty() { row.title.clone() } else { format!("{}: {}", row.title, row.mostly) }
}

/// `5 of 5`: slow runs that have more of it than any fast one.
pub(super) fn above(row: &Growth, difference: &Difference) -> String {
    format!("{} of {}", row.above_all_fast, difference.slow_runs)
}

/// Seconds with a sign.
pub(super) fn signed(value: f64) -> String {
    if value >= 0.0 { format!("+{}", seconds(value)) } else { seconds(value) }
}

/// Of the difference: in no component; none if that is next to nothing.
pub(super) fn unexplained(difference: &Difference) -> Option<String> {
    let share = difference.unexplained_seconds / difference.seconds;
    (share.abs() >= worth::UNEXPLAINED).then(|| format!("{} of it is in no component.", percent(share)))
}

/// `cpu.user 900 ms, wait.sleep 20 ms`.
pub(super) fn parts(run: &Run) -> String {
    let shown = run.parts.iter().take(4).map(|(id, time)| format!("{} {}", id.id(), seconds(*time)));
    shown.collect::<Vec<_>>().join(", ")
}
