//! Starting an exercise and looking at it: what is refused, what is put down, how it is known that the symptom is there.

use std::path::Path;

use super::chance::Chance;
use super::clean::clean;
use super::curve::Curve;
use super::error::LabError;
use super::judge::{Truth, Verdict, judge};
use super::keeper::{self, Charge, Started};
use super::limit::{Group, Limit};
use super::load::{Task, count_file, program_file};
use super::measure::{Subject, measure};
use super::needs;
use super::place::{Place, Run, RunJob, Undo};
use super::reading::{Reading, Readings};
use super::scenario::{Answer, Question, Scenario, Variant};
use super::watch::while_watched;
use crate::host::own::{self, Identity, boot_id};
use crate::host::{Host, files};

/// How long the host is looked at before anything is started, in seconds.
const BASELINE_SECONDS: f64 = 2.0;
/// How long one look for the symptom takes, in seconds, and how many there are at most.
const READY_SECONDS: f64 = 1.0;
const READY_LOOKS: usize = 10;
/// How long one look at a symptom that is there takes, in seconds.
const LOOK_SECONDS: f64 = 1.5;
/// How long each of the two measurements behind a check takes, in seconds: the first time, and at most where they do not agree.
pub const TRUTH_SECONDS: [f64; 2] = [3.0, 6.0];
/// How long a program is watched to see what that costs it, in seconds.
const WATCHED_SECONDS: f64 = 1.5;
/// A host with a longer queue than this for each CPU is too busy to be taught with.
const BUSY_LOAD_PER_CPU: f64 = 4.0;

/// What a student wants to have started.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The variant; chance decides if it is not said.
    pub variant: Option<String>,
    /// What chance follows from; the clock if it is not said.
    pub seed: Option<u64>,
    /// For how long, in seconds.
    pub seconds: Option<f64>,
    /// Even on a busy host.
    pub force: bool,
}

/// An exercise that can be started: everything is decided and nothing is changed.
#[derive(Debug, Clone)]
pub struct Plan<'s> {
    /// The scenario.
    pub scenario: &'s Scenario,
    /// The chosen variant.
    pub variant: &'s Variant,
    /// What chose it.
    pub seed: u64,
    /// What will run.
    pub jobs: Vec<RunJob>,
    /// For how long, in seconds.
    pub seconds: f64,
    /// Where its files will be.
    pub scratch: std::path::PathBuf,
    /// How long the host is looked at before anything is started, in seconds.
    pub baseline_seconds: f64,
}

/// Decides what would be started; an error if the host cannot express it or would suffer.
pub fn plan<'s>(host: &Host, place: &Place, scenario: &'s Scenario, wish: &Wish) -> Result<Plan<'s>, LabError> {
    let limits = scenario.limits;
    let seconds = wish.seconds.unwrap_or(f64::from(limits.seconds));
    if !(10.0..=f64::from(limits.max_seconds)).contains(&seconds) {
        let message = format!("{} cannot run for {seconds} s", scenario.id);
        return Err(LabError::usage(message, format!("it can run for 10 to {} s", limits.max_seconds)));
    }
    // Two starts in one nanosecond by two users may well get the same exercise.
    let seed = wish.seed.unwrap_or_else(|| (host.now() * 1e9) as u64 ^ (u64::from(host.facts().pid) << 40));
    let mut chance = Chance::new(seed);
    let variant = match &wish.variant {
        Some(name) => {
            // The draws that follow are the same whether a variant was named or drawn.
            chance.below(1);
            named_variant(host, place, scenario, name)?
        }
        None => {
            let possible: Vec<&Variant> =
                scenario.variants.iter().filter(|variant| needs::missing(host, place, variant).is_none()).collect();
            match chance.one_of(&possible).copied() {
                Some(variant) => variant,
                None => return Err(impossible(host, place, scenario)),
            }
        }
    };
    refuse_harm(host, place, scenario, wish.force)?;
    let cpus = own::usable_cpus().len();
    let mut taken: Vec<&String> = Vec::new();
    let mut jobs = Vec::new();
    for job in &variant.load {
        let free: Vec<&String> = job.names.iter().filter(|name| !taken.contains(name)).collect();
        let name = chance.one_of(&free).copied().unwrap_or(&job.role);
        taken.push(name);
        let task = job.work.decide(&mut chance, cpus);
        jobs.push(RunJob { role: job.role.clone(), name: name.clone(), task, limit: job.limit });
    }
    let tasks: u64 = jobs.iter().map(|job| job.task.tasks(cpus)).sum();
    if tasks > u64::from(limits.tasks) {
        let message = format!(
            "{} would start {tasks} processes and threads on {cpus} CPUs; its limit is {}",
            scenario.id, limits.tasks
        );
        return Err(LabError::not_here(message, "let it use fewer CPUs: taskset -c 0-7 rdiag lab start …"));
    }
    let baseline_seconds = BASELINE_SECONDS;
    Ok(Plan { scenario, variant, seed, jobs, seconds, scratch: place.scratch(seed), baseline_seconds })
}

