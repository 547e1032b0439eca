//! The map of old tools: for every tool, subcommand, tracer, event and counter that people know, what stands for it here.
//! `playbooks/tools/*.yaml` holds it as data, one file for each kind, and `planned.yaml` the probes that are on their way.

pub mod check;
mod name;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Catalogue, Problem, builtin, load};
use name::{Pattern, key};

/// A file of tools of one kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Must be 1.
    pub format_version: u32,
    /// What its tools are, in the singular: `tool of bcc`.
    pub group: String,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Its file; not part of the text.
    #[serde(skip)]
    pub file: &'static str,
}

/// A tool, or several that answer one question, and what stands for them here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// What people call it, the first one foremost. `*` stands for anything, `PID` in a path for a process.
    pub names: Vec<String>,
    /// The question that it answers.
    pub answers: String,
    /// Probes and collectors that answer it here, the foremost first; planned ones among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// What to type today, if it is more than `rdiag probe ID`; `{name}` stands for the name that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// Why it is no part of diagnosis, for those that are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<String>,
    /// What differs from the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How to see it without rdiag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<String>,
}

/// The probes that are on their way.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Announced {
    format_version: u32,
    planned: BTreeMap<String, String>,
}

/// How a tool stands here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Its question is answered.
    Answered,
    /// What will answer it is on its way.
    Planned,
    /// Its question is no part of diagnosis.
    Outside,
}

/// All tools.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// By kind, in the order of the files.
    pub groups: Vec<Group>,
    announced: Announced,
    /// Files that could not be understood.
    pub problems: Vec<Problem>,
}

/// A tool as it was asked for.
#[derive(Debug, Clone)]
pub struct Found<'t> {
    /// What kind of tool.
    pub group: &'t str,
    /// The tool.
    pub tool: &'t Tool,
    /// Its name for people and for commands.
    pub name: String,
}

impl Tools {
    /// The map that is part of the program. What the catalogue has is shipped, whatever `planned.yaml` says.
    #[must_use]
    pub fn builtin(catalogue: &Catalogue) -> Self {
        let mut tools = Self::read(builtin::TOOLS, builtin::PLANNED);
        tools.ship(catalogue);
        tools
    }

    fn ship(&mut self, catalogue: &Catalogue) {
        self.announced.planned.retain(|id, _| !catalogue.collectors.contains(&id.as_str()));
    }

    /// Reads files, each a name and its text.
    #[must_use]
    pub fn read(files: &[(&'static str, &str)], planned: (&'static str, &str)) -> Self {
        let mut tools = Self::default();
        for (file, text) in files {
            match load::parse::<Group>(file, text) {
                Ok(group) => tools.groups.push(Group { file, ..group }),
                Err(problem) => tools.problems.push(problem),
            }
        }
        match load::parse(planned.0, planned.1) {
            Ok(announced) => tools.announced = announced,
            Err(problem) => tools.problems.push(problem),
        }
        tools
    }

    /// All tools, each with its kind.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Tool)> {
        self.groups.iter().flat_map(|group| group.tools.iter().map(|tool| (group.group.as_str(), tool)))
    }

    /// What a probe that is on its way will answer.
    #[must_use]
    pub fn planned(&self, id: &str) -> Option<&str> {
        self.announced.planned.get(id).map(String::as_str)
    }

    /// How a tool stands here: what answers it foremost decides.
    #[must_use]
    pub fn standing(&self, tool: &Tool) -> Standing {
        match tool.by.first() {
            _ if tool.outside.is_some() => Standing::Outside,
            Some(id) if self.planned(id).is_some() => Standing::Planned,
            _ => Standing::Answered,
        }
    }

    /// The tool of exactly this name; case, hyphens, folders, `.py`, `-bpfcc` and the like do not matter.
    #[must_use]
    pub fn named(&self, asked: &str) -> Option<Found<'_>> {
        let wanted = key(asked);
        let inside = wanted.strip_prefix(name::TRACEFS).unwrap_or(&wanted);
        self.exact(&wanted).or_else(|| self.exact(inside)).or_else(|| self.like(asked, inside))
    }

    /// The tool that was probably asked for: options, arguments, event modifiers and parentheses behind its name are cut off.
    #[must_use]
    pub fn find(&self, asked: &str) -> Option<Found<'_>> {
        let whole = name::without_options(asked);
        let with_modifier = || {
            let (event, letters) = whole.rsplit_once(':')?;
            let found = self.named(event).filter(|_| name::is_modifier(letters))?;
            Some(Found { name: whole.clone(), ..found })
        };
        self.named(asked)
            .or_else(|| self.named(&whole))
            .or_else(|| self.named(whole.split_once('(')?.0))
            .or_else(with_modifier)
            .or_else(|| self.first_words(&whole))
    }

    /// Names for "did you mean".
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all().flat_map(|(_, tool)| &tool.names).map(String::as_str).filter(|name| !name.contains('*'))
    }

    fn exact(&self, wanted: &str) -> Option<Found<'_>> {
        self.all().find_map(|(group, tool)| {
            let name = tool.names.iter().find(|name| key(name) == wanted)?;
            Some(Found { group, tool, name: name.clone() })
        })
    }

    /// The tool with the narrowest pattern that fits.
    fn like(&self, asked: &str, wanted: &str) -> Option<Found<'_>> {
        let patterns = self.all().flat_map(|(group, tool)| tool.names.iter().map(move |name| (group, tool, name)));
        let fitting = patterns.filter_map(|(group, tool, name)| {
            let pattern = Pattern::new(name)?;
            pattern.fits(wanted).then_some((pattern.literal(), group, tool))
        });
        let (_, group, tool) = fitting.max_by_key(|(literal, ..)| *literal)?;
        Some(Found { group, tool, name: asked.trim().to_owned() })
    }

    /// `strace ls` is a use of strace. A program with subcommands of its own is not meant by an unknown one.
    fn first_words(&self, whole: &str) -> Option<Found<'_>> {
        let words: Vec<&str> = whole.split_whitespace().collect();
        (1..words.len()).rev().find_map(|count| {
            let start = words.get(..count)?.join(" ");
            let family = format!("{} ", key(&start));
            let has_subcommands = self.names().any(|name| key(name).starts_with(&family));
            self.named(&start).filter(|_| count > 1 || !has_subcommands)
        })
    }
}

#[cfg(test)]
mod tests;
