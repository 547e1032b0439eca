//! What formats for other programs are made of: a report, and of its recording, where that is at hand, what no report holds:
//! single runs, the schedule, the wall clock.

mod runs;
mod time;

use rdiag_model::report::Span;
use rdiag_model::runs::Run;
use rdiag_model::{Finding, Ledger, Profile, Recording, Report};

/// A document that is exported. Both formats have one axis, that of the report: seconds since its first window began, on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub struct Exported<'r> {
    /// The report.
    pub report: &'r Report,
    /// What it was judged from. Without it there is no schedule, and of the runs of a task there are the slowest only.
    pub recording: Option<&'r Recording>,
}

/// When a finding held.
pub(super) struct HeldSpans {
    pub(super) spans: Vec<Span>,
    /// Whether it held in just these stretches; else this is the window over which it was judged.
    pub(super) exact: bool,
}

impl<'r> Exported<'r> {
    /// Nanoseconds since 1970 at which the axis begins; none where the document says no time. Recordings have the wall clock to the second.
    pub(super) fn origin(&self) -> Option<u64> {
        let began = time::unix_nanos(&self.report.window.started)?;
        Some(began.saturating_add((self.first_begins() * 1e9) as u64))
    }

    /// Seconds from the start of the run to the first window, in which probes were attached; 0 where only the report is known.
    pub(super) fn first_begins(&self) -> f64 {
        let begins = self.recording.into_iter().flat_map(|recording| &recording.windows).map(|window| window.begins);
        let first = begins.fold(f64::INFINITY, f64::min);
        if first.is_finite() { first.max(0.0) } else { 0.0 }
    }

    /// The windows on the axis.
    pub(super) fn windows(&self) -> &'r [Span] {
        &self.report.window.spans
    }

    /// A window on the axis.
    pub(super) fn window(&self, at: usize) -> Option<Span> {
        self.windows().get(at).copied()
    }

    /// When a finding held, by its place in the report; none if it is about the time before the window, or cites no reading.
    pub(super) fn held(&self, at: usize, finding: &Finding) -> Option<HeldSpans> {
        let bands = self.report.timeline.iter().flat_map(|timeline| &timeline.bands);
        if let Some(band) = bands.into_iter().find(|band| band.finding == at) {
            return Some(HeldSpans { spans: band.spans.clone(), exact: band.exact });
        }
        let window = self.judged_over(finding)?;
        (!finding.is_over()).then(|| HeldSpans { spans: vec![window], exact: false })
    }

    /// The window that a finding was judged by: that of its first reading.
    pub(super) fn judged_over(&self, finding: &Finding) -> Option<Span> {
        self.window(finding.evidence.first()?.window)
    }

    /// The window that the tables of processes are of: the first that has any. None where a report of several windows is all there is.
    pub(super) fn with_processes(&self) -> Option<(usize, Span)> {
        let at = match self.recording {
            None => (self.windows().len() == 1).then_some(0),
            Some(recording) => recording
                .windows
                .iter()
                .position(|window| window.collectors.values().any(|record| !record.processes.is_empty())),
        }?;
        Some((at, self.window(at)?))
    }

    /// The account that the profile was added up from.
    fn ledger(&self, profile: &Profile) -> Option<&'r Ledger> {
        self.recording?.windows.get(profile.window)?.ledgers.get(&profile.source)?.as_ref().ok()
    }

    /// The runs of the task, in the order in which they began; those whose parts are not known have none.
    pub(super) fn runs(&self) -> Vec<Run> {
        let profile = self.report.profile.as_ref();
        profile.map(|profile| runs::all(profile, self.ledger(profile))).unwrap_or_default()
    }
}
