//! Names that try to get out of the medium they are shown in.

use std::collections::BTreeMap;

use pulldown_cmark::{Event, Options, Parser};

use super::sample::{finding, metrics, recording, report, stress, unknown};
use super::{escape, html, json, markdown, markdown_brief, otlp, perfetto, terminal};
use crate::exported::Exported;
use crate::terminal::Style;
use rdiag_model::report::{Around, Change, ChangeKind, Changes, Unlike, Usual};
use rdiag_model::{NextStep, Report, Status};

pub(super) const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'onmouseover='alert(1)",
    "</style><style>*{display:none}",
    "--><svg/onload=alert(1)>",
    "a|b|c",
    "`rm -rf`",
    "```sh",
    "@all @here",
    "#1 fixes #2",
    "x\ny\r\n# heading",
    "\x1b[31mred\x1b[2J",
    "\u{9b}31m\u{7f}\u{0}\u{8}\u{8}",
    "\u{202e}gnp.exe\u{2066}\u{200b}\u{feff}",
    "![x](http://evil.example/x.png) [y](javascript:z) <http://evil.example>",
    "https://evil.example www.evil.example a@evil.example",
    "**bold** _it_ ~~no~~ $x$ \\",
    "- item",
    "1. item",
    "===",
    "| --- |",
    "{{ 7*7 }} {% raw %}",
    "&lt;b&gt; &#60;b&#62;",
    "    four spaces",
    "[^1]: note",
];

/// A report in which every text that is not rdiag's own is `name`.
fn named(name: &str) -> Report {
    let mut fired = finding("cpu.saturation", Status::Critical);
    fired.instance = Some(name.into());
    fired.title = name.into();
    fired.summary = name.into();
    fired.why = name.into();
    fired.log = vec![name.into(), name.into()];
    fired.confidence_reasons = vec![name.to_owned().into()];
    fired.next = vec![NextStep { action: name.into(), changes_host: true }];
    fired.threshold.origin = name.into();
    let mut culprit = stress();
    culprit.name = name.into();
    culprit.labels = BTreeMap::from([("command".into(), name.into()), ("cgroup".into(), name.into())]);
    fired.culprit = Some(culprit);
    fired.evidence = vec![rdiag_model::Evidence {
        metric: "cpu.runqueue.wait.ratio".into(),
        instance: None,
        window: 0,
        mean: Some(0.7),
        max: Some(0.7),
        total: Some(0.7),
        unit: rdiag_model::Unit::Ratio,
        source: name.into(),
    }];
    let mut other = fired.clone();
    other.instance = Some(format!("{name}2"));
    let mut quiet = finding("disk.saturation", Status::Ok);
    quiet.instance = Some(name.into());
    quiet.summary = name.into();
    let mut gap = unknown("memory.saturation", name);
    gap.unavailable.as_mut().unwrap().remedy = Some(name.into());
    let mut report = report(vec![fired, other, quiet, gap]);
    report.host.hostname = name.into();
    report.host.kernel = name.into();
    report.host.container = Some(name.into());
    report.playbook.title = name.into();
    report.playbook.name = name.into();
    for step in &mut report.steps {
        step.question = name.into();
        step.answer = name.into();
        step.when = Some(name.into());
    }
    for row in report.consumers.iter_mut().flat_map(|consumers| &mut consumers.rows) {
        row.name = name.into();
        row.command = Some(name.into());
    }
    for lane in report.timeline.iter_mut().flat_map(|timeline| &mut timeline.lanes) {
        lane.title = name.into();
        lane.instance = Some(name.into());
        lane.missing = Some(name.into());
    }
    let change = Change {
        at: name.into(),
        shown: name.into(),
        seconds: -60.0,
        kind: ChangeKind::Process,
        subject: name.into(),
        text: name.into(),
    };
    let unlike = Unlike {
        metric: name.into(),
        title: name.into(),
        instance: name.into(),
        unit: rdiag_model::Unit::Ratio,
        then: 0.1,
        spread: 0.01,
        now: 0.9,
        spreads: 80.0,
    };
    report.usual = vec![Usual { name: name.into(), span: name.into(), compared: 1, unlike: vec![unlike] }];
    report.changes = Some(Changes { span: name.into(), changes: vec![change], left_out: 0 });
    report.around = Some(around_of(name));
    for row in report.top.iter_mut().flat_map(|table| &mut table.rows) {
        row.name = name.into();
        row.labels.insert("command".into(), name.into());
    }
    report
}

/// The course around a window, in which every text is `name`.
fn around_of(name: &str) -> Around {
    let mut around = super::sample::around();
    (around.span, around.ends, around.source) = (name.into(), name.into(), name.into());
    for slice in around.slices.iter_mut().chain(&mut around.rows) {
        slice.shown = name.into();
        slice.top_cpu.iter_mut().chain(&mut slice.top_io).for_each(|top| top.name = name.into());
    }
    around.unrecorded.iter_mut().for_each(|gap| gap.shown = name.into());
    around
}

