//! Symptoms as people type them → the playbook that starts from one.

use std::collections::BTreeSet;

use super::Library;

/// Words that say nothing of what is the matter.
const EMPTY: [&str; 14] =
    ["the", "and", "are", "but", "for", "not", "can", "cannot", "with", "that", "this", "does", "very", "what"];

/// The playbook one of whose symptoms has most words in common with what was typed; none where that is a single word of several.
pub(super) fn playbook_for<'l>(library: &'l Library, typed: &str) -> Option<&'l str> {
    let typed = words(typed);
    let common = |symptom: &str| words(symptom).intersection(&typed).count();
    let of = |symptoms: &[String]| symptoms.iter().map(|symptom| common(symptom)).max().unwrap_or(0);
    let scored = library.playbooks.iter().map(|(name, loaded)| {
        let named = words(name).intersection(&typed).count();
        (of(&loaded.playbook.symptoms).max(named), name.as_str())
    });
    let (score, name) = scored.max_by_key(|(score, name)| (*score, std::cmp::Reverse(*name)))?;
    (score > 0 && score * 2 >= typed.len().min(4)).then_some(name)
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.len() > 2 && !EMPTY.contains(&word.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symptom_leads_to_its_playbook_and_nonsense_to_none() {
        let library = Library::read(Vec::new());
        for (typed, expected) in [
            ("bash: fork: retry: Resource temporarily unavailable", Some("cannot-fork")),
            ("cp: error writing 'x': No space left on device", Some("disk-full")),
            ("load average is 40", Some("high-load")),
            ("my teapot is empty", None),
            ("x", None),
        ] {
            assert_eq!(playbook_for(&library, typed), expected, "{typed}");
        }
    }
}
