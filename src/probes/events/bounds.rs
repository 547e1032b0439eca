//! From when to when events are logged: what the kernel waits for to switch the instance on, and off again.

use crate::def::Context;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::tracefs::instance::Instance;
use rdiag_kernel::mechanism::tracefs::trigger::{Armed, Condition, Order, keep_to_themselves};
use rdiag_model::{Reason, Unavailable};

/// What is waited for.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    start: Option<Awaited>,
    stop: Option<Awaited>,
}

/// An order of which one wants to know whether it has happened, and has said so.
#[derive(Debug)]
struct Awaited {
    armed: Armed,
    has_happened: bool,
    /// Whether the waiting was told, and its end.
    is_told: (bool, bool),
}

impl Bounds {
    /// Switches the instance on, or tells the kernel when to. Stopping is in force before anything can start.
    pub(super) fn begin(context: &Context<'_>, instance: &Instance) -> Result<Self, Unavailable> {
        let host = context.host;
        let condition = |name: &str| -> Result<Option<Condition>, Unavailable> {
            let parsed = context.params.text(name).map(Condition::parse).transpose();
            parsed.map_err(|why| Unavailable::new(Reason::Malformed, why))
        };
        let (start, stop) = (condition("start_when")?, condition("stop_when")?);
        if [&start, &stop].into_iter().flatten().any(|condition| condition.event().is_some()) {
            keep_to_themselves(instance, host)?;
        }
        let arm = |order: Order, condition: Option<Condition>| -> Result<Option<Awaited>, Unavailable> {
            let armed = condition.map(|condition| Armed::new(instance, host, order, condition)).transpose()?;
            Ok(armed.map(|armed| Awaited { armed, has_happened: false, is_told: (false, false) }))
        };
        let stop = arm(Order::Stop, stop)?;
        let start = arm(Order::Start, start)?;
        if start.is_none() {
            instance.set("tracing_on", "1")?;
        }
        Ok(Self { start, stop })
    }

    /// Looks whether what was waited for has happened.
    pub(super) fn look(&mut self, instance: &Instance, host: &Host) {
        for awaited in [&mut self.start, &mut self.stop].into_iter().flatten() {
            awaited.has_happened = awaited.has_happened || awaited.armed.has_happened(instance, host);
        }
    }

    /// Whether nothing can follow.
    pub(super) fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.has_happened)
    }

    /// What has become of it, each told once.
    pub(super) fn notes(&mut self) -> Vec<String> {
        let start = self.start.as_mut().and_then(|start| start.note("nothing is logged before", "the log begins with"));
        let stop = self.stop.as_mut().and_then(|stop| stop.note("the log waits for its end", "the log ends with"));
        [start, stop].into_iter().flatten().collect()
    }
}

impl Awaited {
    fn note(&mut self, waits: &str, is_done: &str) -> Option<String> {
        let (told_waiting, told_end) = &mut self.is_told;
        let says = match self.has_happened {
            true if !std::mem::replace(told_end, true) => is_done,
            false if !std::mem::replace(told_waiting, true) => waits,
            _ => return None,
        };
        Some(format!("{says}: {}", self.armed.condition))
    }
}
