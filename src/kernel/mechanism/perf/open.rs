//! Opening: each event first by itself, to learn whether it can be counted, then with its group in all places.

use std::collections::VecDeque;
use std::os::fd::AsRawFd as _;

use super::counters::{OpenGroup, Scope};
use super::cpus;
use super::pmc::{Attr, GroupCounts, Pmu, Subject};
use super::pmu;
use super::refusal;
use super::select::{Event, EventError, Family, Group, Modifiers, Wanted};
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// Events that happen in the kernel only: counted in user mode they would always be 0.
const KERNEL_ONLY: [&str; 3] = ["context-switches", "cpu-migrations", "cgroup-switches"];

/// Events that are divided by each other, and so should be counted in the same moments.
const PAIRS: [(&str, &str); 3] =
    [("cycles", "instructions"), ("cache-references", "cache-misses"), ("branches", "branch-misses")];

/// An event of the list.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) event: Result<Event, Unavailable>,
}

pub(super) struct Opener<'o> {
    host: &'o Host,
    pmu: &'o mut dyn Pmu,
    places: Vec<Place>,
    /// Whether children count, and whether counting begins with execve(2).
    inherit: bool,
    on_exec: bool,
    pub(super) slots: Vec<Slot>,
    pub(super) open: Vec<OpenGroup>,
    pub(super) notes: Vec<String>,
    pub(super) group: Option<std::fs::File>,
}

/// Where an event is opened.
#[derive(Debug, Clone, Copy)]
struct Place {
    subject: Subject,
    cpu: Option<u32>,
}

/// Events that are opened together, and which encoding of them.
struct Batch {
    members: Vec<usize>,
    encoding: usize,
}

/// What became of a batch.
enum Outcome {
    Opened(Vec<OpenGroup>),
    /// The event at this place in the batch does not go with the others.
    Refused(usize, i32),
}

impl<'o> Opener<'o> {
    pub(super) fn new(host: &'o Host, pmu: &'o mut dyn Pmu, scope: &Scope) -> Result<Self, Unavailable> {
        let mut group = None;
        let on_cpus = |subject| cpus::online(host).into_iter().map(|cpu| Place { subject, cpu: Some(cpu) }).collect();
        let task = |tid: u32| Place { subject: Subject::Task(tid), cpu: None };
        let places: Vec<Place> = match scope {
            Scope::Host => on_cpus(Subject::Everybody),
            Scope::Group(path) => {
                let directory = host.open(path)?;
                let subject = Subject::Group(directory.as_raw_fd());
                group = Some(directory);
                on_cpus(subject)
            }
            Scope::Processes(pids) => pids.iter().flat_map(|pid| threads(host, *pid)).map(task).collect(),
            Scope::Command(pid) => vec![task(*pid)],
        };
        if places.is_empty() {
            return Err(Unavailable::new(Reason::Absent, "the process has ended"));
        }
        let mut notes = Vec::new();
        if pmu::devices(host).iter().filter(|name| host.exists(&format!("{}/{name}/cpus", pmu::DEVICES))).count() > 1 {
            notes.push(
                "this machine has CPUs of several kinds: a general event such as cycles counts on one kind only; name it with its \
                 device, as in cpu_core/cycles/,cpu_atom/cycles/"
                    .to_owned(),
            );
        }
        let inherit = matches!(scope, Scope::Processes(_) | Scope::Command(_));
        let on_exec = matches!(scope, Scope::Command(_));
        let (slots, open) = (Vec::new(), Vec::new());
        Ok(Self { host, pmu, places, inherit, on_exec, slots, open, notes, group })
    }

    /// Opens all that can be. An error says why nothing more is tried.
    pub(super) fn open_all(&mut self, groups: Vec<Group>) -> Result<(), Unavailable> {
        let mut batches: VecDeque<Vec<usize>> = VecDeque::new();
        let mut left_out = Vec::new();
        for group in groups {
            let mut members = Vec::new();
            for Wanted { text, event } in group {
                let asked = event.as_ref().map(|event| event.modifiers).ok();
                let event = event.map_err(missing).and_then(|event| self.trial(event));
                let name = event.as_ref().map_or(text, Event::shown);
                if event.as_ref().is_ok_and(|event| asked.is_some_and(|asked| asked != event.modifiers)) {
                    left_out.push(name.clone());
                }
                if event.is_ok() {
                    members.push(self.slots.len());
                }
                self.slots.push(Slot { name, event });
            }
            batches.push_back(members);
        }
        if !left_out.is_empty() {
            let setting = refusal::paranoid(self.host).map_or_else(|| "unknown".to_owned(), |value| value.to_string());
            self.notes.push(format!(
                "{} leave out what happened in the kernel, which this user may not count (kernel.perf_event_paranoid is \
                 {setting}; CAP_PERFMON is enough)",
                left_out.join(", ")
            ));
        }
        self.pair(&mut batches);
        while let Some(members) = batches.pop_front() {
            self.open_batch(members, &mut batches)?;
        }
        Ok(())
    }

