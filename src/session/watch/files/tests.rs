//! The folder of the recorder, file by file.

use super::*;
use rdiag_history::{Resource, read_incidents};

fn files(place: &Path, keep: u64) -> Files {
    files_that_tell(place, keep, &ThinningCost::default())
}

fn files_that_tell(place: &Path, keep: u64, cost: &ThinningCost) -> Files {
    let folder = Folder::keeping(place).unwrap();
    Files::new(folder, (keep, 60.0, cost.clone()), Vec::new(), Arc::default())
}

fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_oldest_blocks_go_before_a_new_one_is_written() {
    let place = tempfile::tempdir().unwrap();
    let mut files = files(place.path(), 1000);
    for second in 0..7 {
        files.begin(b"head").unwrap();
        files.append(b"sample").unwrap();
        files.block(1000 + second, &[7; 300]).unwrap();
        let total: u64 = files.folder.list().unwrap().iter().map(|file| file.bytes).sum();
        assert!(total <= 1000, "{total}");
    }
    assert_eq!(names(place.path()), ["0000000005-1004.rdh", "0000000006-1005.rdh", "0000000007-1006.rdh"]);
    let refused = files.block(2000, &[0; 1001]).unwrap_err().to_string();
    assert!(refused.contains("the folder may take 1000 B"), "{refused}");
    assert_eq!(names(place.path()).len(), 3, "nothing is removed for what does not fit");
}

fn incident(second: i64) -> Incident {
    Incident {
        wall_micros: second * 1_000_000,
        resource: Resource::Memory,
        rule: None,
        share: 0.2,
        at_least: false,
        seconds: 5.0,
        pinned: true,
        drilled: true,
        note: None,
    }
}

#[test]
fn an_incident_keeps_its_blocks_and_its_drill_down_within_the_limit_and_its_end_is_said() {
    let place = tempfile::tempdir().unwrap();
    let mut files = files(place.path(), 4000);
    let block = |at: i64, files: &mut Files| files.block(at * 600, &[7; 300]).unwrap();
    (0..3).for_each(|at| block(at, &mut files));
    files.enter(incident(1700)).unwrap();
    files.drilled(1_700_000_000, Ok(vec![1; 200])).unwrap();
    files.drilled(5, Ok(vec![1; 200])).unwrap();
    (3..30).for_each(|at| block(at, &mut files));
    let kept = names(place.path());
    for name in ["0000000002-600.rdh", "0000000003-1200.rdh", "0000000004-1800.rdh", "incident-1700.json.gz"] {
        assert!(kept.contains(&name.to_owned()), "{name}: {kept:?}");
    }
    assert!(!kept.contains(&"0000000001-0.rdh".to_owned()) && !kept.contains(&"incident-0.json.gz".to_owned()));
    let total: u64 = files.folder.list().unwrap().iter().map(|file| file.bytes).sum();
    assert!(total <= 4000 + 300, "{total}");
    // Another one is more than half: the older one loses its pin.
    files.enter(incident(29 * 600)).unwrap();
    files.drilled(17_400_000_000, Ok(vec![1; 200])).unwrap();
    (30..45).for_each(|at| block(at, &mut files));
    let kept = names(place.path());
    assert!(!kept.contains(&"0000000003-1200.rdh".to_owned()) && !kept.contains(&"incident-1700.json.gz".to_owned()));
    assert!(kept.contains(&"0000000030-17400.rdh".to_owned()), "{kept:?}");
    let mut said = std::mem::take(&mut *files.said.lock().unwrap());
    said.retain(|text| !text.starts_with("thinning an old block: "));
    let begin = |start: &str| said.iter().filter(|text| text.starts_with(start)).count();
    assert_eq!(begin("the incident of 1970-01-01T00:28:20Z is pinned no longer: the folder may take "), 1, "{said:?}");
    assert_eq!((begin("the drill-down has ended: rdiag analyze /"), said.len()), (2, 3), "{said:?}");
    let (list, damage) = read_incidents(&files.folder.read(INCIDENTS, 10_000).unwrap()).unwrap();
    assert!(damage.is_empty());
    assert_eq!(list.iter().map(|one| (one.second(), one.pinned)).collect::<Vec<_>>(), [(1700, false), (17_400, true)]);
}

