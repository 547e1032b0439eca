//! Where the roll-up goes: stdout, one file, or a folder, by the conventions of `rdiag run`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rdiag_fleet::Fleet;

use super::super::confined::Desk;
use super::super::output::split;
use super::super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_kernel::host::files::Folder;
use rdiag_report as report;
use rdiag_report::shown;
use rdiag_report::shown::{Shown, Whole};

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
    /// Files of these formats in a folder.
    Folder(PathBuf, Vec<Format>),
    /// One file of this name in the folder.
    File(PathBuf, String, Format),
}

impl Output {
    /// What `--out` and `--format` ask for.
    pub(super) fn of(out: Option<&Path>, formats: &[Format]) -> Result<Self, Failure> {
        let output = Self::asked(out, formats)?;
        let has_rows = match &output {
            Self::Stdout(_) => false,
            Self::Folder(_, formats) => formats.contains(&Format::Rows),
            Self::File(.., format) => *format == Format::Rows,
        };
        if has_rows {
            let message = "rows of many hosts go to stdout, host by host".to_owned();
            return Err(Failure::usage(message, Some("rdiag fleet DIR --format rows > rows.ndjson")));
        }
        Ok(output)
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
                Ok(Self::Folder(path.to_owned(), formats.to_vec()))
            }
        }
    }

    fn one(path: &Path, format: Format) -> Result<Self, Failure> {
        let (folder, name) = split(path)?;
        Ok(Self::File(folder, name, format))
    }

    /// Whether a page goes into a folder, where there is room for what it links to.
    pub(super) fn is_folder_with_page(&self) -> bool {
        matches!(self, Self::Folder(_, formats) if formats.contains(&Format::Html))
    }

    /// The folder, opened by the process that may write there.
    pub(super) fn folder(&self) -> Result<Option<Folder>, Failure> {
        let (Self::Folder(path, _) | Self::File(path, ..)) = self else { return Ok(None) };
        let attempt = || Failure::io(format!("preparing the output folder {}", path.display()));
        Folder::prepare(path).map(Some).map_err(attempt())
    }

    /// Writes it, from the confined process; the verdict alone goes to stdout besides, where `is_short`.
    pub(super) fn write(&self, fleet: &Fleet, desk: &Desk, is_short: bool, ui: &Ui) -> Result<(), Failure> {
        let save = |folder: &Path, name: &str, format: Format| {
            let attempt = Failure::io(format!("writing {}", folder.join(name).display()));
            desk.write(name, &format.render(fleet, ui, true)?).map_err(attempt)
        };
        match self {
            Self::Stdout(Format::Rows) => return Ok(()),
            Self::Stdout(format) if !is_short => return ui.print(&format.render(fleet, ui, false)?),
            Self::Stdout(_) => {}
            Self::Folder(folder, formats) => {
                formats.iter().try_for_each(|format| save(folder, format.file(), *format))?;
            }
            Self::File(folder, name, format) => save(folder, name, *format)?,
        }
        if is_short { ui.print(&shown!("{}\n", Text::seen(&fleet.headline))) } else { Ok(()) }
    }
}
