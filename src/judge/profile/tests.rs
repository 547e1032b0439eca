use std::sync::LazyLock;

use super::testing::{durations, ledger, part, run, thread, waits};
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Accuracy, Call, CallKind, Durations, Level, Part, Slice, Thread, Waker};
use rdiag_model::profile::{Grade, Skew};

/// The advice that is part of the program.
pub(super) fn book() -> &'static AdviceBook {
    static BOOK: LazyLock<AdviceBook> =
        LazyLock::new(|| serde_yaml::from_str(include_str!("../../../playbooks/method-r/components.yaml")).unwrap());
    &BOOK
}

pub(super) fn of(ledger: &Ledger, target: &Target, conversation: Conversation) -> Profile {
    profile(Input {
        ledger,
        source: "response",
        refused: Vec::new(),
        window: 0,
        window_seconds: 10.0,
        suspended_seconds: 0.0,
        target,
        conversation,
        cpus: None,
        observing: 0.0,
        advice: book(),
    })
}

pub(super) fn plain(ledger: &Ledger) -> Profile {
    of(ledger, &Target { pids: vec![1], ..Target::default() }, Conversation::default())
}

pub(super) fn row(profile: &Profile, id: C) -> &rdiag_model::profile::ComponentRow {
    profile.components.iter().find(|row| row.id == id).unwrap()
}

pub(super) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// 6 s of fsync, 3 s of CPU, 1 s of waiting for a CPU.
pub(super) fn syncing() -> Ledger {
    let parts = vec![
        waits(C::IoBlockSync, "vda", &[(1_000, 0.006)]),
        part(C::CpuUser, 3.0),
        waits(C::RunqWakeup, "", &[(1_000, 0.001)]),
    ];
    ledger(10.0, vec![thread(1, 1, 10.0, parts)])
}

#[test]
fn each_second_is_in_one_component_and_the_sum_is_the_whole() {
    let profile = plain(&syncing());
    assert!(close(profile.task_seconds, 10.0) && close(profile.elapsed_seconds, 10.0));
    assert!(close(profile.components.iter().map(|row| row.share).sum::<f64>(), 1.0));
    assert!(close(profile.states.iter().map(|state| state.share).sum::<f64>(), 1.0));
    assert_eq!(
        profile.components.iter().map(|row| row.id).collect::<Vec<_>>(),
        [C::IoBlockSync, C::CpuUser, C::RunqWakeup]
    );
    assert_eq!(
        (profile.quality.grade, profile.unaccounted_seconds, profile.over_accounted_seconds),
        (Grade::A, 0.0, 0.0)
    );
    assert_eq!(
        profile.answer.headline,
        "60.0% of the elapsed 10.0 s is waiting for disk syncs (fsync, fdatasync and the like) [vda], 1000 times, 6.00 ms on average; \
         30.0% is user CPU time (its own code); 10.0% is run-queue wait after wakeup."
    );
}

#[test]
fn what_is_missing_in_one_thread_does_not_hide_what_is_too_much_in_another() {
    let threads =
        vec![thread(1, 1, 10.0, vec![part(C::CpuUser, 8.0)]), thread(2, 1, 10.0, vec![part(C::WaitPoll, 12.0)])];
    let profile = plain(&ledger(10.0, threads));
    assert!(close(profile.unaccounted_seconds, 2.0) && close(profile.over_accounted_seconds, 2.0));
    assert_eq!(profile.quality.grade, Grade::D);
    assert!(profile.answer.headline.starts_with("This profile is incomplete."), "{}", profile.answer.headline);
    let all: f64 = profile.components.iter().map(|row| row.seconds).sum();
    assert!(close(all + profile.unaccounted_seconds - profile.over_accounted_seconds, profile.task_seconds));
}

