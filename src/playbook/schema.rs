//! A playbook as it stands in YAML.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{AnswerTest, Answering};
use rdiag_judge::rules::Rule;

/// The format version that this program reads.
pub const FORMAT_VERSION: u32 = 1;

/// An ordered diagnosis.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Playbook {
    /// Must be 1.
    pub format_version: u32,
    /// The name on the command line: lower case, digits and hyphens.
    pub name: String,
    /// What a person reads in lists and at the head of the report.
    pub title: String,
    /// Which method it executes.
    #[serde(default)]
    pub method: Method,
    /// What a person says or a program prints: `no space left on device`. For playbooks that start from a symptom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symptoms: Vec<String>,
    /// How the symptom is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answering>,
    /// What can be set with `--param`; `duration` and `interval` also by their own options.
    #[serde(default)]
    pub params: BTreeMap<String, Param>,
    /// Thresholds of this playbook that differ from the rules' own, by rule id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Override>,
    /// The questions, in order.
    pub steps: Vec<Step>,
    /// Tests of the answer: readings and statuses in, cause out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<AnswerTest>,
}

/// The method behind a playbook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Utilization, saturation and errors of every resource.
    Use,
    /// The time of one task, in full.
    MethodR,
    /// No particular method.
    #[default]
    Free,
}

/// A parameter with its default.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// What values it takes.
    #[serde(rename = "type")]
    pub kind: ParamType,
    /// The value when nothing is given.
    pub default: serde_json::Value,
    /// What it is for.
    pub help: String,
}

/// What values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParamType {
    /// `500ms`, `10s`, `2m`, `1h`.
    Duration,
    /// A number.
    Number,
    /// Any text.
    Text,
}

/// Thresholds that replace those of a rule.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Condition for `info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<String>,
    /// Condition for `warning`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Condition for `critical`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<String>,
    /// Intervals in a row.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<usize>,
    /// Why they differ here.
    pub why: String,
}

/// One question of a playbook.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Unique in the playbook.
    pub id: String,
    /// What is asked.
    pub question: String,
    /// Why it is asked and how to read the answer: Markdown.
    #[serde(default)]
    pub teach: String,
    /// Runs only if this holds, in a window of its own: `status("cpu.saturation") >= warning`. It begins within the first window, as soon
    /// as the condition holds there, and ends with it; after the windows of other drill-downs if it asks for what these found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Collectors and probes that it needs.
    pub collect: Vec<Measure>,
    /// Rules that answer it.
    pub rules: Vec<String>,
}

/// A collector or probe: its name, or `{runqlat: {top: 5}}` with parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Measure {
    /// With its defaults.
    Plain(String),
    /// One name and its parameters.
    With(BTreeMap<String, BTreeMap<String, serde_json::Value>>),
}

impl Measure {
    /// The name of the collector or probe.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Plain(id) => id,
            Self::With(with) => with.keys().next().map_or("", String::as_str),
        }
    }

    /// Its parameters as text.
    #[must_use]
    pub fn params(&self) -> BTreeMap<String, String> {
        let Self::With(with) = self else { return BTreeMap::new() };
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        with.values().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
    }
}

impl Measure {
    /// The same with the playbook's parameters in place of their names: `$duration`.
    #[must_use]
    pub fn resolve(&self, params: &BTreeMap<String, String>) -> Self {
        let Self::With(with) = self else { return self.clone() };
        let mut with = with.clone();
        for value in with.values_mut().flat_map(BTreeMap::values_mut) {
            let given = value.as_str().and_then(|text| text.strip_prefix('$')).and_then(|name| params.get(name));
            if let Some(given) = given {
                *value = serde_json::Value::String(given.clone());
            }
        }
        Self::With(with)
    }
}

/// A file of rules.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RuleFile(pub Vec<Rule>);

impl Override {
    /// The rule with these thresholds in place of its own.
    #[must_use]
    pub fn apply(&self, rule: &Rule) -> Rule {
        let mut changed = rule.clone();
        for (own, new) in [
            (&mut changed.info, &self.info),
            (&mut changed.warning, &self.warning),
            (&mut changed.critical, &self.critical),
        ] {
            if new.is_some() {
                own.clone_from(new);
            }
        }
        changed.hold = self.hold.or(changed.hold);
        changed.why = format!("{} Here it differs: {}", changed.why.trim(), self.why.trim());
        changed
    }
}
