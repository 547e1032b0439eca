//! Events that can be sampled, by the names that perf gives them.

use perf_event_open_sys::bindings as sys;

use super::select::{self, Encoding, EventError, Wanted};
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// An event, as perf_event_open(2) takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
}

/// How often a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// So many per second in which the event happens.
    Hertz(u64),
    /// One for so many events.
    Events(u64),
}

impl Event {
    /// The event of a name that can be sampled: any that `select` knows, if one number says it all. An error says what
    /// there is.
    pub fn find(host: &Host, name: &str) -> Result<Self, Unavailable> {
        let wrong = |error: EventError| {
            Unavailable::new(Reason::Absent, error.message)
                .with_remedy("`rdiag list events` shows what there is; cpu-clock is everywhere")
        };
        let mut all = select::parse(host, name).map_err(wrong)?.into_iter().flatten();
        let (Some(Wanted { text, event }), None) = (all.next(), all.next()) else {
            return Err(Unavailable::new(Reason::NotApplicable, "samples are taken by one event at a time"));
        };
        let event = event.map_err(wrong)?;
        match event.encodings.as_slice() {
            [Encoding { kind, config, config1: 0, config2: 0 }] if !event.shared && event.modifiers.is_plain() => {
                Ok(Self { name: event.name, kind: *kind, config: *config })
            }
            _ => Err(Unavailable::new(Reason::NotApplicable, format!("{text} can be counted, and not sampled here"))
                .with_remedy("name the event without modifiers, one that is counted on each CPU by itself")),
        }
    }

    /// Whether it is a clock, so that samples stand for CPU time.
    #[must_use]
    pub fn is_clock(&self) -> bool {
        self.kind == sys::PERF_TYPE_SOFTWARE
            && [sys::PERF_COUNT_SW_CPU_CLOCK, sys::PERF_COUNT_SW_TASK_CLOCK]
                .iter()
                .any(|id| self.config == u64::from(*id))
    }

    /// What it means that the kernel refused to open the event with this error; none if the event is not to blame.
    #[must_use]
    pub fn refused(&self, errno: i32) -> Option<Unavailable> {
        use rustix::io::Errno;
        let unsupported = [Errno::NOENT, Errno::OPNOTSUPP, Errno::NODEV, Errno::NXIO];
        if !unsupported.iter().any(|known| known.raw_os_error() == errno) {
            return None;
        }
        let why = format!("this machine cannot count {}: it shows the kernel no hardware counters for it", self.name);
        Some(Unavailable::new(Reason::Absent, why).with_remedy(
            "measure on a machine that has them, or have the virtual machine given them (a virtual PMU); for a profile of CPU time take \
             cpu-clock, which needs none",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn events_are_found_by_their_names_and_unknown_ones_are_told_with_what_there_is() {
        let host = Host::live(Path::new("/"));
        let found = |name: &str| Event::find(&host, name).map(|event| (event.kind, event.config, event.is_clock()));
        assert_eq!(found("cpu-clock").unwrap(), (1, 0, true));
        assert_eq!(found("cycles").unwrap(), (0, 0, false));
        assert_eq!(found("r1a8").unwrap(), (4, 0x1a8, false));
        let gap = found("cpu-clok").unwrap_err();
        assert!(gap.remedy.unwrap().contains("cpu-clock"));
        assert!(found("../../etc:passwd").is_err());
        assert!(found("").is_err());
        assert!(found("cycles,instructions").unwrap_err().why.contains("one event at a time"));
        assert!(found("cycles:u").unwrap_err().why.contains("not sampled"));
    }

    #[test]
    fn a_machine_without_counters_is_told_from_missing_rights() {
        let host = Host::live(Path::new("/"));
        let cycles = Event::find(&host, "cycles").unwrap();
        assert!(cycles.refused(2).unwrap().why.contains("hardware counters"));
        assert_eq!(cycles.refused(13), None);
    }
}
