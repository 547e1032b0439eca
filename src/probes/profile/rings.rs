//! Samples from rings: where no program can be in the kernel, and for users who may only look at their own processes.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use super::cpus::Cpus;
use super::tally::{Key, MISSING, Sum, Tally};
use super::{Source, Wanted};
use crate::def::Context;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Filter, words};
use rdiag_kernel::mechanism::perf::sampler::{Record, Sample, Sampler, Sampling, Target};
use rdiag_kernel::mechanism::symbols::Process;
use rdiag_model::probe::Attachment;
use rdiag_model::{Reason, Unavailable};

/// Names and processes that are remembered.
const MAX_KNOWN: usize = 20_000;

pub(super) struct InRings {
    samplers: Vec<Sampler>,
    wanted: Wanted,
    target: Target,
    comm: Option<[u64; 2]>,
    own: u32,
    cpus: Cpus,
    processes: HashMap<u32, Process>,
    names: HashMap<u32, [u64; 2]>,
    /// What spoke against programs in the kernel.
    refused: String,
    /// Tasks of other process namespaces look like the idle task.
    idle_is_idle: bool,
}

/// Inode of the first process namespace: PROC_PID_INIT_INO of the kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

impl InRings {
    /// Begins; `first` is why there is no program in the kernel.
    pub(super) fn start(context: &Context<'_>, wanted: &Wanted, first: &Unavailable) -> Result<Self, Unavailable> {
        let host = context.host;
        if host.is_recorded() {
            return Err(first.clone());
        }
        let cpus = Cpus::read(host);
        let mut wanted = wanted.clone();
        let mut target = target(host, context.filter)?;
        let mut opened = open(host, &wanted, &target, &cpus.online());
        // The kernel's part of the stacks takes a right that the processes' own does not.
        if let Err(gap) = &opened
            && gap.reason == Reason::Denied
        {
            let own = own_processes(host, context.filter);
            if matches!(target, Target::Host) && !own.is_empty() {
                target = Target::Processes(own);
            }
            if matches!(target, Target::Processes(_)) && wanted.user {
                wanted.kernel = false;
                opened = open(host, &wanted, &target, &cpus.online());
            }
        }
        let sampler = opened.map_err(|gap| match gap.why == first.why {
            true => gap,
            false => Unavailable { why: format!("{}; by a program in the kernel: {}", gap.why, first.why), ..gap },
        })?;
        Ok(Self {
            samplers: vec![sampler],
            wanted,
            target,
            comm: context.filter.comm.as_deref().map(|name| comm(name.as_bytes())),
            own: host.facts().pid,
            cpus,
            processes: HashMap::new(),
            names: HashMap::new(),
            refused: first.why.clone(),
            idle_is_idle: host.link("proc/self/ns/pid").is_ok_and(|namespace| namespace == FIRST_PID_NAMESPACE),
        })
    }

    /// Whether the kernel is part of what is sampled.
    pub(super) fn sees_kernel(&self) -> bool {
        self.wanted.kernel
    }

    /// Whether all that runs on the host is sampled.
    pub(super) fn sees_host(&self) -> bool {
        matches!(self.target, Target::Host) && self.comm.is_none() && self.idle_is_idle
    }

    fn add(&mut self, host: &Host, sample: Sample, tally: &mut Tally) {
        let is_idle_task = sample.pid == 0;
        if is_idle_task && !self.sees_host() {
            return;
        }
        let comm = if is_idle_task { Key::IDLE_TASK } else { self.name(host, sample.pid, sample.tid) };
        if sample.pid == self.own || self.comm.is_some_and(|wanted| wanted != comm) {
            return;
        }
        let process = if is_idle_task { Process { pid: 0, born: 0 } } else { self.process(host, sample.pid) };
        let mut keep = |stack: Vec<u64>, kernel: bool| {
            if stack.is_empty() {
                return 0;
            }
            let mut hash = DefaultHasher::new();
            (kernel, &stack).hash(&mut hash);
            let name = hash.finish().max(MISSING + 1);
            if !tally.has_stack(name) {
                tally.keep(name, kernel, stack);
            }
            name
        };
        let (kernel, user) = (keep(sample.kernel, true), keep(sample.user, false));
        let key = Key { process, comm, kernel, user, in_kernel: sample.in_kernel };
        tally.add(key, Sum { count: 1, weight: sample.weight });
    }

    fn process(&mut self, host: &Host, pid: u32) -> Process {
        if self.processes.len() > MAX_KNOWN {
            self.processes.clear();
        }
        let found = || Process::of(host, pid).unwrap_or(Process { pid, born: 0 });
        *self.processes.entry(pid).or_insert_with(found)
    }

