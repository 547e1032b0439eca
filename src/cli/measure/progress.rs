//! A measurement as it is seen from outside while it goes on: a bar where there is a terminal, lines where there is none.

use std::collections::BTreeMap;

use indicatif::ProgressBar;

use super::super::command::Command;
use super::super::ui::{Text, Ui};
use super::Keep;
use rdiag_kernel::host::BeginAt;
use rdiag_model::{Finding, Recording, Status};
use rdiag_playbook::PlannedStep;
use rdiag_report as report;
use rdiag_report::shown;
use rdiag_session::Observer;

/// Lines of provisional findings, where there is no terminal to draw on.
const MOST_LINES: usize = 8;

/// The bar and the lines that follow a measurement.
pub(super) struct Progress<'u> {
    ui: &'u Ui,
    bar: Option<ProgressBar>,
    /// What the bar says of the window.
    what: Text,
    command: Option<&'u mut Command>,
    keep: Keep<'u>,
    /// Whether what was handed over last could be written down.
    pub(super) is_kept: bool,
    begin_at: Option<BeginAt>,
    /// Whether findings are printed while the first window runs.
    streams: bool,
    /// What has been told in lines: rule and instance, and how bad.
    told: BTreeMap<(String, Option<String>), Status>,
}

impl<'u> Progress<'u> {
    /// Nothing is shown yet; `keep` writes down what is handed over.
    pub(super) fn new(
        command: Option<&'u mut Command>,
        begin_at: Option<BeginAt>,
        streams: bool,
        keep: Keep<'u>,
        ui: &'u Ui,
    ) -> Self {
        let (bar, what, told) = (None, Text::new(), BTreeMap::new());
        Self { ui, bar, what, command, keep, is_kept: false, begin_at, streams, told }
    }
}

impl Observer for Progress<'_> {
    fn window(&mut self, steps: &[&PlannedStep], seconds: f64, drill_down: bool) {
        // One within another window: the bar goes on, and says so.
        if let (true, Some(bar)) = (drill_down, &self.bar) {
            let question = match steps {
                [only] => Text::seen(&only.step.question),
                _ => shown!("{} questions", steps.len()),
            };
            self.what.push(shown!("; drill-down: {}", question));
            return self.ui.say_on(bar, &self.what);
        }
        let what = match (drill_down, steps) {
            (true, [only]) => format!("drill-down, {seconds:.0} s: {}", only.step.question),
            (true, _) => format!("drill-down, {seconds:.0} s: {} questions", steps.len()),
            (false, _) if self.begin_at.is_some() => {
                let at = self.begin_at.map(|at| at.to_string()).unwrap_or_default();
                format!("beginning at {at}, then measuring for {seconds:.0} s; Ctrl-C ends early")
            }
            (false, _) if self.command.is_some() => "measuring until the command ends".to_owned(),
            (false, _) => format!("measuring for {seconds:.0} s; Ctrl-C ends early"),
        };
        self.what = Text::seen(what);
        self.bar = Some(self.ui.bar(&self.what));
    }

    fn begun(&mut self) {
        if let Some(command) = &mut self.command {
            command.let_go();
        }
    }

    fn progress(&mut self, share: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position((share * 1000.0) as u64);
        }
    }

    fn wants_findings(&self) -> bool {
        self.streams
    }

    fn findings(&mut self, seconds: f64, findings: Vec<Finding>) {
        if let Some(bar) = self.bar.as_ref().filter(|bar| !bar.is_hidden()) {
            let so_far = report::so_far(findings, seconds, &self.ui.style());
            return self.ui.say_on(bar, &shown!("{}\n{}", &self.what, so_far));
        }
        for finding in findings.iter().filter(|finding| finding.status >= Status::Warning && !finding.is_past()) {
            let of = (finding.id.clone(), finding.instance.clone());
            if self.told.len() >= MOST_LINES || self.told.get(&of).is_some_and(|told| *told >= finding.status) {
                continue;
            }
            if self.told.is_empty() {
                self.ui.note("So far, provisional until the end:");
            }
            self.told.insert(of, finding.status);
            self.ui.note(report::so_far_line(finding, seconds));
        }
    }

    fn window_ended(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn begin_at(&self) -> Option<BeginAt> {
        self.begin_at
    }

    fn gives_up_rights(&self) -> bool {
        true
    }

    fn keep(&mut self, recording: &Recording) {
        // A command that never began was not measured.
        self.is_kept =
            !self.command.as_ref().is_some_and(|command| command.never_began()) && (self.keep)(recording).is_ok();
    }
}
