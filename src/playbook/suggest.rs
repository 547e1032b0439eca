//! "Did you mean …?"

/// The candidate that is most like what was written, as a hint; none when nothing is alike.
pub fn did_you_mean<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    nearest(written, candidates).map(|best| format!("did you mean `{best}`?"))
}

/// The candidate that is most like what was written.
pub fn nearest<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Words with the same letters in them are alike by the measure below, however different they are.
    let is_near = |candidate: &&str| {
        let longest = written.chars().count().max(candidate.chars().count());
        candidate.contains(written) || 2 * strsim::damerau_levenshtein(written, candidate) <= longest
    };
    let scored = candidates.into_iter().filter(is_near).map(|candidate| {
        let alike = strsim::jaro_winkler(written, candidate);
        let part = if !written.is_empty() && candidate.contains(written) { 0.15 } else { 0.0 };
        (alike + part, candidate)
    });
    let (score, best) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score > 0.75).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn near_misses_are_suggested_and_nonsense_is_not() {
        let known = ["cpu.saturation", "memory.saturation", "use-method"];
        assert_eq!(did_you_mean("cpu.saturaton", known).as_deref(), Some("did you mean `cpu.saturation`?"));
        assert_eq!(did_you_mean("zzz", known), None);
        assert_eq!(did_you_mean("nosuchthing", ["count"]), None);
    }
}
