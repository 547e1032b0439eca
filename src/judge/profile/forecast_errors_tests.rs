//! How far forecasts of what was estimated, and of what was observed at a cost, can be trusted.

use super::forecast_tests::{command, why};
use super::testing::{ledger, part, run, thread, waits};
use super::tests::close;
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Accuracy, Part, Thread};
use rdiag_model::profile::{ForecastRow, Reach};

fn row(profile: &Profile, id: C) -> ForecastRow {
    profile.forecast.rows.iter().find(|row| row.id == id).unwrap().clone()
}

/// User time, system time and a disk; the first two are estimates.
fn estimated(seconds: f64, accuracy: Accuracy) -> Vec<Part> {
    let of = |component, seconds| Part { accuracy, ..part(component, seconds) };
    vec![of(C::CpuUser, 4.0 * seconds), of(C::CpuSys, 2.0 * seconds), part(C::IoBlockRead, 4.0 * seconds)]
}

#[test]
fn an_estimate_widens_its_own_forecast_by_two_standard_errors() {
    let profile = |accuracy| command(&ledger(10.0, vec![thread(1, 1, 10.0, estimated(1.0, accuracy))]), None);
    for accuracy in [Accuracy::Estimate(Some(0.3)), Accuracy::Sampled(20, 0.3)] {
        let user = row(&profile(accuracy), C::CpuUser);
        assert!(close(user.vanished[0], 5.4) && close(user.vanished[1], 6.6), "{:?}", user.vanished);
        assert!(close(user.halved[0], 7.7) && close(user.halved[1], 8.3), "{:?}", user.halved);
        let said = why(&profile(accuracy), C::CpuUser);
        assert!(said.contains("It is an estimate: the bounds allow for an error of 600 ms on each side."), "{said}");
        let read = row(&profile(accuracy), C::IoBlockRead);
        assert!(close(read.vanished[0], 6.0) && close(read.vanished[1], 6.0), "{:?}", read.vanished);
    }
    for exact in [Accuracy::Exact, Accuracy::Estimate(None), Accuracy::Estimate(Some(f64::NAN))] {
        let user = row(&profile(exact), C::CpuUser);
        assert!(close(user.vanished[0], 6.0) && close(user.vanished[1], 6.0), "{exact:?}: {:?}", user.vanished);
    }
    // An error of a hundredth of the time is not told: on both sides of it.
    assert!(!why(&profile(Accuracy::Estimate(Some(0.049))), C::CpuUser).contains("estimate"));
    assert!(why(&profile(Accuracy::Estimate(Some(0.051))), C::CpuUser).contains("estimate"));
    // No bound is below nothing, or above the time before.
    let wild = row(&profile(Accuracy::Estimate(Some(1e9))), C::CpuUser);
    assert!(close(wild.vanished[0], 0.0) && close(wild.vanished[1], 10.0), "{:?}", wild.vanished);
}

#[test]
fn errors_of_children_are_added_as_those_of_separate_estimates() {
    let child = |pid, at| run(pid, 1, at, estimated(0.4, Accuracy::Estimate(Some(0.15))));
    let parent = Thread { died: false, ..run(1, 0, 0.0, vec![part(C::WaitChild, 8.0), part(C::CpuSys, 2.0)]) };
    let two = command(&ledger(10.0, vec![parent, child(2, 1.0), child(3, 5.5)]), None);
    let user = row(&two, C::CpuUser);
    let both = 2.0 * (2.0 * 0.15_f64.powi(2)).sqrt();
    assert!(close(user.vanished[0], 10.0 - 3.2 - both), "{:?}", user.vanished);
    assert!(close(user.vanished[1], 10.0 - 3.2 + both), "{:?}", user.vanished);
}

#[test]
fn preemption_may_go_with_the_waits_before_it() {
    let forecast = |wait, preempted: f64| {
        let parts = vec![
            waits(C::IoBlockSync, "vda", &[(300, 0.01)]),
            waits(wait, "", &[(100, 0.01)]),
            waits(C::RunqPreempt, "", &[(100, preempted / 100.0)]),
            part(C::CpuUser, 6.0 - preempted),
        ];
        command(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]), Some(6.0))
    };
    // Three of four wakeups follow a sync.
    let profile = forecast(C::IoBlockRead, 2.0);
    let sync = row(&profile, C::IoBlockSync);
    assert!(close(sync.vanished[0], 5.5) && close(sync.vanished[1], 7.0), "{:?}", sync.vanished);
    assert!(close(sync.halved[0], 7.75) && close(sync.halved[1], 8.5), "{:?}", sync.halved);
    // It may; a goal does not count on it.
    assert_ne!(profile.forecast.goal.unwrap().reach, Reach::One, "3 of the 4 s");
    let sync = row(&forecast(C::IoBlockRead, 0.0), C::IoBlockSync);
    assert!(close(sync.vanished[0], 7.0) && close(sync.vanished[1], 7.0), "{:?}", sync.vanished);
}

/// A command that was observed at so many CPU seconds in each.
fn observed(observing: f64, now: Option<f64>, command: Option<String>) -> Profile {
    let target = Target { pids: vec![1], command, ..Target::default() };
    profile(Input {
        ledger: &ledger(10.0, vec![thread(1, 1, 10.0, estimated(1.0, Accuracy::Exact))]),
        source: "response",
        refused: Vec::new(),
        window: 0,
        window_seconds: 10.0,
        suspended_seconds: 0.0,
        target: &target,
        conversation: Conversation { now_seconds: now, ..Conversation::default() },
        cpus: None,
        observing,
        advice: super::tests::book(),
    })
}

#[test]
fn the_lower_bounds_are_without_what_observing_took() {
    let sort = || Some("sort big".to_owned());
    let profile = observed(0.1, None, sort());
    let (user, system) = (row(&profile, C::CpuUser), row(&profile, C::CpuSys));
    assert!(close(user.vanished[0], 5.0) && close(user.vanished[1], 6.0), "{:?}", user.vanished);
    assert!(close(user.halved[0], 7.0) && close(user.halved[1], 8.0), "{:?}", user.halved);
    // It is system time, and goes with it.
    assert!(close(system.vanished[0], 8.0) && close(system.halved[0], 8.5), "{system:?}");
    assert!(profile.forecast.basis.contains("Observing took at most 1.00 s of it"), "{}", profile.forecast.basis);
    // Nothing more is gained by a change: without observing, it takes less before as well.
    assert!(close(user.speed_up.unwrap(), 10.0 / 6.0));
    // Programs also run for what others do: there is no more of it in the run than system time.
    assert!(close(row(&observed(3.0, None, sort()), C::CpuUser).vanished[0], 4.0));
    for none in [0.0, f64::NAN, -1.0] {
        assert!(close(row(&observed(none, None, sort()), C::CpuUser).vanished[0], 6.0), "{none}");
    }
    assert!(observed(0.006, None, sort()).forecast.basis.contains("Observing took"));
    assert!(!observed(0.004, None, sort()).forecast.basis.contains("Observing took"));
    // What the user measured, and a window that is no execution.
    assert!(close(row(&observed(0.1, Some(10.0), sort()), C::CpuUser).vanished[0], 6.0));
    assert!(close(row(&observed(0.1, None, None), C::CpuUser).vanished[0], 6.0));
}
