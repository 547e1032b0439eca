//! The wiring of the stages: plan → Recording → Metrics → Findings. The only place where playbooks, collectors, metrics and
//! rules meet.

mod analyze;
mod library;
mod record;
mod run;
mod store;
mod survey;
mod worker;

pub use analyze::{Analysis, analyze};
pub use library::{NamedPlaybook, default_folders, library, resolve};
pub use run::{Observer, Run, run};
pub use store::{StoreError, read_recording, write_recording};
pub use survey::{Surveyed, survey};

use crate::collectors;
use crate::model::MetricDef;
use crate::playbook::{Catalogue, CatalogueMetric};

/// What playbooks and rules may cite.
#[must_use]
pub fn catalogue() -> Catalogue {
    let metrics = collectors::metrics().map(|(collector, metric)| CatalogueMetric {
        id: metric.id,
        collector: collector.id,
        unit: metric.unit,
        dimension: metric.dimension,
    });
    Catalogue { collectors: collectors::ALL.iter().map(|def| def.id).collect(), metrics: metrics.collect() }
}

/// The definition of a metric.
#[must_use]
pub fn metric(id: &str) -> Option<&'static MetricDef> {
    collectors::find_metric(id).map(|(_, metric)| metric)
}
