//! The kernel's lines in the journal, as `journalctl -o json` or `-o export` prints them, of this boot or an earlier one.
//!
//! The collector of the kernel log reads them as /dev/kmsg would have had them, so that patterns, metrics and rules are those of any
//! recording. What counts is the time by the wall clock: the kernel's own stamps begin anew with each boot. Who wrote a line is what
//! journald says of it: only what came from the kernel's buffer (`_TRANSPORT=kernel`) is taken, and what a program wrote there keeps its
//! facility.

mod entries;
mod export;
mod json;
mod lines;
#[cfg(test)]
mod tests;

pub use self::entries::Journal;
use self::lines::Lines;
use super::intervals::{Interval, Source, Time, unknown_host};
use crate::past::time::{Past, params};
use rdiag_kernel::host::Zone;
use rdiag_model::recording::{CollectorRecord, Series};
use rdiag_model::{Facts, RawUnit, SeriesKind};

const SOURCE: Source = Source {
    name: "journal",
    lacks: "The journal has the kernel log and no figures",
    gap: "the journal does not record it",
};

/// What prints it so that it can be read here. `journalctl -k` shows the boot of today alone.
pub(super) const COMMAND: &str = "journalctl _TRANSPORT=kernel -o json";
/// Why it may have nothing.
pub(super) const NOTHING: &str = "journalctl prints nothing where no journal is kept (Storage=persistent in /etc/systemd/journald.conf \
     keeps one across boots), and where this user may not read it (group systemd-journal or adm)";

/// The time of an entry, in both forms.
const TIME: &str = "__REALTIME_TIMESTAMP";
/// An entry is longer, but its first fields are within.
const HEAD: usize = 64 << 10;
/// Samples of a time of which it is the only source, a second apart at least.
const SAMPLES: f64 = 60.0;
/// How the kernel counts its OOM kills, each of which has a line.
const KILLS: &str = "vmstat.oom_kill";

/// Whether it is what journalctl prints.
pub(super) fn prints(bytes: &[u8]) -> bool {
    export::is(bytes) || json::is(bytes)
}

/// Reads all of it.
pub(super) fn read(bytes: &[u8]) -> Result<Journal, String> {
    let mut journal = Journal::default();
    match export::is(bytes) {
        true => export::read(bytes, &mut journal)?,
        false => json::read(bytes, &mut journal)?,
    }
    journal.readable()
}

/// What is to be said of the journal in a form that is not read here.
pub(super) fn as_text(bytes: &[u8]) -> Option<String> {
    let text = bytes.trim_ascii_start();
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let begins = |with: &[u8]| text.starts_with(with);
    if begins(b"-- No entries --") {
        return Some(format!("it is a journal without an entry: {NOTHING}"));
    }
    let is_pretty = text.get(..HEAD).unwrap_or(text).windows(TIME.len()).any(|part| part == TIME.as_bytes());
    let is_text = begins(b"-- Journal begins at ")
        || begins(b"-- Logs begin at ")
        || line.windows(9).any(|part| part == b" kernel: ");
    (is_pretty || is_text).then(|| format!("it is the journal in a form that is not read here: `{COMMAND}` prints it"))
}

impl Journal {
    /// The recording of a time of which it is the only source.
    pub(super) fn past(&self, time: &Time<'_>) -> Result<Past, String> {
        let seconds = time.span.to.saturating_sub(time.span.from) as f64 * 1e-6;
        let interval = Interval { end: time.span.to, seconds, sample: () };
        let unknown = unknown_host();
        let hostname = self.host.clone().unwrap_or_else(|| unknown.hostname.clone());
        let host = Facts { hostname, cpus: 0, cpus_present: 0, ..unknown };
        let mut past = time.past(&SOURCE, &[interval], host, |_, _| {})?;
        past.notes = vec![SOURCE.lacks.to_owned()];
        past.origin.means_over = None;
        let samples = seconds.floor().clamp(1.0, SAMPLES);
        if let Some(window) = past.recording.windows.first_mut() {
            window.interval_seconds = seconds / samples;
            past.recording.params = params(time.plan, window);
        }
        let times: Vec<f64> = (0..=samples as usize).map(|at| seconds * at as f64 / samples).collect();
        self.enter(&mut past, &times, time.plan.recent, time.zone)?;
        Ok(past)
    }

    /// Adds what the kernel logged to what another program recorded of a time.
    pub(super) fn beside(&self, past: &mut Past, time: &Time<'_>) -> Result<(), String> {
        let records = past.recording.windows.iter().flat_map(|window| window.collectors.values());
        let times = records.map(|record| &record.times).find(|times| times.len() > 1).cloned();
        let whole = || past.recording.windows.first().map_or_else(Vec::new, |window| vec![0.0, window.seconds]);
        let times = times.unwrap_or_else(whole);
        self.enter(past, &times, time.plan.recent, time.zone)
    }

    fn enter(&self, past: &mut Past, times: &[f64], recent: f64, zone: &Zone) -> Result<(), String> {
        let Lines { record, uptime, kernel, cpus, notes, doubt } = self.lines(past.began, times, recent, zone)?;
        let Some(window) = past.recording.windows.first_mut() else { return Ok(()) };
        let host = &mut past.recording.host;
        host.uptime_seconds = uptime;
        if let Some(kernel) = kernel.filter(|_| host.kernel == unknown_host().kernel) {
            host.kernel = kernel;
        }
        if host.cpus == 0 {
            (host.cpus, host.cpus_present) = (cpus.unwrap_or(0), cpus.unwrap_or(0));
        }
        // Sources come first.
        let at = past.notes.iter().take_while(|note| note.starts_with("Source: ")).count();
        past.notes.splice(at..at, notes);
        let vmstat = window.collectors.entry("vmstat".to_owned()).or_default();
        if counts_kills(vmstat, &record) {
            past.notes.push("OOM kills are those of the kernel log".to_owned());
        }
        window.collectors.insert("kernel_log".to_owned(), record);
        (past.origin.logged, past.origin.doubt) = (true, doubt);
        Ok(())
    }
}

/// Counts the kills of the log where the source has not counted them; whether it does.
fn counts_kills(vmstat: &mut CollectorRecord, log: &CollectorRecord) -> bool {
    let is_counted = vmstat.series.iter().any(|series| series.name == KILLS);
    let fits = vmstat.times.is_empty() || vmstat.times == log.times;
    let Some(kills) = log.series.iter().find(|series| series.name == "kernel_log.oom").filter(|_| fits && !is_counted)
    else {
        return false;
    };
    vmstat.times.clone_from(&log.times);
    vmstat.unavailable = None;
    vmstat.series.push(Series {
        name: KILLS.to_owned(),
        instance: None,
        kind: SeriesKind::Counter,
        unit: RawUnit::Count,
        values: kills.values.clone(),
    });
    vmstat.series.sort_by(|a, b| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)));
    true
}
