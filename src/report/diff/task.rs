//! Two profiles of Method R: which component grew, and how much of the whole growth that is. They are compared in seconds only if each is
//! one execution (by the thread that spans it, where there is one) or consists of runs; else by shares, since the length of a window was
//! chosen and says nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::flame::points;
use rdiag_model::comparison::{PartChange, TaskBasis, TaskChange};
use rdiag_model::profile::{CallRow, Grade, ThreadRow};
use rdiag_model::quantity::{number, percent, seconds};
use rdiag_model::runs::{Runs, Spread};
use rdiag_model::{Component, Profile};

/// Calls that are listed.
const MAX_CALLS: usize = 20;
/// A change below this share of the larger whole does not matter. This is no part of an account, and stays beside what it goes with:
/// what two executions of the same differ by, and the errors of both.
const LEAST: f64 = 0.01;
/// A whole that changed by less than this share is as long as before: two executions of the same differ as much.
const SAME: f64 = 0.02;
/// The name of what no component holds.
const UNACCOUNTED: &str = "unaccounted";

/// Compares two profiles.
pub(super) fn compare(before: &Profile, after: &Profile) -> TaskChange {
    let both = [before, after];
    let basis = basis(both);
    let whole_seconds = both.map(|profile| whole(profile, basis));
    let mut change = TaskChange {
        subjects: both.map(|profile| profile.subject.clone()),
        levels: both.map(|profile| profile.level),
        basis,
        whole_seconds,
        headline: String::new(),
        notes: notes(both, basis),
        components: components(both, basis, whole_seconds),
        calls: Vec::new(),
        calls_others: 0,
    };
    (change.calls, change.calls_others) = calls(both, basis);
    change.headline = headline(&change);
    change
}

/// Executions are compared in seconds if both are whole ones, and as response times if one thread spans each, or if they
/// are the means of several runs.
fn basis(both: [&Profile; 2]) -> TaskBasis {
    if both.into_iter().all(|profile| runs(profile).is_some()) {
        return TaskBasis::Runs;
    }
    let is_execution =
        |profile: &Profile| profile.target.command.is_some() && !profile.target.each && profile.partial.is_none();
    if !both.into_iter().all(is_execution) {
        return TaskBasis::Windows;
    }
    // What the first thread did is not how long it took where all count as one.
    let is_serial = |profile: &Profile| serial(profile).is_some() && !profile.forecast.as_one;
    if both.into_iter().all(is_serial) { TaskBasis::Response } else { TaskBasis::Threads }
}

/// Runs that were measured separately, and how long they took on average.
fn runs(profile: &Profile) -> Option<(&Runs, f64)> {
    let runs = profile.runs.as_ref()?;
    Some((runs, clean(runs.response?.mean)))
}

/// The thread whose time is the response time.
fn serial(profile: &Profile) -> Option<&ThreadRow> {
    let tid = profile.forecast.thread?;
    profile.threads.iter().find(|thread| thread.tid == tid)
}

fn whole(profile: &Profile, basis: TaskBasis) -> f64 {
    if let Some((_, mean)) = runs(profile).filter(|_| basis == TaskBasis::Runs) {
        return mean;
    }
    clean(
        serial(profile).filter(|_| basis == TaskBasis::Response).map_or(profile.task_seconds, |thread| thread.seconds),
    )
}

/// Reports are not trusted: no figure of theirs makes a sum infinite.
fn clean(seconds: f64) -> f64 {
    if seconds.is_finite() { seconds.clamp(0.0, 1e9) } else { 0.0 }
}

/// Seconds by component, and what is in none.
fn parts(profile: &Profile, basis: TaskBasis) -> BTreeMap<String, f64> {
    let all: Vec<(Component, f64)> = match (basis, runs(profile), serial(profile)) {
        (TaskBasis::Runs, Some((runs, _)), _) => runs.components.iter().map(|row| (row.id, row.spread.mean)).collect(),
        (TaskBasis::Response, _, Some(thread)) => thread.parts.clone(),
        _ => profile.components.iter().map(|row| (row.id, row.seconds)).collect(),
    };
    let mut parts: BTreeMap<String, f64> =
        all.into_iter().map(|(id, seconds)| (id.id().to_owned(), clean(seconds))).collect();
    let rest = whole(profile, basis) - parts.values().sum::<f64>();
    parts.insert(UNACCOUNTED.to_owned(), rest.max(0.0));
    parts
}