/// The tags of a page, without its texts.
pub(super) fn tags(page: &str) -> Vec<String> {
    let attributes = |tag: &str| {
        // What stands in quotes is a value; a name that got out of it would show up as an attribute.
        tag.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
    };
    page.split('<').skip(1).map(|part| attributes(part.split_once('>').unwrap_or((part, "")).0)).collect()
}

#[test]
fn exports_hold_every_name_and_none_of_them_acts() {
    let is_hidden = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2066}\u{200b}\u{feff}".contains(c);
    for name in HOSTILE {
        let report = named(name);
        let of = Exported { report: &report, recording: None };
        let (trace, lines) = (perfetto(&of).unwrap(), otlp(&of).unwrap());
        assert!(!trace.contains(is_hidden) && !lines.contains(is_hidden), "{name:?}");
        // Perfetto takes an escape such as \u202e for an error in some places: none is left.
        assert!(!trace.replace("\\\\", "").contains("\\u"), "{trace}");
        let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
        let shown = escape::visible(name).into_owned();
        assert_eq!(trace["otherData"]["host"], shown);
        let slices = trace["traceEvents"].as_array().unwrap();
        assert!(slices.iter().any(|event| event["args"]["culprit"] == shown), "{name:?}");
        let logs: serde_json::Value = serde_json::from_str(lines.lines().next_back().unwrap()).unwrap();
        let records = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap();
        assert!(records.iter().any(|record| record["body"]["stringValue"] == *name), "{name:?}");
    }
}

#[test]
fn no_name_adds_or_changes_a_tag_of_the_page() {
    let plain = tags(&html(&named("plain")).unwrap());
    for name in HOSTILE {
        let page = html(&named(name)).unwrap();
        assert_eq!(tags(&page), plain, "{name:?}");
        assert_eq!(page.chars().find(|c| c.is_control() && *c != '\n'), None, "{name:?}");
        assert!(!page.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}']), "{name:?}");
    }
}

/// The structure of a Markdown document, without its texts.
pub(super) fn structure(text: &str) -> Vec<String> {
    let mut options = Options::all();
    options.remove(Options::ENABLE_SMART_PUNCTUATION);
    let mut events = Vec::new();
    for event in Parser::new_ext(text, options) {
        let shown = match event {
            Event::Text(_) => "text".to_owned(),
            Event::Code(_) => "code".to_owned(),
            other => format!("{other:?}"),
        };
        if shown != "text" || events.last().is_none_or(|last| last != "text") {
            events.push(shown);
        }
    }
    events
}

#[test]
fn no_name_is_markup_in_markdown() {
    let plain = structure(&markdown(&named("plain")).unwrap());
    for name in HOSTILE {
        let text = markdown(&named(name)).unwrap();
        assert_eq!(structure(&text), plain, "{name:?}\n{text}");
        assert_eq!(text.chars().find(|c| c.is_control() && *c != '\n'), None, "{name:?}");
        assert!(!text.contains("@all") || text.contains("`"), "{name:?}");
    }
}

#[test]
fn markdown_shows_a_name_as_it_is() {
    for name in ["a_b", "mysqld [ib_io]", "a|b", "1. item", "kworker/0:1-events", "C++", "x * y"] {
        let mut shown = String::new();
        for event in Parser::new_ext(&escape::markdown(name), Options::ENABLE_TABLES) {
            if let Event::Text(text) = event {
                shown.push_str(&text);
            }
        }
        assert_eq!(shown, name);
    }
}

#[test]
fn the_terminal_sees_no_control_character_but_ours() {
    for name in HOSTILE {
        for (color, unicode) in [(true, true), (false, true), (false, false)] {
            let mut text = terminal(&named(name), None, &Style { width: 80, color, unicode }).to_string();
            for code in ["1", "2", "1;31", "1;33", "36", "35", "32", "0"] {
                text = text.replace(&format!("\x1b[{code}m"), "");
            }
            assert_eq!(text.chars().find(|c| c.is_control() && *c != '\n'), None, "{name:?}");
            assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}']), "{name:?}");
            assert!(unicode || text.is_ascii(), "{name:?}");
        }
    }
}

#[test]
fn json_keeps_names_exactly_and_hides_nothing_in_a_terminal() {
    for name in HOSTILE {
        let text = json(&named(name)).unwrap();
        assert_eq!(text.chars().find(|c| c.is_control() && *c != '\n'), None, "{name:?}");
        assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}']), "{name:?}");
        let back: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(back.host.hostname, *name);
        assert_eq!(back.findings, named(name).findings);
    }
}

/// As many findings as a host with thousands of control groups could give, with names as long as paths may be.
fn crowded() -> Report {
    let mut findings = Vec::new();
    for at in 0..5_000 {
        let rule = format!("cgroup.saturation.rule_{}", at % 100);
        let status = if at % 3 == 0 { Status::Ok } else { Status::Critical };
        let mut one = finding(&rule, status);
        one.instance = Some(format!("/{at}/{}", "<&>x".repeat(1_000)));
        one.summary = format!("{at} {}", "\"'<>&".repeat(500));
        one.culprit = Some(stress());
        one.log = vec!["<".repeat(3_000); 10];
        one.evidence = (0..30)
            .map(|_| rdiag_model::Evidence {
                metric: "cpu.runqueue.wait.ratio".into(),
                instance: None,
                window: 0,
                mean: Some(0.7),
                max: Some(0.7),
                total: None,
                unit: rdiag_model::Unit::Ratio,
                source: "&".repeat(1_000),
            })
            .collect();
        findings.push(one);
    }
    for at in 0..200 {
        findings.push(unknown("disk.saturation", &format!("{at} {}", "&".repeat(4_000))));
    }
    report(findings)
}

