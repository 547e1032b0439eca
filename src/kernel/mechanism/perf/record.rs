//! The records of a sampling ring, from bytes. Total: what cannot be parsed ends the reading and is reported.

use perf_event_open_sys::bindings as sys;

/// What every sample of ours holds, in the order in which the kernel writes it.
pub(super) const SAMPLE_TYPE: u64 =
    (sys::PERF_SAMPLE_IP | sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_PERIOD | sys::PERF_SAMPLE_CALLCHAIN) as u64;

/// Where in a call chain the kernel's addresses begin, and where the process's.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
/// From here on, an address is a mark.
const CONTEXT_FIRST: u64 = -4095_i64 as u64;
/// `perf_event_header.misc`: in which mode the CPU was.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A sample was taken.
    Sample(Sample),
    /// So many records found no room.
    Lost(u64),
    /// A thread has a new name.
    Name {
        /// The thread.
        tid: u32,
        /// Its name, at most 15 bytes.
        name: Vec<u8>,
    },
    /// The kernel has stopped sampling for the rest of a tick, as it took too much time.
    Throttled,
}

/// A sample: who ran, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// The process; 0 is the idle task.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Whether the kernel ran.
    pub in_kernel: bool,
    /// Events that it stands for; nanoseconds for clocks.
    pub weight: u64,
    /// Addresses in the kernel, innermost first.
    pub kernel: Vec<u64>,
    /// Addresses in the process, innermost first.
    pub user: Vec<u64>,
}

/// Takes bytes off the front.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }
}

/// Reads records one after the other. Gives back how many bytes could not be understood.
pub(super) fn read(bytes: &[u8], each: &mut dyn FnMut(Record)) -> usize {
    let mut rest = Bytes(bytes);
    loop {
        let before = rest.0.len();
        let mut header = || Some((rest.u32()?, rest.u16()?, rest.u16()?));
        let Some((kind, misc, size)) = header() else { return before };
        let Some((body, after)) = usize::from(size).checked_sub(8).and_then(|size| rest.0.split_at_checked(size))
        else {
            return before;
        };
        if let Some(record) = record(kind, misc, Bytes(body)) {
            each(record);
        }
        rest.0 = after;
    }
}

fn record(kind: u32, misc: u16, mut body: Bytes<'_>) -> Option<Record> {
    match kind {
        sys::PERF_RECORD_SAMPLE => sample(misc, body).map(Record::Sample),
        sys::PERF_RECORD_LOST => {
            body.u64()?;
            body.u64().map(Record::Lost)
        }
        sys::PERF_RECORD_COMM => {
            body.u32()?;
            let tid = body.u32()?;
            let name: Vec<u8> = body.0.iter().copied().take_while(|byte| *byte != 0).take(15).collect();
            Some(Record::Name { tid, name })
        }
        sys::PERF_RECORD_THROTTLE => Some(Record::Throttled),
        _ => None,
    }
}

fn sample(misc: u16, mut body: Bytes<'_>) -> Option<Sample> {
    let address = body.u64()?;
    let (pid, tid) = (body.u32()?, body.u32()?);
    let weight = body.u64()?;
    let count = body.u64()?;
    let in_kernel = misc & MODE == MODE_KERNEL;
    let mut sample = Sample { pid, tid, in_kernel, weight, ..Sample::default() };
    let mut to: Option<&mut Vec<u64>> = None;
    for _ in 0..count {
        match body.u64()? {
            CONTEXT_KERNEL => to = Some(&mut sample.kernel),
            CONTEXT_USER => to = Some(&mut sample.user),
            CONTEXT_FIRST.. => to = None,
            address => {
                if let Some(to) = &mut to {
                    to.push(address);
                }
            }
        }
    }
    // Where no chain could be walked, the place itself is known.
    if !in_kernel && sample.user.is_empty() && sample.kernel.is_empty() && address != 0 {
        sample.user.push(address);
    }
    Some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend((8 + words.len() as u16 * 8).to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    fn all(bytes: &[u8]) -> (Vec<Record>, usize) {
        let mut records = Vec::new();
        let left = read(bytes, &mut |record| records.push(record));
        (records, left)
    }

    /// pid 7, tid 8.
    const IDS: u64 = 7 | 8 << 32;

    #[test]
    fn a_call_chain_is_divided_at_its_marks_and_losses_are_counted() {
        let chain = [0x1000, IDS, 3, 6, CONTEXT_KERNEL, 0xffff_8000, 0xffff_9000, CONTEXT_USER, 0x40, 0x50];
        let mut bytes = record(9, MODE_KERNEL, &chain);
        bytes.extend(record(2, 0, &[1, 42]));
        bytes.extend(record(77, 0, &[1, 2, 3]));
        bytes.extend(record(5, 0, &[1, 2, 3]));
        bytes.extend(record(3, 0, &[IDS, u64::from_ne_bytes(*b"worker\0\0")]));
        let expected = Sample {
            pid: 7,
            tid: 8,
            in_kernel: true,
            weight: 3,
            kernel: vec![0xffff_8000, 0xffff_9000],
            user: vec![0x40, 0x50],
        };
        let name = Record::Name { tid: 8, name: b"worker".to_vec() };
        assert_eq!(all(&bytes), (vec![Record::Sample(expected), Record::Lost(42), Record::Throttled, name], 0));
    }

    #[test]
    fn a_sample_without_a_chain_keeps_its_own_address() {
        let (records, _) = all(&record(9, 2, &[0x1000, IDS, 1, 0]));
        let Record::Sample(sample) = &records[0] else { panic!("{records:?}") };
        assert_eq!((sample.user.as_slice(), sample.in_kernel), ([0x1000].as_slice(), false));
    }

    #[test]
    fn a_record_that_is_cut_or_lies_about_its_size_ends_the_reading() {
        let whole = record(9, 2, &[0x1000, IDS, 1, 2, CONTEXT_USER, 0x40]);
        assert_eq!(all(&whole[..20]), (vec![], 20));
        let mut lies = whole.clone();
        lies[6] = 3;
        lies[7] = 0;
        assert_eq!(all(&lies), (vec![], lies.len()));
        // A chain that claims to be longer than its record.
        assert_eq!(all(&record(9, 2, &[0x1000, IDS, 1, u64::MAX, CONTEXT_USER, 0x40])), (vec![], 0));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = all(&bytes);
        }
    }
}
