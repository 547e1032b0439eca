//! A rule as it stands in YAML.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use rdiag_model::{Kind, NextStep, Resource, Status, Unit, status::parse_rule_id};

/// One question of the checklist, with its thresholds, its words and its tests.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `resource.kind` or `resource.kind.what`.
    pub id: String,
    /// What it looks at, in a few words, for tables and headlines.
    pub title: String,
    /// The judged quantity: an expression over metrics (`cpu.busy.ratio.mean`).
    pub value: String,
    /// Base unit of `value`.
    pub unit: Unit,
    /// Whether the rule makes sense at all for this host or instance; if not, the finding is `skipped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applies: Option<Condition>,
    /// Condition over `value` for `info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<String>,
    /// Condition over `value` for `warning`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Condition over `value` for `critical`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<String>,
    /// How many intervals in a row a condition must hold. Without it, the whole window is judged at once.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<usize>,
    /// What refutes the rule although a condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<Condition>,
    /// The sentence when it fires: a template.
    pub says: String,
    /// The sentence when it does not: a template.
    pub quiet: String,
    /// The reason for the thresholds, and where they come from.
    pub why: String,
    /// Who is behind it: `top(process.cpu.seconds)`, `top(…, label=…)`, `instance`, `log("oom")`, `top(…) or instance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// Class of kernel log lines that belong to the evidence, or a list of classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "classes")]
    #[schemars(with = "Classes")]
    pub log: Vec<String>,
    /// The commands that show the same by hand.
    pub verify: String,
    /// What to do next; steps that only read come first.
    pub next: Vec<Next>,
    /// In which situations its words would be false, each with what keeps it from saying them there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub false_if: Vec<FalseIf>,
    /// Readings in, status out; at least one that fires and one that stays quiet.
    pub tests: Vec<RuleTest>,
    /// Changes of this rule that no test can notice, as `rdiag check` names them, each with the reason why not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub equivalent: BTreeMap<String, String>,
}

/// One class of kernel log lines, or several.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Classes {
    One(String),
    Several(Vec<String>),
}

fn classes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(match Classes::deserialize(from)? {
        Classes::One(class) => vec![class],
        Classes::Several(classes) => classes,
    })
}

/// An expression with the words that explain it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The expression.
    pub when: String,
    /// What it means, for the report.
    pub because: String,
}

/// A situation in which the words of a rule would be false, and one thing that excludes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FalseIf {
    /// What the host is like then.
    pub situation: String,
    /// The name of a test of the rule that shows it quiet there, or below warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// The part of the rule that excludes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Words of `says` or `why` that leave it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// A part of a rule that excludes a situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// `applies`.
    Applies,
    /// `unless`.
    Unless,
    /// `for`.
    For,
}

impl FalseIf {
    /// What excludes it, in words.
    #[must_use]
    pub fn excluded(&self) -> String {
        let test = self.test.as_ref().map(|name| format!("test: {name}"));
        let part = self.part.map(|part| match part {
            Part::Applies => "by `applies`".to_owned(),
            Part::Unless => "by `unless`".to_owned(),
            Part::For => "by `for`".to_owned(),
        });
        let caveat = self.caveat.as_ref().map(|words| format!("it says: {words}"));
        test.or(part).or(caveat).unwrap_or_default()
    }
}

/// A next step: plain text if it only reads, `{do, changes_host: true}` if it changes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Next {
    /// Reads only.
    Reads(String),
    /// Says whether it changes the host.
    Full(NextStep),
}

impl Next {
    /// What is to be done.
    #[must_use]
    pub fn action(&self) -> &str {
        match self {
            Self::Reads(action) => action,
            Self::Full(step) => &step.action,
        }
    }

    /// As it stands in a finding.
    #[must_use]
    pub fn step(&self) -> NextStep {
        match self {
            Self::Reads(action) => NextStep { action: action.clone(), changes_host: false },
            Self::Full(step) => step.clone(),
        }
    }
}