#[test]
fn one_slow_call_among_a_thousand_short_ones_is_found() {
    let profile =
        plain(&ledger(2.0, vec![thread(1, 1, 2.0, vec![waits(C::WaitSleep, "", &[(999, 0.001), (1, 1.001)])])]));
    let row = row(&profile, C::WaitSleep);
    assert_eq!((row.skew, row.count), (Skew::FewSlow, Some(1000)));
    assert_eq!(row.skew_words, "1 of 1000 (0.1%) hold 50.0% of this time: look at those, not at the average.");
    assert!(close(row.mean.unwrap(), 0.002) && row.max == Some(1.001));
    assert_eq!(row.ranges.len(), 2);
    assert_eq!(row.ranges.iter().map(|range| range.count).collect::<Vec<_>>(), [999, 1]);
    assert!(close(row.ranges.iter().map(|range| range.share).sum::<f64>(), 1.0));
}

#[test]
fn skew_is_told_by_time_and_by_object() {
    let skew = |parts: Vec<Part>| {
        let seconds = parts.iter().map(|part| part.seconds).sum();
        plain(&ledger(seconds, vec![thread(1, 1, seconds, parts)])).components[0].skew
    };
    assert_eq!(skew(vec![waits(C::NetRecv, "", &[(10_000, 0.001)])]), Skew::ManySmall);
    assert_eq!(
        skew(vec![waits(C::NetRecv, "10.0.0.1", &[(70, 0.001), (30, 0.004)]), waits(C::NetRecv, "b", &[(1, 0.001)])]),
        Skew::OneKey
    );
    assert_eq!(skew(vec![waits(C::NetRecv, "", &[(5, 0.001)])]), Skew::Unknown, "five calls say nothing");
    assert_eq!(skew(vec![waits(C::NetRecv, "", &[(70, 0.001), (30, 0.004)])]), Skew::Mixed);
    assert_eq!(skew(vec![part(C::NetRecv, 3.0)]), Skew::Unknown, "no calls were seen");
}

#[test]
fn percentiles_are_given_only_where_there_are_enough_calls() {
    let with = |count| {
        let profile = plain(&ledger(1.0, vec![thread(1, 1, 1.0, vec![waits(C::NetRecv, "", &[(count, 0.0001)])])]));
        let row = row(&profile, C::NetRecv);
        (row.p50.is_some(), row.p95.is_some(), row.p99.is_some())
    };
    assert_eq!(with(19), (false, false, false));
    assert_eq!(with(20), (true, false, false));
    assert_eq!(with(200), (true, true, false));
    assert_eq!(with(1000), (true, true, true));
}

#[test]
fn waits_under_way_at_an_edge_count_as_time_and_not_as_calls() {
    let open = Part { open: 1, edge_seconds: 10.0, durations: Some(Durations::default()), ..part(C::WaitFutex, 10.0) };
    let profile = plain(&ledger(10.0, vec![thread(1, 1, 10.0, vec![open])]));
    let row = row(&profile, C::WaitFutex);
    assert!(close(row.share, 1.0) && close(row.edge_seconds, 10.0));
    assert_eq!((row.count, row.open, row.mean, row.max), (Some(0), 1, None, None));
}

#[test]
fn errors_of_estimates_add_up_in_quadrature_and_are_said() {
    let sampled = |seconds, error| Part { accuracy: Accuracy::Sampled(50, error), ..part(C::WaitPoll, seconds) };
    let mut l1 =
        ledger(10.0, vec![thread(1, 1, 10.0, vec![sampled(10.0, 0.3)]), thread(2, 1, 10.0, vec![sampled(10.0, 0.4)])]);
    l1.level = Level::L1;
    let profile = plain(&l1);
    let row = row(&profile, C::WaitPoll);
    assert!(close(row.plus_minus.unwrap(), 0.5) && !row.exact && row.samples == Some(100));
    assert!(profile.answer.limits.iter().any(|limit| limit.contains("samples of /proc")));
}

