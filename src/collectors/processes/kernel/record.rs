//! The records of tasks.bpf.c: a thread is 14 words, the leader of a group 29. Summed here by group.

use std::collections::HashMap;

use super::super::table::Thread;
use rdiag_kernel::mechanism::ebpf::words::{text_of_words, word};

const THREAD: usize = 14 * 8;
const LEADER: usize = 29 * 8;

/// A process: its threads, those that ended included, as one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct Group {
    pub(in super::super) pid: u32,
    pub(in super::super) ppid: u32,
    pub(in super::super) comm: String,
    /// As /proc/PID/stat writes it.
    pub(in super::super) state: char,
    pub(in super::super) nice: i32,
    pub(in super::super) threads: u32,
    /// Ticks since boot.
    pub(in super::super) start_ticks: u64,
    /// CPU time in ticks, divided as the kernel divides it for /proc/PID/stat.
    pub(in super::super) utime: u64,
    pub(in super::super) stime: u64,
    pub(in super::super) run_ns: u64,
    pub(in super::super) wait_ns: u64,
    pub(in super::super) voluntary: u64,
    pub(in super::super) involuntary: u64,
    pub(in super::super) minor_faults: u64,
    pub(in super::super) major_faults: u64,
    pub(in super::super) read_bytes: u64,
    pub(in super::super) write_bytes: u64,
    /// None where the kernel keeps it in a way that is not known.
    pub(in super::super) resident_pages: Option<u64>,
    pub(in super::super) swap_pages: Option<u64>,
    pub(in super::super) virtual_pages: u64,
    /// Real and effective owner.
    pub(in super::super) uid: u32,
    pub(in super::super) euid: u32,
    pub(in super::super) leader: Thread,
    /// The other threads, by id.
    pub(in super::super) others: Vec<Thread>,
    utime_ns: u64,
    stime_ns: u64,
}

