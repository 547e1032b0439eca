//! Sentences of findings made shorter, and lists within a sentence.

/// Longest sentence, in characters.
const MAX_SENTENCE: usize = 180;
/// A sentence this long is cut at its semicolon, if it has one.
const LONG_SENTENCE: usize = 150;
/// What stands before the semicolon is the news if it is this long.
const ENOUGH: usize = 80;

/// The first sentence, or as much of it as there is room for; `within` a sentence it begins in lower case.
pub(super) fn first_sentence(summary: &str, within: bool) -> String {
    let summary = summary.trim();
    let end = summary.find(". ").unwrap_or(summary.len());
    let mut sentence = summary.get(..end).unwrap_or(summary).trim_end_matches('.');
    // Of a long sentence, the first half is the news.
    if sentence.chars().count() > LONG_SENTENCE
        && let Some((news, _)) = sentence.split_once("; ")
        && news.chars().count() > ENOUGH
    {
        sentence = news;
    }
    let mut words = String::new();
    for word in sentence.split(' ') {
        if words.chars().count() + word.chars().count() > MAX_SENTENCE {
            // Rather a whole clause than half of the next one.
            match words.rfind([',', ';']).filter(|at| *at > ENOUGH) {
                Some(at) => words.truncate(at),
                None => words.push_str(" …"),
            }
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().take(MAX_SENTENCE));
    }
    if within { lower_first(&words) } else { words }
}

/// "Threads waited" goes on as "threads waited", but "TCP" and "OOM" stay.
fn lower_first(sentence: &str) -> String {
    let mut chars = sentence.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain([second]).chain(chars).collect()
        }
        _ => sentence.to_owned(),
    }
}

/// `a, b and c`; what is too much becomes `and 2 more`.
pub(super) fn listed(items: &[String], most: usize) -> String {
    let shown: Vec<&str> = items.iter().take(most).map(String::as_str).collect();
    match (shown.as_slice(), items.len().saturating_sub(most)) {
        ([], _) => String::new(),
        ([only], 0) => (*only).to_owned(),
        ([init @ .., last], 0) => format!("{} and {last}", init.join(", ")),
        (all, more) => format!("{} and {more} more", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_cut_at_its_semicolon_or_at_a_clause() {
        let news = "x ".repeat(45) + "x";
        let long = format!("{news}; {}. More.", "y ".repeat(40));
        assert_eq!(first_sentence(&long, false), news);
        let clause = "x".repeat(81);
        assert_eq!(first_sentence(&format!("{clause}, {}", "y ".repeat(80)), false), clause);
        assert_eq!(first_sentence("TCP lost 3 %. So.", true), "TCP lost 3 %");
        assert_eq!(first_sentence("Threads waited.", true), "threads waited");
    }

    #[test]
    fn a_list_says_how_many_it_leaves_out() {
        let items = |most| listed(&["a", "b", "c"].map(str::to_owned), most);
        assert_eq!([items(1), items(2), items(3)], ["a and 2 more", "a, b and 1 more", "a, b and c"]);
        assert_eq!(listed(&[], 3), "");
    }
}
