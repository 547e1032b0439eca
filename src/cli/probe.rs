//! `rdiag probe`: one measurement inside the kernel as a tool.

mod request;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::ValueEnum;

pub(super) use self::request::checked;
use self::request::{Action, check_names};
use super::command::Command;
use super::root::open_host;
use super::screen::TalkArgs;
use super::signals::stop_on_signal;
use super::ui::{Text, Ui};
use super::{output, points, stacks};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::rights::{self, Phase};
use rdiag_kernel::mechanism::tracefs::private;
use rdiag_model::quantity::percent;
use rdiag_probes as probes;
use rdiag_report::live::Live;
use rdiag_report::probe as text;
use rdiag_report::shown;
use rdiag_report::shown::json_line;
use rdiag_session as session;
use rdiag_session::ProbeEnd;

/// The word in the place of a probe that asks what there is to look at.
const LIST: &str = "list";

/// Run one probe inside the kernel, until --duration is over, the command ends, or Ctrl-C.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the probe (`rdiag list probes`); or `list`, to see what a name stands for.
    #[arg(value_name = "PROBE")]
    name: String,
    /// With `list`: a function or tracepoint, as tcp_sendmsg, 'vfs_*', kmem:kmalloc, libc:malloc or 'python3:python:*'.
    #[arg(value_name = "POINT")]
    point: Option<String>,
    /// How long: 500ms, 10s, 2m. Until Ctrl-C if not given.
    #[arg(long, short, value_name = "TIME")]
    duration: Option<String>,
    /// Print a result after each such time, and start again from zero.
    #[arg(long, short, value_name = "TIME")]
    interval: Option<String>,
    /// Only these processes.
    #[arg(long, short, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Only tasks with exactly this name.
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// Only tasks in this control group or below.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Have Java processes (those of --pid, or all) write the names of their compiled functions first, as `jcmd PID Compiler.perfmap` does:
    /// JDK 17 and later. It stops their threads for some milliseconds, and leaves the file /tmp/perf-PID.map.
    #[arg(long, conflicts_with = "command")]
    ask_runtime: bool,
    /// How many rows tables show.
    #[arg(long, value_name = "N")]
    top: Option<String>,
    /// Only what takes longer than this.
    #[arg(long, value_name = "TIME")]
    threshold: Option<String>,
    /// Only this function.
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// So many levels of calls.
    #[arg(long, value_name = "N")]
    depth: Option<String>,
    /// Set a parameter of the probe (`rdiag explain PROBE` lists them).
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// The share of all CPUs' time that the probe's programs may take before they are stopped.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    budget: String,
    /// How results are shown; json prints one document per line and reading.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    talk: TalkArgs,
    /// Run the COMMAND as this user. By default it runs as the user who ran sudo, or else as the user who runs rdiag.
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,
    /// Start this command and measure it, with all that it starts, from its first instruction to its end, and nothing else.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "pid")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// One line per stack, for programs that draw flame graphs; times in microseconds. Only for probes with stacks.
    Folded,
    /// A flame graph. Only for probes with stacks.
    Svg,
    /// A profile for speedscope. Only for probes with stacks.
    Speedscope,
}

