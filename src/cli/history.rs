//! `rdiag history`: what the recorder kept.

use std::path::PathBuf;

use clap::Subcommand;

use super::at::{Asked, PLAYBOOK, plan_of};
use super::confined::confined;
use super::history_folder;
use super::incidents::Found;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_history::{Header, header_of};
use rdiag_kernel::host::Zone;
use rdiag_model::{Metrics, Reading, quantity};
use rdiag_report::shown;
use rdiag_session as session;
use rdiag_session::{TAIL, begins, write_recording};

/// Show what `rdiag watch` recorded: which times and incidents, the course of a time, or all of it as a recording.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 done; 2 wrong usage, nothing was recorded at that time, or there is no history; 3 nothing whole is there \
        yet, or nothing \
of it can be shown; 4 a failure while running."
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The times that were recorded, what recording cost, and the incidents: when, what was seen, and the recording of the drill-down.
    List {
        /// Folder of what was recorded [default: that of `rdiag watch`].
        #[arg(long, value_name = "DIR")]
        history: Option<PathBuf>,
    },
    /// The course of a time: CPU, pressure, memory, and the busiest process.
    Show(Time),
    /// Write a time as a recording to stdout, for `rdiag analyze`: `rdiag history export --at 03:12 > recording.json.gz`.
    Export(Time),
}

/// Which time.
#[derive(Debug, clap::Args)]
struct Time {
    /// Its end: 03:12, "yesterday 23:50", 2026-01-31T03:12, -2h, now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "now")]
    at: String,
    /// Its length [default: 10m].
    #[arg(long, value_name = "TIME")]
    last: Option<String>,
    /// Folder of what was recorded [default: that of `rdiag watch`].
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
}

/// A header is shorter.
const HEADER: u64 = 64 << 10;

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    match &args.command {
        Command::List { history } => list(history.as_ref(), ui),
        Command::Show(time) => show(time, ui),
        Command::Export(time) => export(time, ui),
    }
}

/// A stretch of blocks between which nothing is missing.
struct Stretch {
    from: i64,
    to: i64,
    last: Header,
    blocks: usize,
    bytes: u64,
    cpu_seconds: f64,
    seconds: f64,
}

fn list(history: Option<&PathBuf>, ui: &Ui) -> Result<Exit, Failure> {
    let folder = history_folder::open(&history_folder::place(history)?)?;
    let listing = || format!("listing the history in {}", folder.path().display());
    let all = folder.list().map_err(Failure::io(listing()))?;
    let incidents = Found::read(&folder, &all);
    let mut starts = Vec::new();
    for file in all.into_iter().filter(|file| file.name == TAIL || begins(&file.name).is_some()) {
        let start = folder.read_start(&file.name, HEADER).unwrap_or_default();
        starts.push((file, start));
    }
    starts.sort_by(|a, b| (a.0.name == TAIL, &a.0.name).cmp(&(b.0.name == TAIL, &b.0.name)));
    let zone = Zone::local();
    confined(ui, None, |_| {
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut text = Text::new();
        for (file, start) in &starts {
            match header_of(start) {
                Ok(_) if file.name == TAIL => {}
                Ok(header) => add(&mut stretches, header, file.bytes),
                Err(why) => text.push(&shown!("{}: {}\n", Text::seen(&file.name), Text::seen(why))),
            }
        }
        if stretches.is_empty() && text.is_empty() {
            ui.note(match starts.is_empty() {
                true => "Nothing was recorded here; `rdiag watch` records.",
                false => "Nothing whole is there yet: the first block ends ten minutes after the recorder began.",
            });
        }
        for stretch in &stretches {
            text.push(line(stretch, &zone));
        }
        text.push(incidents.lines(folder.path(), &zone));
        ui.print(&text)?;
        Ok(if stretches.is_empty() { Exit::Nothing } else { Exit::Done })
    })
}

fn add(stretches: &mut Vec<Stretch>, header: Header, bytes: u64) {
    let (from, to) = (header.wall_micros, header.wall_micros.saturating_add((header.seconds * 1e6) as i64));
    let gap = |last: &Stretch| from.saturating_sub(last.to) as f64 * 1e-6;
    let goes_on = |last: &&mut Stretch| {
        let is_alike = (last.last.boot.as_str(), last.last.interval_seconds) == (&header.boot, header.interval_seconds);
        is_alike && (0.0..2.5 * header.recorded_interval()).contains(&gap(last))
    };
    match stretches.last_mut().filter(goes_on) {
        Some(last) => {
            (last.to, last.blocks, last.bytes) = (to, last.blocks + 1, last.bytes + bytes);
            last.cpu_seconds += header.cost.cpu_seconds;
            last.seconds += header.seconds;
            last.last = header;
        }
        None => stretches.push(Stretch {
            from,
            to,
            blocks: 1,
            bytes,
            cpu_seconds: header.cost.cpu_seconds,
            seconds: header.seconds,
            last: header,
        }),
    }
}