    /// The name of a thread, as the kernel told it when it changed, or as it is now.
    fn name(&mut self, host: &Host, pid: u32, tid: u32) -> [u64; 2] {
        if self.names.len() > MAX_KNOWN {
            self.names.clear();
        }
        let found = || comm(host.read_line(&format!("proc/{pid}/task/{tid}/comm")).unwrap_or_default().as_bytes());
        *self.names.entry(tid).or_insert_with(found)
    }
}

/// The tasks that the filter selects, as far as the kernel itself can.
fn target(host: &Host, filter: &Filter) -> Result<Target, Unavailable> {
    if let Some(path) = &filter.cgroup {
        let path = path.trim_start_matches("/sys/fs/cgroup").trim_matches('/');
        let places = ["sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/perf_event"];
        let found = places
            .iter()
            .map(|tree| format!("{tree}/{path}"))
            .find(|place| host.exists(&format!("{place}/cgroup.procs")));
        let place = found.ok_or_else(|| {
            Unavailable::new(Reason::Absent, format!("there is no control group {path:?}"))
                .with_remedy("give its path below /sys/fs/cgroup, as /proc/PID/cgroup shows it")
        })?;
        return Ok(Target::Cgroup(host.open(&place)?));
    }
    Ok(if filter.pids.is_empty() { Target::Host } else { Target::Processes(filter.pids.clone()) })
}

/// Processes of this user with the name that is wanted: what remains to those who may not look at the whole host.
fn own_processes(host: &Host, filter: &Filter) -> Vec<u32> {
    let Some(comm) = &filter.comm else { return Vec::new() };
    let named = |pid: &u32| host.read_line(&format!("proc/{pid}/comm")).is_ok_and(|name| name == *comm);
    let own =
        |pid: &u32| host.owner_and_inode(&format!("proc/{pid}")).is_some_and(|(owner, _)| owner == host.facts().uid);
    let all = host.list("proc").unwrap_or_default();
    all.iter().filter_map(|name| name.parse().ok()).filter(|pid| named(pid) && own(pid)).collect()
}

fn open(host: &Host, wanted: &Wanted, target: &Target, cpus: &[u32]) -> Result<Sampler, Unavailable> {
    let Wanted { event, every, user, kernel, .. } = wanted;
    Sampler::open(host, &Sampling { event, every: *every, user: *user, kernel: *kernel, target }, cpus)
}

/// A name as the kernel keeps it: 15 bytes and a NUL.
fn comm(name: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(name.iter().take(15)) {
        *to = *from;
    }
    [words::word(&bytes, 0), words::word(&bytes, 8)]
}

impl Source for InRings {
    fn attachments(&self) -> Vec<Attachment> {
        let refused = vec![format!("perf event program: {}", self.refused)];
        vec![Attachment { event: self.wanted.event.name.clone(), back_end: "sampling ring".into(), refused }]
    }

    fn gather(&mut self, host: &Host, tally: &mut Tally) -> Result<(), Unavailable> {
        let (came, note) = self.cpus.changed(host);
        tally.notes.extend(note);
        if !came.is_empty() {
            match open(host, &self.wanted, &self.target, &came) {
                Ok(sampler) => self.samplers.push(sampler),
                Err(gap) => tally.notes.push(format!("CPUs that came online are not sampled: {gap}")),
            }
        }
        if !self.idle_is_idle && matches!(self.target, Target::Host) {
            tally.note("what runs in other process namespaces is not in it");
        }
        let mut records = Vec::new();
        let mut strange = 0;
        for sampler in &mut self.samplers {
            strange += sampler.drain(&mut |record| records.push(record));
        }
        tally.lose("bytes of the ring that could not be understood", strange as u64);
        // The last record of a name wins: a program that was started has another than the shell that started it.
        for record in records {
            match record {
                Record::Sample(sample) => self.add(host, sample, tally),
                Record::Lost(count) => tally.lose("samples, the ring was full", count),
                Record::Name { tid, name } => drop(self.names.insert(tid, comm(&name))),
                Record::Throttled => tally.lose("samples for the rest of a tick, as sampling took too long", 1),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_kernel::mechanism::ebpf::words::text_of_words;

    #[test]
    fn a_name_is_cut_as_the_kernel_cuts_it() {
        assert_eq!(text_of_words(&comm(b"worker/7")), "worker/7");
        assert_eq!(text_of_words(&comm(b"a-name-that-is-too-long")), "a-name-that-is-");
        assert_eq!(comm(b""), [0, 0]);
    }
}
