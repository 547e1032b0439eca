//! Where a run's files go, in which formats; prepared before the window starts.

mod format;
mod own;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::ValueEnum as _;

pub(super) use self::format::Format;
use self::own::OwnFolder;
use super::confined::Desk;
use super::stacks;
use super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_kernel::host::files;
use rdiag_model::rows::Row;
use rdiag_model::{ProbeResult, Recording, Report};
use rdiag_report::shown;
use rdiag_report::shown::{Json, Shown};
use rdiag_report::{self as report, Exported};
use rdiag_session::write_recording;

/// Options about the output, the same for `run` and `analyze`.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// Folder for the files; or one file, by its ending (report.html, .md, .json); or `-` for stdout.
    #[arg(long, short, value_name = "DIR|FILE")]
    pub(super) out: Option<PathBuf>,
    /// Formats, separated by commas. One format without --out is printed to stdout, and nothing else is.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMATS")]
    pub(super) format: Vec<Format>,
}

/// A folder that is there and can be written.
#[derive(Debug, Clone)]
pub(super) enum OutputFolder {
    /// By this process.
    Own(Rc<OwnFolder>),
    /// By the one that this process is a confined copy of.
    OfParent(PathBuf, Desk),
}

impl OutputFolder {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::OfParent(path, _) => path,
        }
    }

    fn through(self, desk: &Desk) -> Self {
        if let Self::Own(own) = &self {
            own.leave();
        }
        Self::OfParent(self.path().to_owned(), desk.clone())
    }

    /// Writes a text.
    pub(super) fn save<M>(&self, name: &str, text: &Shown<M>) -> Result<(), Failure> {
        let written = match self {
            Self::Own(folder) => folder.write(Path::new(name), |file| file.write_all(text.as_bytes())),
            Self::OfParent(_, desk) => desk.write(name, text),
        };
        written.map_err(Failure::io(format!("writing {}", self.path().join(name).display())))
    }
}

/// Where the output goes.
pub(super) enum Target {
    /// One format to stdout.
    Stdout(Format),
    /// Files in a folder.
    Folder(OutputFolder, Vec<Format>),
    /// One file of this name in a folder.
    File(OutputFolder, String, Format),
    /// The terminal only.
    Terminal,
}

impl OutputArgs {
    /// Whether one format alone goes to stdout.
    pub(super) fn is_stdout(&self) -> bool {
        self.out.as_deref() == Some(Path::new("-")) || (self.out.is_none() && self.format.len() == 1)
    }

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
            (Some(path), _) if is_file(path) => return self.one_file(path),
            (Some(path), _) => path.clone(),
            (None, _) if self.format.len() == 1 => {
                return Ok(self.format.first().map_or(Target::Terminal, |one| Target::Stdout(*one)));
            }
            (None, Some(name)) => PathBuf::from(name),
            (None, None) if self.format.is_empty() => return Ok(Target::Terminal),
            (None, None) => PathBuf::from("."),
        };
        if folder.exists() && !folder.is_dir() {
            let message = format!("--out {}: it is there, and no folder", folder.display());
            return Err(Failure::usage(
                message,
                Some("one file ends in .html, .md or .json; all of them take a folder"),
            ));
        }
        let out = OwnFolder::prepare(&folder)
            .map_err(Failure::io(format!("preparing the output folder {}", folder.display())))?;
        Ok(Target::Folder(OutputFolder::Own(Rc::new(out)), all()))
    }

    /// The file that `--out` names, whose ending says the format.
    fn one_file(&self, path: &Path) -> Result<Target, Failure> {
        let shown = path.display();
        let format = match (Format::of_name(path), self.format.as_slice()) {
            (Some(format), []) => format,
            (Some(format), [one]) if one.may_be_named(format) => *one,
            (Some(_), _) => {
                let message =
                    format!("--out {shown} is one file whose ending says its format, and --format says another");
                return Err(Failure::usage(message, Some("leave --format out, or name a folder with --out")));
            }
            (None, _) => {
                let hint = "`rdiag record` writes a recording; a report is a .html, .md or .json file";
                return Err(Failure::usage(format!("--out {shown} is the name of a recording"), Some(hint)));
            }
        };
        let (folder, name) = split(path)?;
        let attempt = format!("preparing the output folder {}", folder.display());
        let folder = OwnFolder::prepare(&folder).map_err(Failure::io(attempt))?;
        Ok(Target::File(OutputFolder::Own(Rc::new(folder)), name, format))
    }
}

