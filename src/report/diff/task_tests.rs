use super::*;
use crate::accounts::{durations, ledger, part, thread, waits};
use crate::profile_testing::profile_of;
use crate::sample::report;
use rdiag_model::comparison::{PartChange, TaskBasis, TaskChange};
use rdiag_model::ledger::{Call, Ledger, Thread};
use rdiag_model::profile::Conversation;
use rdiag_model::runs::{RunComponent, Runs, Spread};
use rdiag_model::{Component as C, Profile, Target};

fn of(ledger: &Ledger, command: Option<&str>) -> Profile {
    let target = Target { pids: vec![1], command: command.map(str::to_owned), ..Target::default() };
    profile_of(ledger, &target, Conversation::default())
}

/// One thread: so many syncs of this length, and a second of CPU time.
fn syncing(count: u64, each: f64) -> Ledger {
    let sync = waits(C::IoBlockSync, "vda", &[(count, each)]);
    let whole = sync.seconds + 1.0;
    let mut ledger = ledger(whole, vec![thread(1, 1, whole, vec![sync, part(C::CpuUser, 1.0)])]);
    let seconds = count as f64 * each;
    let durations = Some(durations(&[(count, each)]));
    ledger.calls = vec![Call { name: "fsync".into(), count, seconds, durations, ..Call::default() }];
    ledger
}

fn compared(before: Profile, after: Profile) -> Comparison {
    let input = |profile: Profile| {
        let mut report = report(Vec::new());
        report.profile = Some(profile);
        let side = Side { playbook: "method-r".into(), seconds: 1.0, ..Side::default() };
        Input { report: Some(report), side, ..Input::default() }
    };
    compare(&input(before), &input(after))
}

fn task(before: Profile, after: Profile) -> TaskChange {
    compared(before, after).task.unwrap()
}

fn row<'t>(task: &'t TaskChange, id: &str) -> &'t PartChange {
    task.components.iter().find(|part| part.id == id).unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn of_two_executions_the_component_that_grew_is_named_with_its_part_of_the_growth() {
    let task = task(of(&syncing(200, 0.005), Some("load")), of(&syncing(500, 0.006), Some("load")));
    assert_eq!(task.basis, TaskBasis::Response);
    assert!(near(task.whole_seconds[0], 2.0) && near(task.whole_seconds[1], 4.0));
    let sync = row(&task, "io.block.sync");
    assert!(near(sync.of_change.unwrap(), 1.0) && sync.is_clear);
    assert!(!row(&task, "cpu.user").is_clear);
    assert_eq!(
        task.headline,
        "It took 2.00 s, and then 4.00 s, +2.00 s: 100% of the growth is disk syncs (fsync) (1.00 s → 3.00 s, 200 → 500 times, \
         5.00 ms → 6.00 ms each)."
    );
    assert_eq!(
        task.calls.iter().map(|call| (call.id.as_str(), call.count)).collect::<Vec<_>>(),
        [("fsync", [Some(200), Some(500)])]
    );
}

#[test]
fn what_went_the_other_way_is_no_part_of_a_gain() {
    let before = ledger(4.0, vec![thread(1, 1, 4.0, vec![part(C::CpuUser, 1.0), part(C::IoBlockRead, 3.0)])]);
    let after = ledger(3.0, vec![thread(1, 1, 3.0, vec![part(C::CpuUser, 2.0), part(C::IoBlockRead, 1.0)])]);
    let task = task(of(&before, Some("load")), of(&after, Some("load")));
    assert!(
        task.headline.ends_with("−1.00 s: more than all of the gain is disk reads (3.00 s → 1.00 s)."),
        "{}",
        task.headline
    );
    assert!(near(row(&task, "cpu.user").of_change.unwrap(), -1.0));
}

#[test]
fn two_executions_of_the_same_length_are_as_before() {
    let task = task(of(&syncing(200, 0.005), Some("load")), of(&syncing(201, 0.005), Some("load")));
    assert_eq!(task.headline, "It took 2.00 s, and then 2.00 s: as long as before.");
    assert!(task.components.iter().all(|part| !part.is_clear && part.of_change.is_none()));
    assert!(task.calls.is_empty());
}

#[test]
fn windows_are_compared_by_shares_however_long_they_are() {
    let before = of(&syncing(200, 0.005), None);
    let longer = of(&syncing(200, 0.045), None);
    let task = task(before.clone(), longer);
    assert_eq!(task.basis, TaskBasis::Windows);
    assert!(
        task.headline
            .starts_with("user CPU went from 50.0% to 10.0% of the time; disk syncs (fsync) went from 50.0% to 90.0%")
    );
    assert!(task.components.iter().all(|part| part.of_change.is_none()));
    // An execution against a window, or against its beginning, is no pair of executions.
    let execution = of(&syncing(200, 0.005), Some("load"));
    assert_eq!(super::task::compare(&before, &execution).basis, TaskBasis::Windows);
    let stopped = Ledger { stopped: Some("it cost too much".into()), ..syncing(200, 0.005) };
    let beginning = super::task::compare(&execution, &of(&stopped, Some("load")));
    assert_eq!(beginning.basis, TaskBasis::Windows);
    assert!(beginning.notes.iter().any(|note| note.contains("covers only the first")), "{:?}", beginning.notes);
}

