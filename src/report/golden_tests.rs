//! What people see, as a whole. A changed or missing golden fails; `cargo insta review` accepts a new one.

use super::sample::{core_ok, report, saturated, unknown};
use super::{Style, json, markdown, terminal};

const WIDE: Style = Style { width: 80, color: false, unicode: true };

#[test]
fn a_saturated_cpu_on_a_terminal_of_80_columns() {
    insta::assert_snapshot!(terminal(&report(saturated()), &WIDE));
}

#[test]
fn a_saturated_cpu_on_a_terminal_of_60_columns_without_unicode() {
    insta::assert_snapshot!(terminal(&report(saturated()), &Style { width: 60, color: false, unicode: false }));
}

#[test]
fn a_saturated_cpu_on_a_very_narrow_terminal() {
    insta::assert_snapshot!(terminal(&report(saturated()), &Style { width: 40, color: false, unicode: true }));
}

#[test]
fn a_quiet_host_that_was_not_seen_in_full() {
    let mut findings = core_ok();
    findings.push(unknown("hardware.errors", "EDAC is not loaded"));
    insta::assert_snapshot!(terminal(&report(findings), &WIDE));
}

#[test]
fn a_saturated_cpu_as_markdown() {
    insta::assert_snapshot!(markdown(&report(saturated())).unwrap());
}

#[test]
fn a_saturated_cpu_as_json() {
    insta::assert_snapshot!(json(&report(saturated())).unwrap());
}

#[test]
fn colour_only_repeats_what_the_words_say() {
    let plain = terminal(&report(saturated()), &WIDE).to_string();
    let mut colored = terminal(&report(saturated()), &Style { color: true, ..WIDE }).to_string();
    assert_ne!(plain, colored);
    for code in ["1", "2", "1;31", "1;33", "36", "35", "32", "0"] {
        colored = colored.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(plain, colored);
}

#[test]
fn no_line_is_wider_than_the_terminal_and_the_answer_stands_in_the_first_five() {
    for width in [40, 60, 72, 80, 100, 200] {
        let text = terminal(&report(saturated()), &Style { width, ..WIDE });
        let widest = text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
        assert!(widest <= width, "{widest} > {width}\n{text}");
        let first: String = text.lines().take(5).collect::<Vec<_>>().join(" ");
        assert!(first.contains("CPU saturation") && first.contains("stress-ng"), "{first}");
    }
}
