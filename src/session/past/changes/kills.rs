//! OOM kills: those that the kernel log names, and those that only the kernel's counter has.

use std::collections::BTreeSet;

use super::{OF_HOST, Seen, short, wall};
use rdiag_history::Block;
use rdiag_model::Number;
use rdiag_model::recording::CollectorRecord;
use rdiag_model::report::ChangeKind;

/// Kills that are remembered: a log may come from anywhere.
const MOST: usize = 1000;
/// Seconds that a kill may be older than the sample that counts it, beside the distance of samples.
const SLACK: i64 = 2_000_000;

/// What is known of kills.
#[derive(Debug, Default)]
pub(super) struct Kills {
    lines: BTreeSet<(u64, String)>,
    times: Vec<i64>,
    /// The counter at its last sample, and when that was.
    counted: Option<(f64, i64)>,
}

impl Kills {
    pub(super) fn add(&mut self, block: &Block, seen: &mut Vec<Seen>) {
        if let Some(log) = block.collectors.get("kernel_log") {
            self.named(block, log, seen);
        }
        if let Some(counters) = block.collectors.get("vmstat") {
            self.counted(block, counters, seen);
        }
    }

    /// Each block begins with what the kernel still has of the time before, so a line may come more than once.
    fn named(&mut self, block: &Block, log: &CollectorRecord, seen: &mut Vec<Seen>) {
        for line in log.log.iter().filter(|line| line.class == "oom" && line.seconds_since_boot.is_finite()) {
            let key = (line.seconds_since_boot.to_bits(), line.text.clone());
            if self.lines.len() >= MOST || !self.lines.insert(key) {
                continue;
            }
            // The kernel log's clock runs like the monotonic one.
            let at = wall(block, line.seconds_since_boot - block.header.monotonic);
            self.times.push(at);
            let subject = short(line.subject.as_deref().unwrap_or_default());
            let whom = if subject.is_empty() { "a process" } else { &subject };
            let text = format!("OOM kill of {whom}{}", why(&line.text));
            seen.push(Seen { at, kind: ChangeKind::OomKill, subject, text, weight: OF_HOST });
        }
    }

    /// What the log does not name: it could not be read, or has not been yet.
    fn counted(&mut self, block: &Block, counters: &CollectorRecord, seen: &mut Vec<Seen>) {
        let Some(series) = counters.series.iter().find(|series| series.name == "vmstat.oom_kill") else { return };
        for (time, value) in counters.times.iter().zip(&series.values) {
            let (Some(Number::Whole(value)), at) = (value, wall(block, *time)) else { continue };
            let value = *value as f64;
            if let Some((last, since)) = self.counted
                && value > last
                && !self.times.iter().any(|kill| (since - SLACK..=at + SLACK).contains(kill))
                && seen.len() < super::MOST_KNOWN
            {
                let kills = value - last;
                let text =
                    if kills > 1.0 { format!("{kills:.0} OOM kills") } else { "OOM kill of a process".to_owned() };
                seen.push(Seen { at, kind: ChangeKind::OomKill, subject: String::new(), text, weight: OF_HOST });
            }
            self.counted = Some((value, at));
        }
    }
}

/// Whose memory ran out, as far as the kernel log says so: the collector adds its reason in brackets.
fn why(text: &str) -> &'static str {
    let reason = text.rsplit_once(" [").map_or("", |(_, reason)| reason);
    if text.contains("emory cgroup") {
        ": a cgroup reached its memory limit"
    } else if reason.contains("cpuset") || reason.contains("NUMA policy") {
        ": the NUMA nodes that it may use ran out of memory"
    } else if reason.contains("whole host") {
        ": the host ran out of memory"
    } else {
        ""
    }
}
