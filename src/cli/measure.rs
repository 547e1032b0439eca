//! What `run` and `record` share: the options of a measurement, what can fail before it, and the measurement itself.

mod progress;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use self::progress::Progress;
use super::command::Command;
use super::root::open_host;
use super::signals::stop_on_signal;
use super::ui::{Text, Ui};
use super::{conversation, params, task};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::launch::{Ended, How};
use rdiag_kernel::host::rights::{self, Phase};
use rdiag_kernel::host::{BeginAt, NoInstant, SharedHost, within};
use rdiag_kernel::mechanism::tracefs;
use rdiag_lab::recipe::under_way;
use rdiag_model::setup::{Begin, WallClock};
use rdiag_model::{Exercise, Recording, Target};
use rdiag_playbook::{self as playbook, Method, Plan};
use rdiag_report::shown;
use rdiag_session as session;
use rdiag_session::Run;

/// From so many seconds on, a late beginning is reported.
const LATE: f64 = 0.5;
/// How long the state of an exercise is looked for.
const STATE: Duration = Duration::from_secs(1);
/// Samples of a window that ends when a command does, at most.
const LONGEST_COMMAND: f64 = 20_000.0;

/// What to measure, the same for `run` and `record`.
#[derive(Debug, clap::Args)]
pub(super) struct MeasureArgs {
    /// Name of a playbook (`rdiag list playbooks`), or path of a YAML file; without one, the playbooks are listed by symptom.
    #[arg(value_name = "PLAYBOOK")]
    pub(super) playbook: Option<String>,
    /// Length of the measurement window: 500ms, 10s, 2m.
    #[arg(long, short, value_name = "TIME")]
    pub(super) duration: Option<String>,
    /// Distance of two samples.
    #[arg(long, short, value_name = "TIME")]
    pub(super) interval: Option<String>,
    /// Begin at this instant, so that the windows of many hosts are the same seconds: 12:00:00Z, 2026-11-24T12:00:00Z, or @SECONDS of the
    /// epoch. At most ten minutes away; an instant in the past is refused without --or-now.
    #[arg(long, value_name = "TIME", conflicts_with = "command")]
    pub(super) begin_at: Option<String>,
    /// Begin at once where the instant of --begin-at is over, by ten minutes at most; the recording says how late it began.
    #[arg(long, requires = "begin_at")]
    pub(super) or_now: bool,
    /// Set a parameter of the playbook.
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(super) params: Vec<String>,
    /// CPU budget of all BPF probes together, as a share of all CPUs; the most expensive probe stops first.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    pub(super) budget: String,
    /// Only these processes, for what can be limited to some: probes, and the time of a task.
    #[arg(long, short, value_name = "PID", value_delimiter = ',')]
    pub(super) pid: Vec<u32>,
    /// Only tasks with exactly this name.
    #[arg(long, value_name = "NAME")]
    pub(super) comm: Option<String>,
    /// Only this control group: of the groups, it, those below and those above it (whose limits hold for it) are judged, and all else as
    /// without this. Playbooks that judge no groups look at its tasks only, where a probe can; so does Method R.
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup: Option<String>,
    /// The control group of this pod of Kubernetes, or of one container of it: POD, NAMESPACE/POD or NAMESPACE/POD/CONTAINER.
    #[arg(long, value_name = "POD", conflicts_with_all = ["cgroup", "command"])]
    pub(super) pod: Option<String>,
    /// Measure each run separately (Method R): with a COMMAND, run it N times, one after the other; without, every run of
    /// programs named NAME that begins and ends meanwhile. Shows how response times and their parts are spread, and what
    /// the slow runs have more of than the fast ones.
    #[arg(long, value_name = "N|NAME", conflicts_with_all = ["pid", "comm"])]
    pub(super) each: Option<String>,
    /// Measure each request separately (Method R): each is the time of one thread from this mark to the one of --each-to.
    /// FILE:FUNCTION of a program or library; or function=, return=, usdt=FILE:PROVIDER:NAME, tracepoint=GROUP:EVENT,
    /// or marker=TEXT for what the program writes to ftrace's trace_marker. With a COMMAND, requests of it and of what it starts; a FILE
    /// with a relative path (./server) is looked for where rdiag is started.
    #[arg(long, value_name = "MARK", conflicts_with_all = ["each", "children"])]
    pub(super) each_from: Option<String>,
    /// Where a request ends; where the function of --each-from returns if nothing is given.
    #[arg(long, value_name = "MARK", requires = "each_from")]
    pub(super) each_to: Option<String>,
    /// What requests are called by, to compare them by it: a field of the mark of --each-from, such as arg1 or arg1:string, of the one
    /// of --each-to with to= before it (to=return:s32), or text for what follows the text of a marker. `rdiag probe list` shows fields.
    #[arg(long, value_name = "FIELD", requires = "each_from")]
    pub(super) each_key: Option<String>,
    /// Where a thread lays a request down that another one takes up (--each-on); what Go's scheduler does is followed without.
    #[arg(long, value_name = "MARK", requires_all = ["each_from", "each_on", "each_id"])]
    pub(super) each_off: Option<String>,
    /// Where a thread takes such a request up.
    #[arg(long, value_name = "MARK", requires = "each_off")]
    pub(super) each_on: Option<String>,
    /// What tells one such request from all others at each mark: a field (arg1), which may be another one at some (arg1,on=arg2), or text
    /// for the first word that follows the text of a marker. A number is one of its process; text goes across processes.
    #[arg(long, value_name = "FIELD", requires = "each_off")]
    pub(super) each_id: Option<String>,
    /// Processes that those start are looked at, too.
    #[arg(long, requires = "pid")]
    pub(super) children: bool,
    /// Have Java processes (those of --pid, or all) write the names of their compiled functions first, as `jcmd PID Compiler.perfmap` does:
    /// JDK 17 and later. It stops their threads for some milliseconds, and leaves the file /tmp/perf-PID.map.
    #[arg(long, conflicts_with = "command")]
    pub(super) ask_runtime: bool,
    /// How long one execution may take, for playbooks of Method R: 200ms; of single runs (--each, --each-from) also which share of them may
    /// take no longer: 'p99 <= 50ms'.
    #[arg(long, value_name = "TIME")]
    pub(super) goal: Option<String>,
    /// How long one execution takes now; measured where a COMMAND is started.
    #[arg(long, value_name = "TIME")]
    pub(super) now: Option<String>,
    /// Run the COMMAND as this user. By default it runs as the user who ran sudo, or else as the user who runs rdiag.
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,
    /// Start this command, look at it from its first instruction to its end, and at nothing else.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "comm", "cgroup"])]
    pub(super) command: Vec<OsString>,
    /// Look at this tree instead of the machine: a recorded one (with host.yaml), or another root.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(super) root: PathBuf,
}

