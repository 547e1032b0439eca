//! What a lesson looks at: a recording and what rdiag makes of it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::Lesson;
use super::builtin::RECORDINGS;
use crate::LabError;
use rdiag_kernel::host::SharedHost;
use rdiag_model::report::StepOutcome;
use rdiag_model::{Facts, Finding, Recording, Status, Target};
use rdiag_playbook::{Plan, PlannedStep};
use rdiag_session as session;
use rdiag_session::{Analysis, Observer};

/// A judged recording.
pub struct View {
    recording: Recording,
    analysis: Analysis,
}

impl View {
    /// The lesson's own recording, judged by today's rules.
    pub fn recorded(lesson: &Lesson) -> Result<Self, LabError> {
        let packed = RECORDINGS.iter().find(|(name, _)| *name == lesson.recording).map(|(_, packed)| *packed);
        let recording = session::read_recording(packed.unwrap_or_default())
            .map_err(|error| LabError::failed("reading the recording of the lesson")(std::io::Error::other(error)))?;
        let analysis = session::analyze(&recording, &plan(lesson, None)?);
        Ok(Self { recording, analysis })
    }

    /// This host, measured now for so many seconds.
    pub fn measured(host: &SharedHost, lesson: &Lesson, seconds: &str, stop: &AtomicBool) -> Result<Self, LabError> {
        let plan = plan(lesson, Some(seconds))?;
        let run = session::run(host, &plan, &Target::default(), stop, &mut Silent)
            .map_err(LabError::failed("measuring this host"))?;
        Ok(Self { recording: run.recording, analysis: run.analysis })
    }

    /// The host that was looked at.
    #[must_use]
    pub fn host(&self) -> &Facts {
        &self.recording.host
    }

    /// For how long it was looked at, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.recording.windows.first().map_or(0.0, |window| window.seconds)
    }

    /// The playbook's step.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&StepOutcome> {
        self.analysis.steps.iter().find(|step| step.id == id)
    }

    /// What a rule concluded; of several instances, what matters most.
    #[must_use]
    pub fn finding(&self, rule: &str) -> Option<&Finding> {
        self.analysis.findings.iter().filter(|finding| finding.id == rule).max_by_key(|finding| finding.status)
    }

    /// The same, of a rule that may not have been asked at all.
    #[must_use]
    pub fn status(&self, rule: &str) -> Status {
        self.finding(rule).map_or(Status::Skipped, |finding| finding.status)
    }
}

/// Only what the lesson asks for is measured, in one window.
fn plan(lesson: &Lesson, seconds: Option<&str>) -> Result<Plan, LabError> {
    let failed = |error: String| LabError::failed("preparing the lesson")(std::io::Error::other(error));
    let named = session::resolve(&lesson.playbook).map_err(|error| failed(error.to_string()))?;
    let given = seconds.map(|seconds| BTreeMap::from([("duration".to_owned(), seconds.to_owned())]));
    let given = given.unwrap_or_default();
    let mut plan = Plan::new(&named.loaded, &named.library, &given).map_err(|error| failed(error.to_string()))?;
    let is_asked = |step: &PlannedStep| lesson.steps.iter().any(|wanted| wanted.step == step.step.id);
    plan.windows.truncate(1);
    plan.windows.iter_mut().for_each(|steps| steps.retain(is_asked));
    Ok(plan)
}

struct Silent;

impl Observer for Silent {
    fn window(&mut self, _: &[&PlannedStep], _: f64, _: bool) {}
    fn begun(&mut self) {}
    fn progress(&mut self, _: f64) {}
    fn window_ended(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lesson_asks_for_can_be_judged_in_its_recording() {
        for lesson in super::super::all().unwrap() {
            let view = View::recorded(&lesson).unwrap();
            for step in &lesson.steps {
                assert!(
                    view.step(&step.step).is_some_and(|seen| !seen.teach.is_empty()),
                    "{} {}",
                    lesson.id,
                    step.step
                );
                for rule in &step.checks {
                    let status = view.status(rule);
                    assert!(!matches!(status, Status::Unknown | Status::Skipped), "{} {rule} {status:?}", lesson.id);
                }
            }
        }
    }

    #[test]
    fn the_disk_that_is_busy_all_the_time_is_no_trouble() {
        let view = View::recorded(&super::super::find("disk").unwrap()).unwrap();
        assert_eq!(view.finding("disk.utilization").and_then(|finding| finding.value), Some(1.0));
        assert_eq!(view.status("disk.saturation.pressure"), Status::Ok);
        assert_eq!(view.status("no.such.rule"), Status::Skipped);
    }
}
