//! What the kernel logged in a time and before it, as the collector of the kernel log reads it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::entries::{Entry, Journal};
use rdiag_collectors::{self as collectors, Sink};
use rdiag_kernel::host::{Host, Zone};
use rdiag_model::recording::CollectorRecord;
use rdiag_model::{Reason, Unavailable};

/// Bytes of lines that are read at one instant; a file of a host has a little more at most.
const MAX_BYTES: usize = 12 << 20;
/// What stands before the text of a line.
const HEAD: usize = 64;
/// What the kernel finds when it begins is no news, in microseconds.
const FIRST_MINUTE: i64 = 60_000_000;
/// A clock that is off by less was not set.
const CLOCK: i64 = 1_000_000;
/// The file that the collector reads.
const KMSG: &str = "dev/kmsg";
/// What journald does not count.
const UNCOUNTED: [&str; 2] = ["kernel_log.missed", "kernel_log.overwritten"];

/// What the collector made of it.
pub(super) struct Lines {
    pub(super) record: CollectorRecord,
    /// Seconds since boot when the time began.
    pub(super) uptime: f64,
    /// The kernel that ran at its end, and its CPUs.
    pub(super) kernel: Option<String>,
    pub(super) cpus: Option<u32>,
    pub(super) notes: Vec<String>,
    /// Why that there is no line proves little.
    pub(super) doubt: Option<String>,
}

impl Journal {
    /// What was logged from `began` on (microseconds since 1970) until each of the `times` (seconds of the window), and before it.
    pub(super) fn lines(&self, began: i64, times: &[f64], recent: f64, zone: &Zone) -> Result<Lines, String> {
        let at = |seconds: f64| began.saturating_add((seconds * 1e6) as i64);
        let end = times.last().map_or(began, |last| at(*last));
        let entries = self.entries.get(..self.entries.partition_point(|entry| entry.wall <= end)).unwrap_or_default();
        let (Some(first), Some((reaches_from, reaches_to))) = (entries.first(), self.reach) else {
            let from = self.entries.first().map_or(0, |entry| entry.wall);
            return Err(format!(
                "it has nothing before {}: print more of it (`{} --since …`); where none is kept across boots, Storage=persistent in \
                 /etc/systemd/journald.conf keeps one from now on",
                zone.shown(from),
                super::COMMAND
            ));
        };
        // What is recent counts like what is of the window, so stamps are those of the boot before it.
        let horizon = began.saturating_sub((recent * 1e6) as i64);
        let boot = entries.iter().rev().find(|entry| entry.wall <= horizon).unwrap_or(first).boot;
        let start = self.boots.get(boot).map_or(began, |boot| boot.start).min(began);
        let kept = |entry: &&Entry| entry.boot == boot || entry.wall > horizon;
        let (mut feed, mut written) = (Feed::begin(began), entries.iter().filter(kept).peekable());
        for (nth, time) in times.iter().enumerate() {
            // What is of the beginning itself is of the window.
            let is_in = |entry: &&Entry| if nth == 0 { entry.wall < began } else { entry.wall <= at(*time) };
            feed.instant(std::iter::from_fn(|| written.next_if(is_in)), nth == 0);
        }
        let left_out = feed.left_out;
        let mut record = feed.collect(times)?;
        let booted: Vec<i64> = self.booted(horizon, end).filter(|at| *at > start + CLOCK).collect();
        record.log.retain_mut(|line| {
            let wall = (line.seconds_since_boot * 1e6).round() as i64;
            let is_of_boot = booted.iter().any(|booted| (*booted..booted.saturating_add(FIRST_MINUTE)).contains(&wall));
            line.seconds_since_boot = wall.saturating_sub(start).max(0) as f64 * 1e-6;
            line.in_window || !is_of_boot
        });
        let mut notes = vec!["Source: the journal, lines of the kernel log with their times".to_owned()];
        notes.extend(booted.iter().map(|at| format!("The host was booted at {}", zone.shown(*at))));
        if reaches_from > horizon {
            let from = zone.shown(reaches_from);
            notes.push(format!("The journal begins at {from}: what the kernel logged before is not known"));
        } else if first.boot == boot && first.wall > start.saturating_add(FIRST_MINUTE) {
            notes.push(format!("The journal begins at {}: so do counts since boot", zone.shown(reaches_from)));
        }
        let mut doubt = None;
        if reaches_to < end {
            let last = zone.shown(reaches_to);
            notes.push(format!(
                "The last entry of the journal is of {last}: taken to mean that the kernel logged nothing after it"
            ));
            doubt = Some(format!("the last entry of the journal, of {last}, is from before the end of this time"));
        }
        notes.extend(self.defects());
        if left_out > 0 {
            notes.push(format!("{left_out} lines of the kernel log were left out: there are too many"));
        }
        let latest = entries.last().and_then(|entry| self.boots.get(entry.boot));
        let (kernel, cpus) = (latest.and_then(|boot| boot.kernel.clone()), latest.and_then(|boot| boot.cpus));
        let uptime = began.saturating_sub(start).max(0) as f64 * 1e-6;
        Ok(Lines { record, uptime, kernel, cpus, notes, doubt })
    }

