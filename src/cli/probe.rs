//! `rdiag probe`: one measurement inside the kernel as a tool.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::ValueEnum;

use super::command::Command;
use super::root::open_host;
use super::screen::TalkArgs;
use super::signals::stop_on_signal;
use super::ui::{Text, Ui};
use super::{Exit, Failure, output, params, points, stacks, tools};
use crate::playbook::suggest::did_you_mean;
use crate::report::live::Live;
use crate::report::probe as text;
use crate::report::shown::json_line;
use crate::session::{self, ProbeEnd, ProbeRequest};
use crate::shown;
use rdiag_kernel::host::rights::{self, Phase};
use rdiag_kernel::mechanism::ebpf::filter::MAX_PIDS;
use rdiag_kernel::mechanism::perf::select as events;
use rdiag_kernel::mechanism::perf::select::EventError;
use rdiag_kernel::mechanism::points::PointError;
use rdiag_kernel::mechanism::tracefs::trigger::Condition;
use rdiag_kernel::mechanism::tracefs::{functions, private, select as tracepoints};
use rdiag_model::Reason;
use rdiag_model::quantity::percent;
use rdiag_probes::{self as probes, FilterKind, GivesStacks, ParamKind, Params, ProbeDef};

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

/// What was asked for.
pub(super) enum Asked<'a> {
    /// What a name stands for.
    List(&'a str),
    /// To run a probe.
    Run(&'static ProbeDef, ProbeRequest),
}

/// What was asked for, with everything about it that can be wrong without the machine.
pub(super) fn checked(args: &Args) -> Result<Asked<'_>, Failure> {
    match &args.point {
        Some(point) if args.name == LIST && !point.is_empty() => {
            if args.format.of_stacks().is_some() {
                return Err(Failure::usage("a list has no stacks".into(), Some("take --format text or json")));
            }
            return Ok(Asked::List(point));
        }
        Some(point) if args.name != LIST => {
            let hint = "what a probe looks at is given with --param, as `rdiag explain PROBE` says";
            return Err(Failure::usage(format!("{:?} after the probe's name means nothing", point), Some(hint)));
        }
        _ if args.name == LIST => {
            let hint =
                "`rdiag probe list tcp_sendmsg`, 'vfs_*', kmem:kmalloc, libc:malloc; `rdiag list probes` lists probes";
            return Err(Failure::usage("say what to list".into(), Some(hint)));
        }
        _ => {}
    }
    let Some(def) = probes::find(&args.name) else {
        let hint = match tools::map().named(&args.name) {
            Some(_) => Some(format!("`rdiag explain {}` says what stands for it here", args.name)),
            None => did_you_mean(&args.name, probes::ALL.iter().map(|def| def.id)),
        };
        let hint = hint.or_else(|| Some("`rdiag list probes` shows them".into()));
        return Err(Failure::Usage { message: format!("there is no probe named {:?}", args.name), hint });
    };
    Ok(Asked::Run(def, request(def, args)?))
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let ui = &args.talk.ui(ui);
    let (def, mut request) = match checked(args)? {
        Asked::List(point) => return points::main(point, args.format == Format::Json, ui),
        Asked::Run(def, request) => (def, request),
    };
    let host = Arc::new(open_host(Path::new("/"))?);
    // A command is to live where the host's mounts are.
    if args.command.is_empty() {
        private::mount_for_itself(&host);
    }
    for param in def.params {
        let list = request.params.text(param.name).unwrap_or_default();
        match param.kind {
            ParamKind::Events => events::check(&host, list).map_err(wrong_events)?,
            ParamKind::Tracepoints => tracepoints::check(&host, list).map_err(wrong_tracepoints)?,
            ParamKind::KernelFunctions => functions::check(&host, list).map_err(wrong_function)?,
            ParamKind::Condition => match Condition::parse(list) {
                Ok(condition) if condition.event().is_some() => {
                    tracepoints::check(&host, &condition.point).map_err(wrong_tracepoints)?;
                }
                Ok(condition) => functions::check(&host, &condition.point).map_err(wrong_function)?,
                // Nothing is waited for.
                Err(_) => {}
            },
            _ => {}
        }
    }
    super::task::lives(&host, &request.pids)?;
    if let Some(comm) = request.comm.as_deref()
        && let Some(names) = session::names_unless_there(&host, comm)
    {
        // A probe may well start before the tasks that it waits for. What can never be a name, or nearly matches that of a task, is a mistake.
        super::task::mistyped(comm, &names)?;
        ui.warn(shown!("no task is named {} now; those that start later are seen", Text::seen(comm)));
    }
    probes::check_point(&host, def, &request.params, &request.pids).or_else(wrong_point)?;
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
                ui.print(&live.end(&style))?;
            }
            let ended = command.map(|command| command.settle(ui)).transpose()?.flatten();
            if matches!(end, ProbeEnd::OverBudget) {
                ui.warn(shown!(
                    "{} was stopped by its budget ({}); a larger --budget lets it go on",
                    def.id,
                    Text::seen(percent(request.budget))
                ));
                return Ok(Exit::OverBudget);
            }
            let is_interrupted = ended.is_none() && stop.load(Ordering::Relaxed) && request.duration.is_some();
            Ok(if is_interrupted { Exit::Interrupted } else { Exit::Done })
        }
        ProbeEnd::Output(error) => Err(Failure::io("writing results")(error)),
        ProbeEnd::Failed(gap) => Err(Failure::Unavailable { what: def.id.to_owned(), gap }),
    }
}