/// Whether a path names one file, and not a folder for several: by its ending, unless there is such a folder.
pub(super) fn is_file(path: &Path) -> bool {
    let is_recording = path.to_str().is_some_and(|name| name.ends_with(".gz"));
    (is_recording || Format::of_name(path).is_some()) && !path.is_dir()
}

/// The folder of a file that is to be written, and its name there.
pub(super) fn split(path: &Path) -> Result<(PathBuf, String), Failure> {
    let wrong = || Failure::usage(format!("--out {}: it is no name of a file", path.display()), None);
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(wrong)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((parent.to_owned(), name.to_owned()))
}

impl Target {
    /// The folder, for the process that keeps its rights.
    pub(super) fn folder(&self) -> Option<Rc<OwnFolder>> {
        match self {
            Self::Folder(OutputFolder::Own(folder), _) | Self::File(OutputFolder::Own(folder), ..) => {
                Some(Rc::clone(folder))
            }
            _ => None,
        }
    }

    /// The same for its confined copy.
    pub(super) fn through(self, desk: &Desk) -> Self {
        match self {
            Self::Folder(out, formats) => Self::Folder(out.through(desk), formats),
            Self::File(out, name, format) => Self::File(out.through(desk), name, format),
            other => other,
        }
    }

    /// Whether stdout belongs to one format alone.
    pub(super) fn owns_stdout(&self) -> bool {
        matches!(self, Self::Stdout(_))
    }

    /// Whether nothing but stacks is asked for.
    pub(super) fn is_of_stacks(&self) -> bool {
        match self {
            Self::Stdout(format) | Self::File(.., format) => format.is_of_stacks(),
            Self::Folder(_, formats) => formats.iter().all(|format| format.is_of_stacks()),
            Self::Terminal => false,
        }
    }

    /// Whether a recording has more of all that is asked for than a report.
    pub(super) fn is_of_recordings(&self) -> bool {
        match self {
            Self::Stdout(format) | Self::File(.., format) => format.is_of_recordings(),
            Self::Folder(_, formats) => formats.iter().all(|format| format.is_of_recordings()),
            Self::Terminal => false,
        }
    }

    /// Whether rows are asked for.
    pub(super) fn has_rows(&self) -> bool {
        match self {
            Self::Stdout(format) | Self::File(.., format) => *format == Format::Rows,
            Self::Folder(_, formats) => formats.contains(&Format::Rows),
            Self::Terminal => false,
        }
    }

    /// Writes the report's files, or the one format to stdout: the `whole` of it, or its short form; of the recording, where it is at hand,
    /// what the report does not hold. Gives back the names of the files.
    pub(super) fn write(
        &self,
        report: &Report,
        recording: Option<&Recording>,
        whole: bool,
        ui: &Ui,
    ) -> Result<Vec<String>, Failure> {
        let of = Exported { report, recording };
        let mut written = Vec::new();
        match self {
            // They are made of more than the report: see `write_rows`.
            Self::Stdout(Format::Rows) => return Ok(written),
            Self::Stdout(format) => {
                if let Some(text) = format.render(&of, whole)? {
                    ui.print(&text)?;
                    return Ok(written);
                }
            }
            Self::Terminal => {}
            Self::File(folder, name, format) => {
                if let Some(text) = format.render(&of, whole)? {
                    folder.save(name, &text)?;
                    written.push(name.clone());
                }
            }
            Self::Folder(folder, formats) => {
                for format in formats {
                    let Some(text) = format.render(&of, whole)? else { continue };
                    folder.save(format.file(), &text)?;
                    written.push(format.file().to_owned());
                }
            }
        }
        let stacks = recording.map_or_else(|| stacks::of_report(report), stacks::of_recording);
        written.extend(stacks::write(&stacks, self, ui)?);
        Ok(written)
    }

