//! Where threads are while they run, by samples (`running.h`). How long they ran is known exactly; samples divide it among functions.

use std::collections::{BTreeMap, BTreeSet};

use super::stacks::{DEPTH, StackNames, part};
use super::steps::Steps;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, words};
use rdiag_kernel::mechanism::perf::cpus::online;
use rdiag_kernel::mechanism::perf::event::{Event, Every};
use rdiag_kernel::mechanism::symbols::{Piece, Process, Sample, Symbols, calls as call_sites};
use rdiag_model::{Component, Ledger, Unavailable};

/// Samples in each second of a CPU: a number that programs' own periods are no multiple of.
const HERTZ: u64 = 99;
/// The event that is everywhere.
const CLOCK: &str = "cpu-clock";
/// Samples of a CPU for which there is room: they are taken over several times in a second.
const ROOM: u32 = 128;
/// `struct running`: ids, birth of the process, name, stack in user mode and in the kernel.
type RunningWords = [u64; 6];

/// Samples of a thread's code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Code {
    process: Process,
    comm: String,
    user: u64,
    /// 0: it ran in user mode.
    kernel: u64,
}

/// How often threads were met in which code.
#[derive(Debug, Default)]
pub(super) struct Running {
    samples: BTreeMap<Code, u64>,
    processes: BTreeSet<Process>,
    /// Why none are taken.
    why_not: Option<String>,
}

/// How much room there is to be for samples between two takings.
pub(super) fn room(host: &Host) -> u32 {
    host.facts().cpus.saturating_mul(ROOM).clamp(512, 16_384)
}

/// Has samples taken, of Python by another program than of the rest.
pub(super) fn attach(object: &mut Object, host: &Host, of_python: bool) -> Result<(), Unavailable> {
    let program = if of_python { "sample_running_python" } else { "sample_running_code" };
    object.sample(program, &Event::find(host, CLOCK)?, Every::Hertz(HERTZ), &online(host))
}

impl Running {
    /// That has samples taken, if it can.
    pub(super) fn begin(object: &mut Object, host: &Host) -> Self {
        let why = attach(object, host, false).err();
        Self { why_not: why.map(|gap| format!("where CPU time went is not known: {}", gap.why)), ..Self::default() }
    }

    /// What must be said.
    pub(super) fn note(&self) -> Option<String> {
        self.why_not.clone()
    }

    /// Processes that were met since the last look.
    pub(super) fn processes(&mut self) -> BTreeSet<Process> {
        std::mem::take(&mut self.processes)
    }

    /// Forgets what came before an observation.
    pub(super) fn clear(&mut self, object: &mut Object) -> Result<(), Unavailable> {
        object.take_hash::<RunningWords, u64>("running")?;
        self.samples.clear();
        Ok(())
    }

    /// Takes over what was sampled meanwhile, but of the process that only starts what is observed. Gives the stacks in user mode that are
    /// new, which are to be named while their processes live.
    pub(super) fn take(
        &mut self,
        object: &mut Object,
        host: &Host,
        symbols: &mut Symbols,
        stacks: &mut StackNames,
        starter: Option<u32>,
    ) -> Result<BTreeSet<(Process, u64)>, Unavailable> {
        let taken = object.take_hash::<RunningWords, u64>("running")?;
        let mut fresh = BTreeSet::new();
        for (name, stack) in object.take_hash::<u64, [u64; DEPTH]>("running_stacks")? {
            if stacks.insert(name, &stack) {
                fresh.insert(name);
            }
        }
        let mut to_name = BTreeSet::new();
        for ([ids, born, comm_0, comm_1, user, kernel], count) in taken {
            let process = Process { pid: (ids >> 32) as u32, born };
            if starter == Some(process.pid) || self.why_not.is_some() {
                continue;
            }
            if let Some(stack) = stacks.get(kernel).filter(|_| fresh.contains(&kernel)) {
                symbols.learn(host, None, call_sites(None, stack));
            }
            self.processes.insert(process);
            let code = Code { process, comm: words::text_of_words(&[comm_0, comm_1]), user, kernel };
            let is_new = !self.samples.contains_key(&code);
            if is_new && stacks.get(user).is_some() {
                to_name.insert((process, user));
            }
            *self.samples.entry(code).or_default() += count;
        }
        Ok(to_name)
    }

