use super::testing::{ledger, part, run, thread};
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Level, Part, Thread};
use rdiag_model::profile::Reach;
use rdiag_model::runs::Runs;

const STARTER: u32 = 10;

fn command() -> Target {
    Target {
        pids: vec![STARTER],
        command: Some("report --month".into()),
        children: true,
        each: true,
        ..Target::default()
    }
}

fn named() -> Target {
    Target { comm: Some("report".into()), each: true, ..Target::default() }
}

fn profile_of(threads: Vec<Thread>, target: &Target, goal: Option<f64>) -> Profile {
    profile_told(threads, target, Conversation { goal_seconds: goal, ..Conversation::default() })
}

fn profile_told(threads: Vec<Thread>, target: &Target, conversation: Conversation) -> Profile {
    let ledger = ledger(100.0, threads);
    let refused = Vec::new();
    profile(Input {
        ledger: &ledger,
        source: "response",
        refused,
        window: 0,
        window_seconds: 10.0,
        suspended_seconds: 0.0,
        target,
        conversation,
        cpus: None,
        observing: 0.0,
        advice: super::tests::book(),
    })
}

fn runs_of(threads: Vec<Thread>, target: &Target) -> Runs {
    profile_of(threads, target, None).runs.unwrap()
}

/// So many runs of 0.1 s on a CPU; every fifth sleeps for a second as well.
fn napping(count: u32) -> Vec<Thread> {
    let one = |number: u32| {
        let mut parts = vec![part(C::CpuUser, 0.1)];
        if number % 5 == 4 {
            parts.push(Part { call: "clock_nanosleep".into(), ..part(C::WaitSleep, 1.0) });
        }
        run(100 + number, STARTER, f64::from(number) * 2.0, parts)
    };
    (0..count).map(one).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn what_slow_runs_have_more_of_explains_the_difference() {
    let runs = runs_of(napping(20), &command());
    assert_eq!((runs.count, runs.open), (20, 0));
    let response = runs.response.unwrap();
    assert!(close(response.mean, 0.3) && close(response.p50, 0.1) && close(response.max, 1.1), "{response:?}");
    assert_eq!((response.p95, response.p99), (None, None), "20 runs say nothing about the slowest of 100");
    let difference = runs.difference.as_ref().unwrap();
    assert_eq!((difference.slow_runs, difference.fast_runs), (5, 10));
    // Four of the five slowest slept.
    assert!(close(difference.seconds, 0.8) && close(difference.unexplained_seconds, 0.0), "{difference:?}");
    let [row] = difference.rows.as_slice() else { panic!("{difference:?}") };
    assert_eq!((row.id, row.mostly.as_str(), row.above_all_fast), (C::WaitSleep, "clock_nanosleep", 4));
    assert!(close(row.share, 1.0) && close(row.seconds, 0.8));
    assert_eq!(
        runs.headline,
        "20 runs took 300 ms on average (median 100 ms, from 100 ms to 1.10 s); the slowest 5 took 800 ms \
         longer than the fastest 10: 100% of that is voluntary sleep (nanosleep, timer), clock_nanosleep."
    );
    let counts: Vec<u64> = runs.histogram.iter().map(|bar| bar.count).collect();
    assert_eq!((counts.first(), counts.last(), counts.iter().sum::<u64>()), (Some(&16), Some(&4), 20));
    let mut slept: Vec<u64> = runs.slowest.iter().take(4).map(|run| run.number).collect();
    slept.sort_unstable();
    assert_eq!(slept, [5, 10, 15, 20]);
}

#[test]
fn runs_that_are_alike_are_not_divided_into_slow_and_fast_ones() {
    let one = |number: u32| {
        let seconds = 0.1 + f64::from(number) * 1e-4;
        run(100 + number, STARTER, f64::from(number), vec![part(C::CpuUser, seconds)])
    };
    let runs = runs_of((0..40).map(one).collect(), &command());
    assert_eq!(runs.difference, None);
    assert!(runs.headline.contains("less than 10.0% longer"), "{}", runs.headline);
}

#[test]
fn too_few_runs_are_told_and_not_compared() {
    for count in [2, 7] {
        let runs = runs_of(napping(count), &command());
        assert_eq!(runs.difference, None);
        assert!(runs.headline.contains("too few"), "{}", runs.headline);
    }
    let runs = runs_of(napping(1), &command());
    assert!(runs.headline.starts_with("One run took 100 ms"), "{}", runs.headline);
    let runs = runs_of(Vec::new(), &command());
    assert_eq!((runs.count, runs.response), (0, None));
    assert_eq!(runs.headline, "No run both began and ended within the window.");
}

#[test]
fn where_there_are_many_runs_the_slowest_tenth_is_compared() {
    let runs = runs_of(napping(200), &command());
    let difference = runs.difference.unwrap();
    assert_eq!((difference.slow_runs, difference.fast_runs), (20, 100));
    assert_eq!(difference.rows.first().map(|row| row.above_all_fast), Some(20));
    assert!(runs.response.unwrap().p95.is_some_and(|p95| close(p95, 1.1)));
}

#[test]
fn what_children_did_one_after_the_other_stands_in_place_of_the_wait_for_them() {
    let shell = run(100, STARTER, 0.0, vec![part(C::CpuUser, 0.1), part(C::WaitChild, 0.9)]);
    let first = run(101, 100, 0.1, vec![part(C::IoBlockRead, 0.5)]);
    let second = run(102, 100, 0.6, vec![part(C::WaitChild, 0.38)]);
    let within = run(103, 102, 0.6, vec![part(C::CpuSys, 0.3)]);
    let runs = runs_of(vec![shell, first, second, within], &command());
    let run = runs.slowest.first().unwrap();
    assert_eq!(runs.count, 1);
    let seconds = |id: C| run.parts.iter().find(|part| part.0 == id).map_or(0.0, |part| part.1);
    assert!(close(seconds(C::IoBlockRead), 0.5) && close(seconds(C::CpuSys), 0.3), "{run:?}");
    assert!(close(seconds(C::WaitChild), 0.02 + 0.08), "what no child accounts for stays a wait: {run:?}");
    assert!(close(run.parts.iter().map(|part| part.1).sum(), 1.0) && runs.limits.is_empty());
}

#[test]
fn children_that_run_side_by_side_stay_a_wait_and_are_told() {
    let shell = run(100, STARTER, 0.0, vec![part(C::CpuUser, 0.1), part(C::WaitChild, 0.9)]);
    let one = run(101, 100, 0.1, vec![part(C::CpuUser, 0.8)]);
    let other = run(102, 100, 0.1, vec![part(C::IpcPipe, 0.85)]);
    let runs = runs_of(vec![shell, one, other], &command());
    let parts = &runs.slowest.first().unwrap().parts;
    assert!(matches!(parts.as_slice(), [(C::WaitChild, wait), (C::CpuUser, _)] if close(*wait, 0.9)), "{parts:?}");
    assert!(runs.limits.iter().any(|limit| limit.contains("side by side")), "{:?}", runs.limits);
}

#[test]
fn a_child_whose_output_is_read_from_a_pipe_is_followed_too_and_one_beside_its_parent_is_not() {
    let reads = run(100, STARTER, 0.0, vec![part(C::CpuUser, 0.1), part(C::IpcPipe, 0.5), part(C::WaitChild, 0.01)]);
    let read_from = run(101, 100, 0.1, vec![part(C::IoBlockRead, 0.5)]);
    let works = run(200, STARTER, 2.0, vec![part(C::CpuUser, 0.9), part(C::WaitChild, 0.1)]);
    let beside = run(201, 200, 2.0, vec![part(C::IoBlockRead, 0.9)]);
    let runs = runs_of(vec![reads, read_from, works, beside], &command());
    let parts = |number: u64| {
        let found = runs.slowest.iter().find(|run| run.number == number).unwrap();
        assert!(close(found.parts.iter().map(|part| part.1).sum(), found.seconds), "{found:?}");
        found.parts.iter().map(|part| part.0).collect::<Vec<_>>()
    };
    assert_eq!(parts(1).first(), Some(&C::IoBlockRead));
    assert_eq!(parts(2), [C::CpuUser, C::WaitChild]);
    assert!(runs.limits.iter().any(|limit| limit.starts_with("In 1 of 2 runs")), "{:?}", runs.limits);
}

#[test]
fn children_that_began_while_their_parent_had_no_cpu_count_in_proportion_so_that_the_sum_stays_right() {
    let shell = run(100, STARTER, 0.0, vec![part(C::RunqPreempt, 0.2), part(C::WaitChild, 0.8)]);
    let child = run(101, 100, 0.05, vec![part(C::CpuUser, 0.9)]);
    let runs = runs_of(vec![shell, child], &command());
    let parts = &runs.slowest.first().unwrap().parts;
    assert!(
        matches!(parts.as_slice(), [(C::CpuUser, cpu), (C::RunqPreempt, queue)] if close(*cpu, 0.8) && close(*queue, 0.2)),
        "{parts:?}"
    );
}

#[test]
fn runs_by_name_are_those_that_no_other_run_started_and_that_are_seen_whole() {
    let server = thread(1, 1, 100.0, vec![part(C::WaitPoll, 100.0)]);
    let served = run(2, 1, 5.0, vec![part(C::CpuUser, 1.0)]);
    let subshell = run(3, 2, 5.5, vec![part(C::CpuUser, 0.1)]);
    let other = run(4, 999, 50.0, vec![part(C::CpuUser, 2.0)]);
    let cut = Thread { died: false, ..run(5, 999, 99.0, vec![part(C::CpuUser, 1.0)]) };
    let runs = runs_of(vec![server, served, subshell, other, cut], &named());
    assert_eq!((runs.count, runs.open), (2, 2));
    assert_eq!(runs.slowest.iter().map(|run| run.pid).collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn the_forecast_and_the_goal_are_about_the_mean_run() {
    let profile = profile_of(napping(20), &command(), Some(0.2));
    assert_eq!(profile.runs.as_ref().unwrap().within_goal, Some(16));
    assert!(close(profile.forecast.response_seconds, 0.3));
    let sleep = profile.forecast.rows.iter().find(|row| row.id == C::WaitSleep).unwrap();
    assert!(close(sleep.seconds, 0.2) && close(sleep.vanished[0], 0.1), "{sleep:?}");
    let goal = profile.forecast.goal.as_ref().unwrap();
    assert!(goal.reach != Reach::Met && goal.reach != Reach::Unknown && close(goal.to_save_seconds, 0.1), "{goal:?}");
    assert!(profile.forecast.basis.contains("the mean of 20 runs"), "{}", profile.forecast.basis);
    assert!(profile.answer.headline.starts_with("20 runs took"), "{}", profile.answer.headline);
    assert_eq!(profile.conversation.now_seconds.map(|now| close(now, 0.3)), Some(true));
}

#[test]
fn an_account_that_cannot_tell_runs_apart_says_so_and_claims_no_distribution() {
    let mut sampled = ledger(100.0, napping(20));
    sampled.level = Level::L1;
    let target = command();
    let profile = profile(Input {
        ledger: &sampled,
        source: "task_states",
        refused: Vec::new(),
        window: 0,
        window_seconds: 10.0,
        suspended_seconds: 0.0,
        target: &target,
        conversation: Conversation::default(),
        cpus: None,
        observing: 0.0,
        advice: super::tests::book(),
    });
    let runs = profile.runs.as_ref().unwrap();
    assert_eq!((runs.count, runs.response, runs.histogram.len()), (0, None, 0));
    assert!(profile.answer.limits.iter().any(|limit| limit.contains("level L3")), "{:?}", profile.answer.limits);
    assert_eq!(profile.conversation.now_seconds, None, "the window is not one execution");
}

#[test]
fn threads_that_are_summed_up_are_told_since_they_are_the_shortest() {
    let mut threads = napping(20);
    threads.push(Thread { stands_for: 500, ..thread(0, 0, 3.0, vec![part(C::CpuUser, 3.0)]) });
    let runs = runs_of(threads, &command());
    assert!(runs.limits.iter().any(|limit| limit.starts_with("500 threads")), "{:?}", runs.limits);
}

#[test]
fn absurd_and_circular_ledgers_give_finite_figures() {
    let odd = |pid: u32, parent: u32, seconds: f64| Thread {
        parent,
        born: true,
        died: true,
        ..thread(pid, pid, seconds, vec![part(C::WaitChild, seconds), part(C::CpuUser, f64::NAN)])
    };
    let mut threads: Vec<Thread> =
        [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300].iter().map(|seconds| odd(7, 7, *seconds)).collect();
    threads.extend((0..40).map(|at| odd(20 + at % 3, STARTER, f64::from(at))));
    threads.extend((0..40).map(|at| odd(20 + at % 3, 20 + (at + 1) % 3, f64::from(at))));
    for target in [command(), named()] {
        let runs = runs_of(threads.clone(), &target);
        let figures = runs.components.iter().flat_map(|row| [row.share, row.spread.mean, row.spread.max]);
        assert!(figures.chain(runs.response.map(|response| response.mean)).all(f64::is_finite), "{runs:?}");
    }
}

#[test]
fn between_marks_each_record_is_a_run_whoever_its_parent_is_and_what_is_under_way_is_none() {
    let marks =
        Some(rdiag_model::ledger::Marks { from: "app:begin".into(), to: "app:end".into(), ..Default::default() });
    let target = Target { pids: vec![7], each: true, marks, ..Target::default() };
    let request = |number: u32| {
        let parts = vec![part(C::CpuUser, if number % 5 == 4 { 1.0 } else { 0.1 })];
        Thread { tid: 8, parent: 7, ..run(7, 7, f64::from(number) * 2.0, parts) }
    };
    let mut requests: Vec<Thread> = (0..20).map(request).collect();
    requests.push(Thread { died: false, ..request(20) });
    requests.push(Thread { tid: 0, pid: 0, stands_for: 30, comm: "(others)".into(), ..request(21) });
    let profile = profile_of(requests.clone(), &target, None);
    let runs = profile.runs.unwrap();
    assert_eq!((runs.count, runs.open), (20, 1));
    assert!(close(runs.response.unwrap().mean, 0.28) && runs.between.is_some());
    assert!(runs.limits.iter().any(|limit| limit.contains("30 more were seen")), "{:?}", runs.limits);
    assert_eq!(profile.subject, "the runs of process 7 (task7) from app:begin to app:end");
    let mut sampled = ledger(100.0, requests);
    sampled.level = Level::L1;
    assert!(!super::answer::subject(&Account::new(&sampled, false), &target, Level::L1).contains("app:begin"));
}

#[test]
fn nobody_is_idle_within_a_request() {
    let marks =
        Some(rdiag_model::ledger::Marks { from: "app:begin".into(), to: "app:end".into(), ..Default::default() });
    let target = Target { pids: vec![7], each: true, marks, ..Target::default() };
    let threads = vec![run(7, 7, 0.0, vec![part(C::WaitSleep, 1.0)]), run(7, 7, 2.0, vec![part(C::WaitSleep, 3.0)])];
    let within = profile_of(threads.clone(), &target, None);
    assert!(within.components.iter().all(|row| !row.idle && row.busy_share == Some(row.share)), "{within:#?}");
    assert_eq!((within.busy.seconds, within.busy.idle_seconds), (within.task_seconds, 0.0));
    assert!(within.states.iter().all(|row| (row.state.word() == "sleeping") == (row.seconds > 0.0)), "{within:#?}");
    let window = profile_of(threads, &Target { pids: vec![7], ..Target::default() }, None);
    assert!(window.components[0].idle && window.busy.seconds == 0.0);
}

/// So many runs, with the goal that this share of them takes no longer than half a second.
fn with_percentile(count: u32, share: f64) -> (Profile, Reach) {
    let told = Conversation { goal_seconds: Some(0.5), goal_share: Some(share), ..Conversation::default() };
    let profile = profile_told(napping(count), &command(), told);
    let reach = profile.forecast.goal.as_ref().unwrap().reach;
    (profile, reach)
}

#[test]
fn a_percentile_is_missed_by_the_runs_beyond_it_and_met_by_their_absence() {
    // Of 200 runs 40 take 1.1 s.
    let (profile, reach) = with_percentile(200, 0.9);
    let of = profile.runs.as_ref().unwrap().percentile.clone().unwrap();
    assert_eq!((of.missed, of.met, of.now.map(|now| close(now, 1.1))), (40, Some(false), Some(true)));
    assert_eq!((of.without.as_slice(), reach), (&[(C::WaitSleep, 0)][..], Reach::One));
    let words = &profile.forecast.goal.as_ref().unwrap().words;
    assert_eq!(
        words,
        "The goal p90 ≤ 500 ms is missed: 40 of 200 runs (20.0%) took longer, and 10.0% may (p90 is 1.10 s). If voluntary sleep \
         (nanosleep, timer) took no longer than in the faster half, none would."
    );
    assert!(
        profile.answer.asked.as_ref().unwrap().ends_with("; the goal is p90 ≤ 500 ms"),
        "{:?}",
        profile.answer.asked
    );
    let (profile, reach) = with_percentile(200, 0.8);
    assert_eq!(reach, Reach::Met, "a fifth may take longer");
    assert!(profile.forecast.goal.unwrap().words.starts_with("The goal p80 ≤ 500 ms is met: 40 of 200 runs"));
}

#[test]
fn few_runs_say_of_a_percentile_only_that_it_is_missed() {
    // 4 of 20 take longer: too many where one in a hundred may, and not where every tenth may.
    let (profile, reach) = with_percentile(20, 0.99);
    let of = profile.runs.as_ref().unwrap().percentile.clone().unwrap();
    assert_eq!((of.now, of.met, reach), (None, Some(false), Reach::One));
    let (profile, reach) = with_percentile(20, 0.9);
    assert_eq!(reach, Reach::Unknown);
    let words = profile.forecast.goal.unwrap().words;
    assert!(
        words.contains("not known: 4 of 20 runs (20.0%) took longer") && words.contains("takes 100 runs"),
        "{words}"
    );
    let (_, reach) = with_percentile(4, 0.99);
    assert_eq!(reach, Reach::Unknown, "none took longer, and these are few");
}

#[test]
fn what_several_components_add_to_is_not_put_down_to_one() {
    let slow = |number: u32| {
        let parts = vec![part(C::CpuUser, 0.1), part(C::WaitSleep, 0.4), part(C::IoBlockRead, 0.4)];
        run(100 + number, STARTER, f64::from(number) * 2.0, parts)
    };
    let fast = |number: u32| run(100 + number, STARTER, f64::from(number) * 2.0, vec![part(C::CpuUser, 0.1)]);
    let threads = (0..100).map(|number| if number % 4 == 3 { slow(number) } else { fast(number) }).collect();
    let told = Conversation { goal_seconds: Some(0.3), goal_share: Some(0.9), ..Conversation::default() };
    let profile = profile_told(threads, &command(), told);
    let goal = profile.forecast.goal.unwrap();
    assert!(goal.reach == Reach::Several && goal.words.contains("No single component"), "{}", goal.words);
}

#[test]
fn what_grew_by_less_than_what_is_worth_a_mention_has_no_row() {
    let rows_with = |waited: f64| {
        let one = |number: u32| {
            let mut parts = vec![part(C::CpuUser, 0.1)];
            if number >= 6 {
                parts.extend([part(C::WaitSleep, 1.0), part(C::IpcPipe, waited)]);
            }
            run(100 + number, STARTER, f64::from(number) * 2.0, parts)
        };
        runs_of((0..8).map(one).collect(), &command()).difference.unwrap().rows.len()
    };
    assert_eq!((rows_with(0.0105), rows_with(0.0095)), (2, 1));
}