/// All groups whose leader is among the records, in ascending order of pid.
pub(super) fn groups(bytes: &[u8], ticks_per_second: u64) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::with_capacity(bytes.len() / LEADER);
    let mut index: HashMap<u32, usize> = HashMap::with_capacity(bytes.len() / LEADER);
    let mut rest = bytes;
    while rest.len() >= THREAD {
        let ids = word(rest, 0);
        let (tid, tgid) = (ids as u32, (ids >> 32) as u32);
        let length = if tid == tgid { LEADER } else { THREAD };
        let Some((record, after)) = rest.split_at_checked(length) else { break };
        rest = after;
        let at = *index.entry(tgid).or_insert_with(|| {
            groups.push(Group::default());
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else { break };
        add_thread(group, record);
        let thread = Thread { tid, run: word(record, 40), wait: word(record, 48), slices: 0 };
        if tid == tgid {
            group.leader = thread;
            add_leader(group, record, tgid, ticks_per_second);
        } else {
            group.others.push(thread);
        }
    }
    // The leader of a group that is just ending may be gone before its threads were reached.
    groups.retain(|group| group.pid != 0);
    let tick = 1_000_000_000 / ticks_per_second;
    for group in &mut groups {
        group.others.sort_unstable_by_key(|thread| thread.tid);
        (group.utime, group.stime) = divided(group.utime_ns, group.stime_ns, group.run_ns, tick);
    }
    groups.sort_unstable_by_key(|group| group.pid);
    groups
}

/// Sums of what the kernel counted do not overflow; foreign bytes might.
fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

fn add_thread(group: &mut Group, record: &[u8]) {
    let at = |index: usize| word(record, index * 8);
    add(&mut group.utime_ns, at(3));
    add(&mut group.stime_ns, at(4));
    add(&mut group.run_ns, at(5));
    add(&mut group.wait_ns, at(6));
    add(&mut group.voluntary, at(7));
    add(&mut group.involuntary, at(8));
    add(&mut group.minor_faults, at(9));
    add(&mut group.major_faults, at(10));
    add(&mut group.read_bytes, at(11));
    add(&mut group.write_bytes, at(12));
}

fn add_leader(group: &mut Group, record: &[u8], tgid: u32, ticks_per_second: u64) {
    let at = |index: usize| word(record, index * 8);
    let pages = |index: usize| u64::try_from(at(index).cast_signed()).ok();
    group.pid = tgid;
    group.state = state(at(1) as u32);
    group.nice = ((at(1) >> 32) as u32).cast_signed();
    (group.uid, group.euid) = (at(13) as u32, (at(13) >> 32) as u32);
    group.start_ticks = at(2) / (1_000_000_000 / ticks_per_second);
    group.ppid = at(14) as u32;
    group.threads = (at(14) >> 32) as u32;
    group.resident_pages = pages(15);
    group.swap_pages = pages(16);
    group.virtual_pages = at(17);
    add(&mut group.utime_ns, at(18));
    add(&mut group.stime_ns, at(19));
    add(&mut group.run_ns, at(20));
    add(&mut group.voluntary, at(21));
    add(&mut group.involuntary, at(22));
    add(&mut group.minor_faults, at(23));
    add(&mut group.major_faults, at(24));
    add(&mut group.read_bytes, at(25));
    add(&mut group.write_bytes, at(26));
    group.comm = text_of_words(&[at(27), at(28)]);
}

/// The letter of /proc/PID/stat: the highest of the reported bits, in the order of the kernel's task_state_array.
fn state(bits: u32) -> char {
    /// TASK_UNINTERRUPTIBLE with TASK_NOLOAD: a kernel thread that waits for work.
    const IDLE: u32 = 0x402;
    if bits == IDLE {
        return 'I';
    }
    match bits & 0x7f {
        0 => 'R',
        reported => match u32::BITS - reported.leading_zeros() {
            1 => 'S',
            2 => 'D',
            3 => 'T',
            4 => 't',
            5 => 'X',
            6 => 'Z',
            _ => 'P',
        },
    }
}

/// User and system ticks. The split is sampled on most kernels while the sum is exact, so the kernel scales the parts to
/// the sum (`cputime_adjust`); the same is done here.
fn divided(utime: u64, stime: u64, runtime: u64, tick: u64) -> (u64, u64) {
    let tick = tick.max(1);
    let system = match (utime, stime) {
        (_, 0) => 0,
        (0, _) => runtime,
        _ => (u128::from(stime) * u128::from(runtime) / (u128::from(stime) + u128::from(utime))) as u64,
    };
    (runtime.saturating_sub(system) / tick, system / tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn leader(pid: u64) -> Vec<u64> {
        let mut words = vec![0; 29];
        words[0] = pid << 32 | pid;
        words[1] = 5 << 32 | 1;
        words[2] = 12_340_000_000;
        words[14] = 3 << 32 | 1;
        words[27] = u64::from_ne_bytes(*b"my proc\0");
        words
    }

    #[test]
    fn threads_dead_and_alive_add_up_to_their_process() {
        let mut first = leader(10);
        (first[3], first[4], first[5], first[6]) = (20_000_000, 20_000_000, 60_000_000, 7);
        (first[18], first[19], first[20]) = (10_000_000, 0, 20_000_000);
        (first[15], first[16], first[7], first[21]) = (100, u64::MAX, 3, 4);
        let mut thread = vec![0; 14];
        thread[0] = 10 << 32 | 11;
        (thread[3], thread[4], thread[5], thread[6]) = (10_000_000, 0, 20_000_000, 5);
        let bytes = [record(&thread), record(&first), record(&leader(9))].concat();
        let groups = groups(&bytes, 100);
        assert_eq!(groups.iter().map(|group| group.pid).collect::<Vec<_>>(), [9, 10]);
        let group = &groups[1];
        assert_eq!((group.comm.as_str(), group.state, group.nice), ("my proc", 'S', 5));
        assert_eq!((group.ppid, group.threads, group.start_ticks), (1, 3, 1234));
        assert_eq!((group.run_ns, group.wait_ns, group.voluntary), (100_000_000, 12, 7));
        // 40 ms user and 20 ms system of samples, scaled to 100 ms of run time.
        assert_eq!((group.utime, group.stime), (6, 3));
        assert_eq!((group.leader.tid, group.others[0].tid), (10, 11));
        assert_eq!((group.resident_pages, group.swap_pages), (Some(100), None));
    }

    #[test]
    fn truncated_and_foreign_bytes_give_what_is_whole() {
        let bytes = record(&leader(10));
        for length in 0..bytes.len() {
            assert!(groups(&bytes[..length], 100).is_empty());
        }
        assert_eq!(groups(&[bytes, vec![0xff; 300]].concat(), 100).len(), 2, "a thread group of any id is taken");
        assert!(groups(&[0; 5000], 100).is_empty());
    }

    #[test]
    fn states_have_the_letters_of_proc() {
        let letters: String = [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x402, 0x102].map(state).iter().collect();
        assert_eq!(letters, "RSDTtXZPID");
    }
}
