//! What a terminal says of how far an account can be trusted.

use super::profile_testing::{profile_of, report_of};
use super::{Style, brief, terminal};
use crate::accounts::{ledger, part, run};
use rdiag_model::ledger::{Ledger, Thread};
use rdiag_model::profile::Conversation;
use rdiag_model::{Component as C, Report, Target};

const WIDE: Style = Style { width: 80, color: false, unicode: true };

/// A shell, and what it leaves running.
fn shell(leaves: bool, lost: u64) -> Report {
    let own = Thread { comm: "sh".into(), ..run(11, 1, 0.0, vec![part(C::CpuUser, 0.2), part(C::WaitSleep, 0.1)]) };
    let behind = Thread { comm: "sleep".into(), died: !leaves, ..run(12, 11, 0.1, vec![part(C::WaitSleep, 0.2)]) };
    let mut ledger = Ledger { ..ledger(0.3, vec![own, behind]) };
    if lost > 0 {
        ledger.lost.insert("stacks that found no room".into(), lost);
    }
    let target = Target { pids: vec![11], command: Some("sh -c 'sleep 9 &'".into()), ..Target::default() };
    report_of(Ok(profile_of(&ledger, &target, Conversation::default())), Vec::new())
}

#[test]
fn one_screen_says_below_the_table_what_its_figures_leave_out() {
    let text = brief(&shell(true, 3), None, &WIDE).to_string();
    let (_, below) = text.split_once("Confidence: ").unwrap();
    insta::assert_snapshot!(below);
    let sure = brief(&shell(false, 0), None, &WIDE).to_string();
    assert!(!sure.contains("  ! ") && !sure.contains("No goal was given"), "{sure}");
}

#[test]
fn the_whole_text_says_all_that_limits_the_account_once() {
    let text = terminal(&shell(true, 3), None, &Style { width: 60, unicode: false, ..WIDE }).to_string();
    let (_, below) = text.split_once("Quality ").unwrap();
    insta::assert_snapshot!(below.split_once("wait.sleep").unwrap().0);
    for limit in ["Still running", "Lost:", "No goal was given"] {
        assert_eq!(text.matches(limit).count(), 1, "{limit} in {text}");
    }
}
