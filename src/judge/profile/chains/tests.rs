//! Chains from links whose truth is known.

use super::*;
use crate::profile::testing::{ledger, part, thread};
use crate::profile::tests::book;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Link, Thread, WakerEdge};

fn by(tid: u32) -> Waker {
    Waker { kind: WakerKind::Thread, pid: tid, tid, comm: format!("task{tid}") }
}

fn disk() -> Waker {
    Waker { kind: WakerKind::Interrupt, comm: "disk".into(), ..Waker::default() }
}

fn link(tid: u32, component: C, waker: Waker, seconds: f64) -> Link {
    let edge = WakerEdge { component, waker, seconds, count: 10 };
    Link { tid, pid: tid, comm: format!("task{tid}"), edge }
}

/// Threads of ten seconds each that ran for the rest of the time.
fn web(links: Vec<Link>) -> Ledger {
    let mut tids: Vec<u32> = links.iter().map(|link| link.tid).collect();
    tids.dedup();
    let of = |tid: u32| {
        let waits = links.iter().filter(|link| link.tid == tid);
        let mut parts: Vec<_> = waits.map(|link| part(link.edge.component, link.edge.seconds)).collect();
        let waited: f64 = parts.iter().map(|part| part.seconds).sum();
        parts.push(part(C::CpuUser, 10.0 - waited));
        thread(tid, tid, 10.0, parts)
    };
    let threads = tids.iter().map(|tid| of(*tid)).collect();
    Ledger { links, ..ledger(10.0, threads) }
}

fn of(ledger: &Ledger) -> Vec<Chain> {
    chains(ledger, &Account::new(ledger, false), &Target::default(), book().mentioned.chain)
}

fn names(chain: &Chain) -> Vec<(&str, &str)> {
    chain.links.iter().map(|link| (link.waiter.as_str(), link.waker.as_str())).collect()
}

#[test]
fn what_the_waker_waited_for_is_the_next_link_with_what_must_and_can_have_been_at_the_same_time() {
    let ledger = web(vec![
        link(1, C::IpcPipe, by(2), 8.0),
        link(2, C::IoBlockRead, disk(), 7.0),
        link(2, C::WaitFutex, by(1), 1.0),
    ]);
    let chains = of(&ledger);
    let first = &chains[0];
    let pipe = ("task1 (thread 1)", "task2 (thread 2)");
    assert_eq!(names(first), [pipe, ("task2 (thread 2)", "interrupt disk")]);
    assert_eq!(first.links[1].together, [5.0, 7.0], "8 s and 7 s fit into 10 s with 5 s in common at least");
    assert_eq!((first.links[1].share, first.end.as_str()), (0.7, ""));
    // The disk has its chain already; that the second waited for the first is a chain of its own.
    assert_eq!(names(&chains[1]), [(pipe.1, pipe.0)]);
    assert_eq!(chains.len(), 2);
}

#[test]
fn two_that_take_turns_are_not_behind_each_other() {
    let chains = of(&web(vec![link(1, C::IpcPipe, by(2), 5.0), link(2, C::IpcPipe, by(1), 4.0)]));
    assert_eq!(chains.len(), 2);
    assert!(chains.iter().all(|chain| chain.links.len() == 1), "{chains:?}");
    assert_eq!(chains[0].end, "task2 (thread 2) itself: user CPU 60.0%, pipe 40.0%.");
}

#[test]
fn a_ring_of_threads_ends_and_no_chain_is_longer_than_five() {
    let ring = |length: u32| (0..length).map(|at| link(at + 1, C::LockUser, by((at + 1) % length + 1), 9.0)).collect();
    assert_eq!(of(&web(ring(3)))[0].links.len(), 2);
    let chain = &of(&web(ring(9)))[0];
    assert_eq!(chain.links.len(), 5);
    let least: Vec<f64> = chain.links.iter().map(|link| link.together[0].round()).collect();
    assert_eq!(least, [9.0, 8.0, 7.0, 6.0, 5.0]);
    assert!(chain.links.iter().all(|link| link.together[0] <= link.together[1] && link.together[1] <= 9.0));
}

#[test]
fn many_threads_of_one_name_are_one_party_of_which_nothing_is_known_side_by_side() {
    let child = |at: u32| Link { comm: "ls".into(), ..link(100 + at, C::IoBlockMeta, disk(), 0.04) };
    let ended = |at: u32| Waker { comm: "ls".into(), ..by(100 + at) };
    let mut links: Vec<Link> = (0..100).map(|at| link(1, C::WaitChild, ended(at), 0.09)).collect();
    links.extend((0..100).map(child));
    let mut threads = vec![thread(1, 1, 10.0, vec![part(C::WaitChild, 9.0)])];
    let life =
        |at: u32| Thread { comm: "ls".into(), ..thread(100 + at, 100 + at, 0.09, vec![part(C::IoBlockMeta, 0.04)]) };
    threads.extend((0..100).map(life));
    let chains = of(&Ledger { links, ..ledger(10.0, threads) });
    let all = ("task1 (thread 1)", "ls (100 threads)");
    assert_eq!(names(&chains[0]), [all, ("ls (100 threads)", "interrupt disk")]);
    let [wait, disk] = chains[0].links.as_slice() else { panic!("{chains:?}") };
    assert!((wait.seconds - 9.0).abs() < 1e-9 && wait.count == 1000, "{wait:?}");
    assert_eq!(disk.together[0], 0.0);
    assert!((disk.together[1] - 4.0).abs() < 1e-9);
}

#[test]
fn a_waker_that_was_not_observed_is_said_to_be_so_and_short_waits_begin_no_chain() {
    let mut ledger = web(vec![link(1, C::IpcUnix, by(2), 6.0), link(1, C::IpcPipe, by(3), 0.1)]);
    ledger.threads.retain(|thread| thread.tid == 1);
    let chains = of(&ledger);
    assert_eq!(chains.len(), 1);
    assert_eq!(chains[0].end, "What task2 (thread 2) did meanwhile was not observed.");
}

#[test]
fn the_first_thread_of_a_command_comes_before_those_that_wait_longer() {
    let ledger = web(vec![link(7, C::WaitPoll, disk(), 9.0), link(1, C::IpcPipe, by(9), 2.0)]);
    let target = Target { pids: vec![1], command: Some("make".into()), ..Target::default() };
    assert_eq!(
        chains(&ledger, &Account::new(&ledger, false), &target, book().mentioned.chain)[0].links[0].waiter,
        "task1 (thread 1)"
    );
}

#[test]
fn links_of_strangers_give_no_absurd_figures() {
    for seconds in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
        let mut ledger = web(vec![link(1, C::IpcPipe, by(2), 1.0), link(0, C::IpcPipe, by(0), 1.0)]);
        ledger.links.iter_mut().for_each(|link| link.edge.seconds = seconds);
        for ended in [110.0, f64::NAN, 0.0] {
            ledger.ended = ended;
            assert_eq!(of(&ledger), []);
        }
    }
}
