//! A profile in every format: first a program that syncs too often, then hostile names and figures.

use super::profile_testing::{input, profile_of, report_of};
use super::{html, json, markdown, terminal};
use crate::accounts::{durations, ledger, part, thread, waits};
use crate::terminal::Style;
use rdiag_judge::profile::{Input, profile};
use rdiag_model::chain::{Chain, ChainLink};
use rdiag_model::ledger::{Call, ComponentStacks, Ledger, Level, Link, Slice, SlowCall, Thread, Timeline};
use rdiag_model::ledger::{Waker, WakerEdge, WakerKind};
use rdiag_model::probe::{Frame, Stack, Stacks};
use rdiag_model::profile::{Conversation, Forecast, Refused};
use rdiag_model::{Component as C, Culprit, Finding, Profile, Reason, Report, Status, Target, Unavailable};

const WIDE: Style = Style { width: 80, color: false, unicode: true };

fn with_call(call: &str, part: rdiag_model::ledger::Part) -> rdiag_model::ledger::Part {
    rdiag_model::ledger::Part { call: call.into(), ..part }
}

/// A loop that writes and syncs each order, beside a thread that waits for work.
fn syncing() -> Ledger {
    let main = vec![
        with_call("fsync", waits(C::IoBlockSync, "vda", &[(980, 0.005), (20, 0.060)])),
        part(C::CpuUser, 2.4),
        part(C::CpuSys, 0.8),
        waits(C::RunqWakeup, "", &[(1_200, 0.0002)]),
        with_call("pread64", waits(C::IoBlockRead, "vda", &[(150, 0.002)])),
    ];
    let helper = vec![with_call("futex", waits(C::WaitFutex, "", &[(9, 1.0)])), part(C::CpuUser, 0.9)];
    let named = |comm: &str, thread: Thread| Thread { comm: comm.into(), ..thread };
    let mut ledger =
        ledger(10.0, vec![named("orders", thread(11, 11, 10.0, main)), named("flusher", thread(12, 11, 10.0, helper))]);
    let call = |name: &str, on: &str, count: u64, each: f64, cpu: f64| Call {
        name: name.into(),
        on: on.into(),
        count,
        seconds: count as f64 * each,
        on_cpu_seconds: Some(cpu),
        durations: Some(durations(&[(count, each)])),
        ..Call::default()
    };
    ledger.calls = vec![
        call("fsync", "file", 1_000, 0.0062, 0.1),
        call("futex", "", 9, 1.0, 0.0),
        call("pread64", "file", 6_000, 0.0001, 0.3),
    ];
    ledger.calls[2].errors.insert("EINTR".into(), 3);
    let disk = Waker { kind: WakerKind::Interrupt, comm: "vda".into(), ..Waker::default() };
    ledger.wakers = vec![WakerEdge { component: C::IoBlockSync, waker: disk.clone(), seconds: 6.0, count: 990 }];
    let edge = |component, waker: &Waker, seconds| WakerEdge { component, waker: waker.clone(), seconds, count: 990 };
    let link = |tid, comm: &str, edge| Link { tid, pid: 11, comm: comm.into(), edge };
    let orders = Waker { pid: 11, tid: 11, comm: "orders".into(), ..Waker::default() };
    ledger.links = vec![
        link(11, "orders", edge(C::IoBlockSync, &disk, 6.0)),
        link(12, "flusher", edge(C::WaitFutex, &orders, 8.9)),
    ];
    ledger.stacks =
        vec![ComponentStacks { component: C::IoBlockSync, stacks: stacks("orders"), functions: Vec::new() }];
    ledger.slow = vec![SlowCall {
        component: C::IoBlockSync,
        key: "vda".into(),
        call: "fsync".into(),
        tid: 11,
        pid: 11,
        comm: "orders".into(),
        at: 3.2,
        seconds: 0.0612,
        open: false,
        waker: Some(disk),
        stack: Vec::new(),
    }];
    let slices = |components: &[C]| {
        let each = 10.0 / components.len() as f64;
        let slice = |(at, component): (usize, &C)| Slice {
            from: at as f64 * each,
            until: (at + 1) as f64 * each,
            parts: vec![(*component, each)],
        };
        components.iter().enumerate().map(slice).collect()
    };
    ledger.timelines = vec![
        Timeline {
            tid: 11,
            slices: slices(&[C::IoBlockSync, C::CpuUser, C::IoBlockSync, C::IoBlockSync, C::RunqWakeup]),
        },
        Timeline { tid: 12, slices: slices(&[C::WaitFutex, C::WaitFutex, C::CpuUser]) },
    ];
    ledger
}