    fn event(&self, index: usize) -> Option<&Event> {
        self.slots.get(index).and_then(|slot| slot.event.as_ref().ok())
    }

    /// Whether an event can be counted, by itself and in the first place; without the kernel's part where this user may not
    /// count that, and where something is left then.
    pub(super) fn trial(&mut self, event: Event) -> Result<Event, Unavailable> {
        if event.shared && !matches!(self.places.first(), Some(Place { subject: Subject::Everybody, .. })) {
            let why = format!(
                "{} counts for several CPUs at once, so its count cannot be assigned to a task or control group",
                event.shown()
            );
            return Err(Unavailable::new(Reason::NotApplicable, why).with_remedy("count it for the whole host"));
        }
        let Some(first) = self.places_of(&event).first().copied() else {
            return Err(Unavailable::new(Reason::Absent, format!("{}: there is no CPU to count it on", event.shown())));
        };
        let errno = match self.try_alone(&event, first) {
            Ok(()) => return Ok(event),
            Err(errno) => errno,
        };
        let in_kernel_only = KERNEL_ONLY.contains(&event.name.as_str()) || event.family == Family::Tracepoint;
        let can_do_without = matches!(first.subject, Subject::Task(_)) && !event.modifiers.kernel && !in_kernel_only;
        if refusal::is_denied(errno) && can_do_without && !event.modifiers.excludes_kernel() {
            let modifiers = Modifiers { user: true, ..event.modifiers };
            let user_only = Event { modifiers, ..event.clone() };
            return match self.try_alone(&user_only, first) {
                Ok(()) => Ok(user_only),
                Err(again) => Err(refusal::gap(self.host, &user_only, first.subject, again)),
            };
        }
        Err(refusal::gap(self.host, &event, first.subject, errno))
    }

    fn try_alone(&mut self, event: &Event, place: Place) -> Result<(), i32> {
        let attr = self.attr(event, 0, true);
        let opened = self.pmu.open(&attr, place.subject, place.cpu, None)?;
        self.pmu.close(opened);
        Ok(())
    }

    fn attr(&self, event: &Event, encoding: usize, leads: bool) -> Attr {
        Attr {
            encoding: event.encodings.get(encoding).copied().unwrap_or_default(),
            modifiers: event.modifiers,
            inherit: self.inherit,
            disabled: leads,
            on_exec: leads && self.on_exec,
        }
    }

    fn places_of(&self, event: &Event) -> Vec<Place> {
        let can = |cpu: Option<u32>| match (&event.cpus, cpu) {
            (Some(cpus), Some(cpu)) => cpus.contains(&cpu),
            _ => true,
        };
        self.places.iter().copied().filter(|place| can(place.cpu)).collect()
    }

    /// Puts events that are divided by each other into one group, where the list leaves them single.
    fn pair(&self, batches: &mut VecDeque<Vec<usize>>) {
        let misses_of = |first: &str, second: &str| {
            second.strip_suffix("-misses").is_some_and(|stem| first.strip_suffix('s') == Some(stem))
        };
        let goes_with = |first: &Event, second: &Event| {
            let known = PAIRS.contains(&(&first.name, &second.name)) || PAIRS.contains(&(&second.name, &first.name));
            let cache = misses_of(&first.name, &second.name) || misses_of(&second.name, &first.name);
            (known || cache) && first.modifiers == second.modifiers
        };
        for at in 0..batches.len() {
            let Some([one]) = batches.get(at).map(Vec::as_slice) else { continue };
            let one = *one;
            let partner = batches.iter().skip(at + 1).position(|other| match other.as_slice() {
                [other] => self.event(one).zip(self.event(*other)).is_some_and(|(a, b)| goes_with(a, b)),
                _ => false,
            });
            let partner = partner.and_then(|distance| batches.get_mut(at + 1 + distance)).map(std::mem::take);
            if let (Some(partner), Some(batch)) = (partner, batches.get_mut(at)) {
                batch.extend(partner);
            }
        }
    }

