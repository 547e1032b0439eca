//! Whether a lesson holds together: everything that it names exists, and everything that it asks can be answered.

use super::builtin::RECORDINGS;
use super::{FORMAT_VERSION, Lesson, Quiz};
use rdiag_playbook::{Library, Problem};

/// Everything that is wrong with a lesson. `library` knows the playbooks and rules that may be cited.
#[must_use]
pub fn problems(file: &str, source: &str, lesson: &Lesson, library: &Library) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut need = |holds: bool, token: &str, message: String| {
        if !holds {
            found.push(Problem::at(file, source, 0, token, message));
        }
    };
    need(lesson.format_version == FORMAT_VERSION, "format_version", "format_version must be 1".into());
    let is_word = !lesson.id.is_empty() && lesson.id.bytes().all(|byte| byte.is_ascii_lowercase());
    need(is_word, "id", "id must be lower-case letters".into());
    need((1..=240).contains(&lesson.minutes), "minutes", "minutes must be 1 to 240".into());
    for (key, empty) in [
        ("title", lesson.title.trim().is_empty()),
        ("teaches", lesson.teaches.is_empty()),
        ("story", lesson.story.trim().is_empty()),
        ("steps", lesson.steps.is_empty()),
    ] {
        need(!empty, key, format!("{key} says nothing"));
    }
    let is_known = RECORDINGS.iter().any(|(name, _)| *name == lesson.recording);
    need(is_known, &lesson.recording, format!("there is no recording {}", lesson.recording));
    let playbook = library.playbooks.get(&lesson.playbook).map(|loaded| &loaded.playbook);
    need(playbook.is_some(), &lesson.playbook, format!("there is no playbook {}", lesson.playbook));
    let steps = playbook.map(|playbook| playbook.steps.as_slice()).unwrap_or_default();
    for step in &lesson.steps {
        let asked = steps.iter().find(|known| known.id == step.step);
        // A step with a condition may never run.
        let always = asked.is_some_and(|asked| asked.when.is_none());
        need(always, &step.step, format!("{} has no step {} that always runs", lesson.playbook, step.step));
        for rule in &step.checks {
            let is_asked = asked.is_some_and(|asked| asked.rules.contains(rule));
            need(is_asked, rule, format!("the step {} does not ask for {rule}", step.step));
        }
        need(!step.checks.is_empty(), &step.step, format!("{}: nothing is predicted", step.step));
        need(!step.explain.trim().is_empty(), &step.step, format!("{}: nothing is explained", step.step));
        for quiz in &step.quiz {
            if let Some(wrong) = wrong_quiz(quiz) {
                need(false, &quiz.right, format!("{}: {wrong}", quiz.ask));
            }
        }
    }
    let asks = lesson.steps.iter().any(|step| !step.quiz.is_empty());
    need(asks, "quiz", "a lesson without a question cannot be passed".into());
    found
}

fn wrong_quiz(quiz: &Quiz) -> Option<&'static str> {
    if quiz.options.len() < 2 {
        return Some("two answers at least are needed");
    }
    if !quiz.options.contains_key(&quiz.right) {
        return Some("what is right cannot be answered");
    }
    quiz.because.trim().is_empty().then_some("because is empty")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson::{LESSONS, parse};
    use rdiag_session as session;

    fn messages(source: &str) -> String {
        let library = session::library(&[], &[]).unwrap();
        let found = problems("x.yaml", source, &parse("x.yaml", source).unwrap(), &library);
        found.iter().map(|problem| format!("{}: {}\n", problem.line, problem.message)).collect()
    }

    #[test]
    fn the_lessons_of_the_program_hold_together_and_are_named_as_their_files() {
        for (file, source) in LESSONS {
            assert_eq!(messages(source), "", "{file}");
            assert_eq!(format!("{}.yaml", parse(file, source).unwrap().id), *file);
        }
    }

    #[test]
    fn what_a_lesson_names_and_is_not_there_is_found() {
        let text = LESSONS[0].1;
        for (from, to, message) in [
            ("recording: short-of-cpu", "recording: short", "there is no recording short"),
            ("playbook: use-method", "playbook: use", "there is no playbook use"),
            ("step: cpu", "step: cpu-threads", "no step cpu-threads that always runs"),
            ("cpu.saturation.steal]", "disk.errors]", "the step cpu does not ask for disk.errors"),
            ("right: twice", "right: never", "what is right cannot be answered"),
        ] {
            assert!(text.contains(from), "{from}");
            let found = messages(&text.replacen(from, to, 1));
            assert!(found.contains(message), "{to}: {found}");
        }
    }
}
