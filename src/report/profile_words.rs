//! A profile in figures and words that all formats share.

use rdiag_model::ledger::SlowCall;
use rdiag_model::profile::{
    CallProfile, CallRow, ComponentRow, DelayRow, Forecast, ForecastRow, NotFollowed, Piece, ThreadRow,
};
use rdiag_model::quantity::{number, percent, seconds};
use rdiag_model::{Component, Profile, Reason};

use super::words::{counted, plural};

/// What stands where a level cannot know.
pub(super) const NOT_KNOWN: &str = "–";

/// What was asked. A time that was merely measured is no question.
pub(super) fn asked(profile: &Profile) -> Option<String> {
    let (told, asked) = (&profile.conversation, profile.answer.asked.as_ref()?);
    if told.task.is_some() || told.for_whom.is_some() {
        return Some(asked.clone());
    }
    (told.goal_seconds.is_some() || !told.measured).then(|| format!("it {asked}"))
}

/// What comes before all that an account says: that it ended early, or that the more exact one did; and its name.
pub(super) fn early_end(profile: &Profile) -> Option<(&'static str, &String)> {
    let limits = &profile.answer.limits;
    if profile.partial.is_some() {
        return Some(("Early end", limits.first()?));
    }
    profile.refused.first().filter(|refused| refused.gap.reason == Reason::ShortWindow)?;
    Some(("From samples", limits.iter().find(|limit| limit.starts_with("A more exact account"))?))
}

/// What changes how far the figures can be trusted and does not stand above them already.
pub(super) fn untold_doubts(profile: &Profile) -> Vec<&String> {
    untold(profile, &profile.answer.doubts)
}

/// All that limits the conclusion and does not stand elsewhere on a terminal: above the table, or as its quality.
pub(super) fn untold_limits(profile: &Profile) -> Vec<&String> {
    untold(profile, &profile.answer.limits)
}

fn untold<'p>(profile: &Profile, limits: &'p [String]) -> Vec<&'p String> {
    let above = early_end(profile).map(|(_, limit)| limit);
    let of_runs = profile.runs.as_ref().map(|runs| runs.limits.as_slice()).unwrap_or_default();
    let told = |limit: &String| above == Some(limit) || of_runs.contains(limit) || limit.starts_with("Quality ");
    limits.iter().filter(|limit| !told(limit)).collect()
}

/// What is to be understood before the table is read.
pub(super) fn how_to_read(profile: &Profile) -> String {
    let what = if profile.is_of_requests() { "of these runs" } else { "that a thread lived" };
    format!(
        "Every second {what} is in exactly one line, the largest first; together they are 100%. Only what is large here is \
         worth changing."
    )
}

/// What the waits below the line are.
pub(super) const IDLE: &str = "often waiting for work, so no part of a response time";

/// A line of the table that sums up to 100 %.
pub(super) struct Line {
    /// The component's id; of the last lines, their names.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) share: f64,
    pub(super) percent: String,
    pub(super) seconds: String,
    pub(super) count: String,
    pub(super) mean: String,
    pub(super) p99: String,
    pub(super) max: String,
    pub(super) plus_minus: String,
    /// A component; the others are the residuals.
    pub(super) component: Option<Component>,
    pub(super) idle: bool,
}

/// The lines of the table, the residuals last: components + unaccounted − over-accounted = T.
pub(super) fn lines(profile: &Profile) -> Vec<Line> {
    let mut lines: Vec<Line> = profile.components.iter().map(line).collect();
    let share = |part: f64| if profile.task_seconds > 0.0 { part / profile.task_seconds } else { 0.0 };
    let residual = |id: &str, title: &str, part: f64| Line {
        id: id.into(),
        title: title.into(),
        share: share(part),
        percent: percent(share(part)),
        seconds: seconds(part),
        count: String::new(),
        mean: String::new(),
        p99: String::new(),
        max: String::new(),
        plus_minus: String::new(),
        component: None,
        idle: false,
    };
    let title = match profile.population.not_followed {
        Some(NotFollowed { threads, .. }) => format!("unaccounted, with {threads} threads not followed"),
        None => "unaccounted".to_owned(),
    };
    lines.push(residual("unaccounted", &title, profile.unaccounted_seconds));
    if profile.over_accounted_seconds > 0.0 {
        lines.push(residual("over-accounted", "over-accounted", -profile.over_accounted_seconds));
    }
    lines
}

