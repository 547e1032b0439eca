//! Where the roll-up goes: stdout, one file, or a folder, by the conventions of `rdiag run`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rdiag_fleet::Fleet;

use super::super::Failure;
use super::super::confined::Desk;
use super::super::output::split;
use super::super::ui::{Text, Ui};
use crate::report;
use crate::report::shown::{Shown, Whole};
use crate::shown;
use rdiag_kernel::host::files::Folder;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The text for people.
    Term,
    /// One self-contained page with a heat map of hosts and resources.
    Html,
    /// Markdown: a comment for a ticket.
    #[value(alias = "markdown")]
    Md,
    /// For programs; the schema is reports/schema/fleet.schema.json.
    Json,
    /// Rows of four tables (runs, readings, findings, facts) of all hosts as NDJSON, to stdout; the schema is
    /// reports/schema/rows.schema.json.
    Rows,
}

impl Format {
    /// The format that the name of a file asks for.
    fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "html" => Some(Self::Html),
            "md" | "markdown" => Some(Self::Md),
            "json" => Some(Self::Json),
            "txt" => Some(Self::Term),
            "ndjson" => Some(Self::Rows),
            _ => None,
        }
    }

    /// The name of the file in a folder.
    fn file(self) -> &'static str {
        match self {
            Self::Term => "fleet.txt",
            Self::Html => "fleet.html",
            Self::Md => "fleet.md",
            Self::Json => "fleet.json",
            Self::Rows => "rows.ndjson",
        }
    }

    fn render(self, fleet: &Fleet, ui: &Ui, is_file: bool) -> Result<Shown<Whole>, Failure> {
        Ok(match self {
            // A file has no colours.
            Self::Term if is_file => report::fleet::text(fleet, &report::Style { color: false, ..ui.style() }).whole(),
            Self::Term => report::fleet::text(fleet, &ui.style()).whole(),
            Self::Md => report::fleet::markdown(fleet).whole(),
            Self::Json => report::fleet::json(fleet)?.whole(),
            Self::Html => report::fleet::html(fleet)?.whole(),
            // They were written one host after the other.
            Self::Rows => Shown::new(),
        })
    }
}

/// Where it goes.
#[derive(Debug)]
pub(super) enum Output {
    /// One format to stdout.
    Stdout(Format),
    /// Files of these names in the folder.
    Files(PathBuf, Vec<(String, Format)>),
}

impl Output {
    /// What `--out` and `--format` ask for.
    pub(super) fn of(out: Option<&Path>, formats: &[Format]) -> Result<Self, Failure> {
        let output = Self::asked(out, formats)?;
        match &output {
            Self::Files(_, files) if files.iter().any(|(_, format)| *format == Format::Rows) => {
                let message = "rows of many hosts go to stdout, host by host".to_owned();
                Err(Failure::usage(message, Some("rdiag fleet DIR --format rows > rows.ndjson")))
            }
            _ => Ok(output),
        }
    }

    /// Whether rows go to stdout, host by host.
    pub(super) fn is_rows(&self) -> bool {
        matches!(self, Self::Stdout(Format::Rows))
    }

    fn asked(out: Option<&Path>, formats: &[Format]) -> Result<Self, Failure> {
        let Some(path) = out.filter(|path| *path != Path::new("-")) else {
            return match formats {
                [] => Ok(Self::Stdout(Format::Term)),
                [one] => Ok(Self::Stdout(*one)),
                _ => {
                    let message = "several formats do not fit onto stdout".to_owned();
                    Err(Failure::usage(message, Some("name a folder with --out, or one format")))
                }
            };
        };
        match (Format::of_name(path).filter(|_| !path.is_dir()), formats) {
            (Some(by_name), []) => Self::one(path, by_name),
            (Some(by_name), [one]) if *one == by_name => Self::one(path, by_name),
            (Some(_), _) => {
                let message = format!("--out {}: its ending names one format, and --format another", path.display());
                Err(Failure::usage(message, Some("leave --format out, or name a folder with --out")))
            }
            (None, formats) => {
                let all = [Format::Html, Format::Md, Format::Json];
                let formats = if formats.is_empty() { &all } else { formats };
                Ok(Self::Files(path.to_owned(), formats.iter().map(|one| (one.file().to_owned(), *one)).collect()))
            }
        }
    }

    fn one(path: &Path, format: Format) -> Result<Self, Failure> {
        let (folder, name) = split(path)?;
        Ok(Self::Files(folder, vec![(name, format)]))
    }

    /// The folder, opened by the process that may write there.
    pub(super) fn folder(&self) -> Result<Option<Folder>, Failure> {
        let Self::Files(path, _) = self else { return Ok(None) };
        let attempt = || Failure::io(format!("preparing the output folder {}", path.display()));
        Folder::prepare(path).map(Some).map_err(attempt())
    }

    /// Writes it, from the confined process.
    pub(super) fn write(&self, fleet: &Fleet, desk: &Desk, is_short: bool, ui: &Ui) -> Result<(), Failure> {
        match self {
            Self::Stdout(Format::Term) if is_short => ui.print(&shown!("{}\n", Text::seen(&fleet.headline))),
            Self::Stdout(Format::Rows) => Ok(()),
            Self::Stdout(format) => ui.print(&format.render(fleet, ui, false)?),
            Self::Files(folder, files) => files.iter().try_for_each(|(name, format)| {
                let attempt = Failure::io(format!("writing {}", folder.join(name).display()));
                desk.write(name, &format.render(fleet, ui, true)?).map_err(attempt)
            }),
        }
    }
}
