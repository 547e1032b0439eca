//! Which tasks to observe, from options; `conversation.rs` asks for what they leave open.

use std::collections::BTreeSet;
use std::path::Path;

use super::measure::MeasureArgs;
use super::points::wrong_point;
use super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_kernel::host::{Host, SharedHost, ask_for_maps};
use rdiag_kernel::mechanism::ebpf::filter::MAX_PIDS;
use rdiag_kernel::mechanism::points::returns;
use rdiag_model::Target;
use rdiag_model::ledger::{Handover, Marks};
use rdiag_playbook::suggest::did_you_mean;
use rdiag_playbook::{Method, Playbook};
use rdiag_probes as probes;
use rdiag_report::shown;
use rdiag_session as session;

/// Runs of a command: what is kept of each thread ends somewhere.
const MOST_RUNS: u32 = 1000;
/// Longest name of a task.
const LONGEST_COMM: usize = 15;

/// Has Java processes write which function they compiled where, for `--ask-runtime`.
pub(super) fn ask_runtimes(host: &SharedHost, pids: &[u32], ui: &Ui) {
    let asked = ask_for_maps(host, pids);
    if asked.is_empty() {
        ui.warn(shown!("--ask-runtime: no Java process is here to be asked"));
    }
    for process in asked {
        match process.refused {
            None => ui.note(shown!(
                "pid {}: wrote where its compiled functions are (/tmp/perf-{}.map)",
                process.pid,
                process.pid
            )),
            Some(why) => {
                ui.warn(shown!("pid {}: names of its compiled functions are missing: {}", process.pid, Text::seen(why)))
            }
        }
    }
}

/// The target of the options; what is not there is an error before time is spent.
pub(super) fn target(args: &MeasureArgs, host: &SharedHost) -> Result<Target, Failure> {
    lives(host, &args.pid)?;
    if args.pid.len() > MAX_PIDS {
        return Err(Failure::usage(
            format!("at most {MAX_PIDS} processes can be named"),
            Some("use --comm or --cgroup"),
        ));
    }
    let marks = marks(args)?;
    if let Some(marks) = &marks {
        probes::check_marks(host, marks, &args.pid).or_else(wrong_point)?;
        // Another level cannot measure single requests, so there is nothing to fall back to.
        let handover = marks.handover.iter().flat_map(|handover| [&handover.on, &handover.off]);
        for function in
            [&marks.from, &marks.to].into_iter().chain(handover).filter_map(|mark| mark.strip_prefix("return="))
        {
            let process = if let [pid] = args.pid[..] { Some(pid) } else { None };
            let told = |gap| Failure::Unavailable { what: format!("return={function}"), gap };
            returns::obstacle_of(host, function, process).map_err(told)?;
        }
    }
    let cgroup = group(args, host)?;
    Ok(Target {
        pids: args.pid.clone(),
        comm: args.each.clone().filter(|_| args.command.is_empty()).or_else(|| args.comm.clone()),
        cgroup,
        command: None,
        words: Vec::new(),
        children: args.children,
        each: args.each.is_some() || marks.is_some(),
        marks,
    })
}

/// The control group that is asked about, which must be there.
fn group(args: &MeasureArgs, host: &SharedHost) -> Result<Option<String>, Failure> {
    if let Some(pod) = &args.pod {
        let hint = "pods of this host: crictl pods, or kubectl get pods -A --field-selector spec.nodeName=NODE";
        let wrong = |why| Failure::usage(format!("--pod {pod}: {why}"), Some(hint));
        return session::group_of_pod(host, pod).map(Some).map_err(wrong);
    }
    args.cgroup.as_deref().map(|path| group_named(path, host)).transpose()
}

/// A control group by its path, which must be there.
pub(super) fn group_named(path: &str, host: &SharedHost) -> Result<String, Failure> {
    let hint = "give its path as /proc/PID/cgroup shows it; `systemd-cgls` lists them";
    let none = || Failure::usage(format!("there is no control group {path:?}"), Some(hint));
    session::named_group(host, path).ok_or_else(none)
}

/// The marks between which requests are looked at. What a function does lies between its entry and its return.
fn marks(args: &MeasureArgs) -> Result<Option<Marks>, Failure> {
    let Some(from) = &args.each_from else { return Ok(None) };
    let function = match from.split_once('=') {
        None => Some(from.as_str()),
        Some(("function", name)) => Some(name),
        Some(_) => None,
    };
    let to = match (&args.each_to, function) {
        (Some(to), _) => to.clone(),
        (None, Some(function)) => format!("return={function}"),
        (None, None) => {
            let message = format!("--each-from {from:?} says where requests begin, and nothing where they end");
            return Err(Failure::usage(message, Some("add --each-to MARK")));
        }
    };
    let handover = match (&args.each_off, &args.each_on, &args.each_id) {
        (Some(off), Some(on), Some(id)) => Some(Handover { off: off.clone(), on: on.clone(), id: id.clone() }),
        _ => None,
    };
    Ok(Some(Marks { from: from.clone(), to, key: args.each_key.clone(), handover }))
}

