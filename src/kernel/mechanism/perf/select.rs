//! Lists of events as people write them: `cycles,instructions:u,sched:sched_switch,{LLC-loads,LLC-load-misses},r1a8,power/energy-pkg/`.

use perf_event_open_sys::bindings as sys;

use super::names::{KNOWN, cache_events};
use super::pmu;
use crate::host::Host;

/// More events than this are not counted at once.
const MAX_EVENTS: usize = 100;

/// The description of an event for perf_event_open(2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Encoding {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `config`.
    pub config: u64,
    /// `config1`.
    pub config1: u64,
    /// `config2`.
    pub config2: u64,
}

/// What kind of event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Counted by the kernel itself.
    Software,
    /// One of the general events of CPUs.
    Hardware,
    /// A general event of a cache.
    Cache,
    /// A place in the kernel.
    Tracepoint,
    /// A number from the CPU's manual.
    Raw,
    /// An event that a device or CPU names in sysfs.
    Device,
}

/// In which state of the CPU events count; all if nothing is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// `u`: in user mode.
    pub user: bool,
    /// `k`: in the kernel.
    pub kernel: bool,
    /// `h`: in the hypervisor.
    pub hypervisor: bool,
    /// `G`: in guests.
    pub guest: bool,
    /// `H`: in the host.
    pub host: bool,
    /// `p`, `pp`, `ppp`: how exact the address has to be; 0 to 3.
    pub precise: u8,
}

/// An event to count.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// As it is shown: the name without modifiers, `cycles` for `cpu-cycles`.
    pub name: String,
    /// Its kind.
    pub family: Family,
    /// What is opened for it; the counts are summed. More than one for a device with several boxes.
    pub encodings: Vec<Encoding>,
    /// The CPUs on which it can be counted; all if none are given.
    pub cpus: Option<Vec<u32>>,
    /// Whether one of these CPUs counts for others too, and so for no single task.
    pub shared: bool,
    /// What one count stands for.
    pub scale: f64,
    /// The unit of that; "" for a number of things.
    pub unit: String,
    /// In which state of the CPU it counts.
    pub modifiers: Modifiers,
    /// What it counts, in words; "" if only the manual of the CPU or the source of the kernel says so.
    pub help: String,
}

impl Event {
    /// The name with its modifiers.
    #[must_use]
    pub fn shown(&self) -> String {
        let letters = self.modifiers.letters();
        match letters.as_str() {
            "" => self.name.clone(),
            _ if self.name.ends_with('/') => format!("{}{letters}", self.name),
            _ => format!("{}:{letters}", self.name),
        }
    }
}

impl Modifiers {
    fn parse(text: &str) -> Option<Self> {
        let mut modifiers = Self::default();
        for letter in text.chars() {
            match letter {
                'u' => modifiers.user = true,
                'k' => modifiers.kernel = true,
                'h' => modifiers.hypervisor = true,
                'G' => modifiers.guest = true,
                'H' => modifiers.host = true,
                'p' if modifiers.precise < 3 => modifiers.precise += 1,
                _ => return None,
            }
        }
        Some(modifiers)
    }

    fn letters(self) -> String {
        let flags = [(self.user, "u"), (self.kernel, "k"), (self.hypervisor, "h"), (self.guest, "G"), (self.host, "H")];
        let set: String = flags.into_iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect();
        set + &"p".repeat(usize::from(self.precise))
    }

    /// Whether all states count, and no exactness is asked for.
    pub(super) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Whether what happens in the kernel is left out.
    pub(super) fn excludes_kernel(self) -> bool {
        (self.user || self.hypervisor) && !self.kernel
    }
}

/// What is wrong with a list of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventError {
    /// A sentence.
    pub message: String,
    /// What was written, and what could have been meant.
    pub near: Option<(String, Vec<String>)>,
    /// Whether the event may exist on other machines: the list is well-formed.
    pub elsewhere: bool,
}

impl EventError {
    fn wrong(message: impl Into<String>) -> Self {
        Self { message: message.into(), near: None, elsewhere: false }
    }
}

/// An event of a list: as it was written, and what it is, or why this machine has none of the name.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// As it was written.
    pub text: String,
    /// What it is.
    pub event: Result<Event, EventError>,
}

/// Events that are counted in the same moments, as far as the machine can.
pub type Group = Vec<Wanted>;

