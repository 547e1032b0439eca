//! Which exercises there are.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::output::json as to_json;
use super::super::ui::{Text, Ui};
use super::{live, wrapped};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::Host;
use rdiag_lab::place::Place;
use rdiag_lab::{Scenario, library, needs};

/// Which exercises there are.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only those of this level: 1 (first steps) to 3.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
    level: Option<u8>,
    /// Only those about this: cpu, io, memory, processes …
    #[arg(long)]
    topic: Option<String>,
    /// For programs.
    #[arg(long)]
    json: bool,
}

/// One exercise.
#[derive(Debug, clap::Args)]
pub(super) struct InfoArgs {
    /// Its id, its number, or the word behind the number.
    id: String,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let progress = place.progress()?;
    let running = place.run().ok().flatten().map(|run| run.scenario);
    let mut rows: Vec<Value> = Vec::new();
    let mut out = String::new();
    for scenario in library::all()? {
        let is_meant = args.level.is_none_or(|level| level == scenario.level)
            && args.topic.as_ref().is_none_or(|topic| scenario.topics.contains(topic));
        if !is_meant {
            continue;
        }
        let (standing, why) = standing(&host, &place, &scenario);
        let reached = progress.get(&scenario.id).cloned().unwrap_or_default();
        let passed = match (reached.passed, reached.hints) {
            (true, _) if reached.after_solution => "passed, solution read",
            (true, 0) => "passed without a hint",
            (true, _) => "passed",
            (false, _) if running.as_ref() == Some(&scenario.id) => "started",
            (false, _) => "",
        };
        let _ = writeln!(
            out,
            "{:<12} level {}  {:>3} min  {:<11} {:<22} {}",
            scenario.id, scenario.level, scenario.minutes, standing, passed, scenario.title
        );
        if let Some(why) = &why {
            let _ = writeln!(out, "             {why}");
        }
        rows.push(json!({
            "id": scenario.id, "title": scenario.title, "level": scenario.level, "minutes": scenario.minutes,
            "topics": scenario.topics, "teaches": scenario.teaches, "standing": standing, "why": why, "reached": reached,
        }));
    }
    if args.json {
        ui.print(&to_json(&rows)?)?;
    } else if out.is_empty() {
        ui.note("there is no such exercise; `rdiag lab list` shows all");
    } else {
        ui.print(&Text::lines(&out))?;
    }
    Ok(Exit::Done)
}

/// Whether an exercise can run here: wholly, with some of its variants, or not, and why.
fn standing(host: &Host, place: &Place, scenario: &Scenario) -> (&'static str, Option<String>) {
    let gaps: Vec<_> = scenario.variants.iter().filter_map(|variant| needs::missing(host, place, variant)).collect();
    let why = gaps.first().map(|gap| gap.why.clone());
    match gaps.len() {
        0 => ("ready", None),
        some if some < scenario.variants.len() => ("in part", why),
        _ => ("unavailable", why),
    }
}

pub(super) fn info(args: &InfoArgs, ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let scenario = library::find(&args.id)?;
    let limits = scenario.limits;
    let (standing, why) = standing(&host, &place, &scenario);
    let mut out = format!("{}: {}\n\n{}\n\n", scenario.id, scenario.title, wrapped(&scenario.symptom, "  ", ui));
    let _ = writeln!(
        out,
        "Level {}, about {} minutes; on {}",
        scenario.level,
        scenario.minutes,
        scenario.topics.join(", ")
    );
    let _ = writeln!(out, "Afterwards you can: {}", scenario.teaches.join("; "));
    let _ = writeln!(
        out,
        "Runs for {} s (at most {}), with up to {} processes and threads, {} MiB of memory and {} MiB of disk",
        limits.seconds, limits.max_seconds, limits.tasks, limits.memory_mib, limits.disk_mib
    );
    let _ = writeln!(out, "Here: {standing}{}", why.map_or_else(String::new, |why| format!(" ({why})")));
    let _ = writeln!(out, "What would change on this host: rdiag lab start {} --dry-run", scenario.id);
    ui.print(&Text::lines(&out))?;
    Ok(Exit::Done)
}