fn line(stretch: &Stretch, zone: &Zone) -> Text {
    let header = &stretch.last;
    let share = (stretch.seconds >= 1.0).then(|| quantity::percent(stretch.cpu_seconds / stretch.seconds));
    let mut interval = session::interval(header.interval_seconds);
    if let Some(recorded) = header.recorded_every {
        interval.push_str(&format!(", thinned from {}", session::interval(recorded)));
    }
    let texts = [
        zone.shown(stretch.from),
        zone.shown(stretch.to),
        interval,
        quantity::bytes(stretch.bytes as f64),
        share.unwrap_or_else(|| format!("{} s", quantity::number(stretch.cpu_seconds))),
        quantity::bytes(header.cost.resident_bytes as f64),
    ];
    let [from, to, interval, bytes, cpu, memory] = texts.map(Text::seen);
    let mut line = shown!(
        "{} to {}  every {}  {} in {} {}  recording took {} of a CPU, {}",
        from,
        to,
        interval,
        bytes,
        stretch.blocks,
        if stretch.blocks == 1 { "block" } else { "blocks" },
        cpu,
        memory
    );
    for (id, times) in &header.stretched {
        line.push(&shown!("; {} {} times less often", Text::seen(id), *times));
    }
    line.push("\n");
    line
}

fn export(time: &Time, ui: &Ui) -> Result<Exit, Failure> {
    if ui.is_terminal() {
        let message = "a recording is no text, and stdout is a terminal".to_owned();
        return Err(Failure::usage(message, Some("send it to a file (> recording.json.gz) or to `rdiag analyze -`")));
    }
    let plan = plan_of(&session::resolve(PLAYBOOK)?)?;
    let asked = Asked::new(&time.at, time.last.as_deref(), time.history.as_ref(), ui)?;
    confined(ui, None, |_| {
        let past = asked.past(&plan)?;
        past.notes.iter().for_each(|note| ui.note(Text::seen(note)));
        ui.pour(|out| write_recording(&past.recording, out))?;
        Ok(Exit::Done)
    })
}

/// Rows of the course of a time.
const ROWS: usize = 24;

/// What the course shows: its heading, the metric, and how it is written.
type Column = (&'static str, &'static str, fn(f64) -> String);
const COLUMNS: [Column; 6] = [
    ("CPU busy", "cpu.busy.ratio", quantity::percent),
    ("PSI cpu", "psi.cpu.some.ratio", quantity::percent),
    ("PSI io", "psi.io.some.ratio", quantity::percent),
    ("PSI mem", "psi.memory.some.ratio", quantity::percent),
    ("run queue", "cpu.runnable.count", quantity::number),
    ("available", "memory.available.bytes", quantity::bytes),
];

fn show(time: &Time, ui: &Ui) -> Result<Exit, Failure> {
    let plan = plan_of(&session::resolve(PLAYBOOK)?)?;
    let asked = Asked::new(&time.at, time.last.as_deref(), time.history.as_ref(), ui)?;
    confined(ui, None, |_| {
        let past = asked.past(&plan)?;
        past.notes.iter().chain(&asked.looked_into()).for_each(|note| ui.note(Text::seen(note)));
        let analysis = session::analyze(&past.recording, &plan);
        let Some(metrics) = analysis.metrics.first() else { return Ok(Exit::Nothing) };
        ui.print(&course(metrics, past.began, &asked.zone))?;
        Ok(Exit::Done)
    })
}

/// A row for each part of the time.
fn course(metrics: &Metrics, began: i64, zone: &Zone) -> Text {
    let intervals = metrics.intervals.max(1);
    let rows = intervals.min(ROWS);
    let mut text = shown!("{:<10}", "");
    for (heading, ..) in COLUMNS {
        text.push(&shown!("{:>11}", heading));
    }
    text.push("  busiest process\n");
    for row in 0..rows {
        let part = row * intervals / rows..(row + 1) * intervals / rows;
        let seconds = part.start as f64 / intervals as f64 * metrics.seconds;
        let at = zone.time_of_day(began.saturating_add((seconds * 1e6) as i64));
        text.push(&shown!("{:<10}", &Text::seen(at)));
        for (_, metric, written) in COLUMNS {
            let mean = metrics.measured(metric, "").and_then(|stats| mean(&stats.intervals, part.clone()));
            let cell = mean.map_or_else(|| Text::of("-"), |mean| Text::seen(written(mean)));
            text.push(&shown!("{:>11}", &cell));
        }
        let busiest = busiest(metrics, part.clone()).map_or_else(Text::new, |name| shown!("  {}", Text::seen(name)));
        text.push(&busiest);
        text.push("\n");
    }
    text
}

fn mean(values: &[Option<f64>], part: std::ops::Range<usize>) -> Option<f64> {
    let known: Vec<f64> = values.get(part)?.iter().flatten().copied().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The process that used most CPU time in a part of the time, and how much of one CPU.
fn busiest(metrics: &Metrics, part: std::ops::Range<usize>) -> Option<String> {
    const METRIC: &str = "process.cpu.seconds";
    let Some(Reading::Measured { instances, .. }) = metrics.readings.get(METRIC) else { return None };
    let of = |instance: &String| -> Option<f64> {
        mean(&instances.get(instance)?.as_ref().ok()?.intervals, part.clone()).filter(|mean| *mean > 0.0)
    };
    let busiest = instances
        .keys()
        .filter(|name| !name.starts_with('('))
        .max_by(|a, b| of(a).unwrap_or(0.0).total_cmp(&of(b).unwrap_or(0.0)))?;
    let seconds = of(busiest)?;
    let interval = metrics.seconds / metrics.intervals.max(1) as f64;
    let labels = metrics.labels.get("process")?.get(busiest);
    let name = labels.and_then(|labels| labels.get("name")).unwrap_or(busiest);
    Some(format!("{name} ({} of a CPU)", quantity::percent(seconds / interval)))
}