#[test]
fn a_drill_down_that_failed_or_is_too_large_is_entered_with_the_reason() {
    let place = tempfile::tempdir().unwrap();
    let mut files = files(place.path(), 1000);
    files.enter(incident(100)).unwrap();
    files.enter(incident(200)).unwrap();
    assert_eq!(files.drilled(100_000_000, Err("exit code 3".into())).unwrap_err().to_string(), "exit code 3");
    assert!(files.drilled(200_000_000, Ok(vec![1; 251])).is_err());
    let (list, _) = read_incidents(&files.folder.read(INCIDENTS, 10_000).unwrap()).unwrap();
    assert_eq!(list[0].note.as_deref(), Some("exit code 3"));
    assert_eq!(list[1].note.as_deref(), Some("it has 251 B, and one may take 250 B"));
    assert_eq!(names(place.path()), [INCIDENTS]);
}

#[test]
fn names_tell_when_a_block_begins() {
    assert_eq!(begins("0000000005-1004.rdh"), Some(1004));
    assert_eq!(begins("0000000005--7.rdh"), Some(-7));
    for other in ["tail", "lock", "x.rdh", "5-x.rdh", "5-7", ""] {
        assert_eq!(begins(other), None, "{other}");
    }
}

#[test]
fn a_tail_that_takes_more_than_its_room_ends_and_says_so_once() {
    let place = tempfile::tempdir().unwrap();
    let mut files = files(place.path(), 100);
    files.begin(&[1; 60]).unwrap();
    assert!(files.append(&[1; 60]).unwrap_err().to_string().contains("1 % of the free space"));
    assert!(files.append(&[1; 60]).is_ok(), "it is said once");
    assert_eq!(files.folder.read(TAIL, 1000).unwrap().len(), 60);
}

#[test]
fn what_an_earlier_recorder_left_becomes_a_block_or_is_named() {
    let place = tempfile::tempdir().unwrap();
    let mut files = files(place.path(), 1 << 20);
    std::fs::write(place.path().join(TAIL), "no tail").unwrap();
    assert!(files.recover().unwrap_err().to_string().contains("the tail is lost: it has no header"));
    assert!(names(place.path()).is_empty());
    assert!(files.recover().is_ok(), "there is nothing");
}

/// A block of a minute and a half, with figures that take some room.
fn real(second: i64) -> Vec<u8> {
    use rdiag_history::{framed, read_block};
    use rdiag_model::recording::{CollectorRecord, Number, Series};
    use rdiag_model::{RawUnit, SeriesKind};
    let (mut block, _) = read_block(&framed(0, b"")).unwrap();
    (block.header.wall_micros, block.header.seconds) = (second * 1_000_000, 85.0);
    let series = |name: u64| Series {
        name: format!("series.{name}"),
        instance: None,
        kind: SeriesKind::Counter,
        unit: RawUnit::Count,
        values: (1..19_u64).map(|at| Some(Number::Whole(at * (name + 3) * (second as u64 + at * 7919)))).collect(),
    };
    let times = (0..18).map(|at| f64::from(at) * 5.0).collect();
    let record = CollectorRecord { times, series: (0..60).map(series).collect(), ..CollectorRecord::default() };
    block.collectors.insert("figures".into(), record);
    write_block(&block)
}

/// The seconds between samples of each block that is there.
fn tiers(files: &Files) -> Vec<(i64, f64)> {
    let blocks = files.folder.list().unwrap().into_iter().filter_map(|file| Some((begins(&file.name)?, file.name)));
    let every = |name: &str| header_of(&files.folder.read_start(name, HEADER).unwrap()).unwrap().interval_seconds;
    blocks.map(|(second, name)| (second, every(&name))).collect()
}

#[test]
fn old_blocks_are_thinned_before_any_is_removed_and_those_of_an_incident_are_not() {
    let place = tempfile::tempdir().unwrap();
    let size = real(0).len() as u64;
    let mut files = files(place.path(), size * 10);
    (0..8).for_each(|at| files.block(at * 600, &real(at * 600)).unwrap());
    files.enter(incident(1500)).unwrap();
    (8..14).for_each(|at| files.block(at * 600, &real(at * 600)).unwrap());
    let kept = tiers(&files);
    let fine: Vec<i64> = kept.iter().filter(|(_, every)| *every < 60.0).map(|(second, _)| *second).collect();
    for pinned in [600, 1200, 1800] {
        assert!(fine.contains(&pinned), "{kept:?}");
    }
    assert!(kept.len() > 10 && kept[0] == (0, 60.0), "more than fit as they were recorded: {kept:?}");
    assert!(fine.contains(&7800) && fine.len() < kept.len(), "{kept:?}");
    let total: u64 = files.folder.list().unwrap().iter().map(|file| file.bytes).sum();
    assert!(total <= size * 10, "{total}");
    // Another recorder goes on where this one was; in the end the oldest go.
    let mut files = self::files(place.path(), size * 10);
    (14..60).for_each(|at| files.block(at * 600, &real(at * 600)).unwrap());
    let kept = tiers(&files);
    assert!(kept[0].0 > 0 && kept[0].1 == 60.0 && kept.last() == Some(&(59 * 600, 5.0)), "{kept:?}");
    let fine: u64 = kept.iter().filter(|(_, every)| *every < 60.0).count() as u64;
    assert!((3..=6).contains(&fine), "half of the space: {kept:?}");
    assert!(files.said.lock().unwrap().is_empty());
}

