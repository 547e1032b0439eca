//! What the kernel says of an order that it refused.

/// The last entry of `error_log`: what is wrong, the text that was written, and a caret below the place.
pub(super) fn latest_error(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.iter().rposition(|line| line.starts_with('['))?;
    let mut entry = lines.get(last..)?.iter();
    let head = entry.next()?;
    let what = head.rsplit_once("error: ").map_or(*head, |(_, what)| what);
    let (Some(command), Some(caret)) = (entry.next(), entry.next().and_then(|line| line.find('^'))) else {
        return Some(what.to_owned());
    };
    // A message is one line: in place of the caret below it stands what the caret is at.
    let at = command.get(caret..).unwrap_or_default().trim();
    let command = command.trim().strip_prefix("Command:").unwrap_or(command).trim();
    Some(format!("{what}, at {at:?} in {command:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_words_about_a_filter_are_one_line_with_what_its_caret_is_at() {
        let before = "[  1.0] event filter parse error: error: Invalid value\n  Command: a\n           ^\n";
        let last = "[37794.5] event filter parse error: error: Field not found\n  Command: prev_pid > 0 && bad == 1\n";
        let text = latest_error(&format!("{before}{last}{:31}^\n", "")).unwrap();
        assert_eq!(text, r#"Field not found, at "== 1" in "prev_pid > 0 && bad == 1""#);
        assert_eq!(latest_error("[1.0] x: error: Out of memory\n").unwrap(), "Out of memory");
        assert_eq!(latest_error(""), None);
    }
}
