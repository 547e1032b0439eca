//! JSON and XML of sysstat give the same; names that versions differ in, and what is damaged.

use std::sync::LazyLock;

use super::super::tests::{plan, series};
use super::super::{Past, elsewhere};
use crate::past::Span;
use rdiag_kernel::host::Zone;
use rdiag_model::Number;
use rdiag_playbook::Plan;

const XML: &str = include_str!("../../../../../tests/fixtures/sysstat/sadf-12.6.1.xml");
const JSON: &str = include_str!("../../../../../tests/fixtures/sysstat/sadf-12.6.1.json");
const NEW_XML: &str = include_str!("../../../../../tests/fixtures/sysstat/sadf-12.7.5.xml");
const NEW_JSON: &str = include_str!("../../../../../tests/fixtures/sysstat/sadf-12.7.5.json");

static PLAN: LazyLock<Plan> = LazyLock::new(plan);

/// Of the last seconds up to a time of 2026-03-10.
fn of(text: &str, end: &str, seconds: i64) -> Result<Past, String> {
    let to = Zone::utc().end_of(&format!("2026-03-10T{end}"), Zone::LATEST).unwrap() - 1_000_000;
    elsewhere(text.as_bytes(), Span { from: to - seconds * 1_000_000, to }, &PLAN, &Zone::utc())
}

fn same(one: &Past, other: &Past) {
    let all = |past: &Past| (serde_json::to_value(&past.recording).unwrap(), past.began, past.notes.clone());
    assert_eq!(all(one), all(other));
}

/// An interval as XML, around what is measured in it.
fn of_interval(host: &str, attributes: &str, within: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<sysstat><host nodename=\"{host}\"><number-of-cpus>2</number-of-cpus><statistics>\n\
         <timestamp date=\"2026-03-10\" time=\"03:00:00\" {attributes} interval=\"2\">{within}</timestamp>\n\
         </statistics></host></sysstat>\n"
    )
}

fn last(past: &Past, name: &str) -> Option<f64> {
    match series(past, name)?.values.last()? {
        Some(Number::Real(value)) => Some(*value),
        _ => None,
    }
}

#[test]
fn what_sadf_prints_as_xml_gives_the_recording_that_its_json_gives() {
    let (xml, json) = (of(XML, "04:04:42", 3).unwrap(), of(JSON, "04:04:42", 3).unwrap());
    same(&xml, &json);
    let host = &xml.recording.host;
    assert_eq!((host.hostname.as_str(), host.kernel.as_str(), host.cpus), ("host", "6.18.44", 2));
    assert_eq!(host.memory_bytes >> 30, 23, "{}", host.memory_bytes);
    assert_eq!(xml.recording.windows[0].seconds, 3.0);
    for name in ["cpu_stat.user", "cpu_stat.core_user", "meminfo.free", "diskstats.busy_ms", "psi.cpu_some"] {
        assert!(series(&xml, name).is_some(), "{name}");
    }
    // All of what it records is there.
    let records = &xml.recording.windows[0].collectors;
    let recorded = |id: &str| records.get(id).map_or(0, |record| record.series.len());
    assert_eq!(
        ["cpu_stat", "interfaces", "tcp_udp", "vmstat", "loadavg", "psi"].map(recorded),
        [26, 8, 6, 5, 5, 5],
        "{:?}",
        records.keys()
    );
    same(&of(NEW_XML, "04:06:21", 1).unwrap(), &of(NEW_JSON, "04:06:21", 1).unwrap());
}

#[test]
fn only_the_intervals_of_that_time_are_read_of_xml() {
    let past = of(XML, "04:04:41", 1).unwrap();
    assert_eq!(past.recording.windows[0].seconds, 1.0);
    same(&past, &of(JSON, "04:04:41", 1).unwrap());
    // A file of another month has the same name.
    for text in [XML, JSON] {
        let refused = of(text, "05:00:00", 600).unwrap_err();
        assert!(refused.starts_with("sysstat has nothing between 2026-03-10 04:50:00"), "{refused}");
        assert!(
            refused.ends_with("; the file is of 2026-03-10 04:04:40 UTC to 2026-03-10 04:04:42 UTC"),
            "the ends of the first interval and of the last one: {refused}"
        );
    }
}