/// Whether there are such processes, of which something can still be seen.
pub(super) fn lives(host: &Host, pids: &[u32]) -> Result<(), Failure> {
    for pid in pids {
        if !host.exists(&format!("proc/{pid}")) {
            return Err(Failure::usage(format!("there is no process {pid}"), None));
        }
        // It may end meanwhile, or be out of sight: then those who observe say so.
        let Ok(status) = host.read(&format!("proc/{pid}/status")) else { continue };
        let field = |name: &str| rdiag_proc::field(&status, name).unwrap_or_default();
        let (process, threads) = (field("Tgid:"), field("Threads:"));
        if process.parse().is_ok_and(|process: u32| process != *pid) {
            let hint = format!("name the process: --pid {process}");
            return Err(Failure::usage(format!("{pid} is a thread of the process {process}"), Some(&hint)));
        }
        // Its first thread may have ended before the others.
        if field("State:").starts_with('Z') && threads.parse().is_ok_and(|threads: u32| threads <= 1) {
            let parent = field("PPid:");
            let message = format!("the process {pid} has ended; its parent {parent} has not asked for its result yet");
            return Err(Failure::usage(message, None));
        }
    }
    Ok(())
}

/// Refuses a name that no task has: it was mistyped, or what it means does not run.
pub(super) fn named(host: &SharedHost, comm: Option<&str>) -> Result<(), Failure> {
    let Some(comm) = comm.filter(|_| !host.is_recorded()) else { return Ok(()) };
    let Some(names) = session::names_unless_there(host, comm) else { return Ok(()) };
    let hint = match did_you_mean(comm, names.iter().map(String::as_str)) {
        Some(meant) => meant,
        None if comm.len() > LONGEST_COMM => format!("the kernel keeps {LONGEST_COMM} characters of a name"),
        None => {
            "`ps -eo comm` lists names; what does not run yet is started with -- COMMAND, or named with --each".into()
        }
    };
    Err(Failure::usage(format!("no task is named {comm:?}"), Some(&hint)))
}

/// Refuses a name that is too long for one, or nearly that of a task.
pub(super) fn mistyped(comm: &str, names: &BTreeSet<String>) -> Result<(), Failure> {
    let meant = did_you_mean(comm, names.iter().map(String::as_str));
    let too_long = (comm.len() > LONGEST_COMM)
        .then(|| format!("the kernel keeps {LONGEST_COMM} characters of a name: {:?}", short_name(comm)));
    match meant.or(too_long) {
        Some(hint) => Err(Failure::usage(format!("no task is named {comm:?}"), Some(&hint))),
        None => Ok(()),
    }
}

/// What the kernel keeps of a name.
fn short_name(comm: &str) -> &str {
    comm.get(..comm.floor_char_boundary(LONGEST_COMM)).unwrap_or(comm)
}

/// How often the command is to be run; what makes no sense with `--each` is an error.
pub(super) fn times(args: &MeasureArgs, playbook: &Playbook) -> Result<u32, Failure> {
    let is_asked = args.each.is_some() || args.each_from.is_some();
    if is_asked && playbook.method != Method::MethodR {
        let option = if args.each.is_some() { "--each" } else { "--each-from" };
        let message = format!("{option} is for playbooks of Method R, and {} is none", playbook.name);
        return Err(Failure::usage(message, Some("rdiag run method-r --each 20 -- COMMAND")));
    }
    let Some(each) = &args.each else { return Ok(1) };
    let number = each.parse::<u32>().ok();
    match (args.command.is_empty(), number) {
        (true, None) if !each.is_empty() => Ok(1),
        (false, Some(times @ 2..=MOST_RUNS)) => Ok(times),
        (false, _) => {
            let message = format!("--each {each:?}: with a command it says how often to run it, from 2 to {MOST_RUNS}");
            Err(Failure::usage(message, Some("rdiag run method-r --each 20 -- COMMAND")))
        }
        (true, _) => {
            let message = format!("--each {each:?}: without a command it is the name of a program");
            Err(Failure::usage(message, Some("--each NAME, or --each 20 -- COMMAND to run one so often")))
        }
    }
}

/// What to do where a playbook needs a task and none is named.
pub(super) fn needed(playbook: &Playbook, target: &Target, has_command: bool) -> Result<(), Failure> {
    if playbook.method != Method::MethodR || has_command || !target.is_everything() {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{} accounts for the time of one task, and none is named", playbook.name),
        Some("name one: --pid 4711, --comm postgres, --cgroup system.slice/nginx.service, or -- COMMAND to start it"),
    ))
}

/// Whether a tree is the machine itself: only there a command can be started.
pub(super) fn is_live(root: &Path) -> bool {
    root == Path::new("/")
}
