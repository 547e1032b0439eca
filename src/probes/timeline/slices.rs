//! From the program's records to the stays of tasks in order of time.

use std::collections::BTreeMap;

use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;
use rdiag_model::schedule::{CpuSchedule, Left, RunSlice, Schedule, ScheduledTask};

/// `struct slice` of the program: from, until, ids, left, before, after, name.
pub(super) const SLICE_WORDS: usize = 8;
/// `struct running`: since, ids, before, name, written, lost, thread.
pub(super) const CPU_WORDS: usize = 8;
pub(super) const WRITTEN: usize = 5;
pub(super) const LOST: usize = 6;
/// In `left`: the switch to it was not seen; `before` is since when it is not known who ran.
const UNSEEN: u64 = 0x100;
/// The kernel keeps no account of waiting, or it was not seen.
const NO_ACCOUNT: u64 = u64::MAX;

/// A stay with its number on its CPU.
pub(super) type Raw = (u64, [u64; SLICE_WORDS]);

/// What one CPU has put down.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub(super) cpu: u32,
    /// In order.
    pub(super) slices: Vec<[u64; SLICE_WORDS]>,
    /// What it does now.
    pub(super) running: [u64; CPU_WORDS],
    /// Stays that found no place.
    pub(super) lost: u64,
    /// Some of them before the first one that found one.
    pub(super) began_full: bool,
}

/// A stay of a known thread.
#[derive(Debug, Clone)]
struct Stay {
    cpu: u32,
    from: f64,
    until: f64,
    ids: u64,
    name: [u64; 2],
    left: Option<Left>,
    before: u64,
    after: u64,
    waited: Option<f64>,
}

/// The sums of a thread.
#[derive(Debug, Clone, Default)]
struct Sum {
    name: String,
    seconds: f64,
    count: u64,
    longest: f64,
    waited: Option<f64>,
    longest_wait: Option<f64>,
    preempted: u64,
    moves: u64,
    last: Option<(u32, u64)>,
}

/// The schedule of the time between two CLOCK_MONOTONIC times, and the sums by task. Times are shown since `began`.
pub(super) fn schedule(cpus: &[Cpu], (from, until): (f64, f64), began: f64, top: usize) -> (Schedule, ProbeTable) {
    let clip = |ns: u64| (ns as f64 * 1e-9).clamp(from, until.max(from)) - began;
    let (mut stays, mut gaps) = (Vec::new(), BTreeMap::new());
    for cpu in cpus {
        gaps.insert(cpu.cpu, gaps_of(cpu, (from - began, until - began), &clip));
        stays.extend(stays_of(cpu, &clip));
    }
    stays.sort_by(|a: &Stay, b: &Stay| a.from.total_cmp(&b.from));
    let sums = sum_up(&mut stays, cpus.iter().any(|cpu| cpu.lost > 0));
    let mut order: Vec<u64> = sums.keys().copied().collect();
    let seconds = |ids: &u64| sums.get(ids).map_or(0.0, |sum| sum.seconds);
    order.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)).then(a.cmp(b)));
    let places: BTreeMap<u64, u32> = order.iter().zip(0..).map(|(ids, at)| (*ids, at)).collect();
    let of = |cpu: &Cpu| {
        let own = stays.iter().filter(|stay| stay.cpu == cpu.cpu);
        let mut slices: Vec<RunSlice> = own
            .map(|stay| RunSlice {
                from: stay.from,
                until: stay.until,
                task: places.get(&stay.ids).copied(),
                waited: stay.waited,
                left: stay.left,
            })
            .chain(gaps.get(&cpu.cpu).cloned().unwrap_or_default())
            .collect();
        slices.sort_by(|a, b| a.from.total_cmp(&b.from));
        CpuSchedule { cpu: cpu.cpu, slices }
    };
    let task = |ids: &u64| ScheduledTask {
        name: sums.get(ids).map(|sum| sum.name.clone()).unwrap_or_default(),
        pid: (ids >> 32) as u32,
        tid: *ids as u32,
    };
    let schedule = Schedule {
        id: "schedule".into(),
        title: "Who ran when, on which CPU".into(),
        from: from - began,
        until: until - began,
        tasks: order.iter().map(task).collect(),
        cpus: cpus.iter().map(of).collect(),
    };
    (schedule, table(&sums, &order, top))
}

