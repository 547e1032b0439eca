//! What probes measured, in every format.

use super::hostile_tests::{HOSTILE, structure, tags};
use super::sample_probes::{events, histogram, probed, report, report_of, result, stacks, table};
use super::{html, json, markdown, terminal};
use crate::terminal::Style;
use rdiag_model::probe::{Cell, Column, Histogram, Output, ProbeResult, ProbeTable, Row, Stack, Stacks};
use rdiag_model::probed::ProbedOutput;
use rdiag_model::{Report, Unit};

const WIDE: Style = Style { width: 100, color: false, unicode: true };

#[test]
fn probes_on_a_terminal() {
    insta::assert_snapshot!(terminal(&report("nginx"), None, &WIDE));
}

#[test]
fn probes_on_a_narrow_terminal_without_unicode() {
    let text = terminal(&report("nginx"), None, &Style { width: 44, color: false, unicode: false });
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 44), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn probes_as_markdown() {
    insta::assert_snapshot!(markdown(&report("nginx")).unwrap());
}

#[test]
fn probes_as_json() {
    let report = report("nginx");
    let text = json(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap().probes, report.probes);
    insta::assert_snapshot!(serde_json::to_string_pretty(&report.probes).unwrap());
}

#[test]
fn probes_as_html() {
    let page = html(&report("nginx")).unwrap();
    let (_, section) = page.split_once("<section aria-labelledby=\"probes\">").unwrap();
    insta::assert_snapshot!(section.split_once("</section>").unwrap().0);
}

#[test]
fn a_finding_that_cites_a_probe_links_to_its_card_and_shows_who() {
    let page = html(&report("nginx")).unwrap();
    let (_, finding) = page.split_once("id=\"finding-1\"").unwrap();
    let finding = finding.split_once("</article>").unwrap().0;
    let card = page.split_once("<article class=\"probe\" id=\"probe-1\"").unwrap().1;
    assert!(finding.contains("<a href=\"#probe-1\">runqlat</a>"), "{finding}");
    assert!(card.split_once("</header>").unwrap().0.contains("runqlat"), "{card}");
    assert_eq!(finding.matches("<td>nginx</td>").count(), 5, "{finding}");
}

#[test]
fn probes_that_could_not_run_are_one_gap_for_one_cause() {
    let coverage = report("nginx").coverage;
    let silent: Vec<&str> = coverage.probes.iter().map(|gap| gap.id.as_str()).collect();
    assert_eq!(silent, ["execsnoop", "tcpretrans", "vfsstat"]);
    let groups: Vec<_> = coverage.groups.iter().filter(|group| !group.probes.is_empty()).collect();
    let [only] = groups.as_slice() else { panic!("{groups:#?}") };
    assert_eq!(only.probes, ["execsnoop", "tcpretrans", "vfsstat"]);
    assert_eq!(only.gap.remedy.as_deref(), Some("run rdiag as root"));
}

#[test]
fn a_probe_that_ran_in_a_later_window_is_no_gap() {
    let mut recording = probed("nginx");
    let ran = recording.windows[1].probes["runqlat"].clone();
    let mut third = recording.windows[1].clone();
    third.probes = [("execsnoop".to_owned(), ran)].into();
    recording.windows.push(third);
    let silent: Vec<String> = report_of(&recording).coverage.probes.into_iter().map(|gap| gap.id).collect();
    assert_eq!(silent, ["tcpretrans", "vfsstat"]);
}

