//! Playbooks and rules: what they look like, where they come from, whether they hold together, and the plan that
//! follows from one; and the map of old tools.

pub mod advice;
mod answer;
mod builtin;
pub mod check;
mod error;
mod library;
pub mod load;
mod plan;
mod schema;
pub mod suggest;
mod symptoms;
pub mod tools;
pub mod untested;
pub mod words;

pub use answer::{AnswerTest, Answering, PossibleCause, Seen, conclude};
pub use builtin::is_builtin;
pub use error::{PlaybookError, Problem};
pub use library::{Library, LoadedPlaybook, LoadedRule, SourceFile};
pub use plan::{DEFAULT_BUDGET, Plan, PlannedStep, budget, duration, statuses_cited};
pub use schema::{FORMAT_VERSION, Measure, Method, Override, Param, ParamType, Playbook, RuleFile, Step};

use std::collections::BTreeMap;

use rdiag_model::Unit;

/// Name and parameters of a collector or probe → what is wrong with them.
pub type ParamCheck = fn(&str, &BTreeMap<String, String>) -> Option<String>;

/// What playbooks and rules may cite: the catalogue, without the collectors themselves.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// Ids of collectors and probes.
    pub collectors: Vec<&'static str>,
    /// What is wrong with the parameters given to one of them, in a sentence.
    pub wrong_params: Option<ParamCheck>,
    /// Metrics.
    pub metrics: Vec<CatalogueMetric>,
}

/// A metric as validation needs it.
#[derive(Debug, Clone, Copy)]
pub struct CatalogueMetric {
    /// Metric id.
    pub id: &'static str,
    /// The collector that defines it.
    pub collector: &'static str,
    /// Base unit.
    pub unit: Unit,
    /// What its instances are.
    pub dimension: Option<&'static str>,
}

impl Catalogue {
    /// The metric id at the start of a dotted path.
    #[must_use]
    pub fn resolve(&self, path: &str) -> Option<String> {
        let mut end = path.len();
        loop {
            let candidate = path.get(..end)?;
            if self.metric(candidate).is_some() {
                return Some(candidate.to_owned());
            }
            end = candidate.rfind('.')?;
        }
    }

    /// The ids of all metrics.
    #[must_use]
    pub fn metric_ids(&self) -> Vec<&'static str> {
        self.metrics.iter().map(|metric| metric.id).collect()
    }

    /// Unit and dimension of a metric.
    #[must_use]
    pub fn kind_of(&self, id: &str) -> Option<(Unit, Option<&'static str>)> {
        self.metric(id).map(|metric| (metric.unit, metric.dimension))
    }

    /// A metric by its id.
    #[must_use]
    pub fn metric(&self, id: &str) -> Option<&CatalogueMetric> {
        self.metrics.iter().find(|metric| metric.id == id)
    }
}