fn stacks(owner: &str) -> Stacks {
    let frame = |(name, kernel): (&str, bool)| Frame { name: name.into(), kernel, ..Frame::default() };
    let stack = |frames, value| Stack { owner: owner.into(), frames, value, count: 1, ..Stack::default() };
    Stacks {
        frames: [("main", false), ("save", false), ("jbd2_log_wait_commit", true)].map(frame).to_vec(),
        stacks: vec![stack(vec![0, 1, 2], 4.5), stack(vec![0, 2], 1.5)],
        ..Stacks::default()
    }
}

fn sample() -> Profile {
    let target = Target { pids: vec![11], command: Some("orders --import june.csv".into()), ..Target::default() };
    let told = Conversation {
        task: Some("the nightly import".into()),
        for_whom: Some("the warehouse".into()),
        goal_seconds: Some(5.0),
        ..Conversation::default()
    };
    profile_of(&syncing(), &target, told)
}

/// The sample's host with one finding behind the task's waits.
fn report(profile: Result<Profile, Unavailable>) -> Report {
    report_with(profile, Vec::new())
}

/// The same with more findings.
fn report_with(profile: Result<Profile, Unavailable>, more: Vec<Finding>) -> Report {
    let mut disk = super::sample::finding("disk.saturation", Status::Critical);
    disk.instance = Some("vda".into());
    report_of(profile, std::iter::once(disk).chain(more).collect())
}

#[test]
fn a_program_that_syncs_too_often_on_a_terminal_of_80_columns() {
    insta::assert_snapshot!(terminal(&report(Ok(sample())), None, &WIDE));
}

#[test]
fn a_program_that_syncs_too_often_on_a_narrow_terminal_without_unicode() {
    insta::assert_snapshot!(terminal(&report(Ok(sample())), None, &Style { width: 60, unicode: false, ..WIDE }));
}

#[test]
fn a_program_that_syncs_too_often_as_markdown() {
    insta::assert_snapshot!(markdown(&report(Ok(sample()))).unwrap());
}

#[test]
fn the_verdict_answers_what_was_asked_and_names_the_resource_behind_it() {
    let report = report(Ok(sample()));
    let verdict = &report.verdict;
    assert_eq!(verdict.status, Status::Warning, "the goal is missed");
    let headline = verdict.headline.to_string();
    assert!(headline.contains("waiting for disk syncs (fsync, fdatasync and the like) [vda]"), "{headline}");
    assert!(headline.contains("Behind it: disk saturation is critical (vda)"), "{headline}");
}

#[test]
fn samples_that_go_on_where_the_exact_account_had_to_stop_begin_with_that() {
    let told = |reason| {
        let gap = Unavailable::new(reason, "that of every event covers the first 785 ms only (it cost 4%)");
        let refused =
            vec![Refused { source: "response".into(), gap: gap.with_remedy("a larger --budget lets it go on") }];
        let ledger = Ledger { level: Level::L1, ..syncing() };
        let (target, conversation) = (Target { pids: vec![11], ..Target::default() }, Conversation::default());
        let input = Input { refused, source: "task_states", ..input(&ledger, &target, conversation) };
        let report = report(Ok(profile(input)));
        (terminal(&report, None, &WIDE), markdown(&report).unwrap())
    };
    let (screen, page) = told(Reason::ShortWindow);
    assert!(
        screen.contains("From samples: A more exact account was not possible: that of every event covers"),
        "{screen}"
    );
    assert!(page.contains("- A more exact account was not possible: that of every event covers"), "{page}");
    let (screen, _) = told(Reason::Denied);
    assert!(!screen.contains("From samples"), "{screen}");
}