#[test]
fn who_is_told_in_which_functions_most_of_the_time_went_need_not_ask_another_probe() {
    use rdiag_model::probe::{Frame, Stack, Stacks};
    let of = |seconds, callers: u32| {
        let function = Frame { name: "parse".to_owned(), ..Default::default() };
        let frames = vec![function.clone(), Frame { name: "main".to_owned(), ..Default::default() }];
        let stack =
            Stack { owner: "app".to_owned(), frames: (0..=callers).rev().collect(), value: 2.0, ..Stack::default() };
        let stacks = Stacks { frames, stacks: vec![stack], ..Stacks::default() };
        let functions = vec![rdiag_model::ledger::FunctionTime { function, seconds, count: 50 }];
        let stacks = rdiag_model::ledger::ComponentStacks { component: C::CpuUser, functions, stacks };
        let profile = plain(&Ledger { stacks: vec![stacks], ..syncing() });
        row(&profile, C::CpuUser).next.iter().map(|step| step.action.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(1.4, 1), ["See which code it is: rdiag probe profile --pid 1"]);
    assert_eq!(of(1.6, 0), ["See which code it is: rdiag probe profile --pid 1"], "its callers are not known");
    assert_eq!(of(1.6, 1), ["See who calls these functions: the flame graph in report.html"]);
}

#[test]
fn a_server_that_waits_for_clients_is_told_by_what_it_does_besides() {
    let parts = vec![part(C::WaitPoll, 9.0), part(C::CpuUser, 0.8), part(C::IoBlockRead, 0.2)];
    let profile = plain(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]));
    assert!(close(profile.busy.seconds, 1.0) && close(profile.busy.share, 0.1));
    assert_eq!(
        profile.answer.headline,
        "90.0% of the elapsed 10.0 s is waiting for work or for others (mostly waiting for events (poll, epoll, select)). Of the \
         remaining 1.00 s, 80.0% is user CPU time (its own code); 20.0% is waiting for disk reads."
    );
    assert!(close(row(&profile, C::CpuUser).busy_share.unwrap(), 0.8));
    assert_eq!(row(&profile, C::WaitPoll).busy_share, None);
}

#[test]
fn threads_are_counted_at_the_beginning_at_the_peak_and_at_the_end() {
    let mut born = thread(2, 1, 3.0, vec![part(C::CpuUser, 3.0)]);
    (born.born, born.died, born.began, born.ended) = (true, true, 2.0, 5.0);
    let later = Thread { tid: 3, began: 5.0, ended: 8.0, ..born.clone() };
    let profile = plain(&ledger(10.0, vec![thread(1, 1, 10.0, vec![part(C::WaitChild, 10.0)]), born, later]));
    let population = profile.population;
    assert_eq!((population.start, population.peak, population.end, population.seen), (1, 2, 1, 3));
    assert!(close(population.mean, 1.6));
}

#[test]
fn the_call_profile_is_a_cut_of_its_own_that_sums_up_too() {
    let mut with = syncing();
    let call = |name: &str, on: &str, count, seconds| Call {
        name: name.into(),
        on: on.into(),
        count,
        seconds,
        on_cpu_seconds: Some(seconds / 2.0),
        durations: Some(durations(&[(count, seconds / count as f64)])),
        ..Call::default()
    };
    with.calls = vec![call("fsync", "", 1000, 6.2), call("read", "file", 40_000, 0.4), call("read", "file", 10, 0.1)];
    with.calls[1].errors.insert("EAGAIN".into(), 30_000);
    with.calls.push(Call { kind: CallKind::Fault, name: "page fault".into(), seconds: 0.3, ..Call::default() });
    let calls = plain(&with).calls.unwrap();
    assert!(close(calls.syscall_seconds + calls.fault_seconds + calls.user_seconds, 10.0));
    assert_eq!(
        calls.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(),
        ["fsync", "read(file)", "page fault"]
    );
    assert_eq!((calls.rows[1].count, calls.rows[1].error_storm, calls.rows[0].error_storm), (40_010, true, false));
    assert!(close(calls.rows[0].off_cpu_seconds.unwrap(), 3.1));
}

#[test]
fn calls_that_were_watched_for_a_fifth_of_the_time_count_five_times() {
    let mut with = syncing();
    let durations = Some(durations(&[(10, 0.01)]));
    let parts = Call { name: "fsync".into(), stands_for: 5.0, count: 10, seconds: 0.1, durations, ..Call::default() };
    let whole = Call { count: 3, seconds: 0.2, durations: None, stands_for: 1.0, ..parts.clone() };
    let fault = Call { kind: CallKind::Fault, name: "page fault".into(), count: 7, seconds: 0.3, ..Call::default() };
    (with.calls, with.calls_share) = (vec![parts, whole, fault], Some(0.2));
    let calls = plain(&with).calls.unwrap();
    assert_eq!(calls.watched_share, Some(0.2));
    let of = |name: &str| calls.rows.iter().find(|row| row.name == name).unwrap();
    assert!(of("fsync").count == 53 && close(of("fsync").seconds, 0.7) && close(of("fsync").mean.unwrap(), 0.01));
    assert!(of("page fault").count == 7 && close(of("page fault").seconds, 0.3), "these are counted all the time");
    for absurd in [f64::NAN, 0.0, -1.0, 1e300, f64::INFINITY] {
        with.calls_share = Some(absurd);
        with.calls[0].stands_for = absurd;
        let calls = plain(&with).calls.unwrap();
        assert!(calls.watched_share.is_none() && calls.rows.iter().any(|row| row.count == 13), "{absurd}");
    }
}