fn components(both: [&Profile; 2], basis: TaskBasis, whole: [f64; 2]) -> Vec<PartChange> {
    let [before, after] = both.map(|profile| parts(profile, basis));
    // How many there were is known of all threads and runs together.
    let counts = match basis {
        TaskBasis::Runs => false,
        TaskBasis::Response => both.into_iter().all(|profile| profile.population.seen <= 1),
        TaskBasis::Threads | TaskBasis::Windows => true,
    };
    let ids: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changes = ids.into_iter().map(|id| {
        let rows = both.map(|profile| profile.components.iter().find(|row| row.id.id() == id));
        let of = |parts: &BTreeMap<String, f64>| parts.get(id).copied().unwrap_or(0.0);
        let seconds = [of(&before), of(&after)];
        let title = rows.into_iter().flatten().next().map_or("in no component", |row| row.title.as_str());
        PartChange {
            title: title.to_owned(),
            count: rows.map(|row| row.filter(|_| counts).and_then(|row| row.count)),
            mean: rows.map(|row| row.filter(|_| counts).and_then(|row| row.mean)),
            is_clear: is_clear(errors(both, id, basis), seconds, whole, basis),
            ..part(id, seconds, whole, basis)
        }
    });
    let mut changes: Vec<PartChange> = changes.filter(|change| change.seconds != [0.0; 2]).collect();
    sort(&mut changes, basis);
    changes
}

