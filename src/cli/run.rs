//! `rdiag run`: record, analyse and report in one go.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use indicatif::ProgressBar;

use super::command::Command;
use super::output::OutputArgs;
use super::{Exit, Failure, guided, stacks, task, ui::Ui};
use crate::lab::recipe::under_way;
use crate::playbook::{self, Method, Plan, PlannedStep, load};
use crate::report::{self, Parts};
use crate::session::{self, Analysis, Observer, Run};
use rdiag_kernel::host::launch::{Ended, How};
use rdiag_kernel::host::{Host, SharedHost};
use rdiag_model::report::PlaybookInfo;
use rdiag_model::{Exercise, Recording, Report, Status, Target};
use rdiag_probes as probes;

/// Samples of a window that ends when a command does, at most.
const LONGEST_COMMAND: f64 = 20_000.0;

/// Run a playbook: measure, judge, and write the report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Walk through the steps of the playbook; the default on a terminal.
    #[arg(long, overrides_with = "no_guided")]
    guided: bool,
    /// Print the verdict and nothing to answer to.
    #[arg(long)]
    no_guided: bool,
    /// Exit with code 1 when a finding is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    pub(super) fail_on: Option<FailOn>,
}

/// What to measure, the same for `run` and `record`.
#[derive(Debug, clap::Args)]
pub(super) struct MeasureArgs {
    /// Name of a playbook (`rdiag list playbooks`), or path of a YAML file.
    #[arg(value_name = "PLAYBOOK")]
    pub(super) playbook: String,
    /// Length of the measurement window: 500ms, 10s, 2m.
    #[arg(long, value_name = "TIME")]
    pub(super) duration: Option<String>,
    /// Distance of two samples.
    #[arg(long, value_name = "TIME")]
    pub(super) interval: Option<String>,
    /// Set a parameter of the playbook.
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(super) params: Vec<String>,
    /// The share of all CPUs' time that programs inside the kernel may take, all together; the dearest is stopped first.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    pub(super) budget: String,
    /// Only these processes, for what can be limited to some: probes, and the time of a task.
    #[arg(long, short, value_name = "PID", value_delimiter = ',')]
    pub(super) pid: Vec<u32>,
    /// Only tasks with exactly this name.
    #[arg(long, value_name = "NAME")]
    pub(super) comm: Option<String>,
    /// Only tasks in this control group or below.
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup: Option<String>,
    /// Tell single runs apart (Method R): with a COMMAND, run it N times, one after the other; without, every run of
    /// programs named NAME that begins and ends meanwhile. Shows how response times and their parts are spread, and what
    /// the slow runs have more of than the fast ones.
    #[arg(long, value_name = "N|NAME", conflicts_with_all = ["pid", "comm"])]
    pub(super) each: Option<String>,
    /// Tell single requests apart (Method R): each is the time of one thread from this mark to the one of --each-to.
    /// FILE:FUNCTION of a program or library; or function=, return=, usdt=FILE:PROVIDER:NAME, tracepoint=GROUP:EVENT,
    /// or marker=TEXT for what the program writes to ftrace's trace_marker.
    #[arg(long, value_name = "MARK", conflicts_with_all = ["each", "command", "children"])]
    pub(super) each_from: Option<String>,
    /// Where a request ends; where the function of --each-from returns if nothing is given.
    #[arg(long, value_name = "MARK", requires = "each_from")]
    pub(super) each_to: Option<String>,
    /// Processes that those start are looked at, too.
    #[arg(long, requires = "pid")]
    pub(super) children: bool,
    /// How long one execution may take, for playbooks of Method R: 200ms.
    #[arg(long, value_name = "TIME")]
    pub(super) goal: Option<String>,
    /// How long one execution takes now; measured where a COMMAND is started.
    #[arg(long, value_name = "TIME")]
    pub(super) now: Option<String>,
    /// Start this command, look at it from its first instruction to its end, and at nothing else.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "comm", "cgroup"])]
    pub(super) command: Vec<OsString>,
    /// Look at this tree instead of the machine: a recorded one (with host.yaml), or another root.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(super) root: PathBuf,
}

/// A threshold for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    /// Warnings and worse.
    Warning,
    /// Critical findings only.
    Critical,
}

