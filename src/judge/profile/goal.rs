//! What it would take to reach the goal.

use rdiag_model::Component;
use rdiag_model::profile::{Goal, Reach, Saving};
use rdiag_model::quantity::{percent, seconds};

use super::account::share;
use super::forecast::Basis;

/// Work itself is not believed to shrink by more than this.
const WORK_SHRINKS: f64 = 0.5;

/// Kinds of waits for others that are named.
const MAX_OTHERS: usize = 3;

/// The way from R to the goal.
pub(super) fn goal(goal: f64, basis: &Basis<'_>) -> Goal {
    let goal = if goal.is_finite() { goal.max(0.0) } else { 0.0 };
    let told = |reach, to_save, reductions, words| Goal {
        goal_seconds: goal,
        to_save_seconds: to_save,
        reach,
        reductions,
        words,
    };
    if let (false, true, Some(doubt)) = (basis.is_execution, basis.is_beginning, &basis.doubt) {
        let words = format!("Whether {} can be reached is not known: {doubt}.", seconds(goal));
        return told(Reach::Unknown, 0.0, Vec::new(), words);
    }
    if !basis.is_execution {
        let words = format!(
            "Whether {} can be reached is not known: rdiag saw a window, not one execution. Give the present duration \
             (--now 1.2s), or let rdiag start it (`-- COMMAND`).",
            seconds(goal)
        );
        return told(Reach::Unknown, 0.0, Vec::new(), words);
    }
    let to_save = (basis.response - goal).max(0.0);
    if to_save <= 0.0 {
        let words = format!("The goal is met: {} against {}.", seconds(basis.response), seconds(goal));
        return told(Reach::Met, 0.0, Vec::new(), words);
    }
    if let Some(doubt) = &basis.doubt {
        let words = format!("What it takes to save {} is not known: {doubt}.", seconds(to_save));
        return told(Reach::Unknown, to_save, Vec::new(), words);
    }
    if !basis.adds_up {
        let words = format!(
            "{} must be saved to reach {}; which of the parallel threads bound the elapsed time is not known, so look \
             at the bounds of each component.",
            seconds(to_save),
            seconds(goal)
        );
        return told(Reach::Unknown, to_save, Vec::new(), words);
    }
    let (reductions, saved) = reductions(to_save, basis);
    let list = || {
        let one = |(component, part): &(Component, f64)| {
            let title = component.def().title;
            let is_woken = woken(*component, basis) > basis.book.mentioned.saving * basis.response;
            let after = if is_woken { " (with the wakeups after them)" } else { "" };
            if *part >= 0.999 {
                format!("no {title} at all{after}")
            } else {
                format!("{} less time in {title}{after}", percent(*part))
            }
        };
        reductions.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let head = format!("From {} to {}: {} must be saved.", seconds(basis.response), seconds(goal), seconds(to_save));
    if saved + 1e-9 < to_save {
        let words = format!(
            "{head} At most {} can be saved in the task itself{}",
            seconds(saved),
            rest(to_save - saved, basis)
        );
        return told(Reach::No, to_save, reductions, words);
    }
    let reach = if reductions.len() == 1 { Reach::One } else { Reach::Several };
    let why = reductions.iter().find_map(|(component, _)| {
        let part = basis.parts.get(component).copied().unwrap_or(0.0);
        basis.at_best(*component, part)
    });
    let at_best = why.map_or(String::new(), |why| format!(" at best: {why}"));
    let words = format!("{head} It would take: {}{at_best}.", list());
    told(reach, to_save, reductions, words)
}

/// Where the time is that the task itself cannot save: in waits that others end, which the forecast shows as what they are, and in work.
fn rest(missing: f64, basis: &Basis<'_>) -> String {
    let is_of_others = |component: Component| basis.book.saving(component) == Saving::Elsewhere;
    let parts = basis
        .parts
        .iter()
        .filter(|(component, part)| is_of_others(**component) && **part > basis.book.mentioned.saving * basis.response);
    let mut others: Vec<(&str, f64)> = parts.map(|(component, part)| (component.def().title, *part)).collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: f64 = others.iter().map(|(_, part)| part).sum();
    let work = "the work itself, task switches, or unaccounted";
    if others.is_empty() {
        return format!(": the rest is {work}. The goal takes less work.");
    }
    let titles: Vec<&str> = others.iter().take(MAX_OTHERS).map(|(title, _)| *title).collect();
    let enough = if all + 1e-9 < missing {
        "is not enough for the goal, which takes less work too"
    } else {
        "can reach the goal"
    };
    format!(
        ", and at most {} in others, which end its waits ({}): together that {enough}. The rest is {work}.",
        seconds(all),
        titles.join(", ")
    )
}

/// Time in switching tasks that goes with the waits of a component; waits behind other tasks are saved by themselves.
fn woken(component: Component, basis: &Basis<'_>) -> f64 {
    if !basis.wakeups.is_switching(Component::RunqWakeup) {
        return 0.0;
    }
    basis.wakeups.after(component, &basis.parts)
}

/// The fewest components that give enough, and how much that is: what can vanish first, the largest first, then the work.
fn reductions(to_save: f64, basis: &Basis<'_>) -> (Vec<(Component, f64)>, f64) {
    // What is saved beside a longer thread brings nothing.
    let most = |saving: Saving, component: Component, seconds: f64| {
        let work = if saving == Saving::Partial { WORK_SHRINKS } else { 1.0 };
        basis.most(component, seconds * work)
    };
    let mut candidates: Vec<(Saving, Component, f64)> = basis
        .parts
        .iter()
        .map(|(component, seconds)| (basis.book.saving(*component), *component, *seconds + woken(*component, basis)))
        .filter(|(saving, _, seconds)| {
            *saving != Saving::Elsewhere && *seconds > basis.book.mentioned.saving * basis.response
        })
        .filter(|(_, component, _)| !basis.wakeups.is_switching(*component))
        .collect();
    candidates.sort_by(|a, b| (a.0 == Saving::Partial).cmp(&(b.0 == Saving::Partial)).then(b.2.total_cmp(&a.2)));
    // One that is enough by itself is better than several.
    if let Some((_, component, seconds)) =
        candidates.iter().find(|(saving, component, seconds)| most(*saving, *component, *seconds) >= to_save)
    {
        return (vec![(*component, share(to_save, *seconds))], to_save);
    }
    let (mut chosen, mut saved) = (Vec::new(), 0.0);
    for (saving, component, seconds) in candidates {
        let part = most(saving, component, seconds).min(to_save - saved);
        if part <= 0.0 {
            continue;
        }
        chosen.push((component, share(part, seconds)));
        saved += part;
    }
    (chosen, saved)
}
