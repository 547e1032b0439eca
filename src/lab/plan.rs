//! Deciding what would be started: which variant, which names and numbers, and whether this host can bear it. Nothing is changed.

use std::path::PathBuf;

use super::chance::Chance;
use super::disturbance;
use super::error::LabError;
use super::load::{room, swap_file};
use super::needs;
use super::place::{Place, RunJob};
use super::scenario::{Scenario, Variant};
use rdiag_kernel::host::{Host, files};
use rdiag_own as own;

/// How long the host is looked at before anything is started, in seconds.
const BASELINE_SECONDS: f64 = 2.0;

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
pub struct StartPlan<'s> {
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
    pub scratch: PathBuf,
    /// How long the host is looked at before anything is started, in seconds.
    pub baseline_seconds: f64,
}

/// Decides what would be started; an error if the host cannot express it or would suffer.
pub fn plan<'s>(host: &Host, place: &Place, scenario: &'s Scenario, wish: &Wish) -> Result<StartPlan<'s>, LabError> {
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
        let task = job.work.decide(&mut chance, cpus).named(name);
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
    Ok(StartPlan { scenario, variant, seed, jobs, seconds, scratch: place.scratch(seed), baseline_seconds })
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
    let available = rdiag_proc::meminfo(&meminfo).find(|(name, _)| *name == "MemAvailable");
    if available.is_some_and(|(_, kib)| kib * 1024 < needed) {
        let message = format!("{} needs {} MiB of available memory to run safely", scenario.id, needed >> 20);
        return Err(LabError::not_here(message, "free some memory; MemAvailable in /proc/meminfo is what counts"));
    }
    let needed = 4 * mib(scenario.limits.disk_mib) + (1 << 30);
    let free = files::free_bytes(place.folder()).map_err(LabError::failed("asking for the free disk space"))?;
    if scenario.limits.disk_mib > 0 && free < needed {
        let message = format!("{} wants {} MiB free below {}", scenario.id, needed >> 20, place.folder().display());
        return Err(LabError::not_here(message, "free some space, or set XDG_STATE_HOME to a folder on another disk"));
    }
    if let Some(message) = (!force).then(|| disturbance::look(host)).flatten().and_then(|look| look.refusal()) {
        return Err(LabError::not_here(message, "wait until it is quieter, or start with --force"));
    }
    Ok(())
}

impl StartPlan<'_> {
    /// What would be changed, each with how it is undone.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let until = "ended by `rdiag lab stop`, or when the time is up";
        let mut changes = vec![
            format!("the folder {} with mode 0700; removed at the end", self.scratch.display()),
            format!("a process rdiag:lab that watches over the load; {until}"),
        ];
        for job in &self.jobs {
            changes.push(if job.task.module().is_some() {
                format!("a kernel module named {}, built here and kept for the next time; unloaded then", job.name)
            } else {
                format!("a program named {} and what it starts; {until}", job.name)
            });
            if job.task.slow_disk().is_some() {
                changes.push("an in-memory disk (the kernel module null_blk) without data; unloaded then".into());
            }
            if let Some(limit) = job.limit {
                changes.push(format!("a control group for it with at most {}; removed with it", limit.words()));
            }
            if let Some((mib, files)) = job.task.file_system() {
                changes.push(format!(
                    "an in-memory file system for it, {mib} MiB and {files} files, mounted on {}; unmounted with it",
                    room(&self.scratch).display()
                ));
            }
            if let Some(mib) = job.task.swap_mib() {
                changes.push(format!(
                    "swap space of {mib} MiB in {}, with the lowest priority; removed with it",
                    swap_file(&self.scratch).display()
                ));
            }
            if job.task.disk_mib() > 0 {
                changes.push(format!("files of {} MiB in that folder; removed with it", job.task.disk_mib()));
            }
        }
        let limits = self.scenario.limits;
        changes.push(format!(
            "at most {} s, {} processes and threads, {} MiB of memory for each program, {} MiB of disk; no host setting",
            self.seconds, limits.tasks, limits.memory_mib, limits.disk_mib
        ));
        changes
    }
}