fn named_variant<'s>(host: &Host, place: &Place, scenario: &'s Scenario, name: &str) -> Result<&'s Variant, LabError> {
    let Some(variant) = scenario.variant(name) else {
        let known: Vec<&str> = scenario.variants.iter().map(|variant| variant.name.as_str()).collect();
        let hint = format!("it has {} (or 1 to {}); without --variant one is chosen", known.join(", "), known.len());
        return Err(LabError::usage(format!("{} has no variant {name:?}", scenario.id), hint));
    };
    match needs::missing(host, place, variant) {
        None => Ok(variant),
        Some(gap) => Err(LabError::not_here(
            format!("the variant {name} cannot run here: {}", gap.why),
            gap.remedy.unwrap_or_else(|| "leave --variant out; one that can run is chosen".into()),
        )),
    }
}

fn impossible(host: &Host, place: &Place, scenario: &Scenario) -> LabError {
    let gap = scenario.variants.iter().find_map(|variant| needs::missing(host, place, variant));
    let why = gap.as_ref().map_or("it has no variant", |gap| &gap.why);
    let remedy = gap.as_ref().and_then(|gap| gap.remedy.clone());
    LabError::not_here(
        format!("{} cannot run here: {why}", scenario.id),
        remedy.unwrap_or_else(|| "`rdiag lab list` says which exercises can".into()),
    )
}

/// Refuses what would do harm: too little memory or disk space, a host that is busy already.
fn refuse_harm(host: &Host, place: &Place, scenario: &Scenario, force: bool) -> Result<(), LabError> {
    let mib = |count: u32| u64::from(count) << 20;
    let needed = 2 * mib(scenario.limits.memory_mib);
    let meminfo = host.read("proc/meminfo").unwrap_or_default();
    let available = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse::<u64>().ok());
    if available.is_some_and(|kib| kib * 1024 < needed) {
        let message = format!("{} needs {} MiB of available memory to be safe", scenario.id, needed >> 20);
        return Err(LabError::not_here(message, "free some memory; MemAvailable in /proc/meminfo is what counts"));
    }
    let needed = 4 * mib(scenario.limits.disk_mib) + (1 << 30);
    let free = files::free_bytes(place.folder()).map_err(LabError::failed("asking for the free disk space"))?;
    if scenario.limits.disk_mib > 0 && free < needed {
        let message = format!("{} wants {} MiB free below {}", scenario.id, needed >> 20, place.folder().display());
        return Err(LabError::not_here(message, "free some space, or set XDG_STATE_HOME to a folder on another disk"));
    }
    let load = host.read("proc/loadavg").ok().and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let most = BUSY_LOAD_PER_CPU * f64::from(host.facts().cpus);
    if let Some(load) = load.filter(|load| *load > most && !force) {
        let message =
            format!("this host is busy: its load average is {load}, and more than {most} is too much to teach with");
        return Err(LabError::not_here(message, "wait until it is quieter, or start with --force"));
    }
    Ok(())
}

impl Plan<'_> {
    /// What would be changed, each with how it is undone.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let until = "ended by `rdiag lab stop`, or when the time is over";
        let mut changes = vec![
            format!("the folder {} with mode 0700; removed in the end", self.scratch.display()),
            format!("a process rdiag:lab that watches over the load; {until}"),
        ];
        for job in &self.jobs {
            changes.push(format!("a program named {} and what it starts; {until}", job.name));
            if let Some(limit) = job.limit {
                changes.push(format!("a control group for it with at most {}; removed with it", limit.words()));
            }
            if job.task.disk_mib() > 0 {
                changes.push(format!("files of {} MiB in that folder; removed with it", job.task.disk_mib()));
            }
        }
        let limits = self.scenario.limits;
        changes.push(format!(
            "at most {} s, {} processes and threads, {} MiB of memory for each program, {} MiB of disk; no setting of the host",
            self.seconds, limits.tasks, limits.memory_mib, limits.disk_mib
        ));
        changes
    }
}

/// Starts an exercise, and returns when the symptom is there. If it does not come, everything is undone.
pub fn start(host: &Host, place: &Place, plan: &Plan<'_>, say: &mut dyn FnMut(&str)) -> Result<Run, LabError> {
    say("looking at the host as it is …");
    let baseline = measure(host, &Subject::default(), plan.baseline_seconds);
    say("waiting until the symptom is there …");
    let started =
        launch(host, place, plan, baseline).and_then(|run| await_symptom(host, place, plan, &run).map(|()| run));
    if started.is_err() {
        clean(host, place)?;
    }
    started
}

