//! Getting an instance ready: everything that limits what is seen is in force before the first event is switched on.

use super::MONOTONIC;
use crate::def::Context;
use rdiag_kernel::mechanism::perf::cpus;
use rdiag_kernel::mechanism::tracefs::event_cost::EventCost;
use rdiag_kernel::mechanism::tracefs::instance::{Followed, Instance};
use rdiag_kernel::mechanism::tracefs::select::{self, Chosen, TraceEvent};
use rdiag_model::{Reason, Unavailable};

/// An instance whose events are on and whose buffers wait for the word, the events by the pattern that chose them, and what one takes.
/// If anything is refused, the instance is gone again and none of these events was ever on.
pub(super) fn prepare(context: &Context<'_>) -> Result<(Instance, Vec<Chosen>, EventCost), Unavailable> {
    let (host, params) = (context.host, context.params);
    let instance = Instance::create(host)?;
    let wrong = |error: select::EventError| Unavailable::new(Reason::Malformed, error.message);
    let list = params.text("event").unwrap_or_default();
    let chosen = select::select(&select::available(host)?, list).map_err(wrong)?;
    instance.set_clock(host, params.text("clock").unwrap_or(MONOTONIC))?;
    // Before anything is chosen, since it belongs to this call alone.
    let cost = EventCost::of_events(&instance, host)?;
    instance.set("buffer_size_kb", &params.count("buffer_kb").to_string())?;
    if let Some(list) = params.text("cpus") {
        let online = cpus::online(host);
        let wanted = cpus::parse(list);
        if wanted.is_empty() || !wanted.iter().all(|cpu| online.contains(cpu)) {
            let why = format!("{list:?} is no list of CPUs that are switched on here, such as 0,2-3");
            return Err(Unavailable::new(Reason::Malformed, why));
        }
        instance.set_cpus(&wanted)?;
    }
    match context.filter.pids.as_slice() {
        [] => instance.leave_out_own(host, Followed::Events)?,
        pids => instance.follow(host, Followed::Events, pids)?,
    }
    let mut events: Vec<&TraceEvent> = chosen.iter().flat_map(|(_, events)| events).collect();
    events.sort_unstable();
    events.dedup();
    if let Some(filter) = params.text("filter") {
        for event in &events {
            instance.set_filter(host, &event.group, &event.name, filter)?;
        }
    }
    for event in events {
        instance.set(&format!("events/{}/{}/enable", event.group, event.name), "1")?;
    }
    Ok((instance, chosen, cost))
}