fn part(id: &str, seconds: [f64; 2], whole: [f64; 2], basis: TaskBasis) -> PartChange {
    let change = whole[1] - whole[0];
    let has_changed = basis != TaskBasis::Windows && change.abs() >= SAME * whole[0].max(whole[1]) && change != 0.0;
    PartChange {
        id: id.to_owned(),
        title: String::new(),
        seconds,
        share: [share(seconds[0], whole[0]), share(seconds[1], whole[1])],
        of_change: has_changed.then(|| (seconds[1] - seconds[0]) / change),
        count: [None; 2],
        mean: [None; 2],
        is_clear: false,
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// By how much a part moved: in seconds, or in share where windows are compared.
fn moved(change: &PartChange, basis: TaskBasis) -> f64 {
    let [before, after] = if basis == TaskBasis::Windows { change.share } else { change.seconds };
    after - before
}

fn sort(changes: &mut [PartChange], basis: TaskBasis) {
    changes.sort_by(|a, b| moved(b, basis).abs().total_cmp(&moved(a, basis).abs()).then_with(|| a.id.cmp(&b.id)));
}

/// The standard errors of a component's two figures: of estimates as they were measured; of means of runs at most so much.
fn errors(both: [&Profile; 2], id: &str, basis: TaskBasis) -> [f64; 2] {
    both.map(|profile| match runs(profile).filter(|_| basis == TaskBasis::Runs) {
        Some((runs, _)) => {
            let row = runs.components.iter().find(|row| row.id.id() == id);
            row.map_or(0.0, |row| error_at_most(&row.spread, runs.count))
        }
        None => profile.components.iter().find(|row| row.id.id() == id).and_then(|row| row.plus_minus).unwrap_or(0.0),
    })
}

/// The most that the standard error of a mean can be: figures that lie between two bounds vary most if each is one of these (Bhatia and
/// Davis). Of many runs of which a few are slow, the distance of the bounds alone would say that no mean is known.
fn error_at_most(spread: &Spread, count: u64) -> f64 {
    let variance = (spread.max - spread.mean) * (spread.mean - spread.min);
    (variance.max(0.0) / count.saturating_sub(1).max(1) as f64).sqrt()
}

/// Whether a change is larger than what does not matter, and than twice the error of the two figures.
fn is_clear(errors: [f64; 2], seconds: [f64; 2], whole: [f64; 2], basis: TaskBasis) -> bool {
    let in_windows = basis == TaskBasis::Windows;
    let scales = if in_windows { whole } else { [1.0; 2] };
    if scales.into_iter().any(|scale| scale <= 0.0) {
        return false;
    }
    let error = (errors[0] / scales[0]).hypot(errors[1] / scales[1]);
    let change = (seconds[1] / scales[1] - seconds[0] / scales[0]).abs();
    change >= least(whole, basis) && change > 2.0 * error
}

/// The least change that matters, in what is compared.
fn least(whole: [f64; 2], basis: TaskBasis) -> f64 {
    if basis == TaskBasis::Windows { LEAST } else { LEAST * whole[0].max(whole[1]) }
}

/// Calls that changed: over all threads, since a call belongs to no thread.
fn calls(both: [&Profile; 2], basis: TaskBasis) -> (Vec<PartChange>, usize) {
    let [Some(before), Some(after)] = both.map(|profile| profile.calls.as_ref()) else { return (Vec::new(), 0) };
    let whole = both.map(|profile| clean(profile.task_seconds));
    // How many runs there were was chosen: only their shares tell something.
    let basis = if basis == TaskBasis::Runs { TaskBasis::Windows } else { basis };
    let mut rows: BTreeMap<&str, [Option<&CallRow>; 2]> = BTreeMap::new();
    for row in &before.rows {
        rows.entry(&row.name).or_default()[0] = Some(row);
    }
    for row in &after.rows {
        rows.entry(&row.name).or_default()[1] = Some(row);
    }
    let change = |(name, rows): (&str, [Option<&CallRow>; 2])| {
        let seconds = rows.map(|row| row.map_or(0.0, |row| clean(row.seconds)));
        let part = part(name, seconds, whole, basis);
        PartChange {
            of_change: None,
            count: rows.map(|row| row.map(|row| row.count)),
            mean: rows.map(|row| row.and_then(|row| row.mean)),
            is_clear: moved(&part, basis).abs() >= least(whole, basis),
            ..part
        }
    };
    let mut changes: Vec<PartChange> = rows.into_iter().map(change).filter(|change| change.is_clear).collect();
    sort(&mut changes, basis);
    let others = changes.len().saturating_sub(MAX_CALLS);
    changes.truncate(MAX_CALLS);
    (changes, others)
}

fn notes(both: [&Profile; 2], basis: TaskBasis) -> Vec<String> {
    let mut notes = vec![
        match basis {
            TaskBasis::Runs => "Several runs each: their means are compared.",
            TaskBasis::Response => "One execution each: what the first thread spent is how long it took.",
            TaskBasis::Threads => {
                "One execution each: the seconds of all threads are compared, of which several pass at the same time."
            }
            TaskBasis::Windows => {
                "Windows, not whole executions: how long they are says nothing, so shares of the time are compared."
            }
        }
        .to_owned(),
    ];
    let [before, after] = both;
    if before.level != after.level {
        notes.push(format!(
            "Measured in different ways ({:?} and {:?}): what one separates the other may hold in one component.",
            before.level, after.level
        ));
    }
    for (name, profile) in ["before", "after"].into_iter().zip(both) {
        if let Some(partial) = &profile.partial {
            notes.push(format!("The one {name} covers only the first {} of its window.", percent(partial.share)));
        }
        if profile.quality.grade >= Grade::C {
            notes.push(format!("The one {name} is of quality {:?}.", profile.quality.grade));
        }
    }
    if before.subject != after.subject {
        notes.push(format!("Before: {}; after: {}.", before.subject, after.subject));
    }
    notes
}

fn headline(change: &TaskChange) -> String {
    let [before, after] = change.whole_seconds;
    let lead = match change.basis {
        TaskBasis::Runs => format!("A run took {} on average, and then {}", seconds(before), seconds(after)),
        TaskBasis::Response => format!("It took {}, and then {}", seconds(before), seconds(after)),
        TaskBasis::Threads => format!("Its threads took {} in all, and then {}", seconds(before), seconds(after)),
        TaskBasis::Windows => return in_windows(change),
    };
    let grown = after - before;
    if grown.abs() < SAME * before.max(after) {
        let most = change.components.iter().find(|part| part.is_clear);
        let most = most.map(|part| format!("; inside, {} went {}", title(&part.id), arrow(part.seconds)));
        return format!("{lead}: as long as before{}.", most.unwrap_or_default());
    }
    let word = if grown > 0.0 { "growth" } else { "gain" };
    let same_way = |part: &&PartChange| part.is_clear && (part.seconds[1] - part.seconds[0]) * grown > 0.0;
    let clauses: Vec<String> = change
        .components
        .iter()
        .filter(same_way)
        .take(2)
        .map(|part| {
            // Where others moved the other way.
            let of = if part.of_change.is_some_and(|of| of > 1.0005) {
                "more than all".to_owned()
            } else {
                part.of_change.map(percent).unwrap_or_default()
            };
            format!("{of} of the {word} is {} ({}{})", title(&part.id), arrow(part.seconds), counts(part))
        })
        .collect();
    if clauses.is_empty() {
        return format!("{lead}, {}; no single component stands out.", signed(grown));
    }
    format!("{lead}, {}: {}.", signed(grown), clauses.join("; "))
}

/// The words of a component; a newer one stays its id.
fn title(id: &str) -> &str {
    Component::find(id).map_or(id, |component| component.def().title)
}

fn in_windows(change: &TaskChange) -> String {
    let clear: Vec<&PartChange> = change.components.iter().filter(|part| part.is_clear).take(3).collect();
    if clear.is_empty() {
        return "The time is divided as before: no component's share moved.".to_owned();
    }
    let clause = |part: &&PartChange| {
        let [before, after] = part.share;
        format!("{} went from {} to {} of the time{}", title(&part.id), percent(before), percent(after), counts(part))
    };
    format!("{}.", clear.iter().map(clause).collect::<Vec<_>>().join("; "))
}

/// `, 200 → 480 times, 4.10 ms → 5.40 ms each`; which of the two it is: more calls or longer ones.
fn counts(part: &PartChange) -> String {
    let ([Some(count), Some(then)], [Some(mean), Some(mean_then)]) = (part.count, part.mean) else {
        return String::new();
    };
    let (count, then) = (number(count as f64), number(then as f64));
    format!(", {count} → {then} times, {} → {} each", seconds(mean), seconds(mean_then))
}

fn arrow([before, after]: [f64; 2]) -> String {
    format!("{} → {}", seconds(before), seconds(after))
}

/// `+1.20 s`.
fn signed(change: f64) -> String {
    format!("{}{}", if change < 0.0 { '−' } else { '+' }, seconds(change.abs()))
}

/// What each part's row shows: before, after, change, its part of the whole change or its points, how many, how long.
pub(crate) fn cells(part: &PartChange, basis: TaskBasis) -> [String; 6] {
    let [before, after] = part.seconds;
    let change = signed(after - before);
    let of = match (basis, part.of_change) {
        (TaskBasis::Windows, _) | (_, None) => points(part.share[1] - part.share[0]),
        (_, Some(of)) => percent(of),
    };
    let pair = |texts: [Option<String>; 2]| match texts {
        [None, None] => "–".to_owned(),
        texts => {
            let [a, b] = texts.map(|text| text.unwrap_or_else(|| "–".to_owned()));
            format!("{a} → {b}")
        }
    };
    let count = pair(part.count.map(|count| count.map(|count| number(count as f64))));
    let mean = pair(part.mean.map(|mean| mean.map(seconds)));
    [seconds(before), seconds(after), change, of, count, mean]
}

/// The heads of these columns.
pub(crate) fn heads(parts: &[PartChange]) -> [&'static str; 6] {
    let of = if parts.iter().any(|part| part.of_change.is_some()) { "of the change" } else { "share" };
    ["before", "after", "change", of, "times", "mean"]
}
