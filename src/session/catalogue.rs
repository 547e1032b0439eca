//! All that can be measured: what playbooks and rules may cite, and which collector or probe yields it.

use std::collections::BTreeMap;

use rdiag_collectors as collectors;
use rdiag_model::MetricDef;
use rdiag_playbook::{Catalogue, CatalogueMetric};
use rdiag_probes::{self as probes, Params};

/// What playbooks and rules may cite.
#[must_use]
pub fn catalogue() -> Catalogue {
    let metrics = all_metrics().map(|(owner, metric)| CatalogueMetric {
        id: metric.id,
        collector: owner,
        unit: metric.unit,
        dimension: metric.dimension,
    });
    let collectors = collectors::ALL.iter().map(|def| def.id).chain(probes::ALL.iter().map(|def| def.id));
    Catalogue { collectors: collectors.collect(), metrics: metrics.collect(), wrong_params: Some(wrong_params) }
}

/// All metrics, each with the collector or probe that yields it.
pub fn all_metrics() -> impl Iterator<Item = (&'static str, &'static MetricDef)> {
    let collected = collectors::metrics().map(|(collector, metric)| (collector.id, metric));
    collected.chain(probes::metrics().map(|(probe, metric)| (probe.id, metric)))
}

/// The definition of a metric.
#[must_use]
pub fn metric(id: &str) -> Option<&'static MetricDef> {
    all_metrics().map(|(_, metric)| metric).find(|metric| metric.id == id)
}

fn wrong_params(id: &str, given: &BTreeMap<String, String>) -> Option<String> {
    match probes::find(id) {
        Some(def) => Params::new(id, def.params, given).err(),
        None if given.is_empty() => None,
        None => Some(format!("the collector {id} has no parameters")),
    }
}