/// Has the watcher start the load. What it has changed when that fails stands in the journal.
pub fn launch(host: &Host, place: &Place, plan: &Plan<'_>, baseline: Readings) -> Result<Run, LabError> {
    let mut run = Run {
        scenario: plan.scenario.id.clone(),
        variant: plan.variant.name.clone(),
        seed: plan.seed,
        started: host.wall_clock(),
        boot: boot_id(),
        until: host.now() + plan.seconds,
        scratch: plan.scratch.clone(),
        keeper: None,
        jobs: plan.jobs.clone(),
        baseline,
        answers: Default::default(),
        hints: 0,
        checks: 0,
    };
    place.note(&Undo::Folder(run.scratch.clone()))?;
    files::create_private_directory(&run.scratch)
        .map_err(LabError::failed(format!("making the folder {}", run.scratch.display())))?;
    let limits = plan.scenario.limits;
    let charge = Charge {
        folder: place.folder().to_owned(),
        scratch: run.scratch.clone(),
        seed: run.seed,
        until: run.until,
        file_bytes: u64::from(limits.disk_mib.max(1)) << 20,
        memory_bytes: u64::from(limits.memory_mib) << 20,
        jobs: run.jobs.clone(),
    };
    let attempt = "starting the load";
    let program = own::program().map_err(LabError::failed(attempt))?;
    let mut keeper = own::start(&program, keeper::ARGUMENT).map_err(LabError::failed(attempt))?;
    run.keeper = Identity::of(keeper.id());
    place.keep_run(&run)?;
    let order = serde_json::to_vec(&charge).map_err(|error| LabError::failed(attempt)(error.into()))?;
    own::hand(&mut keeper, &order).map_err(LabError::failed(attempt))?;
    Ok(run)
}

fn await_symptom(host: &Host, place: &Place, plan: &Plan<'_>, run: &Run) -> Result<(), LabError> {
    let mut last = None;
    for _ in 0..READY_LOOKS {
        let readings = measure(host, &subject(host, place, run), READY_SECONDS);
        last = readings.get(plan.scenario.meter.reading, None);
        if shows(plan.scenario, &run.baseline, &readings) {
            return Ok(());
        }
    }
    let meter = plan.scenario.meter.reading;
    let seen = last.map_or("nothing".into(), |value| crate::model::quantity::with_unit(value, meter.unit()));
    Err(LabError::not_here(
        format!("the symptom did not appear on this host ({}: {seen}); everything is undone", meter.title()),
        "try once more, another variant, or a host that is less busy",
    ))
}

/// Whether the symptom is there.
#[must_use]
pub fn shows(scenario: &Scenario, baseline: &Readings, now: &Readings) -> bool {
    let meter = scenario.meter;
    let before = baseline.get(meter.reading, None).unwrap_or(0.0);
    now.get(meter.reading, None).is_some_and(|value| value >= meter.at_least && value >= before * meter.times_baseline)
}

/// Whether the load still runs.
#[must_use]
pub fn is_running(host: &Host, run: &Run) -> bool {
    run.boot == boot_id() && host.now() < run.until && run.keeper.as_ref().is_some_and(Identity::is_alive)
}

/// The exercise that runs; an error with what to do if there is none, or none any more.
pub fn running(host: &Host, place: &Place, asked: Option<&str>) -> Result<Run, LabError> {
    let run = started(place, asked)?;
    if is_running(host, &run) {
        return Ok(run);
    }
    let message = if run.boot == boot_id() && host.now() >= run.until {
        format!("the time of {} is over, so nothing can be measured any more", run.scenario)
    } else {
        format!("{} does not run any more: what watched over it was ended", run.scenario)
    };
    Err(LabError::not_here(
        message,
        format!("`rdiag lab start {}` begins anew, with --for 10m for longer", run.scenario),
    ))
}

/// The exercise that was started, whether it still runs or not.
pub fn started(place: &Place, asked: Option<&str>) -> Result<Run, LabError> {
    let Some(run) = place.run()? else {
        return Err(LabError::usage(
            "no exercise was started",
            "`rdiag lab list` shows them, `rdiag lab start ID` starts one",
        ));
    };
    match asked {
        Some(asked) if asked != run.scenario => Err(LabError::usage(
            format!("{asked} was not started; what was started is {}", run.scenario),
            format!("`rdiag lab stop` ends {}", run.scenario),
        )),
        _ => Ok(run),
    }
}