/// A test of a rule, run by `rdiag check`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTest {
    /// What it is about, in a few words, for `false_if`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Values by reference (`cpu.busy.ratio.mean`, `host.cpus`, `label.fstype`, `log.oom` for the subject that the kernel log names);
    /// `null` is a metric that is not available. The judged instance is called `test`.
    pub given: BTreeMap<String, Option<Given>>,
    /// The status that must come out.
    pub expect: Status,
    /// The name of the culprit that must come out, `null` for none; not looked at where it is left out.
    #[serde(default, deserialize_with = "stated", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub culprit: Option<Option<String>>,
    /// What the sentence of the finding must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

/// Tells `culprit: null` from no `culprit` at all.
fn stated<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A value given in a rule test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Given {
    /// A number: every statistic of the metric that is not given by itself.
    Number(f64),
    /// A truth value.
    Flag(bool),
    /// Text, for labels.
    Text(String),
    /// One number for each interval of the window; the statistics follow from them.
    Intervals(Vec<f64>),
    /// A number for each instance, by its name: `process.cpu.seconds: {postgres: 8, nginx: 1}`.
    Instances(BTreeMap<String, GivenInstance>),
}

/// An instance of a metric in a rule test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GivenInstance {
    /// A number.
    Number(f64),
    /// A number with labels: `{value: 8, cgroup: /system.slice}`.
    Labelled {
        /// The number.
        value: f64,
        /// Labels by name.
        #[serde(flatten)]
        labels: BTreeMap<String, String>,
    },
}

impl Rule {
    /// Row and column in the matrix; none when the id is not well formed (which validation refuses).
    #[must_use]
    pub fn cell(&self) -> Option<(Resource, Kind)> {
        parse_rule_id(&self.id)
    }

    /// The conditions from the worst down, with the status that each gives.
    #[must_use]
    pub fn conditions(&self) -> Vec<(Status, &str)> {
        let all = [(Status::Critical, &self.critical), (Status::Warning, &self.warning), (Status::Info, &self.info)];
        all.into_iter().filter_map(|(status, text)| Some((status, text.as_deref()?))).collect()
    }

    /// Situations of `false_if` that nothing excludes, each with what is wrong.
    #[must_use]
    pub fn open_situations(&self) -> Vec<String> {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let worst = self.conditions().first().map(|(status, _)| *status);
        let is_quiet = |name: &String| {
            let test = self.tests.iter().find(|test| test.name.as_ref() == Some(name));
            test.is_some_and(|test| !test.expect.fired() || test.expect == Status::Info && worst > Some(Status::Info))
        };
        let wrong = |one: &FalseIf| {
            let count = [one.test.is_some(), one.part.is_some(), one.caveat.is_some()].map(usize::from).iter().sum();
            let has_part = |part: &Part| match part {
                Part::Applies => self.applies.is_some(),
                Part::Unless => self.unless.is_some(),
                Part::For => self.hold.is_some(),
            };
            let is_said =
                |words: &String| [&self.says, &self.why].iter().any(|text| flat(text).contains(words.as_str()));
            match (count, &one.test, &one.part, &one.caveat) {
                (1, Some(name), ..) if !is_quiet(name) => Some(format!("no test named {name:?} shows the rule quiet")),
                (1, _, Some(part), _) if !has_part(part) => Some("the rule has no such part".to_owned()),
                (1, _, _, Some(words)) if !is_said(words) => Some(format!("neither `says` nor `why` has {words:?}")),
                (1, ..) => None,
                _ => Some("give one of test, part and caveat".to_owned()),
            }
        };
        let open = |one: &FalseIf| Some(format!("false_if {:?}: {}", one.situation, wrong(one)?));
        self.false_if.iter().filter_map(open).collect()
    }

    /// All expressions, with the key that each stands under.
    #[must_use]
    pub fn expressions(&self) -> Vec<(&'static str, &str)> {
        let mut all = vec![("value", self.value.as_str())];
        let optional = [
            ("info", &self.info),
            ("warning", &self.warning),
            ("critical", &self.critical),
            ("culprit", &self.culprit),
        ];
        all.extend(optional.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?))));
        let conditions = [("applies", &self.applies), ("unless", &self.unless)];
        all.extend(conditions.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?.when.as_str()))));
        all
    }
}