/// The stays of a CPU, the one that goes on included.
fn stays_of(cpu: &Cpu, clip: &impl Fn(u64) -> f64) -> Vec<Stay> {
    let of_somebody = cpu.slices.iter().filter(|[_, _, ids, ..]| *ids != 0);
    let ended = of_somebody.map(|[from, until, ids, left, before, after, name @ ..]| Stay {
        cpu: cpu.cpu,
        from: clip(*from),
        until: clip(*until),
        ids: *ids,
        name: *name,
        left: Some(match left & !UNSEEN {
            0 => Left::Slept,
            1 => Left::Stuck,
            2 => Left::Preempted,
            _ => Left::Ended,
        }),
        before: if left & UNSEEN == 0 { *before } else { NO_ACCOUNT },
        after: *after,
        waited: None,
    });
    let [since, ids, _, first, second, ..] = cpu.running;
    let goes_on = (ids != 0).then(|| Stay {
        cpu: cpu.cpu,
        from: clip(since),
        until: clip(u64::MAX),
        ids,
        name: [first, second],
        left: None,
        before: NO_ACCOUNT,
        after: NO_ACCOUNT,
        waited: None,
    });
    ended.chain(goes_on).filter(|stay| stay.until >= stay.from).collect()
}

/// How many switches the kernel has not announced.
pub(super) fn unseen(cpus: &[Cpu]) -> usize {
    cpus.iter().flat_map(|cpu| &cpu.slices).filter(|[_, _, _, left, ..]| left & UNSEEN != 0).count()
}

/// The times of which nothing is known: before the first look, where a switch was not seen, and where stays found no place.
fn gaps_of(cpu: &Cpu, (from, until): (f64, f64), clip: &impl Fn(u64) -> f64) -> Vec<RunSlice> {
    let [since, ..] = cpu.running;
    let gap = |from: f64, until: f64| RunSlice { from, until, ..RunSlice::default() };
    if since == 0 {
        return vec![gap(from, until)];
    }
    let (first, last) = (cpu.slices.first().map(|slice| clip(slice[0])), cpu.slices.last().map(|slice| clip(slice[1])));
    let mut gaps = Vec::new();
    if cpu.began_full {
        gaps.push(gap(from, first.unwrap_or(clip(since))));
    }
    if cpu.lost > 0 {
        gaps.push(gap(last.unwrap_or(from), clip(since)));
    }
    for [began, _, _, left, since, ..] in &cpu.slices {
        if left & UNSEEN != 0 {
            gaps.push(gap(clip(*since), clip(*began)));
        }
    }
    gaps.retain(|gap| gap.until > gap.from);
    gaps
}

/// Adds up the stays by thread, and finds the wait before each: what the kernel's account of its waiting grew by since the
/// thread ran last, or, where that was not seen, since it was chosen.
fn sum_up(stays: &mut [Stay], is_lossy: bool) -> BTreeMap<u64, Sum> {
    let mut sums: BTreeMap<u64, Sum> = BTreeMap::new();
    for stay in stays {
        let sum = sums.entry(stay.ids).or_default();
        let before = sum.last.map(|(_, account)| account).filter(|account| *account != NO_ACCOUNT && !is_lossy);
        let before = before.or((stay.before != NO_ACCOUNT).then_some(stay.before));
        if let (Some(before), true) = (before, stay.after != NO_ACCOUNT) {
            let waited = stay.after.saturating_sub(before) as f64 * 1e-9;
            stay.waited = Some(waited);
            sum.waited = Some(sum.waited.unwrap_or(0.0) + waited);
            sum.longest_wait = Some(sum.longest_wait.unwrap_or(0.0).max(waited));
        }
        let seconds = stay.until - stay.from;
        sum.name = words::text_of_words(&stay.name);
        sum.seconds += seconds;
        sum.count += 1;
        sum.longest = sum.longest.max(seconds);
        sum.preempted += u64::from(stay.left == Some(Left::Preempted));
        sum.moves += u64::from(sum.last.is_some_and(|(cpu, _)| cpu != stay.cpu));
        sum.last = Some((stay.cpu, stay.after));
    }
    sums
}