#[test]
fn older_and_newer_names_are_known() {
    let old = "<cpu-load-all><cpu-all number=\"all\" usr=\"50.00\" sys=\"1.00\" idle=\"49.00\"/></cpu-load-all>\
        <disk per=\"second\"><disk-device dev=\"sda\" tps=\"1.00\" rd_sec=\"8.00\" avgqu-sz=\"0.50\" util-percent=\"25.00\"/></disk>\
        <network per=\"second\"><net-etcp atmptf=\"0.00\" retrseg=\"1.50\"/></network>";
    let past = of(&of_interval("a", "utc=\"1\"", old), "03:00:00", 2).unwrap();
    assert_eq!(last(&past, "cpu_stat.user"), Some(200.0), "half of two CPUs for 2 s, in ticks");
    assert_eq!(last(&past, "diskstats.read_sectors"), Some(16.0));
    assert_eq!(last(&past, "diskstats.weighted_ms"), Some(1000.0));
    assert_eq!(last(&past, "tcp_udp.retransmits"), Some(3.0));
    let json = r#"{"sysstat": {"hosts": [{"nodename": "a", "number-of-cpus": 2, "statistics": [{"timestamp": {"date": "2026-03-10",
        "time": "03:00:00", "tz": "UTC", "interval": 2}, "cpu-load-all": [{"cpu": "all", "usr": 50.0, "sys": 1.0, "idle": 49.0}]}]}]}}"#;
    assert_eq!(last(&of(json, "03:00:00", 2).unwrap(), "cpu_stat.user"), Some(200.0));
}

#[test]
fn a_time_that_is_said_to_be_utc_is_no_time_of_the_reader() {
    let cpu = "<cpu-load><cpu number=\"all\" usr=\"50.00\" idle=\"50.00\"/></cpu-load>";
    let zone_of = |attributes: &str| {
        let stamp = super::document::HostPart::of_json(
            format!(
                r#"{{"sysstat": {{"hosts": [{{"nodename": "a", "number-of-cpus": 1, "statistics": [{{"timestamp":
                {{"date": "2026-03-10", "time": "03:00:00", {attributes}, "interval": 2}}}}]}}]}}}}"#
            )
            .as_bytes(),
        );
        stamp.unwrap().statistics[0].timestamp.as_ref().unwrap().is_utc()
    };
    assert_eq!(
        [r#""utc": 1"#, r#""tz": "UTC""#, r#""utc": 0"#, r#""tz": "CET""#].map(zone_of),
        [true, true, false, false]
    );
    assert!(of(&of_interval("a", "tz=\"UTC\"", cpu), "03:00:00", 2).is_ok());
}

#[test]
fn xml_without_its_beginning_or_its_end_is_read_and_that_is_said() {
    // What sos keeps of a long output are its last lines.
    let at = XML.find("<cpu number=\"1\"").unwrap();
    let tail = of(&format!("\t\t\t\t\t{}", XML.split_at(at).1), "04:04:42", 2).unwrap();
    let whole = of(XML, "04:04:42", 2).unwrap();
    let windows = |past: &Past| serde_json::to_value(&past.recording.windows).unwrap();
    assert_eq!(windows(&tail), windows(&whole), "the figures are the same");
    assert_eq!((tail.recording.host.hostname.as_str(), tail.recording.host.cpus), ("unknown", 2));
    assert!(tail.notes.iter().any(|note| note.starts_with("The beginning of the file is missing")), "{:?}", tail.notes);
    assert!(!whole.notes.iter().any(|note| note.contains("missing")), "{:?}", whole.notes);
    let cut = of(XML.split_at(XML.rfind("<queue").unwrap()).0, "04:04:42", 3).unwrap();
    assert_eq!(cut.recording.windows[0].seconds, 2.0, "an interval that is not whole is none");
    assert!(cut.notes.iter().any(|note| note.starts_with("The end of the file is missing")), "{:?}", cut.notes);
    let torn = of(XML.split_at(XML.rfind("iface=").unwrap()).0, "04:04:42", 3).unwrap();
    assert!(torn.notes.iter().any(|note| note.starts_with("The file cannot be read from byte ")), "{:?}", torn.notes);
}