/// A control group at its limit on I/O, with the process that does most of it.
fn at_limit(status: Status, group: &str, pid: u32) -> Finding {
    let culprit = Culprit {
        kind: "process".into(),
        name: "orders".into(),
        pids: vec![pid],
        count: 1,
        share: None,
        value: None,
        unit: None,
        metric: None,
        deed: rdiag_model::DeedOfMetric::default(),
        labels: std::collections::BTreeMap::new(),
    };
    Finding {
        instance: Some(format!("{group} 254:0 wiops")),
        culprit: Some(culprit),
        ..super::sample::finding("cgroup.utilization.io", status)
    }
}

#[test]
fn a_task_at_the_io_limit_of_its_group_is_told_of_the_limit_and_not_of_the_disk() {
    let syncs = |report: &Report| {
        let profile = report.profile.as_ref().unwrap();
        let row = profile.components.iter().find(|row| row.id == C::IoBlockSync).unwrap();
        let forecast = profile.forecast.rows.iter().find(|row| row.id == C::IoBlockSync).unwrap();
        let cpu = profile.components.iter().find(|row| row.id == C::CpuUser).unwrap();
        assert!(cpu.next.iter().all(|step| !step.action.contains("limit")), "{:?}", cpu.next);
        (report.verdict.headline.to_string(), row.next[0].action.clone(), forecast.words.clone())
    };
    let of = |finding| syncs(&report_with(Ok(sample()), vec![finding]));
    let (headline, next, words) = of(at_limit(Status::Warning, "/shop", 11));
    assert!(headline.contains("ontrol group utilization is warning (/shop"), "{headline}");
    assert!(
        next.starts_with("Raise the I/O limit of its control group") && next.contains("cgroup.utilization.io"),
        "{next}"
    );
    assert!(words.contains("a faster disk does not"), "{words}");
    let (headline, next, words) = of(at_limit(Status::Warning, "/shop", 99));
    assert!(headline.contains("Behind it: disk saturation is critical (vda)"), "another one's limit: {headline}");
    assert!(
        next.starts_with("See whether the task is in the control group") && !words.contains("io.max"),
        "{next} {words}"
    );
    let (headline, next, _) = of(at_limit(Status::Ok, "/shop", 11));
    assert!(headline.contains("disk saturation") && !next.contains("limit"), "{headline} {next}");
    let named = |group: &str| {
        let mut profile = sample();
        profile.target.cgroup = Some("/shop/orders".into());
        syncs(&report_with(Ok(profile), vec![at_limit(Status::Warning, group, 99)])).1
    };
    assert!(named("/shop").starts_with("Raise") && named("/shop/orders").starts_with("Raise"));
    assert!(
        named("/sho").starts_with("See") && named("/shop/orders/x").starts_with("See") && named("/").starts_with("See")
    );
}

#[test]
fn a_time_that_could_not_be_accounted_for_is_unknown_and_never_fine() {
    let gap = Unavailable::new(Reason::Denied, "this user may not load programs").with_remedy("run rdiag as root");
    let report = report(Err(gap));
    assert_eq!(report.verdict.status, Status::Unknown);
    assert!(report.verdict.headline.title.contains("may not load programs"), "{}", report.verdict.headline);
    assert_eq!(report.verdict.limits, ["To see it: run rdiag as root."]);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [32, 40, 60, 72, 80, 100, 120] {
        for unicode in [true, false] {
            let text = terminal(&report(Ok(sample())), None, &Style { width, unicode, ..WIDE });
            let widest = text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
            assert!(widest <= width, "{widest} > {width}\n{text}");
        }
    }
}