#[test]
fn calls_that_were_watched_while_the_task_had_a_cpu_are_given_no_more_than_it_had() {
    let of = |calls: Vec<Call>| {
        let mut with = ledger(10.0, vec![thread(1, 0, 10.0, vec![part(C::CpuSys, 2.0), part(C::RunqPreempt, 8.0)])]);
        with.calls = calls;
        let profile = plain(&with).calls.unwrap();
        let on_cpu = |name: &str| profile.rows.iter().find(|row| row.name == name).unwrap().on_cpu_seconds.unwrap();
        (on_cpu("read"), on_cpu("write"))
    };
    let call = |name: &str, stands_for, seconds, on_cpu| Call {
        name: name.into(),
        stands_for,
        seconds,
        on_cpu_seconds: Some(on_cpu),
        ..Call::default()
    };
    let (read, write) = of(vec![call("read", 20.0, 0.3, 0.15), call("write", 20.0, 0.1, 0.05)]);
    assert!(close(read, 1.5) && close(write, 0.5), "{read} {write}");
    let (read, write) = of(vec![call("read", 1.0, 1.6, 1.6), call("write", 20.0, 0.1, 0.05)]);
    assert!(close(read, 1.6) && close(write, 0.4), "what was measured stays: {read} {write}");
    let (read, write) = of(vec![call("read", 20.0, 0.3, 0.05), call("write", 20.0, 0.1, 0.01)]);
    assert!(close(read, 1.0) && close(write, 0.2), "{read} {write}");
}

#[test]
fn absurd_figures_make_no_sum_absurd_and_are_said() {
    let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -5.0, 1e300, f64::MIN_POSITIVE];
    let mut parts: Vec<Part> = strange
        .iter()
        .map(|seconds| Part {
            accuracy: Accuracy::Estimate(Some(*seconds)),
            edge_seconds: *seconds,
            open: u64::MAX,
            durations: Some(Durations {
                count: u64::MAX,
                seconds: *seconds,
                min: *seconds,
                max: *seconds,
                buckets: durations(&[(u64::MAX, 0.5), (3, 0.1)])
                    .buckets
                    .into_iter()
                    .chain([rdiag_model::ledger::Bucket { below: f64::NAN, count: u64::MAX, seconds: *seconds }])
                    .collect(),
            }),
            ..part(C::NetRecv, *seconds)
        })
        .collect();
    parts.push(part(C::CpuUser, 1.0));
    let mut hostile =
        ledger(10.0, vec![thread(1, 1, 10.0, parts.clone()), thread(1, 1, f64::NAN, parts), Thread::default()]);
    hostile.threads[0].stands_for = u32::MAX;
    hostile.threads[0].began = f64::NAN;
    hostile.calls =
        vec![Call { count: u64::MAX, seconds: f64::INFINITY, on_cpu_seconds: Some(-1.0), ..Call::default() }; 3];
    hostile.wakers =
        vec![WakerEdge { component: C::NetRecv, waker: Waker::default(), seconds: f64::NAN, count: u64::MAX }];
    hostile.timelines = vec![Timeline {
        tid: 1,
        slices: vec![
            Slice { from: f64::NAN, until: 3.0, parts: vec![(C::CpuUser, f64::INFINITY)] },
            Slice { from: 2.0, until: f64::INFINITY, parts: Vec::new() },
            Slice { from: 1.0, until: 5.0, parts: Vec::new() },
        ],
    }];
    let mut stacks = Stacks { frames: vec![Frame::default()], others: f64::NAN, ..Stacks::default() };
    stacks.stacks = vec![Stack { frames: vec![0, 7, u32::MAX], value: 1.0, ..Stack::default() }];
    hostile.stacks =
        vec![rdiag_model::ledger::ComponentStacks { component: C::NetRecv, stacks, functions: Vec::new() }];
    hostile.checks.proc_cpu_seconds = Some(f64::NAN);
    for ended in [110.0, f64::NAN, f64::INFINITY, 0.0] {
        hostile.ended = ended;
        for goal in strange {
            let target = Target { pids: vec![1], command: Some(String::new()), ..Target::default() };
            let told = Conversation {
                goal_seconds: Some(goal),
                now_seconds: Some(goal),
                per_day: Some(goal),
                ..Conversation::default()
            };
            let profile = of(&hostile, &target, told);
            assert!(profile.quality.grade > Grade::A && profile.task_seconds.is_finite());
            let json = serde_json::to_value(&profile).unwrap();
            let again: Profile = serde_json::from_value(json).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again.components.len(), profile.components.len());
        }
    }
}

