//! Method R: a ledger of where a task's time went → its response-time profile.
//!
//! The best account of the window is added up, and nothing is guessed: what is left over and what is counted twice are both shown
//! (`account.rs`); a grade follows from them and from other accounts of the same time (`quality.rs`).
//! Forecasts are bounds (`forecast.rs`, `bounds.rs`). Repeated runs and requests are compared with each other (`each.rs`).
//!
//! Nothing here reads the machine. Ledgers may come from untrusted files, so no figure is taken to be plausible: absurd ones count
//! as nothing and are said to be there, none makes a sum infinite.

mod account;
mod advice;
#[cfg(test)]
mod advice_tests;
mod answer;
mod beside;
#[cfg(test)]
mod beside_tests;
mod beyond;
mod book;
mod bounds;
mod calls;
mod chains;
mod clocks;
mod components;
mod delays;
mod each;
#[cfg(test)]
mod each_tests;
mod forecast;
#[cfg(test)]
mod forecast_errors_tests;
#[cfg(test)]
mod forecast_tests;
mod goal;
mod keys;
#[cfg(test)]
mod keys_tests;
mod limits;
mod names;
mod percentile;
mod quality;
mod selection;
mod selftest;
mod serial;
mod skew;
mod slack;
#[cfg(test)]
mod slack_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod together;
mod wakeups;

use std::collections::BTreeMap;

use account::{Account, share};
use forecast::Circumstances;
use rdiag_model::component::ThreadState;
use rdiag_model::ledger::{ComponentStacks, Ledger, Level, MAX_TIMELINES, Target, Timeline, WakerEdge, WakerKind};
use rdiag_model::probe::{Frame, Stack, Stacks};
use rdiag_model::profile::{
    Answer, Busy, Conversation, Forecast, Partial, Profile, Refused, StateRow, ThreadRow, WakerRow,
};
use rdiag_model::{Component, Unit};
use selection::Selection;

pub use advice::{Cpus, advice};
pub use book::{Advice, AdviceBook, Case, Mentioned};

/// Threads with a row of their own.
const MAX_THREAD_ROWS: usize = 50;
/// Rows of wakers.
const MAX_WAKERS: usize = 30;
/// Stacks, enough for a flame graph.
const MAX_STACKS: usize = 1_000;
/// Frames of one stack.
const MAX_DEPTH: usize = 256;
/// Notes and reasons for losses.
const MAX_NOTES: usize = 40;

/// What a profile is made of.
#[derive(Debug)]
pub struct Input<'l> {
    /// The account.
    pub ledger: &'l Ledger,
    /// The probe or collector that made it.
    pub source: &'l str,
    /// Better ways that were not taken.
    pub refused: Vec<Refused>,
    /// Index of its window.
    pub window: usize,
    /// Its length.
    pub window_seconds: f64,
    /// Seconds that the machine was suspended within the window.
    pub suspended_seconds: f64,
    /// Who was to be observed.
    pub target: &'l Target,
    /// What the user told.
    pub conversation: Conversation,
    /// How busy the CPUs were meanwhile; none if that was not measured.
    pub cpus: Option<Cpus>,
    /// CPU seconds that observing took on the host in each second; 0 if that was not measured.
    pub observing: f64,
    /// What is said of components.
    pub advice: &'l AdviceBook,
}

