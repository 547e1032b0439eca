//! Where the values of stacks come from: by command, object and function, and the calls between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An analysis of stacks. All values are in the unit of the stacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hot {
    /// What all shares are of: every value, those without a kept stack too.
    pub whole: f64,
    /// By the owner of the stack.
    pub commands: HotTable,
    /// By binary, library or the kernel.
    pub objects: HotTable,
    /// By function.
    pub functions: HotTable,
    /// From the outermost function inwards, always to the callee with most.
    pub path: Vec<HotRow>,
    /// Functions with what they call, from the outermost inwards.
    pub callees: CallTree,
    /// Functions by what they have of their own, with those that call them.
    pub callers: CallTree,
}

/// The largest of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotTable {
    /// Largest own value first.
    pub rows: Vec<HotRow>,
    /// Rows that were left out.
    pub others: usize,
    /// Their own values.
    pub others_self: f64,
}

/// A function, an object or a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotRow {
    /// Its name, as it was found.
    pub name: String,
    /// Of a function: the binary, library or `[kernel]` that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Whether it ran in the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
    /// Of stacks that end in it.
    #[serde(rename = "self")]
    pub own: f64,
    /// Of stacks that it is in; a stack counts once, however often the function calls itself.
    pub total: f64,
}

/// A tree of calls in which the smallest branches are cut.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallTree {
    /// Each node stands before its children, and these by value, the largest first.
    pub nodes: Vec<CallNode>,
    /// Branches that were cut.
    pub cut: usize,
    /// Their values together.
    pub cut_value: f64,
    /// The value of the largest of them.
    pub cut_largest: f64,
}

/// A function in a tree of calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallNode {
    /// How far from the root, which has 0.
    pub depth: u16,
    /// The function, or the owner.
    pub name: String,
    /// The binary, library or `[kernel]` that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Whether it ran in the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
    /// Value of the stacks that go through here.
    pub value: f64,
    /// Of these, the stacks that end here; 0 in a tree of callers.
    #[serde(rename = "self")]
    pub own: f64,
}