#[test]
fn the_response_time_is_that_of_the_first_thread_and_not_the_sum_of_all() {
    let with_helper = |seconds: f64| {
        let mut ledger = syncing(200, 0.005);
        let idle = part(C::WaitFutex, seconds);
        ledger.threads.push(Thread { pid: 1, ..thread(2, 1, seconds, vec![idle]) });
        ledger
    };
    let task = task(of(&with_helper(0.5), Some("load")), of(&with_helper(1.9), Some("load")));
    assert_eq!(task.basis, TaskBasis::Response);
    assert!(near(task.whole_seconds[0], 2.0) && near(task.whole_seconds[1], 2.0));
    assert_eq!(row(&task, "io.block.sync").count, [None; 2], "they are counted over all threads");
    assert!(task.components.iter().all(|part| part.id != "wait.futex"));
}

#[test]
fn runs_that_were_told_apart_are_compared_by_their_means_and_by_how_far_they_lie_apart() {
    let with_runs = |mean: f64, apart: f64| {
        let spread = |mean: f64| Spread { mean, min: mean - apart / 2.0, max: mean + apart / 2.0, ..Spread::default() };
        let id = C::IoBlockSync;
        let row = RunComponent { id, title: "sync".into(), share: 1.0, runs: 16, spread: spread(mean) };
        let components = vec![row];
        let mut profile = of(&syncing(200, 0.005), Some("load"));
        profile.runs = Some(Runs { count: 16, response: Some(spread(mean)), components, ..Runs::default() });
        profile
    };
    let close = task(with_runs(1.0, 0.2), with_runs(1.5, 0.2));
    assert_eq!((close.basis, close.whole_seconds), (TaskBasis::Runs, [1.0, 1.5]));
    assert!(
        close.headline.starts_with("A run took 1.00 s on average, and then 1.50 s, +500 ms: 100% of the growth is")
    );
    let apart = task(with_runs(1.0, 2.0), with_runs(1.5, 2.0));
    assert!(!row(&apart, "io.block.sync").is_clear, "16 runs, two seconds apart, say no more than that");
}

#[test]
fn what_a_few_slow_runs_of_many_lost_is_the_gain() {
    let with_lock = |mean: f64, most: f64, runs: u64| {
        let spread = |least: f64| Spread { mean: least + mean, min: least, max: least + most, ..Spread::default() };
        let row = RunComponent { id: C::LockUser, title: "lock".into(), share: 0.8, runs: 20, spread: spread(0.0) };
        let mut profile = of(&syncing(200, 0.005), Some("load"));
        let (response, components) = (Some(spread(0.0002)), vec![row]);
        profile.runs = Some(Runs { count: runs, response, components, ..Runs::default() });
        profile
    };
    // As measured of a Java service, whose lock one request of forty waits for.
    let told = task(with_lock(768e-6, 0.0336, 727), with_lock(4e-6, 0.0004, 727)).headline;
    assert!(told.contains("of the gain is lock (futex) (768 µs → 4.00 µs)"), "{told}");
    let told = task(with_lock(768e-6, 0.0336, 40), with_lock(4e-6, 0.0004, 40)).headline;
    assert!(told.contains("no single component stands out"), "{told}");
}

#[test]
fn an_estimate_moves_only_by_more_than_its_error() {
    let sampled = |seconds: f64, error: f64| {
        let mut read = part(C::IoBlockRead, seconds);
        read.accuracy = rdiag_model::ledger::Accuracy::Sampled(100, error);
        of(&ledger(10.0, vec![thread(1, 1, 10.0, vec![read, part(C::CpuUser, 10.0 - seconds)])]), None)
    };
    let is_clear = |error| row(&task(sampled(2.0, error), sampled(3.0, error)), "io.block.read").is_clear;
    assert!(is_clear(0.2) && !is_clear(0.5));
}

#[test]
fn every_format_tells_it_and_names_are_harmless() {
    let named = |name: &str, count| {
        let mut ledger = syncing(count, 0.005);
        ledger.calls[0].name = name.into();
        of(&ledger, Some("load"))
    };
    let name = "<b>x|y</b>\u{1b}[31m";
    let comparison = compared(named(name, 200), named(name, 500));
    let html = crate::comparison_html(&comparison, &[]).unwrap();
    let (text, markdown) = (text(&comparison, false), markdown(&comparison));
    for shown in [&*html, &*text, &*markdown] {
        assert!(shown.contains("of the growth is disk syncs (fsync)"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
    }
    assert!(!html.contains("<b>x") && !markdown.contains("<b>x"));
    assert!(markdown.lines().filter(|line| line.starts_with('|')).all(|line| !line.contains("x|y")), "{markdown}");
}
