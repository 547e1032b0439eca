//! Which events a list of names and patterns means.

use super::place;
use crate::host::Host;
pub use crate::mechanism::perf::select::EventError;
use rdiag_model::Unavailable;

/// Switching each event on takes the kernel some time, and all of them together would slow down the host.
const MOST: usize = 1000;

/// An event of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceEvent {
    /// The subsystem (`sched`).
    pub group: String,
    /// The name within it (`sched_switch`).
    pub name: String,
}

/// A pattern, and the events that it stands for.
pub type Chosen = (String, Vec<TraceEvent>);

/// All events of the running kernel, as `available_events` lists them.
pub fn available(host: &Host) -> Result<Vec<TraceEvent>, Unavailable> {
    let text = host.read(&format!("{}/available_events", place::find(host)?))?;
    let event = |line: &str| {
        let (group, name) = line.trim().split_once(':')?;
        // They become parts of a path.
        let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('/');
        (plain(group) && plain(name)).then(|| TraceEvent { group: group.into(), name: name.into() })
    };
    Ok(text.lines().filter_map(event).collect())
}

/// Whether all names of a list exist, for those who want to say so before anything is measured. A host that does not show
/// its events has nothing to compare with; the measurement will say why.
pub fn check(host: &Host, list: &str) -> Result<(), EventError> {
    match available(host) {
        Ok(all) => select(&all, list).map(drop),
        Err(_) => Ok(()),
    }
}

/// The events that a list means: `sched:sched_switch`, `irq:*`, or a name without its group, separated by commas. Each
/// pattern comes with the events that it stands for.
pub fn select(all: &[TraceEvent], list: &str) -> Result<Vec<Chosen>, EventError> {
    let mut chosen = Vec::new();
    for pattern in list.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()) {
        let (group, name) = pattern.split_once(':').unwrap_or(("*", pattern));
        let fits = |event: &&TraceEvent| fits(group, &event.group) && fits(name, &event.name);
        let events: Vec<TraceEvent> = all.iter().filter(fits).cloned().collect();
        if events.is_empty() {
            let known = all.iter().map(|event| {
                if pattern.contains(':') { format!("{}:{}", event.group, event.name) } else { event.name.clone() }
            });
            let near = Some((pattern.to_owned(), known.collect()));
            return Err(EventError { message: format!("there is no event {pattern:?}"), near, elsewhere: true });
        }
        chosen.push((pattern.to_owned(), events));
    }
    let count: usize = chosen.iter().map(|(_, events)| events.len()).sum();
    let message = match count {
        0 => "the list of events is empty".to_owned(),
        1..=MOST => return Ok(chosen),
        _ => format!("{list:?} means {count} events, and at most {MOST} may be asked for"),
    };
    Err(EventError { message, near: None, elsewhere: false })
}

/// Whether a name fits a pattern in which `*` stands for any text and `?` for one character.
pub(in crate::mechanism) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut next) = (0, 0);
    // Where the last star stands, and how much of the name it has swallowed so far.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(next) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, next));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some((place, swallowed)) = star else { return false };
                star = Some((place, swallowed + 1));
                at = place + 1;
                next = swallowed + 1;
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<TraceEvent> {
        [("irq", "softirq_entry"), ("irq", "softirq_exit"), ("sched", "sched_switch"), ("sched", "sched_wakeup")]
            .map(|(group, name)| TraceEvent { group: group.into(), name: name.into() })
            .to_vec()
    }

    fn names(list: &str) -> Vec<String> {
        let chosen = select(&all(), list).unwrap();
        chosen.into_iter().flat_map(|(_, events)| events).map(|event| event.name).collect()
    }

    #[test]
    fn a_pattern_means_every_event_that_fits() {
        assert_eq!(names("irq:*"), ["softirq_entry", "softirq_exit"]);
        assert_eq!(names("sched_switch, irq:*_exit"), ["sched_switch", "softirq_exit"]);
        assert_eq!(names("sched:sched_w?keup"), ["sched_wakeup"]);
        assert_eq!(names("*:*"), names("*"));
    }

    #[test]
    fn a_name_that_no_event_has_is_told_with_those_that_exist() {
        let error = select(&all(), "sched:sched_swich").unwrap_err();
        assert!(error.message.contains("sched_swich"), "{error:?}");
        assert!(error.near.unwrap().1.contains(&"sched:sched_switch".to_owned()));
        assert!(select(&all(), "sched_swich").unwrap_err().near.unwrap().1.contains(&"sched_switch".to_owned()));
        assert!(select(&all(), " , ").unwrap_err().message.contains("empty"));
        let many: Vec<TraceEvent> =
            (0..1001).map(|at| TraceEvent { group: "g".into(), name: format!("e{at}") }).collect();
        assert!(select(&many, "g:*").unwrap_err().message.contains("1001"));
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        assert!(!fits(&"*a".repeat(50), &"a".repeat(49)));
        assert!(fits(&"*a".repeat(50), &"a".repeat(50)));
        assert!(fits("", "") && fits("*", "") && !fits("", "a") && !fits("?", ""));
    }
}
