use std::io::Cursor;

use super::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/fixtures/perf/{name}.data", env!("CARGO_MANIFEST_DIR"));
    #[expect(clippy::disallowed_methods, reason = "a fixture, not the host")]
    std::fs::read(path).unwrap()
}

fn read(bytes: &[u8]) -> Result<Recorded, PerfDataError> {
    Recorded::read(&mut Cursor::new(bytes))
}

fn counted(recorded: &Recorded) -> u64 {
    let crowded: u64 = recorded.crowded.iter().map(|sum| sum.count).sum();
    recorded.sums.values().map(|sum| sum.count).sum::<u64>() + crowded
}

#[test]
fn files_and_streams_are_read_with_all_their_samples() {
    for (name, samples, events) in [("chains", 63, 1), ("no-chains", 46, 1), ("stream", 78, 1), ("two-events", 86, 2)] {
        let recorded = read(&fixture(name)).unwrap();
        assert_eq!((recorded.samples(), counted(&recorded)), (samples, samples), "{name}");
        assert_eq!((recorded.known.events.len(), recorded.damaged, recorded.lost()), (events, 0, 0), "{name}");
        assert!(recorded.notes.is_empty(), "{name}: {:?}", recorded.notes);
        assert!(recorded.names.numbers.contains_key("split"), "{name}");
        assert!((0.05..3.0).contains(&recorded.seconds()), "{name}: {}", recorded.seconds());
        let split = recorded.objects.numbers.keys().find(|object| object.path.ends_with("/split")).unwrap();
        let known = split.build_id.as_ref().or(recorded.known.build_ids.get(&split.path));
        // perf record writes no build ids into a stream.
        assert_eq!(known.map(Vec::len), (name != "stream").then_some(20), "{name}");
    }
}

#[test]
fn a_file_that_is_cut_gives_what_it_has_and_says_so() {
    for name in ["chains", "stream"] {
        let whole = fixture(name);
        let cut = read(&whole[..whole.len() * 6 / 10]).unwrap();
        assert!((1..78).contains(&cut.samples()), "{name}: {}", cut.samples());
        assert!(cut.notes.iter().any(|note| note.contains("cut off or damaged")), "{name}: {:?}", cut.notes);
    }
}

#[test]
fn a_file_whose_recorder_was_killed_is_read_to_its_end() {
    let mut bytes = fixture("chains");
    let size = u64::from_le_bytes(bytes[48..56].try_into().unwrap());
    let offset = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    bytes[48..56].fill(0);
    bytes.truncate((offset + size) as usize);
    let killed = read(&bytes).unwrap();
    assert_eq!(killed.samples(), 63);
    assert!(killed.notes[0].contains("killed"), "{:?}", killed.notes);
}

#[test]
fn compressed_and_foreign_files_are_refused_with_the_reason() {
    assert!(matches!(read(&fixture("compressed")), Err(PerfDataError::Compressed)));
    let mut other_order = fixture("chains");
    other_order[..8].reverse();
    for foreign in [&b""[..], b"PERF", b"PERFILE2", b"PERFILE2\x10\0\0\0\0\0\0\0", b"{}", &other_order] {
        assert!(matches!(read(foreign), Err(PerfDataError::Foreign(_))), "{foreign:?}");
    }
}

/// Numbers with which sizes and offsets go wrong.
const ABSURD: [u64; 6] = [0, 1, 0x7fff_ffff_ffff_ffff, u64::MAX, u64::MAX - 7, 1 << 32];

#[test]
fn no_damage_makes_reading_panic_or_take_memory_for_what_is_not_there() {
    for name in ["chains", "no-chains", "stream", "two-events"] {
        let whole = fixture(name);
        for cut in (0..whole.len()).step_by(211) {
            drop(read(&whole[..cut]));
        }
        // Every number of the headers, and some of the records.
        for at in (0..whole.len() - 8).step_by(8).filter(|at| *at < 320 || at % 7 == 0) {
            for number in ABSURD {
                let mut damaged = whole.clone();
                damaged[at..at + 8].copy_from_slice(&number.to_le_bytes());
                if let Ok(recorded) = read(&damaged) {
                    assert!(counted(&recorded) <= recorded.samples());
                }
            }
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]
    #[test]
    fn random_changes_are_survived(changes in proptest::collection::vec((0..11_000_usize, proptest::prelude::any::<u8>()), 1..40)) {
        for name in ["chains", "stream"] {
            let mut bytes = fixture(name);
            for (at, byte) in &changes {
                if let Some(place) = bytes.get_mut(*at) {
                    *place = *byte;
                }
            }
            drop(read(&bytes));
        }
    }
}
