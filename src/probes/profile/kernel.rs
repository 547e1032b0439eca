//! Samples that a program in the kernel sums up.

use std::collections::BTreeSet;

use super::cpus::Cpus;
use super::dumps::{self, Dumped};
use super::tally::{DEPTH, Key, Sum, Tally};
use super::{Source, Wanted};
use crate::def::Context;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Object, include_bytes_aligned};
use rdiag_model::Unavailable;
use rdiag_model::probe::Attachment;

/// Stacks that the kernel's table has room for, at least and at most; each takes a kilobyte.
const STACKS: (u64, u64) = (4096, 65_536);
/// Seconds between two emptyings that the table must have room for, twice over: two stacks for each sample.
const SECONDS: u64 = 4;

pub(super) struct InKernel {
    object: Object,
    wanted: Wanted,
    cpus: Cpus,
    /// The totals at the last look.
    totals: [u64; 5],
    /// Names of stacks that the kernel's table holds, as far as we have seen them.
    kept: BTreeSet<u64>,
    room: usize,
    /// Bytes of the ring of samples whose stacks are to be walked, if they are.
    ring: Option<u32>,
}

impl InKernel {
    pub(super) fn start(context: &Context<'_>, wanted: &Wanted) -> Result<Self, Unavailable> {
        let host = context.host;
        let kernel = context.kernel()?;
        let mut globals = context.filter.globals(host)?;
        globals.push(Global::u32("want_user", u32::from(wanted.user)));
        globals.push(Global::u32("want_kernel", u32::from(wanted.kernel)));
        let cpus = Cpus::read(host);
        let count = u64::from(host.facts().cpus.max(1));
        let samples = wanted.per_second().saturating_mul(count);
        let room = samples.saturating_mul(SECONDS).clamp(STACKS.0, STACKS.1) as u32;
        let mut rooms = vec![("profile_stacks", room), ("profile_sums", room)];
        let ring = dumps::are_taken(wanted).then(|| dumps::ring(samples));
        let mut bytes: &[u8] = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/profile/profile.bpf.o"));
        if let Some(ring) = ring {
            bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/profile/tables.bpf.o"));
            globals.push(Global::u64("dump_rate", dumps::rate(ring, count)));
            rooms.push((dumps::MAP, ring));
        }
        let mut object = kernel.load(bytes, globals, &rooms)?;
        object.sample("sample", &wanted.event, wanted.every, &cpus.online())?;
        let room = room as usize;
        Ok(Self { object, wanted: wanted.clone(), cpus, totals: [0; 5], kept: BTreeSet::new(), room, ring })
    }

    fn stack(&mut self, name: u64, kernel: bool, tally: &mut Tally) {
        if tally.has_stack(name) {
            return;
        }
        self.kept.insert(name);
        if let Some(stack) = self.object.hash_value::<u64, [u64; DEPTH]>("profile_stacks", &name) {
            tally.keep(name, kernel, until_end(stack));
        }
    }

    /// What the kernel could not keep, and the samples without a task.
    fn count(&mut self, tally: &mut Tally) -> Result<(), Unavailable> {
        // The program that sends no stacks counts none.
        let mut now = [0; 5];
        now.iter_mut().zip(self.object.counts("profile_totals")?).for_each(|(now, count)| *now = count);
        let before = std::mem::replace(&mut self.totals, now);
        let new: Vec<u64> = now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        let [idle, _own, unsummed, unkept, undumped] = new.try_into().unwrap_or_default();
        tally.means.undumped += undumped;
        tally.idle += idle;
        tally.lose("samples, too many kinds at once", unsummed);
        tally.lose("stacks that found no room", unkept);
        Ok(())
    }
}

fn until_end(stack: [u64; DEPTH]) -> Vec<u64> {
    stack.into_iter().take_while(|address| *address != 0).collect()
}

impl Source for InKernel {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.object.attachments().to_vec()
    }

    fn gather(&mut self, host: &Host, tally: &mut Tally) -> Result<(), Unavailable> {
        let (came, note) = self.cpus.changed(host);
        tally.notes.extend(note);
        if !came.is_empty()
            && let Err(gap) = self.object.sample("sample", &self.wanted.event, self.wanted.every, &came)
        {
            tally.notes.push(format!("CPUs that came online are not sampled: {gap}"));
        }
        for (words, [count, weight, born]) in self.object.take_hash::<[u64; 6], [u64; 3]>("profile_sums")? {
            let key = Key::of_words(words, born);
            self.stack(key.kernel, true, tally);
            self.stack(key.user, false, tally);
            tally.add(key, Sum { count, weight });
        }
        if let Some(ring) = self.ring {
            tally.means.is_asked = true;
            let mut dumped: Vec<Dumped> = Vec::new();
            self.object.drain_bytes(dumps::MAP, ring as usize, |record| dumped.extend(Dumped::of(record)))?;
            for sample in dumped {
                self.stack(sample.key.kernel, true, tally);
                self.stack(sample.key.user, false, tally);
                tally.dump(sample);
            }
        }
        if self.kept.len() > self.room / 2 {
            self.kept.clear();
            // Samples that came since the sums were read need theirs at the next look. The kernel's half of the addresses
            // begins with a 1.
            for (name, stack) in self.object.take_hash::<u64, [u64; DEPTH]>("profile_stacks")? {
                if !tally.has_stack(name) {
                    tally.keep(name, stack.first().is_some_and(|address| address >> 63 == 1), until_end(stack));
                }
            }
        }
        self.count(tally)
    }
}
