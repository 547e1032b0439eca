//! What it takes to begin an observation, and what the observed pay for it at first.

use std::process::{Child, Command, Stdio};

use super::response::NEEDS;
use crate::support::{alone, has, rdiag, wait_until};

/// The kernel takes about a microsecond for each that it verifies. A loop that it follows turn by turn, or a function that it verifies
/// anew for each place that it is called from, has tens of thousands.
const MOST: u64 = 60_000;

/// Instructions that the kernel has verified for the programs that a process has open (Linux 5.16), by the id of the program.
fn verified(child: &Child) -> std::collections::BTreeMap<u64, u64> {
    let entries = std::fs::read_dir(format!("/proc/{}/fdinfo", child.id())).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let number = |text: &str, name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    texts.filter_map(|text| number(&text, "prog_id:").zip(number(&text, "verified_insns:"))).collect()
}

#[test]
#[ignore = "needs: root, eBPF"]
fn observing_a_command_takes_the_kernel_sixty_thousand_instructions_to_verify_at_most() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    let mut child = Command::new(binary)
        .args(["probe", "response", "--", "sleep", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let is_started = || {
        let started = std::fs::read_to_string(&children).unwrap_or_default();
        started
            .split_whitespace()
            .any(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sleep\n"))
    };
    // The command runs when everything is attached.
    let began = wait_until(60, is_started);
    let programs = verified(&child);
    let _ = child.wait();
    assert!(began, "it never began");
    let all: u64 = programs.values().sum();
    assert!(programs.len() >= 10 && (10_000..=MOST).contains(&all), "{all} instructions of {programs:?}");
}

/// In which share of a command's time its calls were watched.
fn watched(command: &[&str]) -> f64 {
    let probe = ["probe", "response", "--budget", "100%", "--format", "json", "--"];
    let output = rdiag().args(probe).args(command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("\"notes\""), "{text}");
    let share = text.split("system calls were watched in ").nth(1).and_then(|rest| rest.split('%').next());
    share.map_or(1.0, |percent| percent.parse::<f64>().unwrap() / 100.0)
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_command_with_many_calls_has_them_watched_in_parts_after_its_first_moments() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    // A second or less, of which a poll would see the end, if anything: until one it is a look in the first tenths.
    let many = watched(&["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000000", "status=none"]);
    assert!((0.001..0.4).contains(&many), "{many}");
    assert_eq!(watched(&["sleep", "0.7"]), 1.0, "few are watched to the end");
}