    /// Opens events together in all places, or apart where the machine wants it so.
    fn open_batch(&mut self, mut members: Vec<usize>, later: &mut VecDeque<Vec<usize>>) -> Result<(), Unavailable> {
        // Boxes of a device are counted one by one, and devices in places of their own.
        let is_single = |index: &usize| self.event(*index).is_some_and(|e| e.encodings.len() > 1 || e.cpus.is_some());
        if members.len() > 1 {
            let (single, rest): (Vec<usize>, Vec<usize>) = members.into_iter().partition(is_single);
            single.into_iter().for_each(|index| later.push_front(vec![index]));
            members = rest;
        }
        // A leader without a counter of the CPU can always lead.
        members.sort_by_key(|index| self.event(*index).is_none_or(|event| event.family != Family::Software));
        let Some(first) = members.first().and_then(|index| self.event(*index)).cloned() else { return Ok(()) };
        for encoding in 0..first.encodings.len() {
            let batch = Batch { members: members.clone(), encoding };
            match self.open_everywhere(&batch, &self.places_of(&first))? {
                Outcome::Opened(groups) => self.open.extend(groups),
                Outcome::Refused(at, _) if members.len() > 1 => {
                    let index = members.remove(at);
                    let name = self.event(index).map(Event::shown).unwrap_or_default();
                    self.notes.push(format!("{name} is counted at other moments than the events of its group"));
                    later.push_front(vec![index]);
                    later.push_front(members);
                    return Ok(());
                }
                Outcome::Refused(_, errno) => {
                    let subject = self.places.first().map_or(Subject::Everybody, |place| place.subject);
                    let gap = refusal::gap(self.host, &first, subject, errno);
                    if let Some(slot) = members.first().and_then(|index| self.slots.get_mut(*index)) {
                        slot.event = Err(gap);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn open_everywhere(&mut self, batch: &Batch, places: &[Place]) -> Result<Outcome, Unavailable> {
        let mut groups = Vec::new();
        let mut gone = 0;
        let mut last = libc::ESRCH;
        for place in places {
            match self.open_group(batch, *place) {
                Ok(group) => groups.push(group),
                // A thread that has ended, a CPU that was switched off: the others count on.
                Err((_, errno)) if is_gone(errno, *place) => {
                    gone += 1;
                    last = errno;
                }
                Err((at, errno)) => {
                    let name = batch.members.get(at).and_then(|index| self.event(*index)).cloned();
                    let handles = groups.iter().flat_map(|group: &OpenGroup| group.handles.iter().rev());
                    handles.for_each(|handle| self.pmu.close(*handle));
                    return match name {
                        Some(event) if [libc::EMFILE, libc::ENFILE].contains(&errno) => {
                            Err(refusal::gap(self.host, &event, place.subject, errno))
                        }
                        _ => Ok(Outcome::Refused(at, errno)),
                    };
                }
            }
        }
        if groups.is_empty() {
            return Ok(Outcome::Refused(0, last));
        }
        if gone > 0 {
            let what = if matches!(places.first().map(|place| place.subject), Some(Subject::Task(_))) {
                "threads"
            } else {
                "CPUs"
            };
            let note = format!("{gone} of {} {what} were gone when counting began", places.len());
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(Outcome::Opened(groups))
    }

    /// Opens a group in one place; an error holds which of its events was refused.
    fn open_group(&mut self, batch: &Batch, place: Place) -> Result<OpenGroup, (usize, i32)> {
        let mut handles: Vec<usize> = Vec::new();
        for (at, index) in batch.members.iter().enumerate() {
            let leader = handles.first().copied();
            let Some(event) = self.event(*index) else { continue };
            let attr = self.attr(event, batch.encoding, leader.is_none());
            match self.pmu.open(&attr, place.subject, place.cpu, leader) {
                Ok(handle) => handles.push(handle),
                Err(errno) => {
                    handles.iter().rev().for_each(|handle| self.pmu.close(*handle));
                    return Err((at, errno));
                }
            }
        }
        let before = GroupCounts { values: vec![0; handles.len()], ..GroupCounts::default() };
        Ok(OpenGroup { handles, members: batch.members.clone(), cpu: place.cpu, before })
    }
}

fn is_gone(errno: i32, place: Place) -> bool {
    match place.subject {
        Subject::Task(_) => errno == libc::ESRCH,
        _ => [libc::ENODEV, libc::ENXIO].contains(&errno),
    }
}

/// The threads of a process.
fn threads(host: &Host, pid: u32) -> Vec<u32> {
    let names = host.list(&format!("proc/{pid}/task")).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

fn missing(error: EventError) -> Unavailable {
    Unavailable::new(Reason::Absent, error.message)
}
