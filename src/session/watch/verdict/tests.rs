//! What is critical of captured hosts, when that is news, and what may be spent on it.

use super::*;
use crate::library::resolve;
use crate::testing;
use rdiag_model::Recording;

/// Those that every rule of the use-method can be judged on.
fn captured() -> Vec<(String, Recording)> {
    let is_whole = |(_, recording): &(String, Recording)| recording.playbook == "use-method";
    testing::captured().into_iter().filter(is_whole).collect()
}

fn verdict(minute: f64, interval: f64) -> MinuteJudge {
    let named = resolve("use-method").unwrap();
    let plan = Plan::new(&named.loaded, &named.library, &BTreeMap::new()).unwrap();
    MinuteJudge::new(Arc::new(critical_only(plan)), minute, interval)
}

fn header(recording: &Recording) -> Header {
    testing::header_of(recording, 0.0, 0.0)
}

fn critical(findings: &[Finding]) -> Vec<Key> {
    // What was before the window was news of another minute.
    let is_of_window = |finding: &&Finding| finding.seconds_before.is_none();
    let of = findings.iter().filter(|finding| finding.status == Status::Critical).filter(is_of_window);
    let mut keys: Vec<Key> = of.map(|finding| (finding.id.clone(), finding.instance.clone())).collect();
    keys.sort();
    keys
}

#[test]
fn captured_hosts_are_judged_as_by_a_run_though_processes_are_left_out() {
    let mut seen = BTreeSet::new();
    for (name, mut recording) in captured() {
        recording.windows.truncate(1);
        let mut plan = resolve("use-method").unwrap().plan_of(&recording).unwrap();
        plan.windows.truncate(1);
        let wanted = critical(&analyze(&recording, &plan).findings);
        let window = &recording.windows[0];
        let collectors = window.collectors.iter().map(|(id, record)| (id.clone(), since(record, -1.0))).collect();
        let verdict = verdict(window.seconds, window.interval_seconds);
        let findings = verdict.findings(&header(&recording), collectors, (-1.0, window.seconds + 1.0)).unwrap();
        assert_eq!(critical(&findings), wanted, "{name}");
        seen.extend(wanted.into_iter().map(|(rule, _)| rule));
    }
    for rule in
        ["filesystem.utilization", "filesystem.errors.hung", "cgroup.errors.oom", "cgroup.saturation.throttling"]
    {
        assert!(seen.contains(rule), "{seen:?}");
    }
}

/// A finding of a captured host, as if it were one of this rule.
fn findings_of(rule: &str) -> impl Fn(Option<&str>, Status) -> Finding {
    let (_, recording) = captured().swap_remove(0);
    let plan = resolve("use-method").unwrap().plan_of(&recording).unwrap();
    let finding = Finding { id: rule.to_owned(), ..analyze(&recording, &plan).findings.swap_remove(0) };
    move |instance, status| Finding { instance: instance.map(str::to_owned), status, ..finding.clone() }
}

