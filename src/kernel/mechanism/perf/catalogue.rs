//! What can be counted here: the list behind `rdiag list events`.

use super::counters::Scope;
use super::names::{KNOWN, cache_events};
use super::open::Opener;
use super::pmc::{Machine, Pmu};
use super::pmu;
use super::select::{self, Event, Family};
use crate::host::Host;
use rdiag_model::Unavailable;

/// An event, and whether it can be counted here by this user.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct EventInfo {
    /// Its name on the command line.
    pub name: String,
    /// Another name for the same; "" if there is none.
    pub also: String,
    /// Its kind.
    pub kind: Family,
    /// What it counts.
    pub help: String,
    /// Why it cannot be counted, found by trying; none if it can.
    pub unavailable: Option<Unavailable>,
}

/// All events. Each is tried, except tracepoints: opening one changes code of the kernel, so one stands for all.
#[must_use]
pub fn events(host: &Host) -> Vec<EventInfo> {
    let mut machine = Machine::default();
    let mut infos = Vec::new();
    for known in KNOWN {
        infos.push(info(host, &mut machine, known.names.0, known.names.1, known.family, known.help.to_owned()));
    }
    for (name, _, help) in cache_events() {
        infos.push(info(host, &mut machine, &name, "", Family::Cache, help));
    }
    for device in pmu::devices(host) {
        for event in pmu::events(host, &device) {
            let help = format!("as the kernel describes it in /sys/bus/event_source/devices/{device}/events/{event}");
            infos.push(info(host, &mut machine, &format!("{device}/{event}/"), "", Family::Device, help));
        }
    }
    infos.extend(tracepoints(host, &mut machine));
    infos
}

fn info(host: &Host, machine: &mut Machine, name: &str, also: &str, kind: Family, help: String) -> EventInfo {
    let unavailable = attempt(host, machine, name).err();
    EventInfo { name: name.to_owned(), also: also.to_owned(), kind, help, unavailable }
}

/// Opens an event as it would be opened for a process, or for the whole host where it knows no processes.
fn attempt(host: &Host, machine: &mut dyn Pmu, name: &str) -> Result<(), Unavailable> {
    let groups = select::parse(host, name);
    let found = groups.ok().and_then(|groups| groups.into_iter().flatten().next()?.event.ok());
    let Some(event) = found else {
        return Err(Unavailable::new(rdiag_model::Reason::Malformed, format!("{name} cannot be read from sysfs")));
    };
    let scope = if event.shared { Scope::Host } else { Scope::Command(host.facts().pid) };
    Opener::new(host, machine, &scope)?.trial(event).map(|_: Event| ())
}

fn tracepoints(host: &Host, machine: &mut Machine) -> Vec<EventInfo> {
    let place = select::tracing(host);
    let mut infos: Vec<EventInfo> = Vec::new();
    let mut verdict = None;
    for group in host.subdirectories(place).unwrap_or_default() {
        for name in host.subdirectories(&format!("{place}/{group}")).unwrap_or_default() {
            // Events of the tracer itself have no number for counting.
            if !host.exists(&format!("{place}/{group}/{name}/id")) {
                continue;
            }
            let name = format!("{group}:{name}");
            let unavailable = verdict.get_or_insert_with(|| attempt(host, machine, &name).err()).clone();
            let help = format!("the kernel passed its tracepoint {name}");
            infos.push(EventInfo { name, also: String::new(), kind: Family::Tracepoint, help, unavailable });
        }
    }
    infos
}
