//! What cannot run here is skipped by one function, in one line that gets past the test harness, and only with the consent of
//! `tests/skips.txt`. The library's own unit tests take this file in by its path, so it depends on nothing.

use std::io::Write as _;

/// Which test may be skipped where, and for which reason.
const LIST: &str = include_str!("../skips.txt");

/// Says that this test, or a part of it, cannot run here. Where `RDIAG_SKIPS` is `strict`, as in CI, that fails the test unless the list
/// has it for this kind of host.
#[track_caller]
pub(crate) fn skip(reason: &str) {
    let (kind, name) = (kind(), name());
    let listed = is_listed(LIST, &kind, &name, reason);
    let unexpected = if listed { String::new() } else { format!(" (not in tests/skips.txt for {kind})") };
    // The harness swallows what passing tests print; this goes past it.
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED {name}: {reason}{unexpected}");
    let is_strict = std::env::var_os("RDIAG_SKIPS").is_some_and(|word| word == "strict");
    assert!(listed || !is_strict, "an unexpected skip on a host of kind {kind}: {reason}");
}

/// What kind of host this is: `user` and `host` (root) natively, `guest-SERIES` in the kernel matrix.
pub(crate) fn kind() -> String {
    let series = std::env::var("RDIAG_GUEST").ok().filter(|series| !series.is_empty());
    // A guest that is not told its series has its binary elsewhere all the same.
    let series = series.or_else(|| std::env::var_os("RDIAG_BINARY").map(|_| series_of(&release())));
    let is_root = rustix::process::geteuid().is_root();
    series.map_or_else(|| if is_root { "host" } else { "user" }.to_owned(), |series| format!("guest-{series}"))
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// `6.1` of `6.1.0-43-amd64`, and `6.1-rt` of `6.1.0-43-rt-amd64`.
fn series_of(release: &str) -> String {
    let numbers: Vec<&str> = release.split(['.', '-', '+']).take(2).collect();
    let flavour = if release.contains("-rt-") { "-rt" } else { "" };
    format!("{}{flavour}", numbers.join("."))
}

/// The whole name of the running test. A harness that is told to run one test runs it in its own thread.
fn name() -> String {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let asked = || std::env::args().skip(1).find(|word| word.contains("::"));
    if name.contains("::") { name } else { asked().unwrap_or(name) }
}

/// Whether one of the lines `KIND TEST REASON` has it. A `*` stands for anything; `guest-*` for every kernel.
pub(crate) fn is_listed(list: &str, kind: &str, name: &str, reason: &str) -> bool {
    let lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(columns).any(|[kinds, names, reasons]| {
        kinds.split(',').any(|wanted| matches(wanted, kind)) && matches(names, name) && matches(reasons, reason)
    })
}

fn columns(line: &str) -> Option<[&str; 3]> {
    let (kinds, rest) = line.split_once(char::is_whitespace)?;
    let (names, reasons) = rest.trim_start().split_once(char::is_whitespace)?;
    Some([kinds, names, reasons.trim_start()])
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    loop {
        if matches(rest, text) {
            return true;
        }
        let mut left = text.chars();
        if left.next().is_none() {
            return false;
        }
        text = left.as_str();
    }
}

#[test]
fn a_skip_is_expected_only_for_its_kind_of_host_its_test_and_its_reason() {
    let list =
        "# kinds tests reasons\nhost,guest-5.10  privileged::a::*  needs the program *\nguest-*  x::y  no *, here";
    assert!(is_listed(list, "host", "privileged::a::b", "needs the program nft"));
    assert!(is_listed(list, "guest-5.10", "privileged::a::b", "needs the program nft"));
    assert!(is_listed(list, "guest-6.1", "x::y", "no kprobes, here"));
    for (kind, name, reason) in [
        ("user", "privileged::a::b", "needs the program nft"),
        ("host", "privileged::b::b", "needs the program nft"),
        ("host", "privileged::a::b", "needs root"),
        ("guest-6.1", "x::y", "no kprobes"),
    ] {
        assert!(!is_listed(list, kind, name, reason), "{kind} {name} {reason}");
    }
    for line in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        assert!(columns(line).is_some_and(|[.., reason]| !reason.is_empty()), "tests/skips.txt: {line}");
    }
}

#[test]
fn the_series_of_a_guest_is_that_of_its_kernel() {
    assert_eq!(series_of("5.10.0-46-amd64"), "5.10");
    assert_eq!(series_of("6.1.0-44-rt-amd64"), "6.1-rt");
    assert_eq!(series_of("7.2+deb14-amd64"), "7.2");
    assert_eq!(series_of("6.12.63+deb13-amd64"), "6.12");
}