#[test]
fn entities_of_a_document_type_stand_for_nothing() {
    let document = of_interval("&lol;&#60;&amp;", "utc=\"1\"", "<queue runq-sz=\"&lol;\" plist-sz=\"7\"/>").replace(
        "<sysstat>",
        "<!DOCTYPE sysstat [<!ENTITY ha \"ha\"><!ENTITY lol \"&ha;&ha;\"><!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<sysstat>",
    );
    let past = of(&document, "03:00:00", 2).unwrap();
    assert_eq!(past.recording.host.hostname, "&lol;&#60;&amp;", "one that is not known: the text is as it stands");
    assert_eq!((last(&past, "loadavg.runnable"), last(&past, "loadavg.entities")), (None, Some(7.0)));
    let past =
        of(&of_interval("a&amp;b &#60; &quot;c", "utc=\"1\"", "<queue plist-sz=\"7\"/>"), "03:00:00", 2).unwrap();
    assert_eq!(past.recording.host.hostname, "a&b < \"c");
}

#[test]
fn a_name_and_a_number_of_cpus_that_no_host_has_are_cut() {
    let cpu = "<cpu-load><cpu number=\"all\" usr=\"50.00\" idle=\"50.00\"/></cpu-load>";
    let text = of_interval(&"n".repeat(100_000), "utc=\"1\"", cpu).replace("cpus>2<", "cpus>4294967295<");
    let host = of(&text, "03:00:00", 2).unwrap().recording.host;
    assert_eq!((host.hostname.len(), host.cpus), (64, 65_536));
}

#[test]
fn hostile_xml_is_refused_within_bounds() {
    let deep = "<a>".repeat(100_000);
    let refused = of(&of_interval("a", "utc=\"1\"", &deep), "03:00:00", 2).unwrap_err();
    assert!(refused.contains("nested more than 64 deep"), "{refused}");
    let row = format!("<cpu{}/>", " a=\"\"".repeat(100_000));
    let many = format!("<cpu-load>{}</cpu-load>", row.repeat(51));
    let refused = of(&of_interval("a", "utc=\"1\"", &many), "03:00:00", 2).unwrap_err();
    assert!(refused.contains("has more than 5000000 values"), "{refused}");
    let texts = format!("<memory>{}</memory>", "<a>1</a>".repeat(5_000_001));
    let refused = of(&of_interval("a", "utc=\"1\"", &texts), "03:00:00", 2).unwrap_err();
    assert!(refused.contains("has more than 5000000 values"), "{refused}");
    for text in [
        "<sysstat",
        "<sysstat>",
        "<sysstat><host",
        "<timestamp date=\"\"",
        "<sysstat>\u{0}</x></y></z>",
        "<sysstat><!-- ",
    ] {
        assert!(of(text, "03:00:00", 2).is_err(), "{text}");
    }
    for figure in ["nan", "-1", "1e999", "", "&", "0x10", "1 2"] {
        let rows = format!(
            "<memory><memfree>{figure}</memfree></memory><cpu-load><cpu number=\"all\" usr=\"{figure}\"/></cpu-load>"
        );
        assert!(series(&of(&of_interval("a", "utc=\"1\"", &rows), "03:00:00", 2).unwrap(), "meminfo.free").is_none());
    }
    // Whichever byte is missing or the last one.
    for at in (0..XML.len()).step_by(61) {
        let _ = of(XML.split_at(at).0, "04:04:42", 3);
        let _ = of(XML.split_at(at).1, "04:04:42", 3);
        let _ = of(&format!("{}{}", XML.split_at(at).0, XML.split_at(at + 1).1), "04:04:42", 3);
    }
}
