//! `rdiag baseline`: recordings of normal times under a name, to compare a later one with.
//!
//! What is kept are the recordings themselves, so that they are read by the rules of the rdiag that compares.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::confined::confined;
use super::input::Input;
use super::output::json;
use super::state;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::files::Folder;
use rdiag_model::Metrics;
use rdiag_model::quantity::{self, bytes};
use rdiag_model::report::Usual;
use rdiag_report::{self as report, shown};
use rdiag_session as session;
use rdiag_session::{Sources, StoreError};

/// Bytes of a recording, and recordings of a baseline.
const MAX_FILE: u64 = 64 << 20;
const MOST: usize = 50;
/// Bytes of all of them: they are held packed, since the process that reads them cannot open them.
const MAX_ALL: u64 = 256 << 20;
/// Longest name.
const LONGEST: usize = 64;
/// Intervals of the recording that is compared: from fewer, a median says little.
const LEAST: usize = 5;
/// Figures that are shown.
const SHOWN: usize = 20;
/// How the name of a kept file ends.
const ENDING: &str = ".recording";

/// Keep recordings of normal times under a name, and compare a later one with them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A figure is unlike the baseline if its median differs by 4 spreads or more; the spread is the median absolute difference \
        of the baseline's \
intervals (times 1.48), and at least a tenth of the figure. This ranks and explains, and no finding rests on it.

Exit codes: 0 done, whatever differs; 2 wrong usage, no such baseline, or recordings that cannot be compared; 3 `list` found none; 4 a \
failure while \
running."
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Folder of the baselines [default: /var/lib/rdiag/baselines as root, else ~/.local/state/rdiag/baselines].
    #[arg(long, value_name = "DIR", global = true)]
    baselines: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep recordings of one host: of several, what varies between them counts as usual.
    Save {
        /// Its name: letters, digits, `-`, `_` and `.`.
        name: String,
        /// Recordings, or folders of runs: `rdiag record use-method -d 60s`, `rdiag history export --at 03:12`.
        #[arg(required = true, value_name = "RECORDING")]
        recordings: Vec<PathBuf>,
    },
    /// The baselines that there are.
    List,
    /// Delete one.
    Remove {
        /// Its name.
        name: String,
    },
    /// The figures of a recording that are unlike the baseline, the furthest first.
    Compare {
        /// Its name.
        name: String,
        /// A recording, the folder of a run, or `-` for stdin.
        #[arg(value_name = "RECORDING")]
        recording: PathBuf,
        /// Compare another kernel, other hardware or another interval, too.
        #[arg(long)]
        anyway: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let place = state::folder(args.baselines.as_ref(), "baselines")?;
    match &args.command {
        Command::Save { name, recordings } => save(&place, valid(name)?, recordings, ui),
        Command::List => list(&place, ui),
        Command::Remove { name } => remove(&place, valid(name)?, ui),
        Command::Compare { name, recording, anyway, json } => {
            compare(&place, valid(name)?, recording, *anyway, *json, ui)
        }
    }
}

/// A name that is safe as the beginning of one of a file.
fn valid(name: &str) -> Result<&str, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.len() <= LONGEST && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain) {
        return Ok(name);
    }
    let hint = "letters, digits, - _ and . are allowed, beginning with a letter or digit";
    Err(Failure::usage(format!("{name:?} is no name of a baseline"), Some(hint)))
}

/// The baseline that a kept file belongs to.
fn baseline_of(file: &str) -> Option<&str> {
    let (name, number) = file.strip_suffix(ENDING)?.rsplit_once('.')?;
    number.parse::<usize>().ok().map(|_| name)
}

fn opened(place: &Path) -> Result<Folder, Failure> {
    Folder::kept(place).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(
            format!("there is no baseline in {}", place.display()),
            Some("`rdiag baseline save NAME RECORDING` keeps one"),
        ),
        _ => Failure::Io { attempt: format!("opening the baselines in {}", place.display()), source },
    })
}

/// The files of all baselines, or of one, which must be there.
fn files(folder: &Folder, name: Option<&str>) -> Result<Vec<(String, u64)>, Failure> {
    let all = folder.list().map_err(Failure::io(format!("listing {}", folder.path().display())))?;
    let files: Vec<(String, u64)> = all
        .into_iter()
        .filter(|file| baseline_of(&file.name).is_some_and(|own| name.is_none_or(|name| name == own)))
        .map(|file| (file.name, file.bytes))
        .collect();
    match name {
        Some(name) if files.is_empty() => {
            Err(Failure::usage(format!("there is no baseline {name}"), Some("`rdiag baseline list` names them")))
        }
        _ => Ok(files),
    }
}

