//! What response time would be if a component vanished or were halved and the rest stayed as it is: no promises. Waits that vanish may be
//! replaced by others or take others with them, threads side by side hide each other, and unaccounted time widens the bounds.

use std::collections::BTreeMap;

use rdiag_model::Component;
use rdiag_model::ledger::{Accuracy, Target};
use rdiag_model::profile::{Conversation, Forecast, ForecastRow, Partial};
use rdiag_model::quantity;
use rdiag_model::runs::Runs;

use super::account::{Account, ThreadAccount, clean, share};
use super::serial::{Family, Parts};
use super::slack::Slack;
use super::wakeups::Wakeups;
use super::{AdviceBook, calls, goal, percentile};

/// Components with a row.
const MAX_ROWS: usize = 12;
/// Names of children that are listed.
const MAX_CHILDREN: usize = 5;
/// What a forecast assumes.
const ALL_ELSE_EQUAL: &str =
    "The rest is assumed to stay as it is: other waits may replace what vanishes, or vanish with it.";
/// Where potentially idle waits hold more of the window than this, its shares are not those of one execution.
pub(super) const MOSTLY_IDLE: f64 = 0.2;

/// R, and what it is made of.
pub(super) struct Basis<'a> {
    pub(super) book: &'a AdviceBook,
    /// R.
    pub(super) response: f64,
    /// What one observed second is in seconds of R.
    pub(super) scale: f64,
    /// Components of R, scaled, for one thread or the whole task.
    pub(super) parts: BTreeMap<Component, f64>,
    /// What may be wrong by accounting, scaled.
    pub(super) uncertain: f64,
    /// Standard errors of parts that are estimates, scaled.
    pub(super) errors: BTreeMap<Component, f64>,
    /// Seconds of R that observing took, in system time.
    pub(super) observing: f64,
    /// The thread that adds up to R; none where threads run side by side, or R is the mean of several runs.
    pub(super) serial: Option<&'a ThreadAccount<'a>>,
    /// It stands for all threads of its process.
    pub(super) as_one: bool,
    /// Children that ran alone while that thread waited for them: what they did is in `parts` in place of the wait.
    pub(super) children: Vec<String>,
    /// Of the parts: happened in threads that were joined. Others that ran beside these may have held it up as long.
    pub(super) joined: BTreeMap<Component, f64>,
    /// What may take savings of that thread, and of those on its path.
    pub(super) slack: Option<Slack<'a>>,
    /// What the waits for a CPU follow.
    pub(super) wakeups: Wakeups,
    /// CPU time of the calls that a component's waits are in, scaled: it goes with them if the calls are not made.
    pub(super) calls: BTreeMap<Component, f64>,
    /// Whether the parts add up to R; else they run side by side.
    pub(super) adds_up: bool,
    /// R is the time of one execution, and not just that of a window.
    pub(super) is_execution: bool,
    /// The account ended before the window did.
    pub(super) is_beginning: bool,
    /// Why shares of the window are not those of an execution.
    pub(super) doubt: Option<String>,
}

/// What a forecast is about beside the account.
pub(super) struct Circumstances<'a> {
    pub(super) target: &'a Target,
    /// CPU seconds that observing took in each second.
    pub(super) observing: f64,
    pub(super) conversation: &'a Conversation,
    pub(super) book: &'a AdviceBook,
}

