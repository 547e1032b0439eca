//! Markdown within a paragraph as plain words, for terminals.

/// Leaves out the marks of code (`` ` ``) and of emphasis (`*`, `**`), where they come in pairs; a star that stands for something else
/// (`/proc/*/stat`, `2 * 3`) stays, and so does all that is within code.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*']) {
        let (before, marked) = rest.split_at(at);
        out.push_str(before);
        match inner(out.chars().next_back(), marked) {
            Some((inner, behind, is_code)) => {
                out.push_str(&if is_code { inner.to_owned() } else { plain(inner) });
                rest = behind;
            }
            None => {
                let mark = marked.chars().next();
                let (marks, behind) = marked.split_at(marked.find(|c| Some(c) != mark).unwrap_or(marked.len()));
                out.push_str(marks);
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

/// What stands between the mark that a text begins with and the same mark again, what follows, and whether it is code. Emphasis begins
/// a word and ends one.
fn inner(before: Option<char>, marked: &str) -> Option<(&str, &str, bool)> {
    if let Some(code) = marked.strip_prefix('`') {
        let (inner, behind) = code.split_once('`')?;
        return (!inner.is_empty()).then_some((inner, behind, true));
    }
    let mark = if marked.starts_with("**") { "**" } else { "*" };
    let inside = marked.strip_prefix(mark)?;
    let begins = !before.is_some_and(|c| c.is_alphanumeric() || c == '/')
        && inside.starts_with(|c: char| c.is_alphanumeric() || c == '`');
    let (inner, behind) = inside.split_once(mark)?;
    let ends = inner.ends_with(|c: char| c.is_alphanumeric() || "`.,:;!?)".contains(c))
        && !behind.starts_with(|c: char| c.is_alphanumeric() || c == '*');
    (begins && ends && !inner.contains("\n\n")).then_some((inner, behind, false))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn marks_in_pairs_are_left_out() {
        for (markdown, words) in [
            ("look at *available* memory, then at **waiting**:", "look at available memory, then at waiting:"),
            ("`iostat -x 1` and ``, (**`sar`**)", "iostat -x 1 and ``, (sar)"),
            ("**a list of *two* words.** Then", "a list of two words. Then"),
            ("awk `'{print $1 * 2}' /proc/*/stat`", "awk '{print $1 * 2}' /proc/*/stat"),
        ] {
            assert_eq!(plain(markdown), words, "{markdown}");
        }
    }

    #[test]
    fn what_is_no_mark_stays() {
        for text in
            ["/proc/*/task/*/stat", "2 * 3 * 4", "a*b*c", "a ` alone", "**open", "***", "ls *.yaml *.rs", "é*", ""]
        {
            assert_eq!(plain(text), text);
        }
    }
}