    /// When the host was booted within a time.
    fn booted(&self, from: i64, to: i64) -> impl Iterator<Item = i64> {
        let mut all: Vec<i64> = self.boots.iter().map(|boot| boot.start).filter(|at| *at > from && *at <= to).collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// What cannot be read of it, in words.
    fn defects(&self) -> Vec<String> {
        let lines =
            if self.unreadable == 1 { "line of it is no entry and was" } else { "lines of it are no entries and were" };
        let unreadable = (self.unreadable > 0).then(|| format!("The journal: {} {lines} left out", self.unreadable));
        let cut = self.is_cut_off.then(|| "The journal: its last entry is cut off".to_owned());
        unreadable.into_iter().chain(cut).collect()
    }
}

/// Records for the collector, instant by instant.
struct Feed {
    texts: Vec<Vec<u8>>,
    sequence: u64,
    left_out: usize,
}

impl Feed {
    /// The collector takes an empty log for none at all, so the first record is one of no program: that the window begins.
    fn begin(began: i64) -> Self {
        let first = format!("14,0,{},-;begin\n", began.max(0));
        Self { texts: vec![first.into_bytes()], sequence: 0, left_out: 0 }
    }

    /// The next instant. Before the window the newest lines are worth most, in it the first.
    fn instant<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>, is_before: bool) {
        let mut entries: Vec<&Entry> = entries.collect();
        let mut bytes = 0;
        let mut fits = |entry: &&&Entry| {
            bytes += entry.text.len() + HEAD;
            bytes <= MAX_BYTES
        };
        let fitting = match is_before {
            true => entries.iter().rev().take_while(&mut fits).count(),
            false => entries.iter().take_while(&mut fits).count(),
        };
        self.left_out += entries.len() - fitting;
        if is_before {
            entries.drain(..entries.len() - fitting);
        }
        entries.truncate(fitting);
        let mut text = if is_before { self.texts.pop().unwrap_or_default() } else { Vec::new() };
        for entry in entries {
            self.sequence += 1;
            let Entry { wall, priority, text: own, .. } = entry;
            text.extend(format!("{priority},{},{},-;{own}\n", self.sequence, (*wall).max(0)).into_bytes());
        }
        self.texts.push(text);
    }

    /// What the collector of the kernel log reads in them.
    fn collect(self, times: &[f64]) -> Result<CollectorRecord, String> {
        let def = collectors::find("kernel_log").ok_or("there is no collector of the kernel log")?;
        let host = Host::of_texts(BTreeMap::from([(KMSG.to_owned(), self.texts)]));
        let (never, sink) = (AtomicBool::new(false), Sink::new(def.series));
        let mut collector = (def.start)(&host);
        for (at, time) in times.iter().enumerate() {
            host.wait(0.0, at, &never);
            collector.sample(&host, &sink).map_err(|gap| gap.why)?;
            sink.end_sample(*time, false);
        }
        collector.finish(&host, &sink);
        let mut record = sink.into_record();
        record.series.retain(|series| !UNCOUNTED.contains(&series.name.as_str()));
        let gap = || Unavailable::new(Reason::Absent, "the journal does not count what the kernel overwrote");
        record.gaps.extend(UNCOUNTED.map(|name| (name.to_owned(), gap())));
        Ok(record)
    }
}