    /// The CPU time of the ledger, divided by the samples, for each process by itself as far as it has a row: those in the kernel stand for
    /// time in the kernel.
    pub(super) fn samples<'s>(
        &self,
        ledger: &Ledger,
        stacks: &'s StackNames,
        steps: &Steps,
    ) -> BTreeMap<Component, Vec<Sample<'s>>> {
        let component = |code: &Code| if code.kernel == 0 { Component::CpuUser } else { Component::CpuSys };
        let mut seconds: BTreeMap<(Component, u32), f64> = BTreeMap::new();
        for thread in &ledger.threads {
            for part in thread.parts.iter().filter(|part| part.component.on_cpu()) {
                *seconds.entry((part.component, thread.pid)).or_default() += part.seconds;
            }
        }
        // Rows for many threads together have no process.
        let row = |code: &Code| {
            let own = (component(code), code.process.pid);
            if seconds.contains_key(&own) { own } else { (component(code), 0) }
        };
        let mut counts: BTreeMap<(Component, u32), u64> = BTreeMap::new();
        for (code, count) in &self.samples {
            *counts.entry(row(code)).or_default() += count;
        }
        let mut samples: BTreeMap<Component, Vec<Sample<'_>>> = BTreeMap::new();
        for (code, count) in &self.samples {
            let row = row(code);
            let (Some(whole), Some(of)) = (seconds.get(&row), counts.get(&row)) else { continue };
            let user = steps.of_running(stacks, code.process, code.user);
            let user = Piece::Frames { process: Some(code.process), part: user, reversed: false };
            let kernel = Piece::Frames { process: None, part: part(stacks, code.kernel), reversed: false };
            samples.entry(component(code)).or_default().push(Sample {
                owner: code.comm.clone(),
                pid: Some(code.process.pid),
                pieces: vec![user, kernel],
                value: whole * *count as f64 / *of as f64,
                count: *count,
            });
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::ledger::{Accuracy, Part, Thread};

    #[test]
    fn samples_divide_what_is_known_of_the_time_of_a_process_in_each_mode() {
        let code = |pid, user, kernel| Code { process: Process { pid, born: 1 }, comm: "app".to_owned(), user, kernel };
        let samples =
            [(code(7, 2, 0), 30), (code(7, 3, 0), 10), (code(7, 3, 5), 4), (code(8, 2, 0), 1), (code(9, 2, 0), 5)];
        let running = Running { samples: samples.into(), ..Running::default() };
        let part = |component, seconds| Part {
            component,
            call: String::new(),
            key: String::new(),
            seconds,
            accuracy: Accuracy::Exact,
            edge_seconds: 0.0,
            open: 0,
            durations: None,
        };
        let thread = |pid, parts| Thread { pid, parts, ..Thread::default() };
        let of_7 = vec![part(Component::CpuUser, 2.0), part(Component::CpuSys, 1.0), part(Component::WaitSleep, 9.0)];
        let threads = vec![thread(7, of_7), thread(8, vec![part(Component::CpuUser, 3.0)])];
        let ledger = Ledger { threads, ..Ledger::default() };
        let stacks = StackNames::default();
        let samples = running.samples(&ledger, &stacks, &Steps::default());
        let values = |component| samples[&component].iter().map(|one| (one.value, one.count)).collect::<Vec<_>>();
        assert_eq!(values(Component::CpuUser), [(1.5, 30), (0.5, 10), (3.0, 1)], "of 9 no time is known");
        assert_eq!(values(Component::CpuSys), [(1.0, 4)]);
        assert_eq!(samples.len(), 2);
    }
}