/// Below this share of the time, single waits are not those that the line is the sum of.
const COVERED: f64 = 0.95;

fn line(row: &ComponentRow) -> Line {
    // Of some waits there was no room for the lengths: figures of the others would not add up to the line's time.
    let told = row.mean.unwrap_or(0.0) * row.count.unwrap_or(0) as f64 + row.edge_seconds;
    let covered = row.count.is_none() || told >= COVERED * row.seconds;
    let time = |value: Option<f64>| value.filter(|_| covered).map_or_else(|| NOT_KNOWN.to_owned(), seconds);
    Line {
        id: row.id.id().into(),
        title: row.title.clone(),
        share: row.share,
        percent: percent(row.share),
        seconds: seconds(row.seconds),
        count: row.count.filter(|_| covered).map_or_else(|| NOT_KNOWN.to_owned(), |count| times(row, count)),
        mean: time(row.mean),
        p99: time(row.p99),
        max: time(row.max),
        plus_minus: row.plus_minus.map(|error| format!("±{}", seconds(error))).unwrap_or_default(),
        component: Some(row.id),
        idle: row.idle,
    }
}

/// `171 + 1 open`: one that was under way at an edge is in the time, and in no mean.
fn times(row: &ComponentRow, count: u64) -> String {
    let open = number(row.open as f64);
    match (row.edge_seconds > (1.0 - COVERED) * row.seconds && row.open > 0, count) {
        (false, _) => number(count as f64),
        (true, 0) => format!("{open} open"),
        (true, _) => format!("{} + {open} open", number(count as f64)),
    }
}

/// Whether single waits were seen at all: else there are no counts and means to show.
pub(super) fn has_counts(profile: &Profile) -> bool {
    profile.components.iter().any(|row| row.count.is_some())
}

/// Whether some figures are estimates with a known error.
pub(super) fn has_errors(profile: &Profile) -> bool {
    profile.components.iter().any(|row| row.plus_minus.is_some())
}

/// `1 thread over 10.0 s`: what the last line of the table is the sum of.
pub(super) fn sum(profile: &Profile) -> String {
    let population = &profile.population;
    let (one, many) = if profile.is_of_requests() { ("run", "runs") } else { ("thread", "threads") };
    let threads = plural(usize::try_from(population.seen).unwrap_or(usize::MAX), one, many);
    let mean = match population.seen {
        0 | 1 => String::new(),
        _ => format!(", added up ({} at once)", number(population.mean)),
    };
    let of = profile.partial.as_ref();
    let of = of.map(|partial| format!(", the first {} of {}", percent(partial.share), seconds(partial.window_seconds)));
    format!("{threads} over {}{}{mean}", seconds(profile.elapsed_seconds), of.unwrap_or_default())
}

/// That the verdict is about one thread and the table about all of them, where that is so: two shares of one wait are of two wholes.
pub(super) fn bases(profile: &Profile) -> Option<String> {
    let of_command = profile.target.command.is_some() && profile.partial.is_none() && profile.population.seen > 1;
    let has_runs = profile.runs.as_ref().is_some_and(|runs| !runs.headline.is_empty());
    let forecast = &profile.forecast;
    let tid = forecast.thread.filter(|_| of_command && !has_runs && !forecast.rows.is_empty())?;
    let thread = profile.threads.iter().find(|thread| thread.tid == tid)?;
    let (all, one) = (seconds(profile.task_seconds), seconds(forecast.response_seconds));
    let of = if forecast.as_one {
        format!("that {} took, its threads taken as one", thread.comm)
    } else {
        format!("of the first one ({})", thread.comm)
    };
    // Where the others did nothing that is to be seen, both shares are of one time.
    (all != one).then(|| {
        let seen = profile.population.seen;
        format!("Shares in the table are of {all}, the time of {seen} threads added up; those in the verdict are of the {one} {of}.")
    })
}

