//! The playbooks and rules that are part of the program.

use std::collections::BTreeMap;
use std::io;

/// Playbooks: file name and text.
pub const PLAYBOOKS: &[(&str, &str)] = &[
    ("cannot-fork.yaml", include_str!("../../playbooks/cannot-fork.yaml")),
    ("cpu-efficiency.yaml", include_str!("../../playbooks/cpu-efficiency.yaml")),
    ("cpu-hot.yaml", include_str!("../../playbooks/cpu-hot.yaml")),
    ("disk-full.yaml", include_str!("../../playbooks/disk-full.yaml")),
    ("high-latency.yaml", include_str!("../../playbooks/high-latency.yaml")),
    ("high-load.yaml", include_str!("../../playbooks/high-load.yaml")),
    ("io-stall.yaml", include_str!("../../playbooks/io-stall.yaml")),
    ("memory-pressure.yaml", include_str!("../../playbooks/memory-pressure.yaml")),
    ("method-r.yaml", include_str!("../../playbooks/method-r.yaml")),
    ("network-loss.yaml", include_str!("../../playbooks/network-loss.yaml")),
    ("sixty-seconds.yaml", include_str!("../../playbooks/sixty-seconds.yaml")),
    ("slow-container.yaml", include_str!("../../playbooks/slow-container.yaml")),
    ("slow-system.yaml", include_str!("../../playbooks/slow-system.yaml")),
    ("use-method.yaml", include_str!("../../playbooks/use-method.yaml")),
];

/// The rules for a run, as `build.rs` writes them: by file name, without their tests and the situations that these are about.
pub(super) const RULES_FOR_RUN: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

/// The files of rules: name and text. They are half a megabyte that a run has no use for, so they are packed.
pub(super) fn rules() -> io::Result<BTreeMap<String, String>> {
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/rules.gz"));
    Ok(serde_json::from_reader(io::BufReader::new(flate2::read::GzDecoder::new(&packed[..])))?)
}

/// What Method R says of components: file and text.
pub(super) const ADVICE: (&str, &str) =
    ("playbooks/method-r/components.yaml", include_str!("../../playbooks/method-r/components.yaml"));

/// The map of old tools: file and text.
#[rustfmt::skip]
pub(super) const TOOLS: &[(&str, &str)] = &[
    ("playbooks/tools/bcc.yaml", include_str!("../../playbooks/tools/bcc.yaml")),
    ("playbooks/tools/classic.yaml", include_str!("../../playbooks/tools/classic.yaml")),
    ("playbooks/tools/counters.yaml", include_str!("../../playbooks/tools/counters.yaml")),
    ("playbooks/tools/events.yaml", include_str!("../../playbooks/tools/events.yaml")),
    ("playbooks/tools/ftrace.yaml", include_str!("../../playbooks/tools/ftrace.yaml")),
    ("playbooks/tools/perf.yaml", include_str!("../../playbooks/tools/perf.yaml")),
];

/// The probes that are on their way: file and text.
pub(super) const PLANNED: (&str, &str) =
    ("playbooks/tools/planned.yaml", include_str!("../../playbooks/tools/planned.yaml"));

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
    fn files(folder: &str) -> Vec<String> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(".yaml"));
        names.sort();
        names
    }

    #[test]
    fn the_rules_of_a_run_are_those_of_the_files_without_their_tests() {
        use crate::playbook::{Library, RuleFile};
        let mut for_run: BTreeMap<String, serde_json::Value> = serde_json::from_str(RULES_FOR_RUN).unwrap();
        for (name, text) in rules().unwrap() {
            let RuleFile(mut rules) = crate::playbook::load::parse("rules", &text).unwrap();
            assert!(rules.iter().all(|rule| !rule.tests.is_empty()), "{name}");
            for rule in &mut rules {
                rule.tests.clear();
                rule.false_if.clear();
            }
            let read: RuleFile = serde_json::from_value(for_run.remove(&name).unwrap())
                .unwrap_or_else(|error| panic!("{name}: {error}: texts that look like numbers need quotes"));
            assert_eq!(format!("{:?}", read.0), format!("{rules:?}"), "{name}");
        }
        assert!(for_run.is_empty(), "{:?}", for_run.keys());
        let places = |library: Library| -> Vec<_> {
            let rules = library.rules.into_values();
            rules.map(|loaded| (loaded.rule.id, loaded.label, loaded.file, loaded.origin)).collect()
        };
        assert_eq!(places(Library::for_run(Vec::new(), None)), places(Library::read(Vec::new())));
    }

    #[test]
    fn every_shipped_file_is_embedded() {
        let names = |list: &[(&str, &str)]| list.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(names(PLAYBOOKS), files("playbooks"));
        assert_eq!(rules().unwrap().into_keys().collect::<Vec<_>>(), files("playbooks/rules"));
        let tools = names(TOOLS).into_iter().chain([PLANNED.0.to_owned()]);
        let listed = files("playbooks/tools").into_iter().map(|name| format!("playbooks/tools/{name}"));
        assert!(tools.eq(listed), "a file of playbooks/tools is not embedded");
    }
}
