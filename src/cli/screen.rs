//! How much of a report the terminal shows.

use super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_model::Report;
use rdiag_report as report;

/// Options about the screen, the same for `run`, `analyze` and `report`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct ScreenArgs {
    /// Show everything, on the terminal and in Markdown: the matrix, the evidence, what was ruled out and what could not be measured.
    #[arg(long, short, conflicts_with_all = ["quiet", "summary"])]
    verbose: bool,
    /// Print the verdict only, without notes and progress.
    #[arg(long, short, conflicts_with = "summary")]
    quiet: bool,
    /// Print one line for a chat: host, verdict, who is behind it.
    #[arg(long)]
    summary: bool,
}

/// How much is said beside a result, for commands whose result is no report.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct TalkArgs {
    /// Say more: what was read and how, and all that is left out otherwise.
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Print the result only, in its shortest form, without notes and progress.
    #[arg(long, short)]
    quiet: bool,
}

impl TalkArgs {
    pub(super) fn is_verbose(self) -> bool {
        self.verbose
    }

    pub(super) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// What notes and progress go through.
    pub(super) fn ui(self, ui: &Ui) -> Ui {
        if self.quiet { ui.hushed() } else { *ui }
    }
}

impl ScreenArgs {
    /// Whether everything is wanted, and not its short form.
    pub(super) fn is_whole(self) -> bool {
        self.verbose
    }

    /// What notes and progress go through: nothing, if the verdict alone is wanted.
    pub(super) fn ui(self, ui: &Ui) -> Ui {
        if self.quiet || self.summary { ui.hushed() } else { *ui }
    }

    /// Prints the report; `written` says where its files are.
    pub(super) fn show(self, report: &Report, written: Option<&Text>, ui: &Ui) -> Result<(), Failure> {
        let style = ui.style();
        ui.print(&if self.summary {
            report::summary(report, &style)
        } else if self.quiet {
            report::verdict_alone(report, &style)
        } else if self.verbose {
            report::terminal(report, written, &style)
        } else {
            report::brief(report, written, &style)
        })
    }
}
