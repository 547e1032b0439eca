//! What happened before the window, and how long before: history without an age reads like news.

use super::words;
use rdiag_model::finding::Past;
use rdiag_model::quantity::seconds;
use rdiag_model::{Facts, Finding};

/// The heading of what happened before the window, which a title begins with that stands alone.
pub(super) const BEFORE: &str = "Before the window";

/// The title of a finding whose events were all before the window.
pub(super) fn title(finding: &Finding, host: &Facts) -> String {
    format!("{BEFORE}: {}{}", finding.title, age(finding, host))
}

/// The title of a finding whose events were shortly before the window, and count as current.
pub(super) fn recent(title: &str, before: f64) -> String {
    format!("{title} ({} before the window)", seconds(before))
}

/// The same below that heading.
pub(super) fn below_heading(title: &str) -> &str {
    title.strip_prefix(BEFORE).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(title)
}

/// Findings that are named in the line that all of them are folded into.
const MAX_NAMES: usize = 4;

/// That line: the heading, and their titles.
pub(super) fn folded(findings: &[&Finding]) -> String {
    let titles: Vec<String> =
        findings.iter().map(|finding| below_heading(&words::full_title(finding)).to_owned()).collect();
    format!("{BEFORE}: {}", words::some(&titles, MAX_NAMES))
}

/// How long before the run the newest line of the kernel log was written, where a finding has such lines. The log's clock stands still
/// while a machine is suspended and `uptime` does not, so the age of a laptop may be too large, as it is with `dmesg -T`.
fn age(finding: &Finding, host: &Facts) -> String {
    let newest = finding
        .log
        .iter()
        .filter_map(|line| stamp(line))
        .fold(None, |newest: Option<f64>, at| Some(newest.map_or(at, |newest| newest.max(at))));
    let since = newest.map(|newest| host.uptime_seconds - newest).filter(|age| *age > 0.0 && age.is_finite());
    if let Some(since) = since {
        return format!(" (last seen {} earlier)", seconds(since));
    }
    if finding.threshold.past() == Some(Past::SinceBoot) { " (since boot)".into() } else { String::new() }
}

/// When a line was written, in seconds since boot: `[72.640] Out of memory: …`.
fn stamp(line: &str) -> Option<f64> {
    let (stamp, _) = line.strip_prefix('[')?.split_once(']')?;
    stamp.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::finding;
    use rdiag_model::Status;

    fn titled(log: &[&str], uptime_seconds: f64, condition: &str) -> String {
        let mut past = finding("memory.errors.oom", Status::Info);
        past.title = "OOM kills".into();
        past.log = log.iter().map(|line| (*line).to_owned()).collect();
        past.threshold.conditions.insert("info".into(), condition.into());
        let title = title(&past, &Facts { uptime_seconds, ..Facts::default() });
        assert_eq!(format!("Before the window: {}", below_heading(&title)), title);
        title
    }

    #[test]
    fn the_newest_line_of_the_log_gives_the_age() {
        let log = [
            "[72.640] Killed process 296 (dd)",
            "[3600.500] Killed process 298 (dd)",
            "[100.000] Killed process 1 (a)",
        ];
        let condition = "memory.oom_kills_since_boot.count.last > 0";
        assert_eq!(titled(&log, 7200.5, condition), "Before the window: OOM kills (last seen 60.0 min earlier)");
    }

    #[test]
    fn what_was_shortly_before_is_dated_and_shows_no_value_of_the_window() {
        assert_eq!(recent("OOM kills", 240.0), "OOM kills (4.0 min before the window)");
        let mut over = finding("memory.errors.oom", Status::Critical);
        over.value = Some(0.0);
        assert!(!words::value(&over).is_empty());
        over.seconds_before = Some(240.0);
        assert_eq!(words::value(&over), "");
    }

    #[test]
    fn all_are_folded_into_one_line_that_names_the_first() {
        let past = |title: &str| Finding { title: title.into(), ..finding("memory.errors.oom", Status::Info) };
        let all = ["Before the window: OOM kills (since boot)", "B", "C", "D", "E", "F"].map(past);
        let first: Vec<&Finding> = all.iter().take(1).collect();
        assert_eq!(folded(&first), "Before the window: OOM kills (since boot)");
        let all: Vec<&Finding> = all.iter().collect();
        assert_eq!(folded(&all), "Before the window: OOM kills (since boot), B, C, D and 2 more");
    }

    #[test]
    fn without_a_time_it_is_since_boot_and_what_counts_from_elsewhere_has_no_age() {
        let condition = "memory.oom_kills_since_boot.count.last > 0";
        let since_boot = "Before the window: OOM kills (since boot)";
        assert_eq!(titled(&[], 7200.0, condition), since_boot);
        // No uptime, a clock that is ahead of it, and lines that no kernel wrote.
        assert_eq!(titled(&["[72.640] Killed"], 0.0, condition), since_boot);
        assert_eq!(titled(&["[inf] Killed", "[] Killed", "Killed", "[x] Killed"], 7200.0, condition), since_boot);
        assert_eq!(titled(&[], 7200.0, "filesystem.recorded_errors.count.last > 0"), "Before the window: OOM kills");
    }
}
