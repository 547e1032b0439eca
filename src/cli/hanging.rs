//! Text as wide as the terminal.

/// The lines of a text, each wrapped.
pub(super) fn hanging(text: &str, width: usize) -> String {
    text.lines().map(|line| wrap(line, width) + "\n").collect()
}

/// Wraps a line; what follows hangs below its text, behind a dash, a number or a heading.
fn wrap(line: &str, width: usize) -> String {
    let is_blank = |c: &char| *c == ' ';
    let blanks = line.chars().take_while(is_blank).count();
    let text = line.get(blanks..).unwrap_or_default();
    let number = text.split_once(". ").filter(|(head, _)| head.parse::<u32>().is_ok()).map(|(head, _)| head.len() + 2);
    let head = if text.starts_with("- ") { Some(2) } else { number };
    let is_heading = |head: &str| head.len() < 14 && head.chars().all(|c| c.is_alphabetic() || c == ' ');
    let heading = || {
        let (head, rest) = text.split_once(": ").filter(|(head, _)| blanks == 0 && is_heading(head))?;
        Some(head.len() + 2 + rest.chars().take_while(is_blank).count())
    };
    let indent = " ".repeat(blanks + head.or_else(heading).unwrap_or(0));
    let options = textwrap::Options::new(width).subsequent_indent(&indent).break_words(false);
    // Names and options of commands stay whole.
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(line, options)
}

#[cfg(test)]
mod tests {
    use super::hanging;

    #[test]
    fn what_does_not_fit_hangs_below_its_text_behind_a_dash_a_number_or_a_heading() {
        for (line, wrapped) in [
            ("  2. interrupts: do they take time", "  2. interrupts:\n     do they take\n     time\n"),
            ("Unless:   a and b and c", "Unless:   a and b\n          and c\n"),
            ("a sentence: of some words", "a sentence: of some\n            words\n"),
            ("  some words of a list", "  some words of a\n  list\n"),
            ("  - some words of a list", "  - some words\n    of a list\n"),
            ("12% of it are: three words", "12% of it are:\nthree words\n"),
        ] {
            let width = wrapped.lines().map(str::len).max().unwrap_or_default() + 1;
            assert_eq!(hanging(line, width), wrapped, "{line}");
        }
    }
}
