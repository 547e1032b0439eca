//! Whether a scenario holds together: everything it names exists, its bounds are safe, and no text gives the answer away.

use std::collections::BTreeSet;

use super::limit::Limit;
use super::load::{Work, unsafe_work};
use super::reading::LabMetric;
use super::scenario::{Answer, Diagnosis, FORMAT_VERSION, Question, Scenario, Variant};
use super::text::holes;
use rdiag_model::Component;
use rdiag_playbook::{Library, Problem};
use rdiag_session as session;

/// Everything that is wrong with a scenario. `library` knows the rules that may be cited.
#[must_use]
pub fn problems(file: &str, source: &str, scenario: &Scenario, library: &Library) -> Vec<Problem> {
    let mut lint = Lint { file, source, found: Vec::new() };
    lint.head(scenario);
    lint.bounds(scenario);
    for variant in &scenario.variants {
        lint.variant(scenario, variant, library);
    }
    for question in &scenario.questions {
        lint.question(scenario, question);
    }
    lint.texts(scenario);
    lint.found
}

/// Holes of what is said to a wrong answer that are no readings: the answer itself, and what a block of that size costs.
const ANSWERED: [&str; 2] = ["answer", "its_cost"];

struct Lint<'a> {
    file: &'a str,
    source: &'a str,
    found: Vec<Problem>,
}

