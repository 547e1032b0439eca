//! CPU time that others used and that a hypervisor took away, measured over the very time that is judged. The load average is no measure
//! of it: it remembers minutes, and tasks that only wait for a disk raise it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::census;
use super::place::Place;
use super::runner;
use rdiag_kernel::host::Host;

/// Nothing is judged where others used a larger share of the CPUs than this.
const MOST_OTHERS: f64 = 0.25;
/// Nothing is judged where a larger share of the CPUs' time than this was stolen: where little is wanted, that is much of it.
const MOST_STOLEN: f64 = 0.05;
/// A host with more runnable tasks than this for each CPU is too busy for an exercise.
const MOST_RUNNABLE: f64 = 4.0;
/// How long a host is looked at before anything is started, in seconds, and how often runnable tasks are counted meanwhile.
const LOOK_SECONDS: f64 = 0.5;
const COUNTS: u32 = 10;
/// What disturbs may be short: the worst stretch of this length counts, in seconds.
const STRETCH_SECONDS: f64 = 2.0;
/// A shorter one at the end says nothing, in seconds.
const LEAST_SECONDS: f64 = 0.5;

/// What disturbed an exercise.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Disturbance {
    /// CPUs of the host.
    cpus: f64,
    /// CPU time that others used, in CPUs.
    others: f64,
    /// Share of all CPUs' time that a hypervisor took away.
    stolen: f64,
}

impl Disturbance {
    /// Of what changed between two readings: ticks that all tasks used, ticks of the exercise and rdiag, stolen and all ticks.
    fn new(cpus: f64, tasks: u64, own: u64, stolen: u64, all: u64) -> Self {
        // A host whose clock did not tick was not disturbed.
        let share = |ticks: u64| ticks as f64 / all.max(1) as f64;
        Self { cpus, others: share(tasks.saturating_sub(own)) * cpus, stolen: share(stolen) }
    }

    /// Whether nothing follows from what was seen meanwhile.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.others > MOST_OTHERS * self.cpus || self.stolen > MOST_STOLEN
    }

    #[cfg(test)]
    pub(super) fn of_test(others: f64) -> Self {
        Self { cpus: 2.0, others, stolen: 0.0 }
    }

    fn worst(self, other: Self) -> Self {
        let [others, stolen] =
            [(self.others, other.others), (self.stolen, other.stolen)].map(|(one, two)| one.max(two));
        Self { cpus: other.cpus, others, stolen }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "others used {:.1} of {:.0} CPUs", self.others, self.cpus)?;
        if self.stolen >= 0.005 {
            write!(out, ", {:.0} % was stolen", self.stolen * 100.0)?;
        }
        Ok(())
    }
}

/// A host before anything is started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Idleness {
    /// What is used already.
    pub used: Disturbance,
    /// Runnable tasks beside the one that looks, on average.
    pub runnable: f64,
}

impl Idleness {
    /// Whether an exercise would have to itself what it needs.
    fn is_quiet(&self) -> bool {
        !self.used.is_too_much() && self.runnable <= self.used.cpus
    }

    /// Why nothing should be started at all; none if it may.
    pub(super) fn refusal(&self) -> Option<String> {
        let most = MOST_RUNNABLE * self.used.cpus;
        (self.used.is_too_much() && self.runnable > most).then(|| {
            format!(
                "this host is busy: {}, and {:.1} tasks were runnable (at most {most:.0})",
                self.used, self.runnable
            )
        })
    }
}

/// The counters of /proc/stat that matter here, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    /// In user mode and in the kernel, on behalf of a task. Time in interrupts is no task's: the load's own packets would be others'.
    tasks: u64,
    stolen: u64,
    all: u64,
    /// Runnable tasks at this moment.
    runnable: u64,
}

impl Ticks {
    fn parse(stat: &str) -> Option<Self> {
        let times = rdiag_proc::host_cpu(stat)?;
        let (tasks, stolen, all) = (times.user + times.nice + times.system, times.steal, times.sum());
        let runnable = stat.lines().find_map(|line| line.strip_prefix("procs_running ")?.trim().parse().ok())?;
        Some(Self { tasks, stolen, all, runnable })
    }

    fn read(host: &Host) -> Option<Self> {
        Self::parse(&host.read("proc/stat").ok()?)
    }
}