/// The profile of a ledger.
#[must_use]
pub fn profile(input: Input<'_>) -> Profile {
    let ledger = input.ledger;
    // Samples know of no marks: they are of all that the process does.
    let requests = input.target.marks.is_some() && ledger.level == Level::L3;
    let account = Account::new(ledger, requests);
    let mut conversation = input.conversation;
    let partial = ledger.stopped.as_ref().map(|why| Partial {
        window_seconds: account::clean(input.window_seconds).max(account.elapsed),
        share: share(account.elapsed, account::clean(input.window_seconds)).min(1.0),
        why: why.clone(),
    });
    let mentioned = &input.advice.mentioned;
    let runs = input.target.each.then(|| each::runs(&account, ledger, input.target, &conversation, mentioned));
    if let Some(runs) = runs.as_ref().filter(|_| conversation.now_seconds.is_none()) {
        conversation.now_seconds = runs.response.map(|response| response.mean);
        conversation.measured = runs.response.is_some();
    } else if input.target.command.is_some() && conversation.now_seconds.is_none() && partial.is_none() {
        // The beginning of an execution is not how long it took.
        // The window may go on for a moment after its end.
        conversation.now_seconds = Some(account.first_of(input.target).map_or(account.elapsed, |first| first.seconds));
        conversation.measured = true;
    }
    let quality = quality::quality(&account, ledger);
    let components = components::rows(&account, ledger);
    let idle_seconds = account.sum_of(|component| account.is_idle(component));
    let all: f64 = components.iter().map(|row| row.seconds).sum();
    let busy_seconds = (all - idle_seconds).max(0.0);
    let forecast = forecast::forecast(
        &account,
        &Circumstances {
            target: input.target,
            observing: input.observing,
            conversation: &conversation,
            book: input.advice,
        },
        runs.as_ref(),
        partial.as_ref(),
    );
    let (threads, other_threads) = thread_rows(&account, &forecast);
    let mut profile = Profile {
        level: ledger.level,
        source: input.source.to_owned(),
        refused: input.refused,
        window: input.window,
        subject: answer::subject(&account, input.target, ledger.level),
        conversation,
        target: input.target.clone(),
        answer: Answer::default(),
        elapsed_seconds: account.elapsed,
        task_seconds: account.total,
        partial,
        population: account.population(ledger),
        left_behind: beyond::left_behind(&account, input.target),
        unaccounted_seconds: account.unaccounted,
        over_accounted_seconds: account.over_accounted,
        delays: delays::rows(&account),
        quality,
        states: states(&account),
        busy: Busy { seconds: busy_seconds, share: share(busy_seconds, account.total), idle_seconds },
        threads,
        other_threads,
        calls: calls::profile(ledger, &account),
        runs,
        forecast,
        wakers: wakers(ledger, &account),
        chains: chains::chains(ledger, &account, input.target, mentioned.chain),
        timelines: Vec::new(),
        stacks: stacks(ledger),
        components,
        lost: ledger.lost.iter().take(MAX_NOTES).map(|(reason, count)| (reason.clone(), *count)).collect(),
        notes: notes(ledger, input.suspended_seconds),
    };
    // A line would be one request, and nothing else of its thread.
    if !requests {
        profile.timelines = timelines(ledger, &profile.threads);
    }
    profile.answer = answer::answer(&profile, mentioned);
    next_steps(&mut profile, &account, input.cpus, input.advice);
    profile
}

/// What to do about the components that matter.
fn next_steps(profile: &mut Profile, account: &Account<'_>, cpus: Option<Cpus>, book: &AdviceBook) {
    let selection = Selection::of(account, &profile.target, profile.partial.is_some());
    let pre_empted = account.component(Component::RunqPreempt);
    for row in profile.components.iter_mut().filter(|row| row.share >= book.mentioned.next_steps) {
        let Some(cpus) = cpus.filter(|cpus| advice::is_slow_wake_up(row, pre_empted, *cpus)) else {
            // Probes of threads that wait show nothing of goroutines that do.
            let is_parked = row.calls.first().is_some_and(|call| call.name.starts_with("goroutine"));
            let of = if is_parked { Component::WaitParked } else { row.id };
            row.next = advice::on_peer(row)
                .into_iter()
                .chain(advice::next_of(book, of, (row, profile.stacks.as_ref()), &selection))
                .collect();
            continue;
        };
        let (words, next) = advice::on_slow_wake_ups(book, cpus, &selection);
        row.next = next;
        for forecast in profile.forecast.rows.iter_mut().filter(|forecast| forecast.id == row.id) {
            forecast.words.clone_from(&words);
        }
    }
}

/// The roll-up to thread states.
fn states(account: &Account<'_>) -> Vec<StateRow> {
    let row = |state: ThreadState| {
        let seconds = account.sum_of(|component| account.state(component) == state);
        StateRow { state, seconds, share: share(seconds, account.total) }
    };
    ThreadState::ALL.into_iter().map(row).collect()
}

