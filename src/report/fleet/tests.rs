use sha2::Digest as _;

use super::html::{STYLE, STYLE_HASH};
use super::{html, markdown, text};
use crate::terminal::Style;
use rdiag_fleet::{Fleet, Gathering, Host, Judgement, Measure, NotJudged, Why};
use rdiag_model::{Confidence, Kind, Resource, Status, Unit};

fn fleet() -> Fleet {
    let mut all = Gathering::default();
    for n in 0..40 {
        let finding = |rule: &str, resource, kind, role: &str, status| Judgement {
            rule: rule.to_owned(),
            title: format!("Title of {rule}"),
            resource,
            kind,
            role: role.to_owned(),
            status,
            confidence: Confidence::High,
            summary: "22 requests outstanding".to_owned(),
            culprit: (status == Status::Warning).then(|| "backup-agent".to_owned()),
        };
        let (slow, odd) = (n < 37, n == 17);
        let disk = if slow { Status::Warning } else { Status::Ok };
        let oom = if odd { Status::Critical } else { Status::Ok };
        all.add(Host {
            name: format!("web-{n:02}"),
            file: format!("web-{n:02}.json.gz"),
            report: odd.then(|| "./web-17.html".to_owned()),
            group: String::new(),
            started: "2026-11-24T00:00:00Z".to_owned(),
            seconds: 10.0,
            playbook: "use-method".to_owned(),
            verdict: disk.max(oom),
            headline: "Bottleneck".to_owned(),
            findings: vec![
                finding("disk.saturation", Resource::Disk, Kind::Saturation, "vda", disk),
                finding("memory.errors.oom", Resource::Memory, Kind::Errors, "", oom),
            ],
            readings: vec![Measure {
                metric: "cpu.busy.ratio".to_owned(),
                role: String::new(),
                unit: Unit::Ratio,
                value: if odd { 0.92 } else { 0.2 },
                is_error: false,
            }],
            facts: [("kernel".to_owned(), if odd { "6.8.0-51" } else { "6.8.0-49" }.to_owned())].into(),
        });
    }
    let detail = "db-3.json.gz: the file is empty: the host has sent nothing".to_owned();
    all.absent(NotJudged { host: "db-3".into(), why: Why::Unreachable, detail });
    all.conclude()
}

#[test]
fn the_text_says_first_what_is_common_who_is_odd_and_who_is_missing() {
    insta::assert_snapshot!(&*text(&fleet(), &Style { width: 100, color: false, unicode: true }));
}

#[test]
fn the_page_loads_nothing_runs_nothing_and_sorts_by_each_resource() {
    let page = html(&fleet()).unwrap().replace("http-equiv", "");
    for outside in ["http", "<script", "url(", "@import", "src=", "<link", "<iframe", " style="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<tr role=\"row\" class=").count(), 40);
    assert!(page.contains("<tr role=\"row\" class=\"worst5 memory5 disk4\">") || page.contains("worst5 disk4 memory5"));
    assert!(page.contains("<a href=\"./web-17.html\">web-17</a>"));
    for resource in Resource::ALL {
        for level in [2, 3, 4, 5] {
            let rule = format!(".heat:has(#by-{0}:checked) .{0}{level} {{ order: -{level}; }}", resource.word());
            assert!(STYLE.contains(&rule), "{rule}");
        }
    }
}

#[test]
fn the_policy_of_the_page_admits_its_style_sheet() {
    let digest = sha2::Sha256::digest(STYLE);
    assert_eq!(STYLE_HASH, format!("sha256-{}", crate::html_tests::base64(&digest)), "set STYLE_HASH");
}

#[test]
fn a_ticket_has_every_part_and_a_bound() {
    let text = markdown(&fleet());
    for part in
        ["37 of 40 hosts: disk saturation", "## Common", "## Unlike", "## Not judged", "db-3", "kernel=6.8.0-51"]
    {
        assert!(text.contains(part), "{part}: {text:?}");
    }
    assert!(text.chars().count() <= 30_000);
}
