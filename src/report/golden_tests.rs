//! What people see, as a whole. A changed or missing golden fails; `cargo insta review` accepts a new one.

use super::sample::{core_ok, report, saturated, unknown};
use super::shown::Shown;
use super::{brief, json, markdown, markdown_brief, summary, terminal, verdict_alone};
use crate::terminal::Style;

const WIDE: Style = Style { width: 80, color: false, unicode: true };

#[test]
fn a_saturated_cpu_on_a_terminal_of_80_columns() {
    insta::assert_snapshot!(terminal(&report(saturated()), None, &WIDE));
}

#[test]
fn a_saturated_cpu_on_a_terminal_of_60_columns_without_unicode() {
    insta::assert_snapshot!(terminal(&report(saturated()), None, &Style { width: 60, color: false, unicode: false }));
}

#[test]
fn a_saturated_cpu_on_a_very_narrow_terminal() {
    insta::assert_snapshot!(terminal(&report(saturated()), None, &Style { width: 40, color: false, unicode: true }));
}

#[test]
fn a_quiet_host_that_was_not_seen_in_full() {
    let mut findings = core_ok();
    findings.push(unknown("hardware.errors", "EDAC is not loaded"));
    insta::assert_snapshot!(terminal(&report(findings), None, &WIDE));
}

#[test]
fn a_saturated_cpu_as_markdown() {
    insta::assert_snapshot!(markdown(&report(saturated())).unwrap());
}

#[test]
fn a_saturated_cpu_as_a_short_comment() {
    insta::assert_snapshot!(markdown_brief(&report(saturated())).unwrap());
}

#[test]
fn a_saturated_cpu_as_json() {
    insta::assert_snapshot!(json(&report(saturated())).unwrap());
}

/// Findings of the window, and two events that were before it.
fn with_events_before() -> Vec<rdiag_model::Finding> {
    let mut findings = saturated();
    for (id, title) in [("memory.errors.oom", "OOM kills"), ("filesystem.errors.recorded", "Recorded errors")] {
        let mut over = super::sample::finding(id, rdiag_model::Status::Info);
        over.title = title.into();
        over.value = Some(0.0);
        over.threshold.conditions.insert("info".into(), "x_since_boot.count.last > 0".into());
        findings.push(over);
    }
    findings
}

#[test]
fn what_was_before_the_window_is_one_fold_with_its_details_below_the_findings() {
    let report = report(with_events_before());
    let is_folded =
        |line: &str| line.contains("OOM kills (since boot)") && line.contains("Recorded errors (since boot)");
    let text = terminal(&report, None, &Style { width: 100, ..WIDE }).to_string();
    let (before, below) = text.split_once("\nBefore the window: ").unwrap();
    assert!(before.contains("1. ✖ CRITICAL") && !before.contains("OOM kills"), "{text}");
    assert!(is_folded(below.lines().next().unwrap()), "{text}");
    let told = "- OOM kills (since boot) · memory.errors.oom\n  The summary of memory.errors.oom.";
    assert!(below.contains(told), "{text}");
    let text = markdown(&report).unwrap().to_string();
    // Above them, the matrix names them.
    let (_, findings) = text.split_once("## Findings").unwrap();
    let (before, below) = findings.split_once("### Before the window: ").unwrap();
    assert!(before.contains("### 1. CRITICAL") && !before.contains("OOM kills"), "{text}");
    assert!(is_folded(below.lines().next().unwrap()), "{text}");
    assert!(below.contains("#### OOM kills (since boot) (memory.errors.oom)\n\nThe summary of memory"), "{text}");
    // Nothing of it is lost.
    assert!(below.contains("- **Threshold:**") && below.contains("- **By hand:** `vmstat 1 10`"), "{text}");
    let page = super::html(&report).unwrap();
    let (_, fold) = page.split_once("<details class=\"panel history\"><summary>Before the window: ").unwrap();
    let (summary, below) = fold.split_once("</summary>").unwrap();
    assert!(is_folded(summary), "{fold}");
    let (below, _) = below.split_once("</section>").unwrap();
    assert!(
        below.contains(">OOM kills (since boot)") && below.contains("The summary of memory.errors.oom."),
        "{below}"
    );
}

#[test]
fn colour_only_repeats_what_the_words_say() {
    let plain = terminal(&report(saturated()), None, &WIDE).to_string();
    let mut colored = terminal(&report(saturated()), None, &Style { color: true, ..WIDE }).to_string();
    assert_ne!(plain, colored);
    for code in ["1", "2", "1;31", "1;33", "36", "35", "32", "0"] {
        colored = colored.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(plain, colored);
}

#[test]
fn no_line_is_wider_than_the_terminal_and_the_answer_stands_in_the_last_five() {
    for width in [40, 60, 72, 80, 100, 200] {
        let text = terminal(&report(saturated()), None, &Style { width, ..WIDE });
        let widest = text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
        assert!(widest <= width, "{widest} > {width}\n{text}");
        for text in [text, brief(&report(saturated()), None, &Style { width, ..WIDE })] {
            let text = text.to_string();
            let widest = text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
            assert!(widest <= width, "{widest} > {width}\n{text}");
            let last: Vec<&str> = text.lines().rev().take(if width < 60 { 9 } else { 5 }).collect();
            let last: String = last.into_iter().rev().collect::<Vec<_>>().join(" ");
            assert!(last.contains("CPU saturation") && last.contains("stress-ng"), "{last}");
        }
    }
}

#[test]
fn a_saturated_cpu_on_one_screen() {
    let text = brief(&report(saturated()), Some(&Shown::seen("Written: out/report.html")), &WIDE);
    assert!(text.lines().count() <= 24, "more than a screen: {text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_chat_gets_one_line_and_a_quiet_run_the_verdict() {
    let line = summary(&report(saturated()), &WIDE).to_string();
    assert_eq!(line.lines().count(), 1);
    assert!(line.starts_with("web-03: ") && line.contains("stress-ng"), "{line}");
    let text = verdict_alone(&report(saturated()), &WIDE).to_string();
    assert!(brief(&report(saturated()), None, &WIDE).to_string().ends_with(&text), "{text}");
}
