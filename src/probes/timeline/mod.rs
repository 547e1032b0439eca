//! `timeline`: who ran when, on which CPU.

mod slices;

use std::collections::BTreeMap;

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object, include_bytes_aligned};
use rdiag_kernel::mechanism::perf::cpus;
use rdiag_model::Unavailable;
use rdiag_model::probe::Output;
use slices::{CPU_WORDS, Cpu, LOST, Raw, SLICE_WORDS, WRITTEN};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "timeline",
    question: "Who ran when, on which CPU, and how long did each wait for it?",
    attach: "sched_switch; a timer on each CPU, which looks who runs until the first switch.",
    output: "The stays of tasks on CPUs in order of time, drawn as a strip for each CPU and for the tasks that ran most; for each task its \
        CPU \
             time, how often it ran, its longest stay, how long it waited for a CPU, how often it was pre-empted and \
             moved to another CPU. The format json has every stay, with the wait before it and why it ended.",
    caveats: "Each CPU has a fixed number of places for stays (`slices`). Those that come when they are full are counted as lost, and the \
              time until the next reading is not known (`?`) on that CPU: take a shorter time, filters or more places. Waits are the \
              growth of \
              the kernel's own account (run_delay) since the task ran last; of the first stay in a reading, since it was put on that \
              CPU's queue. Time in interrupts counts as that of the task which they interrupt. rdiag itself is shown, like any task.",
    overhead: "Measured at 0.7 µs per context switch (6,200 of them a second on two busy CPUs: 0.4 % of one CPU), twenty short looks per \
        second and CPU; \
               64 bytes for each place.",
    params: &[
        ParamDef {
            name: "slices",
            kind: ParamKind::Count { min: 100, max: 100_000 },
            default: "10000",
            help: "keep so many stays for each CPU and reading, and count the others",
        },
        ParamDef::top("how many tasks to show"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// Stays that a reading holds on all CPUs together, so that a recording stays small on a machine with many.
const MOST: u32 = 200_000;
/// How often per second the clock looks at each CPU.
const LOOKS: u64 = 20;

struct Timeline {
    object: Object,
    places: u32,
    top: usize,
    /// CLOCK_MONOTONIC seconds when the probe began, and when the last reading ended.
    began: f64,
    since: f64,
    /// What each CPU had written and lost by the last reading.
    written: Vec<u64>,
    lost: Vec<u64>,
    /// CPUs that lost something while they were read.
    late: Vec<bool>,
    notes: Vec<String>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/timeline/timeline.bpf.o"));
    let (host, kernel) = (context.host, context.kernel()?);
    let online = cpus::online(host).len().max(1) as u32;
    let asked = context.params.count("slices") as u32;
    let places = asked.min(MOST / online).max(1);
    let mut notes = Vec::new();
    if places < asked {
        notes.push(format!("each of the {online} CPUs has {places} places for stays: a reading holds {MOST} in all"));
    }
    let mut globals = context.filter.globals(host)?;
    globals.push(Global::u32("places", places));
    let mut object = kernel.load(bytes, globals, &[("slices", places)])?;
    object.attach(kernel, Hook::Tracepoint("sched_switch"))?;
    if let Err(gap) = object.attach(kernel, Hook::Clock { program: "look", hz: LOOKS }) {
        notes.push(format!("what a CPU does before its first switch is not known: {}", gap.why));
    }
    let possible = object.per_cpu_element::<[u64; CPU_WORDS]>("running", 0)?.len();
    let now = host.now();
    Ok(Box::new(Timeline {
        object,
        places,
        top: context.params.count("top") as usize,
        began: now,
        since: now,
        written: vec![0; possible],
        lost: vec![0; possible],
        late: vec![false; possible],
        notes,
    }))
}

impl Timeline {
    /// What the CPUs have put down since the last reading, and up to when; their places are free again.
    fn cpus(&mut self, host: &Host) -> Result<(Vec<Cpu>, f64), Unavailable> {
        let online = cpus::online(host);
        let states = self.object.per_cpu_element::<[u64; CPU_WORDS]>("running", 0)?;
        // Taking over the stays takes time itself, and what ends meanwhile belongs to the next reading.
        let until = host.now();
        let mut found: BTreeMap<usize, Vec<Raw>> = BTreeMap::new();
        for place in 0..self.places {
            let wanted: Vec<(usize, u64)> = self
                .written
                .iter()
                .zip(&states)
                .enumerate()
                .filter_map(|(cpu, (read, state))| Some((cpu, number_at(*read, state[WRITTEN], place, self.places)?)))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let slices = self.object.per_cpu_element::<[u64; SLICE_WORDS]>("slices", place)?;
            for (cpu, number) in wanted {
                found.entry(cpu).or_default().extend(slices.get(cpu).map(|slice| (number, *slice)));
            }
        }
        self.object.set_per_cpu_element("taken", 0, states.iter().map(|state| state[WRITTEN]).collect())?;
        let after = self.object.per_cpu_element::<[u64; CPU_WORDS]>("running", 0)?;
        let mut cpus = Vec::new();
        for (cpu, (state, after)) in states.iter().zip(&after).enumerate() {
            let (Some(written), Some(lost), Some(late)) =
                (self.written.get_mut(cpu), self.lost.get_mut(cpu), self.late.get_mut(cpu))
            else {
                continue;
            };
            if online.contains(&(cpu as u32)) || state[WRITTEN] > *written {
                let mut slices = found.remove(&cpu).unwrap_or_default();
                slices.sort_unstable_by_key(|(number, _)| *number);
                cpus.push(Cpu {
                    cpu: cpu as u32,
                    slices: slices.into_iter().map(|(_, slice)| slice).collect(),
                    running: *state,
                    lost: state[LOST] - *lost,
                    began_full: *late,
                });
            }
            // What was lost meanwhile counts in the next reading, which it is the beginning of.
            *late = after[LOST] > state[LOST];
            (*written, *lost) = (state[WRITTEN], state[LOST]);
        }
        Ok((cpus, until))
    }
}

/// The number of the stay that lies in a place, if it is one of those from `read` up to `written`.
fn number_at(read: u64, written: u64, place: u32, places: u32) -> Option<u64> {
    let places = u64::from(places.max(1));
    let ahead = (u64::from(place) + places - read % places) % places;
    let number = read.checked_add(ahead)?;
    (number < written).then_some(number)
}

impl Probe for Timeline {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let (cpus, now) = self.cpus(host)?;
        let from = std::mem::replace(&mut self.since, now);
        let lost = cpus.iter().map(|cpu| cpu.lost).sum();
        let mut notes = self.notes.clone();
        let unseen = slices::unseen(&cpus);
        if unseen > 0 {
            notes.push(format!(
                "{unseen} times the kernel did not announce a switch: who ran before is not known there (?)"
            ));
        }
        let (schedule, table) = slices::schedule(&cpus, (from, now), self.began, self.top);
        Ok(Taken {
            outputs: vec![Output::Schedule(schedule), Output::Table(table)],
            lost: vec![("no place for more stays on that CPU", lost)],
            notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::number_at;

    #[test]
    fn a_place_is_used_again_and_again_and_holds_what_is_not_yet_read() {
        let numbers = |read, written| (0..4).map(|place| number_at(read, written, place, 4)).collect::<Vec<_>>();
        assert_eq!(numbers(0, 0), [None; 4]);
        assert_eq!(numbers(0, 3), [Some(0), Some(1), Some(2), None]);
        assert_eq!(numbers(3, 6), [Some(4), Some(5), None, Some(3)]);
        assert_eq!(numbers(6, 10), [Some(8), Some(9), Some(6), Some(7)]);
    }
}