/// Reads a list of events. An error is one of the list itself; events that this machine lacks stand in their groups.
pub fn parse(host: &Host, text: &str) -> Result<Vec<Group>, EventError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut count = 0;
    for item in split(text)? {
        let (names, modifiers) = match item.strip_prefix('{') {
            None => (vec![item], ""),
            Some(rest) => {
                let Some((inside, after)) = rest.rsplit_once('}') else {
                    return Err(EventError::wrong(format!("the group {item:?} has no closing brace")));
                };
                let modifiers = after.trim().strip_prefix(':').unwrap_or(after.trim());
                (split(inside)?, modifiers)
            }
        };
        let common = Modifiers::parse(modifiers)
            .ok_or_else(|| EventError::wrong(format!("{modifiers:?} is no modifier; there are u, k, h, G, H and p")))?;
        let mut group = Vec::new();
        for name in names {
            let event = match event(host, name) {
                Err(error) if !error.elsewhere => return Err(error),
                Ok(found) if found.modifiers.is_plain() => Ok(Event { modifiers: common, ..found }),
                other => other,
            };
            group.push(Wanted { text: name.to_owned(), event });
        }
        count += group.len();
        if count > MAX_EVENTS {
            return Err(EventError::wrong(format!("at most {MAX_EVENTS} events can be counted at once")));
        }
        groups.push(group);
    }
    if count == 0 {
        return Err(EventError::wrong("the list of events is empty"));
    }
    Ok(groups)
}

/// Whether all events of a list exist on this machine.
pub fn check(host: &Host, text: &str) -> Result<(), EventError> {
    let groups = parse(host, text)?;
    groups.into_iter().flatten().try_for_each(|wanted| wanted.event.map(drop))
}

/// The items between commas, those inside braces and slashes left whole.
fn split(text: &str) -> Result<Vec<&str>, EventError> {
    let (mut items, mut start, mut in_braces, mut in_slashes) = (Vec::new(), 0, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '/' => in_slashes = !in_slashes,
            '{' if !in_slashes && in_braces => return Err(EventError::wrong("groups of events hold no groups")),
            '{' if !in_slashes => in_braces = true,
            '}' if !in_slashes => in_braces = false,
            ',' if !in_slashes && !in_braces => {
                items.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(text.get(start..).unwrap_or_default());
    if in_slashes {
        return Err(EventError::wrong(format!("{text:?}: a slash is missing; write device/event/")));
    }
    let items = items.into_iter().map(str::trim).filter(|item| !item.is_empty());
    Ok(items.collect())
}

/// One event.
fn event(host: &Host, text: &str) -> Result<Event, EventError> {
    if let Some((device, rest)) = text.split_once('/') {
        let (terms, modifiers) = rest.rsplit_once('/').unwrap_or((rest, ""));
        return device_event(host, device, terms, modifiers.strip_prefix(':').unwrap_or(modifiers));
    }
    // A tracepoint has a colon of its own.
    let parts: Vec<&str> = text.split(':').collect();
    match *parts.as_slice() {
        [name] => plain_event(name, Modifiers::default()),
        [name, modifiers] if is_known(name) => match Modifiers::parse(modifiers) {
            Some(modifiers) => plain_event(name, modifiers),
            None => Err(EventError::wrong(format!(
                "{modifiers:?} of {text:?} is no modifier; there are u, k, h, G, H and p"
            ))),
        },
        [group, name] => tracepoint(host, group, name, ""),
        [group, name, modifiers] => tracepoint(host, group, name, modifiers),
        _ => Err(EventError::wrong(format!("{text:?} is no event"))),
    }
}

fn raw(name: &str) -> Option<u64> {
    let hex =
        name.strip_prefix('r').filter(|hex| !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(hex, 16).ok()
}

fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|known| known.is_named(name))
        || raw(name).is_some()
        || cache_events().any(|(known, ..)| known == name)
}

/// An event that has the same name on every machine.
fn plain_event(name: &str, modifiers: Modifiers) -> Result<Event, EventError> {
    let event = |name: &str, family, encoding, help: &str| Event {
        name: name.to_owned(),
        family,
        encodings: vec![encoding],
        cpus: None,
        shared: false,
        scale: 1.0,
        unit: String::new(),
        modifiers,
        help: help.to_owned(),
    };
    if let Some(known) = KNOWN.iter().find(|known| known.is_named(name)) {
        let mut found = event(known.names.0, known.family, known.encoding(), known.help);
        if found.name.ends_with("-clock") {
            // The kernel counts nanoseconds.
            found.scale = 1e-6;
            found.unit = "ms".to_owned();
        }
        return Ok(found);
    }
    if let Some((name, encoding, help)) = cache_events().find(|(known, ..)| known == name) {
        return Ok(event(&name, Family::Cache, encoding, &help));
    }
    if let Some(config) = raw(name) {
        return Ok(event(name, Family::Raw, Encoding { kind: sys::PERF_TYPE_RAW, config, ..Encoding::default() }, ""));
    }
    let known = KNOWN.iter().flat_map(|known| [known.names.0, known.names.1]).map(str::to_owned);
    let near = known.chain(cache_events().map(|(name, ..)| name)).filter(|name| !name.is_empty()).collect();
    let message = format!("there is no event {name:?}");
    Err(EventError { message, near: Some((name.to_owned(), near)), elsewhere: false })
}

/// Where tracefs shows its events.
pub(in crate::mechanism) fn tracing(host: &Host) -> &'static str {
    let places = ["sys/kernel/tracing/events", "sys/kernel/debug/tracing/events"];
    places.into_iter().find(|place| host.exists(&format!("{place}/sched"))).unwrap_or("sys/kernel/tracing/events")
}

