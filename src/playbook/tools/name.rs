//! How names of tools are compared: as people type them, not letter by letter.

/// Where tracefs is mounted, after [`key`].
pub(super) const TRACEFS: &str = "/sys/kernel/tracing/";

/// Folders in which programs stand, and what distributions and authors append to their names.
const FOLDERS: &[&str] = &["/usr/", "/bin/", "/sbin/", "/opt/", "./", "~/"];
const ENDINGS: &[&str] = &[".py", ".bt", ".sh", "-bpfcc", "-perf"];

/// The form in which two names of one thing are the same text.
pub(super) fn key(name: &str) -> String {
    let lower = name.trim().to_lowercase();
    let name = lower.strip_prefix("sudo ").unwrap_or(&lower).trim_end_matches('/').trim();
    if name.starts_with('/') && !FOLDERS.iter().any(|folder| name.starts_with(folder)) {
        return path(name);
    }
    let (first, rest) = name.split_once(char::is_whitespace).unwrap_or((name, ""));
    let is_program = FOLDERS.iter().any(|folder| first.starts_with(folder));
    let base = if is_program { first.rsplit('/').next().unwrap_or(first) } else { first };
    let base = ENDINGS.iter().find_map(|ending| base.strip_suffix(ending)).unwrap_or(base);
    if is_raw_event(base) {
        return "rnnn".to_owned();
    }
    let text = format!("{base} {rest}").replace(['-', '_'], " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Files: any process stands for all, and tracefs has one place.
fn path(name: &str) -> String {
    let name = match name.strip_prefix("/sys/kernel/debug/tracing") {
        Some(rest) => format!("/sys/kernel/tracing{rest}"),
        None => name.to_owned(),
    };
    let in_proc = name.starts_with("/proc/");
    let of_process = |part: &str| {
        let digits = !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        digits || ["[pid]", "<pid>", "$pid", "$$", "self"].contains(&part)
    };
    let parts = name.split('/').map(|part| if in_proc && of_process(part) { "pid" } else { part });
    parts.collect::<Vec<_>>().join("/").replace(['-', '_'], " ")
}

/// `r13c`: the number of an event in hexadecimal.
fn is_raw_event(word: &str) -> bool {
    let digits = word.strip_prefix('r').unwrap_or("");
    let hexadecimal = digits.chars().all(|c| c.is_ascii_hexdigit());
    hexadecimal && (2..=16).contains(&digits.len()) && digits.contains(|c: char| c.is_ascii_digit())
}

/// What stands before the first option or number: `vmstat 1` → `vmstat`.
pub(super) fn without_options(asked: &str) -> String {
    let words = asked.split_whitespace().enumerate();
    let is_name = |word: &str| !word.starts_with('-') && !word.chars().all(|c| c.is_ascii_digit());
    words.take_while(|(at, word)| *at == 0 || is_name(word)).map(|(_, word)| word).collect::<Vec<_>>().join(" ")
}

/// `u`, `kH`, `pp`: what may stand behind an event.
pub(super) fn is_modifier(letters: &str) -> bool {
    !letters.is_empty() && letters.chars().all(|c| "ukhGHpPSDeI".contains(c))
}

/// A name with `*`.
pub(super) struct Pattern(Vec<String>);

impl Pattern {
    /// None if there is no `*` in it.
    pub(super) fn new(name: &str) -> Option<Self> {
        let parts: Vec<String> = key(name).split('*').map(str::to_owned).collect();
        (parts.len() > 1).then_some(Self(parts))
    }

    /// How many letters of it are fixed.
    pub(super) fn literal(&self) -> usize {
        self.0.iter().map(String::len).sum()
    }

    /// Whether a key is of this form; each `*` is at least one letter.
    pub(super) fn fits(&self, key: &str) -> bool {
        let [first, middle @ .., last] = self.0.as_slice() else { return false };
        let Some(mut rest) = key.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str())) else {
            return false;
        };
        for part in middle {
            let mut letters = rest.chars();
            letters.next();
            let Some((_, after)) = letters.as_str().split_once(part.as_str()) else { return false };
            rest = after;
        }
        !rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_are_the_same() {
        for (written, same) in [
            ("perf-sched", "perf sched"),
            ("  Perf   SCHED ", "perf sched"),
            ("biosnoop-bpfcc", "biosnoop"),
            ("/usr/share/bcc/tools/biosnoop", "biosnoop"),
            ("./biolatpcts.py", "biolatpcts"),
            ("sudo iosnoop.sh", "iosnoop"),
            ("/sys/kernel/debug/tracing/set_ftrace_filter", "/sys/kernel/tracing/set_ftrace_filter"),
            ("/proc/4711/stat", "/proc/[pid]/stat"),
            ("/proc/self/task/7/stat", "/proc/PID/task/PID/stat"),
            ("r13c", "rNNN"),
        ] {
            assert_eq!(key(written), key(same), "{written}");
        }
        assert_ne!(key("readahead"), key("rNNN"));
        assert_ne!(key("/proc/stat"), key("/proc/1/stat"));
    }

    #[test]
    fn a_star_stands_for_at_least_one_letter() {
        let fits = |pattern: &str, name: &str| Pattern::new(pattern).is_some_and(|p| p.fits(&key(name)));
        assert!(fits("sched:*", "sched:sched_switch") && !fits("sched:*", "sched:"));
        assert!(fits("/sys/block/*/stat", "/sys/block/vda/stat") && !fits("/sys/block/*/stat", "/sys/block//stat"));
        assert!(fits("a*b*c", "axbyc") && !fits("a*b*c", "abc") && !fits("a*b*c", "axc"));
        assert!(!fits("aa*aa", "aaa") && !fits("plain", "plain"));
        assert!(fits("ü*é", "üßé"));
    }
}
