//! A scenario as it stands in YAML (`lab-scenarios/NN-name.yaml`): a symptom, the load that causes it, questions, and what is said
//! to each answer. It is data: it names loads and readings that rdiag has, and can neither run a command nor name a file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::load::work::Work;
use super::reading::LabMetric;

/// The format version that this program reads.
pub(super) const FORMAT_VERSION: u32 = 1;

/// An exercise.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Must be 1.
    pub format_version: u32,
    /// The name on the command line, the same as the file's: two digits, a hyphen, a word that gives no cause away.
    pub id: String,
    /// The symptom in a few words.
    pub title: String,
    /// 1 (first steps) to 3 (needs experience).
    pub level: u8,
    /// How long it takes a student, in minutes.
    pub minutes: u32,
    /// What it is about, for lists: `cpu`, `io`, `processes` …
    pub topics: Vec<String>,
    /// What can be done afterwards that could not be done before.
    pub teaches: Vec<String>,
    /// What users complain of: Markdown, without the cause.
    pub symptom: String,
    /// Words that would give the cause away; they may stand neither in the title nor in the symptom.
    pub spoilers: Vec<String>,
    /// What the load may use.
    pub limits: Bounds,
    /// How it is known that the symptom is there.
    pub meter: Meter,
    /// Different causes of one symptom; the seed chooses.
    pub variants: Vec<Variant>,
    /// What the student is asked, in order.
    pub questions: Vec<Question>,
    /// From the first nudge to the last; each names the next observation, not the answer.
    pub hints: Vec<String>,
    /// The way to the answer, with `{holes}` that are filled with what is measured at that moment.
    pub solution: String,
}

/// What the load may use; the kernel and the runner enforce it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// How long it runs if nothing else is said, in seconds.
    pub seconds: u32,
    /// How long it may run at most (`--for`), in seconds; no more than 3600.
    pub max_seconds: u32,
    /// Memory, in MiB; start is refused unless twice as much is available.
    pub memory_mib: u32,
    /// Disk space, in MiB; start is refused unless four times as much and 1 GiB is free.
    pub disk_mib: u32,
    /// Processes and threads at one time.
    pub tasks: u32,
}

/// The symptom as a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Meter {
    /// What is read.
    pub reading: LabMetric,
    /// The symptom is there from this value on, in the reading's base unit …
    pub at_least: f64,
    /// … and if it is this many times what it was before the load began. With 1 it is not compared with that: a disk that others kept
    /// busy before is no reason why this load does not.
    pub times_baseline: f64,
}

impl Meter {
    /// Whether the symptom is judged relative to the baseline before the load began.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        self.times_baseline > 1.0
    }

    /// Whether the symptom is there, from what was read before and is read now.
    #[must_use]
    pub fn is_reached(&self, before: f64, now: f64) -> bool {
        now >= self.at_least && (!self.is_compared() || now >= before * self.times_baseline)
    }
}

/// One cause.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// For `--variant` and teachers.
    pub name: String,
    /// What the host must offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// What runs.
    pub load: Vec<Job>,
    /// The right choice, by key of the question.
    pub answers: BTreeMap<String, String>,
    /// What happens here, for the solution; `{holes}` are filled.
    pub explanation: String,
    /// What rdiag itself must say of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnosis: Vec<Diagnosis>,
    /// Rules that must not blame a program of the load, since the look-alike is another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<String>,
}

/// What a variant needs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Two CPUs at least that this process may use.
    TwoCpus,
    /// Two CPUs on which writing to one line of their caches costs clearly more than writing to two.
    CostlyNeighbours,
    /// The right to run before ordinary work (CAP_SYS_NICE, or root).
    RealTime,
    /// Files that can be read past the page cache (O_DIRECT) from a disk with counters of its own.
    DirectReads,
    /// Transparent huge pages, at least for those who ask for them.
    HugePages,
    /// Mounting a file system (CAP_SYS_ADMIN).
    SmallFileSystem,
    /// Adding swap space in a file (CAP_SYS_ADMIN).
    SwapSpace,
    /// A network of its own, with packets steered to one CPU (CAP_SYS_ADMIN).
    OwnNetwork,
    /// Watching functions of programs (uprobes, eBPF).
    Uprobes,
    /// A virtual machine that was set aside for kernel modules, with what it takes to build and load one.
    KernelModule,
    /// The kernel's in-memory disk (null_blk), not in use yet.
    SlowDisk,
}

