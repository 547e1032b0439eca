//! Repeated runs in figures and words that all formats share.

use rdiag_model::quantity::{percent, seconds};
use rdiag_model::runs::{Difference, Growth, Keyed, KeyedRuns, Run, Runs, Spread};

use super::escape::visible_within;
use super::profile_words::NOT_KNOWN;
use super::words::plural;
use super::worth;

/// What stands where runs do not differ enough, or are too few.
pub(super) const ALIKE: &str =
    "Slow and fast runs are not compared: there are too few, or they take about the same time.";

/// Why a key was not read.
const UNREAD: &str = "nothing is there, or memory that the program had not touched yet";

/// Longest name of a mark that is shown.
const SHOWN: usize = 120;

/// What the figures are about.
pub(super) fn lead(runs: &Runs) -> String {
    let open = match runs.open {
        0 => String::new(),
        open => format!(" Not in here: {}, under way at an edge of the window.", number(open)),
    };
    if let Some(between) = &runs.between {
        let (whose, outside) = if runs.followed {
            ("the time of one request, whichever thread has it,", "the program")
        } else {
            ("the time of one thread", "a thread")
        };
        return format!(
            "{} from beginning to end: each is {whose} from {} to {}. What {outside} does outside of that is in no figure here.{open}",
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

/// What stands above the rows of keys.
pub(super) fn by_key(keyed: &Keyed, runs: &Runs) -> String {
    let field = visible_within(&keyed.field, SHOWN);
    if keyed.count == 0 {
        return format!("What runs are called by ({field}) could be read of none of them: {UNREAD}.");
    }
    let unread = match keyed.unread {
        0 => String::new(),
        unread => format!(" Of {} it could not be read: {UNREAD}.", number(unread)),
    };
    if keyed.rows.is_empty() {
        return format!("Each run has a key of its own ({field}), which stands beside the slowest ones.{unread}");
    }
    let keys = plural(usize::try_from(keyed.count).unwrap_or(usize::MAX), "key", "keys");
    let shown: u64 = keyed.rows.iter().map(|row| row.runs).fold(0, u64::saturating_add);
    let left = keyed.count.saturating_sub(keyed.rows.len() as u64);
    let others = runs.count.saturating_sub(keyed.unread).saturating_sub(shown);
    let left = match left {
        0 => String::new(),
        left => format!(" Not in here: {left} more, of {}.", number(others)),
    };
    let said = if keyed.headline.is_empty() { String::new() } else { format!(" {}", keyed.headline) };
    let first = match keyed.slow {
        0 => "the slowest on average first".to_owned(),
        slow => format!("those with most of the {slow} slowest runs first"),
    };
    format!("{keys} ({field}), {first}.{said}{left}{unread}")
}

/// What the runs of a key consist of, and what its own slow ones have more of.
pub(super) fn of_key(row: &KeyedRuns) -> String {
    let parts = row.parts.iter().take(3).map(|(id, time)| format!("{} {}", id.id(), seconds(*time)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    match &row.growth {
        Some(growth) => format!("{parts}; its slow runs have more of {} ({})", grown(growth), signed(growth.seconds)),
        None => parts,
    }
}

/// `run 12`, with what it is called by.
pub(super) fn name(run: &Run) -> String {
    match &run.key {
        Some(key) => format!("run {} ({})", run.number, visible_within(key, SHOWN)),
        None => format!("run {}", run.number),
    }
}

/// What a run consists of, with what it is called by.
pub(super) fn keyed_parts(run: &Run) -> String {
    match &run.key {
        Some(key) => format!("{}: {}", visible_within(key, SHOWN), parts(run)),
        None => parts(run),
    }
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