fn save(place: &Path, name: &str, recordings: &[PathBuf], ui: &Ui) -> Result<Exit, Failure> {
    if recordings.len() > MOST {
        return Err(Failure::usage(format!("a baseline holds at most {MOST} recordings"), None));
    }
    let open = |path: &PathBuf| {
        Input::open(path, &["recording.json.gz"]).and_then(|input| {
            let bytes = input.bytes(MAX_FILE)?;
            Ok((input, bytes))
        })
    };
    let inputs = recordings.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    // The same twice would make its figures look steadier than they are.
    if let Some((_, (twin, _))) =
        inputs.iter().enumerate().find(|(at, (_, own))| inputs.iter().take(*at).any(|(_, before)| before == own))
    {
        return Err(Failure::usage(format!("{} is the same recording as one before it", twin.name), None));
    }
    let size: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
    within(u64::try_from(size).unwrap_or(u64::MAX))?;
    let folder = Folder::keeping(place).map_err(Failure::io(format!("preparing {}", place.display())))?;
    if files(&folder, None)?.iter().any(|(file, _)| baseline_of(file) == Some(name)) {
        let hint = format!("`rdiag baseline remove {name}` deletes it");
        return Err(Failure::usage(format!("there is a baseline {name} already"), Some(&hint)));
    }
    let sources = session::sources_for(None)?;
    confined(ui, Some(&folder), |desk| {
        let (mut first, mut intervals) = (None, 0);
        // One at a time is held.
        for (input, bytes) in &inputs {
            let (own, metrics) = understood(bytes, &sources, |source| input.foreign(bytes, source))?;
            let differs = differences(&own, first.get_or_insert_with(|| own.clone())).pop();
            if let Some(differs) = differs {
                let message = format!("the recordings are of different conditions: {differs} ({})", own.started);
                return Err(Failure::usage(message, Some("keep them under two names")));
            }
            intervals += metrics.intervals;
        }
        if intervals < session::SAMPLES {
            let message =
                format!("{intervals} intervals say little about what varies; {} are needed", session::SAMPLES);
            return Err(Failure::usage(message, Some("record for longer (-d 60s), or give several recordings")));
        }
        let count = recordings_of(inputs.len());
        for (at, (_, bytes)) in inputs.iter().enumerate() {
            let file = format!("{name}.{at}{ENDING}");
            let attempt = format!("writing {}", place.join(&file).display());
            desk.put(&file, bytes).map_err(Failure::io(attempt))?;
        }
        ui.note(shown!("{}: {} with {} intervals", Text::seen(name), Text::seen(count), intervals));
        Ok(Exit::Done)
    })
}

fn list(place: &Path, ui: &Ui) -> Result<Exit, Failure> {
    let files = match Folder::kept(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        _ => files(&opened(place)?, None)?,
    };
    let mut sums: std::collections::BTreeMap<&str, (usize, u64)> = std::collections::BTreeMap::new();
    for (file, size) in &files {
        let (count, sum) = sums.entry(baseline_of(file).unwrap_or_default()).or_default();
        (*count, *sum) = (*count + 1, *sum + size);
    }
    let mut text = Text::new();
    for (name, (count, sum)) in &sums {
        let count = recordings_of(*count);
        text.push(shown!("{}  {}, {}\n", Text::seen(*name), Text::seen(count), Text::seen(bytes(*sum as f64))));
    }
    if sums.is_empty() {
        ui.note(shown!(
            "There is none in {}: `rdiag baseline save NAME RECORDING` keeps one.",
            Text::seen(place.display().to_string())
        ));
    }
    ui.print(&text)?;
    Ok(if sums.is_empty() { Exit::Nothing } else { Exit::Done })
}

fn remove(place: &Path, name: &str, ui: &Ui) -> Result<Exit, Failure> {
    let folder = opened(place)?;
    for (file, _) in files(&folder, Some(name))? {
        folder.remove(&file).map_err(Failure::io(format!("removing {}", place.join(&file).display())))?;
    }
    ui.note(shown!("{} is removed", Text::seen(name)));
    Ok(Exit::Done)
}

