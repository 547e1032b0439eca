//! What is taken from beside a short time, and what is not.

use super::super::tests::{Host, level, whole};
use super::*;
use rdiag_history::Block;

/// Capacities of a block, once a minute.
const MINUTES: [f64; 10] = [0.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 420.0, 480.0, 540.0];

/// A block that begins at some second, with the swap space that was used, by minute: none where there was none.
fn swapping(host: &Host, at: f64, used: impl Fn(usize) -> Option<f64>) -> Block {
    let values = (0..MINUTES.len()).map(|minute| used(minute).map(Number::Real)).collect();
    host.block(at, 595.0, [("swaps", MINUTES.to_vec(), vec![level("swaps.used", Some("/swap"), values)])])
}

fn times(window: &Window, id: &str) -> Vec<f64> {
    window.collectors[id].times.iter().map(|time| time.round()).collect()
}

fn first(window: &Window, id: &str) -> Vec<Option<f64>> {
    let series = window.collectors[id].series.first();
    series.map_or(Vec::new(), |series| series.values.iter().map(|value| value.map(Number::as_f64)).collect())
}

#[test]
fn what_was_read_last_before_a_time_holds_in_it_and_keeps_its_age() {
    let host = Host::new();
    let (window, notes) = host.past(vec![swapping(&host, 0.0, |minute| Some(minute as f64))], 100.0, 110.0);
    assert_eq!((times(&window, "swaps"), first(&window, "swaps")), (vec![-40.0], vec![Some(1.0)]));
    let note = "Of 1 source that the recorder reads once a minute or less often, the last reading before this time is \
                judged, 40.0 s old at most; \
                the findings say how old";
    assert!(notes.iter().any(|said| said == note), "{notes:?}");
    // Within the time there is one: nothing older is taken, and nothing said.
    let (window, notes) = host.past(vec![swapping(&host, 0.0, |minute| Some(minute as f64))], 100.0, 130.0);
    assert_eq!((times(&window, "swaps"), first(&window, "swaps")), (vec![20.0], vec![Some(2.0)]));
    assert!(!notes.iter().any(|said| said.contains("last reading before")), "{notes:?}");
}

#[test]
fn what_was_gone_at_the_last_reading_is_not_taken_from_an_older_one() {
    let host = Host::new();
    let block = swapping(&host, 0.0, |minute| (minute < 3).then_some(7.0));
    assert_eq!(first(&host.past(vec![block.clone()], 170.0, 175.0).0, "swaps"), [Some(7.0)]);
    assert!(host.past(vec![block], 190.0, 195.0).0.collectors["swaps"].series.is_empty());
}

#[test]
fn a_reading_holds_in_the_next_block_but_for_another_boot_a_sleep_and_a_quarter_of_an_hour() {
    let host = Host::new();
    let earlier = || swapping(&host, 0.0, |_| Some(7.0));
    // A recorder that reads them late in its block.
    let later = |at: f64| host.block(at, 595.0, [("swaps", vec![590.0], Vec::new())]);
    let read = |later: Block, at: f64| {
        let (window, _) = host.past(vec![earlier(), later], at, at + 10.0);
        (first(&window, "swaps"), window.collectors["swaps"].unavailable.clone())
    };
    assert_eq!(read(later(600.0), 620.0).0, [Some(7.0)]);
    let mut booted = later(600.0);
    booted.header.boot = "b".into();
    let mut slept = later(600.0);
    slept.header.boottime += 3600.0;
    slept.header.wall_micros += 3_600_000_000;
    for (later, at) in [(booted, 620.0), (slept, 4220.0), (later(1500.0), 1520.0)] {
        let (values, gap) = read(later, at);
        assert!(values.is_empty(), "{values:?}");
        let gap = gap.expect("a reason");
        assert_eq!(gap.why, "the recorder read swaps neither in this time nor in the 15.0 min before it");
        assert_eq!(gap.remedy.as_deref(), Some("ask for a longer time with --last"));
    }
}

