//! The terms of the field, as people type them: what each means, how it misleads, and which rule, metric or probe is about it.

mod list;

use std::fmt::Write as _;

use list::TERMS;

/// A term of the field.
#[derive(Debug)]
pub(super) struct Term {
    /// What it is called; the first name is shown.
    names: &'static [&'static str],
    /// What it means, with its unit or denominator.
    means: &'static str,
    /// What to mind when reading it.
    mind: &'static str,
    /// Ids of rules, metrics, probes and collectors, the nearest first.
    see: &'static [&'static str],
}

/// The term of this name: case, `%`, hyphens and underscores do not matter.
pub(super) fn find(asked: &str) -> Option<&'static Term> {
    let wanted = key(asked);
    TERMS.iter().find(|term| term.names.iter().any(|name| key(name) == wanted))
}

/// Names for "did you mean"; the shortest are like anything.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TERMS.iter().flat_map(|term| term.names).copied().filter(|name| name.len() > 2)
}

fn key(name: &str) -> String {
    let words = name.to_lowercase().replace(['-', '_', '%'], " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A term as `rdiag explain` shows it; `title` knows what an id stands for.
pub(super) fn text(term: &Term, title: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let (first, others) = term.names.split_first().unwrap_or((&"", &[]));
    let _ = writeln!(out, "{first} — {}\n\nMind\n  {}", term.means, term.mind);
    if !others.is_empty() {
        let _ = writeln!(out, "\nAlso called\n  {}", others.join(", "));
    }
    out.push_str("\nIn rdiag (rdiag explain ID)\n");
    for id in term.see {
        match title(id) {
            Some(title) => writeln!(out, "  {id} — {title}"),
            None => writeln!(out, "  {id}"),
        }
        .unwrap_or_default();
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{TERMS, find, key, names};
    use rdiag_playbook::Library;

    #[test]
    fn what_people_type_is_found() {
        for asked in [
            "iowait",
            "%util",
            "await",
            "p99",
            "OOM",
            "throttling",
            "steal",
            "D state",
            "load average",
            "swap",
            "softirq",
            "retransmit",
            "PSI",
            "D-state",
            "%iowait",
            "r_await",
            "%steal",
            "oom-killer",
            "run queue",
        ] {
            assert!(find(asked).is_some(), "{asked}");
        }
        assert!(find("nonsense").is_none() && find("").is_none());
    }

    #[test]
    fn each_name_is_of_one_term_and_each_id_exists() {
        let mut seen = BTreeSet::new();
        for name in names() {
            assert!(seen.insert(key(name)), "{name} twice");
        }
        let (library, map) = (Library::read(Vec::new()), crate::cli::tools::map());
        for id in TERMS.iter().flat_map(|term| term.see) {
            assert!(super::super::own(id, &library, &map).is_some(), "{id}");
        }
    }
}
