//! The list of all probes. Whatever a probe needs stands in `def.rs`, so that no probe depends on the others through this list.

use rdiag_model::MetricDef;

use crate::def::{GivesStacks, ProbeDef};
use crate::{
    biolatency, biosnoop, biotop, cachestat, count, cpudist, dbslower, dcsnoop, deadlock, drops, events, execsnoop,
    fileslower, filetop, fsdist, functions, futexctn, graph, hardirqs, killsnoop, klockstat, kvmexit, llcstat, log,
    memleak, memstall, migrations, netqtop, offcputime, oomkill, opensnoop, profile, readahead, response, runqlat,
    runqlen, runqslower, softirqs, stat, swapin, syncsnoop, syscount, tcplife, tcpretrans, tcptop, timeline,
};

/// All probes, sorted by id.
pub static ALL: &[&ProbeDef] = &[
    &biolatency::PROBE,
    &biolatency::BIOLATPCTS,
    &biosnoop::PROBE,
    &biotop::PROBE,
    &cachestat::PROBE,
    &cachestat::CACHETOP,
    &count::PROBE,
    &cpudist::PROBE,
    &dbslower::PROBE,
    &dcsnoop::PROBE,
    &deadlock::PROBE,
    &filetop::DIRTOP,
    &drops::PROBE,
    &events::PROBE,
    &execsnoop::PROBE,
    &fileslower::PROBE,
    &filetop::PROBE,
    &fsdist::PROBE,
    &functions::PROBE,
    &futexctn::PROBE,
    &graph::PROBE,
    &hardirqs::PROBE,
    &count::HIST,
    &killsnoop::PROBE,
    &klockstat::PROBE,
    &kvmexit::PROBE,
    &llcstat::PROBE,
    &log::PROBE,
    &memleak::PROBE,
    &memstall::PROBE,
    &migrations::PROBE,
    &netqtop::PROBE,
    &offcputime::PROBE,
    &offcputime::OFFWAKETIME,
    &oomkill::PROBE,
    &opensnoop::PROBE,
    &profile::PROBE,
    &readahead::PROBE,
    &response::PROBE,
    &runqlat::PROBE,
    &runqlen::PROBE,
    &runqslower::PROBE,
    &softirqs::PROBE,
    &stat::PROBE,
    &swapin::PROBE,
    &syncsnoop::PROBE,
    &syscount::PROBE,
    &tcplife::TCPACCEPT,
    &tcplife::TCPCONNECT,
    &tcplife::PROBE,
    &tcpretrans::PROBE,
    &tcptop::PROBE,
    &timeline::PROBE,
    &offcputime::WAKEUPTIME,
];

/// The probe with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static ProbeDef> {
    ALL.iter().copied().find(|def| def.id == id)
}

/// Ids of the probes that give stacks, sorted.
pub fn with_stacks() -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(|def| def.stacks != GivesStacks::Never).map(|def| def.id)
}

/// All metrics of probes, each with its probe.
pub fn metrics() -> impl Iterator<Item = (&'static ProbeDef, &'static MetricDef)> {
    ALL.iter().copied().flat_map(|def| def.metrics.iter().map(move |metric| (def, metric)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::def::{ParamDef, ParamKind};
    use rdiag_model::{Formula, Source};

    #[test]
    fn every_folder_is_registered_and_holds_program_and_object() {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
        let entries = std::fs::read_dir(here).unwrap();
        for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(find(&name).is_some(), "probes/{name} is not in ALL, or its id differs from its folder's name");
            let has = |kind: &str| here.join(format!("{name}/{name}.bpf.{kind}")).exists();
            assert_eq!(has("c"), has("o"), "{name}: program and object belong together");
        }
        assert!(ALL.is_sorted_by_key(|def| def.id), "keep ALL sorted by id");
    }

    #[test]
    fn every_probe_is_explained_and_its_metrics_come_from_its_outputs() {
        for def in ALL {
            for text in [def.question, def.attach, def.output, def.caveats, def.overhead] {
                assert!(text.ends_with(['.', '?']), "{}: {text:?} is no sentence", def.id);
            }
            if let GivesStacks::IfAsked(name) = def.stacks {
                let flag = |param: &&ParamDef| param.name == name && param.kind == ParamKind::Flag;
                assert_eq!(def.params.iter().filter(flag).count(), 1, "{}: {name}", def.id);
            }
            for metric in def.metrics {
                assert!(
                    metric.sources.iter().all(|formula| matches!(formula, Formula::Taken(Source::Probe(_)))),
                    "{}",
                    metric.id
                );
            }
        }
    }
}
