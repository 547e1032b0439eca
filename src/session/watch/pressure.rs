//! When pressure stall information shows an incident: tasks stalled for a resource longer than the critical threshold of its rule says.
//!
//! A resource is looked at when its stalls were below the threshold over the last minute, so that a host that is always loaded is not in
//! alarm all the time: after an incident, and at the beginning, they must fall below it first. Totals are read with each sample; where the
//! kernel allows it, poll(2) is asked each second as well, so that a short stall is not spread over two samples.

use std::collections::VecDeque;

use rdiag_history::Resource;
use rdiag_kernel::host::{Alarm, SharedHost};

/// Stalls over so many seconds, above this share of them, are an incident.
struct Limit {
    resource: Resource,
    share: f64,
    seconds: f64,
}

/// The shares are those at which rules/cpu.yaml, memory.yaml and disk.yaml say `critical`. A task that waits for a CPU is less than a host
/// that does nothing but wait, so it must go on for longer. Without CAP_SYS_RESOURCE the kernel takes only multiples of 2 s.
static LIMITS: [Limit; 3] = [
    Limit { resource: Resource::Cpu, share: 0.6, seconds: 10.0 },
    Limit { resource: Resource::Memory, share: 0.1, seconds: 4.0 },
    Limit { resource: Resource::Io, share: 0.4, seconds: 4.0 },
];
/// A sample may come early by this part of the time.
const EARLY: f64 = 0.05;

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub(super) resource: Resource,
    /// Share of the time tasks stalled, 0 to 1.
    pub(super) share: f64,
    /// Whether it may have been larger.
    pub(super) at_least: bool,
    /// Length of the time.
    pub(super) seconds: f64,
}

/// All resources.
pub(super) struct Pressure {
    watched: Vec<(Watched, Option<Alarm>)>,
}

impl Pressure {
    /// Sets what the kernel allows to be set. To be called before rights are given up: older kernels ask for CAP_SYS_RESOURCE.
    pub(super) fn watch(host: &SharedHost) -> Self {
        let alarm = |limit: &Limit| {
            host.pressure_alarm(limit.resource.name(), limit.resource.line(), limit.share, limit.seconds).ok()
        };
        Self { watched: LIMITS.iter().map(|limit| (Watched::new(limit), alarm(limit))).collect() }
    }

    /// Why nothing can be seen, if that is so.
    pub(super) fn missing(&self, host: &SharedHost) -> Option<String> {
        let why = |(watched, _): &(Watched, Option<Alarm>)| {
            let path = format!("proc/pressure/{}", watched.limit.resource.name());
            host.read(&path).err().map(|error| error.to_string())
        };
        let missing: Vec<String> = self.watched.iter().filter_map(why).collect();
        (missing.len() == self.watched.len()).then(|| missing.into_iter().next()).flatten()
    }

    /// To be called with each sample.
    pub(super) fn sample(&mut self, host: &SharedHost) -> Vec<Seen> {
        self.each(host, |_| true, Watched::sample)
    }

    /// To be called between samples: what the kernel has told since.
    pub(super) fn look(&mut self, host: &SharedHost) -> Vec<Seen> {
        let rang = |alarm: &mut Option<Alarm>| match alarm.as_ref().map(Alarm::rang) {
            Some(Ok(rang)) => rang,
            Some(Err(_)) => {
                *alarm = None;
                false
            }
            None => false,
        };
        self.each(host, rang, Watched::rang)
    }

    fn each(
        &mut self,
        host: &SharedHost,
        wanted: impl Fn(&mut Option<Alarm>) -> bool,
        take: impl Fn(&mut Watched, f64, Stalls) -> Option<Seen>,
    ) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (watched, alarm) in &mut self.watched {
            if !wanted(alarm) {
                continue;
            }
            let resource = watched.limit.resource;
            let text = host.read(&format!("proc/pressure/{}", resource.name())).unwrap_or_default();
            match Stalls::parse(&text, resource.line()) {
                Some(stalls) => seen.extend(take(watched, host.now(), stalls)),
                None => watched.totals.clear(),
            }
        }
        seen
    }

    /// What was seen of a resource was no incident: if it lasts, it will be.
    pub(super) fn rearm(&mut self, resource: Resource) {
        self.watched
            .iter_mut()
            .filter(|(watched, _)| watched.limit.resource == resource)
            .for_each(|(watched, _)| watched.armed = true);
    }
}