fn tracepoint(host: &Host, group: &str, name: &str, modifiers: &str) -> Result<Event, EventError> {
    let text = format!("{group}:{name}");
    let modifiers = Modifiers::parse(modifiers).ok_or_else(|| {
        EventError::wrong(format!("{modifiers:?} of {text:?} is no modifier; there are u, k, h, G, H and p"))
    })?;
    let place = tracing(host);
    let id = match host.read_u64(&format!("{place}/{group}/{name}/id")) {
        _ if !pmu::is_plain(group) || !pmu::is_plain(name) => None,
        Ok(id) => Some(id),
        Err(error) if error.reason == rdiag_model::Reason::Denied => {
            let message = format!("the tracepoint {text} cannot be looked up: {error}; run rdiag as root");
            return Err(EventError { message, near: None, elsewhere: true });
        }
        Err(_) => None,
    };
    let Some(config) = id else {
        let groups = || host.list(place).unwrap_or_default();
        let inside = host.list(&format!("{place}/{group}")).ok().filter(|_| pmu::is_plain(group));
        let near = match inside {
            Some(names) => names.into_iter().map(|name| format!("{group}:{name}")).collect(),
            None => groups().into_iter().map(|group| format!("{group}:{name}")).collect(),
        };
        let message = format!("there is no event {text:?}");
        return Err(EventError { message, near: Some((text, near)), elsewhere: true });
    };
    Ok(Event {
        name: text,
        family: Family::Tracepoint,
        encodings: vec![Encoding { kind: sys::PERF_TYPE_TRACEPOINT, config, ..Encoding::default() }],
        cpus: None,
        shared: false,
        scale: 1.0,
        unit: String::new(),
        modifiers,
        help: String::new(),
    })
}

fn device_event(host: &Host, device: &str, terms: &str, modifiers: &str) -> Result<Event, EventError> {
    let text = format!("{device}/{terms}/");
    let modifiers = Modifiers::parse(modifiers).ok_or_else(|| {
        EventError::wrong(format!("{modifiers:?} after {text:?} is no modifier; there are u, k, h, G, H and p"))
    })?;
    let devices = pmu::find(host, device);
    let [first, ..] = devices.as_slice() else {
        let message = format!("this machine shows no counters of a device {device:?}");
        return Err(EventError { message, near: Some((device.to_owned(), pmu::devices(host))), elsewhere: true });
    };
    let wrong = |(message, written, near): (String, String, Vec<String>)| {
        let near = (!near.is_empty()).then_some((written, near));
        EventError { message, elsewhere: near.is_some(), near }
    };
    let described = first.terms(host, terms).map_err(wrong)?;
    let all: Result<Vec<_>, _> = devices.iter().map(|one| one.terms(host, terms).map(|terms| terms.encoding)).collect();
    // A device of several boxes has the name that was asked for, not that of its first box.
    let own = described.name.filter(|_| devices.len() == 1).unwrap_or(text);
    Ok(Event {
        name: own,
        family: Family::Device,
        encodings: all.map_err(wrong)?,
        cpus: first.cpus.clone(),
        shared: first.shared,
        scale: described.scale.filter(|scale| scale.is_finite()).unwrap_or(1.0),
        unit: described.unit.unwrap_or_default(),
        modifiers,
        help: String::new(),
    })
}