#[test]
fn a_table_that_is_read_once_a_block_is_that_of_its_block_and_before_it_is_read_that_of_the_one_before() {
    let host = Host::new();
    let block = |at: f64, mounts: f64, mappings: Option<f64>| {
        let at_sample = |number: usize, value: Option<f64>| {
            let value = |sample| (sample == number).then_some(value).flatten().map(Number::Real);
            (0..MINUTES.len()).map(value).collect::<Vec<_>>()
        };
        host.block(
            at,
            595.0,
            [
                (
                    "kernel_tables",
                    MINUTES.to_vec(),
                    vec![level("kernel_tables.mounts", None, at_sample(0, Some(mounts)))],
                ),
                (
                    "memory_maps",
                    MINUTES.to_vec(),
                    vec![level("memory_maps.count", Some("7:9"), at_sample(1, mappings))],
                ),
            ],
        )
    };
    let blocks = || vec![block(0.0, 30.0, Some(900.0)), block(600.0, 40.0, Some(950.0))];
    let (window, _) = host.past(blocks(), 500.0, 510.0);
    assert_eq!((times(&window, "kernel_tables"), first(&window, "kernel_tables")), (vec![-500.0], vec![Some(30.0)]));
    // A sample that reads nothing lies in the time.
    let (window, _) = host.past(blocks(), 710.0, 725.0);
    assert_eq!(
        (times(&window, "kernel_tables"), first(&window, "kernel_tables")),
        (vec![-110.0, 10.0], vec![Some(40.0), None])
    );
    // Mappings are counted a minute after the block began.
    let (window, _) = host.past(blocks(), 610.0, 620.0);
    assert_eq!((times(&window, "memory_maps"), first(&window, "memory_maps")), (vec![-550.0], vec![Some(900.0)]));
    let (window, _) = host.past(blocks(), 670.0, 680.0);
    assert_eq!((times(&window, "memory_maps"), first(&window, "memory_maps")), (vec![-10.0], vec![Some(950.0)]));
    // A reading that found nothing says so, and is not passed over for an older one.
    let mut nothing = block(600.0, 40.0, None);
    let why = Unavailable::new(Reason::NotApplicable, "no process has enough");
    nothing.collectors.get_mut("memory_maps").unwrap().unavailable = Some(why.clone());
    let later = block(1200.0, 50.0, None);
    let (window, _) = host.past(vec![block(0.0, 30.0, Some(900.0)), nothing, later], 1210.0, 1220.0);
    assert_eq!(window.collectors["memory_maps"].unavailable, Some(why));
    assert!(window.collectors["memory_maps"].series.is_empty());
    // Nothing before the first block.
    let (window, _) = host.past(vec![block(0.0, 30.0, Some(900.0))], 10.0, 20.0);
    let gap = &window.collectors["memory_maps"].gaps["memory_maps."];
    assert_eq!(gap.why, "the recorder read memory_maps neither in this time nor in the 15.0 min before it");
}

#[test]
fn a_counter_has_the_readings_on_either_side_and_a_level_none_from_later() {
    let host = Host::new();
    let timeouts = |of: [u64; 3]| {
        let counted = whole("transmit_queues.timeouts", Some("eth0"), &of.map(Some));
        host.block(
            0.0,
            175.0,
            [
                ("transmit_queues", vec![0.0, 60.0, 120.0], vec![counted]),
                ("swaps", vec![60.0], vec![level("swaps.used", Some("/swap"), vec![Some(Number::Real(7.0))])]),
            ],
        )
    };
    let (window, _) = host.past(vec![timeouts([0, 5, 5])], 70.0, 80.0);
    assert_eq!(
        (times(&window, "transmit_queues"), first(&window, "transmit_queues")),
        (vec![-10.0, 50.0], vec![Some(5.0); 2])
    );
    // One within is not enough for a change.
    let (window, _) = host.past(vec![timeouts([0, 5, 5])], 50.0, 65.0);
    assert_eq!(times(&window, "transmit_queues"), [-50.0, 10.0]);
    let (window, _) = host.past(vec![timeouts([0, 5, 5])], -1.0, 30.0);
    assert_eq!(times(&window, "transmit_queues"), [0.0, 60.0]);
    assert!(window.collectors["swaps"].series.is_empty(), "a level of the time after it");
}

#[test]
fn file_systems_are_those_of_the_last_answer() {
    let host = Host::new();
    let used = [None, Some(1.0), None, Some(2.0), None].map(|value| value.map(Number::Real)).to_vec();
    let block = host.block(
        0.0,
        175.0,
        [("filesystems", vec![0.0, 5.0, 60.0, 65.0, 120.0], vec![level("filesystems.space_free", Some("/"), used)])],
    );
    // At 120 s they are asked, and have not answered.
    let (window, _) = host.past(vec![block], 118.0, 124.0);
    assert_eq!(
        (times(&window, "filesystems"), first(&window, "filesystems")),
        (vec![-53.0, 2.0], vec![Some(2.0), None])
    );
}

#[test]
fn each_collector_that_reads_once_in_a_window_is_known_as_such() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../collectors");
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.clone()];
    while let Some(place) = folders.pop() {
        #[expect(clippy::disallowed_methods, reason = "the source tree")]
        for entry in std::fs::read_dir(&place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            #[expect(clippy::disallowed_methods, reason = "the source tree")]
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.contains("out.current() > 0") {
                let own = path.strip_prefix(&folder).unwrap().iter().next().unwrap().to_string_lossy();
                found.insert(own.trim_end_matches(".rs").to_owned());
            }
        }
    }
    let known: BTreeSet<String> =
        NOT_EACH.iter().filter_map(|(prefix, _)| prefix.split_once('.')).map(|(id, _)| id.to_owned()).collect();
    found.insert("filesystems".to_owned());
    assert_eq!(found, known);
}