fn request(def: &'static ProbeDef, args: &Args) -> Result<ProbeRequest, Failure> {
    let mut given = params::by_name(&args.params)?;
    for (name, value) in
        [("top", &args.top), ("threshold", &args.threshold), ("function", &args.function), ("depth", &args.depth)]
    {
        given.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
    }
    if let (true, GivesStacks::IfAsked(name)) = (args.format.of_stacks().is_some(), def.stacks) {
        given.entry(name.to_owned()).or_insert_with(|| "true".to_owned());
    }
    let params = Params::new(def.id, def.params, &given).map_err(|message| Failure::usage(message, None))?;
    let filters = [
        (FilterKind::Pid, "a command", !args.command.is_empty()),
        (FilterKind::Pid, "--pid", !args.pid.is_empty()),
        (FilterKind::Comm, "--comm", args.comm.is_some()),
        (FilterKind::Cgroup, "--cgroup", args.cgroup.is_some()),
    ];
    for (kind, option, set) in filters {
        if set && !def.filters.contains(&kind) {
            return Err(Failure::usage(format!("{} cannot be limited by {option}", def.id), None));
        }
    }
    if args.pid.len() > MAX_PIDS {
        return Err(Failure::usage(
            format!("at most {} processes can be named", MAX_PIDS),
            Some("use --comm or --cgroup"),
        ));
    }
    let draws_stacks = args.format.of_stacks().is_some();
    if draws_stacks && def.stacks == GivesStacks::Never {
        let with: Vec<&str> = probes::with_stacks().collect();
        return Err(Failure::usage(
            format!("{} has no stacks", def.id),
            Some(&format!("probes with stacks are {}", with.join(", "))),
        ));
    }
    if matches!(args.format, Format::Svg | Format::Speedscope) && args.interval.is_some() {
        return Err(Failure::usage("--format svg and speedscope give one file".into(), Some("leave --interval out")));
    }
    let time = |name: &str, text: &Option<String>| -> Result<Option<f64>, Failure> {
        let parse = |text: &String| crate::playbook::duration(name, text);
        Ok(text.as_ref().map(parse).transpose()?)
    };
    let interval = time("interval", &args.interval)?;
    if interval.is_some_and(|seconds| seconds < 0.1) {
        return Err(Failure::usage("--interval must be at least 100ms".into(), None));
    }
    let duration = time("duration", &args.duration)?;
    super::params::interval_fits(interval, duration)?;
    Ok(ProbeRequest {
        def,
        params,
        pids: args.pid.clone(),
        comm: args.comm.clone(),
        cgroup: args.cgroup.clone(),
        command: None,
        watch: None,
        duration,
        interval,
        budget: crate::playbook::budget(&args.budget)?,
    })
}

fn wrong_events(error: EventError) -> Failure {
    wrong_names(error, "`rdiag list events` shows what there is")
}

fn wrong_tracepoints(error: EventError) -> Failure {
    wrong_names(error, "available_events in /sys/kernel/tracing lists what there is; `sched:*` means a whole group")
}

fn wrong_function(error: EventError) -> Failure {
    wrong_names(error, "`rdiag list functions '*PART*'` shows what there is")
}

fn wrong_names(error: EventError, otherwise: &str) -> Failure {
    let near = error.near.as_ref();
    let meant = near.and_then(|(written, known)| did_you_mean(written, known.iter().map(String::as_str)));
    Failure::Usage { message: error.message, hint: meant.or_else(|| Some(otherwise.to_owned())) }
}

/// A typing error is reported here with what was meant; what prevents looking is reported when the probe starts.
pub(super) fn wrong_point(error: PointError) -> Result<(), Failure> {
    if !matches!(error.reason, Reason::Absent | Reason::Malformed) {
        return Ok(());
    }
    let near = error.near.as_ref();
    let hint = near.and_then(|(written, known)| did_you_mean(written, known.iter().map(String::as_str)));
    Err(Failure::Usage { message: error.message, hint })
}