fn table(sums: &BTreeMap<u64, Sum>, order: &[u64], top: usize) -> ProbeTable {
    let rows = order.iter().filter_map(|ids| Some((*ids, sums.get(ids)?)));
    let mut table = TableSpec::<(u64, &Sum)>::new("tasks", "Tasks by CPU time")
        .rows("task", |(ids, _)| (*ids as u32).to_string())
        .text("name", "task", |(_, sum)| sum.name.clone())
        .text("pid", "pid", |(ids, _)| (ids >> 32).to_string())
        .text("tid", "tid", |(ids, _)| (*ids as u32).to_string())
        .sum("time", "ran", Unit::Seconds, |(_, sum)| sum.seconds)
        .sum("count", "times", Unit::Count, |(_, sum)| sum.count as f64)
        // A longest time of several is none of them.
        .number("longest", "longest", Unit::Seconds, |(_, sum)| sum.longest)
        .sum("waited", "waited", Unit::Seconds, |(_, sum)| sum.waited)
        .number("longest_wait", "longest wait", Unit::Seconds, |(_, sum)| sum.longest_wait)
        .sum("preempted", "pre-empted", Unit::Count, |(_, sum)| sum.preempted as f64)
        .sum("moves", "moves", Unit::Count, |(_, sum)| sum.moves as f64)
        .top(rows, top);
    if table.others > 0 {
        // Waits that are not known of any of them add nothing to the sum, which stands all the same.
        table.others_sum.entry("waited".into()).or_default();
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    const S: u64 = 1_000_000_000;

    fn slice(from: u64, until: u64, tid: u64, left: u64, waits: (u64, u64)) -> [u64; SLICE_WORDS] {
        let name = u64::from_ne_bytes(*b"worker\0\0") + (tid - 1);
        [from * S, until * S, 7 << 32 | tid, left, waits.0, waits.1, name, 0]
    }

    fn idle(since: u64, lost: u64) -> [u64; CPU_WORDS] {
        [since * S, 0, 0, 0, 0, 0, lost, 0]
    }

    /// Index of task, from, until, to the microsecond.
    fn seen(schedule: &Schedule, cpu: usize) -> Vec<(Option<u32>, f64, f64)> {
        let rounded = |at: f64| (at * 1e6).round() / 1e6;
        let slices = schedule.cpus[cpu].slices.iter();
        slices.map(|slice| (slice.task, rounded(slice.from), rounded(slice.until))).collect()
    }

    #[test]
    fn stays_are_cut_at_the_reading_and_the_busiest_task_comes_first() {
        let one = Cpu {
            cpu: 0,
            slices: vec![slice(0, 12, 1, 0, (0, 0)), slice(14, 15, 2, 2, (0, S))],
            running: [16 * S, 7 << 32 | 2, 0, 0, 0, 0, 0, 2],
            ..Cpu::default()
        };
        let two =
            Cpu { cpu: 1, slices: vec![slice(15, 16, 2, 3, (5 * S, 5 * S))], running: idle(16, 0), ..Cpu::default() };
        let (schedule, table) = schedule(&[one, two], (10.0, 20.0), 5.0, 1);
        assert_eq!((schedule.from, schedule.until), (5.0, 15.0));
        assert_eq!(schedule.tasks.iter().map(|task| (task.pid, task.tid)).collect::<Vec<_>>(), [(7, 2), (7, 1)]);
        assert_eq!(seen(&schedule, 0), [(Some(1), 5.0, 7.0), (Some(0), 9.0, 10.0), (Some(0), 11.0, 15.0)]);
        assert_eq!(seen(&schedule, 1), [(Some(0), 10.0, 11.0)]);
        assert_eq!(schedule.cpus[0].slices[1].left, Some(Left::Preempted));
        assert_eq!(schedule.cpus[0].slices[2].left, None, "it goes on");
        let figures: Vec<f64> = table.rows[0].cells[3..].iter().map(|cell| cell.number().unwrap().round()).collect();
        // The second stay's account had grown by 4 s since the first, the first's own by 1 s.
        assert_eq!(figures, [6.0, 3.0, 4.0, 5.0, 4.0, 1.0, 2.0]);
        assert_eq!((table.others, table.others_sum["time"].round()), (1, 2.0));
        assert!(!table.others_sum.contains_key("longest"));
    }

    #[test]
    fn what_is_not_known_of_a_cpu_is_a_gap_and_not_idleness() {
        let unseen = Cpu::default();
        let full =
            Cpu { cpu: 1, slices: vec![slice(10, 12, 1, 0, (0, 0))], running: idle(18, 9), lost: 9, began_full: false };
        let late =
            Cpu { cpu: 2, slices: vec![slice(12, 13, 1, 0, (0, 0))], running: idle(13, 2), lost: 0, began_full: true };
        let quiet = Cpu { cpu: 3, running: [1, 0, 0, 0, 0, 0, 0, 0], ..Cpu::default() };
        let (schedule, _) = schedule(&[unseen, full, late, quiet], (10.0, 20.0), 10.0, 9);
        assert_eq!(seen(&schedule, 0), [(None, 0.0, 10.0)]);
        assert_eq!(seen(&schedule, 1), [(Some(0), 0.0, 2.0), (None, 2.0, 8.0)]);
        assert_eq!(seen(&schedule, 2), [(None, 0.0, 2.0), (Some(0), 2.0, 3.0)]);
        assert_eq!(seen(&schedule, 3), []);
    }

    #[test]
    fn a_switch_that_was_not_seen_leaves_a_gap_and_no_wait() {
        let mut named = slice(14, 15, 1, UNSEEN | 2, (12, 9));
        named[4] = 12 * S;
        let mut nobody = slice(17, 17, 1, UNSEEN, (0, 0));
        (nobody[2], nobody[4]) = (0, 15 * S);
        let cpu =
            Cpu { slices: vec![slice(11, 12, 1, 0, (0, 0)), named, nobody], running: idle(17, 0), ..Cpu::default() };
        assert_eq!(unseen(std::slice::from_ref(&cpu)), 2);
        let (schedule, _) = schedule(&[cpu], (10.0, 20.0), 10.0, 9);
        let told = [(Some(0), 1.0, 2.0), (None, 2.0, 4.0), (Some(0), 4.0, 5.0), (None, 5.0, 7.0)];
        assert_eq!(seen(&schedule, 0), told);
        assert_eq!(schedule.cpus[0].slices[2].left, Some(Left::Preempted));
    }

    #[test]
    fn without_the_kernels_account_a_wait_is_unknown_and_odd_words_do_no_harm() {
        let wild = Cpu {
            slices: vec![
                [u64::MAX; SLICE_WORDS],
                slice(11, 12, 1, 77, (NO_ACCOUNT, NO_ACCOUNT)),
                slice(13, 12, 1, 0, (9, 1)),
            ],
            running: [u64::MAX; CPU_WORDS],
            lost: u64::MAX,
            ..Cpu::default()
        };
        let (schedule, table) = schedule(&[wild], (10.0, 20.0), 10.0, 9);
        let row = table.rows.iter().find(|row| row.instance == "1").unwrap();
        assert_eq!((&row.cells[6], &row.cells[7]), (&Cell::Unknown(()), &Cell::Unknown(())));
        assert!(schedule.cpus[0].slices.iter().all(|slice| (0.0..=10.0).contains(&slice.from) && slice.until <= 10.0));
    }

    #[test]
    fn the_sum_of_waits_that_are_not_known_is_there_and_nothing() {
        let stays = vec![slice(11, 12, 1, 0, (NO_ACCOUNT, NO_ACCOUNT)), slice(12, 13, 2, 0, (NO_ACCOUNT, NO_ACCOUNT))];
        let cpu = Cpu { slices: stays, running: idle(13, 0), ..Cpu::default() };
        let of = |top| schedule(std::slice::from_ref(&cpu), (10.0, 20.0), 10.0, top).1;
        assert_eq!((of(1).others, of(1).others_sum.get("waited")), (1, Some(&0.0)));
        assert!(of(2).others_sum.is_empty());
    }
}