#[test]
fn huge_results_are_bounded_and_say_what_is_missing() {
    let mut recording = probed("nginx");
    let long = "<&>\"|`".repeat(300);
    let mut many = stacks(&long);
    many.stacks = (0..2_000)
        .map(|at| Stack { owner: "<&>".into(), frames: vec![0, 1, 2, 3], value: 1.0, count: at, pid: None })
        .collect();
    let outputs = vec![
        Output::Table(table(&long, 500)),
        Output::Events(events(&long, 500)),
        Output::Stacks(many),
        Output::Histogram(histogram(&[long.as_str(); 50])),
    ];
    let window = &mut recording.windows[1];
    for at in 0..40 {
        window.probes.insert(format!("probe{at}"), Ok(result("x", outputs.clone())));
    }
    let report = report_of(&recording);
    let probe = report.probes.iter().find(|probe| probe.probe == "probe1").unwrap();
    let ProbedOutput::Table(rows) = &probe.outputs[0] else { panic!() };
    assert_eq!((rows.rows.len(), rows.others), (50, 500 - 50 + 12));
    let cut: f64 = (50..500).map(|at| 4.72 / f64::from(at + 1)).sum();
    assert!((rows.others_sum["wait"] - 1.5 - cut).abs() < 1e-6, "{:?}", rows.others_sum);
    assert!(
        matches!(&probe.outputs[1], ProbedOutput::Heat(map) if map.counts().sum::<u64>() == 500),
        "all of the events"
    );
    let ProbedOutput::Stacks(sums) = &probe.outputs[3] else { panic!() };
    assert_eq!((sums.stacks.stacks.len(), sums.stacks.others, sums.whole), (1_000, 1_000.4, 2_000.4));
    let page = html(&report).unwrap();
    let flames =
        |page: &str| page.split("<svg class=\"flame").skip(1).filter_map(|part| part.find("</svg>")).sum::<usize>();
    assert!(page.len() <= 300_000 + flames(&page) && flames(&page) <= 1_000_000, "{} {}", page.len(), flames(&page));
    let text = markdown(&report).unwrap();
    assert!(text.chars().count() <= 30_000 && text.contains("probes. The HTML and JSON"), "{text}");
    assert!(terminal(&report, None, &WIDE).len() < 100_000);
}

#[test]
fn empty_outputs_are_said_to_be_empty() {
    let mut recording = probed("nginx");
    let nothing = vec![
        Output::Table(Default::default()),
        Output::Stacks(Default::default()),
        Output::Histogram(Default::default()),
    ];
    recording.windows[1].probes =
        [("none".to_owned(), Ok(result("none", nothing))), ("bare".to_owned(), Ok(result("bare", Vec::new())))].into();
    let report = report_of(&recording);
    assert!(terminal(&report, None, &WIDE).contains("Saw nothing of their kind: bare, none\n"));
    assert!(markdown(&report).unwrap().contains("Probes that saw nothing of their kind: bare, none.\n"));
    assert_eq!(html(&report).unwrap().matches("Nothing of the kind happened").count(), 2);
    // One that is empty beside one that is not, and alone.
    let empty = || Output::Histogram(Histogram { title: "Time of operations".into(), ..Histogram::default() });
    recording.windows[1].probes =
        [("half".to_owned(), Ok(result("half", vec![empty(), Output::Histogram(histogram(&["sda"]))])))].into();
    let report = report_of(&recording);
    assert!(terminal(&report, None, &WIDE).contains("Time of operations: nothing\n"));
    assert!(markdown(&report).unwrap().contains("Time of operations: nothing.\n"));
    let text = super::probe::text(&result("fsdist", vec![empty()]), &WIDE);
    assert!(text.starts_with("Time of operations\n\n  nothing\n\n"), "{text}");
}

