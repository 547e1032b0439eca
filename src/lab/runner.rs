//! Starting an exercise and looking at it: what is put down, how it is known that the symptom is there, and what is true now.

use std::path::Path;

use super::clean::clean;
use super::curve::Curve;
use super::error::LabError;
use super::judge::{Assessment, Truth, judge};
use super::keeper::{self, Charge, Started};
use super::limit::{Group, Limit};
use super::load::{Task, count_file, program_file, room};
use super::measure::{Subject, measure};
use super::module;
use super::place::{Place, Run, RunJob, Undo};
use super::plan::StartPlan;
use super::reading::{LabMetric, Readings};
use super::scenario::{Answer, Question, Scenario, Variant};
use super::watch::{while_kept_to_one_cpu, while_watched};
use rdiag_kernel::host::boot_id;
use rdiag_kernel::host::{Host, files};
use rdiag_own::{self as own, Identity};

/// How long one look for the symptom takes, in seconds, and how many there are at most.
const READY_SECONDS: f64 = 1.0;
const READY_LOOKS: usize = 10;
/// How long one look at a symptom that is there takes, in seconds.
const LOOK_SECONDS: f64 = 1.5;
/// How long each of the two measurements behind a check takes, in seconds: the first time, and at most where they do not agree.
pub const TRUTH_SECONDS: [f64; 2] = [3.0, 6.0];
/// How long a program is watched to see what that costs it, in seconds.
const WATCHED_SECONDS: f64 = 1.5;
/// How long a program is kept to one CPU to see what that gains, in seconds.
const KEPT_SECONDS: f64 = 1.5;

/// Starts an exercise, and returns when the symptom is there. If it does not come, everything is undone.
pub fn start(host: &Host, place: &Place, plan: &StartPlan<'_>, say: &mut dyn FnMut(&str)) -> Result<Run, LabError> {
    say("measuring the baseline of this host …");
    let baseline = measure(host, &Subject::default(), plan.baseline_seconds);
    say("waiting for the symptom …");
    let started =
        launch(host, place, plan, baseline).and_then(|run| await_symptom(host, place, plan, &run).map(|()| run));
    if started.is_err() {
        clean(host, place)?;
    }
    started
}

/// Has the watcher start the load. What it has changed when that fails stands in the journal.
pub fn launch(host: &Host, place: &Place, plan: &StartPlan<'_>, baseline: Readings) -> Result<Run, LabError> {
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
        solution: false,
    };
    place.note(&Undo::Folder(run.scratch.clone()))?;
    files::create_private_directory(&run.scratch)
        .map_err(LabError::failed(format!("making the folder {}", run.scratch.display())))?;
    module::prepare(host, place, &run)?;
    run.until = host.now() + plan.seconds;
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

fn await_symptom(host: &Host, place: &Place, plan: &StartPlan<'_>, run: &Run) -> Result<(), LabError> {
    let mut last = None;
    for _ in 0..READY_LOOKS {
        let readings = measure(host, &subject(host, place, run), READY_SECONDS);
        last = readings.get(plan.scenario.meter.reading, None);
        if shows(plan.scenario, &run.baseline, &readings) {
            return Ok(());
        }
    }
    let meter = plan.scenario.meter.reading;
    let seen = last.map_or("nothing".into(), |value| rdiag_model::quantity::with_unit(value, meter.unit()));
    Err(LabError::not_here(
        format!("the symptom did not appear on this host ({}: {seen}); everything was undone", meter.title()),
        "try once more, another variant, or a host that is less busy",
    ))
}

/// Whether the symptom is there.
#[must_use]
pub fn shows(scenario: &Scenario, baseline: &Readings, now: &Readings) -> bool {
    let meter = scenario.meter;
    let before = baseline.get(meter.reading, None).unwrap_or(0.0);
    now.get(meter.reading, None).is_some_and(|value| meter.is_reached(before, value))
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
        format!("the time of {} is up, so nothing can be measured any more", run.scenario)
    } else {
        format!("{} is no longer running: its watcher process was killed", run.scenario)
    };
    Err(LabError::not_here(
        message,
        format!("`rdiag lab start {}` starts it again; --for sets the duration (as in --for 15m)", run.scenario),
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
            format!("{asked} was not started; {} was", run.scenario),
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
        room: run.jobs.iter().any(|job| job.task.file_system().is_some()).then(|| room(&run.scratch)),
        disk: match run.jobs.iter().find_map(|job| job.task.slow_disk()) {
            Some(_) => module::slow_disk(host),
            None => disk(place.folder()),
        },
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
            !matches!(judge(question, right.as_deref(), &truth), Assessment::Undecided(_))
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
        hidden: Default::default(),
    };
    if scenario.questions.iter().any(|question| matches!(question.answer, Answer::Block { .. })) {
        for readings in &mut truth.readings {
            let curve = Curve::measure(&run.scratch).map_err(LabError::failed("trying block sizes"))?;
            readings.put(LabMetric::CopyByCalls, None, curve.best().map_or(f64::NAN, |(_, cost)| cost));
            readings.put(LabMetric::CopyInMemory, None, curve.mapped);
            truth.curves.push(curve);
        }
    }
    let watched =
        |question: &&Question| matches!(question.answer, Answer::Number { truth: LabMetric::WatchedCost, .. });
    if let Some(pid) = scenario.questions.iter().find(watched).and_then(|_| subject.groups.values().next()) {
        for readings in &mut truth.readings {
            let then = while_watched(*pid, || measure(host, &subject, WATCHED_SECONDS)).map_err(|gap| {
                LabError::not_here(
                    format!("tracing the program failed: {}", gap.why),
                    "rdiag doctor says what it needs",
                )
            })?;
            let units = |readings: &Readings| readings.get(LabMetric::OwnUnits, None).filter(|units| *units > 0.0);
            if let (Some(alone), Some(watched)) = (units(readings), units(&then)) {
                readings.put(LabMetric::WatchedCost, None, alone / watched);
            }
        }
    }
    let kept = |question: &&Question| matches!(question.answer, Answer::Number { truth: LabMetric::OneCpuGain, .. });
    if let Some(pid) = scenario.questions.iter().find(kept).and_then(|_| subject.groups.values().next()) {
        for readings in &mut truth.readings {
            let then = while_kept_to_one_cpu(host, *pid, || measure(host, &subject, KEPT_SECONDS))
                .map_err(LabError::failed("restricting the program to one CPU"))?;
            let cost = |readings: &Readings| {
                let units = readings.get(LabMetric::OwnUnits, None).filter(|units| *units > 0.0)?;
                Some(readings.get(LabMetric::OwnCpu, None)? / units)
            };
            if let (Some(free), Some(kept)) = (cost(readings), cost(&then)) {
                readings.put(LabMetric::OneCpuGain, None, free / kept);
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