#[test]
fn a_ledger_without_threads_is_no_profile_of_zeros() {
    let profile = plain(&Ledger::default());
    assert_eq!(profile.quality.grade, Grade::D);
    assert!(profile.answer.headline.starts_with("Nothing was observed"), "{}", profile.answer.headline);
}

#[test]
fn the_thread_that_the_headline_is_about_has_a_row_among_however_many_others() {
    let children = (2..200).map(|pid| run(pid, 1, f64::from(pid - 2) * 0.01, vec![part(C::CpuUser, 0.01)]));
    let shell = run(1, 0, 0.0, vec![part(C::WaitChild, 1.98)]);
    let profile = super::forecast_tests::command(&ledger(1.98, [shell].into_iter().chain(children).collect()), None);
    assert_eq!(profile.threads.len(), super::MAX_THREAD_ROWS);
    assert!(profile.threads.iter().any(|row| row.tid == 1));
    assert!(
        profile.answer.headline.contains("of the 1.98 s that it took, in its first thread (task1)"),
        "{}",
        profile.answer.headline
    );
}

#[test]
fn a_command_in_go_is_answered_by_what_its_threads_did_and_what_these_waited_for() {
    let mut first = Thread { born: true, died: true, ..thread(1, 1, 10.0, vec![part(C::WaitFutex, 10.0)]) };
    let worker = thread(2, 1, 10.0, vec![part(C::CpuUser, 6.0), part(C::WaitChild, 3.0), part(C::WaitFutex, 1.0)]);
    let child = run(9, 1, 6.0, vec![part(C::IoBlockRead, 3.0)]);
    let with = |first: &Thread| {
        let ledger = ledger(10.0, vec![first.clone(), worker.clone(), child.clone()]);
        super::forecast_tests::command(&ledger, None)
    };
    let alone = with(&first).answer.headline;
    assert!(
        alone.starts_with("100% of the 10.0 s that it took, in its first thread (task1), is waiting on a futex"),
        "{alone}"
    );
    first.together = Some(rdiag_model::ledger::Together { on_cpu: 6.0, runnable: 0.0 });
    let profile = with(&first);
    let of = "60.0% of the 10.0 s that it took, in the threads of task1 (Go) taken as one and in what these waited for (task9), is \
              user CPU time";
    assert!(profile.answer.headline.starts_with(of), "{}", profile.answer.headline);
    let seconds = |id| profile.forecast.rows.iter().find(|row| row.id == id).map(|row| row.seconds);
    assert!(
        close(seconds(C::IoBlockRead).unwrap(), 3.0) && seconds(C::WaitChild).is_none(),
        "{:?}",
        profile.forecast.rows
    );
    assert!(
        profile
            .forecast
            .basis
            .contains("taken as one, since Go moves the work between them, and what these waited for (task9).")
    );
    // Which of its threads held it up is not known.
    let user = profile.forecast.rows.iter().find(|row| row.id == C::CpuUser).unwrap();
    assert!(close(user.vanished[0], 4.0) && close(user.vanished[1], 10.0), "{:?}", user.vanished);
}