#[test]
fn no_name_in_a_result_acts_on_any_format() {
    let plain = report("plain");
    let (tags_of_plain, structure_of_plain) = (tags(&html(&plain).unwrap()), structure(&markdown(&plain).unwrap()));
    let hidden =
        |text: &str| text.chars().any(|c| c.is_control() && c != '\n') || text.contains(['\u{202e}', '\u{2066}']);
    for name in HOSTILE {
        let report = report(name);
        let page = html(&report).unwrap();
        // Flame graphs leave out names that do not fit, so their texts differ in number; each is a plain text all the same.
        let kept =
            |tags: Vec<String>| -> Vec<String> { tags.into_iter().filter(|tag| !tag.contains("text")).collect() };
        assert_eq!(kept(tags(&page)), kept(tags_of_plain.clone()), "{name:?}");
        let comment = markdown(&report).unwrap();
        assert_eq!(structure(&comment), structure_of_plain, "{name:?}\n{comment}");
        let narrow = terminal(&report, None, &Style { width: 44, color: false, unicode: true });
        let document = json(&report).unwrap();
        for text in [&*page, &*comment, &*narrow, &*document] {
            assert!(!hidden(text), "{name:?}\n{text}");
        }
        assert_eq!(serde_json::from_str::<Report>(&document).unwrap().probes, report.probes, "{name:?}");
    }
}

#[test]
fn one_of_many_readings_shows_its_functions_and_nothing_that_runs_off_the_screen() {
    let row = |at: usize| Row {
        instance: at.to_string(),
        cells: vec![0.04.into(), format!("function_{at}").as_str().into()],
    };
    let table = ProbeTable {
        id: "functions".into(),
        title: "Hottest functions".into(),
        dimension: Some("function".into()),
        columns: vec![Column::number("share", "share", Unit::Ratio), Column::text("name", "function")],
        rows: (0..25).map(row).collect(),
        others_sum: [("share".to_owned(), 0.0)].into(),
        ..ProbeTable::default()
    };
    let stacks = Stacks { title: "CPU time by stack".into(), ..Stacks::default() };
    let result = ProbeResult {
        outputs: vec![Output::Table(table), Output::Stacks(stacks)],
        notes: vec!["99 samples".into(), "and so on".into()],
        lost: [("the ring was full".to_owned(), 2)].into(),
        ..ProbeResult::default()
    };
    let text = super::probe::interval_text(&result, &WIDE);
    assert!(text.starts_with("99 samples\nlost 2 events: the ring was full\n"), "{text}");
    assert!(text.contains("function_14") && text.contains("and 10 more: share 40.0%"), "{text}");
    assert!(!text.contains("function_15") && !text.contains("by stack") && !text.contains("and so on"), "{text}");
}

#[test]
fn counts_of_many_readings_are_summed_up_at_the_end_and_other_figures_are_not() {
    let table = |id: &str, unit: Unit, rows: &[(&str, f64)]| {
        let row = |(name, value): &(&str, f64)| Row {
            instance: (*name).into(),
            cells: vec![(*name).into(), (*value).into()],
        };
        Output::Table(ProbeTable {
            id: id.into(),
            title: format!("Table of {id}"),
            columns: vec![Column::text("event", "event"), Column::number("n", "n", unit)],
            rows: rows.iter().map(row).collect(),
            ..ProbeTable::default()
        })
    };
    let mut live = super::live::Live::default();
    for rows in [&[("a", 1.0), ("b", 2.0)][..], &[("a", 4.0), ("c", 3.0)]] {
        let outputs = vec![table("counts", Unit::Count, rows), table("means", Unit::Seconds, rows)];
        assert_eq!(live.events(&ProbeResult { outputs, ..ProbeResult::default() }, &WIDE), "");
    }
    let text = live.end();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["Table of counts", "event  n", "a      5", "c      3", "b      2"], "{text}");
}

#[test]
fn events_that_are_not_shown_are_told_once_at_the_end() {
    let mut live = super::live::Live::default();
    for others in [3, 0, 4] {
        let outputs = vec![Output::Events(ProbeTable { others, ..ProbeTable::default() })];
        assert_eq!(live.events(&ProbeResult { outputs, ..ProbeResult::default() }, &WIDE), "");
    }
    assert_eq!(live.end(), "note: 7 more events are not shown\n");
    assert_eq!(super::live::Live::default().end(), "");
}

