//! Whether a symptom was put right: it is gone, and the programs still do their work. To end them is no fix.

use super::error::LabError;
use super::place::{Place, Run};
use super::reading::Readings;
use super::runner;
use super::scenario::Scenario;
use rdiag_kernel::host::Host;

/// What became of a symptom.
#[derive(Debug, Clone, PartialEq)]
pub enum Repair {
    /// It is gone, and every program still runs.
    Done,
    /// It is still there: what the meter says, in the base unit, if it says anything.
    StillThere(Option<f64>),
    /// It is gone, and so is the work of this program, which has ended or does nothing any more.
    WorkGone(String),
}

/// Looks twice whether the symptom is gone, and whether each program got CPU time meanwhile.
pub fn look(host: &Host, place: &Place, scenario: &Scenario, run: &Run) -> Result<Repair, LabError> {
    let groups = runner::subject(host, place, run).groups;
    let used = || run.jobs.iter().map(|job| Some((job.name.clone(), cpu_time(host, *groups.get(&job.role)?)?)));
    let before: Vec<Option<(String, u64)>> = used().collect();
    let looks = [(); 2].map(|()| runner::look(host, place, run));
    let after: Vec<Option<(String, u64)>> = used().collect();
    let idle = run.jobs.iter().zip(before.iter().zip(&after)).find(|(_, (before, after))| match (before, after) {
        (Some((_, before)), Some((_, after))) => after <= before,
        _ => true,
    });
    Ok(decide(scenario, &run.baseline, &looks, idle.map(|(job, _)| job.name.clone())))
}

fn decide(scenario: &Scenario, baseline: &Readings, looks: &[Readings], idle: Option<String>) -> Repair {
    if let Some(seen) = looks.iter().find(|readings| runner::shows(scenario, baseline, readings)) {
        return Repair::StillThere(seen.get(scenario.meter.reading, None));
    }
    match idle {
        Some(name) => Repair::WorkGone(name),
        None => Repair::Done,
    }
}

/// CPU time that all threads of a process have had, in nanoseconds (/proc/PID/task/TID/schedstat, field 1); none if it has ended.
fn cpu_time(host: &Host, pid: u32) -> Option<u64> {
    let threads = host.list(&format!("proc/{pid}/task")).ok()?;
    let one = |tid: &String| {
        let text = host.read(&format!("proc/{pid}/task/{tid}/schedstat")).ok()?;
        Some(rdiag_proc::process::schedstat(text.as_bytes())?.run)
    };
    Some(threads.iter().filter_map(one).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabMetric, library};

    #[test]
    fn a_symptom_that_is_gone_is_put_right_only_if_the_work_goes_on() {
        let scenario = library::find("33").unwrap();
        let readings = |value: f64| {
            let mut readings = Readings::default();
            readings.put(LabMetric::OwnUnits, None, value);
            readings
        };
        let decide = |first, second, idle: Option<&str>| {
            decide(&scenario, &readings(0.0), &[readings(first), readings(second)], idle.map(str::to_owned))
        };
        assert_eq!(decide(0.0, 0.0, None), Repair::Done);
        assert_eq!(decide(0.0, 300.0, None), Repair::StillThere(Some(300.0)), "it comes and goes");
        assert_eq!(decide(0.0, 0.0, Some("planner")), Repair::WorkGone("planner".into()));
    }

    #[test]
    fn cpu_time_is_that_of_a_process_that_lives() {
        let host = Host::live(std::path::Path::new("/"));
        assert!(cpu_time(&host, host.facts().pid).unwrap() > 0);
        assert_eq!(cpu_time(&host, u32::MAX), None);
    }
}
