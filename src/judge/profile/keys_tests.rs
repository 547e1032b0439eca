use super::testing::{ledger, part, run};
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Marks, Thread};
use rdiag_model::runs::Runs;

/// The runs of requests with these keys and seconds, of which what is beyond a tenth of a second is sleep.
fn runs_of(requests: &[(Option<&str>, f64)], goal: Option<f64>) -> Runs {
    let request = |(number, (key, seconds)): (usize, &(Option<&str>, f64))| {
        let mut parts = vec![part(C::CpuUser, seconds.min(0.1))];
        if *seconds > 0.1 {
            parts.push(part(C::WaitSleep, seconds - 0.1));
        }
        Thread { tid: 8, key: key.map(str::to_owned), ..run(7, 7, number as f64 * 2.0, parts) }
    };
    let ledger = ledger(100.0, requests.iter().enumerate().map(request).collect());
    let marks = Marks { key: Some("arg1".into()), ..Marks::default() };
    let target = Target { pids: vec![7], each: true, marks: Some(marks), ..Target::default() };
    let conversation = Conversation { goal_seconds: goal, ..Conversation::default() };
    let profile = profile(Input {
        ledger: &ledger,
        source: "response",
        refused: Vec::new(),
        window: 0,
        window_seconds: 10.0,
        suspended_seconds: 0.0,
        target: &target,
        conversation,
        cpus: None,
        observing: 0.0,
        advice: super::tests::book(),
    });
    profile.runs.unwrap()
}

/// So many of a key, each of these seconds.
fn of(key: &'static str, count: usize, seconds: f64) -> Vec<(Option<&'static str>, f64)> {
    (0..count).map(|at| (Some(key), seconds + at as f64 * 1e-6)).collect()
}

#[test]
fn the_key_that_has_the_slow_runs_comes_first_and_is_named() {
    let requests = [of("fast", 30, 0.1), of("slow", 10, 0.6)].concat();
    let keyed = runs_of(&requests, Some(0.2)).keyed.unwrap();
    assert_eq!((keyed.field.as_str(), keyed.count, keyed.unread), ("arg1", 2, 0));
    let [slow, fast] = &keyed.rows[..] else { panic!("{keyed:#?}") };
    assert_eq!((slow.key.as_str(), slow.runs, slow.slow, slow.missed), ("slow", 10, 10, Some(10)));
    assert_eq!((fast.key.as_str(), fast.runs, fast.slow, fast.missed), ("fast", 30, 0, Some(0)));
    assert!((slow.share - 6.0 / 9.0).abs() < 1e-3 && (slow.share + fast.share - 1.0).abs() < 1e-9);
    assert_eq!(slow.parts.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [C::WaitSleep, C::CpuUser]);
    assert!(slow.growth.is_none(), "its own take about the same time");
    assert_eq!(keyed.headline, "The key \"slow\" has 10 of the 10 slowest runs, and 10 (25.0%) of all 40.");
}

#[test]
fn a_key_that_has_no_more_slow_runs_than_chance_gives_it_is_not_named() {
    // Every key has its share of the slow ones.
    let mut requests = Vec::new();
    for at in 0..40_usize {
        let key = if at % 2 == 0 { "a" } else { "b" };
        requests.push((Some(key), if at % 8 < 2 { 0.5 } else { 0.1 + at as f64 * 1e-6 }));
    }
    let runs = runs_of(&requests, None);
    let keyed = runs.keyed.unwrap();
    assert_eq!(keyed.headline, "");
    assert!(!runs.headline.contains("key"), "{}", runs.headline);
    assert!(keyed.rows.iter().all(|row| row.missed.is_none() && row.slow == 5), "{keyed:#?}");
    let growth = keyed.rows[0].growth.as_ref().expect("what its slow ones have more of");
    assert_eq!(growth.id, C::WaitSleep);
    // Two slow runs are too few to say anything of.
    let few = [of("fast", 30, 0.1), of("slow", 2, 0.6)].concat();
    assert_eq!(runs_of(&few, None).keyed.unwrap().headline, "");
    // A single key has all of them, as it must.
    let one = [of("all", 30, 0.1), of("all", 10, 0.6)].concat();
    assert_eq!(runs_of(&one, None).keyed.unwrap().headline, "");
}

#[test]
fn a_key_that_has_one_slow_run_of_a_hundred_is_named_by_these() {
    // Of 400 runs six take long, all of one key; in the slowest tenth they are few.
    let mut requests = [of("a", 350, 0.1), of("b", 44, 0.1)].concat();
    requests.extend(of("b", 6, 0.6));
    let keyed = runs_of(&requests, None).keyed.unwrap();
    assert_eq!(keyed.slow, 8, "the slowest fiftieth");
    assert!(keyed.headline.starts_with("The key \"b\" has 6 of the 8 slowest runs"), "{}", keyed.headline);
}

#[test]
fn keys_that_are_all_different_have_no_rows_and_stand_beside_the_slowest_runs() {
    let names: Vec<String> = (0..20).map(|at| format!("id-{at}")).collect();
    let requests: Vec<_> = names.iter().enumerate().map(|(at, name)| (Some(name.as_str()), 0.1 + at as f64)).collect();
    let runs = runs_of(&requests, None);
    let keyed = runs.keyed.as_ref().unwrap();
    assert_eq!((keyed.count, keyed.rows.len(), keyed.headline.as_str()), (20, 0, ""));
    assert_eq!(runs.slowest[0].key.as_deref(), Some("id-19"));
}

#[test]
fn runs_without_a_key_are_counted_and_in_no_row() {
    let requests = [of("a", 10, 0.1), vec![(None, 0.5); 4]].concat();
    let keyed = runs_of(&requests, None).keyed.unwrap();
    assert_eq!((keyed.count, keyed.unread, keyed.rows.len()), (1, 4, 1));
    assert!(keyed.rows[0].share < 0.4, "of the time of all runs");
    let none = runs_of(&[(None, 0.5); 4], None).keyed.unwrap();
    assert_eq!((none.count, none.unread, none.rows.len()), (0, 4, 0));
}

#[test]
fn only_the_first_of_many_keys_have_rows() {
    let keys: Vec<String> = (0..40).map(|at| format!("k{at:02}")).collect();
    let requests: Vec<_> =
        (0..80).map(|at: usize| (keys.get(at % 40).map(String::as_str), 0.1 + (at % 40) as f64)).collect();
    let keyed = runs_of(&requests, None).keyed.unwrap();
    assert_eq!((keyed.count, keyed.rows.len()), (40, 16));
    assert_eq!((keyed.rows[0].key.as_str(), keyed.rows[0].slow), ("k39", 2));
}