#[test]
fn the_cpu_time_of_thinning_is_told_and_that_of_writing_is_not() {
    let place = tempfile::tempdir().unwrap();
    let size = real(0).len() as u64;
    let cost = ThinningCost::default();
    let mut files = files_that_tell(place.path(), size * 10, &cost);
    (0..4).for_each(|at| files.block(at * 600, &real(at * 600)).unwrap());
    assert_eq!(cost.cpu_seconds(), 0.0);
    let before = rdiag_kernel::host::thread_usage();
    (4..14).for_each(|at| files.block(at * 600, &real(at * 600)).unwrap());
    let all = rdiag_kernel::host::thread_usage() - before;
    assert!(tiers(&files)[0].1 == 60.0 && cost.cpu_seconds() > 0.0 && cost.cpu_seconds() < all, "{cost:?} of {all}");
}

#[test]
fn what_cannot_be_thinned_goes_as_it_is_and_is_named_once() {
    let place = tempfile::tempdir().unwrap();
    let mut files = files(place.path(), 1000);
    (0..7).for_each(|at| files.block(at, &[7; 300]).unwrap());
    let said = std::mem::take(&mut *files.said.lock().unwrap());
    assert!(said.iter().all(|why| why.starts_with("thinning an old block: 00000000")), "{said:?}");
    assert!(said.len() <= 6 && names(place.path()).len() == 3, "{said:?}");
    std::fs::write(place.path().join(".rdiag-0123"), "left by a kill").unwrap();
    files.recover().unwrap();
    assert_eq!(names(place.path()).len(), 3);
}

/// A block with names of so many characters, which stay when it is thinned.
fn with_names(block: &[u8], characters: usize) -> Vec<u8> {
    let (mut block, _) = rdiag_history::read_block(block).unwrap();
    let mut state = 7_u64;
    let name: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 33) as u8 % 26)
    })
    .take(characters)
    .collect();
    let record = block.collectors.get_mut("figures").unwrap();
    record.labels.insert("disk".into(), [("name".to_owned(), name)].into());
    write_block(&block)
}

/// A measured block of ten minutes, as it was recorded and with a sample a minute (benches/README.md), and what is kept if nothing is said.
const FINE_BYTES: u64 = 85_471;
const THIN_BYTES: u64 = 44_907;
const KEPT_BYTES: u64 = 256_000_000;
const BLOCKS_A_DAY: u64 = 144;
const _: () = assert!(BLOCKS_A_DAY * THIN_BYTES <= 12_000_000, "a day at a sample a minute");

#[test]
fn two_days_at_5_s_and_weeks_at_a_sample_a_minute_are_kept_in_what_is_kept_by_default() {
    // Each block here stands for twenty of those, in a folder that has room for as many, and thins no better than they do.
    const STANDS_FOR: u64 = 20;
    let measured = THIN_BYTES as f64 / FINE_BYTES as f64;
    let thins_to = |names: usize| {
        let fine = with_names(&real(600), names);
        rdiag_history::thin_block(&fine, 60.0).unwrap().unwrap().len() as f64 / fine.len() as f64
    };
    let names = (0..).step_by(100).find(|names| thins_to(*names) >= measured).unwrap();
    let size = with_names(&real(600), names).len() as u64;
    let place = tempfile::tempdir().unwrap();
    let keep = KEPT_BYTES / FINE_BYTES / STANDS_FOR * size;
    let mut files = files(place.path(), keep);
    for at in 0..(40 * BLOCKS_A_DAY / STANDS_FOR) as i64 {
        files.block(at * 12_000, &with_names(&real(at * 12_000), names)).unwrap();
    }
    let kept = tiers(&files);
    let total: u64 = files.folder.list().unwrap().iter().map(|file| file.bytes).sum();
    assert!(total <= keep, "{total} of {keep}");
    let fine = kept.iter().rev().take_while(|(_, every)| *every < 60.0).count() as u64;
    let days = |blocks: u64| (blocks * STANDS_FOR) as f64 / BLOCKS_A_DAY as f64;
    assert!(days(fine) >= 2.0, "{} days at 5 s", days(fine));
    let coarse = kept.len() as u64 - fine;
    assert!(days(coarse) >= 14.0, "{} days at a minute before them", days(coarse));
}