fn compare(place: &Path, name: &str, path: &Path, anyway: bool, as_json: bool, ui: &Ui) -> Result<Exit, Failure> {
    let folder = opened(place)?;
    let read = |(file, _): (String, u64)| {
        let attempt = format!("reading {}", place.join(&file).display());
        folder.read(&file, MAX_FILE).map_err(Failure::io(attempt)).map(|bytes| (file, bytes))
    };
    let files = files(&folder, Some(name))?;
    within(files.iter().fold(0, |sum, (_, size)| sum.saturating_add(*size)))?;
    let kept = files.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let input = Input::open(path, &["recording.json.gz"])?;
    let sources = session::sources_for(None)?;
    confined(ui, None, |_| {
        let bytes = input.bytes(MAX_FILE)?;
        let (now, own) = understood(&bytes, &sources, |source| input.foreign(&bytes, source))?;
        drop(bytes);
        // One at a time is held, and of those before it what is compared.
        let mut then = Vec::new();
        for (path, bytes) in kept {
            let (conditions, metrics) =
                understood(&bytes, &sources, |source| Failure::Recording { path: path.clone(), source })?;
            if then.is_empty() {
                let differ = differences(&now, &conditions);
                if !differ.is_empty() && !anyway {
                    let message = format!("the baseline {name} is of other conditions: {}", differ.join("; "));
                    return Err(Failure::usage(message, Some("--anyway compares them all the same")));
                }
                differ.iter().for_each(|one| ui.note(shown!("other conditions: {}", Text::seen(one))));
            }
            then.push(session::comparable(metrics, &own));
        }
        let all: Vec<&Metrics> = then.iter().collect();
        let (compared, unlike) = session::unlike(&own, &all, LEAST, SHOWN);
        if compared == 0 {
            let message = format!("nothing can be compared: {} has fewer than {LEAST} intervals", input.name);
            return Err(Failure::usage(message, Some("record for longer")));
        }
        let intervals: usize = all.iter().map(|metrics| metrics.intervals).sum();
        let count = recordings_of(then.len());
        let span = format!("{count}, {intervals} intervals");
        let usual = Usual { name: format!("baseline {name}"), span, compared, unlike };
        if as_json {
            ui.print(&json(&usual)?)?
        } else {
            ui.print(&report::compared(&usual, &ui.style()))?
        };
        Ok(Exit::Done)
    })
}

fn recordings_of(count: usize) -> String {
    format!("{count} recording{}", if count == 1 { "" } else { "s" })
}

/// Refuses more bytes than are held.
fn within(bytes: u64) -> Result<(), Failure> {
    let hint = "keep fewer of them, or shorter ones";
    let message = || format!("the recordings of a baseline are larger than {} MiB together", MAX_ALL >> 20);
    if bytes > MAX_ALL { Err(Failure::usage(message(), Some(hint))) } else { Ok(()) }
}

/// What changes figures by itself.
#[derive(Debug, Clone)]
struct Conditions {
    hostname: String,
    kernel: String,
    cpus: String,
    memory: String,
    interval_seconds: f64,
    started: String,
}

/// A recording's conditions, and the figures of its first window, which no drill-down disturbs.
fn understood(
    bytes: &[u8],
    sources: &Sources,
    foreign: impl FnOnce(StoreError) -> Failure,
) -> Result<(Conditions, Metrics), Failure> {
    let recording = session::read_recording(bytes).map_err(foreign)?;
    let plan = session::resolve_recorded(&recording.playbook, sources)?.plan_of(&recording)?;
    let metrics = session::analyze(&recording, &plan).metrics.into_iter().next().unwrap_or_default();
    let interval_seconds = recording.windows.first().map_or(0.0, |window| window.interval_seconds);
    let (host, started) = (recording.host, recording.started);
    let (cpus, memory) = (host.cpus.to_string(), quantity::bytes(host.memory_bytes as f64));
    Ok((Conditions { hostname: host.hostname, kernel: host.kernel, cpus, memory, interval_seconds, started }, metrics))
}

/// In what two recordings differ.
fn differences(now: &Conditions, then: &Conditions) -> Vec<String> {
    let is_interval = (now.interval_seconds - then.interval_seconds).abs() < 1e-3;
    let [every_now, every_then] = [now, then].map(|of| quantity::seconds(of.interval_seconds));
    let differ = [
        (now.hostname != then.hostname, "host", &now.hostname, &then.hostname),
        (now.kernel != then.kernel, "kernel", &now.kernel, &then.kernel),
        (now.cpus != then.cpus, "CPUs", &now.cpus, &then.cpus),
        (now.memory != then.memory, "memory", &now.memory, &then.memory),
        (!is_interval, "interval", &every_now, &every_then),
    ];
    let told = |(_, what, now, then): (bool, &str, &String, &String)| format!("{what} {now}, in the baseline {then}");
    differ.into_iter().filter(|one| one.0).map(told).collect()
}