/// The forecast.
pub(super) fn forecast(
    account: &Account<'_>,
    told: &Circumstances<'_>,
    runs: Option<&Runs>,
    partial: Option<&Partial>,
) -> Forecast {
    let &Circumstances { observing, conversation, book, .. } = told;
    let mean = runs.and_then(|runs| mean_run(runs, conversation, book));
    let number = mean.as_ref().and(runs).map(|runs| runs.count);
    let mut basis = mean.unwrap_or_else(|| basis(account, told));
    if conversation.measured {
        let in_calls = basis.parts.get(&Component::CpuSys).copied().unwrap_or(0.0);
        basis.observing = (clean(observing) * basis.response).min(in_calls);
    }
    basis.wakeups = match basis.serial {
        Some(thread) if basis.as_one => {
            let same = |own: &&ThreadAccount<'_>| own.thread.pid == thread.thread.pid;
            Wakeups::of(&account.threads.iter().filter(same).collect::<Vec<_>>())
        }
        Some(thread) => Wakeups::of(&[thread]),
        None => Wakeups::of(&account.threads.iter().collect::<Vec<_>>()),
    };
    if basis.serial.is_some() {
        let scaled = |(component, seconds)| (component, seconds * basis.scale);
        basis.calls = calls::cpu_time_of_waits(account).into_iter().map(scaled).collect();
    }
    // Runs that were observed to their end are whole ones, whenever that was.
    if let Some(partial) = partial.filter(|_| number.is_none()) {
        basis.doubt = Some(format!(
            "the account covers the first {} of the {} only, so its shares are not those of one execution; give it a larger \
             --budget",
            quantity::seconds(account.elapsed),
            quantity::seconds(partial.window_seconds)
        ));
        basis.is_beginning = true;
    }
    let mut rows: Vec<ForecastRow> = basis
        .parts
        .iter()
        .filter(|(_, seconds)| **seconds >= book.mentioned.forecast * basis.response && **seconds > 0.0)
        .map(|(component, seconds)| row(*component, *seconds, &basis, account, conversation))
        .collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.id.cmp(&b.id)));
    rows.truncate(MAX_ROWS);
    let ranges = ranges(&mut rows, &basis);
    Forecast {
        basis: words(&basis, account, conversation, number),
        response_seconds: basis.response,
        thread: basis.serial.map(|thread| thread.thread.tid),
        as_one: basis.as_one,
        children: basis.children.clone(),
        piped_seconds: basis.slack.as_ref().map(|slack| slack.piped() * basis.scale).filter(|seconds| *seconds > 0.0),
        rows,
        ranges,
        goal: conversation.goal_seconds.map(|goal| match conversation.goal_share {
            Some(share) => {
                let of = runs.and_then(|runs| runs.percentile.as_ref());
                percentile::goal(of, share, goal, runs.map_or(0, |runs| runs.count))
            }
            None => goal::goal(goal, &basis),
        }),
    }
}

/// The mean of all runs; none without any. Its parts add up to it as those of each run do.
fn mean_run<'a>(runs: &Runs, conversation: &Conversation, book: &'a AdviceBook) -> Option<Basis<'a>> {
    let observed = runs.response.map(|response| response.mean).filter(|mean| *mean > 0.0)?;
    let response = conversation.now_seconds.filter(|now| now.is_finite() && *now > 0.0).unwrap_or(observed);
    let scale = share(response, observed);
    let parts: BTreeMap<Component, f64> = runs.components.iter().map(|row| (row.id, row.spread.mean * scale)).collect();
    let uncertain = (response - parts.values().sum::<f64>()).abs();
    Some(Basis {
        book,
        response,
        scale,
        parts,
        uncertain,
        errors: BTreeMap::new(),
        observing: 0.0,
        serial: None,
        as_one: false,
        children: Vec::new(),
        joined: BTreeMap::new(),
        slack: None,
        wakeups: Wakeups::default(),
        calls: BTreeMap::new(),
        adds_up: true,
        is_execution: true,
        is_beginning: false,
        doubt: None,
    })
}