/// A line of a file of /proc/pressure.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stalls {
    /// Microseconds since boot.
    total: u64,
    /// Share over the last minute, as the kernel damps it, 0 to 1.
    minute: f64,
}

impl Stalls {
    fn parse(text: &str, line: &str) -> Option<Self> {
        let line = rdiag_proc::Pressure::parse(text.as_bytes(), line)?;
        Some(Self { total: line.total()?, minute: line.avg60()? / 100.0 })
    }
}

/// A resource.
struct Watched {
    limit: &'static Limit,
    armed: bool,
    /// Times and totals; the first is the newest that is as old as the limit's time.
    totals: VecDeque<(f64, u64)>,
}

impl Watched {
    fn new(limit: &'static Limit) -> Self {
        Self { limit, armed: false, totals: VecDeque::new() }
    }

    fn sample(&mut self, now: f64, stalls: Stalls) -> Option<Seen> {
        let limit = self.limit;
        let is_old = |then: f64| now - then >= limit.seconds * (1.0 - EARLY);
        // Totals begin anew when the accounting was switched off and on.
        if self.totals.back().is_some_and(|(_, total)| *total > stalls.total) {
            self.totals.clear();
        }
        while self.totals.get(1).is_some_and(|(then, _)| is_old(*then)) {
            self.totals.pop_front();
        }
        let share = self.totals.front().filter(|(then, _)| is_old(*then)).map(|(then, total)| {
            let seconds = now - then;
            ((stalls.total - total) as f64 * 1e-6 / seconds, seconds)
        });
        self.totals.push_back((now, stalls.total));
        match share {
            Some((share, seconds)) if share >= limit.share => {
                let share = share.min(1.0);
                let seen = Seen { resource: limit.resource, share, at_least: false, seconds };
                std::mem::take(&mut self.armed).then_some(seen)
            }
            _ => {
                self.armed |= stalls.minute < limit.share;
                None
            }
        }
    }

