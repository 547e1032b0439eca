//! Where a run's files go, in which formats; prepared before the window starts.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::{Failure, ui::Ui};
use crate::host::files;
use crate::model::{Recording, Report};
use crate::report::{self, ReportError};
use crate::session::write_recording;

/// A report format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// One self-contained page.
    Html,
    /// A comment for a ticket, at most 30 000 characters.
    Md,
    /// For programs; the schema is reports/schema/report.schema.json.
    Json,
}

impl Format {
    fn file(self) -> &'static str {
        match self {
            Self::Html => "report.html",
            Self::Md => "report.md",
            Self::Json => "report.json",
        }
    }

    fn render(self, report: &Report) -> Result<String, ReportError> {
        match self {
            Self::Html => report::html(report),
            Self::Md => report::markdown(report),
            Self::Json => report::json(report),
        }
    }
}

/// Options about the output, the same for `run` and `analyze`.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// Folder for the files, or `-` to write one format to stdout and nothing else there.
    #[arg(long, short, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Formats to write, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMATS")]
    pub(super) format: Vec<Format>,
}

/// Where the output goes.
pub(super) enum Target {
    /// One format to stdout.
    Stdout(Format),
    /// Files in a folder that is there and can be written.
    Folder(PathBuf, Vec<Format>),
    /// The terminal only.
    Terminal,
}

impl OutputArgs {
    /// Decides where the output goes, and proves that it can go there. `default` names the folder when none is given.
    pub(super) fn prepare(&self, default: Option<String>) -> Result<Target, Failure> {
        let all =
            || if self.format.is_empty() { vec![Format::Html, Format::Md, Format::Json] } else { self.format.clone() };
        let folder = match (&self.out, default) {
            (Some(path), _) if path == Path::new("-") => {
                return match self.format.as_slice() {
                    [one] => Ok(Target::Stdout(*one)),
                    _ => Err(Failure::Usage {
                        message: "--out - writes one format to stdout, so --format must name exactly one".into(),
                        hint: Some("for example: --format json --out -".into()),
                    }),
                };
            }
            (Some(path), _) => path.clone(),
            (None, Some(name)) => PathBuf::from(name),
            (None, None) if self.format.is_empty() => return Ok(Target::Terminal),
            (None, None) => PathBuf::from("."),
        };
        files::prepare_directory(&folder)
            .map_err(Failure::io(format!("preparing the output folder {}", folder.display())))?;
        Ok(Target::Folder(folder, all()))
    }
}

impl Target {
    /// Whether stdout belongs to one format alone.
    pub(super) fn owns_stdout(&self) -> bool {
        matches!(self, Self::Stdout(_))
    }

    /// Writes the files, or the one format to stdout. The recording goes first: it is what cannot be made again.
    pub(super) fn write(&self, report: &Report, recording: Option<&Recording>, ui: &Ui) -> Result<(), Failure> {
        match self {
            Self::Stdout(format) => ui.print(&format.render(report)?),
            Self::Terminal => Ok(()),
            Self::Folder(folder, formats) => {
                if let Some(recording) = recording {
                    save_recording(&folder.join("recording.json.gz"), recording)?;
                }
                for format in formats {
                    let text = format.render(report)?;
                    let path = folder.join(format.file());
                    files::write_atomically(&path, |file| file.write_all(text.as_bytes()))
                        .map_err(Failure::io(format!("writing {}", path.display())))?;
                }
                Ok(())
            }
        }
    }

    /// Where the files are, for the last line on the terminal.
    pub(super) fn told(&self, with_recording: bool) -> Option<String> {
        let Self::Folder(folder, formats) = self else { return None };
        let mut names: Vec<&str> = formats.iter().map(|format| format.file()).collect();
        if with_recording {
            names.push("recording.json.gz");
        }
        Some(format!("Written to {}/: {}", folder.display().to_string().trim_end_matches('/'), names.join(", ")))
    }
}

/// Writes a recording.
pub(super) fn save_recording(path: &Path, recording: &Recording) -> Result<(), Failure> {
    files::write_atomically(path, |file| write_recording(recording, file))
        .map_err(Failure::io(format!("writing {}", path.display())))
}