impl MeasureArgs {
    /// The playbook, for a time that is over: what says how to measure means nothing then.
    pub(super) fn past(&self) -> Result<&str, Failure> {
        let options = [
            ("--duration", self.duration.is_some()),
            ("--interval", self.interval.is_some()),
            ("--param", !self.params.is_empty()),
            ("--pid", !self.pid.is_empty()),
            ("--comm", self.comm.is_some()),
            ("--cgroup", self.cgroup.is_some()),
            ("--pod", self.pod.is_some()),
            ("--each", self.each.is_some()),
            ("--each-from", self.each_from.is_some()),
            ("--ask-runtime", self.ask_runtime),
            ("a COMMAND", !self.command.is_empty()),
            ("--root", !task::is_live(&self.root)),
        ];
        match options.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(self.playbook.as_deref().unwrap_or_default()),
            Some((option, _)) => {
                let message = format!("{option} is for a measurement, and --at judges a time that is over");
                Err(Failure::usage(message, Some("--last says how much of it")))
            }
        }
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
    begin_at: Option<BeginAt>,
    /// Whether findings are printed while the first window runs.
    pub(super) streams: bool,
    /// How the command failed, once that is known.
    pub(super) failed: Option<Exit>,
}

/// Everything that can fail before time is spent: the playbook, its parameters, the host, the task.
pub(super) fn prepare(args: &MeasureArgs, asks: bool, ui: &Ui) -> Result<Prepared, Failure> {
    let named = session::resolve(args.playbook.as_deref().ok_or_else(unnamed)?)?;
    for warning in &named.warnings {
        ui.warn(shown!("left out: {}", Text::lines(warning.to_string())));
    }
    named.notes.iter().for_each(|note| ui.warn(Text::seen(note)));
    let playbook = &named.loaded.playbook;
    let mut given = given_params(args)?;
    // What is wrong with them is reported before anything is asked.
    let tried = Plan::new(&named.loaded, &named.library, &given)?;
    let interval = args.interval.as_deref().map(|text| playbook::duration("--interval", text)).transpose()?;
    let until_it_ends = !args.command.is_empty() && args.duration.is_none();
    params::interval_fits(interval, (!until_it_ends).then_some(tried.duration))?;
    let budget = playbook::budget(&args.budget)?;
    let begin_at = args.begin_at.as_deref().map(|text| begin_at(text, args.or_now)).transpose()?;
    let host = Arc::new(open_host(&args.root)?);
    let mut target = task::target(args, &host)?;
    let has_command = !args.command.is_empty();
    if has_command && !task::is_live(&args.root) {
        return Err(Failure::usage("a command can be started on this machine only".into(), Some("leave --root out")));
    }
    let times = task::times(args, playbook)?;
    if session::conversation(&given)?.goal_share.is_some() && !target.each {
        let message = "a percentile is a goal for single runs, and none are measured".to_owned();
        return Err(Failure::usage(message, Some("add --each N -- COMMAND, --each NAME or --each-from MARK")));
    }
    if asks && playbook.method == Method::MethodR {
        conversation::converse(&host, ui, &mut target, &mut given, has_command)?;
    }
    // Until here nothing was measured, so Ctrl-C just ends rdiag, also while it waits for an answer.
    let stop = stop_on_signal()?;
    task::named(&host, args.comm.as_deref())?;
    task::needed(playbook, &target, has_command)?;
    let mut plan = Plan { budget, ..Plan::new(&named.loaded, &named.library, &given)? };
    if has_command && !given.contains_key("duration") {
        plan.duration = plan.interval * LONGEST_COMMAND;
        plan.params.remove("duration");
    }
    let command =
        if has_command { Some(Command::start(&args.command, times, args.user.as_deref(), &stop, ui)?) } else { None };
    if let Some(command) = &command {
        target.pids = vec![command.pid()];
        target.command = Some(command.words().to_owned());
        target.words = command.separate().to_vec();
        target.children = true;
    }
    // The command lives where the host's mounts are, and has been started with all that rdiag had.
    tracefs::private::mount_for_itself(&host);
    if args.ask_runtime {
        task::ask_runtimes(&host, &target.pids, ui);
    }
    rights::narrow(Phase::Attaching(session::work_of(&plan)));
    Ok(Prepared {
        host,
        plan,
        target,
        command,
        stop,
        is_live: task::is_live(&args.root),
        begin_at,
        streams: false,
        failed: None,
    })
}