#[test]
fn the_json_has_the_profile_that_scripts_rely_on() {
    let text = json(&report(Ok(sample()))).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let profile = &value["profile"];
    assert_eq!(profile["level"], "L3");
    assert_eq!((profile["elapsed_seconds"].as_f64(), profile["task_seconds"].as_f64()), (Some(10.0), Some(20.0)));
    assert!(profile["unaccounted_seconds"].is_number());
    let component = &profile["components"][0];
    for field in ["id", "seconds", "share", "count", "mean", "p99", "max"] {
        assert!(component.get(field).is_some(), "{field}");
    }
    assert_eq!(component["id"], "wait.futex");
    let shares: f64 = profile["components"].as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((shares + profile["unaccounted_seconds"].as_f64().unwrap() / 20.0 - 1.0).abs() < 0.005);
}

#[test]
fn counts_and_means_stand_beside_a_time_only_where_they_add_up_to_it() {
    use super::profile_words::lines;
    use rdiag_model::ledger::Part;

    let line = |read: Part| {
        let profile = profile_of(
            &ledger(10.0, vec![thread(1, 1, 10.0, vec![read])]),
            &Target::default(),
            Conversation::default(),
        );
        let line = lines(&profile).into_iter().find(|line| line.id == "io.block.read").unwrap();
        (line.count, line.mean, line.seconds)
    };
    let short = waits(C::IoBlockRead, "vda", &[(171, 0.000_049)]);
    let told = |count: &str, mean: &str, seconds: &str| (count.to_owned(), mean.to_owned(), seconds.to_owned());
    assert_eq!(line(short.clone()), told("171", "49.0 µs", "8.38 ms"));
    let open = Part { seconds: short.seconds + 0.882, open: 1, edge_seconds: 0.882, ..short.clone() };
    assert_eq!(line(open), told("171 + 1 open", "49.0 µs", "890 ms"));
    let none = Part { seconds: 0.5, open: 2, edge_seconds: 0.5, durations: Some(durations(&[])), ..short.clone() };
    assert_eq!(line(none), told("2 open", "–", "500 ms"));
    let unkept = Part { seconds: 0.891, ..short };
    assert_eq!(line(unkept), told("–", "–", "891 ms"), "lengths of most of them were not kept");
}

#[test]
fn names_of_strangers_do_no_harm_in_any_format() {
    let evil = "</style><script>alert(1)</script>\u{202e}\x1b[31m|`*_[x](javascript:1)\n# head";
    let mut ledger = syncing();
    for thread in &mut ledger.threads {
        thread.comm = evil.into();
        for part in &mut thread.parts {
            (part.key, part.call) = (evil.into(), evil.into());
        }
    }
    for call in &mut ledger.calls {
        call.name = evil.into();
        call.errors.insert(evil.into(), 5);
    }
    ledger.slow[0].comm = evil.into();
    ledger.wakers[0].waker.comm = evil.into();
    for link in &mut ledger.links {
        link.comm = evil.into();
        link.edge.waker.comm = evil.into();
    }
    ledger.stacks[0].stacks.stacks.iter_mut().for_each(|stack| stack.owner = evil.into());
    ledger.stacks[0].stacks.frames.iter_mut().for_each(|frame| frame.name = evil.into());
    ledger.notes = vec![evil.into()];
    ledger.lost.insert(evil.into(), 7);
    let target = Target { pids: vec![11], command: Some(evil.into()), ..Target::default() };
    let told = Conversation { task: Some(evil.into()), for_whom: Some(evil.into()), ..Conversation::default() };
    let report = report(Ok(profile_of(&ledger, &target, told)));
    let page = html(&report).unwrap();
    assert!(page.contains("class=\"chain\"") && page.contains("class=\"flame\""), "they are in it");
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}') && !page.contains('\x1b'));
    let text = terminal(&report, None, &WIDE);
    assert!(!text.contains('\u{202e}') && !text.contains('\x1b'), "{text}");
    let text = markdown(&report).unwrap();
    assert!(!text.contains("<script") && !text.contains("\n# head") && !text.contains("[x]("), "{text}");
    assert!(!json(&report).unwrap().contains('\u{202e}'));
}

