//! All playbooks and rules that a run can use: built-in ones, the host's (/etc/rdiag), the user's (~/.config/rdiag) and
//! files named on the command line. A later one replaces an earlier one of the same name.

use std::collections::BTreeMap;

use super::builtin;
use super::suggest::did_you_mean;
use super::symptoms::playbook_for;
use super::{Playbook, PlaybookError, Problem, RuleFile, load};
use rdiag_judge::rules::Rule;

/// How the label of a file of the program begins.
const BUILT_IN: &str = "built-in ";

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

impl SourceFile {
    /// A file of the program, `NAME.yaml` or `rules/NAME.yaml`; for a run without its text.
    fn embedded(name: &str, text: String) -> Self {
        Self { label: format!("{BUILT_IN}{name}"), text, rules: name.starts_with("rules/"), builtin: true }
    }

    /// Gives a file of the program the text that a run had no use for, so that it can be checked.
    pub fn unpack(&mut self) -> std::io::Result<()> {
        if let Some(name) = self.label.strip_prefix(BUILT_IN).filter(|_| self.builtin) {
            self.text = builtin::texts()?.remove(name).unwrap_or_default();
        }
        Ok(())
    }
}

impl Library {
    /// Reads the built-in files and then `files`, in that order.
    #[must_use]
    pub fn read(files: Vec<SourceFile>) -> Self {
        let mut library = Self::default();
        library.add_texts();
        files.into_iter().for_each(|file| library.add(file));
        library
    }

    /// Adds the built-in files as they stand.
    fn add_texts(&mut self) {
        match builtin::texts() {
            Ok(all) => all.into_iter().for_each(|(name, text)| self.add(SourceFile::embedded(&name, text))),
            Err(error) => self.problems.push(Problem::whole("what is built in", error.to_string())),
        }
    }

    /// The same for a run of one playbook, which has no use for the tests that the built-in rules carry, for the other built-in
    /// playbooks, nor for the text of any: reading all that would be most of what a start takes. None if it is one of `files`.
    #[must_use]
    pub fn for_run(files: Vec<SourceFile>, playbook: Option<&str>) -> Self {
        let mut library = Self::default();
        library.add_rules_for_run();
        if let Some(name) = playbook {
            library.add_playbooks_for_run(name);
        }
        files.into_iter().for_each(|file| library.add(file));
        library
    }

    /// Adds the built-in playbook of this name as a run reads it. Where there is none, all others: they are what the name is compared with.
    fn add_playbooks_for_run(&mut self, name: &str) {
        let name = format!("{name}.yaml");
        let read = builtin::playbooks_for_run().and_then(|mut all| {
            if all.contains_key(name.as_str()) {
                all.retain(|file, _| *file == name);
            }
            all.into_iter().map(|(file, text)| Ok((file, serde_json::from_str(&text)?))).collect::<Result<Vec<_>, _>>()
        });
        match read {
            Ok(all) => all.into_iter().for_each(|(file, playbook)| {
                self.add_playbook(SourceFile::embedded(file, String::new()), playbook);
            }),
            Err(error) => self.problems.push(Problem::whole("the built-in playbooks", error.to_string())),
        }
    }

    /// Adds the built-in rules as a run reads them. Their files have no text: that is for [`Library::read`].
    fn add_rules_for_run(&mut self) {
        match serde_json::from_str::<BTreeMap<String, RuleFile>>(builtin::RULES_FOR_RUN) {
            Ok(all) => all.into_iter().for_each(|(name, rules)| {
                self.add_rules(SourceFile::embedded(&format!("rules/{name}"), String::new()), rules);
            }),
            Err(error) => self.problems.push(Problem::whole("the built-in rules", error.to_string())),
        }
    }

    fn add(&mut self, file: SourceFile) {
        if !file.rules {
            match load::parse::<Playbook>(&file.label, &file.text) {
                Ok(playbook) => self.add_playbook(file, playbook),
                Err(problem) => self.problems.push(problem),
            }
            return;
        }
        match load::parse::<RuleFile>(&file.label, &file.text) {
            Ok(rules) => self.add_rules(file, rules),
            Err(problem) => self.problems.push(problem),
        }
    }

    fn add_playbook(&mut self, file: SourceFile, playbook: Playbook) {
        self.playbooks.insert(playbook.name.clone(), LoadedPlaybook { playbook, file });
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