/// The threads with the most time outside idle components first, the one that the forecast is about among them, and how many are left out.
fn thread_rows(account: &Account<'_>, forecast: &Forecast) -> (Vec<ThreadRow>, u64) {
    let mut rows: Vec<ThreadRow> = account.threads.iter().map(account::ThreadAccount::row).collect();
    rows.sort_by(|a, b| {
        b.busy_seconds.total_cmp(&a.busy_seconds).then(b.seconds.total_cmp(&a.seconds)).then(a.tid.cmp(&b.tid))
    });
    let left_out = account.threads.len().saturating_sub(MAX_THREAD_ROWS) as u64;
    let about = rows.iter().position(|row| forecast.thread == Some(row.tid)).filter(|at| *at >= MAX_THREAD_ROWS);
    let about = about.and_then(|at| rows.get(at).cloned());
    rows.truncate(MAX_THREAD_ROWS);
    rows.last_mut().zip(about).into_iter().for_each(|(last, about)| *last = about);
    (rows, left_out)
}

/// The timelines of the threads that have a row, in their order.
fn timelines(ledger: &Ledger, threads: &[ThreadRow]) -> Vec<Timeline> {
    let of = |row: &ThreadRow| ledger.timelines.iter().find(|timeline| timeline.tid == row.tid && row.tid != 0);
    threads
        .iter()
        .filter_map(of)
        .take(MAX_TIMELINES)
        .map(|timeline| account::clean_timeline(timeline, ledger))
        .collect()
}

fn wakers(ledger: &Ledger, account: &Account<'_>) -> Vec<WakerRow> {
    let row = |edge: &WakerEdge| {
        let seconds = account::clean(edge.seconds);
        let waker = &edge.waker;
        WakerRow {
            component: edge.component,
            name: chains::waker_name(waker),
            observed: waker.kind == WakerKind::Thread && account.threads.iter().any(|own| own.thread.pid == waker.pid),
            waker: waker.clone(),
            seconds,
            share: share(seconds, account.component(edge.component)),
            count: edge.count,
        }
    };
    let mut rows: Vec<WakerRow> = ledger.wakers.iter().map(row).filter(|row| row.seconds > 0.0).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    rows.truncate(MAX_WAKERS);
    rows
}

/// All stacks in one: those of a component stand side by side, and upon it the threads by name.
fn stacks(ledger: &Ledger) -> Option<Stacks> {
    let mut all = Stacks {
        id: "waits".into(),
        title: "Where threads ran and waited".into(),
        unit: Unit::Seconds,
        ..Stacks::default()
    };
    for of in &ledger.stacks {
        add_stacks(&mut all, of);
        all.others += account::clean(of.stacks.others);
        all.unresolved += account::clean(of.stacks.unresolved);
        all.truncated += account::clean(of.stacks.truncated);
        all.missing += account::clean(of.stacks.missing);
    }
    all.stacks.sort_by(|a, b| b.value.total_cmp(&a.value));
    let cut = all.stacks.split_off(MAX_STACKS.min(all.stacks.len()));
    all.others += cut.iter().map(|stack| stack.value).sum::<f64>();
    (!all.stacks.is_empty()).then_some(all)
}

fn add_stacks(all: &mut Stacks, of: &ComponentStacks) {
    let base = all.frames.len() as u32;
    all.frames.extend(of.stacks.frames.iter().cloned());
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    for stack in of.stacks.stacks.iter().filter(|stack| account::clean(stack.value) > 0.0) {
        let next = all.frames.len() as u32;
        let name = *names.entry(&stack.owner).or_insert(next);
        if name == next {
            all.frames.push(Frame { name: stack.owner.clone(), ..Frame::default() });
        }
        let own = stack.frames.iter().take(MAX_DEPTH).filter(|at| (**at as usize) < of.stacks.frames.len());
        let frames = std::iter::once(name).chain(own.map(|at| base + at)).collect();
        let owner = of.component.id().to_owned();
        all.stacks.push(Stack { owner, frames, value: account::clean(stack.value), ..stack.clone() });
    }
}

fn notes(ledger: &Ledger, suspended: f64) -> Vec<String> {
    let mut notes: Vec<String> = ledger.notes.iter().take(MAX_NOTES).cloned().collect();
    if suspended > 0.01 {
        notes.push(format!(
            "the machine was suspended or paused for {} within the window, which is no part of this account",
            rdiag_model::quantity::seconds(suspended)
        ));
    }
    notes
}