impl Format {
    /// The format of files that are made of stacks; none for the others.
    fn of_stacks(self) -> Option<output::Format> {
        match self {
            Self::Text | Self::Json => None,
            Self::Folded => Some(output::Format::Folded),
            Self::Svg => Some(output::Format::Svg),
            Self::Speedscope => Some(output::Format::Speedscope),
        }
    }
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let ui = &args.talk.ui(ui);
    let (def, mut request) = match checked(args)? {
        Action::List(point) => return points::main(point, args.format == Format::Json, ui),
        Action::Run(def, request) => (def, request),
    };
    let host = Arc::new(open_host(Path::new("/"))?);
    // A command is to live where the host's mounts are.
    if args.command.is_empty() {
        private::mount_for_itself(&host);
    }
    check_names(&host, def, &request)?;
    super::task::lives(&host, &request.pids)?;
    request.cgroup = request.cgroup.map(|path| super::task::group_named(&path, &host)).transpose()?;
    if let Some(comm) = request.comm.as_deref()
        && let Some(names) = session::names_unless_there(&host, comm)
    {
        // A probe may well start before the tasks that it waits for. What can never be a name, or nearly matches that of a task, is a
        // mistake.
        super::task::mistyped(comm, &names)?;
        ui.warn(shown!("no task is named {} now; those that start later are seen", Text::seen(comm)));
    }
    probes::check_point(&host, def, &request.params, &request.pids).or_else(points::wrong_point)?;
    let stop = stop_on_signal()?;
    let mut command = match args.command.as_slice() {
        [] => None,
        words => Some(Command::start(words, 1, args.user.as_deref(), &stop, ui)?),
    };
    if let Some(command) = &command {
        request.pids = vec![command.pid()];
        request.command = Some(command.words().to_owned());
        request.watch = Some(command.watch());
    }
    if args.ask_runtime {
        super::task::ask_runtimes(&host, &request.pids, ui);
    }
    // The command has been started with all that rdiag had.
    rights::narrow(Phase::Attaching(session::PROBING));
    let style = ui.style();
    let mut live = Live::default();
    let mut ready = |_: f64| {
        let until = match (request.duration, &mut command) {
            (None, None) => Text::of("Ctrl-C ends it"),
            (None, Some(_)) => Text::of("until the command ends"),
            (Some(seconds), _) => shown!("for {} s", seconds),
        };
        ui.note(shown!("{}: measuring; {}", def.id, until));
        if args.talk.is_verbose() {
            ui.note(shown!("  {}", def.question));
            for (name, value) in request.params.all().iter().filter(|(_, value)| !value.is_empty()) {
                ui.note(shown!("  {}={}", Text::seen(name), Text::seen(value)));
            }
            if !def.caveats.is_empty() {
                ui.note(shown!("  {}", def.caveats));
            }
        }
        if let Some(command) = &mut command {
            command.let_go();
        }
    };
    let mut has_told = !args.talk.is_verbose();
    let mut each = |result: &rdiag_model::ProbeResult| -> io::Result<()> {
        if !std::mem::replace(&mut has_told, true) {
            for at in result.attached.iter().filter(|at| !at.refused.is_empty()) {
                let [event, way, why] = [&at.event, &at.back_end, &at.refused.join("; ")].map(Text::seen);
                ui.note(shown!("  {} by {}, because of {}", event, way, why));
            }
        }
        let shown = match args.format {
            Format::Json => json_line(result).map_err(io::Error::other)?.whole(),
            Format::Text if def.streams => live.events(result, &style).whole(),
            Format::Text if request.interval.is_some() => text::interval_text(result, &style).whole(),
            Format::Text => text::text(result, &style).whole(),
            Format::Folded | Format::Svg | Format::Speedscope => {
                let lost = result.lost.iter();
                let lost = lost.map(|(reason, count)| shown!("lost {} events: {}", *count, Text::seen(reason)));
                lost.chain(result.notes.iter().map(Text::seen)).for_each(|note| ui.note(note));
                let format = args.format.of_stacks().unwrap_or(output::Format::Folded);
                let named = stacks::of_result(result);
                let text = named.first().map(|named| stacks::render(&named.stacks, format));
                text.transpose().map_err(io::Error::other)?.unwrap_or_default()
            }
        };
        ui.print(&shown).map_err(io::Error::other)
    };
    match session::probe(&host, &request, &stop, &mut ready, &mut each) {
        end @ (ProbeEnd::Done | ProbeEnd::OverBudget) => {
            if args.format == Format::Text && def.streams {
                ui.print(&live.end())?;
            }
            let ended = command.as_ref().map(|command| command.settle(ui)).transpose()?.flatten();
            let failed = command.zip(ended.as_ref()).and_then(|(command, ended)| command.passes_on(ended));
            if matches!(end, ProbeEnd::OverBudget) {
                ui.warn(shown!(
                    "{} was stopped by its budget ({}); a larger --budget lets it go on",
                    def.id,
                    Text::seen(percent(request.budget))
                ));
                return Ok(failed.unwrap_or(Exit::OverBudget));
            }
            if let Some(failed) = failed {
                return Ok(failed);
            }
            let is_interrupted = ended.is_none() && stop.load(Ordering::Relaxed) && request.duration.is_some();
            Ok(if is_interrupted { Exit::Interrupted } else { Exit::Done })
        }
        ProbeEnd::Output(error) => Err(Failure::io("writing results")(error)),
        ProbeEnd::Failed(gap) => Err(Failure::Unavailable { what: def.id.to_owned(), gap }),
    }
}