impl Lint<'_> {
    fn say(&mut self, token: &str, message: impl Into<String>) {
        self.found.push(Problem::at(self.file, self.source, 0, token, message.into()));
    }

    fn need(&mut self, holds: bool, token: &str, message: impl Into<String>) {
        if !holds {
            self.say(token, message);
        }
    }

    fn head(&mut self, scenario: &Scenario) {
        let number_and_word = scenario.id.split_once('-').is_some_and(|(number, word)| {
            number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit()) && is_word(word)
        });
        self.need(scenario.format_version == FORMAT_VERSION, "format_version", "format_version must be 1");
        self.need(number_and_word, "id", "id must be two digits, a hyphen and a word, like 04-load");
        self.need((1..=3).contains(&scenario.level), "level", "level must be 1, 2 or 3");
        self.need((1..=240).contains(&scenario.minutes), "minutes", "minutes must be 1 to 240");
        for (key, empty) in [
            ("title", scenario.title.trim().is_empty()),
            ("topics", scenario.topics.is_empty()),
            ("teaches", scenario.teaches.is_empty()),
            ("symptom", scenario.symptom.trim().is_empty()),
            ("spoilers", scenario.spoilers.is_empty()),
            ("solution", scenario.solution.trim().is_empty()),
            ("variants", scenario.variants.is_empty()),
        ] {
            self.need(!empty, key, format!("{key} says nothing"));
        }
        self.need(scenario.hints.len() >= 3, "hints", "at least three hints are needed, from a nudge to the last step");
        let told = format!("{} {}", scenario.title, scenario.symptom).to_lowercase();
        for word in &scenario.spoilers {
            self.need(
                !told.contains(&word.to_lowercase()),
                word,
                format!("the title or the symptom says {word:?}, which gives the cause away"),
            );
        }
        unique(scenario.variants.iter().map(|variant| &variant.name))
            .into_iter()
            .for_each(|name| self.say(name, format!("two variants are named {name}")));
        unique(scenario.questions.iter().map(|question| &question.key))
            .into_iter()
            .for_each(|key| self.say(key, format!("two questions have the key {key}")));
        // A cause can be guessed; with a name and a number beside it, it must have been measured.
        let has = |kind: fn(&Answer) -> bool| scenario.questions.iter().any(|question| kind(&question.answer));
        let guarded = has(|a| matches!(a, Answer::Choice { .. }))
            && has(|a| matches!(a, Answer::Name { .. }))
            && has(|a| matches!(a, Answer::Number { .. }));
        self.need(
            guarded,
            "questions",
            "a choice, a name and a number must be asked for, so that guessing does not pass",
        );
    }

    fn bounds(&mut self, scenario: &Scenario) {
        let limits = scenario.limits;
        let times = (10..=3600).contains(&limits.max_seconds) && (10..=limits.max_seconds).contains(&limits.seconds);
        self.need(times, "limits", "seconds and max_seconds must be 10 to 3600, and max_seconds no less than seconds");
        self.need(
            limits.memory_mib <= 4096 && limits.disk_mib <= 4096 && limits.tasks <= 512,
            "limits",
            "at most 4096 MiB of memory, 4096 MiB of disk and 512 tasks are safe",
        );
        let meter = scenario.meter;
        let finite = meter.at_least.is_finite()
            && meter.at_least > 0.0
            && meter.times_baseline >= 1.0
            && meter.times_baseline.is_finite();
        self.need(finite, "meter", "at_least must be above 0, and times_baseline 1 or more");
    }

    fn variant(&mut self, scenario: &Scenario, variant: &Variant, library: &Library) {
        self.need(is_word(&variant.name), &variant.name, "a variant's name is lower-case letters");
        self.need((1..=4).contains(&variant.load.len()), "load", "a load is one to four programs");
        unique(variant.load.iter().map(|job| &job.role))
            .into_iter()
            .for_each(|role| self.say(role, format!("two programs have the role {role}")));
        for job in &variant.load {
            let enough = job.names.iter().collect::<BTreeSet<_>>().len() > variant.load.len();
            self.need(
                enough,
                &job.role,
                "a program needs more names than there are programs, so that the name tells nothing",
            );
            for name in &job.names {
                self.need(
                    is_word(name) && name.len() <= 15,
                    name,
                    format!("{name:?} is no name of 1 to 15 lower-case letters"),
                );
            }
            if matches!(job.work, Work::LeaveChildren { .. }) && !matches!(job.limit, Some(Limit::Tasks(_))) {
                self.say(&job.role, format!("{}: children that are never reaped need a limit of tasks", job.role));
            }
            if let Some(wrong) = job.limit.and_then(Limit::wrong) {
                self.say(&job.role, format!("{}: {wrong}", job.role));
            }
            if let Some(wrong) = unsafe_work(&job.work, scenario.limits.disk_mib) {
                self.say(&job.role, format!("{}: {wrong}", job.role));
            }
        }
        let is_role = |role: &str| variant.load.iter().any(|job| job.role == role);
        for question in &scenario.questions {
            let key = &question.key;
            match &question.answer {
                Answer::Choice { options, .. } => {
                    let right = variant.answers.get(key);
                    self.need(
                        right.is_some_and(|right| options.contains_key(right)),
                        &variant.name,
                        format!("{} does not say which choice of {key} is right", variant.name),
                    );
                }
                Answer::Name { .. } => self.need(
                    is_role(key),
                    &variant.name,
                    format!("{} has no program with the role {key}", variant.name),
                ),
                Answer::Number { of: Some(role), .. } => {
                    self.need(is_role(role), role, format!("{} has no program with the role {role}", variant.name))
                }
                Answer::Number { of: None, .. } | Answer::Block { .. } => {}
            }
        }
        for key in variant.answers.keys() {
            self.need(
                scenario.question(key).is_some_and(|q| matches!(q.answer, Answer::Choice { .. })),
                key,
                format!("{key} is no question with choices"),
            );
        }
        for diagnosis in &variant.diagnosis {
            let role = match diagnosis {
                Diagnosis::Rule { rule, culprit } => {
                    self.rule(rule, library);
                    culprit.as_ref()
                }
                Diagnosis::Largest { largest, of } => {
                    let is_known = session::metric(largest)
                        .is_some_and(|metric| matches!(metric.dimension, Some("process" | "task" | "function")));
                    let message = format!("there is no metric {largest} of processes, tasks or functions");
                    self.need(is_known, largest, message);
                    Some(of)
                }
                Diagnosis::Component { component, of, share } => {
                    let begins =
                        |known: &Component| known.id() == component || known.id().starts_with(&format!("{component}."));
                    let is_known = Component::ALL.iter().any(begins);
                    self.need(is_known, component, format!("there is no component {component}"));
                    self.need((0.0..=1.0).contains(share), component, "a share is 0 to 1");
                    Some(of)
                }
            };
            if let Some(role) = role {
                self.need(is_role(role), role, format!("{} has no program with the role {role}", variant.name));
            }
        }
        for rule in &variant.quiet {
            self.rule(rule, library);
        }
    }

    fn rule(&mut self, rule: &String, library: &Library) {
        self.need(library.rules.contains_key(rule), rule, format!("there is no rule {rule}"));
    }

    fn question(&mut self, scenario: &Scenario, question: &Question) {
        let key = &question.key;
        self.need(is_word(key), key, "a key is lower-case letters");
        self.need(question.ask.trim().ends_with(['?', '.']), key, format!("{key} asks nothing"));
        match &question.answer {
            Answer::Choice { options, wrong } => {
                self.need(options.len() >= 3, key, format!("{key} needs three choices at least"));
                for option in options.keys() {
                    let always_right = scenario.variants.iter().all(|variant| variant.answers.get(key) == Some(option));
                    let said = wrong.get(option).is_some_and(|text| !text.trim().is_empty());
                    self.need(said || always_right, option, format!("nothing is said to the wrong choice {option}"));
                }
                for option in wrong.keys() {
                    self.need(options.contains_key(option), option, format!("{option} cannot be chosen"));
                }
            }
            Answer::Block { slack, wrong } => {
                self.need((0.01..1.0).contains(slack), key, "slack is 0.01 to 1");
                self.need(!wrong.trim().is_empty(), key, format!("nothing is said to a wrong {key}"));
            }
            Answer::Name { wrong } => {
                self.need(!wrong.trim().is_empty(), key, format!("nothing is said to a wrong {key}"))
            }
            Answer::Number { truth, of, range: [low, high], tolerance, too_low, too_high, .. } => {
                self.need(
                    low < high && low.is_finite() && high.is_finite(),
                    key,
                    format!("the range of {key} is empty"),
                );
                self.need(
                    tolerance.relative >= 0.0 && tolerance.absolute >= 0.0 && tolerance.relative < 1.0,
                    key,
                    format!("the tolerance of {key} makes no sense"),
                );
                self.need(
                    of.is_none() || truth.is_own(),
                    key,
                    format!("{} is of the whole host, not of one program", truth.word()),
                );
                self.need(
                    !too_low.trim().is_empty() && !too_high.trim().is_empty(),
                    key,
                    format!("nothing is said to a wrong {key}"),
                );
            }
        }
    }

    /// Every hole is something that will be known.
    fn texts(&mut self, scenario: &Scenario) {
        let roles: BTreeSet<&str> =
            scenario.variants.iter().flat_map(|variant| &variant.load).map(|job| job.role.as_str()).collect();
        let known = |hole: &str| match hole.split_once('.') {
            Some((role, word)) => {
                roles.contains(role) && LabMetric::ALL.iter().any(|reading| reading.is_own() && reading.word() == word)
            }
            None => roles.contains(hole) || LabMetric::ALL.iter().any(|reading| reading.word() == hole),
        };
        let mut unknown = BTreeSet::new();
        for question in &scenario.questions {
            let texts: Vec<&String> = match &question.answer {
                Answer::Choice { wrong, .. } => wrong.values().collect(),
                Answer::Name { wrong } | Answer::Block { wrong, .. } => vec![wrong],
                Answer::Number { too_low, too_high, .. } => vec![too_low, too_high],
            };
            unknown.extend(
                texts.iter().flat_map(|text| holes(text)).filter(|hole| !ANSWERED.contains(hole) && !known(hole)),
            );
        }
        let explained = scenario.variants.iter().map(|variant| &variant.explanation);
        unknown.extend(explained.chain([&scenario.solution]).flat_map(|text| holes(text)).filter(|hole| !known(hole)));
        // These are shown before anything is measured.
        unknown.extend([&scenario.symptom].into_iter().chain(&scenario.hints).flat_map(|text| holes(text)));
        for hole in unknown {
            self.say(&format!("{{{hole}}}"), format!("{{{hole}}} is neither a reading nor a program here"));
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Those that were there before.
fn unique<'t>(names: impl Iterator<Item = &'t String>) -> Vec<&'t String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::parse;

    fn text() -> &'static str {
        crate::SCENARIOS[1].1
    }

    fn messages(source: &str) -> String {
        let scenario = parse("x.yaml", source).unwrap();
        let found = problems("x.yaml", source, &scenario, &Library::read(Vec::new()));
        found.iter().map(|problem| format!("{}: {}\n", problem.line, problem.message)).collect()
    }

    #[test]
    fn the_scenarios_of_the_program_hold_together_and_are_named_as_their_files() {
        for (file, source) in crate::SCENARIOS {
            assert_eq!(messages(source), "", "{file}");
            assert_eq!(format!("{}.yaml", parse(file, source).unwrap().id), *file);
        }
    }

    #[test]
    fn what_gives_the_cause_away_or_does_not_exist_is_found() {
        for (from, to, message) in [
            ("the terminal stutters", "the terminal stutters in bursts", "gives the cause away"),
            ("truth: own_cpu", "truth: own_cpu\n      of: nowhere", "no program with the role nowhere"),
            ("answers: {cause: crowd}", "answers: {cause: crowds}", "does not say which choice of cause is right"),
            (
                "{answer} % is too high. Give",
                "{answers} % is too high. Give",
                "{answers} is neither a reading nor a program",
            ),
            ("busy_ms: [70, 95]", "busy_ms: [70, 950]", "at most 35 % of the time"),
            (
                "names: [ledgerd, indexd, mailq, pricefeed, thumbd]",
                "names: [Ledger-d, indexd]",
                "is no name of 1 to 15",
            ),
            ("id: 01-stutter", "id: stutter", "two digits"),
        ] {
            assert!(text().contains(from), "{from}");
            let found = messages(&text().replacen(from, to, 1));
            assert!(found.contains(message), "{to}: {found}");
        }
    }

    #[test]
    fn an_unknown_key_or_kind_of_work_is_an_error_with_its_place() {
        let problem = parse("x.yaml", &text().replacen("minutes: 20", "minuts: 20", 1)).unwrap_err();
        assert_eq!((problem.line, problem.hint.as_deref()), (5, Some("did you mean `minutes`?")));
        let problem = parse("x.yaml", &text().replacen("kind: bursts", "kind: shell", 1)).unwrap_err();
        assert!(problem.message.contains("unknown variant `shell`"), "{problem}");
    }
}
