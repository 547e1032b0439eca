//! All playbooks and rules that a run can use: built-in ones, the host's (/etc/rdiag), the user's (~/.config/rdiag) and
//! files named on the command line. A later one replaces an earlier one of the same name.

use std::collections::BTreeMap;

use super::builtin;
use super::suggest::did_you_mean;
use super::symptoms::playbook_for;
use super::{PLAYBOOKS, Playbook, PlaybookError, Problem, RuleFile, load};
use rdiag_judge::rules::Rule;

/// A file as it was read.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its path, or `built-in NAME`.
    pub label: String,
    /// Its text.
    pub text: String,
    /// Whether it holds rules rather than a playbook.
    pub rules: bool,
    /// Whether it is part of the program.
    pub builtin: bool,
}

/// A playbook with the file it comes from.
#[derive(Debug, Clone)]
pub struct LoadedPlaybook {
    /// The playbook.
    pub playbook: Playbook,
    /// Its file.
    pub file: SourceFile,
}

/// A rule with the file it comes from.
#[derive(Debug, Clone)]
pub struct LoadedRule {
    /// The rule.
    pub rule: Rule,
    /// Label of its file.
    pub label: String,
    /// Index of its file in [`Library::rule_files`].
    pub file: usize,
    /// `default` for built-in rules, otherwise the file.
    pub origin: String,
}

/// Everything that was read.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// By name.
    pub playbooks: BTreeMap<String, LoadedPlaybook>,
    /// By id.
    pub rules: BTreeMap<String, LoadedRule>,
    /// The files of rules.
    pub rule_files: Vec<SourceFile>,
    /// Files that could not be understood.
    pub problems: Vec<Problem>,
}

/// A file of the program.
fn embedded(name: &str, text: String, rules: bool) -> SourceFile {
    let label = format!("built-in {}{name}", if rules { "rules/" } else { "" });
    SourceFile { label, text, rules, builtin: true }
}

impl Library {
    /// Reads the built-in files and then `files`, in that order.
    #[must_use]
    pub fn read(files: Vec<SourceFile>) -> Self {
        let mut library = Self::default();
        match builtin::rules() {
            Ok(rules) => rules.into_iter().for_each(|(name, text)| library.add(embedded(&name, text, true))),
            Err(error) => library.problems.push(Problem::whole("the built-in rules", error.to_string())),
        }
        library.add_all(PLAYBOOKS, files);
        library
    }

    /// The same for a run of one playbook, which has no use for the tests that the built-in rules carry, nor for the other built-in
    /// playbooks: reading them would be more than half of what a start takes. None if it is one of `files`.
    #[must_use]
    pub fn for_run(files: Vec<SourceFile>, playbook: Option<&str>) -> Self {
        let at = |name| PLAYBOOKS.iter().position(|(file, _)| file.strip_suffix(".yaml") == Some(name));
        let playbooks = match playbook {
            None => &[],
            // Where the name is wrong, all others are what it is compared with.
            Some(name) => at(name).and_then(|at| PLAYBOOKS.get(at..=at)).unwrap_or(PLAYBOOKS),
        };
        let mut library = Self::default();
        library.add_rules_for_run();
        library.add_all(playbooks, files);
        library
    }

    /// Adds built-in playbooks, and then files.
    fn add_all(&mut self, playbooks: &[(&str, &str)], files: Vec<SourceFile>) {
        let playbooks = playbooks.iter().map(|(name, text)| embedded(name, (*text).to_owned(), false));
        playbooks.chain(files).for_each(|file| self.add(file));
    }

    /// Adds the built-in rules as a run reads them. Their files have no text: that is for [`Library::read`].
    fn add_rules_for_run(&mut self) {
        match serde_json::from_str::<BTreeMap<String, RuleFile>>(builtin::RULES_FOR_RUN) {
            Ok(all) => {
                all.into_iter().for_each(|(name, rules)| self.add_rules(embedded(&name, String::new(), true), rules))
            }
            Err(error) => self.problems.push(Problem::whole("the built-in rules", error.to_string())),
        }
    }

    fn add(&mut self, file: SourceFile) {
        if !file.rules {
            match load::parse::<Playbook>(&file.label, &file.text) {
                Ok(playbook) => {
                    self.playbooks.insert(playbook.name.clone(), LoadedPlaybook { playbook, file });
                }
                Err(problem) => self.problems.push(problem),
            }
            return;
        }
        match load::parse::<RuleFile>(&file.label, &file.text) {
            Ok(rules) => self.add_rules(file, rules),
            Err(problem) => self.problems.push(problem),
        }
    }

    fn add_rules(&mut self, file: SourceFile, RuleFile(rules): RuleFile) {
        let index = self.rule_files.len();
        for rule in rules {
            let again = self.rules.get(&rule.id).is_some_and(|known| known.file == index);
            if again {
                let message = format!("the rule {} stands in this file twice", rule.id);
                self.problems.push(Problem::at(&file.label, &file.text, 0, &rule.id, message));
            }
            let origin = if file.builtin { "default".to_owned() } else { file.label.clone() };
            let loaded = LoadedRule { label: file.label.clone(), file: index, origin, rule };
            self.rules.insert(loaded.rule.id.clone(), loaded);
        }
        self.rule_files.push(file);
    }

    /// The playbook of this name.
    pub fn playbook(&self, name: &str) -> Result<&LoadedPlaybook, PlaybookError> {
        self.playbooks.get(name).ok_or_else(|| PlaybookError::NotFound {
            name: name.to_owned(),
            hint: playbook_for(self, name)
                .filter(|_| name.contains(' '))
                .map(|known| format!("`rdiag run {known}` looks for the cause"))
                .or_else(|| did_you_mean(name, self.playbooks.keys().map(String::as_str)))
                .or_else(|| Some("`rdiag list playbooks` shows them; a file is given as a path, ./my.yaml".into())),
        })
    }
}
