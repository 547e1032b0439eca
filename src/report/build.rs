//! The one place that decides what a report says.

use super::{
    allotted, answer as answers, causes, consumers, context, coverage, deeds, io_limit, matrix, order, past, plots,
    probed, task_verdict, timeline, top, verdict, words,
};
use crate::parts::Parts;
use rdiag_model::report::{FORMAT_VERSION, WindowInfo};
use rdiag_model::{Culprit, Finding, Recording, Report};

/// Builds the document of a run from what was recorded and what the rules concluded.
#[must_use]
pub fn build(parts: Parts<'_>) -> Report {
    let Parts { recording, metrics, mut findings, mut profile, mut answer, steps, playbook, .. } = parts;
    let Parts { titles, probes, levels, may_be_behind, .. } = parts;
    deeds::of_culprits(&mut findings, titles);
    order::sort(&mut findings, levels);
    context::complete(&mut findings, recording);
    if let Some(answer) = &mut answer {
        answers::complete(answer, &mut findings, levels);
    }
    for finding in &mut findings {
        order::judged_first(finding);
        if finding.is_past() {
            finding.title = past::title(finding, &recording.host);
        } else if let Some(before) = finding.seconds_before {
            finding.title = past::recent(&finding.title, before);
        }
        of_all_cpus(finding);
    }
    if let Some(Ok(profile)) = &mut profile {
        io_limit::tell(profile, &findings);
    }
    let matrix = matrix::rows(&findings);
    let coverage = coverage::coverage(recording, metrics, &findings);
    let verdict = match &profile {
        None => verdict::verdict(&findings, answer.as_ref(), &coverage, recording),
        Some(Ok(profile)) => task_verdict::of_task(profile, &findings, recording, may_be_behind),
        Some(Err(gap)) => task_verdict::unaccounted(gap, recording),
    };
    let mut probes = probed::probed(recording, metrics, &findings, &steps, probes);
    if let Some(Ok(profile)) = &profile {
        // What it measured is the profile; the same once more would only confuse.
        probes.retain(|probed| probed.probe != profile.source);
    }
    let notes = profile.iter().flatten().flat_map(|profile| &profile.notes);
    probed::confinement_once(&notes.cloned().collect::<Vec<_>>(), &mut probes);
    let problems = causes::of(&findings).problems;
    let timeline = timeline::timeline(recording, metrics, &findings, &problems, levels);
    let mut consumers = consumers::consumers(&recording.host, metrics, &problems);
    deeds::of_consumers(&mut consumers, titles);
    Report {
        format_version: FORMAT_VERSION,
        tool: recording.tool.clone(),
        host: recording.host.clone(),
        playbook,
        window: window(recording),
        exercise: recording.exercise.clone(),
        verdict,
        answer,
        profile: profile.and_then(Result::ok),
        matrix,
        probes,
        steps,
        ruled_out: verdict::ruled_out(&findings, levels),
        coverage,
        top: top::tables(metrics),
        timeline,
        consumers,
        changes: None,
        around: None,
        usual: Vec::new(),
        plots: plots::plots(metrics, &findings, titles, levels),
        metrics: coverage::notes(metrics, titles),
        overhead: recording.overhead.clone(),
        findings,
    }
}

/// Shares of CPU time are of all CPUs: beside the load of a single one, that has to be said.
fn of_all_cpus(finding: &mut Finding) {
    if words::is_of_one_cpu(finding)
        && let Some(culprit) = &mut finding.culprit
        && culprit.metric.as_deref() == Some("process.cpu.seconds")
    {
        culprit.labels.entry(Culprit::SHARE_OF.to_owned()).or_insert_with(|| "all CPUs".to_owned());
    }
}

fn window(recording: &Recording) -> WindowInfo {
    WindowInfo {
        started: recording.started.clone(),
        seconds: recording.seconds(),
        windows: recording.windows.len(),
        spans: timeline::spans(recording),
        interval_seconds: recording.windows.first().map_or(0.0, |window| window.interval_seconds),
        interrupted: recording.interrupted,
        cgroup: recording.target.cgroup.clone(),
        allotted: recording.target.cgroup.as_ref().and_then(|group| allotted::words(&recording.setup.group, group)),
    }
}
