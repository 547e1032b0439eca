//! The kernel log of a time that is over, from the journal: alone, and beside figures of another program.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::sadf;
use crate::support::{finding, rdiag};

/// Minutes after 2026-03-10 03:00 UTC at which a line was written, its boot and what it says.
type Line<'a> = (i64, &'a str, &'a str);

const KILL: &str =
    "Out of memory: Killed process 812 (postgres) total-vm:9kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB";
const DISK: &str = "I/O error, dev sdb, sector 4711 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2";

/// What journalctl prints of it.
fn journal(lines: &[Line<'_>]) -> String {
    let mut text = String::new();
    for (minutes, boot, message) in lines {
        let wall = 1_773_111_600_000_000 + minutes * 60_000_000;
        // Each was booted an hour before 03:00, which no clock of a boot shows.
        let since_boot = (3_600_000_000 + minutes * 60_000_000).to_string();
        let entry = serde_json::json!({
            "__REALTIME_TIMESTAMP": wall.to_string(), "__MONOTONIC_TIMESTAMP": since_boot, "_BOOT_ID": boot,
            "_SOURCE_MONOTONIC_TIMESTAMP": since_boot, "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "PRIORITY": "3",
            "_HOSTNAME": "db-1", "MESSAGE": message,
        });
        writeln!(text, "{entry}").unwrap();
    }
    text
}

/// What use-method says of the ten minutes up to a time.
fn told(files: &[&std::path::Path], given: &[u8], at: &str) -> (Option<i32>, Value, String) {
    let mut command = rdiag();
    command.env("TZ", "UTC").args(["run", "use-method", "--at", at, "--format", "json", "--out", "-", "--from", "-"]);
    for file in files {
        command.arg("--from").arg(file);
    }
    let output = command.write_stdin(given).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn status<'r>(report: &'r Value, rule: &str) -> &'r str {
    finding(report, rule, None)["status"].as_str().unwrap()
}

#[test]
fn an_oom_kill_that_only_the_journal_has_is_found_at_its_time_and_an_hour_later_it_is_history() {
    let lines = [(-60, "a", "smp: Brought up 1 node, 4 CPUs"), (5, "a", KILL), (5, "a", DISK), (200, "a", "x")];
    let text = journal(&lines);
    let (code, report, said) = told(&[], text.as_bytes(), "2026-03-10T03:08Z");
    assert_eq!(code, Some(0), "{said}");
    crate::schema::validate("report", &report);
    assert!(said.contains("Source: the journal, lines of the kernel log with their times"), "{said}");
    assert!(said.contains("Judged: 2026-03-10 02:59:00 UTC to 2026-03-10 03:09:00 UTC"), "{said}");
    let oom = finding(&report, "memory.errors.oom", None);
    assert_eq!(
        (&oom["status"], &oom["culprit"]["name"]),
        (&"critical".into(), &"postgres (pid 812)".into()),
        "{oom:#}"
    );
    assert!(oom["log"][0].as_str().unwrap().contains("Killed process 812"), "{oom:#}");
    assert_eq!(oom["confidence"], "high", "{oom:#}");
    assert!(["warning", "critical"].contains(&status(&report, "disk.errors")), "{report:#}");
    assert_eq!(status(&report, "kernel.errors.hung_task"), "ok");
    // What the journal does not have is not known.
    for rule in ["cpu.utilization", "memory.utilization", "kernel.saturation.log", "network.saturation.listen_overflow"]
    {
        assert_eq!(status(&report, rule), "unknown", "{rule}");
    }
    assert_eq!((&report["host"]["hostname"], &report["host"]["cpus"]), (&"db-1".into(), &4.into()));
    // Five minutes later it is recent; an hour later, of a time before.
    let (_, report, _) = told(&[], text.as_bytes(), "2026-03-10T03:17Z");
    let oom = finding(&report, "memory.errors.oom", None);
    assert!(oom["status"] == "critical" && oom["seconds_before"] == 180.0, "{oom:#}");
    let (_, report, _) = told(&[], text.as_bytes(), "2026-03-10T04:08Z");
    assert_eq!((status(&report, "memory.errors.oom"), status(&report, "disk.errors")), ("info", "info"));
    // And before it there was none.
    let (_, report, _) = told(&[], text.as_bytes(), "2026-03-10T03:03Z");
    assert_eq!((status(&report, "memory.errors.oom"), status(&report, "disk.errors")), ("ok", "ok"));
}

#[test]
fn a_kill_before_a_reboot_counts_at_its_time_by_the_wall_clock() {
    let mut lines = journal(&[(-60, "a", "x"), (5, "a", KILL)]);
    // Booted at 03:07.
    let booted = journal(&[(8, "b", "Linux version 6.1.0-18-amd64 (gcc)"), (30, "b", "x")]);
    for (minutes, seconds) in [(8, 60), (30, 1380)] {
        let known = (3_600_000_000_i64 + minutes * 60_000_000).to_string();
        let line = booted.lines().find(|line| line.contains(&known)).unwrap();
        writeln!(lines, "{}", line.replace(&known, &(seconds * 1_000_000).to_string())).unwrap();
    }
    let (code, report, said) = told(&[], lines.as_bytes(), "2026-03-10T03:08Z");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("The host was booted at 2026-03-10 03:07:00 UTC"), "{said}");
    assert_eq!(
        (status(&report, "memory.errors.oom"), &report["host"]["kernel"]),
        ("critical", &"6.1.0-18-amd64".into())
    );
}

