//! Events that can be sampled, by the names that perf gives them.

use perf_event_open_sys::bindings as sys;

use crate::host::Host;
use crate::model::{Reason, Unavailable};

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

const SOFTWARE: u32 = sys::PERF_TYPE_SOFTWARE;
const HARDWARE: u32 = sys::PERF_TYPE_HARDWARE;

/// Events that every kernel knows, whether or not the machine can count them.
const KNOWN: &[(&str, u32, u32)] = &[
    ("cpu-clock", SOFTWARE, sys::PERF_COUNT_SW_CPU_CLOCK),
    ("task-clock", SOFTWARE, sys::PERF_COUNT_SW_TASK_CLOCK),
    ("page-faults", SOFTWARE, sys::PERF_COUNT_SW_PAGE_FAULTS),
    ("minor-faults", SOFTWARE, sys::PERF_COUNT_SW_PAGE_FAULTS_MIN),
    ("major-faults", SOFTWARE, sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    ("context-switches", SOFTWARE, sys::PERF_COUNT_SW_CONTEXT_SWITCHES),
    ("cpu-migrations", SOFTWARE, sys::PERF_COUNT_SW_CPU_MIGRATIONS),
    ("alignment-faults", SOFTWARE, sys::PERF_COUNT_SW_ALIGNMENT_FAULTS),
    ("emulation-faults", SOFTWARE, sys::PERF_COUNT_SW_EMULATION_FAULTS),
    ("cycles", HARDWARE, sys::PERF_COUNT_HW_CPU_CYCLES),
    ("instructions", HARDWARE, sys::PERF_COUNT_HW_INSTRUCTIONS),
    ("cache-references", HARDWARE, sys::PERF_COUNT_HW_CACHE_REFERENCES),
    ("cache-misses", HARDWARE, sys::PERF_COUNT_HW_CACHE_MISSES),
    ("branches", HARDWARE, sys::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    ("branch-misses", HARDWARE, sys::PERF_COUNT_HW_BRANCH_MISSES),
    ("bus-cycles", HARDWARE, sys::PERF_COUNT_HW_BUS_CYCLES),
    ("ref-cycles", HARDWARE, sys::PERF_COUNT_HW_REF_CPU_CYCLES),
    ("stalled-cycles-frontend", HARDWARE, sys::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
    ("stalled-cycles-backend", HARDWARE, sys::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
];

impl Event {
    /// The event of a name: one of perf's general ones, `rNNN` (hexadecimal) for what the manual of a CPU tells, or
    /// `GROUP:TRACEPOINT`. An error says what there is.
    pub fn find(host: &Host, name: &str) -> Result<Self, Unavailable> {
        let event = |kind, config| Self { name: name.to_owned(), kind, config };
        if let Some((_, kind, config)) = KNOWN.iter().find(|(known, ..)| *known == name) {
            return Ok(event(*kind, u64::from(*config)));
        }
        if let Some(raw) = name.strip_prefix('r').and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            return Ok(event(sys::PERF_TYPE_RAW, raw));
        }
        if let Some((group, tracepoint)) = name.split_once(':') {
            return Ok(event(sys::PERF_TYPE_TRACEPOINT, tracepoint_id(host, group, tracepoint)?));
        }
        let known: Vec<&str> = KNOWN.iter().map(|(known, ..)| *known).collect();
        Err(Unavailable::new(Reason::Absent, format!("there is no event {name:?}"))
            .with_remedy(format!("take one of {}, rNNN, or GROUP:TRACEPOINT", known.join(", "))))
    }

    /// Whether it is a clock, so that samples stand for CPU time.
    #[must_use]
    pub fn is_clock(&self) -> bool {
        self.kind == SOFTWARE
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
        Some(Unavailable::new(Reason::Absent, why).with_remedy("take cpu-clock, which needs none"))
    }
}

/// The number of a tracepoint, as tracefs tells it.
fn tracepoint_id(host: &Host, group: &str, name: &str) -> Result<u64, Unavailable> {
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !plain(group) || !plain(name) {
        return Err(Unavailable::new(Reason::Absent, format!("there is no tracepoint {group}:{name}")));
    }
    let below = format!("events/{group}/{name}/id");
    let places = ["sys/kernel/tracing", "sys/kernel/debug/tracing"].map(|tracefs| format!("{tracefs}/{below}"));
    let mut gap = None;
    for place in &places {
        match host.read_u64(place) {
            Ok(id) => return Ok(id),
            Err(error) => gap = gap.or(Some(Unavailable::from(error))),
        }
    }
    Err(gap.unwrap_or_else(|| Unavailable::new(Reason::Absent, format!("there is no tracepoint {group}:{name}"))))
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
    }

    #[test]
    fn a_machine_without_counters_is_told_from_missing_rights() {
        let host = Host::live(Path::new("/"));
        let cycles = Event::find(&host, "cycles").unwrap();
        assert!(cycles.refused(2).unwrap().why.contains("hardware counters"));
        assert_eq!(cycles.refused(13), None);
    }
}