fn basis<'a>(account: &'a Account<'a>, told: &Circumstances<'a>) -> Basis<'a> {
    let &Circumstances { target, conversation, book, .. } = told;
    let serial = serial_thread(account, target);
    let observed = serial.map_or(account.elapsed, |thread| thread.seconds);
    let response = conversation.now_seconds.filter(|now| now.is_finite() && *now > 0.0);
    let scale = response.map_or(1.0, |response| share(response, observed));
    let mut parts: BTreeMap<Component, f64> = BTreeMap::new();
    let (mut children, mut joined, mut slack, mut as_one) = (Vec::new(), BTreeMap::new(), None, false);
    let mut add = |component: Component, seconds: f64| *parts.entry(component).or_default() += seconds * scale;
    let errors;
    let uncertain = if let Some(first) = serial {
        let family = Family::new(account);
        as_one = family.is_as_one(first.thread.pid);
        let (of_first, walk) = family.path(first);
        of_first.iter().for_each(|(key, seconds)| add(key.component, *seconds));
        children = names_of(&of_first);
        for (key, seconds) in of_first.iter().filter(|(key, _)| key.joined) {
            *joined.entry(key.component).or_default() += seconds * scale;
        }
        errors = errors_of(walk.steps.iter().map(|step| (step.own, step.weight * step.on_cpu * scale)));
        slack = Some(Slack::new(account, &family, first, walk));
        (first.seconds - of_first.values().sum::<f64>()).abs().max(first.residual.abs())
    } else {
        errors = errors_of(account.threads.iter().map(|own| (own, scale)));
        account
            .threads
            .iter()
            .flat_map(|thread| &thread.parts)
            .for_each(|(component, seconds)| add(*component, *seconds));
        account.unaccounted + account.over_accounted
    } * scale;
    let idle: f64 = account.sum_of(|component| account.is_idle(component));
    let doubt = (target.command.is_none() && idle > MOSTLY_IDLE * account.total).then(|| {
        format!(
            "{} of the observed time was waiting for work, so its shares are not those of one execution; observe one \
             execution (`rdiag run method-r -- COMMAND`), or a window in which the task is busy all the time",
            quantity::percent(share(idle, account.total))
        )
    });
    Basis {
        book,
        response: response.unwrap_or(observed),
        scale,
        parts,
        uncertain,
        errors,
        observing: 0.0,
        adds_up: serial.is_some(),
        serial,
        as_one,
        children,
        joined,
        slack,
        wakeups: Wakeups::default(),
        calls: BTreeMap::new(),
        is_execution: response.is_some(),
        is_beginning: false,
        doubt,
    }
}

/// Standard errors by component, of threads of which so much counts: those of one thread have nothing to do with another's.
fn errors_of<'t>(threads: impl Iterator<Item = (&'t ThreadAccount<'t>, f64)>) -> BTreeMap<Component, f64> {
    let mut variances: BTreeMap<Component, f64> = BTreeMap::new();
    for (own, weight) in threads {
        for part in &own.thread.parts {
            let (Accuracy::Estimate(Some(error)) | Accuracy::Sampled(_, error)) = part.accuracy else { continue };
            *variances.entry(part.component).or_default() += (clean(error) * weight).powi(2);
        }
    }
    variances.into_iter().map(|(component, variance)| (component, variance.sqrt())).collect()
}

/// The children whose parts are in the place of a wait for them, those with the most time first.
fn names_of(parts: &Parts<'_>) -> Vec<String> {
    let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
    // A wait for several at once stays one.
    let own = parts.iter().filter(|(key, _)| !key.child.is_empty() && key.component != Component::WaitChild);
    own.for_each(|(key, part)| *seconds.entry(key.child).or_default() += part);
    let mut names: Vec<(&str, f64)> = seconds.into_iter().collect();
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    names.into_iter().take(MAX_CHILDREN).map(|(name, _)| name.to_owned()).collect()
}

/// The one thread whose time is the elapsed time: the only one, or the first of a command that was started for this.
fn serial_thread<'a>(account: &'a Account<'a>, target: &Target) -> Option<&'a ThreadAccount<'a>> {
    if let [only] = account.threads.as_slice() {
        return Some(only).filter(|thread| thread.thread.stands_for == 1);
    }
    account.first_of(target)
}

/// Why rows are ranges, each reason once; the rows get its number.
fn ranges(rows: &mut [ForecastRow], basis: &Basis<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        for why in basis.why_a_range(row.id, row.seconds) {
            let at = all.iter().position(|known| *known == why).unwrap_or(all.len());
            if at == all.len() {
                all.push(why);
            }
            row.ranges.push(at as u64 + 1);
        }
    }
    all
}