#[test]
fn sizes_are_bounded_whatever_the_host_does() {
    let report = crowded();
    let page = html(&report).unwrap();
    assert!(page.len() <= 300_000, "{}", page.len());
    assert!(page.ends_with("</html>\n"));
    let comment = markdown_brief(&report).unwrap();
    assert!(comment.lines().count() <= 60, "{comment}");
    let text = markdown(&report).unwrap();
    assert!(text.chars().count() <= 30_000, "{}", text.chars().count());
    assert!(text.contains("Left out here for length"), "{text}");
    assert!(terminal(&report, None, &Style { width: 80, color: false, unicode: true }).lines().count() < 1_500);
}

#[test]
fn a_report_that_no_rdiag_wrote_is_drawn_within_the_same_size() {
    let mut report = crowded();
    report.verdict.headline = "<".repeat(100_000).into();
    report.verdict.limits = vec!["&".repeat(4_000); 1_000];
    report.matrix = vec![report.matrix.first().unwrap().clone(); 5_000];
    let mut step = report.steps.first().unwrap().clone();
    step.teach = "<b> `\"` ".repeat(10_000);
    report.steps = vec![step; 500];
    report.top = vec![report.top.first().unwrap().clone(); 500];
    let mut plot = report.plots.first().unwrap().clone();
    plot.points = (0..100_000).map(|at| (f64::from(at), Some(f64::from(at)))).collect();
    report.plots = vec![plot; 100];
    let timeline = report.timeline.as_mut().unwrap();
    let curve = rdiag_model::report::Curve {
        name: "<".repeat(1_000),
        source: String::new(),
        mean: f64::NAN,
        max: f64::INFINITY,
        values: vec![[Some(f64::NAN), Some(1e300), None, Some(-1.0)].repeat(1_000); 100],
    };
    let lane = rdiag_model::report::Lane { curves: vec![curve; 100], missing: None, ..timeline.lanes[0].clone() };
    timeline.lanes = vec![lane; 3];
    timeline.windows = vec![timeline.windows[0]; 100];
    timeline.bands = vec![timeline.bands[0].clone(); 1_000];
    let out = rdiag_model::report::RuledOut {
        resource: rdiag_model::Resource::Cpu,
        complete: true,
        sentences: vec!["&".repeat(5_000); 100],
    };
    report.ruled_out = vec![out; 1_000];
    report.around = Some(crowded_around());
    let page = html(&report).unwrap();
    assert!(page.len() <= 300_000, "{}", page.len());
    let text = markdown(&report).unwrap();
    assert!(text.chars().count() <= 30_000, "{}", text.chars().count());
    let text = terminal(&report, None, &Style { width: 80, color: true, unicode: true });
    assert!(text.len() < 300_000, "{}", text.len());
}

/// A course with more of everything than there can be, and with figures that are none.
fn crowded_around() -> Around {
    let mut around = around_of(&"<".repeat(2_000));
    let odd = [f64::NAN, f64::INFINITY, -1.0, 1e300];
    for (slice, odd) in around.slices.iter_mut().chain(&mut around.rows).zip(odd.into_iter().cycle()) {
        (slice.cpu, slice.pressure.io_some, slice.seconds) = (Some(odd), Some(odd), odd);
    }
    around.slices = vec![around.slices; 200].concat();
    around.rows = vec![around.rows; 200].concat();
    around.unrecorded = vec![around.unrecorded; 1_000].concat();
    around.marks = vec![around.marks; 1_000].concat();
    around
}

#[test]
fn the_page_hardly_grows_with_the_number_of_processes() {
    let page = |processes: usize| {
        let mut metrics = metrics();
        if let Some(rdiag_model::Reading::Measured { instances, .. }) = metrics.readings.get_mut("process.cpu.seconds")
        {
            for pid in 0..processes {
                instances.insert(format!("{pid}:9"), Ok(rdiag_model::Stats::constant(0.001)));
            }
        }
        let parts = super::Parts {
            recording: &recording(),
            metrics: &[metrics],
            findings: super::sample::saturated(),
            profile: None,
            answer: None,
            steps: Vec::new(),
            playbook: rdiag_model::report::PlaybookInfo {
                name: "use-method".into(),
                title: "USE".into(),
                params: BTreeMap::new(),
            },
            titles: &super::sample::metric,
            probes: &|_| None,
            levels: &super::sample::levels(),
            may_be_behind: &|_| false,
        };
        html(&super::build(parts)).unwrap().len()
    };
    let (few, many) = (page(50), page(3_000));
    assert!(many < few + few / 20, "{few} {many}");
}
