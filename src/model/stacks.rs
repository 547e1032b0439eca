//! Sums by stack, as a probe gives them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// Sums by stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stacks {
    /// Name within the probe.
    pub id: String,
    /// What is summed.
    pub title: String,
    /// Base unit of the values.
    pub unit: Unit,
    /// What the tasks were doing there.
    #[serde(default)]
    pub activity: Activity,
    /// The distinct frames.
    pub frames: Vec<Frame>,
    /// The distinct stacks, largest value first.
    pub stacks: Vec<Stack>,
    /// Sum over stacks that were left out.
    #[serde(default)]
    pub others: f64,
    /// Values of the stacks in which at least one frame has no name.
    pub unresolved: f64,
    /// Values of the stacks that probably do not reach their thread's start: code without frame pointers, or too deep.
    pub truncated: f64,
    /// Values whose stack could not be taken at all.
    pub missing: f64,
}

/// What tasks were doing where a stack was taken, which says what "self" and "total" mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Something happened there.
    #[default]
    Event,
    /// They ran on a CPU.
    Running,
    /// They slept.
    Waiting,
}

/// A frame, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Function, demangled; an address where it has no name.
    pub name: String,
    /// Binary, library or `[kernel]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// `file:line`, where debug information tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Whether it ran in the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
}

/// A stack and what it sums up to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Whose it is: `process` name and the like, shown below the frames.
    pub owner: String,
    /// Process id, where stacks are kept by process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Indices into `frames`, outermost first.
    pub frames: Vec<u32>,
    /// Sum in the unit of the whole.
    pub value: f64,
    /// How many times it was seen.
    pub count: u64,
}

impl Stacks {
    /// Folded text, one line per stack as flame graph programs read it; kernel frames end with `_[k]`. Values are
    /// multiplied by `scale` and rounded, since the format knows whole numbers only.
    #[must_use]
    pub fn folded(&self, scale: f64) -> String {
        let clean = |name: &str| name.replace([';', '\n', '\r'], ":");
        let mut text = String::new();
        for stack in &self.stacks {
            text.push_str(&clean(&stack.owner));
            for frame in stack.frames.iter().filter_map(|index| self.frames.get(*index as usize)) {
                text.push(';');
                text.push_str(&clean(&frame.name));
                if frame.kernel {
                    text.push_str("_[k]");
                }
            }
            text.push_str(&format!(" {:.0}\n", (stack.value * scale).round()));
        }
        text
    }
}