#[test]
fn a_rule_that_was_critical_at_the_beginning_is_no_news_until_it_fell() {
    let of = findings_of("filesystem.utilization");
    let mut verdict = verdict(60.0, 5.0);
    let mut news = |root: Status, var: Status| {
        let news = verdict.news(&[of(Some("/"), root), of(Some("/var"), var)]);
        news.into_iter().map(|one| one.key.1.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(news(Status::Critical, Status::Ok), [""; 0], "at the beginning");
    assert_eq!(news(Status::Critical, Status::Warning), [""; 0], "it is so all the time");
    assert_eq!(news(Status::Critical, Status::Critical), ["/var"], "another one fills up");
    assert_eq!(news(Status::Critical, Status::Critical), [""; 0], "it was told");
    assert_eq!(news(Status::Unknown, Status::Info), [""; 0]);
    assert_eq!(news(Status::Critical, Status::Critical), ["/var"], "the other one was not seen to fall");
    assert_eq!(news(Status::Warning, Status::Critical), [""; 0]);
    assert_eq!(news(Status::Critical, Status::Critical), ["/"]);
}

#[test]
fn what_could_not_be_judged_is_as_it_was_and_a_device_that_is_gone_is_not() {
    let of = findings_of("filesystem.utilization");
    let mut verdict = verdict(60.0, 5.0);
    let full = [of(Some("/mnt"), Status::Critical), of(Some("/"), Status::Ok)];
    assert!(verdict.news(&full).is_empty());
    // Capacities are read once a minute, and some once in a block.
    assert!(verdict.news(&[of(None, Status::Unknown)]).is_empty() && verdict.news(&[]).is_empty());
    assert!(verdict.news(&full).is_empty(), "it was not seen to fall");
    assert!(verdict.news(&[of(Some("/"), Status::Ok)]).is_empty());
    let news = verdict.news(&full);
    assert_eq!(news.len(), 1, "it was mounted again: {news:?}");
    verdict.forget(&news[0].key);
    assert_eq!(verdict.news(&full), news, "it was no incident then");
}

#[test]
fn each_minute_of_a_block_is_judged_once_when_it_is_over() {
    let (_, recording) = captured().swap_remove(0);
    let header = header(&recording);
    let judged = |verdict: &mut MinuteJudge, intervals: usize, spare| {
        verdict.judge(&InMaking { header: &header, slots: &[], intervals }, spare);
        verdict.purse.in_a_row
    };
    let mut of_5_s = verdict(60.0, 5.0);
    for _ in 0..12 {
        assert_eq!(judged(&mut of_5_s, 12, None), 0, "what recording leaves is not known yet");
    }
    let counts: Vec<u32> = (1..=120).map(|intervals| judged(&mut of_5_s, intervals, Some(0.5))).collect();
    assert_eq!((counts[10], counts[11], counts[22], counts[23], counts[119]), (0, 1, 1, 2, 10));
    // The next block, on a host that is too slow for some samples.
    let counts = [1, 5, 11, 13, 25, 40].map(|intervals| judged(&mut of_5_s, intervals, Some(0.5)));
    assert_eq!(counts, [10, 10, 10, 11, 12, 13]);
    let mut of_30_s = verdict(60.0, 30.0);
    let counts: Vec<u32> = (1..=20).map(|intervals| judged(&mut of_30_s, intervals, Some(0.5))).collect();
    assert_eq!((of_30_s.seconds, counts[4], counts[19]), (180.0, 0, 3), "many rules ask for three intervals in a row");
}

#[test]
fn the_newest_samples_of_a_record_are_judged_and_no_others() {
    let (_, recording) = captured().swap_remove(0);
    let record = &recording.windows[0].collectors["cpu_stat"];
    let whole = since(record, -1.0);
    assert_eq!(whole, CollectorRecord { processes: Vec::new(), ..record.clone() });
    let from = record.times[3] - 1e-3;
    let part = since(record, from);
    assert_eq!(part.times, record.times[3..]);
    let values = |record: &CollectorRecord| record.series.iter().map(|one| one.values.clone()).collect::<Vec<_>>();
    assert_eq!(values(&part), values(record).into_iter().map(|all| all[3..].to_vec()).collect::<Vec<_>>());
    let none = since(record, 1e9);
    assert!(none.times.is_empty() && none.series.is_empty());
}

#[test]
fn judging_takes_what_recording_leaves_and_is_left_out_beyond_that() {
    let mut purse = Purse::new();
    for _ in 0..5 {
        assert_eq!(purse.take_in(0.1), Ok(()));
        purse.pay(0.04);
    }
    // Less than it costs: some are left out then, which is said once.
    let (mut paid, mut told) = (0, Vec::new());
    for _ in 0..30 {
        match purse.take_in(0.015) {
            Ok(()) => {
                purse.pay(0.04);
                paid += 1;
            }
            Err(why) => told.extend(why),
        }
    }
    assert!((10..=12).contains(&paid), "30 times 15 ms are 11 times 40 ms: {paid}");
    let why = "rules do not judge what was recorded just now: that takes 40.0 ms of CPU time, and recording leaves 15.0 ms of --budget";
    assert_eq!(told, [why]);
    // Recording alone takes more than the budget.
    let mut purse = Purse::new();
    assert!(purse.take_in(-0.2).is_err_and(|told| told.is_some_and(|told| told.contains("leaves 0 s of"))));
    assert_eq!(purse.take_in(-0.2), Err(None));
    // Said anew when it was well for long.
    for _ in 0..CALM {
        assert_eq!(purse.take_in(1.0), Ok(()));
        purse.pay(0.02);
    }
    assert!(purse.take_in(0.0).is_err_and(|told| told.is_some()));
}
