//! Reports that were sent, with hostile texts in every field.

use std::path::Path;

use rdiag_model::Report;
use rdiag_report::{Exported, Style, html, json, markdown, markdown_brief, otlp, perfetto, terminal};
use serde_json::Value;

use super::read::{acting, acting_in_markdown, acting_in_page, columns_agree, elements, structure};
use super::sample::Type;
use super::{ALL_IN_ONE, HOSTILE, PLAIN};
use crate::support::rdiag;

/// A report in the formats of files, as the shipped binary writes them, and on a terminal.
struct Written {
    page: String,
    ticket: String,
    json: String,
    trace: String,
    otlp: String,
    terminal: String,
}

fn written(folder: &Path, document: &Value) -> Written {
    let (sent, out) = (folder.join("report.json"), folder.join("out"));
    std::fs::write(&sent, document.to_string()).unwrap();
    let mut run = rdiag();
    run.arg("report")
        .arg(&sent)
        .args(["--color", "always", "--format", "html,md,json,perfetto,otlp", "--out"])
        .arg(&out);
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && acting(&said).is_none(), "{said:?}");
    let terminal = String::from_utf8(output.stdout).unwrap();
    let file = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    Written {
        page: file("report.html"),
        ticket: file("report.md"),
        json: file("report.json"),
        trace: file("report.perfetto.json"),
        otlp: file("report.otlp.jsonl"),
        terminal,
    }
}

/// Text that stands in a page as the Markdown that it is.
const LESSON: &str = "steps[].teach";
/// What a lesson may be made of: nothing that loads, runs or leads elsewhere.
const OF_LESSONS: &[&str] = &[
    "p",
    "h4",
    "blockquote",
    "pre",
    "code",
    "ul",
    "ol",
    "li",
    "em",
    "strong",
    "table",
    "thead",
    "tr",
    "td",
    "br",
    "hr",
];

/// Harmless words in as many lines: some texts are lists.
fn harmless(name: &str) -> String {
    name.split('\n').map(|line| if line.trim().is_empty() { line } else { PLAIN }).collect::<Vec<_>>().join("\n")
}

/// The first place where two structures differ.
fn differing<'s>(one: &'s [String], other: &'s [String]) -> Option<(usize, &'s String, &'s String)> {
    let pairs = one.iter().zip(other).enumerate();
    pairs.map(|(at, (one, other))| (at, one, other)).find(|(_, one, other)| one != other)
}

#[test]
fn no_text_of_a_report_acts_in_any_format_of_the_shipped_binary() {
    let (folder, kind) = (tempfile::tempdir().unwrap(), Type::of("report"));
    let text = |at: &str, name: &str| match at {
        LESSON => PLAIN.to_owned(),
        // Without a time there is less of OTLP.
        "window.started" => "2026-11-25T00:00:00Z".to_owned(),
        _ => name.to_owned(),
    };
    let document = |name: &str| kind.sample(&|at| text(at, name));
    let plain = written(folder.path(), &document(PLAIN));
    assert!([&plain.page, &plain.ticket, &plain.terminal].iter().all(|text| text.matches(PLAIN).count() > 30));
    for name in HOSTILE {
        let shown = written(folder.path(), &document(name));
        assert_eq!((acting(&shown.terminal), acting(&shown.json)), (None, None), "{name:?}");
        assert_eq!((acting(&shown.trace), acting(&shown.otlp)), (None, None), "{name:?}");
        serde_json::from_str::<Value>(&shown.trace).unwrap();
        let lines: Vec<Value> = shown.otlp.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.len() >= 2, "readings and findings");
        assert_eq!((acting_in_page(&shown.page), acting_in_markdown(&shown.ticket)), (None, None), "{name:?}");
        let harmless = harmless(name);
        let plain = if harmless == PLAIN { &plain } else { &written(folder.path(), &document(&harmless)) };
        // What is too long is left out; what is there is of the same kinds.
        for (drawn, kinds) in
            [(elements(&shown.page), elements(&plain.page)), (structure(&shown.ticket), structure(&plain.ticket))]
        {
            assert_eq!(drawn.iter().find(|kind| !kinds.contains(kind)), None, "{name:?}");
        }
        assert!(columns_agree(&shown.ticket), "{name:?}");
        // For programs the text is what it was.
        let back: Value = serde_json::from_str(&shown.json).unwrap();
        assert_eq!(back["host"]["hostname"], *name);
    }
}

#[test]
fn no_field_of_a_report_acts_when_it_alone_is_hostile() {
    let kind = Type::of("report");
    let places = kind.places();
    assert!(places.len() > 150, "{} texts", places.len());
    let style = Style { width: 100, color: true, unicode: true };
    let drawn = |place: &str, name: &str| -> Report {
        let document = kind.sample(&|at| if at == place { name } else { PLAIN }.to_owned());
        serde_json::from_value(document).unwrap_or_else(|error| panic!("{place}: {error}"))
    };
    let plain = drawn("", PLAIN);
    let (of_page, of_ticket) = (elements(&html(&plain).unwrap()), structure(&markdown(&plain).unwrap()));
    for place in &places {
        let hostile = drawn(place, ALL_IN_ONE);
        assert_eq!(
            (acting(&terminal(&hostile, None, &style)), acting(&json(&hostile).unwrap())),
            (None, None),
            "{place}"
        );
        let export = Exported { report: &hostile, recording: None };
        assert_eq!((acting(&perfetto(&export).unwrap()), acting(&otlp(&export).unwrap())), (None, None), "{place}");
        let (page, ticket) = (html(&hostile).unwrap(), markdown(&hostile).unwrap());
        assert_eq!((acting_in_page(&page), acting_in_markdown(&ticket)), (None, None), "{place}");
        assert!(columns_agree(&ticket), "{place}");
        let comment = markdown_brief(&hostile).unwrap();
        assert_eq!(acting_in_markdown(&comment), None, "{place}");
        assert!(columns_agree(&comment), "{place}");
        // A name that is not that of its neighbours may leave out what hangs on it, hostile or not.
        let harmless = std::cell::LazyCell::new(|| drawn(place, "an\nother"));
        let (page, ticket) = (elements(&page), structure(&ticket));
        if ticket != of_ticket {
            let other = structure(&markdown(&harmless).unwrap());
            assert!(ticket == other, "{place}: {:?}", differing(&ticket, &other));
        }
        if place == LESSON {
            let of_lesson = |name: &str| OF_LESSONS.contains(&name.trim_start_matches('/'));
            assert!(page.iter().all(|element| of_page.contains(element) || of_lesson(element)), "{place}");
        } else if page != of_page {
            let other = elements(&html(&harmless).unwrap());
            assert!(page == other, "{place}: {:?}", differing(&page, &other));
        }
    }
}
