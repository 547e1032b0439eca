//! The wiring of the stages: plan → Recording → Metrics → Findings → Report. The only place where playbooks, collectors,
//! metrics and rules meet.

mod account;
mod allotted;
mod analyze;
mod armor;
mod candidates;
mod condition;
mod containers;
mod document;
mod drill;
mod group;
mod import;
mod library;
mod metering;
mod past;
mod probe;
mod probing;
mod provisional;
mod record;
mod roles;
mod rows;
mod run;
mod setup;
mod store;
mod survey;
#[cfg(test)]
mod testing;
mod watch;
mod worker;

pub use account::conversation;
pub use analyze::{Analysis, analyze};
pub use armor::{Kind as ArmorKind, LONGEST_LINE, write_armored};
pub use candidates::{Candidate, candidates, names_unless_there};
pub use condition::{Condition, ConditionError, Waited};
pub use document::document;
pub use group::{group_of_pod, named_group};
pub use import::{ImportError, import};
pub use library::{
    NamedPlaybook, Sources, default_folders, library, resolve, resolve_among, resolve_recorded, sources, sources_for,
};
pub use past::{
    AROUND, Given, HistoryFile, Journal, NEAR, Origin, Past, Piece, SAMPLES, Side, Span, around, around_elsewhere,
    elsewhere, given, interval, joined, past, past_every, pieces, sosreport, temper, unlike, usual,
};
pub use probe::{PROBING, ProbeEnd, ProbeRequest, probe};
pub use roles::{dimension_of, is_fleeting, role};
pub use rows::{errors, facts, figure, is_compared, is_error, row_without_run, rows};
pub use run::{Observer, Run, run, work_of};
pub use store::{StoreError, read_recording, read_report, write_recording};
pub use survey::{Surveyed, survey, survey_probes};
pub use watch::{TAIL, Trigger, Watch, WatchError, begins, critical_only, in_words as incident_in_words, watch};

use std::collections::BTreeMap;

use crate::playbook::{Catalogue, CatalogueMetric};
use rdiag_collectors as collectors;
use rdiag_model::MetricDef;
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
