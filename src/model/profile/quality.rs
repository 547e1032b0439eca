//! How far a profile can be trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far the account can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quality {
    /// A: at most 1 % is unaccounted or over-accounted, B: 5 %, C: 15 %, D: more; one lower for each check that failed.
    pub grade: Grade,
    /// (unaccounted + over-accounted) / T.
    pub residual_share: f64,
    /// The checks against other accounts of the same time.
    pub checks: Vec<Check>,
    /// In words.
    pub words: String,
}

/// A grade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "see Quality::grade")]
pub enum Grade {
    A,
    B,
    C,
    #[default]
    D,
}

/// A check against another account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// `cpu`, `run_queue`, `lifetimes`, `block_io`, `signs`.
    pub id: String,
    /// Whether it agrees, or where it does not, what is different is known to be right in both; none where it could not be made.
    pub agrees: Option<bool>,
    /// The figures in a sentence, or why it could not be made.
    pub words: String,
    /// Seconds that the other account has in another line by a rule of its own, where they agree but for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise_seconds: Option<f64>,
}
