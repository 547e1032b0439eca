//! Which of the children that ran side by side held up their parent.

use super::forecast_tests::command;
use super::testing::{ledger, part, run};
use super::tests::close;
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Link, Part, Thread, Waker};

fn child(pid: u32, at: f64, parts: Vec<Part>) -> Thread {
    Thread { comm: format!("child{pid}"), ..run(pid, 1, at, parts) }
}

/// Waits of one process that another ended.
fn ended([waiter, by]: [u32; 2], component: C, seconds: f64) -> Link {
    let waker = Waker { kind: WakerKind::Thread, pid: by, tid: by, comm: format!("child{by}") };
    let edge = WakerEdge { component, waker, seconds, count: 1 };
    Link { tid: waiter, pid: waiter, comm: "task".into(), edge }
}

fn profile_of(threads: Vec<Thread>, links: Vec<Link>) -> Profile {
    command(&Ledger { links, ..ledger(1.0, threads) }, None)
}

fn seconds(profile: &Profile, id: C) -> f64 {
    profile.forecast.rows.iter().find(|row| row.id == id).map_or(0.0, |row| row.seconds)
}

fn vanished(profile: &Profile, id: C) -> [f64; 2] {
    profile.forecast.rows.iter().find(|row| row.id == id).unwrap().vanished
}

fn is(bounds: [f64; 2], wanted: [f64; 2]) -> bool {
    close(bounds[0], wanted[0]) && close(bounds[1], wanted[1])
}

/// Three jobs of a `make -j2`, the third in the place of the second; their ends ended waits in this component.
fn jobs(component: C, by_jobs: f64) -> Profile {
    let make = run(1, 0, 0.0, vec![part(C::WaitChild, 0.3), part(component, 0.7)]);
    let first = child(2, 0.0, vec![part(C::CpuUser, 0.7)]);
    let second = child(3, 0.0, vec![part(C::CpuSys, 0.4)]);
    let third = child(4, 0.4, vec![part(C::CpuUser, 0.1), part(C::IoBlockRead, 0.5)]);
    let links = vec![ended([1, 3], component, by_jobs / 2.0), ended([1, 2], component, by_jobs / 2.0)];
    profile_of(vec![make, first, second, third], links)
}

#[test]
fn jobs_are_followed_from_the_last_one_to_the_one_whose_end_let_it_begin() {
    let profile = jobs(C::WaitPoll, 0.7);
    assert!(close(seconds(&profile, C::CpuSys), 0.4) && close(seconds(&profile, C::IoBlockRead), 0.5));
    assert!(close(seconds(&profile, C::CpuUser), 0.1), "the first one ran beside this way");
    assert!(
        close(seconds(&profile, C::WaitPoll) + seconds(&profile, C::WaitChild), 0.0),
        "nothing is left of the waits"
    );
    assert_eq!(profile.forecast.children, ["child4", "child3"]);
    let headline = &profile.answer.headline;
    assert!(headline.contains("what that waited for (child4, child3), is waiting for disk reads"), "{headline}");
    // Without its reads the first job is the last one.
    assert!(is(vanished(&profile, C::IoBlockRead), [0.5, 0.7]), "{:?}", vanished(&profile, C::IoBlockRead));
}

#[test]
fn waits_for_events_are_waits_for_children_if_these_ended_nearly_all_of_them() {
    assert!(close(seconds(&jobs(C::WaitSignal, 0.64), C::WaitSignal), 0.0));
    let other = jobs(C::WaitPoll, 0.62);
    assert!(close(seconds(&other, C::WaitPoll), 0.7) && close(seconds(&other, C::WaitChild), 0.3));
    assert!(other.forecast.children.is_empty());
    assert!(close(seconds(&jobs(C::NetRecv, 0.7), C::NetRecv), 0.7), "no wait that the end of a child ends");
}

#[test]
fn what_all_of_them_do_is_saved_for_sure_and_what_one_does_as_far_as_the_others_allow() {
    let shell = || run(1, 0, 0.0, vec![part(C::WaitChild, 1.0)]);
    let both = |one: Vec<Part>, other: Vec<Part>| {
        profile_of(vec![shell(), child(2, 0.0, one), child(3, 0.0, other)], Vec::new())
    };
    let alike = both(vec![part(C::CpuUser, 1.0)], vec![part(C::CpuUser, 0.9)]);
    assert!(is(vanished(&alike, C::CpuUser), [0.0, 0.0]), "{:?}", vanished(&alike, C::CpuUser));
    let unlike = both(vec![part(C::CpuUser, 1.0)], vec![part(C::NetRecv, 0.9)]);
    assert!(is(vanished(&unlike, C::CpuUser), [0.0, 0.9]), "{:?}", vanished(&unlike, C::CpuUser));
    assert!(unlike.answer.headline.contains("is user CPU time"), "{}", unlike.answer.headline);
}

#[test]
fn a_child_that_outlives_its_parent_held_nothing_up() {
    let shell = run(1, 0, 0.0, vec![part(C::WaitChild, 0.5)]);
    let daemon = Thread { died: false, ..child(3, 0.0, vec![part(C::WaitSleep, 1.0)]) };
    let with = |own: Vec<Part>| profile_of(vec![shell.clone(), child(2, 0.0, own), daemon.clone()], Vec::new());
    let ended = with(vec![part(C::CpuUser, 0.4)]);
    assert!(close(seconds(&ended, C::CpuUser), 0.4) && close(seconds(&ended, C::WaitChild), 0.1));
    let neither = with(vec![part(C::CpuUser, 1.0)]);
    assert!(close(seconds(&neither, C::WaitChild), 0.5) && neither.forecast.children.is_empty());
}