impl FailOn {
    /// The least status that fails.
    pub(super) fn least(self) -> Status {
        match self {
            Self::Warning => Status::Warning,
            Self::Critical => Status::Critical,
        }
    }

    /// Whether a report is bad enough.
    pub(super) fn fails(self, report: &Report) -> bool {
        report.findings.iter().any(|finding| finding.status >= self.least())
    }
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let asks = !args.no_guided && ui.is_interactive() && !args.output.is_stdout();
    let mut prepared = prepare(&args.measure, asks, ui)?;
    let facts = prepared.host.facts();
    let stamp: String = prepared.host.wall_clock().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let safe: String =
        facts.hostname.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let default = format!("rdiag-{}-{safe}-{stamp}", prepared.plan.playbook.name);
    let target = args.output.prepare(Some(default))?;
    let guided = !args.no_guided && !target.owns_stdout() && (args.guided || ui.is_interactive());
    let run = measure(&mut prepared, ui)?;
    let interrupted = run.recording.interrupted;
    let report = build(&run.recording, &run.analysis, &prepared.plan);
    target.keep(&run.recording)?;
    let mut written = target.write(&report, &stacks::of_recording(&run.recording), ui)?;
    if !target.owns_stdout() {
        if guided {
            guided::walk(&report, ui)?;
        } else {
            ui.print(&report::terminal(&report, &ui.style()))?;
        }
        written.push("recording.json.gz".to_owned());
        if let Some(told) = target.told(&written) {
            ui.note(told);
        }
    }
    Ok(exit(&report, &run.analysis, args.fail_on, interrupted))
}

/// The exit code that follows from a report.
pub(super) fn exit(report: &Report, analysis: &Analysis, fail_on: Option<FailOn>, interrupted: bool) -> Exit {
    if interrupted {
        return Exit::Interrupted;
    }
    let nothing = match &analysis.profile {
        Some(profile) => profile.is_err(),
        None => report.coverage.measured.is_empty(),
    };
    if nothing {
        return Exit::Nothing;
    }
    match fail_on {
        Some(level) if level.fails(report) => Exit::Findings,
        _ => Exit::Done,
    }
}

/// A run that can begin.
pub(super) struct Prepared {
    pub(super) host: SharedHost,
    pub(super) plan: Plan,
    target: Target,
    command: Option<Command>,
    stop: Arc<AtomicBool>,
    /// Whether the host is this machine, on which an exercise can run.
    is_live: bool,
}

/// Everything that can fail before time is spent: the playbook, its parameters, the host, the task.
pub(super) fn prepare(args: &MeasureArgs, asks: bool, ui: &Ui) -> Result<Prepared, Failure> {
    let named = session::resolve(&args.playbook)?;
    for warning in &named.warnings {
        ui.warn(format!("left out: {warning}"));
    }
    let playbook = &named.loaded.playbook;
    let mut given = given_params(args)?;
    // What is wrong with them is told before anything is asked.
    Plan::new(&named.loaded, &named.library, &given)?;
    let budget = playbook::budget(&args.budget)?;
    let stop = stop_on_signal()?;
    let host = Arc::new(open_host(&args.root)?);
    let mut target = task::target(args, &host)?;
    let has_command = !args.command.is_empty();
    if has_command && !task::is_live(&args.root) {
        return Err(task::usage("a command can be started on this machine only".into(), Some("leave --root out")));
    }
    let times = task::times(args, playbook)?;
    session::conversation(&given)?;
    if asks && playbook.method == Method::MethodR {
        task::converse(&host, ui, &mut target, &mut given, has_command);
    }
    task::needed(playbook, &target, has_command)?;
    let mut plan = Plan { budget, ..Plan::new(&named.loaded, &named.library, &given)? };
    if has_command && !given.contains_key("duration") {
        plan.duration = plan.interval * LONGEST_COMMAND;
        plan.params.remove("duration");
    }
    let command = if has_command { Some(Command::start(&args.command, times, &stop)?) } else { None };
    if let Some(command) = &command {
        target.pids = vec![command.pid()];
        target.command = Some(command.words().to_owned());
        target.words = command.separate().to_vec();
        target.children = true;
    }
    Ok(Prepared { host, plan, target, command, stop, is_live: task::is_live(&args.root) })
}

