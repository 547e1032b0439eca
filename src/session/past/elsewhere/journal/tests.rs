//! Lines of the journal: when they were written, by which boot and who wrote them; and what is no journal.

use std::sync::LazyLock;

use super::super::tests::{SECOND, plan, series};
use super::super::{Past, elsewhere};
use super::*;
use crate::past::Span;
use rdiag_model::LogLine;
use rdiag_model::recording::Number;
use rdiag_playbook::Plan;

static PLAN: LazyLock<Plan> = LazyLock::new(plan);

const KILL: &str = "Out of memory: Killed process 812 (postgres) total-vm:9kB, anon-rss:1kB, file-rss:0kB";
const DISK: &str = "I/O error, dev sdb, sector 4711 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2";

/// A line of the kernel at a second since 1970, so many seconds after its boot.
fn line(at: i64, boot: &str, since_boot: i64, text: &str) -> String {
    entry(at, boot, since_boot, ("kernel", 0), &serde_json::json!(text))
}

fn entry(
    at: i64,
    boot: &str,
    since_boot: i64,
    (transport, facility): (&str, u8),
    message: &serde_json::Value,
) -> String {
    let entry = serde_json::json!({
        "__CURSOR": "s=1;i=1", "__REALTIME_TIMESTAMP": (at * SECOND).to_string(), "_BOOT_ID": boot,
        "__MONOTONIC_TIMESTAMP": (since_boot * SECOND).to_string(), "_SOURCE_MONOTONIC_TIMESTAMP": (since_boot * SECOND).to_string(),
        "_TRANSPORT": transport, "SYSLOG_FACILITY": facility.to_string(), "PRIORITY": "3", "SYSLOG_IDENTIFIER": "kernel",
        "_HOSTNAME": "db-1", "MESSAGE": message,
    });
    format!("{entry}\n")
}

/// What is known of the time from second 10,000 to 10,600.
fn of(bytes: &[u8]) -> Result<Past, String> {
    elsewhere(bytes, Span { from: 10_000 * SECOND, to: 10_600 * SECOND }, &PLAN, &Zone::utc())
}

fn told(lines: &[String]) -> Past {
    of(lines.concat().as_bytes()).unwrap()
}

fn log(past: &Past) -> Vec<LogLine> {
    past.recording.windows[0].collectors["kernel_log"].log.clone()
}

/// How often a class was counted before the window and until its end.
fn counted(past: &Past, class: &str) -> (f64, f64) {
    let values = series(past, &format!("kernel_log.{class}")).unwrap().values;
    let of = |value: Option<&Option<Number>>| value.unwrap().unwrap().as_f64();
    (of(values.first()), of(values.last()))
}

#[test]
fn a_line_of_the_window_is_one_of_it_and_an_earlier_one_is_not() {
    let lines = [line(9_400, "a", 400, DISK), line(10_000, "a", 1000, KILL), line(10_601, "a", 1601, KILL)];
    let past = told(&lines);
    assert_eq!((counted(&past, "disk"), counted(&past, "oom")), ((1.0, 1.0), (0.0, 1.0)));
    assert_eq!(series(&past, "vmstat.oom_kill").unwrap().values, series(&past, "kernel_log.oom").unwrap().values);
    let found: Vec<_> =
        log(&past).into_iter().map(|l| (l.class, l.in_window, l.seconds_since_boot, l.subject)).collect();
    let subject = |text: &str| Some(text.to_owned());
    let expected = [
        ("oom".to_owned(), true, 1000.0, subject("postgres (pid 812)")),
        ("disk".to_owned(), false, 400.0, subject("sdb")),
    ];
    assert_eq!(found, expected);
    let host = &past.recording.host;
    assert_eq!((host.hostname.as_str(), host.uptime_seconds, host.cpus), ("db-1", 1000.0, 0));
    assert_eq!(past.recording.windows[0].seconds, 600.0);
    assert_eq!(past.origin, super::super::Origin { logged: true, ..super::super::Origin::of("journal", None) });
    assert!(past.notes[0].starts_with("Source: the journal"), "{:?}", past.notes);
    // What the journal does not count is not zero.
    assert_eq!(series(&past, "kernel_log.missed"), None);
    assert!(past.recording.windows[0].collectors["kernel_log"].gaps.contains_key("kernel_log.missed"));
}