/// One end of a stretch.
#[derive(Debug, Clone)]
struct Sample {
    ticks: Ticks,
    /// Of rdiag itself.
    itself: u64,
    /// Of the process groups of the exercise.
    groups: BTreeMap<u32, u64>,
}

impl Sample {
    fn take(host: &Host, groups: &[u32]) -> Option<Self> {
        let itself = census::ticks_alone(host, host.facts().pid)?;
        let groups = census::look(host, groups, false).groups;
        let groups = groups.into_iter().map(|(group, found)| (group, found.ticks)).collect();
        Some(Self { ticks: Ticks::read(host)?, itself, groups })
    }

    /// What disturbed between an earlier sample and this one. A group that was not there then was started meanwhile.
    fn since(&self, before: &Self, cpus: f64) -> Disturbance {
        let grown = |(group, ticks): (&u32, &u64)| ticks.saturating_sub(before.groups.get(group).copied().unwrap_or(0));
        let own = self.itself.saturating_sub(before.itself) + self.groups.iter().map(grown).sum::<u64>();
        let change = |of: fn(&Ticks) -> u64| of(&self.ticks).saturating_sub(of(&before.ticks));
        Disturbance::new(cpus, change(|t| t.tasks), own, change(|t| t.stolen), change(|t| t.all))
    }
}

/// Looks at a host for half a second; none where it does not tell.
pub(super) fn look(host: &Host) -> Option<Idleness> {
    let never = AtomicBool::new(false);
    let before = Sample::take(host, &[])?;
    let mut runnable = 0;
    for _ in 0..COUNTS {
        host.wait(host.now() + LOOK_SECONDS / f64::from(COUNTS), 0, &never);
        runnable += Ticks::read(host)?.runnable.saturating_sub(1);
    }
    let used = Sample::take(host, &[])?.since(&before, f64::from(host.facts().cpus));
    Some(Idleness { used, runnable: runnable as f64 / f64::from(COUNTS) })
}

/// Waits until the host is quiet, for so many seconds at most.
pub(super) fn await_quiet(host: &Host, seconds: f64) {
    let until = host.now() + seconds;
    await_look(|| look(host), || host.now() >= until);
}

fn await_look(mut look: impl FnMut() -> Option<Idleness>, is_over: impl Fn() -> bool) {
    while look().is_some_and(|look| !look.is_quiet()) && !is_over() {}
}

/// Does something, and tells what disturbed the exercise of this place in the worst stretch of that time.
pub fn during<T>(host: &Host, place: &Place, work: impl FnOnce() -> T) -> (T, Disturbance) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(host, place, &done));
        let ends = Ends(&done);
        let result = work();
        drop(ends);
        (result, watch.join().ok().flatten().unwrap_or_default())
    })
}

