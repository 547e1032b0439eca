//! What a task did when: its account as a whole, its runs, the states of its threads, and the slowest waits.
//!
//! Instants of an account are seconds since it began. It begins with its window but for some milliseconds; how many at most is an argument
//! of the account.

use std::collections::BTreeMap;

use super::trace::{Args, Slice, Trace, args, text};
use crate::exported::Exported;
use rdiag_model::ledger::SlowCall;
use rdiag_model::runs::Run;
use rdiag_model::{Component, Profile};

pub(super) fn draw(trace: &mut Trace, of: &Exported<'_>) {
    let Some(profile) = &of.report.profile else { return };
    let Some(window) = of.window(profile.window) else { return };
    let begins = window.from;
    let group = trace.group(&format!("task: {}", profile.subject));
    let apart = (profile.elapsed_seconds - (window.until - window.from)).max(0.0);
    let account = Slice {
        from: begins,
        until: begins + profile.elapsed_seconds,
        name: "account".to_owned(),
        args: args([
            ("headline", Some(text(&profile.answer.headline))),
            ("task-seconds", Some(profile.task_seconds.into())),
            ("components (s)", Some(components(profile))),
            ("times may be off by (s)", Some(apart.into())),
        ]),
    };
    trace.slices(group, "account", "task", vec![account]);
    let runs = of.runs();
    let runs = runs.iter().map(|one| run(one, begins, profile));
    trace.slices(group, "runs", "run", runs.collect());
    let names: BTreeMap<u32, &str> = profile.threads.iter().map(|row| (row.tid, row.comm.as_str())).collect();
    for timeline in &profile.timelines {
        let name = names.get(&timeline.tid).copied().unwrap_or("thread");
        let slices = timeline.slices.iter().filter_map(|slice| {
            let (longest, _) = slice.parts.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
            let others = slice.parts.len() - 1;
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            Some(Slice {
                from: begins + slice.from,
                until: begins + slice.until,
                name: format!("{}{more}", longest.def().title),
                args: Args::from_iter([("parts (s)".to_owned(), parts(&slice.parts))]),
            })
        });
        trace.slices(group, &format!("{name} {}: states", timeline.tid), "state", slices.collect());
    }
    let mut slow: BTreeMap<(u32, u32), Vec<&SlowCall>> = BTreeMap::new();
    for call in profile.components.iter().flat_map(|row| &row.slow) {
        slow.entry((call.pid, call.tid)).or_default().push(call);
    }
    for ((_, tid), calls) in slow {
        let name = calls.first().map_or("thread", |call| call.comm.as_str());
        let slices = calls.iter().map(|call| waited(call, begins));
        trace.slices(group, &format!("{name} {tid}: slowest waits"), "wait", slices.collect());
    }
}

fn components(profile: &Profile) -> serde_json::Value {
    let seconds: Vec<(Component, f64)> = profile.components.iter().map(|row| (row.id, row.seconds)).collect();
    parts(&seconds)
}

/// Seconds by the id of the component.
fn parts(of: &[(Component, f64)]) -> serde_json::Value {
    of.iter().map(|(component, seconds)| (component.id().to_owned(), (*seconds).into())).collect::<Args>().into()
}

fn run(run: &Run, begins: f64, profile: &Profile) -> Slice {
    let count = profile.runs.as_ref().map(|runs| runs.count.into());
    Slice {
        from: begins + run.at,
        until: begins + run.at + run.seconds,
        name: crate::run_words::name(run),
        args: args([
            ("seconds", Some(run.seconds.into())),
            ("pid", Some(run.pid.into())),
            ("runs in all", count),
            ("parts (s)", (!run.parts.is_empty()).then(|| parts(&run.parts))),
        ]),
    }
}

fn waited(call: &SlowCall, begins: f64) -> Slice {
    let what = if call.call.is_empty() { call.component.def().title } else { call.call.as_str() };
    let key = if call.key.is_empty() { String::new() } else { format!(" [{}]", call.key) };
    Slice {
        from: begins + call.at,
        until: begins + call.at + call.seconds,
        name: format!("{what}{key}"),
        args: args([
            ("component", Some(call.component.id().into())),
            ("seconds", Some(call.seconds.into())),
            ("pid", Some(call.pid.into())),
            ("tid", Some(call.tid.into())),
            ("ended by", call.waker.as_ref().map(|waker| text(&waker.comm)).filter(|name| name != "")),
            ("under way at an edge of the window", call.open.then(|| true.into())),
        ]),
    }
}