    /// Writes rows, where they are asked for. Gives back the name of the file.
    pub(super) fn write_rows(&self, rows: impl Iterator<Item = Row>, ui: &Ui) -> Result<Option<String>, Failure> {
        let name = match self {
            Self::Stdout(Format::Rows) => None,
            Self::File(_, name, Format::Rows) => Some(name.as_str()),
            Self::Folder(_, formats) if formats.contains(&Format::Rows) => Some(Format::Rows.file()),
            _ => return Ok(None),
        };
        let mut text = Shown::<Json>::new();
        for row in rows {
            text.push(line(&row)?);
        }
        match (self, name) {
            (Self::File(folder, ..) | Self::Folder(folder, _), Some(name)) => folder.save(name, &text)?,
            _ => ui.print(&text)?,
        }
        Ok(name.map(str::to_owned))
    }

    /// As [`Self::write`], for a profile of another program.
    pub(super) fn write_profile(&self, result: &ProbeResult, title: &str, ui: &Ui) -> Result<Vec<String>, Failure> {
        let mut written = Vec::new();
        let formats = match self {
            Self::Stdout(format) | Self::File(.., format) => std::slice::from_ref(format),
            Self::Folder(_, formats) => formats,
            Self::Terminal => &[],
        };
        for format in formats {
            let text = match format {
                Format::Html => report::profile_html(result, title)?.whole(),
                Format::Md => report::profile_markdown(result, title).whole(),
                Format::Json => report::result_json(result)?.whole(),
                Format::Rows | Format::Perfetto | Format::Otlp => {
                    let name = format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                    let message = format!("--format {name} is for recordings, and this is a profile");
                    return Err(Failure::usage(message, Some("--format json has all that is in it")));
                }
                Format::Folded | Format::Svg | Format::Speedscope => continue,
            };
            match self {
                Self::Folder(folder, _) => {
                    folder.save(format.file(), &text)?;
                    written.push(format.file().to_owned());
                }
                Self::File(folder, name, _) => {
                    folder.save(name, &text)?;
                    written.push(name.clone());
                }
                _ => {
                    ui.print(&text)?;
                    return Ok(written);
                }
            }
        }
        written.extend(stacks::write(&stacks::of_result(result), self, ui)?);
        Ok(written)
    }

    /// Writes the recording into the folder. It goes first, since it is what cannot be made again. Where one format goes to stdout nothing
    /// is to be left on the disk, so there whatever ends rdiag before it has printed takes all of it.
    pub(super) fn keep(&self, recording: &Recording) -> Result<(), Failure> {
        let Self::Folder(OutputFolder::Own(folder), _) = self else { return Ok(()) };
        let name = Path::new("recording.json.gz");
        folder
            .write(name, |file| write_recording(recording, file))
            .map_err(Failure::io(format!("writing {}", folder.path().join(name).display())))
    }

    /// Whether the recording is kept beside the reports.
    pub(super) fn keeps(&self) -> bool {
        matches!(self, Self::Folder(..))
    }

    /// Where the files are: the page first, since that is what one opens.
    pub(super) fn told(&self, names: &[String]) -> Option<Text> {
        let (Self::Folder(folder, _) | Self::File(folder, ..)) = self else { return None };
        let folder = Text::seen(folder.path().display().to_string().trim_end_matches('/'));
        let (first, others) = names.split_first()?;
        let others = if others.is_empty() { String::new() } else { format!(" (and {})", others.join(", ")) };
        Some(shown!("Written: {}/{}{}", folder, Text::seen(first), Text::seen(others)))
    }
}

/// A value as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<Shown<Json>, Failure> {
    report::shown::json(value).map_err(|error| Failure::io("writing JSON")(error.into()))
}

/// A value as one line of JSON.
pub(super) fn line(value: &impl serde::Serialize) -> Result<Shown<Json>, Failure> {
    report::shown::json_line(value).map_err(|error| Failure::io("writing JSON")(error.into()))
}

/// Writes a recording.
pub(super) fn save_recording(path: &Path, recording: &Recording) -> Result<(), Failure> {
    files::write_atomically(path, |file| write_recording(recording, file))
        .map_err(Failure::io(format!("writing {}", path.display())))
}
