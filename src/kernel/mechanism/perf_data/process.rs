//! The kernel's records, each in its turn: who was named how, what was mapped where, and the samples themselves.

use super::attributes::{MAX_COMM, MAX_PATH, short};
use super::bytes::Bytes;
use super::sample::{self, Mode};
use super::tasks::Mapping;
use super::{KERNEL, MAX_FRAMES, NOWHERE, Object, Recorded};

impl Recorded {
    /// Takes a record of the kernel in, in its turn.
    pub(super) fn process(&mut self, record: &[u8]) {
        let mut bytes = Bytes(record);
        let (Some(kind), Some(misc), Some(_size)) = (bytes.u32(), bytes.u16(), bytes.u16()) else { return };
        let done = match kind {
            1 | 10 => self.mapping(kind, misc, bytes),
            2 => {
                let _id = bytes.u64();
                bytes.u64().map(|lost| self.lost = self.lost.saturating_add(lost))
            }
            13 => bytes.u64().map(|lost| self.lost = self.lost.saturating_add(lost)),
            3 => self.comm(misc, bytes),
            7 => self.fork(bytes),
            9 => self.sample(misc, bytes.0),
            _ => Some(()),
        };
        self.damaged += u64::from(done.is_none());
    }

    fn mapping(&mut self, kind: u32, misc: u16, mut bytes: Bytes<'_>) -> Option<()> {
        let (pid, _tid) = (bytes.u32()?, bytes.u32()?);
        let (start, length, offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let mut build_id = None;
        if kind == 10 {
            let identity = bytes.take(24)?;
            let (protection, _flags) = (bytes.u32()?, bytes.u32()?);
            // In place of device and inode.
            if misc & 1 << 14 != 0 {
                let size = usize::from(identity.first().copied()?.min(20));
                build_id = identity.get(4..4 + size).map(<[u8]>::to_vec);
            }
            if protection & 4 == 0 {
                return Some(());
            }
        } else if misc & 1 << 13 != 0 {
            // Memory that is no code.
            return Some(());
        }
        let path = short(&bytes.text(), MAX_PATH);
        if Mode::of(misc) != Mode::User {
            // `[kernel.kallsyms]_text`, at the address of that function.
            if let Some(name) = path.strip_prefix("[kernel.kallsyms]").filter(|name| !name.is_empty()) {
                self.landmark.get_or_insert((name.to_owned(), offset));
            }
            return Some(());
        }
        let object = if is_file(&path) { self.objects.number(Object { path, build_id })? } else { NOWHERE };
        let offset = if object == NOWHERE { start } else { offset };
        self.tasks.map(pid, start, Mapping { end: start.saturating_add(length), offset, object });
        Some(())
    }

    fn comm(&mut self, misc: u16, mut bytes: Bytes<'_>) -> Option<()> {
        let (pid, tid) = (bytes.u32()?, bytes.u32()?);
        let name = self.names.number(short(&bytes.text(), MAX_COMM))?;
        self.tasks.rename(pid, tid, name, misc & 1 << 13 != 0);
        Some(())
    }

    fn fork(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        let (pid, parent, tid, parent_tid) = (bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?);
        self.tasks.fork((pid, tid), (parent, parent_tid));
        Some(())
    }

    fn sample(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let at = self.event_of(body);
        let event = self.known.events.get(at)?;
        let sample = sample::sample(event, body)?;
        let (is_clock, period) = (event.is_clock(), sample.period.or(event.period));
        self.samples += 1;
        if sample.time > 0 {
            (self.first, self.last) = (self.first.min(sample.time), self.last.max(sample.time));
        }
        let name = match self.tasks.name(sample.tid).or_else(|| self.tasks.name(sample.pid)) {
            Some(name) => name,
            // The idle tasks have no record of their name.
            None if sample.tid == 0 => self.names.number("swapper".to_owned())?,
            None => self.names.number(format!(":{}", sample.tid))?,
        };
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        key.extend([at as u32, name]);
        let is_cut = self.chain(Mode::of(misc), &sample, &mut key);
        let value = period.unwrap_or(1) as f64 * if is_clock { 1e-9 } else { 1.0 };
        if is_cut && let Some(cut) = self.cut.get_mut(at) {
            *cut += value;
        }
        let fits = self.frames + key.len() <= MAX_FRAMES;
        let sum = match self.sums.get_mut(key.as_slice()) {
            Some(sum) => Some(sum),
            None if fits => {
                self.frames += key.len();
                Some(self.sums.entry(key.clone().into_boxed_slice()).or_default())
            }
            None => self.crowded.get_mut(at),
        };
        self.scratch = key;
        let sum = sum?;
        sum.value += value;
        sum.count += 1;
        Some(())
    }

    /// The places of a call chain, innermost first. Whether it was cut.
    fn chain(&mut self, mut mode: Mode, sample: &sample::Sample<'_>, key: &mut Vec<u32>) -> bool {
        let mut is_innermost = true;
        // Where a program stood when it entered the kernel is no address to return to either.
        let mut is_exact = true;
        let only = [sample.ip];
        let mut words = sample.chain.words().peekable();
        let without = words.peek().is_none();
        for address in words.chain(only.into_iter().filter(|_| without)) {
            if let Some(now) = Mode::of_mark(address) {
                mode = now;
                is_exact |= mode == Mode::User;
                continue;
            }
            // All but the first are addresses to return to, which may belong to the next function: the call stands before them.
            let address = if std::mem::take(&mut is_exact) { address } else { address.saturating_sub(1) };
            let place = match mode {
                Mode::Kernel => (KERNEL, address),
                Mode::Other => (NOWHERE, address),
                Mode::User => match self.tasks.place(sample.pid, address) {
                    Some((NOWHERE, _)) => (NOWHERE, address),
                    Some(place) => place,
                    None if is_innermost => (NOWHERE, address),
                    // Without frame pointers what is taken for a caller may be anything.
                    None => return true,
                },
            };
            is_innermost = false;
            key.push(self.places.number(place).unwrap_or(u32::MAX));
        }
        false
    }
}

/// Whether a mapping is of a file that can be looked into later.
fn is_file(path: &str) -> bool {
    (path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/dev/zero") && !path.starts_with("/memfd:"))
        || path == "[vdso]"
}
