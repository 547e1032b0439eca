//! `rdiag run`: record, analyse and report in one go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use indicatif::ProgressBar;

use super::output::OutputArgs;
use super::{Exit, Failure, guided, stacks, ui::Ui};
use crate::host::{Host, SharedHost};
use crate::model::report::PlaybookInfo;
use crate::model::{Recording, Report, Status, Target};
use crate::playbook::{self, Plan, PlannedStep, load};
use crate::probes;
use crate::report::{self, Parts};
use crate::session::{self, Analysis, Observer, Run};

/// Run a playbook: measure, judge, and write the report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    measure: MeasureArgs,
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
    let prepared = prepare(&args.measure, ui)?;
    let facts = prepared.host.facts();
    let stamp: String = prepared.host.wall_clock().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let safe: String =
        facts.hostname.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let default = format!("rdiag-{}-{safe}-{stamp}", prepared.plan.playbook.name);
    let target = args.output.prepare(Some(default))?;
    let guided = !args.no_guided && !target.owns_stdout() && (args.guided || ui.is_interactive());
    let run = measure(&prepared, ui)?;
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
    Ok(exit(&report, args.fail_on, interrupted))
}

/// The exit code that follows from a report.
pub(super) fn exit(report: &Report, fail_on: Option<FailOn>, interrupted: bool) -> Exit {
    if interrupted {
        return Exit::Interrupted;
    }
    if report.coverage.measured.is_empty() {
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
    stop: Arc<AtomicBool>,
}

/// Everything that can fail before time is spent: the playbook, its parameters, the host.
pub(super) fn prepare(args: &MeasureArgs, ui: &Ui) -> Result<Prepared, Failure> {
    let named = session::resolve(&args.playbook)?;
    for warning in &named.warnings {
        ui.warn(format!("left out: {warning}"));
    }
    let plan = Plan::new(&named.loaded, &named.library, &given_params(args)?)?;
    let plan = Plan { budget: playbook::budget(&args.budget)?, ..plan };
    let stop = stop_on_signal()?;
    let host = Arc::new(open_host(&args.root)?);
    let target = target(args, &host)?;
    Ok(Prepared { host, plan, target, stop })
}

/// Whom to look at; what is not there is an error before time is spent.
fn target(args: &MeasureArgs, host: &Host) -> Result<Target, Failure> {
    for pid in &args.pid {
        if !host.exists(&format!("proc/{pid}")) {
            return Err(Failure::Usage { message: format!("there is no process {pid}"), hint: None });
        }
    }
    Ok(Target { pids: args.pid.clone(), comm: args.comm.clone(), cgroup: args.cgroup.clone(), ..Target::default() })
}

/// A flag that SIGINT and SIGTERM set; the second signal ends the program at once, should the first not be enough.
pub(super) fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(Failure::io("installing the signal handler"))?;
    }
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
    for (name, value) in [("duration", &args.duration), ("interval", &args.interval)] {
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
    let bytes = crate::host::files::read_named(&description, load::MAX_BYTES)
        .map_err(Failure::io(format!("reading {label}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let spec = load::parse(&label, &text).map_err(|problem| crate::playbook::PlaybookError::Invalid(vec![problem]))?;
    Ok(Host::recorded(root, spec))
}

/// Measures, with a progress bar on stderr.
pub(super) fn measure(prepared: &Prepared, ui: &Ui) -> Result<Run, Failure> {
    let mut progress = Progress { ui, bar: None };
    session::run(&prepared.host, &prepared.plan, &prepared.target, &prepared.stop, &mut progress)
        .map_err(Failure::io("measuring"))
}

/// The document of a recording.
pub(super) fn build(recording: &Recording, analysis: &Analysis, plan: &Plan) -> Report {
    report::build(Parts {
        recording,
        metrics: &analysis.metrics,
        findings: analysis.findings.clone(),
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
}

impl Observer for Progress<'_> {
    fn window(&mut self, steps: &[&PlannedStep], seconds: f64, drill_down: bool) {
        let what = match (drill_down, steps) {
            (true, [only]) => format!("drill-down, {seconds:.0} s: {}", only.step.question),
            (true, _) => format!("drill-down, {seconds:.0} s: {} questions", steps.len()),
            (false, _) => format!("measuring for {seconds:.0} s; Ctrl-C ends early"),
        };
        self.bar = Some(self.ui.bar(what));
    }

    fn begun(&mut self) {}

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
