//! Repeated runs in every format: a program that sleeps in every fifth run.

use super::profile_testing::{goal, napping, profile_of, report_of};
use super::{html, json, markdown, terminal};
use crate::accounts::ledger;
use crate::terminal::Style;
use rdiag_model::ledger::{Marks, Thread};
use rdiag_model::{Profile, Report, Target};

const WIDE: Style = Style { width: 80, color: false, unicode: true };

fn of(threads: Vec<Thread>, command: &str) -> Profile {
    let target =
        Target { pids: vec![10], command: Some(command.into()), children: true, each: true, ..Target::default() };
    profile_of(&ledger(42.0, threads), &target, goal(0.2))
}

/// The report of a profile alone.
fn report(profile: Profile) -> Report {
    report_of(Ok(profile), Vec::new())
}

#[test]
fn runs_that_sleep_now_and_then_on_a_terminal() {
    insta::assert_snapshot!(terminal(&report(of(napping("clock_nanosleep"), "report --month")), None, &WIDE));
}

#[test]
fn runs_that_sleep_now_and_then_as_markdown() {
    insta::assert_snapshot!(markdown(&report(of(napping("clock_nanosleep"), "report --month"))).unwrap());
}

/// Requests of two kinds, of which each fifth sleeps, and one without a name.
fn keyed() -> Report {
    let keys = ["/cart", "/report?of=a|very`long*month", "/cart", "/cart"];
    let name = |(at, thread): (usize, Thread)| {
        let key = if at == 0 {
            None
        } else if thread.parts.len() > 2 {
            Some("/month")
        } else {
            keys.get(at % 4).copied()
        };
        Thread { key: key.map(str::to_owned), ..thread }
    };
    let threads = napping("clock_nanosleep").into_iter().enumerate().map(name).collect();
    let marks =
        Marks { from: "app:begin".into(), to: "app:end".into(), key: Some("arg2:string".into()), handover: None };
    let target = Target { pids: vec![10], each: true, marks: Some(marks), ..Target::default() };
    report(profile_of(&ledger(42.0, threads), &target, goal(0.2)))
}

#[test]
fn requests_by_their_keys_on_a_terminal() {
    insta::assert_snapshot!(terminal(&keyed(), None, &WIDE));
}

#[test]
fn requests_by_their_keys_as_markdown() {
    insta::assert_snapshot!(markdown(&keyed()).unwrap());
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for report in [report(of(napping("clock_nanosleep"), "report --month")), keyed()] {
        fits(&report);
    }
}

fn fits(report: &Report) {
    for width in [32, 40, 60, 72, 80, 100, 120] {
        for unicode in [true, false] {
            let text = terminal(report, None, &Style { width, unicode, ..WIDE });
            let widest = text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
            assert!(widest <= width, "{widest} > {width}\n{text}");
        }
    }
}

#[test]
fn where_runs_could_not_be_told_apart_the_terminal_says_why() {
    let mut profile = of(napping("clock_nanosleep"), "report --month");
    let limits = vec!["Single runs are separated inside the kernel only.".to_owned()];
    profile.runs = Some(rdiag_model::runs::Runs { limits, ..Default::default() });
    let text = terminal(&report(profile), None, &WIDE);
    assert!(text.contains("  ! Single runs are separated inside the kernel only.\n"), "{text}");
    assert!(!text.contains("slow runs"), "{text}");
}

#[test]
fn the_page_tells_the_difference_before_the_profile_of_all_runs() {
    let page = html(&report(of(napping("clock_nanosleep"), "report --month"))).unwrap();
    let (runs, profile) = (page.find("id=\"runs\"").unwrap(), page.find("id=\"profile\"").unwrap());
    assert!(runs < profile);
    let told = page.get(runs..profile).unwrap();
    assert!(told.contains("voluntary sleep (timer): clock_nanosleep") && told.contains("4 of 5"), "{told}");
    assert!(told.contains("16 of 20 runs (80.0%) were within the goal;"), "{told}");
    assert!(told.contains("<svg class=\"plot\""), "{told}");
}

#[test]
fn a_goal_that_is_met_on_average_and_missed_by_some_runs_is_not_called_fine() {
    let status = |goal| {
        let mut profile = of(napping("clock_nanosleep"), "report --month");
        profile.runs.as_mut().unwrap().within_goal = goal;
        profile.forecast.goal.as_mut().unwrap().reach = rdiag_model::profile::Reach::Met;
        report(profile).verdict.status
    };
    assert_eq!([status(Some(16)), status(Some(20))], [rdiag_model::Status::Info, rdiag_model::Status::Ok]);
}

#[test]
fn of_a_goal_for_a_share_of_the_runs_that_share_decides() {
    let of = |goal: Option<bool>| {
        let mut profile = of(napping("clock_nanosleep"), "report --month");
        profile.conversation.goal_share = Some(0.75);
        let runs = profile.runs.as_mut().unwrap();
        runs.within_goal = Some(16);
        runs.percentile =
            Some(rdiag_model::runs::PercentileGoal { share: 0.75, seconds: 0.2, met: goal, ..Default::default() });
        profile.forecast.goal.as_mut().unwrap().reach = rdiag_model::profile::Reach::Met;
        let report = report(profile);
        (report.verdict.status, terminal(&report, None, &WIDE))
    };
    let (status, text) = of(Some(true));
    assert_eq!(status, rdiag_model::Status::Ok, "a quarter may miss it");
    assert!(text.contains("16 of 20 runs (80.0%) were within 200 ms; the goal is 75.0%."), "{text}");
}

#[test]
fn names_of_strangers_do_no_harm_in_any_format() {
    let evil = "</style><script>alert(1)</script>\u{202e}\x1b[31m|`*_[x](javascript:1)\n# head";
    let report = report(of(napping(evil), evil));
    let page = html(&report).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}') && !page.contains('\x1b'));
    let text = terminal(&report, None, &WIDE);
    assert!(!text.contains('\u{202e}') && !text.contains('\x1b'), "{text}");
    let text = markdown(&report).unwrap();
    assert!(!text.contains("<script") && !text.contains("\n# head") && !text.contains("[x]("), "{text}");
    assert!(!json(&report).unwrap().contains('\u{202e}'));
}