/// A program of the load.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// What it is in the texts (`{role}` is its name), and the key of the question that asks for it.
    pub role: String,
    /// Names of which the seed takes one: 1 to 15 lower-case letters, that give nothing away.
    pub names: Vec<String>,
    /// What it does.
    pub work: Work,
    /// Its limit, in a control group of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// What rdiag must find by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Diagnosis {
    /// A rule of the playbook use-method must fire.
    Rule {
        /// Its id; it must at least be `info`.
        rule: String,
        /// The role whose name must be the culprit's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        culprit: Option<String>,
    },
    /// A metric by process or function must have its largest value with a program of the load; whatever gives the metric is switched on
    /// for it.
    Largest {
        /// Id of the metric.
        largest: String,
        /// The role that must have the most of it.
        of: String,
    },
    /// The playbook method-r, of a program of the load, must put its time down to this.
    Component {
        /// Component of response time, or the beginning of its id: `io.block`.
        component: String,
        /// The role of the program.
        of: String,
        /// Its share of the time of all threads, at least, 0 to 1.
        share: f64,
    },
}

/// One thing that is asked.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// On the command line: `rdiag lab answer key=value`.
    pub key: String,
    /// The question.
    pub ask: String,
    /// What is an answer.
    pub answer: Answer,
}

/// What is an answer to a question, and what is said to a wrong one.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// One of several; the right one stands with the variant.
    Choice {
        /// What can be chosen, by the word to answer with.
        options: BTreeMap<String, String>,
        /// What is said to each one if it is wrong; `{holes}` are filled.
        wrong: BTreeMap<String, String>,
    },
    /// The name (or process id) of the program whose role is the question's key.
    Name {
        /// What is said to another one.
        wrong: String,
    },
    /// A size of block, in KiB: the one with which copying a file by system calls costs least, tried out at that moment.
    Block {
        /// How much more than the least a right answer may cost: 0.25 is a quarter.
        slack: f64,
        /// What is said to one that costs more.
        wrong: String,
    },
    /// A number, compared with what is measured at that moment.
    Number {
        /// In what unit it is given.
        unit: Shown,
        /// What is measured.
        truth: LabMetric,
        /// Of which program of the load; of all together if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<String>,
        /// The smallest and the largest number that make sense.
        range: [f64; 2],
        /// How far off it may be.
        tolerance: Tolerance,
        /// What is said to a number that is too small.
        too_low: String,
        /// What is said to a number that is too large.
        too_high: String,
    },
}

/// How far off a number may be: the larger of the two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// As a part of the truth: 0.3 is ±30 %.
    pub relative: f64,
    /// In the unit of the answer.
    pub absolute: f64,
}

/// In what a number is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Milliseconds.
    Milliseconds,
    /// Percent.
    Percent,
    /// A number of things.
    Count,
    /// MiB per second.
    MebibytesPerSecond,
    /// A number of things per second.
    PerSecond,
}

impl Shown {
    /// How many of these one base unit (second, ratio, count) is.
    #[must_use]
    pub fn per_base(self) -> f64 {
        match self {
            Self::Milliseconds => 1000.0,
            Self::Percent => 100.0,
            Self::Count | Self::PerSecond => 1.0,
            Self::MebibytesPerSecond => 1.0 / 1_048_576.0,
        }
    }

    /// Behind the number.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Milliseconds => " ms",
            Self::Percent => " %",
            Self::Count => "",
            Self::MebibytesPerSecond => " MiB/s",
            Self::PerSecond => " /s",
        }
    }
}

impl Scenario {
    /// The variant of this name, or of this number counted from 1.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        let number = name.parse::<usize>().ok();
        let is_meant = |(at, variant): &(usize, &Variant)| variant.name == name || number == Some(at + 1);
        self.variants.iter().enumerate().find(is_meant).map(|(_, variant)| variant)
    }

    /// The question with this key.
    #[must_use]
    pub fn question(&self, key: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.key == key)
    }

    /// Whether a reading is what a question asks for.
    #[must_use]
    pub fn asks_for(&self, reading: LabMetric) -> bool {
        self.questions
            .iter()
            .any(|question| matches!(&question.answer, Answer::Number { truth, .. } if *truth == reading))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symptom_is_compared_with_what_was_there_before_only_if_it_must_be_larger() {
        let meter = |times_baseline| Meter { reading: LabMetric::DiskBusy, at_least: 0.4, times_baseline };
        assert!(meter(1.0).is_reached(0.95, 0.88), "others kept the disk busy before");
        assert!(!meter(1.0).is_reached(0.0, 0.39) && meter(1.0).is_reached(0.0, 0.4));
        assert!(!meter(1.5).is_reached(0.3, 0.44) && meter(1.5).is_reached(0.3, 0.45));
    }
}
