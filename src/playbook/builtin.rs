//! The playbooks and rules that are part of the program.

use std::collections::BTreeMap;
use std::io;

/// The playbooks for a run, as `build.rs` writes them: JSON that holds, by file name, the JSON of each.
const PLAYBOOKS_FOR_RUN: &str = include_str!(concat!(env!("OUT_DIR"), "/playbooks.json"));

/// The rules for a run, as `build.rs` writes them: by file name, without their tests and the situations that these are about.
pub(super) const RULES_FOR_RUN: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

/// The playbooks for a run: file name and JSON.
pub(super) fn playbooks_for_run() -> serde_json::Result<BTreeMap<&'static str, String>> {
    serde_json::from_str(PLAYBOOKS_FOR_RUN)
}

/// Whether a playbook of this name is part of the program.
#[must_use]
pub fn is_builtin(name: &str) -> bool {
    playbooks_for_run().is_ok_and(|all| all.contains_key(format!("{name}.yaml").as_str()))
}

/// The files of playbooks (`NAME.yaml`) and rules (`rules/NAME.yaml`), and their texts. A run has no use for that half of a megabyte, so
/// they are packed.
pub(super) fn texts() -> io::Result<BTreeMap<String, String>> {
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/texts.gz"));
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
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(".yaml"));
        names.sort();
        names
    }

    fn texts_of_rules() -> BTreeMap<String, String> {
        let texts = texts().unwrap().into_iter();
        texts.filter_map(|(name, text)| Some((name.strip_prefix("rules/")?.to_owned(), text))).collect()
    }

    #[test]
    fn the_rules_of_a_run_are_those_of_the_files_without_their_tests() {
        use crate::{Library, RuleFile};
        let mut for_run: BTreeMap<String, serde_json::Value> = serde_json::from_str(RULES_FOR_RUN).unwrap();
        for (name, text) in texts_of_rules() {
            let RuleFile(mut rules) = crate::load::parse("rules", &text).unwrap();
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
    fn the_playbooks_of_a_run_are_those_of_the_files() {
        use crate::Library;
        let all = Library::read(Vec::new());
        assert!(all.problems.is_empty(), "{:?}", all.problems);
        assert_eq!(all.playbooks.len(), playbooks_for_run().unwrap().len());
        for (name, loaded) in &all.playbooks {
            let mut for_run = Library::for_run(Vec::new(), Some(name));
            assert!(for_run.problems.is_empty(), "{:?}: texts that look like numbers need quotes", for_run.problems);
            assert_eq!(for_run.playbooks.keys().collect::<Vec<_>>(), [name]);
            let mut read = for_run.playbooks.remove(name).unwrap();
            assert_eq!(read.file.text, "");
            read.file.unpack().unwrap();
            assert_eq!(format!("{read:?}"), format!("{loaded:?}"), "{name}");
        }
        let wrong = Library::for_run(Vec::new(), Some("use-metod"));
        assert!(wrong.playbooks.keys().eq(all.playbooks.keys()), "all are known to suggest one");
    }

    #[test]
    fn every_shipped_file_is_embedded() {
        let names = |list: &[(&str, &str)]| list.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
        assert!(playbooks_for_run().unwrap().into_keys().eq(files("playbooks")));
        let rules = files("playbooks/rules");
        assert_eq!(texts_of_rules().into_keys().collect::<Vec<_>>(), rules);
        assert_eq!(texts().unwrap().len(), files("playbooks").len() + rules.len());
        let tools = names(TOOLS).into_iter().chain([PLANNED.0.to_owned()]);
        let listed = files("playbooks/tools").into_iter().map(|name| format!("playbooks/tools/{name}"));
        assert!(tools.eq(listed), "a file of playbooks/tools is not embedded");
    }
}
