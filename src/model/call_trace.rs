//! Calls of functions as they happened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls one after the other; what a call called itself follows it at once, one deeper.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallTrace {
    /// Name within the probe.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The calls.
    pub calls: Vec<Call>,
    /// Calls that were left out because there were too many.
    #[serde(default)]
    pub others: u64,
    /// Calls that were left out because they were too deep.
    #[serde(default)]
    pub deeper: u64,
}

/// One call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// How many calls of this trace it was called through: 0 for the outermost.
    pub depth: u32,
    /// The function.
    pub function: String,
    /// How long it took, with all that it called; none if its end was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// When it began, in seconds since the start.
    pub at: f64,
    /// The CPU on which it began.
    pub cpu: u32,
    /// Whose call it is; of the outermost only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl CallTrace {
    /// The first calls; the others are counted.
    #[must_use]
    pub fn first(&self, most: usize) -> Self {
        let mut kept = self.clone();
        let cut = kept.calls.split_off(most.min(kept.calls.len()));
        kept.others = kept.others.saturating_add(cut.len() as u64);
        kept
    }

    /// The depth of each call as it is drawn: at most one more than that of the call before, whatever a file says.
    pub fn depths(&self) -> impl Iterator<Item = usize> {
        let mut most = 0;
        self.calls.iter().map(move |call| {
            let depth = (call.depth as usize).min(most);
            most = depth + 1;
            depth
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_drawn_more_than_one_deeper_than_the_one_before() {
        let call = |depth| Call { depth, ..Call::default() };
        let trace = CallTrace { calls: [3, 7, u32::MAX, 0, 1, 1, 3].map(call).to_vec(), ..CallTrace::default() };
        assert_eq!(trace.depths().collect::<Vec<_>>(), [0, 1, 2, 0, 1, 1, 2]);
        let first = trace.first(2);
        assert_eq!((first.calls.len(), first.others), (2, 5));
    }
}