#[test]
fn the_page_shows_who_waited_for_whom_how_long_waits_were_and_in_which_code() {
    let page = html(&report(Ok(sample()))).unwrap();
    for part in [
        "flusher (thread 12): 8.90 s, futex (lock or idle), 89.0% of its time, ended by orders (thread 11), 990 times",
        "orders (thread 11): 6.00 s, disk syncs (fsync), 60.0% of its time, ended by interrupt vda, 990 times; of that, \
         4.90 s to 6.00 s meanwhile",
        "<code>io.block.sync</code> disk syncs (fsync): 1000 times, 6.10 ms on average, 60.0 ms at most",
        "Of the 15.4 s that threads waited, 6.00 s (39.0%) have a stack",
        "<g class=\"t-disk\"><title>io.block.sync: 6.00 s, 100%",
        "<g class=\"t-disk\"><title>orders: 6.00 s, 100%",
        "<g class=\"t-disk k\"><title>jbd2_log_wait_commit [kernel]: 4.50 s, 75.0%",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
}

#[test]
fn where_the_table_and_the_verdict_have_two_bases_both_are_told() {
    let mut shell = sample();
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "the time of 2 threads added up; those in the verdict are of the 1.50 s of the first one (orders).";
    shell.forecast.thread = None;
    let side_by_side = terminal(&report(Ok(shell.clone())), None, &WIDE);
    assert!(!side_by_side.contains("added up; those in"), "{side_by_side}");
    (shell.forecast.response_seconds, shell.forecast.thread) = (1.5, Some(11));
    let as_one = Profile { forecast: Forecast { as_one: true, ..shell.forecast.clone() }, ..shell.clone() };
    let of_go = plain(&terminal(&report(Ok(as_one)), None, &WIDE));
    assert!(of_go.contains("are of the 1.50 s that orders took, its threads taken as one."), "{of_go}");
    let report = report(Ok(shell));
    let screens = [terminal(&report, None, &WIDE), super::brief(&report, None, &WIDE)].map(|text| plain(&text));
    let tickets = [markdown(&report), super::markdown_brief(&report)].map(|text| plain(&text.unwrap()));
    for text in screens.iter().chain(&tickets).chain([&plain(&html(&report).unwrap())]) {
        // A ticket escapes what could be its own marks.
        assert!(text.replace('\\', "").contains(told), "{text}");
    }
}

#[test]
fn a_shell_that_waits_for_a_pipeline_is_looked_through_to_what_holds_the_pipeline_up() {
    let link = |waiter: &str, component, waker: &str, share| ChainLink {
        waiter: waiter.into(),
        component,
        waker: waker.into(),
        seconds: 1.5,
        share,
        count: 1,
        together: [1.5, 1.5],
    };
    let told = |second: f64, end: &str| {
        let mut shell = sample();
        shell.forecast.response_seconds = 1.5;
        shell.forecast.thread = Some(11);
        let row = shell.forecast.rows.first_mut().unwrap();
        (row.id, row.seconds) = (C::WaitChild, 1.49);
        let links = vec![
            link("sh (thread 11)", C::WaitChild, "dd (thread 12)", 0.99),
            link("dd (thread 12)", C::IpcPipe, "gzip (thread 13)", second),
        ];
        shell.chains = vec![Chain { links, end: end.into() }];
        report(Ok(shell)).verdict.headline.to_string()
    };
    let end = "gzip (thread 13) itself: user CPU 93.1%.";
    let behind = ". Behind it: dd (thread 12), which waited 82.0% of its time for gzip (thread 13); \
                  gzip (thread 13) itself: user CPU 93.1%";
    assert!(told(0.82, end).ends_with(behind), "{}", told(0.82, end));
    // What the last one did explains only what was mostly spent waiting for it.
    assert!(told(0.3, end).ends_with(". Behind it: dd (thread 12)"), "{}", told(0.3, end));
    assert!(!told(0.82, "gzip (thread 13) was not observed.").contains("dd (thread 12)"));
}