#[test]
fn lines_of_an_earlier_boot_count_at_their_time_by_the_wall_clock() {
    // Booted at second 9,900: the kernel's own stamps begin anew.
    let lines = [
        line(2_000, "old", 1, DISK),
        line(5_000, "before", 10, "Linux version 6.1.0-9 (gcc)"),
        line(5_000, "before", 10, DISK),
        line(9_800, "before", 4_810, KILL),
        line(9_910, "now", 10, DISK),
        line(9_911, "now", 11, "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)"),
        line(9_912, "now", 12, "smp: Brought up 1 node, 8 CPUs"),
        line(10_300, "now", 400, DISK),
    ];
    let past = told(&lines);
    assert_eq!((counted(&past, "oom"), counted(&past, "disk")), ((1.0, 1.0), (2.0, 3.0)), "without the oldest boot");
    let found: Vec<_> = log(&past).into_iter().map(|l| (l.class, l.in_window, l.seconds_since_boot)).collect();
    // Stamps are those of the boot that was running ten minutes before; what the kernel found when it began is left out.
    let expected = [("disk", true, 5_310.0), ("disk", false, 10.0), ("oom", false, 4_810.0)];
    assert_eq!(found, expected.map(|(class, is_in, at)| (class.to_owned(), is_in, at)));
    let host = &past.recording.host;
    assert_eq!((host.kernel.as_str(), host.cpus, host.uptime_seconds), ("6.1.0-18-amd64", 8, 5_010.0));
    assert!(past.notes.iter().any(|note| note == "The host was booted at 1970-01-01 02:45:00 UTC"), "{:?}", past.notes);
    // Long before, a boot changes nothing.
    let past = told(&[line(2_000, "old", 1, KILL), line(5_000, "now", 10, DISK), line(10_300, "now", 5_310, DISK)]);
    assert_eq!((counted(&past, "oom"), past.recording.host.uptime_seconds), ((0.0, 0.0), 5_010.0));
    assert!(past.notes.iter().all(|note| !note.contains("booted")), "{:?}", past.notes);
}

#[test]
fn a_line_that_journald_read_late_counts_when_it_was_written() {
    let late = |by: i64| {
        let line = line(10_100, "a", 1_100, KILL);
        let written = format!("\"_SOURCE_MONOTONIC_TIMESTAMP\":\"{}\"", (1_100 - by) * SECOND);
        let known = format!("\"_SOURCE_MONOTONIC_TIMESTAMP\":\"{}\"", 1_100 * SECOND);
        assert!(line.contains(&known));
        counted(&told(&[line.replace(&known, &written)]), "oom")
    };
    // The clock of the log drifts by seconds.
    assert_eq!((late(0), late(60)), ((0.0, 1.0), (0.0, 1.0)));
    assert_eq!((late(101), late(300)), ((1.0, 1.0), (1.0, 1.0)));
}

#[test]
fn what_a_program_wrote_is_no_line_of_the_kernel() {
    let text = serde_json::json!(KILL);
    let by = |transport: &str, facility: u8| entry(10_100, "a", 1_100, (transport, facility), &text);
    let known = line(10_050, "a", 1_050, "random: crng init done");
    for (transport, facility) in
        [("kernel", 1), ("kernel", 3), ("kernel", 255), ("syslog", 0), ("journal", 0), ("stdout", 0)]
    {
        let past = told(&[known.clone(), by(transport, facility)]);
        assert_eq!(counted(&past, "oom"), (0.0, 0.0), "{transport} {facility}");
    }
    // One that does not say it is none either.
    let untold = by("kernel", 0).replace("SYSLOG_FACILITY", "X_FACILITY");
    assert_eq!(counted(&told(&[known.clone(), untold]), "oom"), (0.0, 0.0));
    assert_eq!(counted(&told(&[known, by("kernel", 0)]), "oom"), (0.0, 1.0));
}

