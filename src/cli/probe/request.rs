//! What a command line asks of a probe, and everything about it that can be wrong.

use super::super::{params, tools};
use super::{Args, Format, LIST};
use crate::cli::exit::Failure;
use rdiag_kernel::host::SharedHost;
use rdiag_kernel::mechanism::ebpf::filter::MAX_PIDS;
use rdiag_kernel::mechanism::perf::select as events;
use rdiag_kernel::mechanism::perf::select::EventError;
use rdiag_kernel::mechanism::tracefs::trigger::Condition;
use rdiag_kernel::mechanism::tracefs::{functions, select as tracepoints};
use rdiag_playbook as playbook;
use rdiag_playbook::suggest::did_you_mean;
use rdiag_probes::{self as probes, FilterKind, GivesStacks, ParamKind, Params, ProbeDef};
use rdiag_session::ProbeRequest;

/// What was asked for.
pub(in crate::cli) enum Action<'a> {
    /// What a name stands for.
    List(&'a str),
    /// To run a probe.
    Run(&'static ProbeDef, ProbeRequest),
}

/// What was asked for, with everything about it that can be wrong without the machine.
pub(in crate::cli) fn checked(args: &Args) -> Result<Action<'_>, Failure> {
    match &args.point {
        Some(point) if args.name == LIST && !point.is_empty() => {
            if args.format.of_stacks().is_some() {
                return Err(Failure::usage("a list has no stacks".into(), Some("take --format text or json")));
            }
            return Ok(Action::List(point));
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
    Ok(Action::Run(def, request(def, args)?))
}

/// Whether the machine has the events and functions that the parameters name.
pub(super) fn check_names(host: &SharedHost, def: &ProbeDef, request: &ProbeRequest) -> Result<(), Failure> {
    for param in def.params {
        let list = request.params.text(param.name).unwrap_or_default();
        match param.kind {
            ParamKind::Events => events::check(host, list).map_err(wrong_events)?,
            ParamKind::Tracepoints => tracepoints::check(host, list).map_err(wrong_tracepoints)?,
            ParamKind::KernelFunctions => functions::check(host, list).map_err(wrong_function)?,
            ParamKind::Condition => match Condition::parse(list) {
                Ok(condition) if condition.event().is_some() => {
                    tracepoints::check(host, &condition.point).map_err(wrong_tracepoints)?;
                }
                Ok(condition) => functions::check(host, &condition.point).map_err(wrong_function)?,
                // Nothing is waited for.
                Err(_) => {}
            },
            _ => {}
        }
    }
    Ok(())
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
        let parse = |text: &String| playbook::duration(&format!("--{name}"), text);
        Ok(text.as_ref().map(parse).transpose()?)
    };
    let interval = time("interval", &args.interval)?;
    if interval.is_some_and(|seconds| seconds < 0.1) {
        return Err(Failure::usage("--interval must be at least 100ms".into(), None));
    }
    let duration = time("duration", &args.duration)?;
    params::interval_fits(interval, duration)?;
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
        budget: playbook::budget(&args.budget)?,
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
