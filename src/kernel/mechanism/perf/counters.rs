//! Counting: events opened wherever they are asked for, and read as differences, scaled to the time that they should
//! have counted.

use super::open::{Opener, Slot};
use super::pmc::{GroupCounts, Machine, Pmu};
use super::select::{Event, Group};
use crate::host::Host;
use rdiag_model::Unavailable;

/// What to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everything on all CPUs.
    Host,
    /// A control group and those below it, on all CPUs: the path of its directory below the host's root.
    Group(String),
    /// Processes, with all of their threads and the children that they have from now on.
    Processes(Vec<u32>),
    /// A process that stands still before it executes its program: counted from that moment, children included.
    Command(u32),
}

/// Events that are being counted.
pub struct Counters {
    pmu: Box<dyn Pmu>,
    slots: Vec<Slot>,
    open: Vec<OpenGroup>,
    notes: Vec<String>,
    /// Keeps the control group's directory open.
    _group: Option<std::fs::File>,
}

/// A group that was opened in one place.
pub(super) struct OpenGroup {
    /// The leader's handle and those of the others.
    pub(super) handles: Vec<usize>,
    /// Places of the same events in the list.
    pub(super) members: Vec<usize>,
    pub(super) cpu: Option<u32>,
    pub(super) before: GroupCounts,
}

impl OpenGroup {
    fn leader(&self) -> usize {
        self.handles.first().copied().unwrap_or(usize::MAX)
    }
}

/// What was counted of an event since the last reading, or why nothing was.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// As it is shown, modifiers included.
    pub name: String,
    /// The event and its count.
    pub outcome: Result<(Event, Count), Unavailable>,
}

/// The count of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Count {
    /// The count in the kernel's own unit, scaled to all of the time; none if it was never counted, which is not 0.
    pub value: Option<f64>,
    /// The share (0–1) of the time that it really was counted, as others wanted the same counters.
    pub share: f64,
    /// By CPU, where CPUs are counted: number and count.
    pub cpus: Vec<(u32, Option<f64>)>,
    /// Which events were counted in the same moments: two with the same number can be divided.
    pub together: usize,
}

impl Counters {
    /// Opens the events on this machine. An error says why nothing can be counted at all.
    pub fn open(host: &Host, groups: Vec<Group>, scope: &Scope) -> Result<Self, Unavailable> {
        Self::open_on(host, Box::new(Machine::default()), groups, scope)
    }

    pub(super) fn open_on(
        host: &Host,
        mut pmu: Box<dyn Pmu>,
        groups: Vec<Group>,
        scope: &Scope,
    ) -> Result<Self, Unavailable> {
        let mut opener = Opener::new(host, pmu.as_mut(), scope)?;
        opener.open_all(groups)?;
        let Opener { slots, open, notes, group, .. } = opener;
        let gaps = slots.iter().filter_map(|slot| slot.event.as_ref().err());
        if open.is_empty()
            && let Some(gap) = gaps.min_by_key(|gap| gap.remedy.is_none())
        {
            return Err(gap.clone());
        }
        let mut counters = Self { pmu, slots, open, notes, _group: group };
        if !matches!(scope, Scope::Command(_)) {
            counters.enable();
        }
        Ok(counters)
    }

    fn enable(&mut self) {
        let failed = self.open.iter().filter(|group| self.pmu.enable(group.leader()).is_err()).count();
        if failed > 0 {
            self.notes.push(format!("{failed} of {} counters could not be switched on", self.open.len()));
        }
    }

    /// What the reader must know about all readings.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The names of the events that are counted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().filter(|slot| slot.event.is_ok()).map(|slot| slot.name.as_str())
    }

    /// What was counted since the last reading, in the order of the list, and what went wrong.
    pub fn read(&mut self) -> (Vec<Counted>, Vec<String>) {
        let mut sums: Vec<Sum> = self.slots.iter().map(|_| Sum::default()).collect();
        let (mut unread, mut stepped_back) = (0, 0);
        for (together, group) in self.open.iter_mut().enumerate() {
            let Ok(now) = self.pmu.read(group.leader()) else {
                unread += 1;
                continue;
            };
            let before = std::mem::replace(&mut group.before, now.clone());
            let enabled = now.enabled.saturating_sub(before.enabled);
            let running = now.running.saturating_sub(before.running);
            for (at, index) in group.members.iter().enumerate() {
                let value = |reading: &GroupCounts| reading.values.get(at).copied().unwrap_or(0);
                // A counter of 64 bits may pass its end; one that seems to grow by more than half of that went back.
                let change = value(&now).wrapping_sub(value(&before));
                let Some(sum) = sums.get_mut(*index) else { continue };
                if change > u64::MAX / 2 {
                    stepped_back += 1;
                    continue;
                }
                sum.add(group.cpu, change, enabled, running);
                sum.together.get_or_insert(together);
            }
        }
        let mut notes = Vec::new();
        if unread > 0 {
            notes.push(format!("{unread} of {} groups of counters could not be read", self.open.len()));
        }
        if stepped_back > 0 {
            notes.push(format!("{stepped_back} counters went backwards and were left out"));
        }
        let counted = self.slots.iter().zip(sums).map(|(slot, sum)| {
            let outcome = slot.event.clone().map(|event| (event, sum.count()));
            Counted { name: slot.name.clone(), outcome }
        });
        (counted.collect(), notes)
    }
}

/// The sum of an event over all places where it was opened.
#[derive(Debug, Default)]
struct Sum {
    value: f64,
    /// Nanoseconds: in all, of the counters that counted at all, and in which they counted.
    enabled: f64,
    covered: f64,
    running: f64,
    cpus: Vec<(u32, Option<f64>)>,
    together: Option<usize>,
}

impl Sum {
    fn add(&mut self, cpu: Option<u32>, change: u64, enabled: u64, running: u64) {
        let scaled = (running > 0).then(|| change as f64 * (enabled as f64 / running as f64).max(1.0));
        self.enabled += enabled as f64;
        self.running += running.min(enabled) as f64;
        if let Some(scaled) = scaled {
            self.value += scaled;
            self.covered += enabled as f64;
        }
        let Some(cpu) = cpu else { return };
        match self.cpus.iter_mut().find(|(known, _)| *known == cpu) {
            Some((_, known)) => *known = known.zip(scaled).map(|(a, b)| a + b),
            None => self.cpus.push((cpu, scaled)),
        }
    }

    fn count(self) -> Count {
        let share = if self.enabled > 0.0 { self.running / self.enabled } else { 0.0 };
        // Where some places were counted and others were not, these are taken to be alike.
        let value = (self.covered > 0.0).then(|| self.value * self.enabled / self.covered);
        Count { value, share, cpus: self.cpus, together: self.together.unwrap_or(usize::MAX) }
    }
}