/// What remains without waiting for work; none if there is no such waiting.
pub(super) fn busy(profile: &Profile) -> Option<String> {
    (profile.busy.idle_seconds > 0.0).then(|| {
        format!(
            "Without the lines marked * ({IDLE}), {} remain: {} of all.",
            seconds(profile.busy.seconds),
            percent(profile.busy.share)
        )
    })
}

/// `executing 30.0%, runnable 10.0% …`.
pub(super) fn states(profile: &Profile) -> String {
    let shown = profile.states.iter().map(|row| format!("{} {}", row.state.word(), percent(row.share)));
    shown.collect::<Vec<_>>().join(" · ")
}

/// What the kernel counted of its own work, a sentence each.
pub(super) fn delays(profile: &Profile) -> Vec<String> {
    let sentence = |row: &DelayRow| {
        let threads =
            if row.threads.len() > 1 { format!(" By thread: {}.", pieces(&row.threads, 3)) } else { String::new() };
        format!(
            "Counted by the kernel: {} of {}, {}, {} on average; {}.{threads}",
            seconds(row.seconds),
            row.title,
            counted(row.count, "time", "times"),
            seconds(row.mean),
            row.within,
        )
    };
    profile.delays.iter().map(sentence).collect()
}

/// `vda 93.0%, vdb 7.0%`; empty if there is nothing to tell.
pub(super) fn pieces(pieces: &[Piece], most: usize) -> String {
    let shown = pieces.iter().take(most).map(|piece| match (piece.others, piece.name.as_str()) {
        (0, "") => format!("not known {}", percent(piece.share)),
        (0, name) => format!("{name} {}", percent(piece.share)),
        (others, _) => format!("{others} others {}", percent(piece.share)),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Components whose functions stand below the table.
const CODE_OF: usize = 2;
/// The least that they have of the whole; where waiting for work is most of that, of what remains without it, and a hundredth of the whole.
const LEAST_OF_ALL: f64 = 0.1;
const LEAST_BESIDE_IDLE: f64 = 0.01;

/// In which functions the largest components are, each with its title: first what is no waiting for work. Of that one place is kept, since
/// a program that hangs seems to wait for work, too.
pub(super) fn code(profile: &Profile) -> Vec<String> {
    let known = || profile.components.iter().filter(|row| !row.code.is_empty());
    let is_large =
        |row: &&ComponentRow| row.share >= LEAST_BESIDE_IDLE && row.seconds >= LEAST_OF_ALL * profile.busy.seconds;
    let busy = known().filter(|row| !row.idle).filter(is_large);
    let idle = || known().filter(|row| row.idle && row.share >= LEAST_OF_ALL);
    let kept = idle().count().min(1);
    let large = busy.take(CODE_OF - kept).chain(idle()).take(CODE_OF);
    large.map(|row| format!("{}: {}", row.title, pieces(&row.code, 3))).collect()
}

/// `1.01 s at 3.20 s in fsync by postgres (thread 11), ended by …`.
pub(super) fn slow(call: &SlowCall) -> String {
    let mut text = if call.open { format!("more than {}", seconds(call.seconds)) } else { seconds(call.seconds) };
    text.push_str(&format!(" at {}", seconds(call.at)));
    if !call.call.is_empty() {
        text.push_str(&format!(" in {}", call.call));
    }
    if !call.key.is_empty() {
        text.push_str(&format!(" [{}]", call.key));
    }
    text.push_str(&format!(" by {} (thread {})", call.comm, call.tid));
    match call.waker.as_ref().map(|waker| waker.comm.as_str()) {
        Some("") | None => {}
        Some(waker) => text.push_str(&format!(", ended by {waker}")),
    }
    text
}

/// Who ended the waits of a component, `name 5.90 s`.
pub(super) fn wakers(profile: &Profile, id: Component, most: usize) -> String {
    let own = profile.wakers.iter().filter(|row| row.component == id).take(most);
    own.map(|row| format!("{} {}", row.name, percent(row.share))).collect::<Vec<_>>().join(", ")
}

/// Two bounds: `4.00 s`, or `3.00 to 5.00 s`.
pub(super) fn bounds([low, high]: [f64; 2]) -> String {
    let (a, b) = (seconds(low), seconds(high));
    if a == b { a } else { format!("{a} – {b}") }
}

/// ` [1, 2]`: the numbers of the sentences that say why a forecast is a range; "" where it is none.
pub(super) fn marks(row: &ForecastRow) -> String {
    let numbers: Vec<String> = row.ranges.iter().map(u64::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!(" [{}]", numbers.join(", ")) }
}

/// Those sentences of the first rows, with their numbers.
pub(super) fn ranges(forecast: &Forecast, rows: usize) -> Vec<(String, &String)> {
    let is_marked = |number: u64| forecast.rows.iter().take(rows).any(|row| row.ranges.contains(&number));
    let all = (1..).zip(&forecast.ranges).filter(|(number, _)| is_marked(*number));
    all.map(|(number, why)| (format!("[{number}]"), why)).collect()
}

/// What the waiting of a component would cost less, `10.0 s → 4.00 s`.
pub(super) fn speed_up(row: &ForecastRow) -> String {
    match row.speed_up {
        Some(factor) if factor < 100.0 => format!("at most {factor:.1}×"),
        Some(_) => "over 100×".to_owned(),
        None => NOT_KNOWN.to_owned(),
    }
}

/// That calls were watched for a part of the time only, with a space before it; "" if they were all the time.
pub(super) fn watched(calls: &CallProfile) -> String {
    let text = |watched| {
        format!(
            " Calls were watched in {} of the time, in short parts spread over it or all along at its beginning: counts and seconds are \
             scaled to the whole (--param calls_for=24h watches all the time).",
            percent(watched)
        )
    };
    calls.watched_share.map(text).unwrap_or_default()
}

/// Failures of a call, `EAGAIN 30000`.
pub(super) fn errors(row: &CallRow) -> String {
    row.errors.iter().take(3).map(|(error, count)| format!("{error} {count}")).collect::<Vec<_>>().join(", ")
}

/// `postgres (11)`; when it was born and ended is to be seen in its timeline.
pub(super) fn thread(row: &ThreadRow) -> String {
    if row.tid == 0 { row.comm.clone() } else { format!("{} ({})", row.comm, row.tid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile_testing::{napping, profile_of};
    use rdiag_model::Target;
    use rdiag_model::profile::Conversation;

    #[test]
    fn functions_stand_below_the_table_of_what_is_no_waiting_for_work_first() {
        let mut profile =
            profile_of(&crate::accounts::ledger(10.0, napping("")), &Target::default(), Conversation::default());
        let row = profile.components[0].clone();
        let piece = Piece {
            name: "main (app)".into(),
            seconds: 1.0,
            share: 1.0,
            count: None,
            mean: None,
            max: None,
            others: 0,
        };
        let mut told = |rows: &[(&str, f64, bool)]| {
            let of = |(title, share, idle): &(&str, f64, bool)| {
                let (title, code) = ((*title).to_owned(), vec![piece.clone()]);
                ComponentRow { title, share: *share, seconds: 100.0 * share, idle: *idle, code, ..row.clone() }
            };
            profile.components = rows.iter().map(of).collect();
            profile.busy.seconds = profile.components.iter().filter(|row| !row.idle).map(|row| row.seconds).sum();
            code(&profile).iter().map(|said| said.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(told(&[("poll", 0.7, true), ("user", 0.2, false), ("disk", 0.1, false)]), ["user", "poll"]);
        assert_eq!(told(&[("user", 0.7, false), ("disk", 0.2, false), ("poll", 0.1, true)]), ["user", "poll"]);
        assert_eq!(told(&[("user", 0.7, false), ("disk", 0.2, false), ("poll", 0.09, true)]), ["user", "disk"]);
        assert_eq!(told(&[("poll", 0.97, true), ("user", 0.029, false), ("disk", 0.001, false)]), ["user", "poll"]);
        // Of the rest, much; of the whole, nothing.
        assert_eq!(told(&[("poll", 0.6, true), ("futex", 0.395, true), ("user", 0.005, false)]), ["poll", "futex"]);
        assert_eq!(told(&[("poll", 0.5, true), ("user", 0.47, false), ("disk", 0.03, false)]), ["user", "poll"]);
    }
}
