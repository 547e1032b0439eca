//! The wiring of the stages: plan → Recording → Metrics → Findings → Report. The only place where playbooks, collectors,
//! metrics and rules meet.

mod account;
mod allotted;
mod analyze;
mod armor;
mod candidates;
mod catalogue;
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
pub use catalogue::{all_metrics, catalogue, metric};
pub use condition::{Condition, ConditionError, Waited};
pub use document::document;
pub use group::{group_of_pod, named_group};
pub use import::{ImportError, import};
pub use library::{
    NamedPlaybook, Sources, default_folders, library, resolve, resolve_among, resolve_recorded, sources, sources_for,
};
pub use past::{
    AROUND, Given, HistoryFile, Journal, NEAR, Origin, Past, Piece, SAMPLES, Side, Span, around, around_elsewhere,
    comparable, elsewhere, given, interval, joined, past, past_every, pieces, sosreport, temper, unlike, usual,
};
pub use probe::{PROBING, ProbeEnd, ProbeRequest, probe};
pub use roles::{dimension_of, is_fleeting, role};
pub use rows::{errors, facts, figure, is_compared, is_error, row_without_run, rows};
pub use run::{Observer, Run, run, work_of};
pub use store::{LARGEST, StoreError, read_recording, read_report, write_recording};
pub use survey::{Surveyed, survey, survey_probes};
pub use watch::{TAIL, Trigger, Watch, WatchError, begins, critical_only, in_words as incident_in_words, watch};