/// A flag that SIGINT, SIGTERM and SIGHUP set. A second SIGINT or SIGTERM ends the program at once, should the first not be enough. SIGHUP does
/// not: when an ssh session drops, the kernel and the shell send one each, and what was measured is still to be written.
pub(super) fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(Failure::io("installing the signal handler"))?;
    }
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&stop))
        .map_err(Failure::io("installing the signal handler"))?;
    Ok(stop)
}

fn given_params(args: &MeasureArgs) -> Result<BTreeMap<String, String>, Failure> {
    let mut given = BTreeMap::new();
    for text in &args.params {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Failure::Usage {
                message: format!("--param {text:?} has no value"),
                hint: Some("write --param name=value".into()),
            });
        };
        given.insert(name.to_owned(), value.to_owned());
    }
    let options =
        [("duration", &args.duration), ("interval", &args.interval), ("goal", &args.goal), ("now", &args.now)];
    for (name, value) in options {
        if let Some(value) = value {
            given.insert(name.to_owned(), value.clone());
        }
    }
    Ok(given)
}

/// The machine, another root, or a recorded tree.
pub(super) fn open_host(root: &Path) -> Result<Host, Failure> {
    let description = root.join("host.yaml");
    if !description.exists() {
        if !root.is_dir() {
            let message = format!("--root {}: there is no such folder", root.display());
            return Err(Failure::Usage { message, hint: None });
        }
        return Ok(Host::live(root));
    }
    let label = description.display().to_string();
    let bytes = rdiag_kernel::host::files::read_named(&description, load::MAX_BYTES)
        .map_err(Failure::io(format!("reading {label}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let spec = load::parse(&label, &text).map_err(|problem| crate::playbook::PlaybookError::Invalid(vec![problem]))?;
    Ok(Host::recorded(root, spec))
}

/// Measures, with a progress bar on stderr.
pub(super) fn measure(prepared: &mut Prepared, ui: &Ui) -> Result<Run, Failure> {
    let exercise = || if prepared.is_live { under_way(&prepared.host) } else { None };
    let before = exercise();
    let mut progress = Progress { ui, bar: None, command: prepared.command.as_mut() };
    let mut run = session::run(&prepared.host, &prepared.plan, &prepared.target, &prepared.stop, &mut progress)
        .map_err(Failure::io("measuring"))?;
    run.recording.exercise = before.map(|before| Exercise { whole: exercise().as_ref() == Some(&before), ..before });
    if let Some(command) = &prepared.command {
        // The end of the command ends the window, which is what it was to do; a signal to it is another matter.
        let ended = command.settle(ui)?;
        run.recording.interrupted &= !matches!(ended, Some(Ended { how: How::Exited(_), .. }));
    }
    Ok(run)
}

/// The document of a recording.
pub(super) fn build(recording: &Recording, analysis: &Analysis, plan: &Plan) -> Report {
    let exercises = crate::lab::library::reproducing();
    let mut findings = analysis.findings.clone();
    for finding in &mut findings {
        finding.lab = exercises.get(&finding.id).cloned();
    }
    report::build(Parts {
        recording,
        metrics: &analysis.metrics,
        findings,
        profile: analysis.profile.clone(),
        steps: analysis.steps.clone(),
        playbook: PlaybookInfo {
            name: plan.playbook.name.clone(),
            title: plan.playbook.title.clone(),
            params: plan.params.clone(),
        },
        titles: &session::metric,
        probes: &probe_texts,
    })
}

fn probe_texts(id: &str) -> Option<report::ProbeTexts> {
    let def = probes::find(id)?;
    Some(report::ProbeTexts { question: def.question, caveats: def.caveats, metrics: def.metrics })
}

struct Progress<'u> {
    ui: &'u Ui,
    bar: Option<ProgressBar>,
    command: Option<&'u mut Command>,
}

impl Observer for Progress<'_> {
    fn window(&mut self, steps: &[&PlannedStep], seconds: f64, drill_down: bool) {
        let what = match (drill_down, steps) {
            (true, [only]) => format!("drill-down, {seconds:.0} s: {}", only.step.question),
            (true, _) => format!("drill-down, {seconds:.0} s: {} questions", steps.len()),
            (false, _) if self.command.is_some() => "measuring until the command ends".to_owned(),
            (false, _) => format!("measuring for {seconds:.0} s; Ctrl-C ends early"),
        };
        self.bar = Some(self.ui.bar(what));
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

    fn window_ended(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
