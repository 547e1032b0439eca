use super::testing::{ledger, part, thread, waits};
use super::tests::{of, plain, row, syncing};
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::Thread;

#[test]
fn next_steps_name_the_task_whatever_its_name_is() {
    let target = Target { comm: Some("a b; rm -rf '$HOME'".into()), ..Target::default() };
    let profile = of(&syncing(), &target, Conversation::default());
    let steps = &row(&profile, C::IoBlockSync).next;
    assert!(
        steps.iter().any(|step| step.action.contains(r"syncsnoop --comm 'a b; rm -rf '\''$HOME'\'''")),
        "{steps:?}"
    );
    assert!(row(&plain(&syncing()), C::IoBlockSync).next[0].action.contains("--pid 1"));
}

/// A command of two threads, one of which has ended.
fn sorting(has_ended: bool, words: &[&str]) -> Profile {
    let end = |thread: Thread| Thread { died: has_ended, ..thread };
    let parts = || vec![part(C::CpuSys, 5.0), part(C::IoBlockSync, 5.0)];
    let helper = Thread { died: true, ..thread(2, 1, 10.0, parts()) };
    let target = Target {
        pids: vec![1],
        command: Some(words.join(" ")),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        ..Target::default()
    };
    of(&ledger(10.0, vec![end(thread(1, 1, 10.0, parts())), helper]), &target, Conversation::default())
}

#[test]
fn a_command_that_has_ended_is_started_again_and_one_that_goes_on_is_looked_at() {
    let actions = |profile: &Profile, id| -> Vec<String> {
        row(profile, id).next.iter().map(|step| step.action.clone()).collect()
    };
    let ended = sorting(true, &["sort", "-o", "a b", "$(rm -rf ~); it's"]);
    let again = r"-- sort -o 'a b' '$(rm -rf ~); it'\''s'";
    let all = actions(&ended, C::CpuSys);
    assert!(all.iter().all(|action| action.ends_with(again)), "{all:?}");
    assert!(actions(&ended, C::IoBlockSync)[1].ends_with(&format!("rdiag run use-method {again}")));
    let goes_on = sorting(false, &["sort", "big"]);
    assert!(actions(&goes_on, C::CpuSys).iter().all(|action| action.ends_with("--pid 1")));
    assert!(actions(&goes_on, C::IoBlockSync)[1].ends_with("rdiag run use-method"));
    // What no line can show, and a recording that does not tell the words.
    for words in [&["sh", "-c", "a\nb"][..], &[]] {
        let all = actions(&sorting(true, words), C::CpuSys);
        assert!(all.iter().all(|action| action.ends_with("-- COMMAND")), "{all:?}");
    }
}

#[test]
fn a_process_that_has_ended_is_looked_for_by_its_name() {
    let ended = Thread { died: true, ..thread(1, 1, 10.0, vec![part(C::CpuSys, 10.0)]) };
    let profile = plain(&ledger(10.0, vec![ended]));
    let all = &row(&profile, C::CpuSys).next;
    assert!(all.iter().all(|step| step.action.ends_with("--comm task1")), "{all:?}");
}

#[test]
fn nobody_is_looked_for_who_took_the_cpus_where_they_were_idle() {
    let next = |cpus: Option<Cpus>, lengths: &[(u64, f64)], pre_empted: f64| {
        let waits = waits(C::RunqWakeup, "", lengths);
        let rest = 10.0 - waits.seconds - pre_empted;
        let parts = vec![waits, part(C::RunqPreempt, pre_empted), part(C::CpuUser, rest)];
        let ledger = ledger(10.0, vec![thread(1, 1, 10.0, parts)]);
        let target = Target { pids: vec![1], ..Target::default() };
        let profile = profile(Input {
            ledger: &ledger,
            source: "response",
            refused: Vec::new(),
            window: 0,
            window_seconds: 10.0,
            suspended_seconds: 0.0,
            target: &target,
            conversation: Conversation::default(),
            cpus,
            observing: 0.0,
            advice: super::tests::book(),
        });
        let words = profile.forecast.rows.iter().find(|row| row.id == C::RunqWakeup).unwrap().words.clone();
        (row(&profile, C::RunqWakeup).next[0].action.clone(), words)
    };
    let (idle, short) = (Some(Cpus { busy: 0.2, busiest: 0.3 }), &[(50_000, 40e-6)][..]);
    let (action, words) = next(idle, short, 0.0);
    assert_eq!(action, "See how long these waits are: rdiag probe runqlat --pid 1");
    assert!(words.contains("only 20.0% busy"), "{words}");
    let competition = |(action, _): (String, String)| action.starts_with("See who else wants the CPUs");
    assert!(competition(next(None, short, 0.0)), "nothing is known of the CPUs");
    assert!(competition(next(Some(Cpus { busy: 0.9, busiest: 0.9 }), short, 0.0)));
    assert!(competition(next(Some(Cpus { busy: 0.2, busiest: 1.0 }), short, 0.0)), "it may be bound to the full one");
    assert!(competition(next(idle, &[(400, 5e-3)], 0.0)), "too long for waking up");
    assert!(competition(next(idle, &[(10_000, 10e-6), (5, 0.4)], 0.0)), "a few long ones");
    assert!(competition(next(idle, short, 1.0)), "others took its CPU");
}

#[test]
fn a_component_has_steps_from_a_twentieth_of_the_time_on() {
    let has_steps = |seconds: f64| {
        let parts = vec![part(C::IoBlockRead, seconds), part(C::CpuUser, 10.0 - seconds)];
        !row(&plain(&ledger(10.0, vec![thread(1, 1, 10.0, parts)])), C::IoBlockRead).next.is_empty()
    };
    assert!(has_steps(0.5) && !has_steps(0.499));
}

#[test]
fn who_waits_for_a_peer_is_sent_to_it_and_to_the_name_server_by_name() {
    let next = |key: &str, id: C| {
        let mut wait = waits(id, key, &[(2, 4.0)]);
        wait.call = "poll".into();
        let profile = plain(&ledger(10.0, vec![thread(1, 1, 10.0, vec![wait, part(C::CpuUser, 2.0)])]));
        (profile.answer.headline.clone(), row(&profile, id).next[0].action.clone())
    };
    let (headline, step) = next("10.0.0.53:53 (DNS)", C::WaitPoll);
    assert!(headline.contains("(mostly waiting for events (poll, epoll, select) [10.0.0.53:53 (DNS)])"), "{headline}");
    assert!(step.contains("dig @10.0.0.53 NAME"), "{step}");
    assert!(next("[2001:db8::53]:53 (DNS) or event", C::NetRecv).1.contains("dig @2001:db8::53 NAME"));
    assert!(next("10.0.0.9:5432 or pipe:[7]", C::WaitPoll).1.contains("dst 10.0.0.9:5432"));
    for other in ["pipe:[7]", "own port 80", "10.0.0.9, own port 80", "x (DNS)"] {
        let (_, step) = next(other, C::WaitPoll);
        assert!(!step.contains("dig") && !step.contains("ss "), "{step}");
    }
    assert!(!next("10.0.0.9:5432", C::NetRecv).1.contains("dst"), "that is said already");
}