fn begin_at(text: &str, or_now: bool) -> Result<BeginAt, Failure> {
    BeginAt::parse(text, or_now).map_err(|why| {
        let hint = match why {
            NoInstant::Malformed => "12:00:00Z (UTC), 2026-11-24T12:00:00Z, or @SECONDS of the epoch",
            NoInstant::Past(..) => {
                "give the hosts time to start, or have late ones begin at once: --or-now; where clocks differ, synchronize them first"
            }
            NoInstant::LongPast(..) => "take an instant that is still to come; where clocks differ, synchronize them first",
            NoInstant::Far(_) => "start rdiag later, by cron or a timer",
        };
        Failure::usage(format!("--begin-at {text}: {why}"), Some(hint))
    })
}

/// No playbook is named.
fn unnamed() -> Failure {
    Failure::usage("no playbook is named".into(), Some("`rdiag run` alone lists them by symptom"))
}

fn given_params(args: &MeasureArgs) -> Result<BTreeMap<String, String>, Failure> {
    let mut given = params::by_name(&args.params)?;
    let options =
        [("duration", &args.duration), ("interval", &args.interval), ("goal", &args.goal), ("now", &args.now)];
    for (name, value) in options {
        if let Some(value) = value {
            given.insert(name.to_owned(), value.clone());
        }
    }
    Ok(given)
}

/// Measures, with a progress bar on stderr. The recording is handed to `keep` whenever there is more of it than before, and at the latest
/// before anything is made of it.
pub(super) fn measure(prepared: &mut Prepared, keep: Keep<'_>, ui: &Ui) -> Result<Run, Failure> {
    let host = prepared.is_live.then(|| prepared.host.clone());
    // Another user's home may be on a server that does not answer.
    let exercise = || host.clone().and_then(|host| within(STATE, move || under_way(&host)).flatten());
    let before = exercise();
    let streams = prepared.streams && !ui.is_hushed();
    let mut progress = Progress::new(prepared.command.as_mut(), prepared.begin_at, streams, keep, ui);
    let mut run = session::run(&prepared.host, &prepared.plan, &prepared.target, &prepared.stop, &mut progress)
        .map_err(Failure::io("measuring"))?;
    let is_kept = progress.is_kept;
    let interrupted = run.recording.interrupted;
    run.recording.exercise = before.map(|before| Exercise { whole: exercise().as_ref() == Some(&before), ..before });
    if let Some(command) = &prepared.command {
        // The end of the command ends the window, which is what it was to do; a signal to it is another matter.
        let ended = command.settle(ui)?;
        prepared.failed = ended.as_ref().and_then(|ended| command.passes_on(ended));
        run.recording.interrupted &= !matches!(ended, Some(Ended { how: How::Exited(_), .. }));
    }
    if let Some(begin) = &run.recording.setup.begin {
        tell_of_beginning(begin, run.recording.setup.clock, ui);
    }
    // Why it could not be saved before is reported now.
    if !is_kept || run.recording.exercise.is_some() || run.recording.interrupted != interrupted {
        keep(&run.recording)?;
    }
    Ok(run)
}

/// What makes windows of several hosts no longer the same seconds.
fn tell_of_beginning(begin: &Begin, clock: Option<WallClock>, ui: &Ui) {
    if begin.late_seconds >= LATE {
        let late = Text::seen(format!("{:.1}", begin.late_seconds));
        ui.warn(shown!("the window began {} s after {}", late, Text::seen(&begin.at)));
    }
    if clock.is_some_and(|clock| !clock.synchronized) {
        ui.warn(shown!(
            "the clock of this host is not synchronized: its window may be other seconds than that of other hosts"
        ));
    }
}

/// Writes down what is known of a run.
pub(super) type Keep<'k> = &'k dyn Fn(&Recording) -> Result<(), Failure>;