#[test]
fn beside_figures_of_sysstat_the_kernel_log_is_judged_line_by_line() {
    let mut figures = tempfile::NamedTempFile::new().unwrap();
    figures.write_all(sadf(&[("03:00:01", 5.0, 1.0), ("03:10:01", 99.0, 85.0)]).as_bytes()).unwrap();
    let text = journal(&[(-60, "a", "x"), (5, "a", KILL), (200, "a", "x")]);
    let (code, report, said) = told(&[figures.path()], text.as_bytes(), "2026-03-10T03:08Z");
    assert_eq!(code, Some(0), "{said}");
    for source in ["Source: sysstat, means over 10 min", "Source: the journal, lines of the kernel log"] {
        assert!(said.contains(source), "{said}");
    }
    let (oom, cpu) = (finding(&report, "memory.errors.oom", None), finding(&report, "cpu.utilization", None));
    assert_eq!((&oom["status"], &oom["confidence"]), (&"critical".into(), &"high".into()), "{oom:#}");
    assert_eq!((&cpu["status"], &cpu["confidence"]), (&"warning".into(), &"low".into()), "{cpu:#}");
    assert_eq!(report["host"]["cpus"], 2);
    // Figures of two programs are not mixed.
    let (code, _, said) = told(&[figures.path()], sadf(&[("03:10:01", 9.0, 1.0)]).as_bytes(), "2026-03-10T03:08Z");
    assert!(code == Some(2) && said.contains("figures of sysstat and of sysstat were given: one of them"), "{said}");
    let mut second = tempfile::NamedTempFile::new().unwrap();
    second.write_all(text.as_bytes()).unwrap();
    let (code, _, said) = told(&[second.path()], text.as_bytes(), "2026-03-10T03:08Z");
    assert!(code == Some(2) && said.contains("more than one journal was given"), "{said}");
}

#[test]
fn a_journal_that_may_not_be_read_or_is_not_kept_says_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let stub = place.path().join("journalctl");
    let words = "No journal files were opened due to insufficient permissions.";
    std::fs::write(&stub, format!("#!/bin/sh\necho '{words}' >&2\nexit 1\n")).unwrap();
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = rdiag();
    let typed = "journalctl _TRANSPORT=kernel -o json | \"$RDIAG\" run use-method --at 2026-03-10T03:08Z --from - --out - --format json";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", typed]).env("RDIAG", program.get_program());
    shell.env("PATH", format!("{}:/usr/bin:/bin", place.path().display()));
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for wanted in [words, "it is empty", "group systemd-journal or adm", "Storage=persistent"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    // One that was lost with the boot before.
    let (code, _, said) = told(&[], journal(&[(60, "b", "x")]).as_bytes(), "2026-03-10T03:08Z");
    assert!(code == Some(2) && said.contains("it has nothing before 2026-03-10 04:00:00 UTC"), "{said}");
    assert!(said.contains("Storage=persistent"), "{said}");
}

#[test]
fn garbage_in_a_journal_costs_itself_and_garbage_alone_is_refused() {
    let text = journal(&[(5, "a", KILL), (200, "a", "x")]);
    let garbled = format!("{text}{{\"__REALTIME_TIMESTAMP\": [[[\n\u{1b}[2Jhello\n{}", &text[..40]);
    let (code, report, said) = told(&[], garbled.as_bytes(), "2026-03-10T03:08Z");
    assert_eq!((code, status(&report, "memory.errors.oom")), (Some(0), "critical"), "{said}");
    assert!(said.contains("2 lines of it are no entries and were left out"), "{said}");
    assert!(said.contains("its last entry is cut off") && !said.contains('\u{1b}'), "{said}");
    for (bytes, wanted) in [
        (&b"-- No entries --\n"[..], "it is a journal without an entry"),
        (b"Mar 10 03:05:12 db-1 kernel: Out of memory\n", "it is the journal in a form that is not read here"),
        (
            b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xff",
            "it is a journal without an entry",
        ),
    ] {
        let (code, _, said) = told(&[], bytes, "2026-03-10T03:08Z");
        assert!(code == Some(2) && said.contains(wanted), "{said}");
    }
}

#[test]
fn a_name_in_the_journal_acts_on_no_terminal_and_no_page() {
    let name = "\u{1b}[2J<script>\nCRITICAL";
    let kill = KILL.replace("postgres", name);
    let text = journal(&[(5, "a", kill.as_str()), (200, "a", "x")]);
    for format in ["html", "md"] {
        let mut command = rdiag();
        command.args(["report", "--at", "2026-03-10T03:08Z", "--from", "-", "--format", format, "--out", "-"]);
        let output = command.write_stdin(text.clone()).output().unwrap();
        let page = String::from_utf8(output.stdout).unwrap();
        assert!(page.contains("CRITICAL (pid 812)") && page.contains("&lt;script&gt;"), "{format}: {page}");
        assert!(!page.contains('\u{1b}') && !page.contains("J<script>") && !page.contains("\nCRITICAL ("), "{format}");
    }
}

#[test]
fn two_times_of_the_journal_are_compared() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("kernel.json");
    std::fs::write(&file, journal(&[(-600, "a", "x"), (5, "a", KILL), (200, "a", "x")])).unwrap();
    let mut command = rdiag();
    command.args(["diff", "--at", "2026-03-10T03:08Z", "--at", "2026-03-10T02:08Z", "--format", "json", "--from"]);
    let output = command.arg(&file).output().unwrap();
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let worse = compared["findings"].as_array().and_then(|all| all.iter().find(|one| one["id"] == "memory.errors.oom"));
    let worse = worse.unwrap_or_else(|| panic!("{compared:#} {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(worse["after"], "critical", "{worse:#}");
}