#[test]
fn the_functions_of_a_stack_stand_below_its_line_and_act_on_no_terminal() {
    let stack = |functions: &[&str]| Cell::Stack(functions.iter().map(|name| (*name).to_owned()).collect());
    let rows = [("cat", stack(&["vfs_read", "\u{1b}[2J\u{202e}main"])), ("dd", Cell::Unknown(()))];
    let table = ProbeTable {
        title: "Events".into(),
        columns: vec![Column::text("name", "task"), Column::text("stack", "stack")],
        rows: rows.map(|(name, stack)| Row { instance: String::new(), cells: vec![name.into(), stack] }).into(),
        ..ProbeTable::default()
    };
    let result = ProbeResult { outputs: vec![Output::Events(table)], ..ProbeResult::default() };
    for text in [super::live::Live::default().events(&result, &WIDE), super::probe::text(&result, &WIDE)] {
        let shown: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let at = shown.iter().position(|line| line.starts_with("  cat")).unwrap();
        assert_eq!((shown[at - 1], shown[at + 1]), ("  task  stack", "        vfs_read"), "{text}");
        assert!(shown[at + 2].starts_with("        ") && shown[at + 2].ends_with("main"), "{text}");
        assert!(shown[at + 3].starts_with("  dd") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
}

#[test]
fn calls_are_a_tree_in_every_format_and_what_is_cut_is_said() {
    let report = report("ls");
    let page = html(&report).unwrap();
    let (_, after) = page.split_once("aria-label=\"Calls of bprm_execve\"").unwrap();
    let (tree, _) = after.split_once("</p>").unwrap();
    assert_eq!((tree.matches("<details").count(), tree.matches("</details>").count()), (2, 2), "{tree}");
    assert!(tree.find("do_open_execat").unwrap() < tree.find("exec_binprm").unwrap());
    let comment = markdown(&report).unwrap();
    let lines: Vec<&str> = comment.lines().filter(|line| line.contains("execat") || line.contains("binprm")).collect();
    assert!(lines.iter().all(|line| line.starts_with("  - ")), "{lines:?}");
    let screen = terminal(&report, None, &WIDE);
    let place = |name: &str| screen.lines().find_map(|line| line.find(name)).unwrap();
    assert_eq!(place("do_open_execat"), place("exec_binprm"), "{screen}");
    let alone = super::probe::text(&result("graph", vec![Output::Calls(super::sample_probes::calls("ls"))]), &WIDE);
    for text in [tree, &comment, &screen, &alone] {
        assert!(text.contains("Not shown: 7 more calls; 30 calls that are deeper than was asked for."), "{text}");
        assert!(text.contains("ls (4711), CPU 1, 2.00 ms after the start") || text.contains("ls \\(4711\\)"), "{text}");
    }
}

#[test]
fn a_schedule_is_drawn_for_each_cpu_and_the_tasks_that_ran_most() {
    let drawn =
        super::probe::text(&result("timeline", vec![Output::Schedule(super::sample_probes::schedule("ls"))]), &WIDE);
    // 92 characters for two seconds: the first task waits for 0.4 s before its 0.9 s.
    let line = |label: &str| drawn.lines().find_map(|line| line.strip_prefix(label)).unwrap().trim().to_owned();
    let count = |line: &str, letter: char| line.matches(letter).count();
    let (first, second, task) = (line("  CPU 0 "), line("  CPU 1 "), line("  A     "));
    assert_eq!((first.len(), second.len(), task.len()), (92, 92, 92), "{drawn}");
    assert_eq!((count(&first, 'B'), count(&first, 'A')), (28, 41), "{drawn}");
    assert_eq!((count(&second, 'B'), count(&second, '?')), (14, 19), "{drawn}");
    assert_eq!((count(&task, '~'), count(&task, 'A')), (19, 41), "{drawn}");
    assert!(drawn.contains("A ls (4711), ran 900 ms") && drawn.contains("B worker (4711, thread 4712)"), "{drawn}");
}