    /// The kernel says that the threshold was exceeded: true if the totals bear it out, since triggers also tell of what was before they
    /// were set.
    fn rang(&mut self, now: f64, stalls: Stalls) -> Option<Seen> {
        let limit = self.limit;
        let since = self.totals.iter().rev().find(|(then, _)| now - then >= limit.seconds)?;
        let grown = stalls.total.checked_sub(since.1)? as f64 * 1e-6;
        if grown < limit.share * limit.seconds {
            return None;
        }
        // Where the mean since then is below it, some part of that time as long as the limit's had at least its share.
        let span = now - since.0;
        let at_least = grown / span <= limit.share;
        let (share, seconds) = if at_least { (limit.share, limit.seconds) } else { ((grown / span).min(1.0), span) };
        let seen = Seen { resource: limit.resource, share, at_least, seconds };
        std::mem::take(&mut self.armed).then_some(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io() -> Watched {
        Watched::new(&LIMITS[2])
    }

    fn stalls(total: f64, minute: f64) -> Stalls {
        Stalls { total: (total * 1e6) as u64, minute }
    }

    #[test]
    fn a_line_gives_its_total_and_the_last_minute() {
        let text = "some avg10=0.12 avg60=50.50 avg300=1.53 total=24289182\nfull avg10=0.00 avg60=0.25 total=7\n";
        assert_eq!(Stalls::parse(text, "some"), Some(Stalls { total: 24_289_182, minute: 0.505 }));
        assert_eq!(Stalls::parse(text, "full"), Some(Stalls { total: 7, minute: 0.0025 }));
        for text in
            ["", "some", "full avg10=1 total=5", "full avg60=1", "full avg60=nan total=5", "full avg60=1 total=-5"]
        {
            assert_eq!(Stalls::parse(text, "full"), None, "{text}");
        }
    }

    #[test]
    fn stalls_above_the_threshold_are_told_once_until_they_fell() {
        let mut io = io();
        // A quiet minute, then 3 s of stalls in 5 s.
        assert_eq!(io.sample(0.0, stalls(100.0, 0.01)), None);
        assert_eq!(io.sample(5.0, stalls(100.1, 0.01)), None);
        let seen = io.sample(10.0, stalls(103.1, 0.05)).unwrap();
        assert!((seen.share - 0.6).abs() < 1e-9 && !seen.at_least && seen.resource == Resource::Io, "{seen:?}");
        assert!((seen.seconds - 5.0).abs() < 1e-9, "{seen:?}");
        // It goes on, and is over, and comes again.
        assert_eq!(io.sample(15.0, stalls(106.0, 0.3)), None);
        assert_eq!(io.sample(20.0, stalls(106.0, 0.45)), None, "the last minute is above it still");
        assert_eq!(io.sample(25.0, stalls(109.0, 0.5)), None);
        assert_eq!(io.sample(30.0, stalls(109.0, 0.39)), None);
        assert!(io.sample(35.0, stalls(112.0, 0.42)).is_some());
    }

    #[test]
    fn a_host_that_is_always_loaded_is_not_in_alarm_until_the_load_fell() {
        let mut io = io();
        for second in 0..100 {
            let now = f64::from(second) * 5.0;
            assert_eq!(io.sample(now, stalls(now * 0.9, 0.9)), None);
        }
        assert_eq!(io.sample(500.0, stalls(445.5, 0.3)), None, "it fell");
        assert!(io.sample(505.0, stalls(449.5, 0.35)).is_some());
    }

    #[test]
    fn samples_that_are_close_together_or_far_apart_are_judged_over_the_time_that_is_meant() {
        let mut io = io();
        // 1.5 s of stalls at once are no 40 % of 4 s.
        for tick in 0..60 {
            let now = f64::from(tick) * 0.2;
            let total = (now - 6.0).clamp(0.0, 1.5);
            assert_eq!(io.sample(now, stalls(total, 0.0)), None, "{now}");
        }
        let mut io = super::tests::io();
        assert_eq!(io.sample(0.0, stalls(0.0, 0.0)), None);
        assert_eq!(io.sample(60.0, stalls(20.0, 0.0)), None);
        let seen = io.sample(120.0, stalls(50.0, 0.0)).unwrap();
        assert!((seen.share - 0.5).abs() < 1e-9 && (seen.seconds - 60.0).abs() < 1e-9, "{seen:?}");
    }

    #[test]
    fn what_the_kernel_tells_is_believed_when_the_totals_bear_it_out() {
        let mut io = io();
        assert_eq!(io.rang(1.0, stalls(50.0, 0.0)), None, "nothing was read before");
        io.sample(10.0, stalls(100.0, 0.0));
        io.sample(15.0, stalls(100.0, 0.0));
        assert_eq!(io.rang(17.0, stalls(100.5, 0.0)), None, "half a second");
        let seen = io.rang(17.0, stalls(101.7, 0.0)).unwrap();
        assert_eq!((seen.share, seen.at_least, seen.seconds), (0.4, true, 4.0));
        assert_eq!(io.rang(18.0, stalls(102.5, 0.0)), None, "it was told");
        // Totals that fell are another count.
        io.sample(20.0, stalls(5.0, 0.0));
        assert_eq!(io.rang(30.0, stalls(1.0, 0.0)), None);
        let mut loaded = super::tests::io();
        loaded.sample(10.0, stalls(100.0, 0.9));
        assert_eq!(loaded.rang(15.0, stalls(105.0, 0.9)), None, "it was never armed");
    }
}