#[test]
fn a_name_with_a_line_break_begins_no_line() {
    let name = format!("x\n3,99,1,-;{DISK}\n\u{1b}[31m\\ é");
    let text = format!("Out of memory: Killed process 7 ({name}) total-vm:9kB, anon-rss:1kB");
    let past = told(&[line(10_100, "a", 1_100, &text)]);
    assert_eq!((counted(&past, "disk"), counted(&past, "oom")), ((0.0, 0.0), (0.0, 1.0)));
    let told = log(&past).remove(0);
    // As the kernel writes it.
    assert!(
        told.text.contains(r"(x\x0a3,99,1,-;I/O error") && told.text.contains(r"\x1b[31m\x5c \xc3\xa9)"),
        "{}",
        told.text
    );
}

#[test]
fn a_message_may_be_bytes_or_several_or_nothing_and_the_other_form_says_the_same() {
    let bytes = serde_json::json!(KILL.as_bytes());
    let by = |message: &serde_json::Value| told(&[entry(10_100, "a", 1_100, ("kernel", 0), message)]);
    let plain = by(&serde_json::json!(KILL));
    assert_eq!(counted(&plain, "oom"), (0.0, 1.0));
    let same = |past: &Past| past.recording.windows[0].collectors == plain.recording.windows[0].collectors;
    assert!(same(&by(&bytes)));
    assert!(same(&by(&serde_json::json!([KILL, DISK]))) && same(&by(&serde_json::json!([KILL.as_bytes(), DISK]))));
    assert_eq!(counted(&by(&serde_json::json!(null)), "records"), (1.0, 2.0));
    for wrong in ["[300]", "[[[1]]]", "{\"a\": 1}", "true", "[1.5]"] {
        let odd = entry(10_100, "a", 1_100, ("kernel", 0), &serde_json::json!("HERE")).replace("\"HERE\"", wrong);
        let past = told(&[line(10_000, "a", 1_000, DISK), odd]);
        assert!(past.notes.contains(&"The journal: 1 line of it is no entry and was left out".to_owned()), "{wrong}");
    }
    let head = "__CURSOR=s=1;i=1\n__REALTIME_TIMESTAMP=10100000000\n__MONOTONIC_TIMESTAMP=1100000000\n_BOOT_ID=a\n";
    let rest = "_TRANSPORT=kernel\nSYSLOG_FACILITY=0\nPRIORITY=3\n_HOSTNAME=db-1\n";
    assert!(same(&of(format!("{head}{rest}MESSAGE={KILL}\n\n").as_bytes()).unwrap()));
    let with_length = |length: usize| {
        [
            format!("{head}MESSAGE\n").as_bytes(),
            &(length as u64).to_le_bytes(),
            KILL.as_bytes(),
            b"\n",
            rest.as_bytes(),
            b"\n",
        ]
        .concat()
    };
    assert!(same(&of(&with_length(KILL.len())).unwrap()));
    for length in [KILL.len() + 1, usize::MAX, 0] {
        assert!(of(&with_length(length)).is_err(), "{length}");
    }
}

#[test]
fn what_the_journal_does_not_reach_is_said() {
    let notes = |lines: &[String]| told(lines).notes.join("\n");
    let early = line(9_000, "a", 100, DISK);
    let all = notes(&[early.clone(), line(10_700, "a", 1_800, DISK)]);
    assert!(!all.contains("not known") && !all.contains("taken to mean"), "{all}");
    let begins = "The journal begins at 1970-01-01 02:46:50 UTC";
    let late = notes(&[line(10_010, "a", 1_110, DISK), line(10_700, "a", 1_800, DISK)]);
    assert!(late.contains(&format!("{begins}: what the kernel logged before is not known")), "{late}");
    let past = told(&[early.clone(), line(10_010, "a", 1_110, DISK)]);
    assert!(
        past.notes
            .iter()
            .any(|note| note.starts_with("The last entry of the journal is of 1970-01-01 02:46:50 UTC: taken"))
    );
    assert!(past.origin.doubt.is_some());
    // An entry of another program says that the journal was kept.
    let other = entry(10_700, "a", 1_800, ("syslog", 3), &serde_json::json!("x"));
    assert_eq!(told(&[early, other]).origin.doubt, None);
    let why = of(line(10_700, "a", 100, DISK).as_bytes()).unwrap_err();
    assert!(
        why.starts_with("it has nothing before 1970-01-01 02:58:20 UTC: ") && why.contains("Storage=persistent"),
        "{why}"
    );
}