/// The watch ends with the work, however that ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn watch(host: &Host, place: &Place, done: &AtomicBool) -> Option<Disturbance> {
    // The exercise may be started meanwhile.
    let groups = || {
        let run = place.run().ok().flatten();
        run.map_or_else(Vec::new, |run| runner::subject(host, place, &run).groups.values().copied().collect())
    };
    let mut worst: Option<Disturbance> = None;
    let (mut before, mut from) = (Sample::take(host, &groups())?, host.now());
    loop {
        let goes_on = host.wait(from + STRETCH_SECONDS, 0, done);
        let (now, at) = (Sample::take(host, &groups())?, host.now());
        if worst.is_none() || at - from >= LEAST_SECONDS {
            let this = now.since(&before, f64::from(host.facts().cpus));
            worst = Some(worst.map_or(this, |worst| worst.worst(this)));
        }
        if !goes_on {
            return worst;
        }
        (before, from) = (now, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(tasks: u64, stolen: u64) -> Disturbance {
        Disturbance::new(2.0, tasks, 50, stolen, 400)
    }

    #[test]
    fn what_others_used_or_what_was_stolen_is_too_much_only_beyond_its_mark() {
        // A quarter of 400 ticks of two CPUs is 100, beside 50 of its own.
        assert!(!ticks(150, 0).is_too_much());
        assert!(ticks(152, 0).is_too_much());
        assert!(!ticks(50, 20).is_too_much());
        assert!(ticks(50, 22).is_too_much());
        assert!(!ticks(20, 0).is_too_much(), "its own may be counted a little later");
        assert!(!Disturbance::default().is_too_much() && !Disturbance::new(2.0, 0, 0, 0, 0).is_too_much());
    }

    #[test]
    fn it_is_told_in_cpus_and_nothing_is_told_of_what_was_not_stolen() {
        assert_eq!(ticks(310, 16).to_string(), "others used 1.3 of 2 CPUs, 4 % was stolen");
        assert_eq!(ticks(310, 1).to_string(), "others used 1.3 of 2 CPUs");
        let worst = ticks(310, 0).worst(ticks(60, 16));
        assert_eq!(worst, ticks(310, 16), "each at its worst");
    }

    #[test]
    fn a_host_is_quiet_or_too_busy_by_what_is_used_and_by_what_is_runnable_at_that_moment() {
        let look = |tasks, runnable| Idleness { used: ticks(tasks, 0), runnable };
        assert!(look(60, 1.0).is_quiet());
        assert!(!look(60, 2.5).is_quiet(), "more tasks than CPUs");
        assert!(!look(300, 1.0).is_quiet());
        assert_eq!(look(450, 8.0).refusal(), None);
        assert_eq!(look(60, 9.0).refusal(), None, "runnable for an instant each");
        let refusal = look(450, 8.5).refusal().unwrap();
        assert_eq!(refusal, "this host is busy: others used 2.0 of 2 CPUs, and 8.5 tasks were runnable (at most 8)");
    }

    #[test]
    fn waiting_for_quiet_ends_with_it_and_with_the_time() {
        let busy = Some(Idleness { used: ticks(300, 0), runnable: 3.0 });
        let quiet = Some(Idleness { used: ticks(50, 0), runnable: 0.0 });
        let looks = |mut all: Vec<Option<Idleness>>, most: usize| {
            let count = std::cell::Cell::new(0);
            let next = || {
                count.set(count.get() + 1);
                if all.len() > 1 { all.remove(0) } else { all[0] }
            };
            await_look(next, || count.get() >= most);
            count.get()
        };
        assert_eq!(looks(vec![busy, busy, quiet], 10), 3);
        assert_eq!(looks(vec![busy], 10), 10);
        assert_eq!(looks(vec![None], 10), 1, "a host that does not tell is not waited for");
    }

    const STAT: &str =
        "cpu  100 10 40 900 50 7 3 20 60 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nctxt 5\nprocs_running 4\nprocs_blocked 9\n";

    #[test]
    fn tasks_are_told_from_interrupts_and_tasks_that_wait_for_a_disk_are_none() {
        let ticks = Ticks { tasks: 150, stolen: 20, all: 1130, runnable: 4 };
        assert_eq!(Ticks::parse(STAT), Some(ticks));
        for broken in
            ["", "cpu  1 2 3", "intr 5\n", "cpu  1 2 3 4 5 6 7 8 0 0\n", "cpu  1 2 3 4 5 6 7 x\nprocs_running 1\n"]
        {
            assert_eq!(Ticks::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn what_the_exercise_and_rdiag_used_is_not_others() {
        let before = Sample { ticks: Ticks::parse(STAT).unwrap(), itself: 5, groups: BTreeMap::from([(7, 30)]) };
        let mut after = before.clone();
        after.ticks.tasks += 100;
        after.ticks.all += 200;
        assert_eq!(after.since(&before, 2.0).others, 1.0);
        after.itself += 10;
        after.groups = BTreeMap::from([(7, 60), (8, 50)]);
        assert_eq!(after.since(&before, 2.0).others, 0.1, "the group 8 was started meanwhile");
    }

    #[test]
    fn this_host_tells_and_work_is_done_while_it_is_looked_at() {
        let host = Host::live(std::path::Path::new("/"));
        let found = look(&host).unwrap();
        assert!(found.used.cpus >= 1.0 && (0.0..=found.used.cpus).contains(&found.used.others), "{found:?}");
        let temporary = tempfile::tempdir().unwrap();
        let (done, seen) = during(&host, &Place::existing(temporary.path()).unwrap(), || 42);
        assert!(done == 42 && (0.0..=1.0).contains(&seen.stolen), "{seen:?}");
    }
}