/// The load as far as it is measured by itself.
#[must_use]
pub fn subject(host: &Host, place: &Place, run: &Run) -> Subject {
    let bytes = files::read_named(&keeper::started_file(&run.scratch), 64 * 1024).unwrap_or_default();
    let started: Vec<Started> = serde_json::from_slice(&bytes).unwrap_or_default();
    let counts = run.jobs.iter().filter(|job| job.task.counts());
    let quota = |job: &RunJob| match job.limit {
        Some(limit @ Limit::CpuPercent(_)) => {
            Some((job.role.clone(), Group::new(host, limit, run.seed, &job.role).ok()?))
        }
        _ => None,
    };
    let quotas = run.jobs.iter().filter_map(quota).collect();
    Subject {
        groups: started.into_iter().map(|one| (one.role, one.process.pid)).collect(),
        counts: counts.map(|job| (job.role.clone(), count_file(&run.scratch, &job.name))).collect(),
        figures: run.jobs.iter().filter_map(|job| Some((job.role.clone(), job.task.figure()?))).collect(),
        quotas,
        program: run
            .jobs
            .iter()
            .any(|job| matches!(job.task, Task::Restart { .. }))
            .then(|| program_file(&run.scratch)),
        disk: disk(place.folder()),
    }
}

/// The device that holds a folder, if it is one with counters of its own.
#[must_use]
pub fn disk(folder: &Path) -> Option<(u32, u32)> {
    files::device_of(folder).ok().filter(|(major, _)| *major > 0)
}

/// Measures what is true now, twice for so many seconds; and again, twice as long each time, while the two are too far apart to
/// judge by, until the second number is reached.
pub fn truth(
    host: &Host,
    place: &Place,
    scenario: &Scenario,
    variant: &Variant,
    run: &Run,
    [mut seconds, most]: [f64; 2],
) -> Result<Truth, LabError> {
    loop {
        let truth = measured_twice(host, place, scenario, variant, run, seconds)?;
        let is_settled = |question: &Question| {
            let right = truth.right_answer(question);
            !matches!(judge(question, right.as_deref(), &truth), Verdict::Undecided(_))
        };
        if 2.0 * seconds > most || scenario.questions.iter().all(is_settled) {
            return Ok(truth);
        }
        seconds *= 2.0;
    }
}

fn measured_twice(
    host: &Host,
    place: &Place,
    scenario: &Scenario,
    variant: &Variant,
    run: &Run,
    seconds: f64,
) -> Result<Truth, LabError> {
    let subject = subject(host, place, run);
    let mut truth = Truth {
        readings: [(); 2].map(|()| measure(host, &subject, seconds)),
        names: run.jobs.iter().map(|job| (job.role.clone(), job.name.clone())).collect(),
        choices: variant.answers.clone(),
        curves: Vec::new(),
    };
    if scenario.questions.iter().any(|question| matches!(question.answer, Answer::Block { .. })) {
        for readings in &mut truth.readings {
            let curve = Curve::measure(&run.scratch).map_err(LabError::failed("trying out sizes of blocks"))?;
            readings.put(Reading::CopyByCalls, None, curve.best().map_or(f64::NAN, |(_, cost)| cost));
            readings.put(Reading::CopyInMemory, None, curve.mapped);
            truth.curves.push(curve);
        }
    }
    let watched = |question: &&Question| matches!(question.answer, Answer::Number { truth: Reading::WatchedCost, .. });
    if let Some(pid) = scenario.questions.iter().find(watched).and_then(|_| subject.groups.values().next()) {
        for readings in &mut truth.readings {
            let then = while_watched(*pid, || measure(host, &subject, WATCHED_SECONDS)).map_err(|gap| {
                LabError::not_here(
                    format!("watching the program failed: {}", gap.why),
                    "rdiag doctor says what it needs",
                )
            })?;
            let units = |readings: &Readings| readings.get(Reading::OwnUnits, None).filter(|units| *units > 0.0);
            if let (Some(alone), Some(watched)) = (units(readings), units(&then)) {
                readings.put(Reading::WatchedCost, None, alone / watched);
            }
        }
    }
    Ok(truth)
}

/// The cause that runs.
pub fn variant_of<'s>(scenario: &'s Scenario, run: &Run) -> Result<&'s Variant, LabError> {
    scenario.variant(&run.variant).ok_or_else(|| {
        let message =
            format!("{} has no variant {:?}: it was started by another version of rdiag", run.scenario, run.variant);
        LabError::usage(message, "`rdiag lab stop` ends it")
    })
}

/// A short look at the host and the load.
#[must_use]
pub fn look(host: &Host, place: &Place, run: &Run) -> Readings {
    measure(host, &subject(host, place, run), LOOK_SECONDS)
}