/// A shell that waits for `producer | consumer`, of which the latter waited so long for the former, and that for the latter.
fn pipeline(waited: f64, producer: Vec<Part>, back: f64) -> Profile {
    let shell = run(1, 0, 0.0, vec![part(C::WaitChild, 1.0)]);
    let consumer = child(3, 0.0, vec![part(C::IpcPipe, waited), part(C::CpuSys, 1.0 - waited)]);
    let links = vec![ended([3, 2], C::IpcPipe, waited), ended([2, 3], C::IpcPipe, back)];
    profile_of(vec![shell, child(2, 0.0, producer), consumer], links)
}

#[test]
fn a_pipeline_is_looked_through_to_what_its_slowest_process_did() {
    let slow = pipeline(0.8, vec![part(C::CpuUser, 0.9), part(C::IoBlockRead, 0.1)], 0.0);
    assert!(close(seconds(&slow, C::CpuUser), 0.72) && close(seconds(&slow, C::IoBlockRead), 0.08));
    assert!(close(seconds(&slow, C::CpuSys), 0.2) && close(seconds(&slow, C::IpcPipe), 0.0));
    assert!(is(vanished(&slow, C::CpuUser), [0.28, 1.0]), "{:?}", vanished(&slow, C::CpuUser));
    assert_eq!(slow.forecast.children, ["child2", "child3"]);
    // While one of two waits for the other, that one does not wait for it.
    let turns = pipeline(0.6, vec![part(C::CpuUser, 0.6), part(C::IpcPipe, 0.4)], 0.4);
    assert!(close(seconds(&turns, C::CpuUser), 0.6) && close(seconds(&turns, C::CpuSys), 0.4));
    // What the producer waits for in turn is not known: it stays in its time.
    let upstream = pipeline(0.8, vec![part(C::IpcPipe, 1.0)], 0.0);
    assert!(close(seconds(&upstream, C::IpcPipe), 0.8));
}

#[test]
fn a_wait_for_less_than_half_of_what_the_other_process_did_stays_one() {
    let of = |waited| pipeline(waited, vec![part(C::CpuUser, 1.0)], 0.0);
    assert!(close(seconds(&of(0.51), C::CpuUser), 0.51));
    assert!(close(seconds(&of(0.49), C::CpuUser), 0.0) && close(seconds(&of(0.49), C::IpcPipe), 0.49));
}

#[test]
fn a_server_that_is_killed_once_its_client_is_done_is_not_what_the_shell_waited_for() {
    let shell = run(1, 0, 0.0, vec![part(C::WaitChild, 1.0)]);
    let client = child(2, 0.0, vec![part(C::NetRecv, 0.98)]);
    let server = child(3, 0.0, vec![part(C::NetAccept, 1.0)]);
    let held = |by_client: f64, by_server: f64| {
        let links = vec![ended([1, 2], C::WaitChild, by_client), ended([1, 3], C::WaitChild, by_server)];
        profile_of(vec![shell.clone(), client.clone(), server.clone()], links)
    };
    let killed = held(0.98, 0.02);
    assert!(killed.answer.headline.contains("child2"), "{}", killed.answer.headline);
    assert!(close(seconds(&killed, C::NetAccept), 0.0) && close(seconds(&killed, C::NetRecv), 0.98));
    // One that it waits for as well is on the way.
    let waited = held(0.6, 0.4);
    assert!(waited.answer.headline.contains("child3"), "{}", waited.answer.headline);
}

#[test]
fn a_server_that_waits_to_be_ended_held_its_shell_up_from_then_on_only() {
    let shell = run(1, 0, 0.0, vec![part(C::WaitChild, 1.0)]);
    let clients: Vec<Thread> =
        (0..9).map(|at| child(10 + at, f64::from(at) * 0.1, vec![part(C::CpuUser, 0.1)])).collect();
    let server = child(3, 0.0, vec![part(C::WaitSignal, 0.9), part(C::CpuSys, 0.1)]);
    let woken = |seconds: f64| {
        let links = vec![ended([1, 3], C::WaitChild, 0.1), ended([3, 1], C::WaitSignal, seconds)];
        profile_of([vec![shell.clone(), server.clone()], clients.clone()].concat(), links)
    };
    let killed = woken(0.9);
    assert!(close(seconds(&killed, C::CpuUser), 0.9), "{:?}", killed.forecast.rows);
    assert!(
        close(seconds(&killed, C::WaitSignal), 0.0) && close(seconds(&killed, C::CpuSys), 0.1),
        "and what it did then"
    );
    assert!(killed.answer.headline.contains("is user CPU time"), "{}", killed.answer.headline);
    let by_itself = woken(0.04);
    assert!(close(seconds(&by_itself, C::WaitSignal), 0.9), "{:?}", by_itself.forecast.rows);
}

#[test]
fn a_wait_for_the_other_end_of_a_socket_is_looked_through_like_one_for_a_pipe() {
    for component in [C::IpcUnix, C::WaitPoll] {
        let shell = run(1, 0, 0.0, vec![part(C::WaitChild, 1.0)]);
        let client = child(2, 0.0, vec![part(component, 0.9), part(C::CpuSys, 0.1)]);
        let server = child(3, 0.0, vec![part(C::WaitPoll, 0.1), part(C::CpuUser, 0.9)]);
        let links = vec![ended([2, 3], component, 0.9), ended([3, 2], C::WaitPoll, 0.1)];
        let profile = profile_of(vec![shell, client, Thread { ended: 0.99, ..server }], links);
        assert!(close(seconds(&profile, C::CpuUser), 0.9), "{component:?} {:?}", profile.forecast.rows);
        assert!(close(seconds(&profile, component), 0.0) && close(seconds(&profile, C::CpuSys), 0.1));
    }
}