#[test]
fn what_is_no_journal_says_why_and_what_to_do() {
    let denied = "group systemd-journal or adm";
    let unknown = line(10_000, "a", 1, DISK).replace("_TRANSPORT", "X_TRANSPORT");
    let foreign = entry(10_000, "a", 1, ("syslog", 3), &serde_json::json!("hello"));
    for (text, wanted) in [
        ("", denied),
        ("-- No entries --\n", denied),
        (foreign.as_str(), "it is a journal without a line of the kernel"),
        (unknown.as_str(), "do not say whether they are of the kernel (_TRANSPORT)"),
        ("Mar 10 03:05:12 db-1 kernel: Out of memory\n", "`journalctl _TRANSPORT=kernel -o json` prints it"),
        ("-- Journal begins at Tue 2026-03-10 --\n", "`journalctl _TRANSPORT=kernel -o json` prints it"),
        ("{\n\t\"__REALTIME_TIMESTAMP\" : \"10000000000\",\n", "in a form that is not read here"),
        ("{\"__REALTIME_TIMESTAMP\": \"1\"", "in a form that is not read here"),
        ("{\"__REALTIME_TIMESTAMP\": \"-1\"}", "it is a journal without an entry"),
        ("__REALTIME_TIMESTAMP=x\n\n", "it is a journal without an entry"),
        ("hello", "nor what `journalctl _TRANSPORT=kernel -o json` does"),
    ] {
        let why = of(text.as_bytes()).unwrap_err();
        assert!(why.contains(wanted), "{text}: {why}");
    }
}

#[test]
fn what_is_garbled_or_cut_off_costs_itself_and_is_said() {
    let whole = line(10_100, "a", 1_100, KILL);
    let notes = |text: String| {
        let past = of(text.as_bytes()).unwrap();
        assert_eq!(counted(&past, "oom"), (0.0, 1.0), "{text}");
        past.notes.join("\n")
    };
    assert!(!notes(whole.clone()).contains("The journal: "));
    let (cut, long) = (whole.get(..whole.len() / 2).unwrap(), format!("{{\"X\": \"{}\"}}", "x".repeat(2 << 20)));
    assert!(notes(format!("{whole}{cut}")).contains("its last entry is cut off"));
    assert!(notes(format!("{whole}{cut}\n\u{0}\n{long}\n")).contains("3 lines of it are no entries and were left out"));
    // A field that comes twice is the first.
    notes(whole.replace("\"MESSAGE\"", &format!("\"MESSAGE\":{},\"MESSAGE\"", serde_json::json!(KILL))));
    let deep = format!("{{\"__REALTIME_TIMESTAMP\":\"1\",\"X\":{}", "[".repeat(100_000));
    assert!(notes(format!("{whole}{deep}\n")).contains("1 line of it is no entry"));
}

#[test]
fn a_flood_is_counted_as_far_as_it_is_read_and_what_is_not_is_said() {
    let flood = |at: i64| line(at, "a", at - 9_000, &format!("{DISK} {}", "x".repeat(900))).repeat(14_000);
    let past = told(&[flood(9_900), flood(10_005), line(10_700, "a", 1_700, DISK)]);
    let (before, all) = counted(&past, "disk");
    assert!(
        before > 12_000.0 && before < 14_000.0 && all - before > 12_000.0 && all - before < 14_000.0,
        "{before} {all}"
    );
    assert!(past.notes.iter().any(|note| note.ends_with("lines of the kernel log were left out: there are too many")));
    assert_eq!(log(&past).len(), 15);
}

proptest::proptest! {
    #[test]
    fn no_entry_whatever_makes_it_panic(
        at in -9_000_000_000_000_000_000_i64..9_000_000_000_000_000_000, text in ".{0,60}", junk in ".{0,60}",
    ) {
        let odd = line(10_100, "a", 1_100, &text).replace("10100000000", &at.to_string());
        let _ = of(format!("{}{odd}{junk}\n", line(10_100, "a", 1_100, KILL)).as_bytes());
        let _ = of(format!("__REALTIME_TIMESTAMP={at}\n{junk}\n\n{junk}").as_bytes());
    }
}