fn row(
    id: Component,
    seconds: f64,
    basis: &Basis<'_>,
    account: &Account<'_>,
    conversation: &Conversation,
) -> ForecastRow {
    // What can be gained is as observed: without what observing took, it is less as well before.
    let observed = basis.bounds(id, seconds, 0.0, account);
    let [vanished, halved] = [0.0, 0.5].map(|kept| {
        let [low, high] = basis.bounds(id, seconds, kept, account);
        [(low - basis.observing_left(id, kept)).max(0.0), high]
    });
    ForecastRow {
        id,
        seconds,
        vanished,
        halved,
        speed_up: (observed[0] > basis.response * 1e-6).then(|| basis.response / observed[0]),
        saving: basis.book.saving(id),
        words: basis.book.says(id).to_owned(),
        ranges: Vec::new(),
        per_day_seconds: conversation
            .per_day
            .filter(|_| basis.is_execution && basis.doubt.is_none())
            .map(|times| (basis.response - observed[0]) * times.clamp(0.0, 1e12)),
    }
}

fn words(basis: &Basis<'_>, account: &Account<'_>, conversation: &Conversation, runs: Option<u64>) -> String {
    let response = quantity::seconds(basis.response);
    let of = match (basis.is_execution, conversation.measured) {
        (true, true) => format!("the {response} that this execution took"),
        (true, false) => format!("the {response} that one execution takes"),
        (false, _) => format!("the {response} that were observed"),
    };
    let mut words = match basis.serial {
        None if runs.is_some() => format!(
            "Forecast from {response}, the mean of {} runs, whose parts add up to it. {ALL_ELSE_EQUAL}",
            runs.unwrap_or(0)
        ),
        Some(_) if account.threads.len() == 1 => {
            format!("One thread, so its parts add up to {of}. {ALL_ELSE_EQUAL}")
        }
        Some(thread) if basis.as_one => format!(
            "Forecast from {of}, for all threads of process {} ({}) taken as one, since Go moves the work between them{}. It was \
             on a CPU while any of them was; what they did beside each other is divided by their sums, and of the rest waits of \
             threads that were not parked come first. {ALL_ELSE_EQUAL}",
            thread.thread.pid,
            super::names::cut(&thread.thread.comm),
            match basis.children.as_slice() {
                [] => String::new(),
                children => format!(", and what these waited for ({})", children.join(", ")),
            }
        ),
        Some(thread) if !basis.joined.is_empty() => format!(
            "Forecast from {of}, for {}, whose time spans all of it, and what it waited for ({}): children, the other ends of their \
             pipes and sockets, and threads that ended one of its waits and then themselves. {ALL_ELSE_EQUAL}",
            thread.name(),
            basis.children.join(", ")
        ),
        Some(thread) if !basis.children.is_empty() => format!(
            "Forecast from {of}, for {}, whose time spans all of it, and the children that ran alone while it waited for \
             them ({}); what these wait for from other processes is in their own profiles. {ALL_ELSE_EQUAL}",
            thread.name(),
            basis.children.join(", ")
        ),
        Some(thread) => format!(
            "Forecast from {of}, for {}, whose time spans all of it; what it waits for from other threads and processes \
             is in their own profiles. {ALL_ELSE_EQUAL}",
            thread.name()
        ),
        None => format!(
            "Several threads run side by side and their dependencies are not known: of {of}, each gain lies between \
             nothing and the bound given here."
        ),
    };
    if basis.uncertain > 0.005 * basis.response {
        words.push_str(&format!(" Unaccounted time widens all bounds by {}.", quantity::seconds(basis.uncertain)));
    }
    if basis.observing > 0.005 * basis.response {
        let took = quantity::seconds(basis.observing);
        words.push_str(&format!(" Observing took at most {took} of it, which the lower bounds leave out."));
    }
    if let Some(doubt) = basis.doubt.as_ref().filter(|_| basis.is_execution || basis.is_beginning) {
        words.push_str(&format!(" Beware: {doubt}."));
    }
    words
}
